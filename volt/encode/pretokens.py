"""Lines → pre-tokens: user tokens are hidden, the text is normalised and cut. Also, units → their pre-tokens.

A unit is the text between spaces, cut once and cached for encoding and counting.

    line        "the  lowest"
    units       "the", "lowest"            breaks part them: spaces, or white space
    pre-tokens  one or more for each unit

Where a pattern or normaliser may look beyond a unit, each pre-token is a unit. Lines with an `irregular` unit, whose
neighbours could matter, as one that ends with a no-break space, are cut as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.encode.rendering import places_of
from volt.forks import about_to_use_polars
from volt.text.characters import ALPHABET, SPACE, SPLIT_SPACE, WHITE_SPACE, ascii_bytes, ranges
from volt.text.normalizer import check_text
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import Placeholders, stand_ins
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl

    from volt.text.patterns.split_points import SplitPoints
    from volt.text.patterns.splitter import WordCutter


def split_lines(vocabulary: Vocabulary, lines: Sequence[str]) -> list[list[str]]:
    """Return the pre-tokens of each line. Raises CorpusError if a line holds a lone surrogate."""
    texts = [check_text(line) for line in lines]
    if (cutter := _lone_cutter(vocabulary)) is not None:
        return [words.split(" ") if words else [] for words in cutter.cut_texts(texts)]
    own = own_characters(vocabulary, texts)
    words: list[list[str]] = _pretokens(vocabulary, own.put(texts)).to_list()
    return own.restored(words, is_bytes=vocabulary.pretokenizer.is_bytes) if own.of_text else words


def own_characters(vocabulary: Vocabulary, texts: Sequence[str]) -> Placeholders:
    """Return placeholders for the texts' private characters; none without user tokens."""
    return stand_ins(texts) if vocabulary.special.user else Placeholders({})


def cutter_of(vocabulary: Vocabulary) -> WordCutter | None:
    """Return the cutter of a vocabulary's pattern, which isolates user tokens; None if Polars cuts."""
    cutter = vocabulary.pretokenizer.cutter
    return cutter if cutter is None or vocabulary.special.user else cutter.without_user_tokens


def _lone_cutter(vocabulary: Vocabulary) -> WordCutter | None:
    is_plain = vocabulary.normalizer.name == "none" and not vocabulary.special.user
    return cutter_of(vocabulary) if is_plain else None


def joined_words(vocabulary: Vocabulary, lines: Sequence[str]) -> list[str]:
    """Return each line with its pre-tokens separated by single spaces."""
    if (cutter := _lone_cutter(vocabulary)) is not None:
        return cutter.cut_texts(lines)
    if own_characters(vocabulary, lines).of_text:
        return list(map(" ".join, split_lines(vocabulary, lines)))
    if (cutter := cutter_of(vocabulary)) is not None:
        return cutter.cut_texts(_normal(vocabulary, lines).to_list())
    return _pretokens(vocabulary, lines).list.join(" ").to_list()


def joined_lines(vocabulary: Vocabulary, text: bytes, *, separator: int, strips_return: bool = False) -> memoryview:
    r"""Return the pre-tokens of UTF-8 lines with a space between two, and 0xFF after each line.

    Raises UnicodeDecodeError for other text.

    >>> bytes(joined_lines(Vocabulary(merges=(), tokens=("a",)), b"a  b\n\nc", separator=10))
    b'a b\xff\xffc\xff'
    """
    mark = bytes([separator])
    if (cutter := _lone_cutter(vocabulary)) is not None:
        text.replace(mark, b"\n").decode()
        return cutter.cut_lines(text, separator=separator, strips_return=strips_return).data
    lines = text.split(mark)
    lines = lines if lines[-1] else lines[:-1]
    texts = [(line.removesuffix(b"\r") if strips_return else line).decode() for line in lines]
    return memoryview(b"".join(words.encode() + b"\xff" for words in joined_words(vocabulary, texts)))


