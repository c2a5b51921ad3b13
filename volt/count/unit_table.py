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

from volt.files.loop_memory import PaddedMemory, aligned, longer
from volt.text.atoms import SPACE
from volt.text.patterns.published import GPT2
from volt.text.patterns.splitter import Split, Splitter, WordCutter
from volt.text.pretokenizer import PreTokenizer
from volt.text.white_space import SPLIT_SPACE, ascii_bytes, bits_of

if TYPE_CHECKING:
    from volt.kernels.regex_cutting import SplitTables
    from volt.kernels.unit_table import Ends


Longs = NDArray[np.int64]
_N_SLOTS = 1 << 13  # at first
MOST, MOST_BYTES = 1 << 20, 1 << 26


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
        return self.data[: self.ends[-1] if len(self.ends) else 0].tobytes()


class CountTable:
    """Table of distinct byte strings and how often each occurs; full at `most` strings or `most_bytes` bytes."""

    def __init__(self, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most, most_bytes
        self.clear()

    def clear(self) -> None:
        from volt.kernels.unit_table import UnitRows

        n, nothing = _N_SLOTS // 2, np.zeros(0, np.int64)
        self._table = UnitRows(
            rows=aligned(4 * _N_SLOTS),
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
        most, most_bytes = self._most
        return self.n >= most or int(self._table.starts[self.n]) >= most_bytes

    def units(self) -> CountedUnits:
        """Return the byte strings in order of first occurrence; clear the table before adding more."""
        n, rows, data = self.n, self._table.rows.reshape(-1, 4), self._table.bytes[:]
        rows = rows[rows[:, 2] != 0]
        counts = np.empty(n, np.int64)
        counts[(rows[:, 2] >> np.uint64(32)).astype(np.int64) - 1] = rows[:, 3]
        data.flags.writeable = False  # read-only like texts, so that loops are compiled once
        return CountedUnits(
            data,
            self._table.starts[:n],
            self._table.starts[1 : n + 1],
            self._table.firsts[:n],
            counts,
        )

    def _grow(self, n: int, n_bytes: int) -> None:
        from volt.kernels.unit_table import rebuild

        old = self._table
        if n < len(old.firsts):
            self._table = old._replace(bytes=longer(old.bytes, 2 * len(old.bytes) + n_bytes))
            return
        rows = aligned(2 * len(old.rows))
        rebuild(rows, old.rows)
        self._table = old._replace(
            rows=rows, starts=longer(old.starts, 2 * n + 1), firsts=longer(old.firsts, 2 * n)
        )


class UnitTable(CountTable):
    def __init__(self, ends: Ends, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        from volt.kernels.unit_table import RING

        super().__init__(most=most, most_bytes=most_bytes)
        self._ends, self._memory, self._ring = ends, PaddedMemory(), aligned(RING)

    def add(self, text: bytes | memoryview) -> None:
        """Count the units of a text: whole lines of UTF-8."""
        from volt.kernels.unit_table import N_UNITS, count_units

        padded, state = (
            self._memory.read(text, separator=_NEWLINE),
            np.array([self.n, 0, 0, 0], np.int64),
        )
        while not count_units(padded.data, padded.size, self._ends, self._table, self._ring, state):
            self._grow(int(state[N_UNITS]), padded.size)
        self.n = int(state[N_UNITS])


class WordTable(CountTable):
    def add(self, units: CountedUnits, tables: SplitTables, *, matches_only: bool) -> None:
        """Count the words of units. matches_only: whether text between matches is dropped"""
        from volt.kernels.unit_table import N_UNITS, add_words

        longest = int((units.ends - units.starts).max(initial=0))
        room, state = np.empty((2, longest + 1), np.int64), np.array([self.n, 0, 0], np.int64)
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


_BLANK, _NEWLINE = ord(" "), ord("\n")
_SPACE = SPACE.encode()


@dataclass(frozen=True, eq=False, slots=True)
class UnitCutter:
    """Splits texts into units, and units into words."""

    ends: Ends
    cutter: WordCutter
    spares_space: bool = False

    @staticmethod
    @lru_cache(maxsize=64)
    def of(pretokenizer: PreTokenizer) -> UnitCutter | None:
        """Return the cutter of a pre-tokenizer; None if its words depend on whole lines."""
        from volt.kernels.unit_table import Ends

        if pretokenizer.name == "whitespace":
            whole = WordCutter.of(Splitter.of(Split(pretokenizer.pattern)), matches_only=True)
            ends = Ends(
                _NEWLINE,
                True,
                bits_of(ascii_bytes(SPLIT_SPACE)),
                keeps_breaks=False,
                marks_first=False,
            )
            return UnitCutter(ends, whole)
        if pretokenizer.is_bytes or pretokenizer.has_own_pattern:
            cutter = pretokenizer.cutter
        else:
            pattern = (
                GPT2 if pretokenizer.name == "gpt2" else pretokenizer.pattern.replace(SPACE, " ")
            )
            cutter = WordCutter.of(Splitter.of(Split(pattern))).without_user_tokens
        if cutter is None or (parting := cutter.parting) is None:
            return None
        breaks = parting.breaks & ~parting.clinging
        ends = Ends(
            _NEWLINE, True, breaks, keeps_breaks=True, marks_first=pretokenizer.dummy_prefix
        )
        return UnitCutter(ends, cutter, spares_space=pretokenizer.if_absent)

    def normal(self, data: bytes) -> bytes:
        return data.replace(_SPACE, b" ") if self.cutter.reads_marks else data

    def cuts_apart(self, data: bytes) -> bool:
        """Check whether a text must be split at characters of the private range that stands for user tokens."""
        return self.cutter.parts_at_users(data)

    def add(self, words: WordTable, units: CountedUnits) -> None:
        units = self._with_dummies(units) if self.ends.marks_first else units
        words.add(units, self.cutter.tables_for(units.text), matches_only=self.cutter.matches_only)

    def table(self, words: CountedUnits) -> pl.DataFrame:
        """Return a table with columns word and count; words are spelled as in vocabularies."""
        text = np.frombuffer(words.text, np.uint8)
        lines = np.insert(text, words.ends, _NEWLINE)[
            :-1
        ].tobytes()  # joined by line ends, which no word contains
        spelled = pl.Series("word", [self.cutter.spelled(lines)]).str.split("\n").explode()
        table = pl.DataFrame({"word": spelled, "count": words.counts})
        if self.cutter.is_bytes or not (b" " in lines and _SPACE in lines):
            return table
        return table.group_by("word").agg(
            pl.col("count").sum()
        )  # a space and a "▁" of the text are spelled alike

    def _with_dummies(self, units: CountedUnits) -> CountedUnits:
        marked = units.firsts.astype(bool)
        if self.spares_space:
            marked &= units.data[units.starts] != _BLANK
        moved = np.cumsum(marked)  # how far each unit moves
        data = np.insert(units.data, units.starts[marked], _BLANK)
        data.flags.writeable = False
        return units._replace(
            data=data, starts=units.starts + moved - marked, ends=units.ends + moved
        )
