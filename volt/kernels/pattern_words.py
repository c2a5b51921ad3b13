"""UTF-8 lines → their words (pre-tokens) by the tables of a pattern, spelled as vocabularies have them.

A space stands behind each word but a line's last, and the byte 0xFF behind each line. Words hold neither, because
a table says how each byte of a word is spelled: a space becomes "▁", or each byte a character of GPT-2's alphabet.
Where the loop is told so, what lies between two matches is left out.
"""

from typing import NamedTuple

import numpy as np

from volt.kernels.arrays import FlagArray, IntArray, LongArray
from volt.kernels.compiling import borrowing, inlined, releasing
from volt.kernels.pattern_cutting import SplitTables, cut_span, find_matches

LINE_END, SPACE = 0xFF, 0x20
_WIDTH = 4
WIDEST, MORE = 4, 4  # bytes that one byte may become, with the space behind its word; room behind the last


class Spelling(NamedTuple):
    """How words are written.

    spelled: (256 · 4,) uint8, how many bytes each byte becomes, and which
    keeps_hidden: 1 if a word that is one private character of the user tokens stays as it is, else 0
    matches_only: 1 if what lies between the matches of the one split is left out, else 0
    """

    spelled: FlagArray
    keeps_hidden: int
    matches_only: int


@inlined
def _is_hidden(data: IntArray, start: int, end: int) -> bool:
    """Whether a word is one character from U+10F000 to U+10FFFD."""
    if end - start != 4 or data[start] != 0xF4 or data[start + 1] != 0x8F:
        return False
    return bool(data[start + 2] < 0xBF or data[start + 3] < 0xBE)


@borrowing
def _write(data: IntArray, start: int, end: int, spelling: Spelling, out: FlagArray, n: int) -> int:
    """Write a word behind the n bytes written. Returns how many are written then."""
    if spelling.keeps_hidden and _is_hidden(data, start, end):
        for p in range(start, end):
            out[n], n = data[p], n + 1
        return n
    for p in range(start, end):  # three bytes are written in any case: it takes half the time of asking how many
        row = _WIDTH * np.uint64(data[p])
        for i in range(_WIDTH - 1):
            out[np.uint64(n + i)] = spelling.spelled[row + np.uint64(i + 1)]
        n += int(spelling.spelled[row])  # not a byte, which would wrap where this is plain Python
    return n


@releasing
def write_words(
    data: IntArray, line_starts: LongArray, line_ends: LongArray, tables: SplitTables, spelling: Spelling,
    spare: LongArray, ends: LongArray, out: FlagArray,
) -> int:  # fmt: skip
    """Write the words of lines.

    data: (…,) uint8, UTF-8, of which line i is data[line_starts[i] : line_ends[i]]
    spare, ends: (…,) int64, memory to work in: one for each byte of the longest line
    out: (…,) uint8, is set; it has room for WIDEST bytes a byte, two a line, and MORE
    Returns how many bytes are written.
    """
    n = 0
    for line in range(len(line_starts)):
        start, end = line_starts[line], line_ends[line]
        if spelling.matches_only:
            n_words = find_matches(data, start, end, tables, spare, ends)
        else:
            n_words = cut_span(data, start, end, tables, ends, spare, 0)
        for i in range(n_words):
            n = _write(data, spare[i] if spelling.matches_only else start, ends[i], spelling, out, n)
            start = ends[i]
            out[n], n = SPACE, n + 1
        n -= n_words > 0
        out[n], n = LINE_END, n + 1
    return n
