"""Rows of the table of units: a unit's key, where its row is, and the rows of a table that has grown.

The table is open addressing with rows of four 64-bit words: two for the key, one for the unit's number + 1 and how many
bytes its values take, one for the first eight of these. A unit of at most 15 bytes is its own key; of a longer one the
key is a hash, and its bytes are compared too.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.compiling import borrowing, inlined, releasing
from volt.kernels.memory import load64

# Unsigned places need no look at whether they count from the end.
_U0, _U1, _U2, _U3 = (np.uint64(i) for i in range(4))
_EIGHT, _SIXTEEN, _BLOCK, _HALF = (np.uint64(i) for i in (8, 16, 64, 32))
_MIX, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_LONG = np.uint64(0x7F << 56)  # stands in a long unit's key where a short unit's key has the length
FIRST = np.uint64(0x80 << 56)  # is set in the key of a unit that starts its line, if that is marked
_LOW_MASKS = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(16)], np.uint64)  # of the first eight bytes
_HIGH_MASKS = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(16)], np.uint64)  # of those that follow


class UnitRows(NamedTuple):
    """A table with room for n units, in more than n slots.

    rows: (4 · n_slots,) uint64, see above
    bytes: (room,) uint8, the bytes of all units, one after the other
    starts: (n + 1,) int64, where the bytes of each unit start
    firsts: (n,) uint8, 1 for a unit that starts its line, where that is marked
    value_starts: (n,) int64, where the values of each unit start
    values: (room,) uint8, text, or numbers of four bytes
    pending: (n,) int64, the numbers of the units that Python must encode
    """

    rows: LongArray
    bytes: IntArray
    starts: LongArray
    firsts: IntArray
    value_starts: LongArray
    values: IntArray
    pending: LongArray


@borrowing
def _long_key(data: IntArray, start: Any, length: Any) -> tuple[Any, Any]:
    """Two hashes of a unit of more than 15 bytes."""
    low, high, i = _MIX, _MIX2, _U0
    while i + _EIGHT <= length:
        word = load64(data, start + i)
        low, high = (low ^ word) * _MIX, (high + word) * _MIX2
        low, high, i = low ^ (low >> np.uint64(32)), high ^ (high >> np.uint64(29)), i + _EIGHT
    if i < length:
        word = load64(data, start + i) << (_BLOCK - _EIGHT * (length - i))
        low, high = (low ^ word) * _MIX, (high + word) * _MIX2
    return low ^ (low >> np.uint64(32)) ^ length, (high ^ (high >> np.uint64(29))) >> _EIGHT | _LONG


@inlined
def unit_key(data: IntArray, start: Any, length: Any) -> tuple[Any, Any]:
    """The two halves of a unit's key."""
    if length >= _SIXTEEN:
        return _long_key(data, start, length)
    high = load64(data, start + _EIGHT) & _HIGH_MASKS[length]
    return load64(data, start) & _LOW_MASKS[length], high | length << np.uint64(56)


@inlined
def home_slot(low: Any, high: Any, shift: Any) -> Any:
    """Where the search for a key starts."""
    return ((low * _MIX) ^ (high * _MIX2)) >> shift


@borrowing
def same_bytes(data: IntArray, start: Any, length: Any, table: UnitRows, number: Any) -> bool:
    """Whether a unit has the bytes of the unit with this number. Long units may share a key."""
    at = np.uint64(table.starts[number])
    if np.uint64(table.starts[number + _U1]) - at != length:
        return False
    for i in range(length):
        if data[start + i] != table.bytes[at + i]:
            return False
    return True


@inlined
def find_row(data: IntArray, start: Any, length: Any, low: Any, high: Any, slot: Any, table: UnitRows) -> Any:
    """The row of the unit with this key, or the free row where it belongs. The search starts at a slot."""
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
    """64 less the bits of a slot number.

    A slot number is made of a product's upper bits, because the whole key is mixed into these.
    """
    shift, n_slots = 64, len(rows) // 4
    while n_slots > 1:
        shift, n_slots = shift - 1, n_slots // 2
    return np.uint64(shift)


@borrowing
def row_of(rows: LongArray, low: Any, high: Any, entry: Any) -> Any:
    """Where the row with this key and number is, or the free row where it belongs."""
    mask, slot = np.uint64(len(rows) // 4 - 1), home_slot(low, high, slot_shift(rows))
    while True:
        row = slot << _U2
        found = rows[row + _U2]
        if found == _U0 or found >> _HALF == entry >> _HALF:
            return row
        slot = (slot + _U1) & mask


@releasing
def rebuild(rows: LongArray, old: LongArray) -> None:
    """Enter the rows of an old table into a new, empty one."""
    for at in range(0, len(old), 4):
        if old[at + 2] != 0:
            row = row_of(rows, old[at], old[at + 1], old[at + 2])
            for i in range(4):
                rows[row + np.uint64(i)] = old[at + i]


@releasing
def complete(table: UnitRows, numbers: LongArray, sizes: LongArray) -> None:
    """Enter the sizes of the values of pending units, whose place value_starts gives.

    numbers: (n,) int64, the numbers of the units
    sizes: (n,) int64, the size of each one's values in bytes, or IRREGULAR
    """
    for i in range(len(numbers)):
        number = numbers[i]
        start, length = np.uint64(table.starts[number]), np.uint64(table.starts[number + 1] - table.starts[number])
        low, high = unit_key(table.bytes, start, length)
        high |= FIRST if table.firsts[number] else _U0
        entry = np.uint64(number + 1) << _HALF | np.uint64(sizes[i])
        row = row_of(table.rows, low, high, entry)
        table.rows[row + _U2] = entry
        table.rows[row + _U3] = load64(table.values, np.uint64(table.value_starts[number]))
