"""Measure, search and change values of text: stretches of `data`, with `starts` and `sizes` in bytes.

A missing value has the size -1. White space is as in `str.split()`.
"""

from typing import Any

import numpy as np

from volt.kernels.arrays import ByteArray, FlagArray, IntArray, LongArray, ShortArray, TextArray
from volt.kernels.intrinsics import BLOCK as BLOCK
from volt.kernels.intrinsics import load64, ones, store64, trailing_zeros, within
from volt.kernels.jit import inlined, releasing

_U0, _U1 = np.uint64(0), np.uint64(1)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@inlined
def code_at(data: ByteArray, place: int, end: int) -> tuple[int, int]:
    """Return a character's code point and its size in bytes; (-1, 1) if it has four bytes or is incomplete."""
    first = int(data[place])
    if first < 0x80:
        return first, 1
    if 0xC2 <= first < 0xE0 and place + 1 < end:
        return (first & 0x1F) << 6 | (int(data[place + 1]) & 0x3F), 2
    if 0xE0 <= first < 0xF0 and place + 2 < end:
        high = (first & 0x0F) << 6 | (int(data[place + 1]) & 0x3F)
        return high << 6 | (int(data[place + 2]) & 0x3F), 3
    return -1, 1


@inlined
def _put_code(out: IntArray, at: int, code: int, width: int) -> None:
    if width == 1:
        out[at] = code
    elif width == 2:
        out[at] = 0xC0 | code >> 6
        out[at + 1] = 0x80 | code & 0x3F
    else:
        out[at] = 0xE0 | code >> 12
        out[at + 1] = 0x80 | code >> 6 & 0x3F
        out[at + 2] = 0x80 | code & 0x3F


@inlined
def _flipped(word: Any, letter: Any) -> Any:
    """Change, in eight bytes of ASCII, the case of the 26 letters from `letter` on."""
    ones = np.uint64(0x0101010101010101)
    from_letter = word + (np.uint64(0x80) - letter) * ones
    after = word + (np.uint64(0x80 - 26) - letter) * ones
    return word ^ ((from_letter ^ after) & _HIGH_BITS) >> np.uint64(2)


@releasing
def change_case(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    letter: int,
    inner: ShortArray,
    first: ShortArray,
    opens: ByteArray,
    out: ByteArray,
    at: LongArray,
    is_hard: FlagArray,
) -> None:
    """Write each value in another case.

    letter: the code of "A" or "a", from which 26 ASCII letters change case; 0 for none
    inner: (65,536,) code point → new code point of as many bytes, or 0 if the caller must change the value
    first: like `inner`, for a character at the start, or after one of `opens`
    is_hard: set for the values that the caller must change
    """
    for i in range(len(starts)):
        place = starts[i]
        end = place + max(sizes[i], 0)
        to = at[i]
        is_first = 1
        while place < end:
            if letter > 0 and place + 8 <= end:
                word = load64(data, place)
                if word & _HIGH_BITS == _U0:
                    store64(out, to, _flipped(word, np.uint64(letter)))
                    place += 8
                    to += 8
                    continue
            code, width = code_at(data, place, end)
            if code < 0:
                break
            new = int(first[code]) if is_first else int(inner[code])
            if new == 0:
                break
            _put_code(out, to, new, width)
            place += width
            to += width
            is_first = int(opens[code])
        is_hard[i] = place < end


@inlined
def _lowest(n: int) -> Any:
    return _ALL >> np.uint64(max(BLOCK - n, 0))


@inlined
def _wide_space(data: ByteArray, place: Any, end: int) -> int:
    """Return the size of the white character at a place, 0 if it is not white, or ASCII."""
    if place + 1 >= end:
        return 0
    first = data[place]
    second = data[place + 1]
    if first == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if place + 2 >= end:
        return 0
    third = data[place + 2]
    if first == 0xE1:
        is_white = second == 0x9A and third == 0x80
    elif first == 0xE3:
        is_white = second == 0x80 and third == 0x80
    elif second == 0x80:
        is_white = third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF
    else:
        is_white = second == 0x81 and third == 0x9F
    return 3 if is_white else 0


@inlined
def _white(data: ByteArray, place: int, end: int, spilled: Any) -> tuple[Any, Any]:
    """Return which of 64 bytes are white or after `end`, and which white bytes spill into the next 64."""
    at = min(place, len(data) - BLOCK)
    shift = np.uint64(place - at)
    inside = _lowest(end - place)
    white = ((within(data, at, 9, 4) | within(data, at, 28, 4)) >> shift) | spilled
    wide = ((within(data, at, 0xC2, 0) | within(data, at, 0xE1, 2)) >> shift) & inside
    spilled = _U0
    while wide != _U0:
        bit = trailing_zeros(wide)
        wide &= wide - _U1
        size = _wide_space(data, place + np.int64(bit), end)
        if size > 0:
            white |= _lowest(size) << bit
            if np.int64(bit) > BLOCK - size:
                spilled = _lowest(size) >> (np.uint64(BLOCK) - bit)
    return white | ~inside, spilled


@releasing
def count_words(data: TextArray, starts: LongArray, sizes: LongArray, out: LongArray) -> None:
    r"""Count the words of each value. data: at least 64 bytes"""
    for i in range(len(starts)):
        place = starts[i]
        end = place + sizes[i]
        total = 0
        before = _U1  # a value starts as if after white space
        spilled = _U0
        while place < end:
            white, spilled = _white(data, place, end, spilled)
            total += ones(~white & ((white << _U1) | before))
            before = white >> np.uint64(BLOCK - 1)
            place += BLOCK
        out[i] = total


@releasing
def find_blank(data: TextArray, starts: LongArray, sizes: LongArray, out: FlagArray) -> None:
    for i in range(len(starts)):
        place = starts[i]
        end = place + sizes[i]
        spilled = _U0
        out[i] = True
        while place < end:
            white, spilled = _white(data, place, end, spilled)
            if white != _ALL:
                out[i] = False
                break
            place += BLOCK


@releasing
def count_within(
    data: TextArray, starts: LongArray, sizes: LongArray, first: int, span: int, out: LongArray
) -> None:
    """Count the bytes of each value that are from `first` to `first + span`."""
    for i in range(len(starts)):
        place = starts[i]
        end = place + sizes[i]
        total = 0
        while place < end:
            at = min(place, len(data) - BLOCK)
            bits = within(data, at, first, span) >> np.uint64(place - at)
            total += ones(bits & _lowest(end - place))
            place += BLOCK
        out[i] = total


@releasing
def find_any(
    data: TextArray, starts: LongArray, sizes: LongArray, wanted: FlagArray, out: FlagArray
) -> None:
    for i in range(len(starts)):
        out[i] = False
        for place in range(starts[i], starts[i] + sizes[i]):
            if wanted[data[place]]:
                out[i] = True
                break
