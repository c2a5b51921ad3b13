"""Lines → words (pre-tokens): hide user tokens, normalise the text, and split it. Also, units → their words.

A unit is the text between two breaks; breaks are spaces, or all white space. The batch encoder splits and encodes each
distinct unit once.

    line    "the  lowest"
    units   "the", "lowest"
    words   one or more for each unit

If the pattern or normaliser may look beyond a unit, or a user token contains white space, each word is a unit instead.
A unit is irregular if its words may depend on neighbouring text, for example if it ends with a no-break space; its line
is then split whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from volt.encode.arrays import Bytes, Flags, Longs, sizes_of
from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE
from volt.text.normalizer import check_text
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN, Placeholders, stand_ins
from volt.text.white_space import SPLIT_SPACE, WHITE_SPACE, select_ascii, build_bit_mask, shorten_class
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl

    from volt.text.patterns.split_points import SplitPoints
    from volt.text.patterns.word_cutter import WordCutter


_SHORT = 10_000  # characters


def split_lines(vocabulary: Vocabulary, lines: Sequence[str]) -> list[list[str]]:
    """Return the words of each line. Raises CorpusError if a line contains a lone surrogate."""
    for line in lines:
        check_text(line)
    if _splits_as_python(vocabulary):
        return [line.split() for line in lines]
    rows = _spaced_words(vocabulary, lines)
    return [words.split(" ") if words else [] for words in rows]


def own_characters(vocabulary: Vocabulary, texts: Sequence[str]) -> Placeholders:
    """Return placeholders for the texts' own private characters; without user tokens, an empty result."""
    if vocabulary.special.user:
        return stand_ins(texts)
    return Placeholders({})


def _cutter(vocabulary: Vocabulary) -> WordCutter | None:
    """Return the splitter for a vocabulary's pattern and user tokens; None if Polars splits lines."""
    cutter = vocabulary.pretokenizer.cutter
    if cutter is None or vocabulary.special.user:
        return cutter
    return cutter.without_user_tokens


def _is_plain(vocabulary: Vocabulary) -> bool:
    return vocabulary.normalizer.name == "none" and not vocabulary.special.user


def _splits_as_python(vocabulary: Vocabulary) -> bool:  # then Polars need not be imported
    return vocabulary.pretokenizer.name == "whitespace" and _is_plain(vocabulary)


def _spaced_words(vocabulary: Vocabulary, lines: Sequence[str]) -> list[str]:
    """Return each line with its words separated by single spaces."""
    cutter = _cutter(vocabulary)
    if cutter is not None and _is_plain(vocabulary):
        return cutter.cut_texts(lines)

    own = own_characters(vocabulary, lines)
    if own.of_text:
        words = _polars_words(vocabulary, own.put(lines)).to_list()
        restored = own.restored(words, is_bytes=vocabulary.pretokenizer.is_bytes)
        return list(map(" ".join, restored))

    if cutter is None:
        return _polars_words(vocabulary, lines).list.join(" ").to_list()
    if vocabulary.normalizer.name == "none" and _is_short(lines):  # Polars need not be imported
        return cutter.cut_texts(list(map(vocabulary.special.hide_text, lines)))
    return cutter.cut_texts(_normal(vocabulary, lines).to_list())


def word_lines(
    vocabulary: Vocabulary, text: bytes, *, separator: int, strips_return: bool = False
) -> memoryview:
    r"""Return the words of UTF-8 lines, separated by spaces, with 0xFF after each line.

    Raises UnicodeDecodeError if the text is not UTF-8.

    >>> bytes(word_lines(Vocabulary(merges=(), tokens=("a",)), b"a  b\n\nc", separator=10))
    b'a b\xff\xffc\xff'
    """
    mark = bytes([separator])
    cutter = _cutter(vocabulary)
    if cutter is not None and _is_plain(vocabulary):
        text.replace(mark, b"\n").decode()
        return cutter.cut_lines(text, separator=separator, strips_return=strips_return).data

    lines = text.removesuffix(mark).split(mark) if text else []
    if strips_return:
        lines = [line.removesuffix(b"\r") for line in lines]
    words = _spaced_words(vocabulary, [line.decode() for line in lines])
    return memoryview(b"".join(line.encode() + b"\xff" for line in words))


