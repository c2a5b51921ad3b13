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

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.encode.merge_tables import MergeTables
from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET
from volt.text.normalizer import check_text
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN, Placeholders, stand_ins
from volt.text.white_space import SPLIT_SPACE, WHITE_SPACE, ascii_bytes, bits_of, ranges
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl

    from volt.kernels.pretokenize import Cutter
    from volt.text.patterns.split_points import SplitPoints
    from volt.text.patterns.splitter import WordCutter


_SHORT = 10_000  # characters


def split_lines(vocabulary: Vocabulary, lines: Sequence[str]) -> list[list[str]]:
    """Return the words of each line. Raises CorpusError if a line contains a lone surrogate."""
    for line in lines:
        check_text(line)
    if _splits_as_python(vocabulary):
        return [line.split() for line in lines]
    return [words.split(" ") if words else [] for words in _spaced_words(vocabulary, lines)]


def own_characters(vocabulary: Vocabulary, texts: Sequence[str]) -> Placeholders:
    """Return placeholders for the texts' own private characters; without user tokens, an empty result."""
    return stand_ins(texts) if vocabulary.special.user else Placeholders({})


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
        return list(map(" ".join, own.restored(words, is_bytes=vocabulary.pretokenizer.is_bytes)))

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
            return cls(points.breaks, points.clinging, keeps_breaks=True)
        if not vocabulary.special.spaced:
            if pretokenizer.name == "whitespace":
                return cls(bits_of(ascii_bytes(SPLIT_SPACE)))
            if pretokenizer.name in ("gpt2", "bytes"):
                return cls(bits_of(ascii_bytes(WHITE_SPACE)), keeps_breaks=True)
            if pretokenizer.dummy_prefix:
                is_whole = pretokenizer.name.startswith("metaspace-line")
                breaks = b"" if is_whole else b" "
                return cls(bits_of(breaks), keeps_breaks=True, marks_first=True)
        return cls(bits_of(b" "), words=True)


def split_points_of(vocabulary: Vocabulary) -> SplitPoints | None:
    """Return the split points of the pre-tokenizer's own pattern; None if it has none, or words are units."""
    special = vocabulary.special
    cutter = vocabulary.pretokenizer.cutter
    if cutter is None or not vocabulary.pretokenizer.has_own_pattern:
        return None
    is_split_whole = special.spaced or (special.user and cutter.matches_only)
    if vocabulary.normalizer.name != "none" or is_split_whole:
        return None
    points = cutter.parting
    return points.with_ends_inside() if points and special.user else points


@dataclass(frozen=True, slots=True)
class UnitWords:
    """The words of units.

    text: all words, concatenated
    lengths: (n_words,) int64, the characters of each word
    n_words: (n_units,) int64, the number of words of each unit
    irregular: (n_units,) bool
    """

    text: str
    lengths: NDArray[np.int64]
    n_words: NDArray[np.int64]
    irregular: NDArray[np.bool_]


def unit_words(
    vocabulary: Vocabulary, data: bytes, ends: NDArray[np.int64], first: NDArray[np.uint8]
) -> UnitWords:
    """Split units. data: all units;  ends: where each unit ends;  first: 1 for the first unit of a line"""
    text = data.decode()
    starts_character = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    if not starts_character[ends[:-1]].all():  # a unit ends inside a character: raise its error
        for start, end in pairwise([0, *ends.tolist()]):
            data[start:end].decode()

    ends = np.cumsum(starts_character)[ends - 1]  # in characters
    regular = np.zeros(len(ends), bool)
    if UnitRule.of(vocabulary).words:
        return UnitWords(text, np.diff(ends, prepend=0), np.ones(len(ends), np.int64), regular)

    units = [text[start:end] for start, end in pairwise([0, *ends.tolist()])]
    if not _splits_as_python(vocabulary):
        return _cut_units(vocabulary, units, first)
    words_of_units = [unit.split() for unit in units]
    words = list(chain.from_iterable(words_of_units))
    lengths = np.array(list(map(len, words)), np.int64)
    n_words = np.array(list(map(len, words_of_units)), np.int64)
    return UnitWords("".join(words), lengths, n_words, regular)


