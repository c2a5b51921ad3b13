"""Measure, search and change values of text: stretches of `data`, with `starts` and `sizes` in bytes.

A missing value has the size -1. White space is as in `str.split()`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from volt.kernels.arrays import ByteArray, FlagArray, IntArray, LongArray, ShortArray, TextArray
from volt.kernels.columns import copy_bytes
from volt.kernels.intrinsics import BLOCK as BLOCK
from volt.kernels.intrinsics import load64, ones, store64, trailing_zeros, within
from volt.kernels.jit import inlined, releasing

NO_CASE, CASED, UNCLEAR = 0, 1, 2  # results of `find_case`


@releasing
def surround(
    data: TextArray,
    starts: LongArray,
    sizes: LongArray,
    before: TextArray,
    after: TextArray,
    out: ByteArray,
    at: LongArray,
) -> None:
    """Write each value with the same bytes before and after it; a missing value stays missing."""
    for i in range(len(starts)):
        if sizes[i] >= 0:
            copy_bytes(before, 0, out, at[i], len(before))
            copy_bytes(data, starts[i], out, at[i] + len(before), sizes[i])
            copy_bytes(after, 0, out, at[i] + len(before) + sizes[i], len(after))


@inlined
def code_at(data: ByteArray, place: int, end: int) -> tuple[int, int]:
    """Return a character's code point and its size in bytes; (-1, 1) if it has four bytes or is incomplete."""
    byte = int(data[place])
    if byte < 0x80:
        return byte, 1
    if 0xC2 <= byte < 0xE0 and place + 1 < end:
        return (byte & 0x1F) << 6 | (int(data[place + 1]) & 0x3F), 2
    if 0xE0 <= byte < 0xF0 and place + 2 < end:
        return (byte & 0x0F) << 12 | (int(data[place + 1]) & 0x3F) << 6 | (
            int(data[place + 2]) & 0x3F
        ), 3
    return -1, 1


@inlined
def put_code(out: IntArray, at: int, code: int, width: int) -> None:
    if width == 1:
        out[at] = code
    elif width == 2:
        out[at], out[at + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
    else:
        out[at], out[at + 1], out[at + 2] = (
            0xE0 | code >> 12,
            0x80 | code >> 6 & 0x3F,
            0x80 | code & 0x3F,
        )


@inlined
def flipped(word: Any, letter: Any) -> Any:
    """Change, in eight bytes of ASCII, the case of the 26 letters from `letter` on."""
    ones = np.uint64(0x0101010101010101)
    from_letter = word + (np.uint64(0x80) - letter) * ones
    after = word + (np.uint64(0x80 - 26) - letter) * ones
    return word ^ ((from_letter ^ after) & np.uint64(0x8080808080808080)) >> np.uint64(2)


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
def find_case(
    data: TextArray, starts: LongArray, sizes: LongArray, cased: ByteArray, out: ByteArray
) -> None:
    """Find whether each value contains a character that has case: NO_CASE, CASED or UNCLEAR.

    cased: (65,536,) code point → NO_CASE, CASED, or UNCLEAR if the character's neighbours decide
    """
    for i in range(len(starts)):
        place, end, known = starts[i], starts[i] + max(sizes[i], 0), NO_CASE
        while place < end:
            code, width = code_at(data, place, end)
            case = UNCLEAR if code < 0 else int(cased[code])
            known, place = max(known, case), place + width
            if case == CASED and code < 0x80:
                known, place = CASED, end
        out[i] = known


@inlined
def _lowest(n: int) -> Any:
    return np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(max(BLOCK - n, 0))


@inlined
def _wide_space(data: ByteArray, place: Any, end: int) -> int:
    first = data[place]
    if place + 1 >= end:
        return 0
    second = data[place + 1]
    if first == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if place + 2 >= end:
        return 0
    third = data[place + 2]
    if first == 0xE1:
        result = second == 0x9A and third == 0x80
    elif first == 0xE3:
        result = second == 0x80 and third == 0x80
    elif second == 0x80:
        result = third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF
    else:
        result = second == 0x81 and third == 0x9F
    return 3 if result else 0


@inlined
def _white(data: ByteArray, place: int, end: int, spilled: Any) -> tuple[Any, Any]:
    """Return which of 64 bytes are white or after `end`, and which white bytes spill into the next 64."""
    last = len(data) - BLOCK
    shift = np.uint64(max(place - last, 0))
    at = min(place, last)
    white = ((within(data, at, 9, 4) | within(data, at, 28, 4)) >> shift) | spilled
    wide = (within(data, at, 0xC2, 0) | within(data, at, 0xE1, 2)) >> shift
    spilled = np.uint64(0)
    inside = _lowest(end - place)
    wide &= inside
    while wide != np.uint64(0):
        bit = trailing_zeros(wide)
        wide &= wide - np.uint64(1)
        size = _wide_space(data, place + np.int64(bit), end)
        if size > 0:
            bytes_ = _lowest(size)
            white |= bytes_ << bit
            if np.int64(bit) > BLOCK - size:
                spilled = bytes_ >> (np.uint64(BLOCK) - bit)
    return white | ~inside, spilled


@releasing
def count_words(data: TextArray, starts: LongArray, sizes: LongArray, out: LongArray) -> None:
    r"""Count the words of each value. data: at least 64 bytes"""
    for i in range(len(starts)):
        place, end, total = starts[i], starts[i] + sizes[i], 0
        before, spilled = np.uint64(1), np.uint64(0)  # a value starts as if after white space
        while place < end:
            white, spilled = _white(data, place, end, spilled)
            total += ones(~white & ((white << np.uint64(1)) | before))
            before = white >> np.uint64(63)
            place += BLOCK
        out[i] = total


@releasing
def find_blank(data: TextArray, starts: LongArray, sizes: LongArray, out: FlagArray) -> None:
    for i in range(len(starts)):
        place, end, spilled = starts[i], starts[i] + sizes[i], np.uint64(0)
        is_blank = True
        while is_blank and place < end:
            white, spilled = _white(data, place, end, spilled)
            is_blank = ~white == np.uint64(0)
            place += BLOCK
        out[i] = is_blank


@releasing
def count_within(
    data: TextArray, starts: LongArray, sizes: LongArray, first: int, span: int, out: LongArray
) -> None:
    """Count the bytes of each value that are from `first` to `first + span`."""
    last = len(data) - BLOCK
    for i in range(len(starts)):
        place, end, total = starts[i], starts[i] + sizes[i], 0
        while place < end:
            result = within(data, min(place, last), first, span) >> np.uint64(max(place - last, 0))
            total += ones(result & _lowest(end - place))
            place += BLOCK
        out[i] = total


@releasing
def find_any(
    data: TextArray, starts: LongArray, sizes: LongArray, wanted: FlagArray, out: FlagArray
) -> None:
    for i in range(len(starts)):
        place, end = starts[i], starts[i] + sizes[i]
        while place < end and not wanted[data[place]]:
            place += 1
        out[i] = place < end
