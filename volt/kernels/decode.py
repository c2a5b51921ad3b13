"""Decode ids to text, parse ids written as text, and expand numbers to the values that they stand
for.

To decode, each piece has a row of 16 bytes: the text of a piece of at most 15 bytes, and the text's
length. So most pieces are written by copying 16 bytes, whatever their length; the next piece
overwrites the surplus.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IntArray, KeyArray, LongArray, TextArray
from volt.kernels.intrinsics import PADDING, load64, store64
from volt.kernels.jit import inlined, releasing

SHORT = 15  # bytes that fit into a row
LONG = 255  # replaces the length of a text that does not fit
NO_SPACE, FIRST_SPACE, LAST_SPACE = range(3)  # which space is removed from each line
_ONE, _LENGTH_BITS, _BYTE = np.uint64(1), np.uint64(56), np.uint64(0xFF)
_SPACE, _NEWLINE, _RETURN, _ZERO, _NINE = 32, 10, 13, 48, 57


class TextTable(NamedTuple):
    rows: KeyArray  # (2 · n_pieces,) uint64, the first 15 bytes of each text, then their number or LONG
    starts: LongArray  # (n_pieces + 1,), where each text starts in `bytes`
    bytes: ByteArray  # uint8, text after text, and PADDING
    drops: int  # NO_SPACE, FIRST_SPACE or LAST_SPACE


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
    """Write the values of each number, values[starts[number]:starts[number + 1]]. Return how many
    were written.

    line_ends: where each line's numbers end;  out_ends: set to where its values end
    is_text: whether to write text, in which a line end replaces each line's last space, or is all
        of an empty line
    """
    n_read = n_out = 0
    for line in range(len(line_ends)):
        line_start = n_out
        for number in numbers[n_read : line_ends[line]]:
            for i in range(starts[number], starts[number + 1]):
                out[n_out] = values[i]
                n_out += 1
        if is_text:
            n_out += int(n_out == line_start)
            out[n_out - 1] = _NEWLINE
        n_read = line_ends[line]
        out_ends[line] = n_out
    return n_out


@inlined
def _row(ids: IntArray, i: int) -> Any:
    """Return the index of the first of the two numbers that hold the row of id i."""
    return np.uint64(ids[np.uint64(i)]) << _ONE


@releasing
def expand_lines(
    ids: IntArray,
    offsets: LongArray,
    first: int,
    texts: TextTable,
    out: ByteArray,
    ends: LongArray,
) -> int:
    """Write the texts of lines, from line `first` on, until `out` is full. Return the next line to
    write.

    Line ends are written to out[0] and after every line, so the first line starts at out[1].

    ids, offsets: the ids of line i are ids[offsets[i]:offsets[i + 1]]
    ends: set to where each line ends
    """
    start = 1
    out[0] = _NEWLINE
    for line in range(first, len(offsets) - 1):
        end = _write_line(ids, offsets[line], offsets[line + 1], texts, out, start)
        if end < 0:
            return line
        ends[line] = end
        start = end + 1
    return len(offsets) - 1


@releasing
def expand_line(texts: TextTable, ids: IntArray, out: ByteArray) -> int:
    """Write the text of one line to out[1:], which has room for it. Return where it ends, or −1 − i
    if id i is out of range."""
    n_pieces = np.uint64(len(texts.starts) - 1)
    for i in range(len(ids)):
        if np.uint64(ids[i]) >= n_pieces:
            return -1 - i
    out[0] = _NEWLINE
    return _write_line(ids, 0, len(ids), texts, out, 1)


@inlined
def _write_line(
    ids: IntArray, first_id: int, end: int, texts: TextTable, out: ByteArray, start: int
) -> int:
    """Write the text of ids[first_id:end] to out[start:], with a line end before and after it.
    Return where it ends, or −1 if `out` is full."""
    rows = texts.rows
    room = len(out) - PADDING
    if start >= room:
        return -1
    to = start
    if texts.drops == FIRST_SPACE:
        while first_id < end and rows[_row(ids, first_id) + _ONE] >> _LENGTH_BITS == 0:
            first_id += 1
        if first_id < end and rows[_row(ids, first_id)] & _BYTE == _SPACE:
            to -= 1  # the space overwrites the previous line end, which is written again below
    for i in range(first_id, end):
        row = _row(ids, i)
        source = 0
        low = rows[row]
        high = rows[row + _ONE]
        n = int(np.int64(high >> _LENGTH_BITS))
        if n == LONG:
            number = row >> _ONE
            source = int(texts.starts[number])
            n = int(texts.starts[number + _ONE]) - source
        if to + n > room:
            out[start - 1] = _NEWLINE
            return -1
        store64(out, to, low)
        store64(out, to + 8, high)
        for k in range(SHORT, n, 8):
            store64(out, to + k, load64(texts.bytes, source + k))
        to += n
    if texts.drops == LAST_SPACE and out[to - 1] == _SPACE:
        to -= 1
    out[start - 1] = out[to] = _NEWLINE
    return to


@releasing
def parse_ids(data: TextArray, limit: int, ids: IntArray, offsets: LongArray) -> int:
    r"""Read whole numbers below `limit`, separated by spaces, line by line. Lines end in "\n" or
    "\r\n".

    offsets: (n_lines + 1,), set to where each line's ids start and end; offsets[0] is 0
    Returns the position of the first invalid byte, or of the digit that makes a number too large;
    otherwise −1.
    """
    n = line = 0
    value = -1
    for p in range(len(data)):
        byte = int(np.int64(data[p]))
        if _ZERO <= byte <= _NINE:
            value = 10 * max(value, 0) + byte - _ZERO
            if value >= limit:
                return p
        elif byte == _SPACE or byte == _NEWLINE or (byte == _RETURN and data[p + 1] == _NEWLINE):
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