def _cut_units(vocabulary: Vocabulary, units: list[str], first: NDArray[np.uint8]) -> UnitWords:
    import polars as pl

    about_to_use_polars()
    rule = UnitRule.of(vocabulary)
    special = vocabulary.special
    own = own_characters(vocabulary, units)
    frame = pl.DataFrame(
        {"unit": own.put(units), "first": first.astype(bool)},
        schema={"unit": pl.String, "first": pl.Boolean},
    )
    frame = frame.with_columns(normal=vocabulary.normalizer.apply(special.hide(pl.col("unit"))))

    irregular = _irregular(vocabulary.pretokenizer, rule)
    strips = "".join(special.stripping)
    if strips:  # these user tokens take white space of neighbouring units
        irregular |= pl.col("normal").str.contains(f"[{strips}]")

    frame = frame.select(words=_words(vocabulary, rule), irregular=irregular)
    if own.of_text:
        restored = own.restored(frame["words"].to_list(), is_bytes=vocabulary.pretokenizer.is_bytes)
        frame = frame.with_columns(pl.Series("words", restored, dtype=pl.List(pl.String)))
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

    breaks = ascii_bytes(WHITE_SPACE)
    if pretokenizer.has_own_pattern:  # others break at all white space
        breaks = bytes(byte for byte in breaks if rule.breaks >> byte & 1)
    normal = pl.col("normal")
    ends_at_break = pl.col("unit").str.contains(f"[{ranges(breaks.decode())}]$")
    ends_with_space = normal.str.contains(r"\s$") & ~ends_at_break
    if pretokenizer.is_bytes:
        return ends_with_space
    if pretokenizer.name in ("gpt2", "unicode") or pretokenizer.has_own_pattern:
        return ends_with_space | normal.str.contains(SPACE, literal=True)

    ends = list[str]()
    if pretokenizer.name.startswith("metaspace-runs"):
        ends.append(f"[ {SPACE}]$")
    if pretokenizer.of_lines != pretokenizer:
        ends.append(f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]$")
    return normal.str.contains("|".join(ends)) if ends else pl.lit(False)


def loop_cutter(tables: MergeTables, empty: Cutter, classes: CharacterClasses) -> Cutter:
    """Return the tables with which compiled code splits units into words."""
    from volt.kernels.pretokenize import BYTES, WORD

    vocabulary = tables.vocabulary
    cut = _cut(vocabulary)
    if cut >= BYTES:
        characters = np.array([ord(character) for character in ALPHABET])
    else:
        characters = np.arange(256)
        characters[ord(" ")] = ord(SPACE)
    user_starts = np.zeros(0, np.uint8)
    if vocabulary.special.user and cut > WORD:  # units are text
        user_starts = np.zeros(256, np.uint8)
        user_starts[[token.encode()[0] for token in vocabulary.special.user]] = 1

    cutter = empty._replace(
        cut=cut,
        marker=("none", "suffix", "prefix").index(vocabulary.marker),
        symbol_of=tables.symbol_of,
        user_starts=user_starts,
        byte_symbols=tables.symbol_of[np.concatenate([2 * characters, 2 * characters + 1])],
    )
    if uses_classes(cut):
        return cutter._replace(classes=classes.table)
    points = split_points_of(vocabulary)
    if points is None:
        return cutter

    own = vocabulary.pretokenizer.cutter
    assert own is not None  # only a pattern has split points
    automaton = own.splitter.tables
    return cutter._replace(
        classes=automaton.classes,
        moves=automaton.moves,
        end=automaton.end,
        splits=automaton.splits,
        kinds=points.kinds,
        breaks=points.breaks,
        alone=int(points.alone),
        matches_only=int(own.matches_only),
    )


