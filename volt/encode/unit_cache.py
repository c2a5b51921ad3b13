"""`UnitCache`: the distinct units met so far and what each stands for; bytes → values, line by line.

A table belongs to one thread at a time. It grows as units come, and is emptied once it holds more than its limit.

>>> from volt.encode.unit_encoder import numbering_learner
>>> from volt.text.pretokenizer import PreTokenizer
>>> from volt.encode.units import UnitRule
>>> table = UnitCache(UnitRule.of(PreTokenizer()), numbering_learner(), np.int32)
>>> lines = table.encode(table.read(b"low lower low\\n\\nlow", separator=ord("\\n")))
>>> lines.values.tolist(), lines.ends.tolist(), table.units(np.arange(table.n_units))
([0, 1, 0, 0], [3, 3, 4], (b'lowlower', array([3, 8])))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volt.encode.units import UnitRule
from volt.files.spans import FileSpan

if TYPE_CHECKING:
    from volt.kernels.unit_values import UnitEncoder

Longs = NDArray[np.int64]
_N_SLOTS = 1 << 17
_N_LINES, _N_STRANGE = 1 << 14, 1 << 9
_N_AT_ONCE = 1 << 12  # pending units
_CACHE_LINE, _LARGE_PAGE = 64, 1 << 21  # bytes


@dataclass(frozen=True, slots=True)
class Lines:
    """values: (n,) int32 or uint8;  ends: (n_lines,) int64, where each line's end;  strange: (n, 2) int64: the lines
    that hold irregular units (number, end of its text), which are written as empty."""

    values: NDArray[Any]
    ends: Longs
    strange: Longs


@dataclass(frozen=True, slots=True)
class Padded:
    """data: (size + PADDING or more,) uint8: a text of `size` bytes, the last of which is the separator."""

    data: NDArray[np.uint8]
    size: int
    separator: int


class UnitCache:
    """rule: what parts units;  learner: what they stand for;  dtype: of the values;  limit: units kept, about,
    which words of units of several count as too."""

    def __init__(self, rule: UnitRule, learner: UnitEncoder, dtype: DTypeLike, *, limit: int = 1 << 20) -> None:
        from volt.kernels.unit_loop import RING

        self.rule, self.limit, self._learner, self._dtype = rule, limit, learner.for_thread(), np.dtype(dtype)
        self._line_ends, self._strange = np.empty(_N_LINES, np.int64), np.empty((_N_STRANGE, 2), np.int64)
        self._padded, self._ring = np.zeros(0, np.uint8), _aligned(RING)
        self.clear()

    def trim(self) -> None:
        """Forget all units if there are more than the limit."""
        if self.n_units > self.limit:
            self.clear()

    def clear(self) -> None:
        """Forget all units."""
        from volt.kernels.unit_loop import ROOM
        from volt.kernels.unit_rows import UnitRows

        n = _N_SLOTS * 3 // 8
        self._table = UnitRows(
            rows=_aligned(4 * _N_SLOTS), bytes=np.zeros(16 * n, np.uint8), starts=np.zeros(n + 1, np.int64),
            firsts=np.zeros(n, np.uint8), value_starts=np.zeros(n, np.int64),
            values=np.zeros(16 * n + ROOM, np.uint8), pending=np.zeros(n, np.int64),
        )  # fmt: skip
        self.n_units = self._n_values = self._n_pending = 0

    def read(self, text: bytes | memoryview | FileSpan, *, separator: int, padded: bool = False) -> Padded:
        """A text as the loop needs it; in the table's own memory, until the next is read, unless it is `padded`.

        separator: the byte that ends a line (the last may lack it);  padded: the text ends with one and has `PADDING`
        readable bytes behind it.
        """
        from volt.kernels.memory import PADDING

        size = len(text)
        if padded and not isinstance(text, FileSpan):
            return Padded(np.frombuffer(text, np.uint8), size, separator)
        if len(self._padded) < size + 1 + PADDING:
            self._padded = np.empty(size + 1 + PADDING, np.uint8)
        whole = self._padded
        if isinstance(text, FileSpan):
            text.read_into(whole[:size].data)
        else:
            whole[:size] = memoryview(text)
        if size and whole[size - 1] != separator:
            whole[size], size = separator, size + 1
        data = whole[: size + PADDING]
        data.flags.writeable = False  # as a text's own memory is, so that the loop is compiled once
        return Padded(data, size, separator)

    def encode(self, text: Padded, *, strips_return: bool = False) -> Lines:
        """What the lines of a text stand for; nothing that counts while units are pending (`pending`, `learn`).

        strips_return: a carriage return before the separator is no part of the line.
        """
        from volt.kernels import unit_entry as entering
        from volt.kernels import unit_loop as units

        self._n_pending, is_text = 0, self._dtype == np.uint8
        rule = units.Rule(
            text.separator, strips_return, self.rule.breaks, self.rule.keeps_breaks, self.rule.marks_first, is_text
        )
        out = np.empty((2 * text.size if is_text else text.size + text.size // 2) + 2 * units.ROOM, np.uint8)
        state = np.zeros(units.N_SLOTS_OF_STATE, np.int64)
        state[entering.N_UNITS], state[entering.N_VALUES] = self.n_units, self._n_values
        while status := units.encode_units(
            text.data, text.size, rule, self._table, self._learner, out, self._line_ends, self._strange, self._ring,
            state,
        ):  # fmt: skip
            if status == units.OUT_FULL:
                out = _longer(out, 2 * len(out))
            elif status == units.LINES_FULL:
                self._line_ends = _longer(self._line_ends, 2 * len(self._line_ends))
                self._strange = np.concatenate([self._strange, np.empty_like(self._strange)])
            elif state[entering.N_UNITS] >= len(self._table.firsts):
                self._add_rows()
            else:
                self._add_room(text.size)
        self.n_units, self._n_values = int(state[entering.N_UNITS]), int(state[entering.N_VALUES])
        self._n_pending = int(state[entering.N_PENDING])
        ends = self._line_ends[: state[units.LINE]] // self._dtype.itemsize
        return Lines(out[: state[units.AT]].view(self._dtype), ends, self._strange[: state[units.N_STRANGE]].copy())

    @property
    def pending(self) -> Longs:
        """The numbers of the units that the last text held and that are yet to be learned. (n,)"""
        return self._table.pending[: self._n_pending]

    def units(self, numbers: Longs) -> tuple[bytes, Longs]:
        """The bytes of units, one after the other, and where each ends."""
        starts, sizes = self._table.starts[numbers], self._table.starts[numbers + 1] - self._table.starts[numbers]
        ends = np.cumsum(sizes)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)
        return self._table.bytes[places].tobytes(), ends

    def firsts(self, numbers: Longs) -> NDArray[np.uint8]:
        """Which of these units stand first in their line, where that is marked."""
        return self._table.firsts[numbers]

    def learn_again(self) -> None:
        """Learn those pending units that can be learned now that more characters have a class."""
        from volt.kernels.unit_loop import ROOM, learn_again
        from volt.kernels.unit_rows import complete

        pending, kept = self.pending.copy(), list[Longs]()
        for numbers in np.array_split(pending, 1 + len(pending) // _N_AT_ONCE):
            n_bytes = int((self._table.starts[numbers + 1] - self._table.starts[numbers]).sum())
            self._reserve(self._n_values + 2 * (n_bytes + len(numbers)) * self._learner.widest + ROOM)
            data, sizes = self._table.bytes[:], np.empty(len(numbers), np.int64)
            data.flags.writeable = False
            self._n_values = learn_again(data, self._table, self._learner, numbers, sizes, self._n_values)
            complete(self._table, numbers[sizes >= 0], sizes[sizes >= 0])
            kept.append(numbers[sizes < 0])
        left = np.concatenate(kept)
        self._table.pending[: len(left)], self._n_pending = left, len(left)

    def learn(self, values: NDArray[Any], ends: Longs, irregular: NDArray[np.bool_]) -> None:
        """Say what the pending units stand for. values: of all; ends: where each one's end; irregular: (n,)."""
        from volt.kernels.unit_entry import IRREGULAR
        from volt.kernels.unit_loop import ROOM
        from volt.kernels.unit_rows import complete

        used, values, ends = self._n_values, values.view(np.uint8), ends * self._dtype.itemsize
        self._reserve(used + len(values) + ROOM)
        table = self._table
        table.values[used : used + len(values)] = values
        starts = np.concatenate([[0], ends[:-1]])
        table.value_starts[self.pending] = used + starts
        complete(table, self.pending, np.where(irregular, IRREGULAR, ends - starts))
        self._n_values, self._n_pending = used + len(values), 0

    def _reserve(self, n: int) -> None:
        """Room for so many bytes of values."""
        if n > len(self._table.values):
            self._table = self._table._replace(values=_longer(self._table.values, 2 * n))

    def _add_rows(self) -> None:
        """Twice as many units."""
        from volt.kernels.unit_rows import rebuild

        old, n = self._table, 2 * len(self._table.firsts)
        rows = _aligned(2 * len(old.rows))
        rebuild(rows, old.rows)
        self._table = old._replace(
            rows=rows, starts=_longer(old.starts, n + 1), firsts=_longer(old.firsts, n),
            value_starts=_longer(old.value_starts, n), pending=_longer(old.pending, n),
        )  # fmt: skip

    def _add_room(self, n_bytes: int) -> None:
        """Twice the room for bytes and values, and enough for the longest unit of so many bytes."""
        from volt.kernels.cutting import LONGEST

        table = self._table
        n, n_values = 2 * len(table.bytes) + n_bytes, 2 * len(table.values) + 2 * (LONGEST + 1) * self._learner.widest
        self._table = table._replace(bytes=_longer(table.bytes, n), values=_longer(table.values, n_values))


def _aligned(n: int) -> NDArray[np.uint64]:
    """Zeros, none of whose rows lies across the end of a cache line; many of them start at a large page, so that Linux
    can give such pages: they cost less to get and to look up."""
    step = _LARGE_PAGE if 8 * n >= _LARGE_PAGE else _CACHE_LINE
    room = np.zeros(n + step // 8, np.uint64)
    skip = -room.ctypes.data % step // 8
    return room[skip : skip + n]


def _longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    """A copy with room for more."""
    longer = np.zeros(length, array.dtype)
    longer[: len(array)] = array
    return longer