def _polars_words(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    import polars as pl

    words = vocabulary.pretokenizer.extract(pl.col("text"), hidden=bool(vocabulary.special.user))
    return _normal(vocabulary, lines).to_frame().select(words).to_series()


def _normal(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    import polars as pl

    about_to_use_polars()
    text = pl.col("text")
    if _is_short(lines):
        lines = list(map(vocabulary.special.hide_text, lines))
    else:
        text = vocabulary.special.hide(text)
    frame = pl.DataFrame({"text": lines}, schema={"text": pl.String})
    return frame.select(vocabulary.normalizer.apply(text)).to_series()


def _is_short(lines: Sequence[str]) -> bool:
    """Check whether to search for each user token; for longer text, Polars builds an automaton of all tokens."""
    return len(lines) == 1 and len(lines[0]) < _SHORT


@dataclass(frozen=True, slots=True)
class UnitRule:
    """The rule that splits a line into units.

    breaks: bit b is set if byte b ≤ 32 separates units
    clinging: like `breaks`, for bytes that separate units only after some characters
    keeps_breaks: whether a break is part of the unit after it
    marks_first: whether a line's first unit is split differently from the others
    words: whether each word is a unit
    """

    breaks: int
    clinging: int = 0
    keeps_breaks: bool = False
    marks_first: bool = False
    words: bool = False

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> UnitRule:
        pretokenizer = vocabulary.pretokenizer
        points = split_points_of(vocabulary)
        if points is not None:
            return cls(points.break_mask, points.clinging_mask, keeps_breaks=True)
        if not vocabulary.special.spaced:
            if pretokenizer.name == "whitespace":
                return cls(build_bit_mask(select_ascii(SPLIT_SPACE)))
            if pretokenizer.name in ("gpt2", "bytes"):
                return cls(build_bit_mask(select_ascii(WHITE_SPACE)), keeps_breaks=True)
            if pretokenizer.dummy_prefix:
                is_whole = pretokenizer.name.startswith("metaspace-line")
                breaks = b"" if is_whole else b" "
                return cls(build_bit_mask(breaks), keeps_breaks=True, marks_first=True)
        return cls(build_bit_mask(b" "), words=True)


def split_points_of(vocabulary: Vocabulary) -> SplitPoints | None:
    """Return the split points of the pre-tokenizer's own pattern; None if it has none, or words are units."""
    special = vocabulary.special
    cutter = vocabulary.pretokenizer.cutter
    if cutter is None or not vocabulary.pretokenizer.has_own_pattern:
        return None
    is_split_whole = special.spaced or (special.user and cutter.matches_only)
    if vocabulary.normalizer.name != "none" or is_split_whole:
        return None
    points = cutter.split_points
    if points and special.user:
        return points.with_ends_inside()
    return points


@dataclass(frozen=True, slots=True)
class UnitWords:
    """The words of units.

    text: all words, concatenated
    lengths: (n_words,) int64, the characters of each word
    n_words: (n_units,) int64, the number of words of each unit
    irregular: (n_units,) bool
    """

    text: str
    lengths: Longs
    n_words: Longs
    irregular: Flags


def unit_words(vocabulary: Vocabulary, data: bytes, ends: Longs, first: Bytes) -> UnitWords:
    """Split units. data: all units;  ends: where each unit ends;  first: 1 for the first unit of a line"""
    text = data.decode()
    starts_character = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    if not starts_character[ends[:-1]].all():  # a unit ends inside a character: raise its error
        for start, end in pairwise([0, *ends.tolist()]):
            data[start:end].decode()

    ends = np.cumsum(starts_character)[ends - 1]  # in characters
    regular = np.zeros(len(ends), bool)
    if UnitRule.of(vocabulary).words:
        n_words = np.ones(len(ends), np.int64)
        return UnitWords(text, sizes_of(ends), n_words, regular)

    units = [text[start:end] for start, end in pairwise([0, *ends.tolist()])]
    if not _splits_as_python(vocabulary):
        return _cut_units(vocabulary, units, first)
    words_of_units = [unit.split() for unit in units]
    words = list(chain.from_iterable(words_of_units))
    lengths = np.array(list(map(len, words)), np.int64)
    n_words = np.array(list(map(len, words_of_units)), np.int64)
    return UnitWords("".join(words), lengths, n_words, regular)


def _cut_units(vocabulary: Vocabulary, units: list[str], first: Bytes) -> UnitWords:
    import polars as pl

    about_to_use_polars()
    rule = UnitRule.of(vocabulary)
    special = vocabulary.special
    own = own_characters(vocabulary, units)
    frame = pl.DataFrame(
        {"unit": own.put(units), "first": first.astype(bool)},
        schema={"unit": pl.String, "first": pl.Boolean},
    )
    text = special.hide(pl.col("unit"))
    frame = frame.with_columns(normal=vocabulary.normalizer.apply(text))

    irregular = _irregular(vocabulary.pretokenizer, rule)
    strips = "".join(special.stripping)
    if strips:  # these user tokens take white space of neighbouring units
        irregular |= pl.col("normal").str.contains(f"[{strips}]")

    frame = frame.select(words=_words(vocabulary, rule), irregular=irregular)
    if own.of_text:
        rows = frame["words"].to_list()
        restored = own.restored(rows, is_bytes=vocabulary.pretokenizer.is_bytes)
        series = pl.Series("words", restored, dtype=pl.List(pl.String))
        frame = frame.with_columns(series)
    words = frame["words"].explode().drop_nulls()
    return UnitWords(
        words.str.join("").item(),
        words.str.len_chars().to_numpy().astype(np.int64),
        frame["words"].list.len().to_numpy().astype(np.int64),
        frame["irregular"].to_numpy(),
    )


def _words(vocabulary: Vocabulary, rule: UnitRule) -> pl.Expr:
    """Return the words of column `normal`. If `marks_first`, split others after a dummy word; drop this word."""
    import polars as pl

    normal = pl.col("normal")
    hidden = bool(vocabulary.special.user)
    if not rule.marks_first:
        return vocabulary.pretokenizer.extract(normal, hidden=hidden)

    first = pl.col("first")
    text = pl.when(first).then(normal).otherwise(pl.lit("x") + normal)
    words = vocabulary.pretokenizer.extract(text, hidden=hidden)
    return pl.when(first).then(words).otherwise(words.list.slice(1))


def _irregular(pretokenizer: PreTokenizer, rule: UnitRule) -> pl.Expr:
    """Check whether a unit is irregular: it ends with a space that is not a break or a user token, or contains "▁"."""
    import polars as pl

    breaks = select_ascii(WHITE_SPACE)
    if pretokenizer.has_own_pattern:  # others break at all white space
        breaks = bytes(byte for byte in breaks if rule.breaks >> byte & 1)
    normal = pl.col("normal")
    ends_at_break = pl.col("unit").str.contains(f"[{shorten_class(breaks.decode())}]$")
    ends_with_space = normal.str.contains(r"\s$") & ~ends_at_break
    if pretokenizer.is_bytes:
        return ends_with_space
    if pretokenizer.name in ("gpt2", "unicode") or pretokenizer.has_own_pattern:
        return ends_with_space | normal.str.contains(SPACE, literal=True)

    ends = []
    if pretokenizer.name.startswith("metaspace-runs"):
        ends.append(f"[ {SPACE}]$")
    if pretokenizer.of_lines != pretokenizer:
        ends.append(f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]$")
    if ends:
        return normal.str.contains("|".join(ends))
    return pl.lit(False)
