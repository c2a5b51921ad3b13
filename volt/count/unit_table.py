"""`UnitTable`: how often each distinct unit of a text occurs. A unit is what stands between white space.

A table belongs to one thread. Its rows take 64 to 128 bytes a unit; whoever fills it looks at `is_full` now and then.

>>> table = UnitTable(UnitEnds(breaks=1 << ord(" "), keeps_breaks=True))
>>> table.add(b"low lower low\\nlow")
>>> units = table.units()
>>> units.data, units.ends, units.counts
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
    from volt.kernels.unit_counts import Ends

Longs = NDArray[np.int64]
_N_SLOTS = 1 << 13  # at first
MOST_UNITS, MOST_BYTES = 1 << 20, 1 << 26
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


class CountedUnits(NamedTuple):
    """Distinct units.

    data: all of them in UTF-8, one after the other
    ends: (n_units,) int64, where each ends, in bytes
    firsts: (n_units,) uint8, 1 for each that starts its line, where that is marked
    counts: (n_units,) int64, how often each occurs
    """

    data: bytes
    ends: Longs
    firsts: NDArray[np.uint8]
    counts: Longs


class UnitTable:
    """The distinct units met so far, and how often each occurs.

    most_units, most_bytes: from how many units, or bytes of them, on the table is full
    """

    def __init__(self, ends: UnitEnds, *, most_units: int = MOST_UNITS, most_bytes: int = MOST_BYTES) -> None:
        from volt.kernels.unit_counts import RING

        self._ends, self._most = ends, (most_units, most_bytes)
        self._memory, self._ring = PaddedMemory(), aligned(RING)
        self.clear()

    def clear(self) -> None:
        """Forget all units."""
        from volt.kernels.unit_rows import UnitRows

        n, nothing = _N_SLOTS // 2, np.zeros(0, np.int64)
        self._table = UnitRows(
            rows=aligned(4 * _N_SLOTS), bytes=np.zeros(16 * n, np.uint8), starts=np.zeros(n + 1, np.int64),
            firsts=np.zeros(n, np.uint8), value_starts=nothing, values=np.zeros(0, np.uint8), pending=nothing,
        )  # fmt: skip
        self.n_units = 0

    @property
    def is_full(self) -> bool:
        """Whether it should not grow further."""
        most_units, most_bytes = self._most
        return self.n_units >= most_units or int(self._table.starts[self.n_units]) >= most_bytes

    def add(self, text: bytes | memoryview) -> None:
        """Count the units of a text.

        text: whole lines of UTF-8, each with "\\n" or "\\r\\n" behind it (the last may lack it)
        """
        from volt.kernels.unit_counts import N_UNITS, count_units

        padded, state = self._memory.read(text, separator=_NEWLINE), np.array([self.n_units, 0, 0, 0], np.int64)
        while not count_units(padded.data, padded.size, self._loop_ends(), self._table, self._ring, state):
            if state[N_UNITS] == len(self._table.firsts):
                self._add_rows()
            else:
                self._add_bytes(padded.size)
        self.n_units = int(state[N_UNITS])

    def units(self) -> CountedUnits:
        """The units in the order in which they were met."""
        n, rows = self.n_units, self._table.rows.reshape(-1, 4)
        rows = rows[rows[:, 2] != 0]
        counts, ends = np.empty(n, np.int64), self._table.starts[1 : n + 1].copy()
        counts[(rows[:, 2] >> np.uint64(32)).astype(np.int64) - 1] = rows[:, 3]
        data = self._table.bytes[: ends[-1] if n else 0].tobytes()
        return CountedUnits(data, ends, self._table.firsts[:n].copy(), counts)

    def _loop_ends(self) -> Ends:
        from volt.kernels.unit_counts import Ends

        ends = self._ends
        return Ends(_NEWLINE, True, ends.breaks, ends.keeps_breaks, ends.marks_first)

    def _add_rows(self) -> None:
        """Make room for twice as many units."""
        from volt.kernels.unit_rows import rebuild

        old, n = self._table, 2 * len(self._table.firsts)
        rows = aligned(2 * len(old.rows))
        rebuild(rows, old.rows)
        self._table = old._replace(rows=rows, starts=longer(old.starts, n + 1), firsts=longer(old.firsts, n))

    def _add_bytes(self, n_bytes: int) -> None:
        """Double the room for bytes, or more: the longest unit of a text of so many bytes must fit."""
        room = 2 * len(self._table.bytes) + n_bytes
        self._table = self._table._replace(bytes=longer(self._table.bytes, room))
