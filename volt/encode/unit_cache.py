"""`UnitCache`: lines of bytes → values of their units: ids, text or atoms. Each distinct unit is encoded once.

A unit is the text between two breaks (see volt.encode.pretokens). A compiled loop walks over the text, looks up each
unit, and copies its values. It encodes simple new units itself. Other new units become pending: the caller encodes
them, passes their values to `fill_pending`, and calls `encode` again. A line with an irregular unit is left out: the
caller encodes the whole line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from volt.encode.arrays import Array, Bytes, Flags, Longs, sizes_of
from volt.encode.pretokens import UnitRule
from volt.encode.rendering import places_of
from volt.encode.unit_encoder import CharacterClasses
from volt.files.loop_memory import PaddedMemory, PaddedText, aligned_zeros, extended
from volt.kernels.encode_new_unit import IRREGULAR, LoopState, UnitEncoder
from volt.kernels.encode_units import (
    LINES_FULL,
    OUT_FULL,
    RING,
    ROOM,
    Loop,
    encode_pending,
    encode_units,
)
from volt.kernels.pretokenize import LONGEST
from volt.kernels.unit_scan import Rule
from volt.kernels.unit_table import UnitRows, complete, rebuild

_N_SLOTS = 1 << 17
_N_LINES = 1 << 14
_N_LEFT = 1 << 9
_N_AT_ONCE = 1 << 12  # pending units that are encoded in one call


class CachedLines(NamedTuple):
    """The values of lines.

    values: ids or atoms (n,) int32, or text (n,) uint8 with a line end after each line
    ends: (n_lines,) int64, where each line's values end
    left: (n_left, 2) int64, for each line that was left out, its number, and where it ends in the text
    """

    values: Array
    ends: Longs
    left: Longs


class UnitCache:
    """Cache of distinct units and their values, for one thread at a time. `trim` empties a cache beyond its limit.

    rule: where units begin and end
    encoder: the tables for new units
    dtype: the type of the values
    limit: about how many units are cached; a unit of n words counts as n units
    classes: the classes of characters that the encoder uses, if it does
    """

    def __init__(
        self,
        rule: UnitRule,
        encoder: UnitEncoder,
        dtype: DTypeLike,
        *,
        limit: int,
        classes: CharacterClasses | None = None,
    ) -> None:
        self.rule = rule
        self.limit = limit
        self.memory = PaddedMemory()
        self._encoder = encoder.for_thread()
        self._classes = classes
        self._dtype = np.dtype(dtype)
        self._ring = aligned_zeros(RING)
        self._line_ends = np.empty(_N_LINES, np.int64)
        self._left = np.empty((_N_LEFT, 2), np.int64)
        self.clear()

    def trim(self) -> None:
        if self.n_units > self.limit:
            self.clear()

    def clear(self) -> None:
        n = _N_SLOTS * 3 // 8
        self._table = UnitRows(
            rows=aligned_zeros(4 * _N_SLOTS),
            bytes=np.zeros(16 * n, np.uint8),
            starts=np.zeros(n + 1, np.int64),
            firsts=np.zeros(n, np.uint8),
            value_starts=np.zeros(n, np.int64),
            values=np.zeros(16 * n + ROOM, np.uint8),
            pending=np.zeros(n, np.int64),
        )
        self.n_units = self._n_values = self._n_pending = 0

    def encode(self, text: PaddedText, *, strips_return: bool = False) -> CachedLines:
        """Return the values of a text's lines. They are valid only if no unit is `pending` now: see `fill_pending`."""
        rule = Rule(
            separator=text.separator,
            strips_return=strips_return,
            breaks=self.rule.breaks,
            clinging=self.rule.clinging,
            keeps_breaks=self.rule.keeps_breaks,
            marks_first=self.rule.marks_first,
            is_text=self._dtype == np.uint8,
        )
        n_bytes = 2 * text.size if rule.is_text else text.size + text.size // 2
        out = np.empty(n_bytes + 2 * ROOM, np.uint8)
        slots = LoopState(n_units=self.n_units, n_values=self._n_values).slots()
        while status := encode_units(
            Loop(
                text.data,
                rule,
                self._table,
                self._encoder,
                out,
                self._line_ends,
                self._left,
                self._ring,
                slots,
            ),
            text.size,
        ):
            out = self._with_room(status, out, LoopState.read(slots), text.size)

        state = LoopState.read(slots)
        self.n_units = state.n_units
        self._n_values = state.n_values
        self._n_pending = state.n_pending
        values = out[: state.written].view(self._dtype)
        ends = self._line_ends[: state.line] // self._dtype.itemsize
        return CachedLines(values, ends, self._left[: state.n_left].copy())

    def _with_room(self, status: int, out: Bytes, state: LoopState, text_size: int) -> Bytes:
        """Lengthen the arrays that are full; return `out`, or a longer copy."""
        table = self._table
        if status == OUT_FULL:
            return extended(out, 2 * len(out))
        if status == LINES_FULL:
            self._line_ends = extended(self._line_ends, 2 * len(self._line_ends))
            self._left = np.concatenate([self._left, np.empty_like(self._left)])
        elif state.n_units >= len(table.firsts):
            n = 2 * len(table.firsts)
            rows = aligned_zeros(2 * len(table.rows))
            rebuild(rows, table.rows)
            self._table = table._replace(
                rows=rows,
                starts=extended(table.starts, n + 1),
                firsts=extended(table.firsts, n),
                value_starts=extended(table.value_starts, n),
                pending=extended(table.pending, n),
            )
        else:  # any unit of the text must fit
            n_values = 2 * len(table.values) + 2 * (LONGEST + 1) * self._encoder.widest
            self._table = table._replace(
                bytes=extended(table.bytes, 2 * len(table.bytes) + text_size),
                values=extended(table.values, n_values),
            )
        return out

    @property
    def pending(self) -> Longs:
        """The numbers of the last text's pending units, (n,)."""
        return self._table.pending[: self._n_pending]

    def units(self, numbers: Longs) -> tuple[bytes, Longs, Bytes]:
        """Return units, concatenated, where each of them ends, and whether each starts a line (0 or 1)."""
        table = self._table
        starts = table.starts[numbers]
        sizes = table.starts[numbers + 1] - starts
        data = table.bytes[places_of(starts, sizes)].tobytes()
        return data, np.cumsum(sizes), table.firsts[numbers]

    def encode_pending(self) -> None:
        """Encode the pending units that are simple once their characters have classes."""
        text, _, _ = self.units(self.pending)
        if not (self._classes and self._classes.classify(text.decode())):
            return
        left = []
        for numbers in np.array_split(self.pending, 1 + self._n_pending // _N_AT_ONCE):
            starts = self._table.starts
            n_bytes = int((starts[numbers + 1] - starts[numbers]).sum())
            n_values = 2 * (n_bytes + len(numbers)) * self._encoder.widest
            self._reserve(self._n_values + n_values + ROOM)
            data = self._table.bytes[:]
            data.flags.writeable = False
            sizes = np.empty(len(numbers), np.int64)
            self._n_values = encode_pending(
                data, self._table, self._encoder, numbers, sizes, self._n_values
            )
            is_complete = sizes >= 0
            complete(self._table, numbers[is_complete], sizes[is_complete])
            left.append(numbers[~is_complete])

        pending = np.concatenate(left)
        self._table.pending[: len(pending)] = pending
        self._n_pending = len(pending)

    def fill_pending(self, values: Array, ends: Longs, irregular: Flags) -> None:
        """Store the values of the pending units, or that a unit is irregular. ends: where each unit's values end"""
        used = self._n_values
        data = values.view(np.uint8)
        self._reserve(used + len(data) + ROOM)
        self._table.values[used : used + len(data)] = data

        sizes = sizes_of(ends) * self._dtype.itemsize
        self._table.value_starts[self.pending] = used + np.cumsum(sizes) - sizes
        complete(self._table, self.pending, np.where(irregular, IRREGULAR, sizes))
        self._n_values = used + len(data)
        self._n_pending = 0

    def _reserve(self, n: int) -> None:
        if n > len(self._table.values):
            self._table = self._table._replace(values=extended(self._table.values, 2 * n))
