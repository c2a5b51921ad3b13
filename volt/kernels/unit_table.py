"""The hash table of units, and the loops that count the units of a text and their words.

The table uses open addressing. A row is four 64-bit words: two for the key; one for the unit's number + 1 and the size
of its values; one for the first eight bytes of the values, or for the unit's count. A unit of at most 15 bytes is its
own key; a longer one is hashed, and its bytes are compared too. Rows are prefetched when the unit's end is found, and
read `_LAG` units later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, KeyArray, LongArray, TextArray
from volt.kernels.intrinsics import (
    PADDING,
    character,
    is_white,
    load64,
    prefetch,
    store64,
    trailing_zeros,
    within,
)
from volt.kernels.jit import borrowing, inlined, releasing
from volt.kernels.regex_cutting import SplitTables, find_words

# Unsigned indices need no check for negative values.
_U0, _U1, _U2, _U3, _U4 = (np.uint64(i) for i in range(5))
_EIGHT, _SIXTEEN, _WORD_BITS, _HALF = (np.uint64(i) for i in (8, 16, 64, 32))
_MIX, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_LONG = np.uint64(0x7F << 56)  # replaces the length in the key of a long unit
FIRST = np.uint64(
    0x80 << 56
)  # set in the key of a unit that starts its line, if first units are marked
_LOW_MASKS = np.array(
    [(1 << 8 * min(n, 8)) - 1 for n in range(16)], np.uint64
)  # of the first eight bytes
_HIGH_MASKS = np.array(
    [(1 << 8 * max(n - 8, 0)) - 1 for n in range(16)], np.uint64
)  # of those that follow


class UnitRows(NamedTuple):
    """A table with room for n units, in more than n slots."""

    rows: KeyArray  # (4 · n_slots,) uint64, see above
    bytes: ByteArray  # the bytes of all units, one after the other
    starts: LongArray  # (n + 1,), where the bytes of each unit start
    firsts: ByteArray  # (n,) uint8, 1 for a unit that starts its line, if such units are marked
    value_starts: LongArray  # (n,), where the values of each unit start
    values: ByteArray  # of uint8: text, or numbers of four bytes
    pending: LongArray  # the numbers of the units that Python must encode


@borrowing
def _long_key(data: ByteArray, start: Any, length: Any) -> tuple[Any, Any]:
    low, high, i = _MIX, _MIX2, _U0
    while i + _EIGHT <= length:
        word = load64(data, start + i)
        low, high = (low ^ word) * _MIX, (high + word) * _MIX2
        low, high, i = low ^ (low >> np.uint64(32)), high ^ (high >> np.uint64(29)), i + _EIGHT
    if i < length:
        word = load64(data, start + i) << (_WORD_BITS - _EIGHT * (length - i))
        low, high = (low ^ word) * _MIX, (high + word) * _MIX2
    return low ^ (low >> np.uint64(32)) ^ length, (high ^ (high >> np.uint64(29))) >> _EIGHT | _LONG


@inlined
def unit_key(data: ByteArray, start: Any, length: Any) -> tuple[Any, Any]:
    if length >= _SIXTEEN:
        return _long_key(data, start, length)
    high = load64(data, start + _EIGHT) & _HIGH_MASKS[length]
    return load64(data, start) & _LOW_MASKS[length], high | length << np.uint64(56)


@inlined
def home_slot(low: Any, high: Any, shift: Any) -> Any:
    return ((low * _MIX) ^ (high * _MIX2)) >> shift


@borrowing
def same_bytes(data: ByteArray, start: Any, length: Any, table: UnitRows, number: Any) -> bool:
    at = np.uint64(table.starts[number])
    if np.uint64(table.starts[number + _U1]) - at != length:
        return False
    for i in range(length):
        if data[start + i] != table.bytes[at + i]:
            return False
    return True


@inlined
def find_row(
    data: ByteArray, start: Any, length: Any, low: Any, high: Any, slot: Any, table: UnitRows
) -> Any:
    """Return the row of the unit with this key, or the free row for it."""
    rows = table.rows
    while True:
        row = slot << _U2
        entry = rows[row + _U2]
        if rows[row] == low and rows[row + _U1] == high:
            if length < _SIXTEEN or same_bytes(data, start, length, table, (entry >> _HALF) - _U1):
                return row
        elif entry == _U0:
            return row
        slot = (slot + _U1) & np.uint64(len(rows) // 4 - 1)


@borrowing
def slot_shift(rows: LongArray) -> Any:
    """Return the shift that turns a hash into a slot's number: 64 minus the bits of the number."""
    shift, n_slots = 64, len(rows) // 4
    while n_slots > 1:
        shift, n_slots = shift - 1, n_slots // 2
    return np.uint64(shift)


