"""The hash table of units, and the loops that count the units of a text and their words.

The table uses open addressing. A row is four 64-bit words: two for the key; one for the unit's number + 1 and the size
of its values; one for the first eight bytes of the values, or for the unit's count. A unit of at most 15 bytes is its
own key; a longer one is hashed, and its bytes are compared too. Rows are prefetched when the unit's end is found, and
read `LAG` units later: meanwhile, units wait in a ring.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, KeyArray, LongArray, TextArray
from volt.kernels.intrinsics import (
    PADDING,
    code_before,
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
U0, U1, U2, U3, U4 = (np.uint64(i) for i in range(5))
EIGHT, HALF, LAST_BIT, BLOCK_SIZE = (np.uint64(i) for i in (8, 32, 63, 64))
LOW_HALF = np.uint64(0xFFFFFFFF)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX2 = np.uint64(0xC2B2AE3D27D4EB4F)
_SIXTEEN = np.uint64(16)
_LENGTH_BITS = np.uint64(56)  # below the length in a key
_LONG = np.uint64(0x7F << 56)  # replaces the length in the key of a long unit
FIRST = np.uint64(0x80 << 56)  # set in the key of a unit that starts its line, if such are marked
# Masks of the first eight bytes of a unit, and of the bytes that follow, by the unit's length.
_LOW_MASKS = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(16)], np.uint64)
_HIGH_MASKS = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(16)], np.uint64)

N_UNITS, POSITION, START, IS_INSIDE = range(4)  # indices of the state of `count_units`
UNIT, WORD = 1, 2  # indices of the state of `add_words`, after the number of words that have a row
# Numbers in the ring: four for each unit, its key (two), slot << 32 | length, and start << 2 | kind. Bit 0 of the kind
# is set if there is a unit, bit 1 if a line ends after it.
RING = 4 * 128
RING_MASK = np.uint64(RING - 1)
LAG = np.uint64(4 * 32)  # numbers in the ring between the prefetch of a row and its use
_WHITE = sum(1 << byte for byte in (*range(9, 14), 32))


class UnitRows(NamedTuple):
    """A table with room for n units, in more than n slots."""

    rows: KeyArray  # (4 · n_slots,) uint64, see above
    bytes: ByteArray  # the bytes of all units, one after the other
    starts: LongArray  # (n + 1,), where the bytes of each unit start
    firsts: ByteArray  # (n,) uint8, 1 for a unit that starts its line, if such units are marked
    value_starts: LongArray  # (n,), where the values of each unit start
    values: ByteArray  # of uint8: text, or numbers of four bytes
    pending: LongArray  # the numbers of the units that Python must encode


class Unit(NamedTuple):
    """A unit of a text, in numbers of uint64."""

    start: Any
    length: Any
    low: Any  # the key
    high: Any


@borrowing
def _long_key(data: ByteArray, start: Any, length: Any) -> tuple[Any, Any]:
    low = _MIX
    high = _MIX2
    i = U0
    while i + EIGHT <= length:
        word = load64(data, start + i)
        low = (low ^ word) * _MIX
        high = (high + word) * _MIX2
        low ^= low >> HALF
        high ^= high >> np.uint64(29)
        i += EIGHT
    if i < length:
        word = load64(data, start + i) << (BLOCK_SIZE - EIGHT * (length - i))
        low = (low ^ word) * _MIX
        high = (high + word) * _MIX2
    return low ^ (low >> HALF) ^ length, (high ^ (high >> np.uint64(29))) >> EIGHT | _LONG


@inlined
def unit_of(data: ByteArray, start: Any, length: Any, flag: Any) -> Unit:
    """Return a unit with its key. flag: FIRST or 0"""
    if length >= _SIXTEEN:
        low, high = _long_key(data, start, length)
    else:
        low = load64(data, start) & _LOW_MASKS[length]
        high = load64(data, start + EIGHT) & _HIGH_MASKS[length] | length << _LENGTH_BITS
    return Unit(start, length, low, high | flag)


@inlined
def home_slot(low: Any, high: Any, shift: Any) -> Any:
    return ((low * _MIX) ^ (high * _MIX2)) >> shift


@borrowing
def _same_bytes(data: ByteArray, unit: Unit, table: UnitRows, number: Any) -> bool:
    at = np.uint64(table.starts[number])
    if np.uint64(table.starts[number + U1]) - at != unit.length:
        return False
    for i in range(unit.length):
        if data[unit.start + i] != table.bytes[at + i]:
            return False
    return True


@inlined
def find_row(data: ByteArray, unit: Unit, slot: Any, table: UnitRows) -> Any:
    """Return the unit's row, or the free row for it. slot: the unit's home slot"""
    rows = table.rows
    while True:
        row = slot << U2
        entry = rows[row + U2]
        if rows[row] == unit.low and rows[row + U1] == unit.high:
            if unit.length < _SIXTEEN or _same_bytes(data, unit, table, (entry >> HALF) - U1):
                return row
        elif entry == U0:
            return row
        slot = (slot + U1) & np.uint64(len(rows) // 4 - 1)


@borrowing
def slot_shift(rows: LongArray) -> Any:
    """Return the shift that turns a hash into a slot's number: 64 minus the bits of the number."""
    shift = 64
    n_slots = len(rows) // 4
    while n_slots > 1:
        shift -= 1
        n_slots //= 2
    return np.uint64(shift)


