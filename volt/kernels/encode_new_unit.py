"""Encode a new unit: split its bytes into words (volt.kernels.pretokenize), merge them, store the values.

Each word of a unit gets its own row, as if it were a unit: "low," costs little once "low" is known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.apply_bpe import PieceRule, WordBuffers, encode_word, room_of
from volt.kernels.arrays import ByteArray, IntArray, LongArray
from volt.kernels.bpe_tables import Merges, no_spellings
from volt.kernels.intrinsics import PADDING, character, load64, store64
from volt.kernels.jit import borrowing, inlined
from volt.kernels.pretokenize import (
    APART,
    BYTES,
    LEFT_TO_PYTHON,
    LONGEST,
    METASPACE,
    NO_MARKER,
    NUMBER,
    OPEN,
    PREFIX,
    PRIVATE,
    SPACE_CODE,
    SUFFIX,
    Cutter,
    cut_unit,
)
from volt.kernels.unit_table import (
    EIGHT,
    FIRST,
    HALF,
    LOW_HALF,
    U0,
    U1,
    U2,
    U3,
    Unit,
    UnitRows,
    enter_row,
    find_row,
    home_slot,
    slot_shift,
    unit_of,
)


class LoopState(NamedTuple):
    """The loop's progress between two calls; a new text resets all fields but the first two to zero."""

    n_units: int = 0  # units that have a row
    n_values: int = 0  # bytes of values in use
    n_pending: int = 0  # pending units that this text has added
    position: int = 0  # byte at which the search for the next unit's end starts
    start: int = 0  # byte at which the next unit starts
    after_break: int = 0  # the byte after the last break
    is_inside: int = 0  # 1 if the next unit is not the first of its line
    written: int = 0  # bytes that have been written
    line: int = 0  # lines that have ended
    holds_irregular: int = 0  # 1 if the current line contains an irregular unit
    n_left: int = 0  # lines that are left to Python

    def slots(self) -> LongArray:
        """Return the state as one array, which the loop reads and changes."""
        return np.array(self, np.int64)

    @classmethod
    def read(cls, slots: LongArray) -> LoopState:
        return cls(*slots.tolist())


# The index of each field in the array.
N_UNITS, N_VALUES, N_PENDING, POSITION, START, AFTER_BREAK = range(6)
IS_INSIDE, WRITTEN, LINE, HOLDS_IRREGULAR, N_LEFT = range(6, 11)

ID_SIZE = 4  # bytes of an id, an atom or a number
_FINAL = 256  # offset of the atoms for word-final bytes in `byte_symbols`
# Stand in place of the size of a row's values; sizes are below these numbers.
PENDING, IRREGULAR, OPEN_ENDED = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
NO_ROW = np.uint64(0xFFFFFFFFFFFFFFFF)
_SLACK = 64  # additional bytes that may be written: the size before an open unit's values, the rest of the last store
_PENDING, _NO_ROOM = -1, -2


class UnitEncoder(NamedTuple):
    cutter: Cutter
    sampled: (
        bool  # whether values are atoms, for dropout: 2 · symbol, + 1 for the last atom of a word
    )
    merges: Merges
    rule: PieceRule
    room: WordBuffers  # working memory, like `pieces`
    pieces: IntArray
    starts: LongArray  # (n_symbols + 1,), symbol s is rendered as rendered[starts[s]:starts[s + 1]]
    rendered: ByteArray  # of uint8, with 8 bytes to spare
    widest: int  # maximum bytes of a rendered symbol
    width: int  # the bytes of every rendered symbol if they are equal, so that symbol s starts at width · s; else 0
    # (256,), the ids of the byte tokens for unknown characters; (0,) if Python encodes words with unknown characters
    byte_ids: IntArray

    def for_thread(self) -> UnitEncoder:
        """Return a copy with its own working memory."""
        starts, ends = np.empty((2, LONGEST + 2), np.int64)
        return self._replace(
            cutter=self.cutter._replace(starts=starts, ends=ends),
            room=room_of(LONGEST + 2),
            pieces=np.empty(LONGEST + 2, np.int32),
        )


def numbering() -> UnitEncoder:
    """Return an encoder that writes, as the value of a unit, the unit's number (int32)."""
    bytes_ = np.zeros(1, np.uint8)
    ints = np.zeros(1, np.int32)
    longs = np.zeros(2, np.int64)
    keys = np.zeros(8, np.uint64)
    cutter = Cutter(
        cut=NUMBER,
        marker=NO_MARKER,
        classes=bytes_,
        symbol_of=ints,
        byte_symbols=ints,
        starts=longs,
        ends=longs,
        moves=ints,
        end=0,
        splits=longs,
        kinds=bytes_,
        breaks=0,
        alone=0,
        matches_only=0,
        user_starts=bytes_[:0],
    )
    merges = Merges(keys, ints, keys, False, -1)
    rule = PieceRule(bytes_, longs, no_spellings())
    encoder = UnitEncoder(
        cutter, False, merges, rule, room_of(1), ints, longs, bytes_, ID_SIZE, 0, ints[:0]
    )
    return encoder.for_thread()


