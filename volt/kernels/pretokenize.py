"""Find the words (pre-tokens) in the bytes of one unit, as the vocabulary's pre-tokenizer does in a
whole line.

`cut_unit` writes the positions of the words to `Cutter.starts` and `Cutter.ends`. `Cutter.cut` says
how the unit is cut:

    NUMBER      not at all: the encoded value of the unit is the unit's number
    WORD        not at all: the unit is one word
    SPLIT       at white space beyond ASCII, as by str.split()
    METASPACE   at spaces: each becomes a "▁", which starts a word
    RUNS        at runs of spaces: each space becomes a "▁", and a run starts a word
    LINE        not at all: each space becomes a "▁", and the unit is one word
    UNICODE     into runs of letters with marks, of numbers, and of other characters
    GPT2        by GPT-2's pattern, with a "▁" for each space
    PATTERN     by the splits of a pattern, with a "▁" for each space
    BYTES, BYTE_PATTERN
                like GPT2 and PATTERN, but bytes become GPT-2's alphabet
    NEVER       only Python can cut the unit

A unit is left to Python if it is too long for `starts` and `ends`, or contains a character of unknown
class or a user token. Where "▁" stands for a space, a "▁" of the unit is cut like a space. For the
unit " don't" and GPT2, the words are " don" and "'t".
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import ByteArray, IntArray, LongArray
from volt.kernels.intrinsics import character, is_white
from volt.kernels.jit import borrowing, inlined
from volt.kernels.regex_cutting import SplitTables, find_words

# Ways to cut a unit. The order matters: from METASPACE on, a "▁" stands for a space; from BYTES on,
# atoms are bytes.
NEVER, NUMBER, WORD, SPLIT, METASPACE, RUNS, LINE, UNICODE, GPT2, PATTERN = range(10)
BYTES, BYTE_PATTERN = 10, 11
NO_CLASS, OTHER, LETTER, NUMBER_CLASS, MARK, WHITE = range(6)  # classes of characters
NO_MARKER, SUFFIX, PREFIX = range(3)
APART, TOGETHER = range(2)  # shapes of a unit, see `cut_unit`
# Effects of a class before a break: volt.text.patterns.split_points
PARTS, JOINS, GLUES = range(3)
STARTS_LINE = 4
SPARE_ATOMS = 2  # numbers in working memory beyond the bytes of a unit
SPACE_CODE, PRIVATE = 0x2581, 0x10C000
LEFT_TO_PYTHON = -1  # returned instead of a number of words, or a position
_SPACE = 32
# Numbers, because a loop that calls ord loads more slowly: numba imports its functions of strings.
_APOSTROPHE, _S, _T, _M, _D, _R, _E, _V, _L = b"'stmdrevl"


class Cutter(NamedTuple):
    """The rules that cut units into words, and words into atoms."""

    cut: int  # a way to cut a unit, see above
    marker: int  # NO_MARKER, SUFFIX or PREFIX
    # (0x110000,), the class of each character; for a pattern, those of its tables
    classes: ByteArray
    symbol_of: IntArray  # (2 · 0x110000,), the atom of each code, see volt.encode.merge_tables
    # (512,), the atom of each byte, or ASCII character, "▁" for a space; then the same at the end
    # of a word
    byte_symbols: IntArray
    # working memory: where each word of a unit starts; later the row of each word
    starts: LongArray
    ends: LongArray  # working memory: where each word ends
    moves: IntArray  # like `end` and `splits`, from a pattern's `SplitTables`
    end: int
    splits: LongArray
    # like `lasts` and `firsts`, from `Effects` of volt.kernels.unit_scan: its `effects`
    kinds: ByteArray
    lasts: ByteArray
    firsts: ByteArray
    alone: int  # 1 if a pattern splits each word the same way when it is alone
    matches_only: int  # 1 if text between a pattern's matches is dropped
    # (256,), 1 for each byte that begins a user token; (0,) if there is none
    user_starts: ByteArray
    # the bytes of the user tokens in sorted order, without tokens that begin with another one
    user_bytes: ByteArray
    user_bounds: LongArray  # token i is user_bytes[user_bounds[i]:user_bounds[i + 1]]


@borrowing
def cut_unit(data: ByteArray, start: int, end: int, first: bool, cutter: Cutter) -> tuple[int, int]:
    """Store the positions of a unit's words. Return the unit's shape, and its number of words, or
    LEFT_TO_PYTHON.

    first: whether the unit starts its line
    The shape is APART if each word, cut alone, stays one word, and otherwise TOGETHER.
    """
    cut = cutter.cut
    if cut == NEVER or (end - start > len(cutter.starts) - SPARE_ATOMS and cut != NUMBER):
        return TOGETHER, LEFT_TO_PYTHON
    if len(cutter.user_starts) > 0:
        for p in range(start, end):
            if cutter.user_starts[data[p]] and _is_user_token_at(data, p, end, cutter):
                return TOGETHER, LEFT_TO_PYTHON

    if cut <= WORD or cut == LINE:
        return TOGETHER, _add_word(start, end, 0, cutter)
    if cut == SPLIT:
        return APART, _cut_at_white_space(data, start, end, cutter)
    if cut in (METASPACE, RUNS):
        return TOGETHER, _cut_at_spaces(data, start, end, first, cutter)
    if cut == UNICODE:
        return APART, _cut_at_classes(data, start, end, first, cutter)
    if cut != PATTERN and cut != BYTE_PATTERN:
        return APART, _cut_by_gpt2(data, start, end, cutter)

    shape = APART if cutter.alone else TOGETHER
    if not is_readable(data, start, end, cutter):
        return shape, LEFT_TO_PYTHON
    tables = SplitTables(cutter.classes, cutter.moves, cutter.end, cutter.splits)
    return shape, find_words(
        data, start, end, tables, cutter.matches_only, cutter.starts, cutter.ends
    )


@borrowing
def _is_user_token_at(data: ByteArray, p: int, end: int, cutter: Cutter) -> bool:
    """Check whether a user token starts at p, by binary search."""
    low = 0
    high = len(cutter.user_bounds) - 1
    while low < high:
        middle = (low + high) >> 1
        first = cutter.user_bounds[middle]
        size = cutter.user_bounds[middle + 1] - first
        i = 0
        while i < size and p + i < end and data[p + i] == cutter.user_bytes[first + i]:
            i += 1
        if i == size:
            return True
        if p + i == end or data[p + i] < cutter.user_bytes[first + i]:
            high = middle
        else:
            low = middle + 1
    return False


@inlined
def _is_hidden(code: Any, cutter: Cutter) -> bool:
    return bool(code >= PRIVATE and len(cutter.user_starts) > 0)


@inlined
def _class_at(data: ByteArray, p: int, end: int, cutter: Cutter) -> tuple[Any, int]:
    """Return the class of the character at p, or NO_CLASS, and the position after it."""
    code, p = character(data, p, end)
    if code < 0 or _is_hidden(code, cutter):
        return NO_CLASS, p
    kind = np.int64(cutter.classes[code])
    if code == SPACE_CODE and cutter.cut != BYTES:
        kind = np.int64(WHITE)
    elif kind == WHITE and cutter.cut == UNICODE and code != _SPACE:
        kind = np.int64(OTHER)
    elif kind == MARK:
        kind = np.int64(LETTER if cutter.cut == UNICODE else OTHER)
    return kind, p


@inlined
def _add_word(start: int, end: int, n_words: int, cutter: Cutter) -> int:
    """Store a word after the first n_words. Return the new number of words."""
    cutter.starts[n_words] = start
    cutter.ends[n_words] = end
    return n_words + 1


@borrowing
def _cut_at_white_space(data: ByteArray, start: int, end: int, cutter: Cutter) -> int:
    p = start
    n_words = 0
    while p < end:
        byte = data[p]
        before = p
        p += 1
        if byte == 0xC2 or 0xE1 <= byte <= 0xE3:
            code, p = character(data, before, end)
            if code < 0:
                return LEFT_TO_PYTHON
            if is_white(code):
                if start < before:
                    n_words = _add_word(start, before, n_words, cutter)
                start = p
    return _add_word(start, end, n_words, cutter) if start < end else n_words


@borrowing
def _cut_at_spaces(data: ByteArray, start: int, end: int, first: bool, cutter: Cutter) -> int:
    p = start
    n_words = 0
    has_marker = first
    is_inside_run = True
    while p < end:
        n = _space_size(data, p)
        if n > 0:
            if has_marker and not (is_inside_run and cutter.cut == RUNS):
                n_words = _add_word(start, p, n_words, cutter)
                start = p
            has_marker = True
        is_inside_run = n > 0
        p += max(n, 1)
    return _add_word(start, end, n_words, cutter)


@inlined
def _space_size(data: ByteArray, p: int) -> int:
    """Return the bytes of a space, or a "▁", at p; 0 for other characters."""
    if data[p] == 0xE2 and data[p + 1] == 0x96 and data[p + 2] == 0x81:
        return 3
    return int(data[p] == _SPACE)


@borrowing
def _skip_run(data: ByteArray, p: int, end: int, cutter: Cutter) -> int:
    """Return the end of the run of characters of one class that starts at p, or LEFT_TO_PYTHON."""
    kind, p = _class_at(data, p, end, cutter)
    next_kind = kind
    while p < end and next_kind != NO_CLASS:
        next_kind, after = _class_at(data, p, end, cutter)
        if next_kind != kind:
            break
        p = after
    return p if next_kind != NO_CLASS else LEFT_TO_PYTHON


@borrowing
def _cut_at_classes(data: ByteArray, start: int, end: int, first: bool, cutter: Cutter) -> int:
    p = start
    n_words = 0
    n_spaces = int(first)
    while p < end:
        while p < end and _space_size(data, p) > 0:
            p += _space_size(data, p)
            n_spaces += 1
        if n_spaces > 1 or p == end:
            n_words = _add_word(start, p, n_words, cutter)
            start = p
        if p < end:
            p = _skip_run(data, p, end, cutter)
            if p < 0:
                return LEFT_TO_PYTHON
            n_words = _add_word(start, p, n_words, cutter)
            start = p
        n_spaces = 0
    return n_words


@borrowing
def _contraction_size(data: ByteArray, p: int, end: int) -> int:
    """Return the bytes of the contraction at p: 's, 't, 'm, 'd, 're, 've or 'll; otherwise 0."""
    if data[p] != _APOSTROPHE or p + 1 >= end:
        return 0
    second = data[p + 1]
    if second == _S or second == _T or second == _M or second == _D:
        return 2
    if p + 2 >= end:
        return 0
    third = data[p + 2]
    is_verb = third == _E and (second == _R or second == _V)
    return 3 if is_verb or (second == _L and third == _L) else 0


