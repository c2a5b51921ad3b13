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
from volt.kernels.unit_table import FIRST, UnitRows, find_row, home_slot, slot_shift, unit_key


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
(
    N_UNITS,
    N_VALUES,
    N_PENDING,
    POSITION,
    START,
    AFTER_BREAK,
    IS_INSIDE,
    WRITTEN,
    LINE,
    HOLDS_IRREGULAR,
    N_LEFT,
) = range(len(LoopState._fields))

ID_SIZE = 4  # bytes of an id, an atom or a number
_FINAL = 256  # offset of the atoms for word-final bytes in `byte_symbols`


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
        starts, ends, pieces = (
            np.empty(LONGEST + 2, dtype) for dtype in (np.int64, np.int64, np.int32)
        )
        cutter = self.cutter._replace(starts=starts, ends=ends)
        return self._replace(cutter=cutter, room=room_of(LONGEST + 2), pieces=pieces)


def numbering() -> UnitEncoder:
    """Return an encoder that writes, as the value of a unit, the unit's number (int32)."""
    classes, ints, longs = np.zeros(1, np.uint8), np.zeros(1, np.int32), np.zeros(2, np.int64)
    cutter = Cutter(
        NUMBER,
        NO_MARKER,
        classes,
        ints,
        ints,
        longs,
        longs,
        ints,
        0,
        longs,
        classes,
        0,
        0,
        0,
        classes[:0],
    )
    keys, rule = np.zeros(8, np.uint64), PieceRule(classes, longs, no_spellings())
    merges = Merges(keys, ints, keys, False, -1)
    encoder = UnitEncoder(
        cutter, False, merges, rule, room_of(1), ints, longs, classes, ID_SIZE, 0, ints[:0]
    )
    return encoder.for_thread()


@borrowing
def _put_atoms(
    data: ByteArray, p: int, end: int, marked: bool, cutter: Cutter, symbols: IntArray
) -> int:
    n, code = 0, np.int64(0)
    if marked or cutter.marker == PREFIX:
        symbols[0], n = cutter.symbol_of[2 * SPACE_CODE], 1
    while p < end:
        code = np.int64(data[p])
        if code < 0x80 or cutter.cut >= BYTES:
            symbols[n], n, p = cutter.byte_symbols[code], n + 1, p + 1
            continue
        code, p = character(data, p, end)
        if code < 0 or code >= PRIVATE or (code == SPACE_CODE and cutter.cut >= METASPACE):
            return LEFT_TO_PYTHON
        symbols[n], n = cutter.symbol_of[2 * code], n + 1
    if cutter.marker == SUFFIX:
        in_table = code < 0x80 or cutter.cut >= BYTES
        symbols[n - 1] = (
            cutter.byte_symbols[_FINAL + code] if in_table else cutter.symbol_of[2 * code + 1]
        )
    return n


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
    if n <= 0 or encoder.sampled:
        return _mark_last(n, symbols, values, at)
    no_state = encoder.cutter.ends  # not read: nothing is drawn
    n = encode_word(n, encoder.room, encoder.merges, encoder.rule, 0.0, no_state, encoder.pieces, 0)
    began = at
    for symbol in encoder.pieces[:n]:
        if symbol < 0 and len(encoder.byte_ids) == 0:
            return LEFT_TO_PYTHON
        if symbol < 0:
            at = _write_byte_ids((-1 - np.int64(symbol)) >> 1, encoder.byte_ids, values, at)
            continue
        if encoder.width == ID_SIZE:
            store64(values, at, load64(encoder.rendered, ID_SIZE * np.int64(symbol)))
            at += ID_SIZE
            continue
        source, n_bytes = (
            encoder.starts[symbol],
            encoder.starts[symbol + 1] - encoder.starts[symbol],
        )
        for i in range(0, n_bytes, 8):
            store64(values, at + i, load64(encoder.rendered, source + i))
        at += n_bytes
    return at - began


@inlined
def _write_byte_ids(code: Any, byte_ids: IntArray, values: IntArray, at: int) -> int:
    n = 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
    byte = code if n == 1 else (0xF00 >> n & 0xFF) | code >> 6 * (n - 1)
    for i in range(n):
        byte = byte if i == 0 else 0x80 | (code >> 6 * (n - 1 - i) & 0x3F)
        store64(values, at + ID_SIZE * i, np.uint64(byte_ids[byte]))
    return at + ID_SIZE * n


@borrowing
def _mark_last(n: int, symbols: IntArray, values: IntArray, at: int) -> int:
    for i in range(n):
        store64(
            values,
            at + ID_SIZE * i,
            np.uint64(2 * np.int64(symbols[i]) + (i == n - 1) & 0xFFFFFFFF),
        )
    return max(ID_SIZE * n, n)


@borrowing
def write_words(
    data: ByteArray, first: bool, n_words: int, encoder: UnitEncoder, values: IntArray, at: int
) -> int:
    cutter, began = encoder.cutter, at
    for word in range(n_words):
        n = write_word(
            data, cutter.starts[word], cutter.ends[word], first and word == 0, encoder, values, at
        )
        if n < 0:
            return LEFT_TO_PYTHON
        at += n
    return at - began


