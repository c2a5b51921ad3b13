"""Lines → pre-tokens: hide user tokens, normalise the text, and split it. Also, units → their pre-tokens.

A unit is the text between two breaks; breaks are spaces, or all white space. Each distinct unit is split once.

    line        "the  lowest"
    units       "the", "lowest"
    pre-tokens  one or more for each unit

If the pattern or normaliser may look beyond a unit, or a user token contains white space, each pre-token is a unit
instead. A unit is irregular if its pre-tokens may depend on neighbouring text, for example if it ends with a no-break
space; its line is then split whole.
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
    """Return the pre-tokens of each line. Raises CorpusError if a line contains a lone surrogate."""
    texts = [check_text(line) for line in lines]
    return [words.split(" ") if words else [] for words in joined_words(vocabulary, texts)]


def own_characters(vocabulary: Vocabulary, texts: Sequence[str]) -> Placeholders:
    """Return placeholders for the texts' own private characters; without user tokens, an empty result."""
    return stand_ins(texts) if vocabulary.special.user else Placeholders({})


def cutter_of(vocabulary: Vocabulary) -> WordCutter | None:
    """Return the splitter for a vocabulary's pattern and user tokens; None if Polars splits lines."""
    cutter = vocabulary.pretokenizer.cutter
    return cutter if cutter is None or vocabulary.special.user else cutter.without_user_tokens


def _lone_cutter(vocabulary: Vocabulary) -> WordCutter | None:
    is_plain = vocabulary.normalizer.name == "none" and not vocabulary.special.user
    return cutter_of(vocabulary) if is_plain else None


def _splits_as_python(vocabulary: Vocabulary) -> bool:  # then Polars need not be imported
    names = vocabulary.pretokenizer.name, vocabulary.normalizer.name
    return names == ("whitespace", "none") and not vocabulary.special.user


def joined_words(vocabulary: Vocabulary, lines: Sequence[str]) -> list[str]:
    """Return each line with its pre-tokens separated by single spaces."""
    if _splits_as_python(vocabulary):
        return [" ".join(line.split()) for line in lines]
    if (cutter := _lone_cutter(vocabulary)) is not None:
        return cutter.cut_texts(lines)
    if (own := own_characters(vocabulary, lines)).of_text:
        words = _pretokens(vocabulary, own.put(lines)).to_list()
        return list(map(" ".join, own.restored(words, is_bytes=vocabulary.pretokenizer.is_bytes)))
    if (cutter := cutter_of(vocabulary)) is not None:
        is_plain = vocabulary.normalizer.name == "none" and _is_short(
            lines
        )  # then Polars need not be imported
        texts = (
            list(map(vocabulary.special.hide_text, lines))
            if is_plain
            else _normal(vocabulary, lines).to_list()
        )
        return cutter.cut_texts(texts)
    return _pretokens(vocabulary, lines).list.join(" ").to_list()


def pretoken_lines(
    vocabulary: Vocabulary, text: bytes, *, separator: int, strips_return: bool = False
) -> memoryview:
    r"""Return the pre-tokens of UTF-8 lines, separated by spaces, with 0xFF after each line.

    Raises UnicodeDecodeError if the text is not UTF-8.

    >>> bytes(pretoken_lines(Vocabulary(merges=(), tokens=("a",)), b"a  b\n\nc", separator=10))
    b'a b\xff\xffc\xff'
    """
    mark = bytes([separator])
    if (cutter := _lone_cutter(vocabulary)) is not None:
        text.replace(mark, b"\n").decode()
        return cutter.cut_lines(text, separator=separator, strips_return=strips_return).data
    lines = text.split(mark)
    lines = lines if lines[-1] else lines[:-1]
    texts = [(line.removesuffix(b"\r") if strips_return else line).decode() for line in lines]
    return memoryview(
        b"".join(words.encode() + b"\xff" for words in joined_words(vocabulary, texts))
    )