@borrowing
def _cut_by_gpt2(data: ByteArray, start: int, end: int, cutter: Cutter) -> int:
    """Split the unit by GPT-2's pattern.

    Each iteration yields up to three words: (1) a run of white space minus its last character, (2)
    that last character, unless it is a space, (3) a contraction, or a run of one class with an
    optional space before it.
    """
    p = start
    n_words = 0
    while p < end:
        last = p
        kind, after = _class_at(data, p, end, cutter)
        while kind == WHITE:
            last = p
            p = after
            if p == end:
                return _add_word(start, end, n_words, cutter)
            kind, after = _class_at(data, p, end, cutter)
        if last > start:
            n_words = _add_word(start, last, n_words, cutter)
            start = last
        is_space = data[last] == _SPACE or (cutter.cut == GPT2 and _space_size(data, last) > 0)
        if last < p and not is_space:
            n_words = _add_word(last, p, n_words, cutter)
            start = p

        length = _contraction_size(data, p, end) if start == p else 0
        p = p + length if length > 0 else _skip_run(data, p, end, cutter)
        if p < 0:
            return LEFT_TO_PYTHON
        n_words = _add_word(start, p, n_words, cutter)
        start = p
    return n_words


@borrowing
def is_readable(data: ByteArray, start: int, end: int, cutter: Cutter) -> bool:
    """Check that a unit is UTF-8 without private characters that may stand for user tokens."""
    p = start
    while p < end:
        if data[p] < 0x80:
            p += 1
            continue
        code, p = character(data, p, end)
        if code < 0 or _is_hidden(code, cutter):
            return False
    return True
