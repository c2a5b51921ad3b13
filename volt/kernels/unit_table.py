"""The hash table of units and words: byte strings → their counts, or their encoded values.

The table uses open addressing: a search starts at the *home slot* of the key and takes the next
slots, until it finds the key or a free slot. A slot has a row of four 64-bit numbers:

    0, 1   the key: the bytes and the length of a unit of at most 15 bytes; otherwise a hash, and the bytes are compared
    2      (the unit's number + 1) << 32 | the size of its values in bytes; 0 while the slot is free
    3      the unit's count; or its values, if they take at most eight bytes; or where they start

`volt.kernels.count_units` counts units and words. `volt.kernels.encode_units` stores and writes
values.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, KeyArray, LongArray
from volt.kernels.intrinsics import PADDING, copy_eights, load64
from volt.kernels.jit import borrowing, inlined, releasing

# Unsigned indices need no check for negative values.
U0, U1, U2, U3, U4 = (np.uint64(i) for i in range(5))
EIGHT, HALF = np.uint64(8), np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
N_UNITS = 0  # the index, in the loops' states, of the number of units or words that have a row
FIRST = np.uint64(
    0x80 << 56
)  # set in the key of a unit that starts its line, if such units are marked
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX2 = np.uint64(0xC2B2AE3D27D4EB4F)
_LONG_SIZE = np.uint64(16)  # bytes; units of this size or more are hashed
_LENGTH_SHIFT = np.uint64(56)  # of the length in a key
_LONG_LENGTH = np.uint64(0x7F << 56)  # replaces the length in the key of a long unit
# Masks of a unit's first eight bytes, and of its other bytes, by the unit's length.
_LOW_MASKS = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(16)], np.uint64)
_HIGH_MASKS = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(16)], np.uint64)


class UnitRows(NamedTuple):
    """A table with room for n units, in more than n slots. Units are numbered from 0 in order of
    entry."""

    rows: KeyArray  # (4 · n_slots,) uint64, see above; n_slots is a power of two
    bytes: ByteArray  # the bytes of all units, one after the other
    starts: LongArray  # (n + 1,), where the bytes of each unit start
    firsts: ByteArray  # (n,) uint8, 1 for a unit that starts its line, if such units are marked
    values: ByteArray  # of uint8: text, or numbers of four bytes
    pending: LongArray  # the numbers of the units that Python must encode


class Unit(NamedTuple):
    """A unit of a text, as numbers of uint64."""

    start: Any
    length: Any
    low: Any  # the key's first number
    high: Any


@inlined
def make_unit(data: ByteArray, start: Any, length: Any, flag: Any) -> Unit:
    """Return a unit with its key. flag: FIRST or 0"""
    if length >= _LONG_SIZE:
        low, high = _hash_bytes(data, start, length)
    else:
        low = load64(data, start) & _LOW_MASKS[length]
        high = load64(data, start + EIGHT) & _HIGH_MASKS[length] | length << _LENGTH_SHIFT
    return Unit(start, length, low, high | flag)


@borrowing
def _hash_bytes(data: ByteArray, start: Any, length: Any) -> tuple[Any, Any]:
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
        word = load64(data, start + i) << (np.uint64(64) - EIGHT * (length - i))
        low = (low ^ word) * _MIX
        high = (high + word) * _MIX2
    return low ^ (low >> HALF) ^ length, (high ^ (high >> np.uint64(29))) >> EIGHT | _LONG_LENGTH


@inlined
def home_slot(low: Any, high: Any, shift: Any) -> Any:
    return ((low * _MIX) ^ (high * _MIX2)) >> shift


@borrowing
def slot_shift(rows: LongArray) -> Any:
    """Return the shift that turns a hash into a slot's number: 64 minus the bits of the number."""
    shift = 64
    n_slots = len(rows) // 4
    while n_slots > 1:
        shift -= 1
        n_slots //= 2
    return np.uint64(shift)


@inlined
def find_row(data: ByteArray, unit: Unit, slot: Any, table: UnitRows) -> Any:
    """Return the unit's row, or the free row for it. slot: the unit's home slot"""
    rows = table.rows
    while True:
        row = slot << U2
        entry = rows[row + U2]
        if rows[row] == unit.low and rows[row + U1] == unit.high:
            if unit.length < _LONG_SIZE or _has_bytes(data, unit, table, (entry >> HALF) - U1):
                return row
        elif entry == U0:
            return row
        slot = (slot + U1) & np.uint64(len(rows) // 4 - 1)


@borrowing
def _has_bytes(data: ByteArray, unit: Unit, table: UnitRows, number: Any) -> bool:
    start = np.uint64(table.starts[number])
    if np.uint64(table.starts[number + U1]) - start != unit.length:
        return False
    for i in range(unit.length):
        if data[unit.start + i] != table.bytes[start + i]:
            return False
    return True


@borrowing
def enter_row(data: ByteArray, unit: Unit, row: Any, table: UnitRows, state: LongArray) -> bool:
    """Fill the row of a new unit, or word, without values. Return whether there was room."""
    number = state[N_UNITS]
    size = int(np.int64(unit.length))
    start = table.starts[number]
    if number >= len(table.firsts) or start + size + PADDING > len(table.bytes):
        return False
    copy_eights(data, unit.start, size, table.bytes, start)
    table.starts[number + 1] = start + size
    table.firsts[number] = unit.high >= FIRST
    table.rows[row] = unit.low
    table.rows[row + U1] = unit.high
    table.rows[row + U2] = np.uint64(number + 1) << HALF
    state[N_UNITS] = number + 1
    return True


@releasing
def complete(table: UnitRows, numbers: LongArray, sizes: LongArray, n_values: int) -> None:
    """Enter the values of units that were pending.

    sizes: the bytes of each unit's values, which follow one after the other from n_values on
    """
    for i in range(len(numbers)):
        number = numbers[i]
        start = np.uint64(table.starts[number])
        length = np.uint64(table.starts[number + 1]) - start
        unit = make_unit(table.bytes, start, length, FIRST if table.firsts[number] else U0)
        row = _find_row_of_number(table.rows, unit.low, unit.high, np.uint64(number + 1))
        enter_values(row, sizes[i], n_values, table)
        n_values += sizes[i]


@inlined
def enter_values(row: Any, size: int, start: int, table: UnitRows) -> None:
    """Enter the values of the row's unit. size: their bytes;  start: their place in `values`"""
    entry = table.rows[row + U2]
    table.rows[row + U2] = (entry >> HALF) << HALF | np.uint64(size)
    table.rows[row + U3] = np.uint64(start) if size > 8 else load64(table.values, start)


@releasing
def rebuild(rows: KeyArray, old: KeyArray) -> None:
    """Copy the rows of a table to the empty rows of a larger table."""
    for old_row in range(0, len(old), 4):
        if old[old_row + 2] != 0:
            row = _find_row_of_number(
                rows, old[old_row], old[old_row + 1], old[old_row + 2] >> HALF
            )
            for i in range(4):
                rows[row + np.uint64(i)] = old[old_row + i]


@borrowing
def _find_row_of_number(rows: LongArray, low: Any, high: Any, number: Any) -> Any:
    """Return the row of the unit with this key and number + 1, or the free row for it."""
    mask = np.uint64(len(rows) // 4 - 1)
    slot = home_slot(low, high, slot_shift(rows))
    while True:
        row = slot << U2
        entry = rows[row + U2]
        if entry == U0 or entry >> HALF == number:
            return row
        slot = (slot + U1) & mask
