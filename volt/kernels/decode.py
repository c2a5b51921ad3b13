"""Decode ids to text, parse ids written as text, and expand numbers to the values that they stand for.

A row of 16 bytes holds a piece of at most 15 bytes and its length.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IntArray, KeyArray, LongArray, TextArray
from volt.kernels.intrinsics import PADDING, load64, store64
from volt.kernels.jit import inlined, loop, releasing

SHORT = 15  # bytes that fit into a row
LONG = 255  # replaces the length of a text that does not fit
NO_SPACE, FIRST_SPACE, LAST_SPACE = range(3)  # the space that is removed from a line
_ONE, _LENGTH_BITS, _BYTE = np.uint64(1), np.uint64(56), np.uint64(0xFF)
_SPACE, _NEWLINE, _RETURN, _ZERO, _NINE = 32, 10, 13, 48, 57


class TextTable(NamedTuple):
    rows: KeyArray  # (2 · n_pieces,) uint64, the first 15 bytes of each text, then their number or LONG
    starts: LongArray  # (n_pieces + 1,), where each text starts in `bytes`
    bytes: ByteArray  # uint8, text after text, and PADDING


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
                out[at] = values[i]
                at += 1
        if is_text:
            at += int(at == line_start)
            out[at - 1] = _NEWLINE
        done = line_ends[line]
        out_ends[line] = at
    return at


@inlined
def _row(ids: IntArray, place: int) -> Any:
    return np.uint64(ids[np.uint64(place)]) << _ONE


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
    rows = texts.rows
    room = len(out) - PADDING
    start = 1
    out[0] = _NEWLINE
    for line in range(first, len(offsets) - 1):
        if start >= room:
            return line
        begin = offsets[line]
        end = offsets[line + 1]
        at = start
        if drops == FIRST_SPACE:
            while begin < end and rows[_row(ids, begin) + _ONE] >> _LENGTH_BITS == 0:
                begin += 1
            if begin < end and rows[_row(ids, begin)] & _BYTE == _SPACE:
                at -= 1  # the space overwrites the previous line end, which is written again below
        for place in range(begin, end):
            row = _row(ids, place)
            source = 0
            low = rows[row]
            high = rows[row + _ONE]
            n = int(np.int64(high >> _LENGTH_BITS))
            if n == LONG:
                number = row >> _ONE
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
    n = line = 0
    value = -1
    for p in range(len(data)):
        byte = int(np.int64(data[p]))
        if _ZERO <= byte <= _NINE:
            value = 10 * max(value, 0) + byte - _ZERO
            if value >= limit:
                return p
        elif byte in (_SPACE, _NEWLINE) or (byte == _RETURN and data[p + 1] == _NEWLINE):
            if value >= 0:
                ids[n] = value
                n += 1
                value = -1
            if byte == _NEWLINE:
                line += 1
                offsets[line] = n
        else:
            return p
    return -1
