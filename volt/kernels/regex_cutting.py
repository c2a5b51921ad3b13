r"""Split UTF-8 text into words (pre-tokens) by patterns, with one table look-up per character.

A pattern is a deterministic finite automaton. Its states are the rows of a table, one row after
another, and `row` is the index where a row starts. The number at `row + class of the next
character` holds the next row, times 2, plus 1 if a match ends before this character. Row 0 ends the
search; the last match counts. For the pattern [a-z]+|[0-9]+ :

    class             letter  digit  other  end of the span
    row 4, start          16     24      0                0     a letter leads to row 8, a digit to row 12
    row 8, letters        16      1      1                1     another character ends the match, and the search
    row 12, digits         1     24      1                1

Text between matches is also a word. A pattern is applied by several splits; each split cuts the
spans (words) of the previous split. A split can read its spans backwards: \d{1,3} then cuts 12345
into 12 and 345. Invalid UTF-8 counts as U+FFFD, as in Python's errors="replace".

`volt.text.patterns` builds the tables. `cut_texts` returns where words end, and `write_words`
writes the words.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IntArray, LongArray, TextArray
from volt.kernels.intrinsics import character
from volt.kernels.jit import borrowing, inlined, releasing

LINE_END, SPACE = 0xFF, 0x20  # bytes that `write_words` writes after each line and between words
# maximum bytes that it writes for one byte of text: a spelling of three bytes, and a space
WIDEST = 4
SPARE = 4  # bytes after the written words that may be overwritten
_SPELLING_SIZE = 4  # numbers in a row of `WordSpelling.spelled`
_REPLACEMENT = 0xFFFD
_U0, _U1 = (np.uint64(i) for i in (0, 1))


class SplitTables(NamedTuple):
    classes: ByteArray  # (0x110000,), the class of each character
    moves: IntArray  # (n_rows · (n_classes + 1),), the rows, see above
    end: int  # the class of the end of a span; those of characters are less
    splits: LongArray  # (n_splits,), 2 · (the first row of each split) + (1 if it reads its spans backwards)


class WordSpelling(NamedTuple):
    spelled: ByteArray  # (256 · 4,), for each byte: how many bytes replace it, and three bytes, of which these are the first
    keeps_hidden: int  # 1 if a word that is one private character, for a user token, stays as it is
    matches_only: int  # 1 if text between the matches of the one split is dropped


@releasing
def cut_texts(
    data: TextArray,
    text_starts: LongArray,
    text_ends: LongArray,
    tables: SplitTables,
    ends: LongArray,
    spare: LongArray,
    n_words: LongArray,
) -> int:
    """Cut the texts data[text_starts[i]:text_ends[i]] into words. Return the number of words.

    ends: set to the end of each word in `data`
    spare: as long as `ends`, overwritten
    n_words: (n_texts,), set to the number of each text's words
    """
    n = 0
    for text in range(len(text_starts)):
        n_after = cut_span(data, text_starts[text], text_ends[text], tables, ends, spare, n)
        n_words[text] = n_after - n
        n = n_after
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
    """Write the words of lines with spaces between them, and 0xFF after each line. Return the
    number of bytes.

    starts, ends: overwritten with the words of each line
    """
    n_out = 0
    for line in range(len(line_starts)):
        n_words = find_words(
            data, line_starts[line], line_ends[line], tables, spelling.matches_only, starts, ends
        )
        for i in range(n_words):
            n_out = _write_word(data, starts[i], ends[i], spelling, out, n_out)
            out[n_out] = SPACE
            n_out += 1
        n_out -= n_words > 0
        out[n_out] = LINE_END
        n_out += 1
    return n_out


@borrowing
def _write_word(
    data: ByteArray, start: int, end: int, spelling: WordSpelling, out: ByteArray, n_out: int
) -> int:
    if spelling.keeps_hidden and _is_hidden(data, start, end):
        for p in range(start, end):
            out[n_out + p - start] = data[p]
        return n_out + end - start
    for p in range(start, end):  # always writing three bytes takes half the time of a branch
        row = _SPELLING_SIZE * np.uint64(data[p])
        for i in range(_SPELLING_SIZE - 1):
            out[np.uint64(n_out + i)] = spelling.spelled[row + np.uint64(i + 1)]
        n_out += int(spelling.spelled[row])  # in plain Python, a byte would overflow
    return n_out


@inlined
def _is_hidden(data: ByteArray, start: int, end: int) -> bool:
    """Check for one character from U+10C000 to U+10FFFD."""
    if end - start != 4 or data[start] != 0xF4 or data[start + 1] < 0x8C:
        return False
    return bool(data[start + 1] < 0x8F or data[start + 2] < 0xBF or data[start + 3] < 0xBE)


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
    """Write the starts and ends of a text's words, or only of its matches. Return their number."""
    if not matches_only:
        n_words = cut_span(data, start, end, tables, ends, starts, 0)
        for word in range(n_words):
            starts[word] = start
            start = ends[word]
        return n_words

    n = 0
    row = np.uint64(tables.splits[0] >> 1)
    while start < end:
        match_end, after = find_match(data, start, end, start, row, False, tables)
        if match_end == start:
            start = after
            continue
        starts[n] = start
        ends[n] = match_end
        n += 1
        start = match_end
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
    """Apply all splits to a text. Write the ends of its words after the first n `ends`; return the
    new n."""
    n_splits = len(tables.splits)
    if n_splits == 1 and tables.splits[0] & 1 == 0:
        return _split_span(
            data, start, end, np.uint64(tables.splits[0] >> 1), False, tables, ends, n
        )
    if start == end:
        return n

    ends[n] = end
    n_after = n + 1
    for k in range(n_splits):
        row = np.uint64(tables.splits[k] >> 1)
        if not _may_match(data, start, end, row, tables):
            continue
        n_spans = n_after - n
        # A loop, because numba would allocate memory for a slice: it cannot see that the arrays do
        # not overlap.
        for i in range(n_spans):
            spare[i] = ends[n + i]
        span_start = start
        n_after = n
        for i in range(n_spans):
            span_end = spare[i]
            if tables.splits[k] & 1:
                n_after = _split_span(data, span_start, span_end, row, True, tables, ends, n_after)
            else:
                n_after = _split_span(data, span_start, span_end, row, False, tables, ends, n_after)
            span_start = span_end
    return n_after


