"""Units: the rule that splits a line into them, and units → their words (pre-tokens).

    line    "the  lowest"
    units   "the", "lowest"        the text between two breaks, here spaces
    words   one or more for each unit

The batch encoder splits and encodes each distinct unit once. If the pattern or the normaliser may
look beyond a unit, or a user token contains white space, each word is a unit instead.

Words may depend on text after some characters, such as a no-break space. These *glue*: a unit
continues over the breaks after them, and the text after the breaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from volt.array_types import Bytes, Longs
from volt.encode.arrays import ends_to_sizes
from volt.encode.pretokens import (
    are_short,
    find_own_characters,
    split_lines,
    splits_as_python,
)
from volt.fork_guard import about_to_use_polars
from volt.text.pretokenizer import RUNS_UNMARKED, UNMARKED_LINE
from volt.text.white_space import (
    SPLIT_SPACE,
    WHITE_SPACE,
    build_bit_mask,
    select_ascii,
)
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl

    from volt.text.patterns.split_points import SplitPoints

# Pre-tokenizers whose words are the line, with "▁" for spaces, and perhaps one "▁" before it
_WHOLE = ("metaspace", "metaspace-runs", "metaspace-line", RUNS_UNMARKED, UNMARKED_LINE)


def normalizes_lines(vocabulary: Vocabulary) -> bool:
    """Check whether lines are normalised before they are split into units, because the steps of
    another library's normaliser may look beyond a unit.
    """
    return bool(vocabulary.normalizer.steps)


def sums_lines(vocabulary: Vocabulary) -> bool:
    """Check whether the scores of a unigram model are added along lines."""
    return vocabulary.is_unigram and vocabulary.score_sums == "lines"


def are_whole(vocabulary: Vocabulary) -> bool:
    """Check whether the words of a line without user tokens are the normalised line with "▁" for
    spaces, and perhaps one "▁" before it."""
    is_normal = vocabulary.normalizer.name == "none" or normalizes_lines(vocabulary)
    units_are_words = UnitRule.of(vocabulary).units_are_words
    return is_normal and vocabulary.pretokenizer.name in _WHOLE and not units_are_words


def follows_lines(vocabulary: Vocabulary) -> bool:
    """Check whether compiled code can add scores along lines."""
    return sums_lines(vocabulary) and are_whole(vocabulary)


@dataclass(frozen=True, slots=True)
class UnitRule:
    """The rule that splits a line into units.

    breaks: bit b is set if byte b ≤ 32 separates units
    clinging: like `breaks`, for bytes that separate units only after some characters, see
        volt.text.patterns.split_points
    keeps_breaks: whether a break is part of the unit after it
    marks_first: whether a line's first unit is split differently from the other units
    units_are_words: whether each word is a unit
    """

    breaks: int
    clinging: int = 0
    keeps_breaks: bool = False
    marks_first: bool = False
    units_are_words: bool = False

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> UnitRule:
        pretokenizer = vocabulary.pretokenizer
        points = split_points_of(vocabulary)
        if points is not None:
            return cls(points.break_mask, points.clinging_mask, keeps_breaks=True)
        if not vocabulary.special.spaced and not _strips_beyond_units(vocabulary):
            if pretokenizer.name == "whitespace":
                return cls(build_bit_mask(select_ascii(SPLIT_SPACE)))
            if pretokenizer.name in ("gpt2", "bytes"):
                return cls(build_bit_mask(select_ascii(WHITE_SPACE)), keeps_breaks=True)
            if pretokenizer.dummy_prefix:
                line_is_word = pretokenizer.name.startswith("metaspace-line")
                breaks = b"" if line_is_word else b" "
                return cls(build_bit_mask(breaks), keeps_breaks=True, marks_first=True)
            if pretokenizer.name == UNMARKED_LINE:
                return cls(build_bit_mask(b""), keeps_breaks=True)
        return cls(build_bit_mask(b" "), units_are_words=True)


def split_points_of(vocabulary: Vocabulary) -> SplitPoints | None:
    """Return the split points of the pre-tokenizer's pattern.

    Return None if it has no pattern of its own, or if words must be the units.
    """
    special = vocabulary.special
    cutter = vocabulary.pretokenizer.cutter
    if cutter is None or not vocabulary.pretokenizer.has_own_pattern:
        return None
    is_normal = vocabulary.normalizer.name == "none" or normalizes_lines(vocabulary)
    if special.spaced or not is_normal:
        return None
    points = cutter.split_points
    if points is None or not special.user:
        return points
    strips = special.stripping != ("", "")
    if points.drops_text or (strips and not points.glues_white_space):
        return None
    return points


def _strips_beyond_units(vocabulary: Vocabulary) -> bool:
    """Check whether a user token strips white space so that it joins text of another unit."""
    cut = vocabulary.pretokenizer
    strips_left, strips_right = vocabulary.special.stripping
    if cut.name == "whitespace":
        return bool(strips_left or strips_right)
    splits_at_users = cut.is_bytes or cut.if_absent or cut.of_lines != cut
    return bool(strips_left) and not splits_at_users


@dataclass(frozen=True, slots=True)
class UnitWords:
    """The words of units.

    text: all words, concatenated
    lengths: (n_words,) int64, the characters of each word
    n_words: (n_units,) int64, the number of words of each unit
    """

    text: str
    lengths: Longs
    n_words: Longs


def unit_words(vocabulary: Vocabulary, data: bytes, ends: Longs, firsts: Bytes) -> UnitWords:
    """Split units into words. Raises UnicodeDecodeError if a unit is not UTF-8.

    data: the units, concatenated;  ends: (n_units,) where each unit ends, in bytes
    firsts: (n_units,) 1 for the first unit of a line, else 0
    """
    text = data.decode()
    starts_character = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    if not starts_character[ends[:-1]].all():  # a unit ends inside a character: raise its error
        for start, end in pairwise([0, *ends.tolist()]):
            data[start:end].decode()

    character_ends = np.cumsum(starts_character)[ends - 1]
    rule = UnitRule.of(vocabulary)
    if rule.units_are_words:
        n_words = np.ones(len(ends), np.int64)
        return UnitWords(text, ends_to_sizes(character_ends), n_words)

    units = [text[start:end] for start, end in pairwise([0, *character_ends.tolist()])]
    splits_fast = splits_as_python(vocabulary) or are_short(units)
    if rule.marks_first or not splits_fast:
        return _split_with_polars(vocabulary, units, firsts)
    words_of_units = split_lines(vocabulary, units, is_normal=normalizes_lines(vocabulary))
    words = list(chain.from_iterable(words_of_units))
    return UnitWords(
        text="".join(words),
        lengths=np.array(list(map(len, words)), np.int64),
        n_words=np.array(list(map(len, words_of_units)), np.int64),
    )


def _split_with_polars(vocabulary: Vocabulary, units: Sequence[str], firsts: Bytes) -> UnitWords:
    import polars as pl

    about_to_use_polars()
    rule = UnitRule.of(vocabulary)
    special = vocabulary.special
    own = find_own_characters(vocabulary, units)
    frame = pl.DataFrame(
        {"unit": own.put(units), "first": firsts.astype(bool)},
        schema={"unit": pl.String, "first": pl.Boolean},
    )
    text = special.hide(pl.col("unit"))
    if not normalizes_lines(vocabulary):
        text = vocabulary.normalizer.apply(text)
    frame = frame.with_columns(normal=text)
    frame = frame.select(words=_extract_words(vocabulary, rule))
    if own.of_text:
        rows = frame["words"].to_list()
        restored = own.restored(rows, is_bytes=vocabulary.pretokenizer.is_bytes)
        series = pl.Series("words", restored, dtype=pl.List(pl.String))
        frame = frame.with_columns(series)
    words = frame["words"].explode().drop_nulls()
    return UnitWords(
        text=words.str.join("").item(),
        lengths=words.str.len_chars().to_numpy().astype(np.int64),
        n_words=frame["words"].list.len().to_numpy().astype(np.int64),
    )


def _extract_words(vocabulary: Vocabulary, rule: UnitRule) -> pl.Expr:
    """Return the expression for the words of the column "normal".

    If the first unit of a line is split differently, other units are split after the word "x",
    which is then dropped.
    """
    import polars as pl

    normal = pl.col("normal")
    hidden = bool(vocabulary.special.user)
    if not rule.marks_first:
        return vocabulary.pretokenizer.extract(normal, hidden=hidden)

    first = pl.col("first")
    text = pl.when(first).then(normal).otherwise(pl.lit("x") + normal)
    words = vocabulary.pretokenizer.extract(text, hidden=hidden)
    return pl.when(first).then(words).otherwise(words.list.slice(1))