@borrowing
def _row_of(rows: LongArray, low: Any, high: Any, number: Any) -> Any:
    """Return the row with this key and number + 1, or the free row for it."""
    mask = np.uint64(len(rows) // 4 - 1)
    slot = home_slot(low, high, slot_shift(rows))
    while True:
        row = slot << U2
        entry = rows[row + U2]
        if entry == U0 or entry >> HALF == number:
            return row
        slot = (slot + U1) & mask


@releasing
def rebuild(rows: KeyArray, old: KeyArray) -> None:
    for at in range(0, len(old), 4):
        if old[at + 2] != 0:
            row = _row_of(rows, old[at], old[at + 1], old[at + 2] >> HALF)
            for i in range(4):
                rows[row + np.uint64(i)] = old[at + i]


@releasing
def complete(table: UnitRows, numbers: LongArray, sizes: LongArray) -> None:
    """Enter the sizes of the encoded values of units that were pending; a size is in bytes, or IRREGULAR."""
    for i in range(len(numbers)):
        number = numbers[i]
        start = np.uint64(table.starts[number])
        length = np.uint64(table.starts[number + 1]) - start
        unit = unit_of(table.bytes, start, length, FIRST if table.firsts[number] else U0)
        row = _row_of(table.rows, unit.low, unit.high, np.uint64(number + 1))
        table.rows[row + U2] = np.uint64(number + 1) << HALF | np.uint64(sizes[i])
        table.rows[row + U3] = load64(table.values, np.uint64(table.value_starts[number]))


class Ends(NamedTuple):
    separator: int  # the byte that ends a line
    strips_return: bool  # whether a "\r" before the separator is part of the line end
    breaks: int  # bit b is set if byte b ≤ 32 separates units
    keeps_breaks: bool  # whether breaks belong to the unit after them
    marks_first: bool  # whether a line's first unit differs from the same bytes elsewhere


@borrowing
def _follows_white(data: ByteArray, place: Any) -> bool:
    code = code_before(data, int(place))
    if code > 32:
        return is_white(code)
    return code >= 0 and (_WHITE >> code) & 1 != 0


@inlined
def wait_for_row(
    data: ByteArray,
    start: Any,
    end: Any,
    kind: Any,
    flag: Any,
    rows: LongArray,
    shift: Any,
    ring: LongArray,
    head: Any,
) -> Any:
    """Prefetch a unit's row, and queue the unit in the ring. Return the new head."""
    unit = unit_of(data, start, end - start, flag)
    slot = home_slot(unit.low, unit.high, shift)
    prefetch(rows, slot << U2)
    ring[head] = unit.low
    ring[head + U1] = unit.high
    ring[head + U2] = slot << HALF | unit.length
    ring[head + U3] = start << U2 | kind
    return (head + U4) & RING_MASK


@inlined
def waiting_unit(ring: LongArray, tail: Any) -> Unit:
    length = ring[tail + U2] & LOW_HALF
    return Unit(ring[tail + U3] >> U2, length, ring[tail], ring[tail + U1])


@inlined
def breaks_in(data: ByteArray, base: Any, stop: Any, separator: int) -> Any:
    """Return which of the 64 bytes at base may be breaks: bit i is set for the byte at base + i, if before stop."""
    result = within(data, base, 0, 32) | within(data, base, separator, 0)
    if base + BLOCK_SIZE > stop:
        result &= (U1 << (stop - base)) - U1
    return result


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
    separator = np.uint64(ends.separator)
    breaks = np.uint64(ends.breaks)
    bits = breaks_in(data, base, stop, ends.separator)
    while bits != U0:
        place = base + trailing_zeros(bits)
        bits &= bits - U1
        byte = np.uint64(data[place])
        if byte == separator:
            end = place
            if ends.strips_return and start < place and data[place - U1] == 13:
                end = place - U1
            if start < end:
                head = wait_for_row(data, start, end, U1, flag, rows, shift, ring, head)
            start = place + U1
            flag = FIRST if ends.marks_first else U0
        elif (breaks >> (byte & LAST_BIT)) & U1 != U0:
            if start < place and not (ends.keeps_breaks and _follows_white(data, place)):
                head = wait_for_row(data, start, place, U1, flag, rows, shift, ring, head)
                flag = U0
                start = place
            if not ends.keeps_breaks:
                start = place + U1
    return head, start, flag


@borrowing
def enter_row(data: ByteArray, unit: Unit, row: Any, table: UnitRows, state: LongArray) -> bool:
    """Fill the row of a new unit, or word, without values. Return whether there was room."""
    number = state[N_UNITS]
    size = int(np.int64(unit.length))
    at = table.starts[number]
    if number >= len(table.firsts) or at + size + PADDING > len(table.bytes):
        return False
    for i in range(0, size, 8):
        store64(table.bytes, at + i, load64(data, unit.start + np.uint64(i)))
    table.starts[number + 1] = at + size
    table.firsts[number] = unit.high >= FIRST
    table.rows[row] = unit.low
    table.rows[row + U1] = unit.high
    table.rows[row + U2] = np.uint64(number + 1) << HALF
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
    shift = slot_shift(table.rows)
    mark = FIRST if ends.marks_first else U0
    flag = mark if state[IS_INSIDE] == 0 else U0
    base = np.uint64(state[POSITION])
    start = np.uint64(state[START])
    end_of_all = np.uint64(stop)
    head = tail = U0
    has_room = True

    while has_room and (base < end_of_all or tail != head):
        if base < end_of_all:
            head, start, flag = _find_units(
                data, base, end_of_all, ends, table.rows, shift, ring, head, start, flag
            )
            base += BLOCK_SIZE
        lag = LAG if base < end_of_all else U0
        while (head - tail) & RING_MASK > lag:
            unit = waiting_unit(ring, tail)
            row = find_row(data, unit, ring[tail + U2] >> HALF, table)
            if table.rows[row + U2] == U0:
                has_room = enter_row(data, unit, row, table, state)
                if not has_room:
                    break
            table.rows[row + U3] += U1
            tail = (tail + U4) & RING_MASK

    if tail != head:  # continue with the first unit that is not counted yet
        unit = waiting_unit(ring, tail)
        start = unit.start
        base = start + unit.length
        flag = mark & unit.high
    state[POSITION] = base
    state[START] = start
    state[IS_INSIDE] = flag != mark
    return has_room


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
    for number in range(state[UNIT], len(ends)):
        n_words = find_words(
            data, starts[number], ends[number], tables, matches_only, word_starts, word_ends
        )
        for word in range(state[WORD], n_words):
            start = np.uint64(word_starts[word])
            unit = unit_of(data, start, np.uint64(word_ends[word]) - start, U0)
            row = find_row(data, unit, home_slot(unit.low, unit.high, shift), table)
            if table.rows[row + U2] == 0 and not enter_row(data, unit, row, table, state):
                state[UNIT] = number
                state[WORD] = word
                return False
            table.rows[row + U3] += np.uint64(counts[number])
        state[WORD] = 0
    return True
