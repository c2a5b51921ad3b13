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

from volt.count.unit_table import Counted, UnitEnds, WordTable
from volt.text import gpt2
from volt.text.markers import SPACE
from volt.text.patterns.splitter import Split, Splitter
from volt.text.patterns.words import WordCutter
from volt.text.pretokenizer import IF_ABSENT, PreTokenizer
from volt.text.white_space import SPLIT_SPACE, ascii_bytes

_BLANK, _NEWLINE = ord(" "), ord("\n")
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

    def cuts_apart(self, data: bytes) -> bool:
        """Whether a text holds private characters that its words must be cut at one by one."""
        return self.cutter.parts_at_users(data)

    def add(self, words: WordTable, units: Counted) -> None:
        """Add the words of units to a table.

        units: of texts that are `normal`, and not to be cut apart
        """
        units = self._with_dummies(units) if self.ends.marks_first else units
        words.add(units, self.cutter.tables_for(units.text), matches_only=self.cutter.matches_only)

    def table(self, words: Counted) -> pl.DataFrame:
        """Table of word and count, in any order of the rows: words as vocabularies spell them.

        >>> from volt.count.unit_table import UnitTable
        >>> cutter = UnitCutter.of(PreTokenizer("gpt2"))
        >>> units, words = UnitTable(cutter.ends), WordTable()
        >>> units.add(b"low, low")
        >>> cutter.add(words, units.units())
        >>> cutter.table(words.units()).rows()
        [('low', 1), (',', 1), ('▁low', 1)]
        """
        lines = _lines(words)
        spelled = pl.Series("word", [self.cutter.spelled(lines)]).str.split("\n").explode()
        table = pl.DataFrame({"word": spelled, "count": words.counts})
        if self.cutter.is_bytes or not (b" " in lines and _SPACE in lines):
            return table
        return table.group_by("word").agg(pl.col("count").sum())  # a space and a "▁" of the text are spelled alike

    def _with_dummies(self, units: Counted) -> Counted:
        """The units with a space in front of those that a dummy "▁" belongs to."""
        marked = units.firsts.astype(bool)
        if self.spares_space:
            marked &= units.data[units.starts] != _BLANK
        moved = np.cumsum(marked)  # how far each unit moves
        blanks = (units.starts + moved - 1)[marked]
        data = np.full(len(units.data) + len(blanks), _BLANK, np.uint8)
        is_old = np.ones(len(data), bool)
        is_old[blanks] = False
        data[is_old] = units.data
        data.flags.writeable = False
        return units._replace(data=data, starts=units.starts + moved - marked, ends=units.ends + moved)


def _lines(words: Counted) -> bytes:
    """Words with a line end between two. None of them holds one."""
    text = words.text
    lines, ends = np.empty(len(text) + len(words.ends), np.uint8), words.ends + np.arange(len(words.ends))
    lines[ends] = _NEWLINE
    is_text = np.ones(len(lines), bool)
    is_text[ends] = False
    lines[is_text] = np.frombuffer(text, np.uint8)
    return lines[:-1].tobytes()


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
