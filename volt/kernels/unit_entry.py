"""A new unit → its row in the table, with what it stands for.

A unit of several words is put together from theirs, each of which has a row of its own, as if it were a unit: "low,"
costs little once "low" is known, and "low" costs nothing once "low," is.
"""

from typing import Any

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.compiling import borrowing, inlined
from volt.kernels.cutting import APART, LONGEST, OPEN, cut_unit
from volt.kernels.memory import PADDING, load64, store64
from volt.kernels.unit_rows import FIRST, UnitRows, find_row, home_slot, slot_shift, unit_key
from volt.kernels.unit_state import N_PENDING, N_UNITS, N_VALUES
from volt.kernels.unit_values import UnitEncoder, write_word, write_words

PENDING, IRREGULAR, OPEN_ENDED = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD  # stand where a row has the size of its values
NO_ROW = np.uint64(0xFFFFFFFFFFFFFFFF)
_SLACK = 64  # bytes more that may be written: the size in front of an open unit's values, the rest of the last store
_PENDING, _NO_ROOM = -1, -2
_UNUSABLE = np.uint64(OPEN_ENDED)  # numbers from here on are no sizes
_U0, _U1, _U2, _U3 = (np.uint64(i) for i in range(4))
_EIGHT, _HALF, _SIZE = np.uint64(8), np.uint64(32), np.uint64(0xFFFFFFFF)


@inlined
def _has_room(length: int, table: UnitRows, encoder: UnitEncoder, state: LongArray) -> Any:
    """Whether there is room to enter a unit of so many bytes next. Its words need room of their own."""
    number, n_values = state[N_UNITS], (2 * min(length, LONGEST) + 2) * encoder.widest
    return (
        number < len(table.firsts)
        and table.starts[number] + length + PADDING <= len(table.bytes)
        and state[N_VALUES] + n_values + _SLACK <= len(table.values)
    )


@inlined
def _enter(
    data: IntArray, start: Any, length: int, low: Any, high: Any, row: Any, n: int, is_open: bool, table: UnitRows,
    state: LongArray,
) -> None:  # fmt: skip
    """Fill the row of a unit whose values, n bytes, stand behind those in use. If n is below 0, the unit is pending.

    The first eight bytes of an open unit's values say how many there are behind them.
    """
    number, used = state[N_UNITS], state[N_VALUES]
    at = table.starts[number]
    for i in range(0, length, 8):
        store64(table.bytes, at + i, load64(data, start + np.uint64(i)))
    table.starts[number + 1], table.firsts[number], table.value_starts[number] = at + length, high >= FIRST, used
    if n < 0:
        table.pending[state[N_PENDING]] = number
        state[N_PENDING] += 1
    rows, size = table.rows, np.uint64(PENDING if n < 0 else OPEN_ENDED if is_open else n)
    rows[row], rows[row + _U1], rows[row + _U2] = low, high, np.uint64(number + 1) << _HALF | size
    rows[row + _U3] = load64(table.values, np.uint64(used))
    state[N_UNITS], state[N_VALUES] = number + 1, used + max(n, 0)


@borrowing
def _word_row(
    data: IntArray, start: Any, length: Any, marked: bool, table: UnitRows, encoder: UnitEncoder, state: LongArray
) -> Any:
    """The row of a word, which is entered if it is new.

    The row stays empty if Python must encode the word. Returns NO_ROW if there is no room.
    """
    low, high = unit_key(data, start, length)
    high |= FIRST if marked else _U0
    row = find_row(data, start, length, low, high, home_slot(low, high, slot_shift(table.rows)), table)
    if table.rows[row + _U2] == _U0:
        if not _has_room(int(np.int64(length)), table, encoder, state):
            return NO_ROW
        end = int(np.int64(start + length))
        n = write_word(data, int(np.int64(start)), end, marked, encoder, table.values, state[N_VALUES])
        if n >= 0:
            _enter(data, start, int(np.int64(length)), low, high, row, n, False, table, state)
    return row


@borrowing
def _join_words(
    data: IntArray, first: bool, n_words: int, size: int, table: UnitRows, encoder: UnitEncoder, state: LongArray
) -> int:
    """Write the values of a unit's words behind those in use.

    Returns how many bytes that are, or _PENDING, or _NO_ROOM.
    """
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
    if not _has_room(size, table, encoder, state):  # its words have taken some of it
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
    data: IntArray, start: Any, length: Any, low: Any, high: Any, row: Any, table: UnitRows, encoder: UnitEncoder,
    state: LongArray,
) -> Any:  # fmt: skip
    """Enter a new unit, with its values, or as pending if Python must encode it.

    Returns its row, or NO_ROW if there is no room.
    """
    size, begin, first, cutter = int(np.int64(length)), int(np.int64(start)), high >= FIRST, encoder.cutter
    if not _has_room(size, table, encoder, state):
        return NO_ROW
    shape, n_words = cut_unit(data, begin, begin + size, first, cutter)
    n, used = n_words, state[N_VALUES]
    if shape == APART and n_words > 1 and not encoder.sampled:
        n = _join_words(data, first, n_words, size, table, encoder, state)
        if n == _NO_ROOM:
            return NO_ROW
        row = find_row(data, start, length, low, high, home_slot(low, high, slot_shift(table.rows)), table)
    elif n_words > 0:
        head = 8 * int(shape == OPEN)
        n = write_words(data, first, n_words, encoder, table.values, used + head)
        if shape == OPEN and n >= 0:
            store64(table.values, used, np.uint64(n))
            n += head
    _enter(data, start, size, low, high, row, n, shape == OPEN, table, state)
    return row