@inlined
def _may_match(data: ByteArray, start: int, end: int, row: Any, tables: SplitTables) -> bool:
    """Check for a character that can start a match, or that is not ASCII. row: the split's first
    row"""
    for p in range(start, end):
        byte = data[p]
        if byte >= 0x80 or _move(row, tables.classes[byte], tables) > _U1:
            return True
    return False


@inlined
def _end_words(bound: Any, start: Any, end: Any, ends: LongArray, n: Any) -> Any:
    """Write where a match ends, and the text before it, if there is any. Return the number of words."""
    if bound != start:
        ends[n] = start
        n += 1
    ends[n] = end
    return n + 1


@inlined
def _split_span(
    data: ByteArray,
    start: int,
    end: int,
    row: Any,
    backwards: bool,
    tables: SplitTables,
    ends: LongArray,
    n: int,
) -> int:
    """Cut a span at the starts and ends of its matches. Write the ends of its words after the first
    n `ends`.

    `backwards` is a constant in each call, so each copy of this function reads in one direction.
    """
    first = n
    p = end if backwards else start
    stop = start if backwards else end
    bound = p  # where the current word starts, in the direction of reading
    while p != stop:
        match_end, after = find_match(data, start, end, p, row, backwards, tables)
        if match_end == p:
            p = after
            continue
        n = _end_words(bound, p, match_end, ends, n)
        p = bound = match_end
    if bound != stop:
        ends[n] = stop
        n += 1
    if backwards and n > first:  # ends[first:n] are the words' starts, from last to first
        for i in range((n - 1 - first) // 2):
            ends[first + i], ends[n - 2 - i] = ends[n - 2 - i], ends[first + i]
        ends[n - 1] = end
    return n


@inlined
def find_match(
    data: ByteArray, start: int, end: int, p: int, row: Any, backwards: bool, tables: SplitTables
) -> tuple[int, int]:
    """Return the end of the match that starts at p, or p without a match; and the position after
    the first character."""
    match_end = p
    kind, second = _read_class(data, start, end, p, backwards, tables)
    row = _move(row, kind, tables) >> _U1
    p = second
    while row != _U0:
        kind, after = _read_class(data, start, end, p, backwards, tables)
        move = _move(row, kind, tables)
        if move & _U1:
            match_end = p
        row = move >> _U1
        p = after
    return match_end, second


@inlined
def _move(row: Any, kind: Any, tables: SplitTables) -> Any:
    return np.uint64(tables.moves[row + np.uint64(kind)])  # unsigned indices are 8 % faster


@inlined
def _read_class(
    data: ByteArray, start: int, end: int, p: int, backwards: bool, tables: SplitTables
) -> tuple[Any, int]:
    """Return the class of the character after p, or before p if backwards, and the position after
    it."""
    if backwards:
        return _class_before(data, start, p, tables) if p > start else (tables.end, p)
    return _class_at(data, p, end, tables) if p < end else (tables.end, p)


@inlined
def _class_at(data: ByteArray, p: int, end: int, tables: SplitTables) -> tuple[Any, int]:
    if data[p] < 0x80:
        return tables.classes[data[p]], p + 1
    code, after = character(data, p, end)
    if code < 0:
        return tables.classes[_REPLACEMENT], invalid_end(data, p, end)
    return tables.classes[code], after


@inlined
def _class_before(data: ByteArray, start: int, p: int, tables: SplitTables) -> tuple[Any, int]:
    first = p - 1
    while first > start and first > p - 4 and data[first] & 0xC0 == 0x80:
        first -= 1
    kind, after = _class_at(data, first, p, tables)
    if after == p:
        return kind, first
    return _class_at(data, p - 1, p, tables)[0], p - 1


@borrowing
def invalid_end(data: ByteArray, p: int, end: int) -> int:
    """Return the end of the invalid bytes at p that one U+FFFD replaces.

    These are a first byte and the bytes after it that could continue its character: E2 82 41 is
    U+FFFD, then "A".
    """
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
