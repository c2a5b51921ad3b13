r"""`UnitCache`: lines of text → the values of their units. Each distinct unit is encoded once.

    b"low lower low\n"   →   values of "low", of "lower", and of "low" again, copied from the cache

A *unit* is the text between two breaks, such as spaces (see volt.encode.units). Its *values* are
ids, text, or atoms for dropout. A compiled loop (volt.kernels.encode_units) looks up each unit of a
text in a hash table and copies its values. For a unit that is not in the table:

1. The loop adds the unit. It encodes simple units itself; others become *pending*.
2. After the loop, the cache encodes pending units: in compiled code where only memory or classes of
   characters were lacking, otherwise by a function of the caller. Then it runs the loop again.

The cache owns all arrays. The loop only fills them, and returns when one is full; then the cache
makes it longer, and the loop continues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from volt.array_types import Array, Bytes, Ints, Longs
from volt.encode.arrays import EncodedPart, ends_to_sizes, group_ends, row_indices
from volt.encode.chunks import NO_BYTE_OF_TEXT
from volt.encode.unit_encoder import CharacterClasses
from volt.encode.units import UnitRule, unit_words
from volt.encode.word_tables import CONTINUED, fuses_unknown
from volt.files.loop_memory import PaddedMemory, PaddedText, aligned_zeros, extended
from volt.kernels.encode_new_unit import (
    N_PENDING,
    N_UNITS,
    N_VALUES,
    LoopState,
    UnitEncoder,
)
from volt.kernels.encode_units import (
    HAS_PENDING,
    LINES_FULL,
    OUT_FULL,
    RING,
    ROOM,
    Loop,
    encode_pending,
    encode_units,
    follow_lines,
)
from volt.kernels.jit import bind
from volt.kernels.unit_scan import Rule
from volt.kernels.unit_table import UnitRows, complete, rebuild
from volt.vocabulary import Vocabulary

# The first sizes of arrays that become longer.
_N_SLOTS = 1 << 17  # of the hash table; at most 3 of 8 are in use
_MOST_SLOTS = 1 << 21  # of a table for a long text
_BYTES_OF_TEXT = 32  # for each unit that a long text is expected to add
_BYTES_OF_UNIT = 32  # of a unit, and of its values; pages that nothing is written to take no memory
_N_LINES = 1 << 14
_N_OUT = 1 << 15  # bytes of values
_LARGE = 1 << 23  # bytes of a text whose memory is freed after it
_VALUE_SIZE = 64  # bytes of values of a unit, on average, beyond which the cache is emptied
_BY_UNIT = ("starts", "firsts", "pending")  # arrays of the table
_N_AT_ONCE = 1 << 12  # pending units that are encoded in one call
_LONGEST = 1 << 24  # bytes of a unit; Python encodes longer units


# Words, concatenated, and their lengths in characters → their values, and where each word's values end.
EncodeWords = Callable[[str, Longs], tuple[Array, Longs]]


def _new_table(text_size: int = 0) -> UnitRows:
    n_slots = _N_SLOTS
    while n_slots < _MOST_SLOTS and n_slots * 3 // 8 < text_size // _BYTES_OF_TEXT:
        n_slots *= 2
    n_units = n_slots * 3 // 8
    return UnitRows(
        rows=aligned_zeros(4 * n_slots),
        bytes=np.zeros(_BYTES_OF_UNIT * n_units, np.uint8),
        starts=np.zeros(n_units + 1, np.int64),
        firsts=np.zeros(n_units, np.uint8),
        values=np.zeros(_BYTES_OF_UNIT * n_units + ROOM, np.uint8),
        pending=np.zeros(n_units, np.int64),
    )


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
        self.limit = limit
        self.memory = PaddedMemory()
        self._vocabulary = vocabulary
        self._encode_words = encode_words
        self._classes = classes
        self._dtype = np.dtype(dtype)
        self._value_size = self._dtype.itemsize
        # for scores that are added along lines
        self._sums_lines = encoder.sums_lines
        self._continued = CONTINUED if fuses_unknown(vocabulary) else 0
        self._symbols = np.empty(0, np.int32)
        rule = UnitRule.of(vocabulary)
        self._loop = Loop(
            data=self.memory.data,
            rule=Rule(
                separator=NO_BYTE_OF_TEXT,
                strips_return=False,
                breaks=rule.breaks,
                clinging=rule.clinging,
                keeps_breaks=rule.keeps_breaks,
                marks_first=rule.marks_first,
                is_text=self._dtype == np.uint8,
            ),
            table=_new_table(),
            encoder=encoder.for_thread(),
            out=np.empty(_N_OUT, np.uint8),
            line_ends=np.empty(_N_LINES, np.int64),
            ring=aligned_zeros(RING),
            state=LoopState().slots(),
        )
        self._state = self._loop.state.data  # reading an item takes half as long as from an array
        self._change()

    @property
    def n_units(self) -> int:
        return self._state[N_UNITS]

    def trim(self) -> None:
        """Empty the cache if its units are too many, or their values too long."""
        state = self._state
        if state[N_UNITS] > self.limit or state[N_VALUES] > self.limit * _VALUE_SIZE:
            self._empty()

    def _empty(self, *, text_size: int = 0) -> None:
        """Empty the cache, and make room for the units of a text."""
        self._loop.state[:] = 0
        self._change(table=_new_table(text_size))

    def encode_line(self, line: bytes) -> Array:
        """Return the values of one line, which may contain line ends."""
        self.trim()
        size = len(line)
        if size > self._line_room:
            self._prepare_for_line(size)
        text = self.memory.view
        text[:size] = line
        text[size] = NO_BYTE_OF_TEXT
        n_bytes = self._encode_units(size + 1, True)
        if n_bytes < 0:
            n_bytes = self._continue_loop(n_bytes, size + 1)
        if self._sums_lines:
            values = self._follow_lines(1, size + 1)
        else:
            values = self._values[: n_bytes // self._value_size].copy()
        if size > _LARGE:
            self._free_text()
        return values

    def encode(self, text: PaddedText, *, strips_return: bool = False) -> EncodedPart:
        r"""Return the values of each line: ids, text or atoms, by the cache's dtype.

        strips_return: whether lines end at "\r\n" too

        Raises UnicodeDecodeError if a unit is not UTF-8; the cache must not be used after that,
        because some of its units have no values.
        """
        self._use_text(text, strips_return=strips_return)
        self._continue_loop(self._encode_units(text.size, True), text.size)
        state = LoopState.read(self._loop.state)
        size = self._dtype.itemsize
        if self._sums_lines:
            values = self._follow_lines(state.line, text.size)
            lines = EncodedPart(values, self._loop.line_ends[: state.line].copy())
        else:
            lines = EncodedPart(
                values=self._values[: state.written // size].copy(),
                ends=self._loop.line_ends[: state.line] // size,
            )
        if text.size > _LARGE:
            self._free_text()
        return lines

    def _follow_lines(self, n_lines: int, text_size: int) -> Ints:
        """Return the symbols of the lines whose marked symbols the loop has written."""
        if 2 * text_size > len(self._symbols):
            self._symbols = np.empty(4 * text_size, np.int32)
            self._change()
        n_symbols = self._run_along_lines(n_lines)
        return self._symbols[:n_symbols].copy()

    def _free_text(self) -> None:
        """Free the memory of a text and of its values."""
        self.memory = PaddedMemory()
        self._symbols = np.empty(0, np.int32)
        self._change(data=self.memory.data, out=np.empty(_N_OUT, np.uint8))

    def _use_text(self, text: PaddedText, *, strips_return: bool) -> None:
        """Let the loop read a text, and make room for its values."""
        loop = self._loop
        rule = loop.rule
        if text.separator != rule.separator or strips_return != rule.strips_return:
            rule = rule._replace(separator=text.separator, strips_return=strips_return)
        out = loop.out
        n_values = 2 * text.size if rule.is_text else text.size + text.size // 2
        if n_values + 2 * ROOM > len(out):
            out = aligned_zeros(n_values // 8 + 2 * ROOM).view(np.uint8)
        if text.data is not loop.data or rule is not loop.rule or out is not loop.out:
            self._change(data=text.data, rule=rule, out=out)
        n_units = len(loop.table.firsts)
        if self.n_units < n_units // 8 and n_units < text.size // _BYTES_OF_TEXT:
            self._empty(text_size=text.size)  # growing a table later takes longer

    def _prepare_for_line(self, size: int) -> None:
        """Let the loop read one line of this size from the cache's memory."""
        if size > self.memory.room:
            self.memory.reserve(2 * size)
        text = PaddedText(self.memory.data, size, NO_BYTE_OF_TEXT)
        self._use_text(text, strips_return=False)

    def _change(self, **arrays: Any) -> None:
        """Replace arrays of the loop."""
        self._loop = self._loop._replace(**arrays)
        self._encode_units = bind(encode_units, self._loop)
        self._values = self._loop.out.view(self._dtype)
        if self._sums_lines:
            arguments = (self._loop, self._continued, self._symbols)
            self._run_along_lines = bind(follow_lines, *arguments)
        reads_lines = self._loop.data is self.memory.data
        reads_lines &= self._loop.rule.separator == NO_BYTE_OF_TEXT
        self._line_room = self.memory.room if reads_lines else -1

    def _continue_loop(self, n_bytes: int, text_size: int) -> int:
        """Run the loop until it has written all values. Return the bytes of all values.

        n_bytes: what the loop has returned: the bytes of all values, or why it has stopped
        """
        while n_bytes < 0:
            if n_bytes == HAS_PENDING:
                self._encode_pending_units()
                n_bytes = self._encode_units(text_size, True)
            else:
                self._lengthen_full_array(n_bytes, text_size)
                n_bytes = self._encode_units(text_size, False)
        return n_bytes

    def _lengthen_full_array(self, status: int, text_size: int) -> None:
        loop = self._loop
        if status == OUT_FULL:
            self._change(out=extended(loop.out, 2 * len(loop.out)))
            return
        if status == LINES_FULL:
            self._change(line_ends=extended(loop.line_ends, 2 * len(loop.line_ends)))
            return
        table = loop.table
        if self.n_units >= len(table.firsts):
            rows = aligned_zeros(4 * len(table.rows))  # few times, because rows move
            rebuild(rows, table.rows)
            by_unit = {name: getattr(table, name) for name in _BY_UNIT}
            longer = {name: extended(array, 4 * len(array)) for name, array in by_unit.items()}
            table = table._replace(rows=rows, **longer)
        else:  # make room for any unit of the text
            n_values = 2 * len(table.values) + 2 * (loop.encoder.longest + 3) * loop.encoder.widest
            table = table._replace(
                bytes=extended(table.bytes, 2 * len(table.bytes) + text_size),
                values=extended(table.values, n_values),
            )
        self._change(table=table)

    def units(self, numbers: Longs) -> tuple[bytes, Longs, Bytes]:
        """Return the units with these numbers, concatenated; where each ends; and which are first.

        The last array has 1 for each unit that starts a line, if such units are marked, else 0.
        """
        starts = self._loop.table.starts[numbers]
        sizes = self._loop.table.starts[numbers + 1] - starts
        data = self._loop.table.bytes[row_indices(starts, sizes)].tobytes()
        return data, np.cumsum(sizes), self._loop.table.firsts[numbers]

    def _encode_pending_units(self) -> None:
        state = self._loop.state
        pending = self._loop.table.pending[: state[N_PENDING]]
        data, ends, _ = self.units(pending)
        longest = int(ends_to_sizes(ends).max())
        encoder = self._loop.encoder
        is_allowed = longest <= _LONGEST or self._sums_lines
        needs_room = self._dtype == np.int32 and encoder.longest < longest and is_allowed
        if needs_room:
            self._change(encoder=encoder.for_thread(max(longest, 2 * encoder.longest)))
        has_new_classes = self._classes and self._classes.classify(data.decode())
        if needs_room or has_new_classes:
            pending = self._encode_in_loop(pending)
        if not len(pending):
            return

        units = unit_words(self._vocabulary, *self.units(pending))
        values, word_ends = self._encode_words(units.text, units.lengths)
        ends = group_ends(word_ends, units.n_words)
        value_bytes = values.view(np.uint8)
        start = int(state[N_VALUES])
        end = start + len(value_bytes)
        self._reserve(end)
        table = self._loop.table
        table.values[start:end] = value_bytes
        sizes = ends_to_sizes(ends) * self._dtype.itemsize
        complete(table, pending, sizes, start)
        state[N_VALUES] = end

    def _encode_in_loop(self, pending: Longs) -> Longs:
        """Encode, in compiled code, the pending units that it can encode, and return the others.

        Compiled code can encode more units once their characters have classes, and with more working
        memory.
        """
        state = self._loop.state
        encoder = self._loop.encoder
        remaining = []
        for numbers in np.array_split(pending, 1 + len(pending) // _N_AT_ONCE):
            starts = self._loop.table.starts
            n_bytes = int((starts[numbers + 1] - starts[numbers]).sum())
            n_values = int(state[N_VALUES])
            self._reserve(n_values + 2 * (n_bytes + len(numbers)) * encoder.widest)
            table = self._loop.table
            data = table.bytes[:]
            data.flags.writeable = False  # the type of the loop's argument
            sizes = np.empty(len(numbers), np.int64)
            state[N_VALUES] = encode_pending(data, table, encoder, numbers, sizes, n_values)
            is_encoded = sizes >= 0
            complete(table, numbers[is_encoded], sizes[is_encoded], n_values)
            remaining.append(numbers[~is_encoded])
        return np.concatenate(remaining)

    def _reserve(self, n_bytes: int) -> None:
        """Make room for a total of n_bytes of values, and for what the loop writes beyond them."""
        table = self._loop.table
        if n_bytes + ROOM > len(table.values):
            values = extended(table.values, 2 * (n_bytes + ROOM))
            self._change(table=table._replace(values=values))
