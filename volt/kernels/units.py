"""Bytes → numbers of units, and numbers → what each unit stands for: the two loops that encoding and counting run in.

A unit is a run of bytes between break bytes (white space), with the breaks before it if `keep`. Each distinct unit
has a number, in the order in which units are first met, so frequent ones lie together. The table is open addressing
with rows of four 64-bit words: two for the key, one for the number + 1. A unit of at most 15 bytes is its own key; of a
longer one the key is a hash, and its bytes are compared too.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from volt.kernels.hashing import IntArray, LongArray
from volt.kernels.memory import load64, store64

LINE, POSITION, N_NUMBERS, N_UNITS, FIRST = range(5)  # slots of `state`
# Unsigned places need no look at whether they count from the end.
_ONE = _HIGH_KEY = np.uint64(1)  # place of the key's second half in a row
_NUMBER = np.uint64(2)
_HIGH = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_ABOVE_SPACE = np.uint64(0x2121212121212121)
_BYTE_INDEX = np.uint64(0x0001020304050607)
_MIX, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_LONG = np.uint64(0x7F << 56)  # stands where a short unit's length does
_FIRST = np.uint64(0x80 << 56)
_LOW_MASKS = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(16)], np.uint64)  # of the first eight bytes
_HIGH_MASKS = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(16)], np.uint64)  # of those that follow


class Table(NamedTuple):
    """rows: (4 · n_slots,) uint64;  bytes: (room,) uint8, all units' bytes;  starts: (n_slots / 2 + 1,) int64, where
    each unit's start;  firsts: (n_slots / 2,) uint8, which stand first in their line, where that is marked."""

    rows: LongArray
    bytes: IntArray
    starts: LongArray
    firsts: IntArray


@njit(cache=True, inline="always")
def _low_bytes(word: Any) -> Any:
    """The high bit of each byte of a word that is at most 32."""
    return ~((word | _HIGH) - _ABOVE_SPACE) & _HIGH & ~word


@njit(cache=True, inline="always")
def _first_byte(flags: Any) -> int:
    """The number of the first byte whose high bit is set."""
    first = flags & (~flags + np.uint64(1))
    return int(np.int64(((first >> np.uint64(7)) * _BYTE_INDEX) >> np.uint64(56)))


@njit(cache=True, inline="always")
def _is_break(byte: int, breaks: int) -> bool:
    return byte <= 32 and (breaks >> byte) & 1 == 1


@njit(cache=True)
def _long_key(data: IntArray, start: int, length: int) -> tuple[Any, Any]:
    """Two hashes of a unit of more than 15 bytes."""
    low, high, i = _MIX, _MIX2, 0
    while i + 8 <= length:
        word = load64(data, start + i)
        low, high = (low ^ word) * _MIX, (high + word) * _MIX2
        low, high, i = low ^ (low >> np.uint64(32)), high ^ (high >> np.uint64(29)), i + 8
    if i < length:
        word = load64(data, start + i) << np.uint64(64 - 8 * (length - i))
        low, high = (low ^ word) * _MIX, (high + word) * _MIX2
    return low ^ (low >> np.uint64(32)) ^ np.uint64(length), high ^ (high >> np.uint64(29))


@njit(cache=True)
def _same_bytes(data: IntArray, start: int, length: int, table: Table, number: int) -> bool:
    at = table.starts[number]
    if table.starts[number + 1] - at != length:
        return False
    for i in range(length):
        if data[start + i] != table.bytes[at + i]:
            return False
    return True


@njit(cache=True)
def _append(data: IntArray, start: int, length: int, table: Table, number: int) -> None:
    """Store the bytes of a new unit."""
    at = table.starts[number]
    for i in range(length):
        table.bytes[at + i] = data[start + i]
    table.starts[number + 1] = at + length


@njit(cache=True)
def _shift(rows: LongArray) -> Any:
    """64 less the bits of a slot number: the upper bits of a product are those that all of the key has mixed into."""
    shift, n_slots = 64, len(rows) // 4
    while n_slots > 1:
        shift, n_slots = shift - 1, n_slots // 2
    return np.uint64(shift)


