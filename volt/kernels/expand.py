"""Numbers → what each stands for, one after the other: ids, or text with a space behind each.

>>> out, out_ends = np.zeros(8, np.int32), np.zeros(1, np.int64)
>>> starts, values = np.array([0, 1, 3]), np.array([7, 8, 9, 0, 0, 0, 0], np.int32)
>>> n = expand_ids(np.array([1, 0], np.int32), np.array([2]), starts, values, out, out_ends)
>>> out[:n].tolist(), out_ends.tolist()
([8, 9, 7], [3])
"""

import numpy as np
from numba import njit

from volt.kernels.hashing import IntArray, LongArray
from volt.kernels.memory import load64, store64

ROOM = 16  # values that may be read and written behind the last
_ONE = np.uint64(1)


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
def expand_text(
    numbers: IntArray, line_ends: LongArray, starts: LongArray, values: IntArray, out: IntArray, out_ends: LongArray
) -> int:
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
        out_ends[line] = at
    return at
