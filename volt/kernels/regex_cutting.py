r"""Split UTF-8 text into words (pre-tokens) with the tables of a pattern: one table look-up per character.

    kind = the class of the character at p          row = moves[row + kind] >> 1
    a match ends at p if moves[row + kind] is odd   row 0 ends the search: the last match noted is the result

Each split cuts the spans of the previous split. A split can read its spans backwards: \d{1,3} then cuts 12345 into 12
and 345. Invalid UTF-8 counts as U+FFFD, as in Python's errors="replace".
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IntArray, LongArray, TextArray
from volt.kernels.intrinsics import character
from volt.kernels.jit import borrowing, inlined, releasing

REPLACEMENT = 0xFFFD
_U0, _U1 = np.uint64(0), np.uint64(1)


class SplitTables(NamedTuple):
    classes: ByteArray  # (0x110000,), the class of each character
    moves: IntArray  # (n_rows · (n_classes + 1),), as above; a row's number is where it starts
    end: int  # the column of the end of a span, after those of the classes
    splits: LongArray  # (n_splits,), 2 · (the row where each starts) + (1 if it reads its spans from their ends)


@inlined
def _kind_at(data: ByteArray, p: int, end: int, tables: SplitTables) -> tuple[Any, int]:
    if data[p] < 0x80:
        return tables.classes[data[p]], p + 1
    code, after = character(data, p, end)
    if code < 0:
        return tables.classes[REPLACEMENT], end_of_replaced(data, p, end)
    return tables.classes[code], after


@borrowing
def end_of_replaced(data: ByteArray, p: int, end: int) -> int:
    """Return the end of the invalid bytes at p that one U+FFFD replaces."""
    first = data[p]
    if first < 0xC2 or first > 0xF4:
        return p + 1
    n = 2 + int(first >= 0xE0) + int(first >= 0xF0)
    low = 0x80
    high = 0xBF
    if first == 0xE0:
        low = 0xA0
    elif first == 0xED:
        high = 0x9F
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F
    after = p + 1
    while after < min(p + n, end) and low <= data[after] <= high:
        low = 0x80
        high = 0xBF
        after += 1
    return after


@inlined
def _before(data: ByteArray, start: int, p: int, tables: SplitTables) -> tuple[Any, int]:
    first = p - 1
    while first > start and first > p - 4 and data[first] & 0xC0 == 0x80:
        first -= 1
    kind, after = _kind_at(data, first, p, tables)
    if after == p:
        return kind, first
    return _kind_at(data, p - 1, p, tables)[0], p - 1


@inlined
def _move(row: Any, kind: Any, tables: SplitTables) -> Any:
    return np.uint64(tables.moves[row + np.uint64(kind)])  # unsigned indices are 8 % faster


@inlined
def _match_end(data: ByteArray, p: int, end: int, row: Any, tables: SplitTables) -> tuple[int, int]:
    """Return where the match that starts at p ends, p if there is none; and where the next character starts."""
    result = p
    kind, second = _kind_at(data, p, end, tables)
    row = _move(row, kind, tables) >> _U1
    p = second
    while row != _U0:
        kind, after = _kind_at(data, p, end, tables) if p < end else (tables.end, p)
        move = _move(row, kind, tables)
        if move & _U1:
            result = p
        row = move >> _U1
        p = after
    return result, second


@inlined
def _match_start(
    data: ByteArray, start: int, p: int, row: Any, tables: SplitTables
) -> tuple[int, int]:
    """Do the same backwards, from p to `start`."""
    result = p
    kind, second = _before(data, start, p, tables)
    row = _move(row, kind, tables) >> _U1
    p = second
    while row != _U0:
        kind, before = _before(data, start, p, tables) if p > start else (tables.end, p)
        move = _move(row, kind, tables)
        if move & _U1:
            result = p
        row = move >> _U1
        p = before
    return result, second


@borrowing
def _split(
    data: ByteArray, start: int, end: int, row: Any, tables: SplitTables, ends: LongArray, n: int
) -> int:
    p = start
    while p < end:
        match_end, after = _match_end(data, p, end, row, tables)
        if match_end == p:
            p = after
            continue
        if start < p:
            ends[n] = p
            n += 1
        ends[n] = match_end
        n += 1
        start = p = match_end
    if start < end:
        ends[n] = end
        n += 1
    return n


@borrowing
def _split_from_end(
    data: ByteArray, start: int, end: int, row: Any, tables: SplitTables, ends: LongArray, n: int
) -> int:
    first = n
    p = end
    while p > start:
        match_start, before = _match_start(data, start, p, row, tables)
        if match_start == p:
            p = before
            continue
        if p < end:
            ends[n] = end
            n += 1
        ends[n] = p
        n += 1
        end = p = match_start
    if start < end:
        ends[n] = end
        n += 1
    for i in range((n - first) // 2):
        ends[first + i], ends[n - 1 - i] = ends[n - 1 - i], ends[first + i]
    return n


@borrowing
def cut_span(
    data: ByteArray,
    start: int,
    end: int,
    tables: SplitTables,
    ends: LongArray,
    spare: LongArray,
    n: int,
) -> int:
    """Apply all splits to a text. Write the ends of its words after the first n `ends`; return the new n."""
    n_splits = len(tables.splits)
    if n_splits == 1 and tables.splits[0] & 1 == 0:
        return _split(data, start, end, np.uint64(tables.splits[0] >> 1), tables, ends, n)
    if start == end:
        return n

    ends[n] = end
    stop = n + 1
    for k in range(n_splits):
        n_words = stop - n
        for i in range(
            n_words
        ):  # a slice would allocate: numba cannot see that the two do not overlap
            spare[i] = ends[n + i]
        row = np.uint64(tables.splits[k] >> 1)
        before = start
        stop = n
        for i in range(n_words):
            if tables.splits[k] & 1:
                stop = _split_from_end(data, before, spare[i], row, tables, ends, stop)
            else:
                stop = _split(data, before, spare[i], row, tables, ends, stop)
            before = spare[i]
    return stop


@borrowing
def find_words(
    data: ByteArray,
    start: int,
    end: int,
    tables: SplitTables,
    matches_only: int,
    starts: LongArray,
    ends: LongArray,
) -> int:
    """Write the starts and ends of a text's words, or of its matches. Return their number."""
    if not matches_only:
        n_words = cut_span(data, start, end, tables, ends, starts, 0)
        for word in range(n_words):
            starts[word] = start
            start = ends[word]
        return n_words

    n = 0
    row = np.uint64(tables.splits[0] >> 1)
    while start < end:
        match_end, after = _match_end(data, start, end, row, tables)
        if match_end == start:
            start = after
            continue
        starts[n] = start
        ends[n] = match_end
        n += 1
        start = match_end
    return n


