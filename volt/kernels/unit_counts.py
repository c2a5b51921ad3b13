"""Text → how often each of its units occurs, in one loop: find where a unit ends, look it up, count it.

A unit is a run of bytes between breaks (white space), with the breaks before it if they are kept. It stands in a table
of units (volt.kernels.unit_rows), whose rows hold counts of 64 bits here in place of values. A unit's row is asked for
when its end is found, and looked at `_LAG` units later, when it has come into the cache.

Where breaks are kept, a unit does not end behind white space: what white space stands for is known only with all of it.
Fewer ends than there could be cost a few more distinct units, and nothing else.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.characters import character, is_white
from volt.kernels.compiling import borrowing, inlined, releasing
from volt.kernels.memory import PADDING, load64, prefetch, separators, store64, trailing_zeros
from volt.kernels.unit_rows import FIRST, UnitRows, find_row, home_slot, slot_shift, unit_key

N_UNITS, POSITION, START, IS_INSIDE = range(4)  # places in the loop's state
_BLOCK, _LAG = 64, 32  # bytes that are looked at together; units
RING = 4 * 128  # four numbers for each unit that waits: its key, its slot above its length, and where it starts
_WHITE = sum(1 << byte for byte in (*range(9, 14), 32))
# Unsigned places need no look at whether they count from the end.
_U0, _U1, _U2, _U3, _U4 = (np.uint64(i) for i in range(5))
_HALF, _SIZE, _LAST = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(63)
_STEP, _MASK, _LATE = np.uint64(_BLOCK), np.uint64(RING - 1), np.uint64(4 * _LAG)


class Ends(NamedTuple):
    """Where lines and units end.

    separator: the byte that ends a line
    strips_return: whether a "\\r" in front of the separator ends the line too
    breaks: bit b is set if byte b ≤ 32 parts units
    keeps_breaks: whether breaks belong to the unit behind them
    marks_first: whether a line's first unit is another unit than the same bytes elsewhere
    """

    separator: int
    strips_return: bool
    breaks: int
    keeps_breaks: bool
    marks_first: bool


@borrowing
def _is_behind_white(data: IntArray, place: Any) -> bool:
    """Whether the character in front of a place is white space. The text is UTF-8."""
    first = int(place) - 1
    if data[first] < 0x80:
        return bool(data[first] <= 32 and (_WHITE >> np.int64(data[first])) & 1 != 0)
    while data[first] & 0xC0 == 0x80:
        first -= 1
    return is_white(character(data, first, int(place))[0])


@inlined
def _await(data: IntArray, start: Any, end: Any, flag: Any, rows: LongArray, shift: Any, ring: LongArray,
           head: Any) -> Any:  # fmt: skip
    """Have a unit's row brought into the cache, and let the unit wait for it. Returns the ring's new head."""
    low, high = unit_key(data, start, end - start)
    high |= flag
    slot = home_slot(low, high, shift)
    prefetch(rows, slot << _U2)
    ring[head], ring[head + _U1] = low, high
    ring[head + _U2], ring[head + _U3] = slot << _HALF | (end - start), start
    return (head + _U4) & _MASK


@inlined
def _find_units(
    data: IntArray, base: Any, stop: Any, ends: Ends, rows: LongArray, shift: Any, ring: LongArray, head: Any,
    start: Any, flag: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Look for the ends of units in a block of bytes, and let the units wait in the ring.

    flag: FIRST if the next unit is the first of its line and that is marked, else 0
    Returns the ring's new head, where the next unit starts, and its flag.
    """
    separator, breaks = np.uint64(ends.separator), np.uint64(ends.breaks)
    found = separators(data, base, ends.separator)
    if base + _STEP > stop:
        found &= (_U1 << (stop - base)) - _U1
    while found != _U0:
        place = base + trailing_zeros(found)
        found &= found - _U1
        byte = np.uint64(data[place])
        if byte == separator:
            end = place
            if ends.strips_return and start < place and data[place - _U1] == 13:
                end = place - _U1
            if start < end:
                head = _await(data, start, end, flag, rows, shift, ring, head)
            start, flag = place + _U1, FIRST if ends.marks_first else _U0
        elif (breaks >> (byte & _LAST)) & _U1 != _U0:
            if start < place and not (ends.keeps_breaks and _is_behind_white(data, place)):
                head, flag = _await(data, start, place, flag, rows, shift, ring, head), _U0
                start = place
            if not ends.keeps_breaks:
                start = place + _U1
    return head, start, flag


@borrowing
def enter_row(
    data: IntArray, start: Any, length: Any, low: Any, high: Any, row: Any, table: UnitRows, state: LongArray
) -> bool:
    """Fill the row of a new unit, or word. Returns whether there was room. state: begins with how many there are."""
    number, size = state[N_UNITS], int(np.int64(length))
    at = table.starts[number]
    if number >= len(table.firsts) or at + size + PADDING > len(table.bytes):
        return False
    for i in range(0, size, 8):
        store64(table.bytes, at + i, load64(data, start + np.uint64(i)))
    table.starts[number + 1], table.firsts[number] = at + size, high >= FIRST
    table.rows[row], table.rows[row + _U1], table.rows[row + _U2] = low, high, np.uint64(number + 1) << _HALF
    state[N_UNITS] = number + 1
    return True


@releasing
def count_units(data: IntArray, stop: int, ends: Ends, table: UnitRows, ring: LongArray, state: LongArray) -> bool:
    """Count the units of data[:stop], and add those that are new to the table.

    data: (stop + PADDING or more,) uint8, UTF-8 with a separator at stop − 1
    table: its rows' fourth words are counts; `value_starts`, `values` and `pending` are not looked at
    ring: (RING,) uint64, memory to work in
    state: (4,) int64: units that have a row; the byte to go on from; where the next unit starts; 1 if it is not the
        first of its line. A text starts at zero in all but the first
    Returns whether all is counted. If not, a new unit finds no room; with a longer table, the loop goes on with it.
    """
    shift, mark = slot_shift(table.rows), FIRST if ends.marks_first else _U0
    base, end_of_all, start = np.uint64(state[POSITION]), np.uint64(stop), np.uint64(state[START])
    flag = mark if state[IS_INSIDE] == 0 else _U0
    head = tail = _U0
    has_room = True
    while has_room and (base < end_of_all or tail != head):
        if base < end_of_all:
            head, start, flag = _find_units(data, base, end_of_all, ends, table.rows, shift, ring, head, start, flag)
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
    if tail != head:  # go on with the first unit that is not yet counted
        start, flag = ring[tail + _U3], mark & ring[tail + _U1]
        base = start + (ring[tail + _U2] & _SIZE)
    state[POSITION], state[START], state[IS_INSIDE] = base, start, flag != mark
    return has_room
