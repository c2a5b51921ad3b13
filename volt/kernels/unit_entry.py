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
from volt.kernels.unit_values import UnitEncoder, learn_word, learn_words

N_UNITS, N_VALUES, N_PENDING, N_SLOTS_USED = range(4)  # slots of `state`: how much of the table is used
PENDING, IRREGULAR, UNSURE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD  # in place of a number of bytes
NO_ROW = np.uint64(0xFFFFFFFFFFFFFFFF)
_SLACK = 64  # bytes that may be written behind values: the number before those of an unsure unit, the rest of a store
_PENDING, _NO_ROOM = -1, -2
_UNUSABLE = np.uint64(UNSURE)  # sizes from here on are none
_U0, _U1, _U2, _U3 = (np.uint64(i) for i in range(4))
_EIGHT, _HALF, _SIZE = np.uint64(8), np.uint64(32), np.uint64(0xFFFFFFFF)


@inlined
def _has_room(length: int, table: UnitRows, learner: UnitEncoder, state: LongArray) -> Any:
    """Whether a unit of so many bytes can be entered next; its words need room of their own."""
    number, n_values = state[N_UNITS], (2 * min(length, LONGEST) + 2) * learner.widest
    return (
        number < len(table.firsts)
        and table.starts[number] + length + PADDING <= len(table.bytes)
        and state[N_VALUES] + n_values + _SLACK <= len(table.values)
    )


@inlined
def _enter(
    data: IntArray, start: Any, length: int, low: Any, high: Any, row: Any, n: int, is_unsure: bool, table: UnitRows,
    state: LongArray,
) -> None:  # fmt: skip
    """Fill the row of a unit whose values, n bytes, are behind those in use; n below 0: it is pending. If it is unsure,
    the first eight of them say how many there are behind them."""
    number, used = state[N_UNITS], state[N_VALUES]
    at = table.starts[number]
    for i in range(0, length, 8):
        store64(table.bytes, at + i, load64(data, start + np.uint64(i)))
    table.starts[number + 1], table.firsts[number], table.value_starts[number] = at + length, high >= FIRST, used
    if n < 0:
        table.pending[state[N_PENDING]] = number
        state[N_PENDING] += 1
    rows, size = table.rows, np.uint64(PENDING if n < 0 else UNSURE if is_unsure else n)
    rows[row], rows[row + _U1], rows[row + _U2] = low, high, np.uint64(number + 1) << _HALF | size
    rows[row + _U3] = load64(table.values, np.uint64(used))
    state[N_UNITS], state[N_VALUES] = number + 1, used + max(n, 0)


@borrowing
def _word_row(
    data: IntArray, start: Any, length: Any, marked: bool, table: UnitRows, learner: UnitEncoder, state: LongArray
) -> Any:
    """The row of a word, entered if it is new: empty, or pending, if it cannot be learned here; NO_ROW for want of
    room."""
    low, high = unit_key(data, start, length)
    high |= FIRST if marked else _U0
    row = find_row(data, start, length, low, high, home_slot(low, high, slot_shift(table.rows)), table)
    if table.rows[row + _U2] == _U0:
        if not _has_room(int(np.int64(length)), table, learner, state):
            return NO_ROW
        end = int(np.int64(start + length))
        n = learn_word(data, int(np.int64(start)), end, marked, learner, table.values, state[N_VALUES])
        if n >= 0:
            _enter(data, start, int(np.int64(length)), low, high, row, n, False, table, state)
    return row


@borrowing
def _join_words(
    data: IntArray, first: bool, n_words: int, size: int, table: UnitRows, learner: UnitEncoder, state: LongArray
) -> int:
    """Write the values of a unit's words behind those in use; how many bytes, or _PENDING, _NO_ROOM."""
    starts, ends, is_pending = learner.cutter.starts, learner.cutter.ends, False
    for word in range(n_words):
        start, end = np.uint64(starts[word]), np.uint64(ends[word])
        row = _word_row(data, start, end - start, first and word == 0, table, learner, state)
        if row == NO_ROW:
            return _NO_ROOM
        entry = table.rows[row + _U2]
        if entry & _SIZE >= _UNUSABLE or entry == _U0:
            is_pending = True
            break
        starts[word] = np.int64(row)
    if not _has_room(size, table, learner, state):  # its words have taken some
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
    data: IntArray, start: Any, length: Any, low: Any, high: Any, row: Any, table: UnitRows, learner: UnitEncoder,
    state: LongArray,
) -> Any:  # fmt: skip
    """Enter a unit, which is pending if it cannot be learned here; its row, NO_ROW if there is no room."""
    size, begin, first, cutter = int(np.int64(length)), int(np.int64(start)), high >= FIRST, learner.cutter
    if not _has_room(size, table, learner, state):
        return NO_ROW
    shape, n_words = cut_unit(data, begin, begin + size, first, cutter)
    n, used = n_words, state[N_VALUES]
    if shape == APART and n_words > 1 and not learner.sampled:
        n = _join_words(data, first, n_words, size, table, learner, state)
        if n == _NO_ROOM:
            return NO_ROW
        row = find_row(data, start, length, low, high, home_slot(low, high, slot_shift(table.rows)), table)
    elif n_words > 0:
        head = 8 * int(shape == OPEN)
        n = learn_words(data, first, n_words, learner, table.values, used + head)
        if shape == OPEN and n >= 0:
            store64(table.values, used, np.uint64(n))
            n += head
    _enter(data, start, size, low, high, row, n, shape == OPEN, table, state)
    return row
