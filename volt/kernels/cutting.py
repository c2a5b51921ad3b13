"""The bytes of one unit → where its words (pre-tokens) are.

    NUMBER      nothing is cut                              WORD        the unit is a pre-token
    SPLIT       between white space beyond ASCII            METASPACE   a "▁" for each space, which starts a word
    UNICODE     runs of letters with marks, numbers, others
    GPT2        its pattern, spaces as "▁"                  BYTES       its pattern, bytes as GPT-2's alphabet
    NEVER       Python must do it

Only what is certain is cut here: text whose characters have a known class, no "▁" where that stands for a space, no
private characters, no more than `LONGEST` bytes. All else is left to Python, which does the same for any text.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import FlagArray, IntArray, LongArray
from volt.kernels.compiling import borrowing, inlined

NEVER, NUMBER, WORD, SPLIT, METASPACE, UNICODE, GPT2, BYTES = range(8)  # how a unit is cut
NO_CLASS, OTHER, LETTER, NUMBER_CLASS, MARK, WHITE = range(6)  # classes of characters
NO_MARKER, SUFFIX, PREFIX = range(3)
APART, TOGETHER, OPEN = range(3)  # shapes of a unit
LONGEST = 1024  # bytes of a unit; Python takes longer ones
SPACE_CODE, PRIVATE = 0x2581, 0x10F000
UNLEARNED = -1
_QUOTE = ord("'")


class Cutter(NamedTuple):
    """How units become words, and words atoms. cut, marker: see above;  classes: (0x110000,) uint8 class of each
    character;  symbol_of: (2 · 0x110000,) int32, see volt.encode.merge_tables
    byte_symbols: (256,) int32 atom of each byte, or of each ASCII character where text is no bytes, "▁" for a space
    starts, ends: memory to work in: where the words of a unit are, and then, in starts, their rows."""

    cut: int
    marker: int
    classes: FlagArray
    symbol_of: IntArray
    byte_symbols: IntArray
    starts: LongArray
    ends: LongArray


@inlined
def character(data: IntArray, p: int, end: int) -> tuple[Any, int]:
    """The character that starts at p and where the next does; −1 where the bytes are not UTF-8."""
    first = np.int64(data[p])
    if first < 0x80:
        return first, p + 1
    n = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if first < 0xC2 or first > 0xF4 or p + n > end:
        return -1, p
    code = first & (0x7F >> n)
    for i in range(p + 1, p + n):
        if data[i] & 0xC0 != 0x80:
            return -1, p
        code = code << 6 | (np.int64(data[i]) & 0x3F)
    overlong = (n == 3 and code < 0x800) or (n == 4 and code < 0x10000)
    return (-1 if overlong or code > 0x10FFFF or 0xD800 <= code < 0xE000 else code), p + n


@inlined
def _kind(data: IntArray, p: int, end: int, cutter: Cutter) -> tuple[Any, int]:
    """The class of the character at p as its pattern sees it, NO_CLASS if Python must decide, and where the next is."""
    code = np.int64(data[p])
    if code < 0x80:
        found, p = cutter.classes[code], p + 1
    else:
        code, p = character(data, p, end)
        if code < 0 or code >= PRIVATE or (code == SPACE_CODE and cutter.cut != BYTES):
            return NO_CLASS, p
        found = cutter.classes[code]
    if found == WHITE and cutter.cut == UNICODE:
        found = OTHER if code < 0x80 else NO_CLASS
    elif found == MARK:
        found = LETTER if cutter.cut == UNICODE else OTHER
    return found, p


@inlined
def _add(start: int, end: int, n_words: int, cutter: Cutter) -> int:
    """Note where a word is; how many there are then."""
    cutter.starts[n_words], cutter.ends[n_words] = start, end
    return n_words + 1


@borrowing
def _is_white(code: int) -> bool:
    """Whether a character beyond ASCII parts words, as str.split() has it."""
    if code < 0x1680:
        return code == 0x85 or code == 0xA0
    if code < 0x2000:
        return code == 0x1680
    return code <= 0x200A or code in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@borrowing
def _split(data: IntArray, start: int, end: int, cutter: Cutter) -> int:
    """Words between white space beyond ASCII, all of which starts with one of four bytes."""
    p, n_words = start, 0
    while p < end:
        byte, before = data[p], p
        p += 1
        if byte == 0xC2 or 0xE1 <= byte <= 0xE3:
            code, p = character(data, before, end)
            if code < 0:
                return UNLEARNED
            if _is_white(code):
                if start < before:
                    n_words = _add(start, before, n_words, cutter)
                start = p
    return _add(start, end, n_words, cutter) if start < end else n_words


@borrowing
def _metaspace(data: IntArray, start: int, end: int, first: bool, cutter: Cutter) -> int:
    """A word for each space, and the rest behind the last; a line's first unit has one "▁" more."""
    p, n_words, has_marker = start, 0, first
    while p < end and data[p] == 32:
        if has_marker:
            n_words, start = _add(start, p, n_words, cutter), p
        has_marker, p = True, p + 1
    return _add(start, end, n_words, cutter)


