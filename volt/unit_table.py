"""`UnitTable`: the distinct units met so far and what each stands for; lines → numbers of units → values.

A table belongs to one thread at a time. It grows as units come, and is emptied once it holds more than its limit.

>>> from volt.units import UnitRule
>>> from volt.text import PreTokenizer
>>> table = UnitTable(UnitRule.of(PreTokenizer()), np.int32)
>>> lines = table.scan(b"low lower low\\n\\nlow", ord("\\n"))
>>> lines.numbers.tolist(), lines.ends.tolist(), table.new_units()
([0, 1, 0, 0], [3, 3, 4], (b'lowlower', array([3, 8])))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volt.units import UnitRule

Longs = NDArray[np.int64]
ROOM = 16  # values that may be read behind the last
_N_SLOTS = 1 << 12


@dataclass(frozen=True, slots=True)
class NumberedLines:
    """data: (n_bytes + padding,) uint8 text;  bounds: (n_lines,) int64, where the byte is that parts each line from the
    next;  text_ends: (n_lines,) int64, where its text ends;  numbers: (n,) int32;  ends: (n_lines,) int64, where each
    line's numbers end."""

    data: NDArray[np.uint8]
    bounds: Longs
    text_ends: Longs
    numbers: NDArray[np.int32]
    ends: Longs

    def line(self, index: int) -> bytes:
        """The text of a line."""
        start = self.bounds[index - 1] + 1 if index else 0
        return self.data[start : self.text_ends[index]].tobytes()

    def renumbered(self, numbers: NDArray[np.int32], ends: Longs) -> NumberedLines:
        """The same lines with other numbers."""
        return replace(self, numbers=numbers, ends=ends)


class UnitTable:
    """rule: what parts units;  dtype: of the values that units stand for;  limit: units kept, about."""

    def __init__(self, rule: UnitRule, dtype: DTypeLike, *, limit: int = 1 << 20) -> None:
        self.rule, self.limit, self._dtype, self._room = rule, limit, np.dtype(dtype), _Room()
        self.clear()

    def clear(self) -> None:
        """Forget all units."""
        from volt.kernels.units import Table

        n = _N_SLOTS
        self._table = Table(
            np.zeros(4 * n, np.uint64), np.zeros(1 << 14, np.uint8), np.zeros(n // 2 + 1, np.int64),
            np.zeros(n // 2, np.uint8),
        )  # fmt: skip
        self.n_units = self.n_known = 0
        self.irregular, self.n_irregular = np.zeros(0, bool), 0
        self.starts, self.values = np.zeros(1, np.int64), np.zeros(ROOM, self._dtype)

    def scan(self, text: bytes | memoryview, separator: int, *, strip_return: bool = False) -> NumberedLines:
        """Number the units of lines that end with a separator byte (the last may lack it).

        strip_return: a carriage return before the separator ends the line too. The result holds until the next scan.
        """
        from volt.kernels.units import LINE, N_NUMBERS, N_UNITS, scan

        if self.n_units > self.limit:
            self.clear()
        data, bounds = self._room.filled(text, separator)
        ends = bounds - (data[bounds - 1] == 13) * (bounds > 0) if strip_return else bounds
        numbers, line_ends = self._room.numbers, np.empty(len(bounds), np.int64)
        state = np.zeros(5, np.int64)
        state[N_UNITS] = self.n_units
        rule = self.rule
        while not scan(
            data, bounds, ends, self._table, rule.breaks, rule.keeps_breaks, rule.marks_first, numbers, line_ends, state
        ):
            self._grow(len(text))
        self.n_units = int(state[N_UNITS])
        assert state[LINE] == len(bounds)
        return NumberedLines(data, bounds, ends, numbers[: state[N_NUMBERS]], line_ends)

    def _grow(self, n_bytes: int) -> None:
        """Twice the slots, and room for the bytes of any units to come."""
        from volt.kernels.units import Table, rebuild

        old = self._table
        rows = np.zeros(2 * len(old.rows), np.uint64)
        rebuild(rows, old.rows)
        n = len(rows) // 8
        self._table = Table(
            rows, _longer(old.bytes, 2 * len(old.bytes) + n_bytes), _longer(old.starts, n + 1), _longer(old.firsts, n)
        )

    def new_units(self) -> tuple[bytes, Longs]:
        """The units that have no values yet: their bytes, one after the other, and where each ends."""
        starts = self._table.starts[self.n_known : self.n_units + 1]
        return self._table.bytes[starts[0] : starts[-1]].tobytes(), starts[1:] - starts[0]

    def new_firsts(self) -> NDArray[np.uint8]:
        """Which of the new units stand first in their line, where that is marked."""
        return self._table.firsts[self.n_known : self.n_units]

    def learn(self, values: NDArray[Any], ends: Longs, irregular: NDArray[np.bool_]) -> None:
        """Say what the new units stand for. values: of all of them; ends: where each one's end; irregular: (n,)."""
        self.lend(values, ends)
        self.irregular = np.concatenate([self.irregular, irregular])
        self.n_irregular += int(irregular.sum())
        self.n_known = self.n_units

    def lend(self, values: NDArray[Any], ends: Longs) -> int:
        """Numbers, the first of which is returned, for values that no unit has, until new units are learned."""
        self.starts = self.starts[: self.n_known + 1]
        used = int(self.starts[-1])
        if used + len(values) + ROOM > len(self.values):
            self.values = _longer(self.values, 2 * (used + len(values)) + ROOM)
        self.values[used : used + len(values)] = values
        self.starts = np.concatenate([self.starts, used + ends])
        return self.n_known


class _Room:
    """Memory that every scan uses again: fresh memory would cost more than the work that is done in it.

    data: text with padding behind it;  numbers: of its units;  places: of its line ends.
    """

    def __init__(self) -> None:
        self._size = -1

    def filled(self, text: bytes | memoryview, separator: int) -> tuple[NDArray[np.uint8], Longs]:
        """The text with spaces behind it, and where its lines end: at separators, and behind a last without one."""
        from volt.kernels.memory import PADDING
        from volt.kernels.units import find_bytes

        n = len(text)
        if n > self._size:
            self._size = n
            self._data, self._places = np.empty(n + PADDING, np.uint8), np.empty(n + 1, np.int64)
            self.numbers = np.empty(n + 1, np.int32)
        data = self._data[: n + PADDING]
        data[:n] = memoryview(text)
        data[n:] = 32
        found = find_bytes(data, n, separator, self._places)
        if n and data[n - 1] != separator:
            self._places[found], found = n, found + 1
        return data, self._places[:found]


def _longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    """A copy with room for more."""
    longer = np.zeros(length, array.dtype)
    longer[: len(array)] = array
    return longer
