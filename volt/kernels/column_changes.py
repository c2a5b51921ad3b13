"""Values of many lines, changed: with text before and behind, and in other case.

The compiled loops behind `tag`, `append` and the transforms of case. What is read and written are the values of a
`Column`: bytes of UTF-8, and where each value starts. No value that is changed here by a table changes its size, so the
caller knows beforehand where each goes; those that would are left to the caller.

>>> data, out = np.frombuffer(b"Abc", np.uint8), np.empty(5, np.uint8)
>>> marks = np.frombuffer(b"<>", np.uint8)
>>> surround(data, np.array([0]), np.array([3]), marks[:1], marks[1:], out, np.array([0]))
>>> bytes(out)
b'<Abc>'
"""

from typing import Any

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.columns import copy_bytes
from volt.kernels.compiling import inlined, releasing
from volt.kernels.memory import load64, store64

NO_CASE, CASED, UNTOLD = 0, 1, 2  # what `find_case` finds, of a character and of a value


@releasing
def surround(
    data: IntArray, starts: LongArray, sizes: LongArray, before: IntArray, after: IntArray, out: IntArray, at: LongArray
) -> None:
    """Each value with the same bytes before it, and the same behind it; nothing for one that is missing.

    out: uint8, is written;  at: (n,) int64, where each new value starts in it
    """
    for i in range(len(starts)):
        if sizes[i] >= 0:
            copy_bytes(before, 0, out, at[i], len(before))
            copy_bytes(data, starts[i], out, at[i] + len(before), sizes[i])
            copy_bytes(after, 0, out, at[i] + len(before) + sizes[i], len(after))


@inlined
def code_at(data: IntArray, place: int, end: int) -> tuple[int, int]:
    """The code point of the character at a place, and its bytes; −1 and 1 where it has four bytes, or is not whole."""
    byte = int(data[place])
    if byte < 0x80:
        return byte, 1
    if 0xC2 <= byte < 0xE0 and place + 1 < end:
        return (byte & 0x1F) << 6 | (int(data[place + 1]) & 0x3F), 2
    if 0xE0 <= byte < 0xF0 and place + 2 < end:
        return (byte & 0x0F) << 12 | (int(data[place + 1]) & 0x3F) << 6 | (int(data[place + 2]) & 0x3F), 3
    return -1, 1


@inlined
def put_code(out: IntArray, at: int, code: int, width: int) -> None:
    """Write a character of so many bytes, three at most."""
    if width == 1:
        out[at] = code
    elif width == 2:
        out[at], out[at + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
    else:
        out[at], out[at + 1], out[at + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F


@inlined
def flipped(word: Any, letter: Any) -> Any:
    """Eight bytes of ASCII whose letters, from `letter` to the 25th behind it, become those of the other case."""
    ones = np.uint64(0x0101010101010101)
    from_letter = word + (np.uint64(0x80) - letter) * ones
    behind = word + (np.uint64(0x80 - 26) - letter) * ones
    return word ^ ((from_letter ^ behind) & np.uint64(0x8080808080808080)) >> np.uint64(2)


@releasing
def change_case(
    data: IntArray, starts: LongArray, sizes: LongArray, letter: int, inner: IntArray, first: IntArray,
    opens: IntArray, out: IntArray, at: LongArray, is_hard: IntArray,
) -> None:  # fmt: skip
    """Each value in another case, character by character, as tables say.

    letter: eight ASCII bytes at a time, those from this letter on flip their case; 0: all goes by the tables
    inner: (65,536,) uint16 code point → its new one, of as many bytes; 0 where no table can say
    first: the same for a character at the start, or behind one of those in `opens`, (65,536,) uint8
    out: uint8, is written;  at: (n,) int64, where each new value starts in it
    is_hard: (n,) bool, is set for the values with a character that no table tells; the caller changes these
    """
    high = np.uint64(0x8080808080808080)
    for i in range(len(starts)):
        place, end, to, is_first = starts[i], starts[i] + max(sizes[i], 0), at[i], 1
        while place < end:
            if letter > 0 and place + 8 <= end:
                word = load64(data, place)
                if word & high == np.uint64(0):
                    store64(out, to, flipped(word, np.uint64(letter)))
                    place, to = place + 8, to + 8
                    continue
            code, width = code_at(data, place, end)
            new = 0 if code < 0 else int(first[code]) if is_first else int(inner[code])
            if new == 0:
                break
            put_code(out, to, new, width)
            place, to, is_first = place + width, to + width, int(opens[code])
        is_hard[i] = place < end


@releasing
def find_case(data: IntArray, starts: LongArray, sizes: LongArray, cased: IntArray, found: IntArray) -> None:
    """Whether each value holds a character that has case.

    cased: (65,536,) uint8 code point → NO_CASE, CASED, or UNTOLD where the characters beside it matter
    found: (n,) uint8, is set to the same of each value; one with an ASCII letter has case, whatever stands beside it
    """
    for i in range(len(starts)):
        place, end, known = starts[i], starts[i] + max(sizes[i], 0), NO_CASE
        while place < end:
            code, width = code_at(data, place, end)
            told = UNTOLD if code < 0 else int(cased[code])
            known, place = max(known, told), place + width
            if told == CASED and code < 0x80:
                known, place = CASED, end
        found[i] = known
