"""`UnitCache`: the distinct units met so far and the values of each; bytes → values, line by line.

A cache belongs to one thread at a time. It grows as units come, and is emptied once it holds more than its limit. Words
such as unit, pending and irregular are explained in volt.kernels.

>>> from volt.encode.unit_encoder import numbering_encoder
>>> from volt.encode.units import UnitRule
>>> table = UnitCache(UnitRule(1 << ord(" ")), numbering_encoder(), np.int32)
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
from volt.files.padded import Padded, PaddedMemory
from volt.files.spans import FileSpan
from volt.kernels.room import aligned, longer

if TYPE_CHECKING:
    from volt.kernels.unit_loop import Rule
    from volt.kernels.unit_state import LoopState
    from volt.kernels.unit_values import UnitEncoder

Longs = NDArray[np.int64]
_N_SLOTS = 1 << 17
_N_LINES, _N_LEFT = 1 << 14, 1 << 9
_N_AT_ONCE = 1 << 12  # pending units that are encoded in one call


@dataclass(frozen=True, slots=True)
class Lines:
    """The values of a text's lines.

    values: (n,) int32 or uint8
    ends: (n_lines,) int64, where each line's values end
    left: (n_left, 2) int64, the lines that are left to Python: the line's number, and where its text ends; `values`
        has nothing of them
    """

    values: NDArray[Any]
    ends: Longs
    left: Longs


class UnitCache:
    """The distinct units met so far, and their values.

    rule: what parts units
    encoder: how a unit's bytes become values
    dtype: type of the values
    limit: about how many units are kept; each word of a unit that has several counts as one more
    """

    def __init__(self, rule: UnitRule, encoder: UnitEncoder, dtype: DTypeLike, *, limit: int = 1 << 20) -> None:
        from volt.kernels.unit_loop import RING

        self.rule, self.limit, self._encoder, self._dtype = rule, limit, encoder.for_thread(), np.dtype(dtype)
        self._line_ends, self._left = np.empty(_N_LINES, np.int64), np.empty((_N_LEFT, 2), np.int64)
        self._memory, self._ring = PaddedMemory(), aligned(RING)
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
            rows=aligned(4 * _N_SLOTS), bytes=np.zeros(16 * n, np.uint8), starts=np.zeros(n + 1, np.int64),
            firsts=np.zeros(n, np.uint8), value_starts=np.zeros(n, np.int64),
            values=np.zeros(16 * n + ROOM, np.uint8), pending=np.zeros(n, np.int64),
        )  # fmt: skip
        self.n_units = self._n_values = self._n_pending = 0

    def read(self, text: bytes | memoryview | FileSpan, *, separator: int, padded: bool = False) -> Padded:
        """A text as the loop needs it, in the cache's own memory until the next is read: see `PaddedMemory`."""
        return self._memory.read(text, separator=separator, padded=padded)

    def encode(self, text: Padded, *, strips_return: bool = False) -> Lines:
        """The values of a text's lines. They count only if no units are pending: see `pending` and `fill_pending`.

        strips_return: whether a carriage return before the separator is no part of the line
        """
        from volt.kernels.unit_loop import ROOM, encode_units
        from volt.kernels.unit_state import LoopState

        self._n_pending, rule = 0, self._loop_rule(text.separator, strips_return)
        out = np.empty((2 * text.size if rule.is_text else text.size + text.size // 2) + 2 * ROOM, np.uint8)
        slots = LoopState(n_units=self.n_units, n_values=self._n_values).slots()
        while status := encode_units(
            text.data, text.size, rule, self._table, self._encoder, out, self._line_ends, self._left, self._ring, slots
        ):
            out = self._with_room(status, out, LoopState.read(slots), text)
        state = LoopState.read(slots)
        self.n_units, self._n_values, self._n_pending = state.n_units, state.n_values, state.n_pending
        ends = self._line_ends[: state.line] // self._dtype.itemsize
        return Lines(out[: state.written].view(self._dtype), ends, self._left[: state.n_left].copy())

    def _loop_rule(self, separator: int, strips_return: bool) -> Rule:
        """How the loop parts lines and units."""
        from volt.kernels.unit_loop import Rule

        rule, is_text = self.rule, self._dtype == np.uint8
        return Rule(separator, strips_return, rule.breaks, rule.clinging, rule.keeps_breaks, rule.marks_first, is_text)

    def _with_room(self, status: int, out: NDArray[np.uint8], state: LoopState, text: Padded) -> NDArray[np.uint8]:
        """Make room in what the loop has found full. Returns `out`, or a longer copy of it."""
        from volt.kernels.unit_loop import LINES_FULL, OUT_FULL

        if status == OUT_FULL:
            return longer(out, 2 * len(out))
        if status == LINES_FULL:
            self._line_ends = longer(self._line_ends, 2 * len(self._line_ends))
            self._left = np.concatenate([self._left, np.empty_like(self._left)])
        elif state.n_units >= len(self._table.firsts):
            self._add_rows()
        else:
            self._add_room(text.size)
        return out

    @property
    def pending(self) -> Longs:
        """The numbers of the pending units that the last text held, (n,)."""
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

    def encode_pending(self) -> None:
        """Encode those pending units that can be encoded here now that more characters have a class."""
        from volt.kernels.unit_loop import ROOM, encode_pending
        from volt.kernels.unit_rows import complete

        pending, kept = self.pending.copy(), list[Longs]()
        for numbers in np.array_split(pending, 1 + len(pending) // _N_AT_ONCE):
            n_bytes = int((self._table.starts[numbers + 1] - self._table.starts[numbers]).sum())
            self._reserve(self._n_values + 2 * (n_bytes + len(numbers)) * self._encoder.widest + ROOM)
            data, sizes = self._table.bytes[:], np.empty(len(numbers), np.int64)
            data.flags.writeable = False
            self._n_values = encode_pending(data, self._table, self._encoder, numbers, sizes, self._n_values)
            complete(self._table, numbers[sizes >= 0], sizes[sizes >= 0])
            kept.append(numbers[sizes < 0])
        left = np.concatenate(kept)
        self._table.pending[: len(left)], self._n_pending = left, len(left)

    def fill_pending(self, values: NDArray[Any], ends: Longs, irregular: NDArray[np.bool_]) -> None:
        """Give the pending units their values.

        values: those of all pending units, one after the other
        ends: (n_pending,) where the values of each unit end
        irregular: (n_pending,) which units are irregular
        """
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
        """Make room for so many bytes of values."""
        if n > len(self._table.values):
            self._table = self._table._replace(values=longer(self._table.values, 2 * n))

    def _add_rows(self) -> None:
        """Make room for twice as many units."""
        from volt.kernels.unit_rows import rebuild

        old, n = self._table, 2 * len(self._table.firsts)
        rows = aligned(2 * len(old.rows))
        rebuild(rows, old.rows)
        self._table = old._replace(
            rows=rows, starts=longer(old.starts, n + 1), firsts=longer(old.firsts, n),
            value_starts=longer(old.value_starts, n), pending=longer(old.pending, n),
        )  # fmt: skip

    def _add_room(self, n_bytes: int) -> None:
        """Double the room for bytes and values, or more: the longest unit of a text of so many bytes must fit."""
        from volt.kernels.cutting import LONGEST

        table = self._table
        n, n_values = 2 * len(table.bytes) + n_bytes, 2 * len(table.values) + 2 * (LONGEST + 1) * self._encoder.widest
        self._table = table._replace(bytes=longer(table.bytes, n), values=longer(table.values, n_values))