@borrowing
def _put_atoms(
    data: ByteArray, p: int, end: int, marked: bool, cutter: Cutter, symbols: IntArray
) -> int:
    n = 0
    code = np.int64(0)
    if marked or cutter.marker == PREFIX:
        symbols[0] = cutter.symbol_of[2 * SPACE_CODE]
        n = 1

    while p < end:
        code = np.int64(data[p])
        if code < 0x80 or cutter.cut >= BYTES:
            symbols[n] = cutter.byte_symbols[code]
            p += 1
        else:
            code, p = character(data, p, end)
            if code < 0 or code >= PRIVATE or (code == SPACE_CODE and cutter.cut >= METASPACE):
                return LEFT_TO_PYTHON
            symbols[n] = cutter.symbol_of[2 * code]
        n += 1

    if cutter.marker == SUFFIX:
        if code < 0x80 or cutter.cut >= BYTES:
            symbols[n - 1] = cutter.byte_symbols[_FINAL + code]
        else:
            symbols[n - 1] = cutter.symbol_of[2 * code + 1]
    return n


@inlined
def _copy(source: IntArray, start: Any, size: int, values: IntArray, at: int) -> int:
    for i in range(0, size, 8):
        store64(values, at + i, load64(source, start + i))
    return at + size


@borrowing
def write_word(
    data: ByteArray,
    start: int,
    end: int,
    marked: bool,
    encoder: UnitEncoder,
    values: IntArray,
    at: int,
) -> int:
    """Write the values of the word data[start:end]. Return their size in bytes, or LEFT_TO_PYTHON."""
    if encoder.cutter.cut == NUMBER:
        store64(values, at, np.uint64(at // ID_SIZE))
        return ID_SIZE
    symbols = encoder.room.word.symbols[1:]
    n = _put_atoms(data, start, end, marked, encoder.cutter, symbols)
    if n <= 0:
        return n
    if encoder.sampled:
        return _mark_last(n, symbols, values, at)

    no_state = encoder.cutter.ends  # not read: nothing is drawn
    n = encode_word(n, encoder.room, encoder.merges, encoder.rule, 0.0, no_state, encoder.pieces, 0)
    first = at
    for symbol in encoder.pieces[:n]:
        if symbol < 0:
            if len(encoder.byte_ids) == 0:
                return LEFT_TO_PYTHON
            at = _write_byte_ids((-1 - np.int64(symbol)) >> 1, encoder.byte_ids, values, at)
        elif encoder.width == ID_SIZE:
            store64(values, at, load64(encoder.rendered, ID_SIZE * np.int64(symbol)))
            at += ID_SIZE
        else:
            source = encoder.starts[symbol]
            at = _copy(encoder.rendered, source, encoder.starts[symbol + 1] - source, values, at)
    return at - first


@inlined
def _write_byte_ids(code: Any, byte_ids: IntArray, values: IntArray, at: int) -> int:
    n = 1 + int(code >= 0x80) + int(code >= 0x800) + int(code >= 0x10000)
    for i in range(n):
        byte = code >> 6 * (n - 1 - i)
        if i > 0:
            byte = 0x80 | (byte & 0x3F)
        elif n > 1:
            byte |= 0xF00 >> n & 0xFF
        store64(values, at + ID_SIZE * i, np.uint64(byte_ids[byte]))
    return at + ID_SIZE * n


@borrowing
def _mark_last(n: int, symbols: IntArray, values: IntArray, at: int) -> int:
    for i in range(n):
        atom = 2 * np.int64(symbols[i]) + int(i == n - 1)
        store64(values, at + ID_SIZE * i, np.uint64(atom & 0xFFFFFFFF))
    return ID_SIZE * n


@borrowing
def write_words(
    data: ByteArray, first: bool, n_words: int, encoder: UnitEncoder, values: IntArray, at: int
) -> int:
    starts = encoder.cutter.starts
    ends = encoder.cutter.ends
    size = 0
    for word in range(n_words):
        marked = first and word == 0
        n = write_word(data, starts[word], ends[word], marked, encoder, values, at + size)
        if n < 0:
            return LEFT_TO_PYTHON
        size += n
    return size


@inlined
def _has_room(length: int, table: UnitRows, encoder: UnitEncoder, state: LongArray) -> Any:
    number = state[N_UNITS]
    n_values = (2 * min(length, LONGEST) + 2) * encoder.widest
    return (
        number < len(table.firsts)
        and table.starts[number] + length + PADDING <= len(table.bytes)
        and state[N_VALUES] + n_values + _SLACK <= len(table.values)
    )


@inlined
def _row_of(data: ByteArray, unit: Unit, table: UnitRows) -> Any:
    return find_row(data, unit, home_slot(unit.low, unit.high, slot_shift(table.rows)), table)


@inlined
def _enter(
    data: ByteArray,
    unit: Unit,
    row: Any,
    n: int,
    is_open: bool,
    table: UnitRows,
    state: LongArray,
) -> None:
    """Fill the row of a unit whose values are the next n bytes; the unit is pending if n is below 0.

    An open unit's values start with their size.
    """
    number = state[N_UNITS]
    used = state[N_VALUES]
    enter_row(data, unit, row, table, state)
    table.value_starts[number] = used
    size = OPEN_ENDED if is_open else n
    if n < 0:
        table.pending[state[N_PENDING]] = number
        state[N_PENDING] += 1
        size = PENDING
    table.rows[row + U2] |= np.uint64(size)
    table.rows[row + U3] = load64(table.values, np.uint64(used))
    state[N_VALUES] = used + max(n, 0)


@borrowing
def _word_row(
    data: ByteArray,
    start: int,
    end: int,
    marked: bool,
    table: UnitRows,
    encoder: UnitEncoder,
    state: LongArray,
) -> Any:
    """Return the row of a word, an empty row if Python must encode it, or NO_ROW if the table is full."""
    flag = FIRST if marked else U0
    unit = unit_of(data, np.uint64(start), np.uint64(end - start), flag)
    row = _row_of(data, unit, table)
    if table.rows[row + U2] == U0:
        if not _has_room(end - start, table, encoder, state):
            return NO_ROW
        n = write_word(data, start, end, marked, encoder, table.values, state[N_VALUES])
        if n >= 0:
            _enter(data, unit, row, n, False, table, state)
    return row


@borrowing
def _join_words(
    data: ByteArray,
    first: bool,
    n_words: int,
    size: int,
    table: UnitRows,
    encoder: UnitEncoder,
    state: LongArray,
) -> int:
    starts = encoder.cutter.starts
    is_pending = False
    for word in range(n_words):
        marked = first and word == 0
        end = encoder.cutter.ends[word]
        row = _word_row(data, starts[word], end, marked, table, encoder, state)
        if row == NO_ROW:
            return _NO_ROOM
        entry = table.rows[row + U2]
        if entry & LOW_HALF >= np.uint64(OPEN_ENDED) or entry == U0:
            is_pending = True
            break
        starts[word] = np.int64(row)
    if not _has_room(size, table, encoder, state):  # its words have used some of the room
        return _NO_ROOM
    if is_pending:
        return _PENDING

    used = at = np.uint64(state[N_VALUES])
    for word in range(n_words):
        row = np.uint64(starts[word])
        entry = table.rows[row + U2]
        source = np.uint64(table.value_starts[(entry >> HALF) - U1])
        store64(table.values, at, table.rows[row + U3])
        i = EIGHT
        while i < entry & LOW_HALF:
            store64(table.values, at + i, load64(table.values, source + i))
            i += EIGHT
        at += entry & LOW_HALF
    return int(np.int64(at - used))


@borrowing
def enter_unit(
    data: ByteArray,
    unit: Unit,
    row: Any,
    table: UnitRows,
    encoder: UnitEncoder,
    state: LongArray,
) -> Any:
    """Add a new unit with its values, or as pending. Return its row, or NO_ROW if the table is full."""
    start = int(np.int64(unit.start))
    size = int(np.int64(unit.length))
    first = unit.high >= FIRST
    if not _has_room(size, table, encoder, state):
        return NO_ROW

    shape, n = cut_unit(data, start, start + size, first, encoder.cutter)
    if shape == APART and n > 1 and not encoder.sampled:
        n = _join_words(data, first, n, size, table, encoder, state)
        if n == _NO_ROOM:
            return NO_ROW
        row = _row_of(data, unit, table)
    elif n > 0:
        used = state[N_VALUES]
        head = 8 if shape == OPEN else 0
        n = write_words(data, first, n, encoder, table.values, used + head)
        if shape == OPEN and n >= 0:
            store64(table.values, used, np.uint64(n))
            n += head
    _enter(data, unit, row, n, shape == OPEN, table, state)
    return row