@releasing
def cut_texts(
    data: TextArray,
    bounds: LongArray,
    tables: SplitTables,
    ends: LongArray,
    spare: LongArray,
    n_words: LongArray,
) -> int:
    n = 0
    for text in range(len(bounds) - 1):
        after = cut_span(data, bounds[text], bounds[text + 1], tables, ends, spare, n)
        n_words[text] = after - n
        n = after
    return n


LINE_END, SPACE = 0xFF, 0x20
_WIDTH = 4
WIDEST = 4  # maximum bytes for one byte, with the space after its word
MORE = 4  # spare bytes at the end


class WordSpelling(NamedTuple):
    spelled: ByteArray  # (256 · 4,), how many bytes each byte becomes, and which
    keeps_hidden: int  # 1 if a word that is one private character, for a user token, stays as it is
    matches_only: int  # 1 if text between the matches of the one split is dropped


@inlined
def _is_hidden(data: ByteArray, start: int, end: int) -> bool:
    if end - start != 4 or data[start] != 0xF4 or data[start + 1] < 0x8C:
        return False
    return bool(data[start + 1] < 0x8F or data[start + 2] < 0xBF or data[start + 3] < 0xBE)


@borrowing
def _write(
    data: ByteArray, start: int, end: int, spelling: WordSpelling, out: ByteArray, n: int
) -> int:
    if spelling.keeps_hidden and _is_hidden(data, start, end):
        for p in range(start, end):
            out[n + p - start] = data[p]
        return n + end - start
    for p in range(start, end):  # always writing three bytes takes half the time of a branch
        row = _WIDTH * np.uint64(data[p])
        for i in range(_WIDTH - 1):
            out[np.uint64(n + i)] = spelling.spelled[row + np.uint64(i + 1)]
        n += int(spelling.spelled[row])  # in plain Python, a byte would overflow
    return n


@releasing
def write_words(
    data: TextArray,
    line_starts: LongArray,
    line_ends: LongArray,
    tables: SplitTables,
    spelling: WordSpelling,
    starts: LongArray,
    ends: LongArray,
    out: ByteArray,
) -> int:
    """Write the words of lines with spaces between them, and 0xFF after each line. Return the number of bytes."""
    n = 0
    for line in range(len(line_starts)):
        n_words = find_words(
            data, line_starts[line], line_ends[line], tables, spelling.matches_only, starts, ends
        )
        for i in range(n_words):
            n = _write(data, starts[i], ends[i], spelling, out, n)
            out[n] = SPACE
            n += 1
        n -= n_words > 0
        out[n] = LINE_END
        n += 1
    return n
