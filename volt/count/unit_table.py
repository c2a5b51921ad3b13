"""How often each distinct unit of a text, and each distinct word of units, occurs. A unit stands between white space.

    text --- UnitTable ---> counted units --- WordTable ---> counted words, as the bytes that they are in the text

A table belongs to one thread. Its rows take 64 to 128 bytes a unit; whoever fills it looks at `is_full` now and then.

>>> table = UnitTable(UnitEnds(breaks=1 << ord(" "), keeps_breaks=True))
>>> table.add(b"low lower low\\nlow")
>>> units = table.units()
>>> units.text, units.ends, units.counts
(b'low lower low', array([ 3,  9, 13]), array([2, 1, 1]))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.files.padded import PaddedMemory
from volt.kernels.room import aligned, longer

if TYPE_CHECKING:
    from volt.kernels.pattern_cutting import SplitTables
    from volt.kernels.unit_counts import Ends

Longs = NDArray[np.int64]
_N_SLOTS = 1 << 13  # at first
MOST, MOST_BYTES = 1 << 20, 1 << 26
_NEWLINE = ord("\n")


@dataclass(frozen=True, slots=True)
class UnitEnds:
    """What ends a unit.

    breaks: bit b is set if byte b ≤ 32 parts units
    keeps_breaks: whether breaks belong to the unit behind them
    marks_first: whether a line's first unit is another one than the same bytes elsewhere
    """

    breaks: int
    keeps_breaks: bool = False
    marks_first: bool = False


class Counted(NamedTuple):
    """Distinct units, or words.

    data: (…,) uint8, all of them in UTF-8, with PADDING bytes behind that may be read
    starts: (n,) int64, where each starts
    ends: (n,) int64, where each ends
    firsts: (n,) uint8, 1 for each that starts its line, where that is marked
    counts: (n,) int64, how often each occurs
    """

    data: NDArray[np.uint8]
    starts: Longs
    ends: Longs
    firsts: NDArray[np.uint8]
    counts: Longs

    @property
    def text(self) -> bytes:
        """All of them, one after the other."""
        return self.data[: self.ends[-1] if len(self.ends) else 0].tobytes()


class CountTable:
    """Distinct runs of bytes met so far, and how often each occurs.

    most, most_bytes: from how many, or how many bytes of them, on the table is full
    """

    def __init__(self, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most, most_bytes
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        from volt.kernels.unit_rows import UnitRows

        n, nothing = _N_SLOTS // 2, np.zeros(0, np.int64)
        self._table = UnitRows(
            rows=aligned(4 * _N_SLOTS), bytes=np.zeros(16 * n, np.uint8), starts=np.zeros(n + 1, np.int64),
            firsts=np.zeros(n, np.uint8), value_starts=nothing, values=np.zeros(0, np.uint8), pending=nothing,
        )  # fmt: skip
        self.n = 0

    @property
    def is_full(self) -> bool:
        """Whether it should not grow further."""
        most, most_bytes = self._most
        return self.n >= most or int(self._table.starts[self.n]) >= most_bytes

    def units(self) -> Counted:
        """What was met, in the order in which it was. The table may be cleared afterwards, but not filled further."""
        n, rows, data = self.n, self._table.rows.reshape(-1, 4), self._table.bytes[:]
        rows = rows[rows[:, 2] != 0]
        counts = np.empty(n, np.int64)
        counts[(rows[:, 2] >> np.uint64(32)).astype(np.int64) - 1] = rows[:, 3]
        data.flags.writeable = False  # as texts are, so that loops are compiled once
        return Counted(data, self._table.starts[:n], self._table.starts[1 : n + 1], self._table.firsts[:n], counts)

    def _grow(self, n: int, n_bytes: int) -> None:
        """Make room where it is short, if there are n of them now, and the next one has so many bytes at most."""
        from volt.kernels.unit_rows import rebuild

        old = self._table
        if n < len(old.firsts):
            self._table = old._replace(bytes=longer(old.bytes, 2 * len(old.bytes) + n_bytes))
            return
        rows = aligned(2 * len(old.rows))
        rebuild(rows, old.rows)
        self._table = old._replace(rows=rows, starts=longer(old.starts, 2 * n + 1), firsts=longer(old.firsts, 2 * n))


class UnitTable(CountTable):
    """The distinct units of texts."""

    def __init__(self, ends: UnitEnds, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        from volt.kernels.unit_counts import RING

        super().__init__(most=most, most_bytes=most_bytes)
        self._ends, self._memory, self._ring = ends, PaddedMemory(), aligned(RING)

    def add(self, text: bytes | memoryview) -> None:
        """Count the units of a text.

        text: whole lines of UTF-8, each with "\\n" or "\\r\\n" behind it (the last may lack it)
        """
        from volt.kernels.unit_counts import N_UNITS, count_units

        padded, state = self._memory.read(text, separator=_NEWLINE), np.array([self.n, 0, 0, 0], np.int64)
        while not count_units(padded.data, padded.size, self._loop_ends(), self._table, self._ring, state):
            self._grow(int(state[N_UNITS]), padded.size)
        self.n = int(state[N_UNITS])

    def _loop_ends(self) -> Ends:
        from volt.kernels.unit_counts import Ends

        ends = self._ends
        return Ends(_NEWLINE, True, ends.breaks, ends.keeps_breaks, ends.marks_first)


class WordTable(CountTable):
    """The distinct words of units."""

    def add(self, units: Counted, tables: SplitTables, *, matches_only: bool) -> None:
        """Count the words of units.

        tables: what cuts them
        matches_only: whether what lies between the matches of the one split is dropped
        """
        from volt.kernels.unit_counts import N_UNITS
        from volt.kernels.unit_words import add_words

        longest = int((units.ends - units.starts).max(initial=0))
        room, state = np.empty((2, longest + 1), np.int64), np.array([self.n, 0, 0], np.int64)
        while not add_words(
            units.data, units.starts, units.ends, units.counts, tables, int(matches_only), room[0], room[1],
            self._table, state,
        ):  # fmt: skip
            self._grow(int(state[N_UNITS]), longest)
        self.n = int(state[N_UNITS])