def _cut(vocabulary: Vocabulary) -> int:
    from volt.kernels import pretokenize

    pretokenizer = vocabulary.pretokenizer
    if UnitRule.of(vocabulary).words:
        return pretokenize.WORD  # units are normalised words
    if pretokenizer.has_own_pattern:
        return pretokenize.BYTE_PATTERN if pretokenizer.is_bytes else pretokenize.PATTERN

    name = pretokenizer.of_lines.name  # units that may contain user tokens are left to Python
    has_marker = vocabulary.marker != "none" and name != "whitespace"
    if vocabulary.normalizer.name != "none" or has_marker:
        return pretokenize.NEVER
    cuts = {
        "whitespace": pretokenize.SPLIT,
        "metaspace": pretokenize.METASPACE,
        "metaspace-runs": pretokenize.RUNS,
        "metaspace-line": pretokenize.RUNS,
        "unicode": pretokenize.UNICODE,
        "gpt2": pretokenize.GPT2,
        "bytes": pretokenize.BYTES,
    }
    return cuts.get(name, pretokenize.NEVER)


def uses_classes(cut: int) -> bool:
    from volt.kernels.pretokenize import BYTES, GPT2, UNICODE

    return cut in (UNICODE, GPT2, BYTES)


_N_KNOWN = 0x10000
# starts and ends of ranges of letters: ideographs and syllables
_LETTERS = ((0x3400, 0x4DB6), (0x4E00, 0x9FA6), (0xAC00, 0xD7A4))


class CharacterClasses:
    """The class of every character, looked up when the character first occurs."""

    # Threads share it without a lock: they write equal values, and one that reads an old NO_CLASS looks it up again.

    @cached_property
    def table(self) -> NDArray[np.uint8]:
        """(0x110000,) uint8, the class of each character, or NO_CLASS."""
        table = np.zeros(0x110000, np.uint8)
        table[:_N_KNOWN] = known_classes()
        return table

    def classify(self, text: str) -> bool:
        """Look up the classes of a text's characters. Return whether any was new."""
        new = [code for code in map(ord, set(text)) if not self.table[code]]
        if new:
            self.table[new] = classes_of(new)
        return bool(new)


@cache
def known_classes() -> NDArray[np.uint8]:
    """Return the characters' classes (0x10000,), read-only; 0 if changed since Unicode 3.2. Takes 10 ms."""
    from volt.kernels.pretokenize import LETTER, OTHER, WHITE

    kinds = _class_of_category()
    category = unicodedata.category
    old_category = unicodedata.ucd_3_2_0.category
    classes = np.zeros(_N_KNOWN, np.uint8)
    start = 0
    for first, after in (*_LETTERS, (_N_KNOWN, _N_KNOWN)):
        for code in range(start, first):
            old = old_category(chr(code))
            kind = kinds.get(category(chr(code))[0], OTHER)
            if old not in ("Cn", "Cs") and kind == kinds.get(old[0], OTHER):
                classes[code] = kind
        classes[first:after] = LETTER
        start = after
    classes[[ord(character) for character in WHITE_SPACE]] = WHITE
    classes.flags.writeable = False
    return classes


def _class_of_category() -> dict[str, int]:
    from volt.kernels.pretokenize import LETTER, MARK, NUMBER_CLASS

    return {"L": LETTER, "N": NUMBER_CLASS, "M": MARK}


def classes_of(codes: Sequence[int]) -> NDArray[np.uint8]:
    """Return the classes of characters, (n,)."""
    import polars as pl

    from volt.kernels.pretokenize import OTHER, WHITE

    about_to_use_polars()
    characters = pl.Series(list(map(chr, codes)), dtype=pl.String)
    classes = np.full(len(codes), OTHER, np.uint8)
    for letter, kind in _class_of_category().items():
        classes[characters.str.contains(rf"^\p{{{letter}}}$").to_numpy()] = kind
    classes[characters.str.contains(r"^\s$").to_numpy()] = WHITE
    return classes
