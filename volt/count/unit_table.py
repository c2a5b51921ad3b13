r"""Text → counted units → counted words. A unit is the text between white space.

    text --- UnitTable ---> counted units --- WordTable ---> counted words, as bytes of the text

This requires a pre-tokenizer that splits a unit alone as it does within a line: most custom patterns, and all built-in
pre-tokenizers except "metaspace-line". A table belongs to one thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from volt.files.loop_memory import PaddedMemory, aligned_zeros, extended
from volt.text.atoms import SPACE
from volt.text.patterns.published import GPT2
from volt.text.patterns.splitter import Split, Splitter, WordCutter
from volt.text.pretokenizer import PreTokenizer
from volt.text.white_space import SPLIT_SPACE, ascii_bytes, bits_of

if TYPE_CHECKING:
    from volt.kernels.regex_cutting import SplitTables
    from volt.kernels.unit_scan import Rule


Longs = NDArray[np.int64]
_N_SLOTS = 1 << 13  # at first
MOST = 1 << 20
MOST_BYTES = 1 << 26


class CountedUnits(NamedTuple):
    """Distinct units or words, where each starts and ends in `data` (UTF-8 and padding bytes), and their counts.

    firsts: (n,) uint8, 1 for each unit that starts its line, if such units are marked
    """

    data: NDArray[np.uint8]
    starts: Longs
    ends: Longs
    firsts: NDArray[np.uint8]
    counts: Longs

    @property
    def text(self) -> bytes:
        end = self.ends.max(initial=0)  # of the last
        return self.data[:end].tobytes()


class CountTable:
    """Table of distinct byte strings and how often each occurs; full at `most` strings or `most_bytes` bytes."""

    def __init__(self, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.clear()

    def clear(self) -> None:
        from volt.kernels.unit_table import UnitRows

        n = _N_SLOTS // 2
        nothing = np.zeros(0, np.int64)
        self._table = UnitRows(
            rows=aligned_zeros(4 * _N_SLOTS),
            bytes=np.zeros(16 * n, np.uint8),
            starts=np.zeros(n + 1, np.int64),
            firsts=np.zeros(n, np.uint8),
            value_starts=nothing,
            values=np.zeros(0, np.uint8),
            pending=nothing,
        )
        self.n = 0

    @property
    def is_full(self) -> bool:
        return self.n >= self._most or int(self._table.starts[self.n]) >= self._most_bytes

    def units(self) -> CountedUnits:
        """Return the byte strings in order of first occurrence; clear the table before adding more."""
        table = self._table
        rows = table.rows.reshape(-1, 4)
        rows = rows[rows[:, 2] != 0]
        numbers = (rows[:, 2] >> np.uint64(32)).astype(np.int64)
        counts = np.empty(self.n, np.int64)
        counts[numbers - 1] = rows[:, 3]
        data = table.bytes[:]
        data.flags.writeable = False  # read-only like texts, so that loops are compiled once
        starts = table.starts[: self.n + 1]
        return CountedUnits(data, starts[:-1], starts[1:], table.firsts[: self.n], counts)

    def _grow(self, n: int, n_bytes: int) -> None:
        from volt.kernels.unit_table import rebuild

        old = self._table
        if n < len(old.firsts):
            self._table = old._replace(bytes=extended(old.bytes, 2 * len(old.bytes) + n_bytes))
            return
        rows = aligned_zeros(2 * len(old.rows))
        rebuild(rows, old.rows)
        self._table = old._replace(
            rows=rows, starts=extended(old.starts, 2 * n + 1), firsts=extended(old.firsts, 2 * n)
        )


class UnitTable(CountTable):
    def __init__(self, rule: Rule, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        from volt.kernels.unit_scan import RING, Effects

        super().__init__(most=most, most_bytes=most_bytes)
        self._rule = rule
        self._memory = PaddedMemory()
        self._ring = aligned_zeros(RING)
        no_classes = np.zeros(0, np.uint8)
        self._effects = Effects(no_classes, no_classes)

    def add(self, text: bytes | memoryview) -> None:
        """Count the units of a text: whole lines of UTF-8."""
        from volt.kernels.count_units import count_units
        from volt.kernels.unit_table import N_UNITS

        padded = self._memory.read(text, separator=_NEWLINE)
        state = np.array([self.n, 0, 0, 0], np.int64)
        while not count_units(
            padded.data, padded.size, self._rule, self._effects, self._table, self._ring, state
        ):
            self._grow(int(state[N_UNITS]), padded.size)
        self.n = int(state[N_UNITS])


class WordTable(CountTable):
    def add(self, units: CountedUnits, tables: SplitTables, *, matches_only: bool) -> None:
        """Count the words of units. matches_only: whether text between matches is dropped"""
        from volt.kernels.count_units import add_words
        from volt.kernels.unit_table import N_UNITS

        longest = int((units.ends - units.starts).max(initial=0))
        room = np.empty((2, longest + 1), np.int64)
        state = np.array([self.n, 0, 0], np.int64)
        while not add_words(
            units.data,
            units.starts,
            units.ends,
            units.counts,
            tables,
            int(matches_only),
            room[0],
            room[1],
            self._table,
            state,
        ):
            self._grow(int(state[N_UNITS]), longest)
        self.n = int(state[N_UNITS])


_BLANK = ord(" ")
_NEWLINE = ord("\n")
_SPACE = SPACE.encode()


@dataclass(frozen=True, eq=False, slots=True)
class UnitCutter:
    """Splits texts into units, and units into words."""

    rule: Rule
    cutter: WordCutter
    spares_space: bool = False

    @staticmethod
    @lru_cache(maxsize=64)
    def of(pretokenizer: PreTokenizer) -> UnitCutter | None:
        """Return the cutter of a pre-tokenizer; None if its words depend on whole lines."""
        from volt.kernels.unit_scan import Rule

        pattern = pretokenizer.pattern
        if pretokenizer.name == "whitespace":
            cutter = WordCutter(Splitter.of(Split(pattern)), matches_only=True)
            spaces = bits_of(ascii_bytes(SPLIT_SPACE))
            rule = Rule(_NEWLINE, True, spaces, clinging=0, keeps_breaks=False, marks_first=False)
            return UnitCutter(rule, cutter)

        if pretokenizer.is_bytes or pretokenizer.has_own_pattern:
            own_cutter = pretokenizer.cutter
        else:
            pattern = pattern.replace(SPACE, " ")
            if pretokenizer.name == "gpt2":
                pattern = GPT2
            own_cutter = WordCutter(Splitter.of(Split(pattern))).without_user_tokens
        if own_cutter is None or own_cutter.parting is None:
            return None
        parting = own_cutter.parting
        breaks = parting.breaks & ~parting.clinging
        marks = pretokenizer.dummy_prefix
        rule = Rule(_NEWLINE, True, breaks, clinging=breaks, keeps_breaks=True, marks_first=marks)
        return UnitCutter(rule, own_cutter, spares_space=pretokenizer.if_absent)

    def normal(self, data: bytes) -> bytes:
        if self.cutter.reads_marks:
            data = data.replace(_SPACE, b" ")
        return data

    def cuts_apart(self, data: bytes) -> bool:
        """Check whether a text must be split at characters of the private range that stands for user tokens."""
        return self.cutter.parts_at_users(data)

    def add(self, words: WordTable, units: CountedUnits) -> None:
        if self.rule.marks_first:
            units = self._with_dummies(units)
        words.add(units, self.cutter.tables_for(units.text), matches_only=self.cutter.matches_only)

    def table(self, words: CountedUnits) -> pl.DataFrame:
        """Return a table with columns word and count; words are spelled as in vocabularies."""
        text = np.frombuffer(words.text, np.uint8)
        ended = np.insert(text, words.ends, _NEWLINE)  # no word contains a line end
        lines = ended[:-1].tobytes()
        spelled = pl.Series("word", [self.cutter.spelled(lines)]).str.split("\n").explode()
        table = pl.DataFrame({"word": spelled, "count": words.counts})
        if self.cutter.is_bytes or b" " not in lines or _SPACE not in lines:
            return table
        # A space and a "▁" of the text are spelled alike.
        return table.group_by("word").agg(pl.col("count").sum())

    def _with_dummies(self, units: CountedUnits) -> CountedUnits:
        marked = units.firsts.astype(bool)
        if self.spares_space:
            marked &= units.data[units.starts] != _BLANK
        moved = np.cumsum(marked)  # how far each unit moves
        data = np.insert(units.data, units.starts[marked], _BLANK)
        data.flags.writeable = False
        starts = units.starts + moved - marked
        return units._replace(data=data, starts=starts, ends=units.ends + moved)