@borrowing
def row_of(rows: LongArray, low: Any, high: Any, entry: Any) -> Any:
    """Return the row with this key and number, or the free row for it."""
    mask, slot = np.uint64(len(rows) // 4 - 1), home_slot(low, high, slot_shift(rows))
    while True:
        row = slot << _U2
        result = rows[row + _U2]
        if result == _U0 or result >> _HALF == entry >> _HALF:
            return row
        slot = (slot + _U1) & mask


@releasing
def rebuild(rows: KeyArray, old: KeyArray) -> None:
    for at in range(0, len(old), 4):
        if old[at + 2] != 0:
            row = row_of(rows, old[at], old[at + 1], old[at + 2])
            for i in range(4):
                rows[row + np.uint64(i)] = old[at + i]


@releasing
def complete(table: UnitRows, numbers: LongArray, sizes: LongArray) -> None:
    """Enter the sizes of the encoded values of units that were pending; a size is in bytes, or IRREGULAR."""
    for i in range(len(numbers)):
        number = numbers[i]
        start, length = (
            np.uint64(table.starts[number]),
            np.uint64(table.starts[number + 1] - table.starts[number]),
        )
        low, high = unit_key(table.bytes, start, length)
        high |= FIRST if table.firsts[number] else _U0
        entry = np.uint64(number + 1) << _HALF | np.uint64(sizes[i])
        row = row_of(table.rows, low, high, entry)
        table.rows[row + _U2] = entry
        table.rows[row + _U3] = load64(table.values, np.uint64(table.value_starts[number]))


N_UNITS, POSITION, START, IS_INSIDE = range(4)  # indices of the loop's state
_BLOCK, _LAG = 64, 32  # bytes read together; units between the prefetch of a row and its use
RING = 4 * 128  # four numbers for each waiting unit: its key (two), slot << 32 | length, start
_WHITE = sum(1 << byte for byte in (*range(9, 14), 32))
# Unsigned indices need no check for negative values.
_SIZE, _LAST = np.uint64(0xFFFFFFFF), np.uint64(63)
_STEP, _MASK, _LATE = np.uint64(_BLOCK), np.uint64(RING - 1), np.uint64(4 * _LAG)


class Ends(NamedTuple):
    separator: int  # the byte that ends a line
    strips_return: bool  # whether a "\r" before the separator is part of the line end
    breaks: int  # bit b is set if byte b ≤ 32 separates units
    keeps_breaks: bool  # whether breaks belong to the unit after them
    marks_first: bool  # whether a line's first unit differs from the same bytes elsewhere


@borrowing
def _follows_white(data: ByteArray, place: Any) -> bool:
    first = int(place) - 1
    if data[first] < 0x80:
        return bool(data[first] <= 32 and (_WHITE >> np.int64(data[first])) & 1 != 0)
    while data[first] & 0xC0 == 0x80:
        first -= 1
    return is_white(character(data, first, int(place))[0])


@inlined
def wait_for_row(
    data: ByteArray,
    start: Any,
    length: Any,
    flag: Any,
    rows: LongArray,
    shift: Any,
    ring: LongArray,
    head: Any,
) -> Any:
    """Prefetch a unit's row, and queue the unit in the ring. Return the new head."""
    low, high = unit_key(data, start, length)
    high |= flag
    slot = home_slot(low, high, shift)
    prefetch(rows, slot << _U2)
    ring[head], ring[head + _U1] = low, high
    ring[head + _U2], ring[head + _U3] = slot << _HALF | length, start
    return (head + _U4) & _MASK


@inlined
def _find_units(
    data: ByteArray,
    base: Any,
    stop: Any,
    ends: Ends,
    rows: LongArray,
    shift: Any,
    ring: LongArray,
    head: Any,
    start: Any,
    flag: Any,
) -> tuple[Any, Any, Any]:
    """Find the ends of units in a block of bytes, and queue the units in the ring.

    Returns the ring's new head, where the next unit starts, and its flag: FIRST or 0.
    """
    separator, breaks = np.uint64(ends.separator), np.uint64(ends.breaks)
    result = within(data, base, 0, 32) | within(data, base, ends.separator, 0)
    if base + _STEP > stop:
        result &= (_U1 << (stop - base)) - _U1
    while result != _U0:
        place = base + trailing_zeros(result)
        result &= result - _U1
        byte = np.uint64(data[place])
        if byte == separator:
            end = place
            if ends.strips_return and start < place and data[place - _U1] == 13:
                end = place - _U1
            if start < end:
                head = wait_for_row(data, start, end - start, flag, rows, shift, ring, head)
            start, flag = place + _U1, FIRST if ends.marks_first else _U0
        elif (breaks >> (byte & _LAST)) & _U1 != _U0:
            if start < place and not (ends.keeps_breaks and _follows_white(data, place)):
                head, flag = (
                    wait_for_row(data, start, place - start, flag, rows, shift, ring, head),
                    _U0,
                )
                start = place
            if not ends.keeps_breaks:
                start = place + _U1
    return head, start, flag


@borrowing
def enter_row(
    data: ByteArray,
    start: Any,
    length: Any,
    low: Any,
    high: Any,
    row: Any,
    table: UnitRows,
    state: LongArray,
) -> bool:
    """Fill the row of a new unit, or word. Return whether there was room."""
    number, size = state[N_UNITS], int(np.int64(length))
    at = table.starts[number]
    if number >= len(table.firsts) or at + size + PADDING > len(table.bytes):
        return False
    for i in range(0, size, 8):
        store64(table.bytes, at + i, load64(data, start + np.uint64(i)))
    table.starts[number + 1], table.firsts[number] = at + size, high >= FIRST
    table.rows[row], table.rows[row + _U1], table.rows[row + _U2] = (
        low,
        high,
        np.uint64(number + 1) << _HALF,
    )
    state[N_UNITS] = number + 1
    return True


@releasing
def count_units(
    data: TextArray, stop: int, ends: Ends, table: UnitRows, ring: KeyArray, state: LongArray
) -> bool:
    """Count the units of data[:stop], and add new units to the table. Return whether the whole text was counted.

    If False, call it again with a longer table.

    data: UTF-8 that ends with a separator at `stop - 1`, then PADDING
    state: the number of units that have a row; then, all 0 for a new text: the byte to continue from, where the next
        unit starts, and 1 if it is not the first of its line
    """
    shift, mark = slot_shift(table.rows), FIRST if ends.marks_first else _U0
    base, end_of_all, start = np.uint64(state[POSITION]), np.uint64(stop), np.uint64(state[START])
    flag = mark if state[IS_INSIDE] == 0 else _U0
    head = tail = _U0
    has_room = True
    while has_room and (base < end_of_all or tail != head):
        if base < end_of_all:
            head, start, flag = _find_units(
                data, base, end_of_all, ends, table.rows, shift, ring, head, start, flag
            )
            base += _STEP
        lag = _LATE if base < end_of_all else _U0
        while (head - tail) & _MASK > lag:
            low, high, begin = ring[tail], ring[tail + _U1], ring[tail + _U3]
            length = ring[tail + _U2] & _SIZE
            row = find_row(data, begin, length, low, high, ring[tail + _U2] >> _HALF, table)
            if table.rows[row + _U2] == _U0:
                has_room = enter_row(data, begin, length, low, high, row, table, state)
                if not has_room:
                    break
            table.rows[row + _U3] += _U1
            tail = (tail + _U4) & _MASK
    if tail != head:  # continue with the first unit that is not counted yet
        start, flag = ring[tail + _U3], mark & ring[tail + _U1]
        base = start + (ring[tail + _U2] & _SIZE)
    state[POSITION], state[START], state[IS_INSIDE] = base, start, flag != mark
    return has_room


UNIT, WORD = 1, 2  # indices of the loop's state, after the number of words that have a row
_U2, _U3 = np.uint64(2), np.uint64(3)


@releasing
def add_words(
    data: TextArray,
    starts: LongArray,
    ends: LongArray,
    counts: LongArray,
    tables: SplitTables,
    matches_only: int,
    word_starts: LongArray,
    word_ends: LongArray,
    table: UnitRows,
    state: LongArray,
) -> bool:
    """Add the counts of units to the counts of their words. Return whether all counts were added.

    If False, call it again with a longer table.

    data: ends with PADDING
    state: the number of words that have a row; the unit, and the word in that unit, to continue from
    """
    shift = slot_shift(table.rows)
    for unit in range(state[UNIT], len(ends)):
        n_words = find_words(
            data, starts[unit], ends[unit], tables, matches_only, word_starts, word_ends
        )
        for word in range(state[WORD], n_words):
            start, end = np.uint64(word_starts[word]), np.uint64(word_ends[word])
            low, high = unit_key(data, start, end - start)
            row = find_row(data, start, end - start, low, high, home_slot(low, high, shift), table)
            if table.rows[row + _U2] == 0 and not enter_row(
                data, start, end - start, low, high, row, table, state
            ):
                state[UNIT], state[WORD] = unit, word
                return False
            table.rows[row + _U3] += np.uint64(counts[unit])
        state[WORD] = 0
    return True