@njit(cache=True, nogil=True)
def scan(
    data: IntArray, bounds: LongArray, ends: LongArray, table: Table, breaks: int, keep: bool, mark_first: bool,
    numbers: IntArray, line_ends: LongArray, state: LongArray,
) -> bool:  # fmt: skip
    """Number the units of lines; new ones are added to the table. Returns False when the table must first grow.

    data: (n_bytes + PADDING,) uint8, spaces after the last;  bounds: (n_lines,) int64, where the byte is that parts a
    line from the next;  ends: (n_lines,) int64, where its text ends, there or before
    breaks: bit b is set if byte b ≤ 32 parts units;  keep: breaks belong to what follows
    mark_first: a line's first unit is another unit than the same bytes elsewhere
    numbers: room for the units' numbers, int32;  line_ends: (n_lines,) where each line's numbers end
    state: where to go on, (5,) int64; 0 to begin, and N_UNITS, the number of units in the table.
    """
    line, p, n, n_units = state[LINE], state[POSITION], state[N_NUMBERS], state[N_UNITS]
    mask, shift = np.uint64(len(table.rows) // 4 - 1), _shift(table.rows)
    mark = _FIRST if mark_first else np.uint64(0)
    flag = mark if state[FIRST] == 0 else np.uint64(0)
    most, room, rows = len(table.firsts), len(table.bytes), table.rows
    while line < len(ends):
        end = ends[line]
        while p < end:
            start = p
            while p < end and _is_break(data[np.uint64(p)], breaks):
                p += 1
            if not keep:
                start = p
            while p < end:
                low = _low_bytes(load64(data, p))
                if low == 0:
                    p += 8
                    continue
                p += _first_byte(low)
                if p >= end or (breaks >> data[np.uint64(p)]) & 1 == 1:
                    break
                p += 1
            p = min(p, end)
            length = p - start
            if length == 0:
                break
            if length < 16:
                low = load64(data, start) & _LOW_MASKS[length]
                high = (load64(data, start + 8) & _HIGH_MASKS[length]) | np.uint64(length) << np.uint64(56)
            else:
                low, high = _long_key(data, start, length)
                high = (high >> np.uint64(8)) | _LONG
            high |= flag
            slot = ((low * _MIX) ^ (high * _MIX2)) >> shift
            while True:
                row = slot << np.uint64(2)
                entry = rows[row + _NUMBER]
                if entry == 0:
                    if n_units >= most or table.starts[n_units] + length > room:
                        state[LINE], state[POSITION], state[N_NUMBERS], state[N_UNITS] = line, start, n, n_units
                        state[FIRST] = 0 if flag == mark else 1
                        return False
                    _append(data, start, length, table, n_units)
                    table.firsts[n_units] = flag != 0
                    n_units += 1
                    entry = np.uint64(n_units)
                    rows[row], rows[row + _HIGH_KEY], rows[row + _NUMBER] = low, high, entry
                    break
                if (
                    rows[row] == low
                    and rows[row + _HIGH_KEY] == high
                    and (length <= 15 or _same_bytes(data, start, length, table, int(np.int64(entry)) - 1))
                ):
                    break
                slot = (slot + np.uint64(1)) & mask
            numbers[np.uint64(n)] = np.int64(entry) - 1
            n += 1
            flag = np.uint64(0)
        line_ends[line] = n
        p, flag, line = bounds[line] + 1, mark, line + 1
    state[LINE], state[N_NUMBERS], state[N_UNITS] = line, n, n_units
    return True


@njit(cache=True, nogil=True)
def find_bytes(data: IntArray, n: int, byte: int, places: LongArray) -> int:
    """Where a byte stands among the first n; how many times. data: (n + PADDING,) uint8;  places: room for all."""
    pattern, found, p = np.uint64(byte) * _ONES, 0, 0
    while p < n:
        word = load64(data, p) ^ pattern
        if (word - _ONES) & ~word & _HIGH != 0:  # one byte at least is 0
            zeros = ~(((word & ~_HIGH) + ~_HIGH) | word | ~_HIGH)  # exactly those that are
            while zeros != 0:
                place = p + _first_byte(zeros)
                if place < n:
                    places[np.uint64(found)], found = place, found + 1
                zeros &= zeros - _ONE
        p += 8
    return found


@njit(cache=True)
def rebuild(rows: LongArray, old: LongArray) -> None:
    """Enter the rows of an old table into a new, empty one."""
    mask, shift = np.uint64(len(rows) // 4 - 1), _shift(rows)
    for at in range(0, len(old), 4):
        if old[at + 2] != 0:
            slot = ((old[at] * _MIX) ^ (old[at + 1] * _MIX2)) >> shift
            while rows[4 * np.int64(slot) + 2] != 0:
                slot = (slot + np.uint64(1)) & mask
            for i in range(3):
                rows[4 * np.int64(slot) + i] = old[at + i]


@njit(cache=True, nogil=True)
def n_values(numbers: IntArray, starts: LongArray) -> int:
    """How many values the units with these numbers have in all."""
    total = 0
    for number in numbers:
        total += starts[np.uint64(number) + _ONE] - starts[np.uint64(number)]
    return total


@njit(cache=True, nogil=True)
def expand_ids(
    numbers: IntArray, line_ends: LongArray, starts: LongArray, values: IntArray, out: IntArray, out_ends: LongArray
) -> int:
    """Write what each number stands for, values[starts[number]:starts[number + 1]], one after the other.

    values: (… + 4,) int32;  out: room, int32;  out_ends: (n_lines,) where each line's end.
    Returns how many were written, −1 if there was no room (`n_values` + 4 is enough).
    """
    done, at, room = 0, 0, len(out) - 4
    for line in range(len(line_ends)):
        while done < line_ends[line]:
            number = np.uint64(numbers[np.uint64(done)])
            start = starts[number]
            n = starts[number + _ONE] - start
            if at + n > room:
                return -1
            store64(out, at, load64(values, start))  # two and two: most have fewer than four
            store64(out, at + 2, load64(values, start + 2))
            for i in range(4, n):
                out[at + i] = values[start + i]
            at += n
            done += 1
        out_ends[line] = at
    return at


@njit(cache=True, nogil=True)
def expand_text(numbers: IntArray, line_ends: LongArray, starts: LongArray, values: IntArray, out: IntArray) -> int:
    """Write the texts of the numbers, each of which ends with a space, and a line end for the last of every line.

    values: (… + 16,) uint8;  out: room, uint8. Returns how many bytes were written, −1 if there was no room
    (`n_values` + n_lines + 16 is enough).
    """
    done, at, room = 0, 0, len(out) - 16
    for line in range(len(line_ends)):
        start_of_line = at
        while done < line_ends[line]:
            number = np.uint64(numbers[np.uint64(done)])
            start = starts[number]
            n = starts[number + _ONE] - start
            if at + n > room:
                return -1
            store64(out, at, load64(values, start))
            store64(out, at + 8, load64(values, start + 8))
            i = 16
            while i < n:
                store64(out, at + i, load64(values, start + i))
                i += 8
            at += n
            done += 1
        if at == start_of_line:
            at += 1
        if at > room:
            return -1
        out[at - 1] = 10
    return at
