"""Decode ids to text, parse ids written as text, and expand numbers to the values that they stand for.

A row of 16 bytes holds a piece of at most 15 bytes and its length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IntArray, KeyArray, LongArray, TextArray
from volt.kernels.intrinsics import PADDING, load64, store64
from volt.kernels.jit import loop, releasing


@releasing
def expand(
    numbers: IntArray,
    line_ends: LongArray,
    starts: LongArray,
    values: IntArray | ByteArray,
    out: IntArray | ByteArray,
    out_ends: LongArray,
    is_text: bool,
) -> int:
    """Write the values of each number, values[starts[number]:starts[number + 1]]. Return how many were written.

    is_text: whether to write text, in which a line end replaces each line's last space, or is all of an empty line
    """
    done = at = 0
    for line in range(len(line_ends)):
        line_start = at
        for number in numbers[done : line_ends[line]]:
            for i in range(starts[number], starts[number + 1]):
                out[at], at = values[i], at + 1
        if is_text:
            at += int(at == line_start)
            out[at - 1] = 10
        done, out_ends[line] = line_ends[line], at
    return at


SHORT = 15  # bytes that fit into a row
LONG = 255  # replaces the length of a text that does not fit
NO_SPACE, FIRST_SPACE, LAST_SPACE = range(3)  # the space that is removed from a line
_ONE = np.uint64(1)
_BYTE = np.uint64(0xFF)
_SPACE, _NEWLINE, _RETURN, _ZERO, _NINE = 32, 10, 13, 48, 57


class TextTable(NamedTuple):
    rows: KeyArray  # (2 · n_pieces,) uint64, the first 15 bytes of each text, then their number or LONG
    starts: LongArray  # (n_pieces + 1,), where each text starts in `bytes`
    bytes: ByteArray  # uint8, text after text, and PADDING


@loop
def expand_lines(
    ids: IntArray,
    offsets: LongArray,
    first: int,
    texts: TextTable,
    drops: int,
    out: ByteArray,
    ends: LongArray,
) -> int:
    """Write the texts of lines, from line `first` on, until the buffer is full. Return the next line to write.

    Line ends are written to out[0] and after every line, so the first line starts at out[1].
    """
    rows, room, start = texts.rows, len(out) - PADDING, 1
    out[0] = _NEWLINE
    for line in range(first, len(offsets) - 1):
        begin, end = offsets[line], offsets[line + 1]
        if start >= room:
            return line
        at = start
        if drops == FIRST_SPACE:
            while (
                begin < end
                and rows[(np.uint64(ids[np.uint64(begin)]) << _ONE) + _ONE] >> np.uint64(56) == 0
            ):
                begin += 1
            if begin < end and rows[np.uint64(ids[np.uint64(begin)]) << _ONE] & _BYTE == _SPACE:
                at -= 1  # the space overwrites the previous line end, which is written again below
        for place in range(begin, end):
            number = np.uint64(ids[np.uint64(place)])
            row, source = number << _ONE, 0
            low, high = rows[row], rows[row + _ONE]
            n = int(np.int64(high >> np.uint64(56)))
            if n == LONG:
                source = int(texts.starts[number])
                n = int(texts.starts[number + _ONE]) - source
            if at + n > room:
                out[start - 1] = _NEWLINE
                return line
            store64(out, at, low)
            store64(out, at + 8, high)
            for i in range(SHORT, n, 8):
                store64(out, at + i, load64(texts.bytes, source + i))
            at += n
        if drops == LAST_SPACE and out[at - 1] == _SPACE:
            at -= 1
        out[start - 1] = out[at] = _NEWLINE
        ends[line] = at
        start = at + 1
    return len(offsets) - 1


@loop
def parse_ids(data: TextArray, limit: int, ids: IntArray, offsets: LongArray) -> int:
    r"""Read whole numbers below `limit`, separated by spaces, line by line. Lines end in "\n" or "\r\n".

    offsets: (n_lines + 1,), set to where each line's ids start and end; offsets[0] is 0
    Returns the place of the first invalid byte, or of the digit that makes a number too large; else −1.
    """
    result, line, value = 0, 0, -1
    for p in range(len(data)):
        byte = int(np.int64(data[p]))
        if _ZERO <= byte <= _NINE:
            value = 10 * max(value, 0) + byte - _ZERO
            if value >= limit:
                return p
        elif byte in (_SPACE, _NEWLINE) or (byte == _RETURN and data[p + 1] == _NEWLINE):
            if value >= 0:
                ids[result] = value
                result, value = result + 1, -1
            if byte == _NEWLINE:
                line += 1
                offsets[line] = result
        else:
            return p
    return -1