PENDING, IRREGULAR, OPEN_ENDED = (
    0xFFFFFFFF,
    0xFFFFFFFE,
    0xFFFFFFFD,
)  # stand in place of the size of a row's values
NO_ROW = np.uint64(0xFFFFFFFFFFFFFFFF)
_SLACK = 64  # additional bytes that may be written: the size before an open unit's values, the rest of the last store
_PENDING, _NO_ROOM = -1, -2
_UNUSABLE = np.uint64(OPEN_ENDED)  # sizes are below this number
_U0, _U1, _U2, _U3 = (np.uint64(i) for i in range(4))
_EIGHT, _HALF, _SIZE = np.uint64(8), np.uint64(32), np.uint64(0xFFFFFFFF)


@inlined
def _has_room(length: int, table: UnitRows, encoder: UnitEncoder, state: LongArray) -> Any:
    number, n_values = state[N_UNITS], (2 * min(length, LONGEST) + 2) * encoder.widest
    return (
        number < len(table.firsts)
        and table.starts[number] + length + PADDING <= len(table.bytes)
        and state[N_VALUES] + n_values + _SLACK <= len(table.values)
    )


@inlined
def _enter(
    data: ByteArray,
    start: Any,
    length: int,
    low: Any,
    high: Any,
    row: Any,
    n: int,
    is_open: bool,
    table: UnitRows,
    state: LongArray,
) -> None:
    """Fill the row of a unit whose values are the next n bytes; the unit is pending if n is below 0.

    An open unit's values start with their size.
    """
    number, used = state[N_UNITS], state[N_VALUES]
    at = table.starts[number]
    for i in range(0, length, 8):
        store64(table.bytes, at + i, load64(data, start + np.uint64(i)))
    table.starts[number + 1], table.firsts[number], table.value_starts[number] = (
        at + length,
        high >= FIRST,
        used,
    )
    if n < 0:
        table.pending[state[N_PENDING]] = number
        state[N_PENDING] += 1
    rows, size = table.rows, np.uint64(PENDING if n < 0 else OPEN_ENDED if is_open else n)
    rows[row], rows[row + _U1], rows[row + _U2] = low, high, np.uint64(number + 1) << _HALF | size
    rows[row + _U3] = load64(table.values, np.uint64(used))
    state[N_UNITS], state[N_VALUES] = number + 1, used + max(n, 0)


@borrowing
def _word_row(
    data: ByteArray,
    start: Any,
    length: Any,
    marked: bool,
    table: UnitRows,
    encoder: UnitEncoder,
    state: LongArray,
) -> Any:
    """Return the row of a word, an empty row if Python must encode it, or NO_ROW if the table is full."""
    low, high = unit_key(data, start, length)
    high |= FIRST if marked else _U0
    row = find_row(
        data, start, length, low, high, home_slot(low, high, slot_shift(table.rows)), table
    )
    if table.rows[row + _U2] == _U0:
        if not _has_room(int(np.int64(length)), table, encoder, state):
            return NO_ROW
        end = int(np.int64(start + length))
        n = write_word(
            data, int(np.int64(start)), end, marked, encoder, table.values, state[N_VALUES]
        )
        if n >= 0:
            _enter(data, start, int(np.int64(length)), low, high, row, n, False, table, state)
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
    starts, ends, is_pending = encoder.cutter.starts, encoder.cutter.ends, False
    for word in range(n_words):
        start, end = np.uint64(starts[word]), np.uint64(ends[word])
        row = _word_row(data, start, end - start, first and word == 0, table, encoder, state)
        if row == NO_ROW:
            return _NO_ROOM
        entry = table.rows[row + _U2]
        if entry & _SIZE >= _UNUSABLE or entry == _U0:
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
        entry = table.rows[row + _U2]
        store64(table.values, at, table.rows[row + _U3])
        source, i = np.uint64(table.value_starts[(entry >> _HALF) - _U1]), _EIGHT
        while i < entry & _SIZE:
            store64(table.values, at + i, load64(table.values, source + i))
            i += _EIGHT
        at += entry & _SIZE
    return int(np.int64(at - used))


@borrowing
def enter_unit(
    data: ByteArray,
    start: Any,
    length: Any,
    low: Any,
    high: Any,
    row: Any,
    table: UnitRows,
    encoder: UnitEncoder,
    state: LongArray,
) -> Any:
    """Add a new unit with its values, or as pending. Return its row, or NO_ROW if the table is full."""
    size, begin, first, cutter = (
        int(np.int64(length)),
        int(np.int64(start)),
        high >= FIRST,
        encoder.cutter,
    )
    if not _has_room(size, table, encoder, state):
        return NO_ROW
    shape, n_words = cut_unit(data, begin, begin + size, first, cutter)
    n, used = n_words, state[N_VALUES]
    if shape == APART and n_words > 1 and not encoder.sampled:
        n = _join_words(data, first, n_words, size, table, encoder, state)
        if n == _NO_ROOM:
            return NO_ROW
        row = find_row(
            data, start, length, low, high, home_slot(low, high, slot_shift(table.rows)), table
        )
    elif n_words > 0:
        head = 8 * int(shape == OPEN)
        n = write_words(data, first, n_words, encoder, table.values, used + head)
        if shape == OPEN and n >= 0:
            store64(table.values, used, np.uint64(n))
            n += head
    _enter(data, start, size, low, high, row, n, shape == OPEN, table, state)
    return row