def _pretokens(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    import polars as pl

    words = vocabulary.pretokenizer.extract(pl.col("text"), hidden=bool(vocabulary.special.user))
    return _normal(vocabulary, lines).to_frame().select(words).to_series()


def _normal(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    import polars as pl

    about_to_use_polars()
    texts = pl.DataFrame({"text": lines}, schema={"text": pl.String})
    return texts.select(vocabulary.normalizer.apply(vocabulary.special.hide(pl.col("text")))).to_series()


_SPACES_BEYOND_ASCII = frozenset(SPLIT_SPACE) - set(ascii_bytes(SPLIT_SPACE).decode())


@dataclass(frozen=True, slots=True)
class UnitRule:
    """The rule that parts a line into units.

    breaks: bit b is set if byte b ≤ 32 parts units
    clinging: the breaks that part units after some characters only
    keeps_breaks: whether a break belongs to the next unit
    marks_first: whether a line's first unit is cut differently
    words: whether each pre-token of a cut line is a unit
    """

    breaks: int
    clinging: int = 0
    keeps_breaks: bool = False
    marks_first: bool = False
    words: bool = False

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> UnitRule:
        pretokenizer = vocabulary.pretokenizer
        if parting := parting_of_units(vocabulary):
            return cls(parting.breaks, parting.clinging, keeps_breaks=True)
        if pretokenizer.name == "whitespace":
            return cls(_bits(ascii_bytes(SPLIT_SPACE)))
        if pretokenizer.name in ("gpt2", "bytes"):
            return cls(_bits(ascii_bytes(WHITE_SPACE)), keeps_breaks=True)
        if pretokenizer.dummy_prefix:
            breaks = b"" if pretokenizer.name.startswith("metaspace-line") else b" "
            return cls(_bits(breaks), keeps_breaks=True, marks_first=True)
        return cls(_bits(b" "), words=True)


def parting_of_units(vocabulary: Vocabulary) -> SplitPoints | None:
    """Return the split points of the pre-tokenizer's own pattern, if any."""
    cutter = vocabulary.pretokenizer.cutter if vocabulary.pretokenizer.has_own_pattern else None
    if cutter is None or vocabulary.normalizer.name != "none" or (cutter.matches_only and vocabulary.special.user):
        return None
    parting = cutter.parting
    return parting.with_ends_inside() if parting and vocabulary.special.user else parting


@dataclass(frozen=True, slots=True)
class UnitWords:
    """The pre-tokens of units.

    text: all, concatenated
    lengths: (n_words,) int64, characters of each
    n_words: (n_units,) int64, pre-tokens of each unit
    irregular: (n_units,) bool
    """

    text: str
    lengths: NDArray[np.int64]
    n_words: NDArray[np.int64]
    irregular: NDArray[np.bool_]


def unit_words(vocabulary: Vocabulary, data: bytes, ends: NDArray[np.int64], *, first: NDArray[np.uint8]) -> UnitWords:
    text, starts_character = data.decode(), (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    if not starts_character[ends[:-1]].all():  # the end of a unit splits a character: raise the error
        for start, end in pairwise([0, *ends.tolist()]):
            data[start:end].decode()
    ends = np.cumsum(starts_character)[ends - 1]  # in characters
    rule, lengths, n = UnitRule.of(vocabulary), np.diff(ends, prepend=0), len(ends)
    names = vocabulary.pretokenizer.name, vocabulary.normalizer.name
    is_plain = names == ("whitespace", "none") and not vocabulary.special.user  # str.split() gives the pre-tokens
    if rule.words or (is_plain and set(text).isdisjoint(_SPACES_BEYOND_ASCII)):
        return UnitWords(text, lengths, np.ones(n, np.int64), np.zeros(n, bool))
    if is_plain:
        split = [text[start:end].split() for start, end in pairwise([0, *ends.tolist()])]
        words = list(chain.from_iterable(split))
        sizes, counts = (np.array([len(item) for item in items], np.int64) for items in (words, split))
        return UnitWords("".join(words), sizes, counts, np.zeros(n, bool))
    simple = _simple(vocabulary, text, ends)
    bounds = zip((ends - lengths)[~simple].tolist(), ends[~simple].tolist(), strict=True)
    cut = _cut_units(vocabulary, [text[start:end] for start, end in bounds], first[~simple])
    if not simple.any():
        return cut
    return _merged(_one_word_each(vocabulary, data, text, ends, simple), cut, simple)


def _simple(vocabulary: Vocabulary, text: str, ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Check which units are letters after at most one space, one pre-token by GPT-2's pattern: (n_units,)."""
    plain = vocabulary.normalizer.name == "none" and not vocabulary.special.user
    if not plain or vocabulary.pretokenizer.name not in ("gpt2", "bytes"):
        return np.zeros(len(ends), bool)
    import polars as pl

    about_to_use_polars()
    codes, starts = np.frombuffer(text.encode("utf-32-le"), np.uint32), np.append(0, ends[:-1])
    met, places = np.unique(codes, return_inverse=True)
    are_letters = pl.Series(list(map(chr, met.tolist()))).str.contains(r"^\p{L}$").to_numpy()[places]
    n_letters = np.add.reduceat(are_letters, starts, dtype=np.int64)
    return np.asarray((n_letters > 0) & (n_letters == ends - starts - (codes[starts] == ord(" "))))


def _one_word_each(
    vocabulary: Vocabulary, data: bytes, text: str, ends: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> UnitWords:
    lengths, codes = np.diff(ends, prepend=0), np.frombuffer(text.encode("utf-32-le"), np.uint32)
    if vocabulary.pretokenizer.is_bytes:
        starts_character = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
        lengths = np.diff(np.append(np.flatnonzero(starts_character), len(data))[ends], prepend=0)
        codes = np.array([ord(character) for character in ALPHABET], np.uint32)[np.frombuffer(data, np.uint8)]
    codes = codes[np.repeat(chosen, lengths)]
    spelled = codes.tobytes().decode("utf-32-le").replace(" ", SPACE)
    n = int(chosen.sum())
    return UnitWords(spelled, lengths[chosen], np.ones(n, np.int64), np.zeros(n, bool))


def _merged(chosen: UnitWords, others: UnitWords, is_chosen: NDArray[np.bool_]) -> UnitWords:
    n_words, irregular = np.ones(len(is_chosen), np.int64), np.zeros(len(is_chosen), bool)
    n_words[~is_chosen], irregular[~is_chosen] = others.n_words, others.irregular
    units = np.append(np.flatnonzero(is_chosen), np.repeat(np.flatnonzero(~is_chosen), others.n_words))
    order, lengths = np.argsort(units, kind="stable"), np.append(chosen.lengths, others.lengths)
    codes = np.frombuffer((chosen.text + others.text).encode("utf-32-le"), np.uint32)
    starts, lengths = (np.cumsum(lengths) - lengths)[order], lengths[order]
    return UnitWords(codes[places_of(starts, lengths)].tobytes().decode("utf-32-le"), lengths, n_words, irregular)


def _cut_units(vocabulary: Vocabulary, units: list[str], first: NDArray[np.uint8]) -> UnitWords:
    import polars as pl

    about_to_use_polars()
    rule, own = UnitRule.of(vocabulary), own_characters(vocabulary, units)
    frame = pl.DataFrame(
        {"unit": own.put(units), "first": first.astype(bool)}, schema={"unit": pl.String, "first": pl.Boolean}
    ).with_columns(normal=vocabulary.normalizer.apply(vocabulary.special.hide(pl.col("unit"))))
    frame = frame.select(
        words=_words(vocabulary, rule), irregular=_irregular(vocabulary.pretokenizer, rule)
    ).with_columns(n_words=pl.col("words").list.len().cast(pl.Int64))
    if own.of_text:
        restored = own.restored(frame["words"].to_list(), is_bytes=vocabulary.pretokenizer.is_bytes)
        frame = frame.with_columns(pl.Series("words", restored, dtype=pl.List(pl.String)))
    words = frame["words"].explode().drop_nulls()
    return UnitWords(
        words.str.join("").item(), words.str.len_chars().to_numpy().astype(np.int64),
        frame["n_words"].to_numpy(), frame["irregular"].to_numpy(),
    )  # fmt: skip


def _bits(characters: bytes) -> int:
    return sum(1 << byte for byte in characters)


def _words(vocabulary: Vocabulary, rule: UnitRule) -> pl.Expr:
    """Return the pre-tokens of column normal. Inner units are cut after a dummy word, which is dropped."""
    import polars as pl

    normal, first = pl.col("normal"), pl.col("first")
    if not rule.marks_first:
        return vocabulary.pretokenizer.extract(normal, hidden=bool(vocabulary.special.user))
    words = vocabulary.pretokenizer.extract(pl.when(first).then(normal).otherwise(pl.lit("x") + normal))
    return pl.when(first).then(words).otherwise(words.list.slice(1))


def _irregular(pretokenizer: PreTokenizer, rule: UnitRule) -> pl.Expr:
    """Check whether neighbours could matter: a unit ends with a space that is not a break, or holds "▁"."""
    import polars as pl

    unit, normal = pl.col("unit"), pl.col("normal")
    parting = rule.breaks if pretokenizer.has_own_pattern else -1  # other pre-tokenizers have fixed white space
    breaks = ranges("".join(chr(byte) for byte in ascii_bytes(WHITE_SPACE) if parting >> byte & 1))
    ends_inside = normal.str.contains(r"\s$") & ~unit.str.contains(f"[{breaks}]$")
    if pretokenizer.is_bytes:
        return ends_inside
    if pretokenizer.name in ("gpt2", "unicode") or pretokenizer.has_own_pattern:
        return ends_inside | normal.str.contains(SPACE, literal=True)
    if pretokenizer.name.startswith("metaspace-runs"):
        return normal.str.contains(f"[ {SPACE}]$")
    return pl.repeat(False, pl.len())
