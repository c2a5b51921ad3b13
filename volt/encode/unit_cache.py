r"""`UnitCache`: lines of text → the values of their units. Each distinct unit is encoded once.

    b"low lower low\n"   →   values of "low", of "lower", and of "low" again, copied from the cache

A *unit* is the text between two breaks, such as spaces (see volt.encode.units). Its *values* are
ids, text, or atoms for dropout. A compiled loop (volt.kernels.encode_units) looks up each unit of a
text in a hash table and copies its values. For a unit that is not in the table:

1. The loop adds the unit. It encodes simple units itself; others become *pending*.
2. After the loop, the cache encodes pending units: in compiled code where only the classes of
   characters were unknown, otherwise by a function of the caller. Then it runs the loop again.

The cache owns all arrays. The loop only fills them, and returns when one is full; then the cache
makes it longer, and the loop continues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from volt.encode.arrays import Array, Bytes, Longs, ends_to_sizes, group_ends, row_indices
from volt.encode.unit_encoder import CharacterClasses
from volt.encode.units import UnitRule, unit_words
from volt.files.loop_memory import PaddedMemory, PaddedText, aligned_zeros, extended
from volt.kernels.encode_new_unit import N_UNITS, LoopState, UnitEncoder
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
from volt.vocabulary import Vocabulary

# The first sizes of arrays that become longer.
_N_SLOTS = 1 << 17  # of the hash table; at most 3 of 8 are in use
_N_LINES = 1 << 14
_BY_UNIT = ("starts", "firsts", "value_starts", "pending")  # arrays of the table
_N_AT_ONCE = 1 << 12  # pending units that are encoded in one call


class CachedLines(NamedTuple):
    """The values of lines.

    values: ids or atoms (n,) int32, or text (n,) uint8 with a line end after each line
    ends: (n_lines,) int64, where each line's values end
    """

    values: Array
    ends: Longs


# Words, concatenated, and their lengths in characters → their values, and where each word's values end.
EncodeWords = Callable[[str, Longs], tuple[Array, Longs]]


class UnitCache:
    """A cache of distinct units and their values, for one thread at a time.

    vocabulary: the vocabulary that splits units into words
    encoder: the tables with which compiled code encodes new units
    dtype: the type of the values
    encode_words: encodes the words of units that compiled code cannot encode
    limit: about how many units `trim` retains; a unit of n words counts as n units
    classes: the classes of characters that `encoder` uses, if it uses any
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoder: UnitEncoder,
        dtype: DTypeLike,
        *,
        encode_words: EncodeWords,
        limit: int,
        classes: CharacterClasses | None = None,
    ) -> None:
        self.rule = UnitRule.of(vocabulary)
        self.limit = limit
        self.memory = PaddedMemory()
        self._encoder = encoder.for_thread()
        self._vocabulary = vocabulary
        self._encode_words = encode_words
        self._classes = classes
        self._dtype = np.dtype(dtype)
        self._ring = aligned_zeros(RING)
        self._line_ends = np.empty(_N_LINES, np.int64)
        self._clear()

    def trim(self) -> None:
        """Empty the cache if it has more units than its limit."""
        if self.n_units > self.limit:
            self._clear()

    def _clear(self) -> None:
        n_units = _N_SLOTS * 3 // 8
        self._table = UnitRows(
            rows=aligned_zeros(4 * _N_SLOTS),
            bytes=np.zeros(16 * n_units, np.uint8),
            starts=np.zeros(n_units + 1, np.int64),
            firsts=np.zeros(n_units, np.uint8),
            value_starts=np.zeros(n_units, np.int64),
            values=np.zeros(16 * n_units + ROOM, np.uint8),
            pending=np.zeros(n_units, np.int64),
        )
        self.n_units = 0
        self._n_value_bytes = 0
        self._n_pending = 0

    def encode(self, text: PaddedText, *, strips_return: bool = False) -> CachedLines:
        r"""Return the values of each line: ids, text or atoms, by the cache's dtype.

        strips_return: whether lines end at "\r\n" too

        Raises UnicodeDecodeError if a unit is not UTF-8; the cache must not be used after that,
        because some of its units have no values.
        """
        lines = self._run_loop(text, strips_return=strips_return)
        if self._n_pending:
            self._encode_pending_units()
            lines = self._run_loop(text, strips_return=strips_return)
        return lines

    def _run_loop(self, text: PaddedText, *, strips_return: bool) -> CachedLines:
        """Copy the values of known units, and add new units.

        The values are complete if no unit is pending afterwards.
        """
        is_text = self._dtype == np.uint8
        n_bytes = 2 * text.size if is_text else text.size + text.size // 2
        loop = Loop(
            data=text.data,
            rule=Rule(
                separator=text.separator,
                strips_return=strips_return,
                breaks=self.rule.breaks,
                clinging=self.rule.clinging,
                keeps_breaks=self.rule.keeps_breaks,
                marks_first=self.rule.marks_first,
                is_text=is_text,
            ),
            table=self._table,
            encoder=self._encoder,
            out=np.empty(n_bytes + 2 * ROOM, np.uint8),
            line_ends=self._line_ends,
            ring=self._ring,
            state=LoopState(n_units=self.n_units, n_values=self._n_value_bytes).slots(),
        )
        while status := encode_units(loop, text.size):
            loop = self._lengthen_full_array(loop, status, text.size)

        self._table = loop.table
        self._line_ends = loop.line_ends
        state = LoopState.read(loop.state)
        self.n_units = state.n_units
        self._n_value_bytes = state.n_values
        self._n_pending = state.n_pending
        return CachedLines(
            values=loop.out[: state.written].view(self._dtype),
            ends=loop.line_ends[: state.line] // self._dtype.itemsize,
        )

    def _lengthen_full_array(self, loop: Loop, status: int, text_size: int) -> Loop:
        if status == OUT_FULL:
            return loop._replace(out=extended(loop.out, 2 * len(loop.out)))
        if status == LINES_FULL:
            return loop._replace(line_ends=extended(loop.line_ends, 2 * len(loop.line_ends)))
        table = loop.table
        if loop.state[N_UNITS] >= len(table.firsts):
            rows = aligned_zeros(2 * len(table.rows))
            rebuild(rows, table.rows)
            by_unit = {name: getattr(table, name) for name in _BY_UNIT}
            longer = {name: extended(array, 2 * len(array)) for name, array in by_unit.items()}
            table = table._replace(rows=rows, **longer)
        else:  # make room for any unit of the text
            n_values = 2 * len(table.values) + 2 * (LONGEST + 1) * self._encoder.widest
            table = table._replace(
                bytes=extended(table.bytes, 2 * len(table.bytes) + text_size),
                values=extended(table.values, n_values),
            )
        return loop._replace(table=table)

    def units(self, numbers: Longs) -> tuple[bytes, Longs, Bytes]:
        """Return the units with these numbers, concatenated; where each ends; and which are first.

        The last array has 1 for each unit that starts a line, if such units are marked, else 0.
        """
        starts = self._table.starts[numbers]
        sizes = self._table.starts[numbers + 1] - starts
        data = self._table.bytes[row_indices(starts, sizes)].tobytes()
        return data, np.cumsum(sizes), self._table.firsts[numbers]

    def _encode_pending_units(self) -> None:
        pending = self._table.pending[: self._n_pending]
        data, _, _ = self.units(pending)
        if self._classes and self._classes.classify(data.decode()):
            pending = self._encode_classified(pending)
        if not len(pending):
            return

        units = unit_words(self._vocabulary, *self.units(pending))
        values, word_ends = self._encode_words(units.text, units.lengths)
        ends = group_ends(word_ends, units.n_words)
        value_bytes = values.view(np.uint8)
        start = self._n_value_bytes
        end = start + len(value_bytes)
        self._reserve(end)
        self._table.values[start:end] = value_bytes
        sizes = ends_to_sizes(ends) * self._dtype.itemsize
        self._table.value_starts[pending] = start + np.cumsum(sizes) - sizes
        complete(self._table, pending, sizes)
        self._n_value_bytes = end

    def _encode_classified(self, pending: Longs) -> Longs:
        """Encode, in compiled code, the pending units that it can encode, and return the others.

        Compiled code can encode more units once their characters have classes.
        """
        remaining = []
        for numbers in np.array_split(pending, 1 + len(pending) // _N_AT_ONCE):
            starts = self._table.starts
            n_bytes = int((starts[numbers + 1] - starts[numbers]).sum())
            self._reserve(self._n_value_bytes + 2 * (n_bytes + len(numbers)) * self._encoder.widest)
            data = self._table.bytes[:]
            data.flags.writeable = False  # the type of the loop's argument
            sizes = np.empty(len(numbers), np.int64)
            self._n_value_bytes = encode_pending(
                data, self._table, self._encoder, numbers, sizes, self._n_value_bytes
            )
            is_encoded = sizes >= 0
            complete(self._table, numbers[is_encoded], sizes[is_encoded])
            remaining.append(numbers[~is_encoded])
        return np.concatenate(remaining)

    def _reserve(self, n_bytes: int) -> None:
        """Make room for a total of n_bytes of values, and for what the loop writes beyond them."""
        if n_bytes + ROOM > len(self._table.values):
            values = extended(self._table.values, 2 * (n_bytes + ROOM))
            self._table = self._table._replace(values=values)
