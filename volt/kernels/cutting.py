"""The bytes of one unit → where its words (pre-tokens) are.

How a unit is cut depends on the pre-tokeniser:

    NUMBER      it is not cut: its value is its number
    WORD        it is one pre-token
    SPLIT       it is cut at white space beyond ASCII, as by str.split()
    METASPACE   each space becomes a "▁", which starts a word
    UNICODE     into runs of letters with marks, of numbers, and of others
    GPT2        by GPT-2's pattern, with a "▁" for each space
    BYTES       by GPT-2's pattern, and bytes become GPT-2's alphabet
    NEVER       Python must cut it

Only what is certain is cut here: units of at most `LONGEST` bytes, whose characters all have a known class, without
private characters, and without a "▁" where that stands for a space. All else is left to Python, which does the same for
any text.
"""

from typing import Any, NamedTuple

import numpy as np

from volt.kernels.arrays import FlagArray, IntArray, LongArray
from volt.kernels.compiling import borrowing, inlined

NEVER, NUMBER, WORD, SPLIT, METASPACE, UNICODE, GPT2, BYTES = range(8)  # how a unit is cut; the order matters below
NO_CLASS, OTHER, LETTER, NUMBER_CLASS, MARK, WHITE = range(6)  # classes of characters
NO_MARKER, SUFFIX, PREFIX = range(3)
APART, TOGETHER, OPEN = range(3)  # shapes of a unit
LONGEST = 1024  # bytes of a unit; Python cuts longer ones
SPACE_CODE, PRIVATE = 0x2581, 0x10F000
LEFT_TO_PYTHON = -1  # stands where a number is returned otherwise
_QUOTE = ord("'")


class Cutter(NamedTuple):
    """How units become words, and words atoms.

    cut: how units are cut, see above
    marker: NO_MARKER, SUFFIX or PREFIX
    classes: (0x110000,) uint8, the class of each character
    symbol_of: (2 · 0x110000,) int32, the atom of each code, see volt.encode.merge_tables
    byte_symbols: (256,) int32, the atom of each byte; where text is no bytes, of each ASCII character, "▁" for a space
    starts: memory to work in, int64: where each word of a unit starts, and then the row of each word
    ends: memory to work in, int64: where each word of a unit ends
    """

    cut: int
    marker: int
    classes: FlagArray
    symbol_of: IntArray
    byte_symbols: IntArray
    starts: LongArray
    ends: LongArray


@inlined
def character(data: IntArray, p: int, end: int) -> tuple[Any, int]:
    """The character that starts at p, −1 if the bytes there are not UTF-8; and where the next one starts."""
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
    """The class of the character at p as the pattern sees it, and where the next character starts.

    NO_CLASS if Python must decide.
    """
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
    """Note where a word is. Returns how many words there are then."""
    cutter.starts[n_words], cutter.ends[n_words] = start, end
    return n_words + 1


@borrowing
def _is_white(code: int) -> bool:
    """Whether a character beyond ASCII is white space, as str.split() has it.

    The one list is in volt.text.white_space, which compiled code cannot read; tests compare the two.
    """
    if code < 0x1680:
        return code == 0x85 or code == 0xA0
    if code < 0x2000:
        return code == 0x1680
    return code <= 0x200A or code in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@borrowing
def _split(data: IntArray, start: int, end: int, cutter: Cutter) -> int:
    """Find the words between white space beyond ASCII, which always starts with 0xC2 or 0xE1 to 0xE3."""
    p, n_words = start, 0
    while p < end:
        byte, before = data[p], p
        p += 1
        if byte == 0xC2 or 0xE1 <= byte <= 0xE3:
            code, p = character(data, before, end)
            if code < 0:
                return LEFT_TO_PYTHON
            if _is_white(code):
                if start < before:
                    n_words = _add(start, before, n_words, cutter)
                start = p
    return _add(start, end, n_words, cutter) if start < end else n_words


@borrowing
def _metaspace(data: IntArray, start: int, end: int, first: bool, cutter: Cutter) -> int:
    """Find the words: one for each space but the last, and one from there on. A line's first unit has one "▁" more."""
    p, n_words, has_marker = start, 0, first
    while p < end and data[p] == 32:
        if has_marker:
            n_words, start = _add(start, p, n_words, cutter), p
        has_marker, p = True, p + 1
    return _add(start, end, n_words, cutter)


@borrowing
def _run(data: IntArray, p: int, end: int, cutter: Cutter) -> int:
    """The end of the run of characters of one class that starts at p, or LEFT_TO_PYTHON."""
    kind, p = _kind(data, p, end, cutter)
    found = kind
    while p < end and found != NO_CLASS:
        found, after = _kind(data, p, end, cutter)
        if found != kind:
            break
        p = after
    return p if found != NO_CLASS else LEFT_TO_PYTHON


@borrowing
def _unicode(data: IntArray, start: int, end: int, first: bool, cutter: Cutter) -> int:
    """Find the words: several spaces are one, a single space belongs to the run behind it.

    A line's first unit has one "▁" more.
    """
    p, n_words, n_spaces = start, 0, int(first)
    while p < end and data[p] == 32:
        n_spaces, p = n_spaces + 1, p + 1
    if n_spaces > 1 or p == end:
        n_words, start = _add(start, p, 0, cutter), p
    while p < end:
        p = _run(data, p, end, cutter)
        if p < 0:
            return LEFT_TO_PYTHON
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
    """Find the words of GPT-2's pattern, and the unit's shape.

    Again and again, these are words: white space without its last character; that character, unless it is a space; and
    a contraction, or a run of one class together with the space in front of it. White space beyond ASCII that ends the
    unit could go on in the next unit, so the unit is open then.
    """
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
            return shape, LEFT_TO_PYTHON
        n_words, start = _add(start, p, n_words, cutter), p
    return shape, n_words


@borrowing
def cut_unit(data: IntArray, start: int, end: int, first: bool, cutter: Cutter) -> tuple[int, int]:
    """Note where the words of a unit are.

    first: whether the unit starts its line, if that is marked; its first word has a "▁" more then
    Returns the unit's shape and how many words it has, or LEFT_TO_PYTHON.
    The shape is APART if each word is cut the same when it stands alone, TOGETHER if not, OPEN if the next unit decides
    how the last word ends.
    """
    if cutter.cut == NEVER or (end - start > LONGEST and cutter.cut != NUMBER):
        return TOGETHER, LEFT_TO_PYTHON
    if cutter.cut <= WORD:
        return TOGETHER, _add(start, end, 0, cutter)
    if cutter.cut == SPLIT:
        return APART, _split(data, start, end, cutter)
    if cutter.cut == METASPACE:
        return TOGETHER, _metaspace(data, start, end, first, cutter)
    if cutter.cut == UNICODE:
        return APART, _unicode(data, start, end, first, cutter)
    return _gpt2(data, start, end, cutter)
