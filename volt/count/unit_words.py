"""Counted units → counted words, for those pre-tokenisers that cut each unit alone as they cut it in its line.

They are those whose pattern can be parted in front of spaces (volt.text.patterns.parting): of the built-in ones all but
"metaspace-line", and most patterns that are given. A break ends a unit only where that is so whatever the characters
around it are, if one of them is no white space.

>>> UnitCutter.of(PreTokenizer("bytes")).ends.breaks == sum(1 << byte for byte in b"\\t\\n\\v\\f\\r ")
True
>>> UnitCutter.of(PreTokenizer("metaspace-line")) is None
True
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from volt.count.unit_table import CountedUnits, UnitEnds
from volt.text import gpt2
from volt.text.markers import SPACE
from volt.text.patterns.splitter import Split, Splitter
from volt.text.patterns.words import LINE_END, WordCutter
from volt.text.pretokenizer import IF_ABSENT, PreTokenizer
from volt.text.white_space import SPLIT_SPACE, ascii_bytes

_BLANK = ord(" ")
_SPACE = SPACE.encode()


@dataclass(frozen=True, eq=False, slots=True)
class UnitCutter:
    """How texts are parted into units, and units cut into words.

    ends: what ends a unit
    cutter: what cuts a unit
    spares_space: whether a line that starts with a space gets no other one in front
    """

    ends: UnitEnds
    cutter: WordCutter
    spares_space: bool = False

    @staticmethod
    def of(pretokenizer: PreTokenizer) -> UnitCutter | None:
        """The cutter that gives a pre-tokeniser's words. None if there is none: its words depend on whole lines."""
        return _cutter_of(pretokenizer.name)

    def normal(self, data: bytes) -> bytes:
        """A text with spaces in place of each "▁" that is read as one."""
        return data.replace(_SPACE, b" ") if self.cutter.reads_marks else data

    def words(self, units: CountedUnits) -> pl.DataFrame:
        """Table of word and count, in any order of the rows.

        units: of texts that are `normal`

        >>> from volt.count.unit_table import UnitTable
        >>> cutter = UnitCutter.of(PreTokenizer("gpt2"))
        >>> table = UnitTable(cutter.ends)
        >>> table.add(b"low, low")
        >>> cutter.words(table.units()).sort("word").rows()
        [(',', 1), ('low', 1), ('▁low', 1)]
        """
        cut = self.cutter.cut_lines(self._lines(units), separator=LINE_END)
        ends = np.flatnonzero(cut == LINE_END)
        n_words = 1 + np.diff(np.cumsum(cut == _BLANK)[ends], prepend=0)
        cut[ends] = _BLANK
        words = pl.Series("word", [cut[:-1].tobytes().decode()]).str.split(" ").explode()
        rows = pl.LazyFrame({"word": words, "count": np.repeat(units.counts, n_words)}).filter(pl.col("word") != "")
        return rows.group_by("word").agg(pl.col("count").sum()).collect()

    def _lines(self, units: CountedUnits) -> bytes:
        """Units as lines to be cut, with a space in front of those that a dummy "▁" belongs to."""
        data, n = np.frombuffer(units.data, np.uint8), len(units.ends)
        starts = np.append(0, units.ends[:-1])
        marked = units.firsts.astype(bool)
        if self.spares_space:
            marked &= data[starts] != _BLANK
        moved = np.cumsum(marked) + np.arange(n)  # how far each unit moves
        lines = np.empty(len(data) + n + int(marked.sum()), np.uint8)
        lines[(starts + moved - 1)[marked]], lines[units.ends + moved] = _BLANK, LINE_END
        is_text = np.ones(len(lines), bool)
        is_text[(starts + moved - 1)[marked]] = is_text[units.ends + moved] = False
        lines[is_text] = data
        return lines.tobytes()


@lru_cache(maxsize=64)
def _cutter_of(name: str) -> UnitCutter | None:
    pretokenizer = PreTokenizer(name)
    if name == "whitespace":
        whole = WordCutter.of(Splitter.of(Split(pretokenizer.pattern)), matches_only=True)
        return UnitCutter(UnitEnds(_bits(ascii_bytes(SPLIT_SPACE))), whole.without_user_tokens)
    cutter = _word_cutter(pretokenizer)
    parting = cutter.parting if cutter else None
    if cutter is None or parting is None:
        return None
    ends = UnitEnds(parting.breaks & ~parting.clinging, keeps_breaks=True, marks_first=pretokenizer.dummy_prefix)
    return UnitCutter(ends, cutter, spares_space=name.endswith(IF_ABSENT))


def _word_cutter(pretokenizer: PreTokenizer) -> WordCutter | None:
    """What cuts as the pre-tokeniser does but for the dummy "▁"; None if only Polars does."""
    if pretokenizer.is_bytes or not (pretokenizer.has_own_pattern or pretokenizer.keeps_spaces):
        return pretokenizer.cutter
    if pretokenizer.has_own_pattern:
        cutter = pretokenizer.cutter
        return cutter.without_user_tokens if cutter and pretokenizer.name.startswith("regex:") else cutter
    pattern = gpt2.ORIGINAL if pretokenizer.name == "gpt2" else pretokenizer.pattern.replace(SPACE, " ")
    return WordCutter.of(Splitter.of(Split(pattern))).without_user_tokens


def _bits(characters: bytes) -> int:
    return sum(1 << byte for byte in characters)