def _pretokens(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    import polars as pl

    words = vocabulary.pretokenizer.extract(pl.col("text"), hidden=bool(vocabulary.special.user))
    return _normal(vocabulary, lines).to_frame().select(words).to_series()


def _normal(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    import polars as pl

    about_to_use_polars()
    special, text, is_short = vocabulary.special, pl.col("text"), _is_short(lines)
    texts = list(map(special.hide_text, lines)) if is_short else lines
    normal = vocabulary.normalizer.apply(text if is_short else special.hide(text))
    return pl.DataFrame({"text": texts}, schema={"text": pl.String}).select(normal).to_series()


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
    words: whether each pre-token is a unit
    """

    breaks: int
    clinging: int = 0
    keeps_breaks: bool = False
    marks_first: bool = False
    words: bool = False

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> UnitRule:
        pretokenizer = vocabulary.pretokenizer
        if vocabulary.special.spaced:
            return cls(bits_of(b" "), words=True)
        if parting := parting_of_units(vocabulary):
            return cls(parting.breaks, parting.clinging, keeps_breaks=True)
        if pretokenizer.name == "whitespace":
            return cls(bits_of(ascii_bytes(SPLIT_SPACE)))
        if pretokenizer.name in ("gpt2", "bytes"):
            return cls(bits_of(ascii_bytes(WHITE_SPACE)), keeps_breaks=True)
        if pretokenizer.dummy_prefix:
            breaks = b"" if pretokenizer.name.startswith("metaspace-line") else b" "
            return cls(bits_of(breaks), keeps_breaks=True, marks_first=True)
        return cls(bits_of(b" "), words=True)


def parting_of_units(vocabulary: Vocabulary) -> SplitPoints | None:
    """Return the split points of the pre-tokenizer's own pattern; None if it has none, or pre-tokens are units."""
    special, cutter = vocabulary.special, vocabulary.pretokenizer.cutter
    if (
        cutter is None
        or not vocabulary.pretokenizer.has_own_pattern
        or vocabulary.normalizer.name != "none"
    ):
        return None
    if special.spaced or (cutter.matches_only and special.user):
        return None
    parting = cutter.parting
    return parting.with_ends_inside() if parting and special.user else parting


@dataclass(frozen=True, slots=True)
class UnitWords:
    """The pre-tokens of units.

    text: all pre-tokens, concatenated
    lengths: (n_words,) int64, the characters of each pre-token
    n_words: (n_units,) int64, the number of pre-tokens of each unit
    irregular: (n_units,) bool
    """

    text: str
    lengths: NDArray[np.int64]
    n_words: NDArray[np.int64]
    irregular: NDArray[np.bool_]


def unit_words(
    vocabulary: Vocabulary, data: bytes, ends: NDArray[np.int64], first: NDArray[np.uint8]
) -> UnitWords:
    text, starts_character = data.decode(), (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    if not starts_character[
        ends[:-1]
    ].all():  # the end of a unit splits a character: raise the error
        for start, end in pairwise([0, *ends.tolist()]):
            data[start:end].decode()
    ends = np.cumsum(starts_character)[ends - 1]  # in characters
    regular = np.zeros(len(ends), bool)
    if UnitRule.of(vocabulary).words:
        return UnitWords(text, np.diff(ends, prepend=0), np.ones(len(ends), np.int64), regular)
    units = [text[start:end] for start, end in pairwise([0, *ends.tolist()])]
    if not _splits_as_python(vocabulary):
        return _cut_units(vocabulary, units, first)
    split = [unit.split() for unit in units]
    words = list(chain.from_iterable(split))
    lengths, n_words = (np.array(list(map(len, items)), np.int64) for items in (words, split))
    return UnitWords("".join(words), lengths, n_words, regular)


def _cut_units(vocabulary: Vocabulary, units: list[str], first: NDArray[np.uint8]) -> UnitWords:
    import polars as pl

    about_to_use_polars()
    rule, own = UnitRule.of(vocabulary), own_characters(vocabulary, units)
    frame = pl.DataFrame(
        {"unit": own.put(units), "first": first.astype(bool)},
        schema={"unit": pl.String, "first": pl.Boolean},
    ).with_columns(normal=vocabulary.normalizer.apply(vocabulary.special.hide(pl.col("unit"))))
    strips = "".join(vocabulary.special.stripping)
    irregular = _irregular(vocabulary.pretokenizer, rule)
    if strips:  # these user tokens take white space of units next to theirs
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
    """Return the pre-tokens of column `normal`. If `marks_first`, split others after a dummy word; drop that."""
    import polars as pl

    normal, first, hidden = pl.col("normal"), pl.col("first"), bool(vocabulary.special.user)
    if not rule.marks_first:
        return vocabulary.pretokenizer.extract(normal, hidden=hidden)
    words = vocabulary.pretokenizer.extract(
        pl.when(first).then(normal).otherwise(pl.lit("x") + normal), hidden=hidden
    )
    return pl.when(first).then(words).otherwise(words.list.slice(1))


def _irregular(pretokenizer: PreTokenizer, rule: UnitRule) -> pl.Expr:
    """Check whether a unit is irregular: it ends with a space that is not a break or a user token, or contains "▁"."""
    import polars as pl

    unit, normal = pl.col("unit"), pl.col("normal")
    parting = (
        rule.breaks if pretokenizer.has_own_pattern else -1
    )  # other pre-tokenizers break at all white space
    breaks = ranges("".join(chr(byte) for byte in ascii_bytes(WHITE_SPACE) if parting >> byte & 1))
    ends_inside = normal.str.contains(r"\s$") & ~unit.str.contains(f"[{breaks}]$")
    if pretokenizer.is_bytes:
        return ends_inside
    if pretokenizer.name in ("gpt2", "unicode") or pretokenizer.has_own_pattern:
        return ends_inside | normal.str.contains(SPACE, literal=True)
    ends = [f"[ {SPACE}]$"] * pretokenizer.name.startswith("metaspace-runs")
    ends += [f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]$"] * (pretokenizer.of_lines != pretokenizer)
    if ends:
        return normal.str.contains("|".join(ends))
    return pl.repeat(False, pl.len())


_ALPHABET = np.array([ord(character) for character in ALPHABET], np.int32)


def loop_cutter(tables: MergeTables, empty: Cutter, classes: CharacterClasses) -> Cutter:
    """Return the tables with which compiled code splits units into words."""
    from volt.kernels.pretokenize import BYTES, WORD

    vocabulary, parting = tables.vocabulary, parting_of_units(tables.vocabulary)
    cut, marker = _cut(vocabulary, parting), ("none", "suffix", "prefix").index(vocabulary.marker)
    characters = (
        _ALPHABET
        if cut >= BYTES
        else np.where(np.arange(256) == ord(" "), ord(SPACE), np.arange(256))
    )
    user = vocabulary.special.user if cut > WORD else ()  # only if units are text
    user_starts = np.zeros(256 if user else 0, np.uint8)
    user_starts[[token.encode()[0] for token in user]] = 1
    cutter = empty._replace(
        cut=cut,
        marker=marker,
        symbol_of=tables.symbol_of,
        user_starts=user_starts,
        byte_symbols=tables.symbol_of[np.concatenate([2 * characters, 2 * characters + 1])],
    )
    if parting is None:
        return cutter._replace(classes=classes.table) if uses_classes(cut) else cutter
    own = vocabulary.pretokenizer.cutter
    assert own is not None  # only a pattern has split points
    automaton = own.splitter.tables
    return cutter._replace(
        classes=automaton.classes,
        moves=automaton.moves,
        end=automaton.end,
        splits=automaton.splits,
        kinds=parting.kinds,
        breaks=parting.breaks,
        alone=int(parting.alone),
        matches_only=int(own.matches_only),
    )


def _cut(vocabulary: Vocabulary, parting: SplitPoints | None) -> int:
    from volt.kernels import pretokenize

    name = (
        vocabulary.pretokenizer.of_lines.name
    )  # units that may contain user tokens are left to Python
    if UnitRule.of(vocabulary).words:
        return pretokenize.WORD  # units are normalised pre-tokens
    if vocabulary.pretokenizer.has_own_pattern:
        return pretokenize.BYTE_PATTERN if vocabulary.pretokenizer.is_bytes else pretokenize.PATTERN
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
_IDEOGRAPHS_AND_SYLLABLES = (
    (0x3400, 0x4DB6),
    (0x4E00, 0x9FA6),
    (0xAC00, 0xD7A4),
)  # starts and ends of ranges of letters


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

    kinds, classes = _class_of_category(), np.zeros(_N_KNOWN, np.uint8)
    category, old_category = unicodedata.category, unicodedata.ucd_3_2_0.category
    start = 0
    for end, after in (*_IDEOGRAPHS_AND_SYLLABLES, (_N_KNOWN, _N_KNOWN)):
        for code in range(start, end):
            old, kind = old_category(chr(code)), kinds.get(category(chr(code))[0], OTHER)
            if old not in ("Cn", "Cs") and kind == kinds.get(old[0], OTHER):
                classes[code] = kind
        classes[end:after], start = LETTER, after
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
    result = np.full(len(codes), OTHER, np.uint8)
    for letter, kind in _class_of_category().items():
        result[characters.str.contains(rf"^\p{{{letter}}}$").to_numpy()] = kind
    result[characters.str.contains(r"^\s$").to_numpy()] = WHITE
    return result