@borrowing
def _run(data: IntArray, p: int, end: int, cutter: Cutter) -> int:
    """The end of the characters of one class that start at p, −1 if Python must decide."""
    kind, p = _kind(data, p, end, cutter)
    found = kind
    while p < end and found != NO_CLASS:
        found, after = _kind(data, p, end, cutter)
        if found != kind:
            break
        p = after
    return p if found != NO_CLASS else UNLEARNED


@borrowing
def _unicode(data: IntArray, start: int, end: int, first: bool, cutter: Cutter) -> int:
    """Several spaces are a word, a single one goes with the run behind it; a line's first unit has one "▁" more."""
    p, n_words, n_spaces = start, 0, int(first)
    while p < end and data[p] == 32:
        n_spaces, p = n_spaces + 1, p + 1
    if n_spaces > 1 or p == end:
        n_words, start = _add(start, p, 0, cutter), p
    while p < end:
        p = _run(data, p, end, cutter)
        if p < 0:
            return UNLEARNED
        n_words, start = _add(start, p, n_words, cutter), p
    return n_words


@borrowing
def _contraction(data: IntArray, p: int, end: int) -> int:
    """The length of an English contraction that starts at p, 0 if there is none."""
    if data[p] != _QUOTE or p + 1 >= end:
        return 0
    second = data[p + 1]
    if second == ord("s") or second == ord("t") or second == ord("m") or second == ord("d"):
        return 2
    if p + 2 < end:
        third = data[p + 2]
        if (third == ord("e") and (second == ord("r") or second == ord("v"))) or (
            second == ord("l") and third == ord("l")
        ):
            return 3
    return 0


@borrowing
def _gpt2(data: IntArray, start: int, end: int, cutter: Cutter) -> tuple[int, int]:
    """White space but for its last character; that too, unless it is a space; a contraction, or a run of one class with
    the space; and again. White space that ends the unit, and is beyond ASCII, could go on in the next."""
    p, n_words, shape = start, 0, APART
    while p < end:
        last = p
        kind, after = _kind(data, p, end, cutter)
        while kind == WHITE:
            shape = TOGETHER if data[p] >= 0x80 else shape
            last, p = p, after
            if p == end:
                shape = OPEN if data[last] >= 0x80 else shape
                return shape, _add(start, end, n_words, cutter)
            kind, after = _kind(data, p, end, cutter)
        if last > start:
            n_words, start = _add(start, last, n_words, cutter), last
        if last < p and data[last] != 32:
            n_words, start = _add(last, p, n_words, cutter), p
        length = _contraction(data, p, end) if start == p else 0
        p = p + length if length > 0 else _run(data, p, end, cutter)
        if p < 0:
            return shape, UNLEARNED
        n_words, start = _add(start, p, n_words, cutter), p
    return shape, n_words


@borrowing
def cut_unit(data: IntArray, start: int, end: int, first: bool, cutter: Cutter) -> tuple[int, int]:
    """Note where the words of a unit are; its shape, and how many, −1 if Python must decide.

    first: whether the unit starts its line, if that is marked: its first word has a "▁" more then
    The shape is APART if each word is one by itself too, TOGETHER if not, OPEN if the next unit matters as well.
    """
    if cutter.cut == NEVER or (end - start > LONGEST and cutter.cut != NUMBER):
        return TOGETHER, UNLEARNED
    if cutter.cut <= WORD:
        return TOGETHER, _add(start, end, 0, cutter)
    if cutter.cut == SPLIT:
        return APART, _split(data, start, end, cutter)
    if cutter.cut == METASPACE:
        return TOGETHER, _metaspace(data, start, end, first, cutter)
    if cutter.cut == UNICODE:
        return APART, _unicode(data, start, end, first, cutter)
    return _gpt2(data, start, end, cutter)
