"""Measure, search and change the values of many lines, as Python's string methods do.

Value i is data[starts[i]:starts[i] + sizes[i]], UTF-8; a missing value has the size −1. `data` has
at least 64 bytes. Each loop writes one result for each value to `out`. White space is as in
`str.split()`.

Most loops examine 64 bytes together: a *mask* is a 64-bit number whose bit i says whether byte p +
i has a property. For
the value "a  bc" at p, the bits of white space are 0, 1, 1, 0, 0, then 1 after the value's end. A word starts where an unset
bit follows a set one, so the value has two words.
"""

from typing import Any

import numpy as np

from volt.kernels.arrays import ByteArray, FlagArray, IntArray, LongArray, ShortArray, TextArray
from volt.kernels.intrinsics import BLOCK as BLOCK
from volt.kernels.intrinsics import load64, ones, store64, trailing_zeros, within
from volt.kernels.jit import inlined, releasing

_N_LETTERS = 26
_U0, _U1 = np.uint64(0), np.uint64(1)
_ONE_IN_EACH_BYTE = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)  # of each byte
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


# Case


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
    out_starts: LongArray,
    is_hard: FlagArray,
) -> None:
    """Write each value in another case, from out_starts[i] on.

    letter: the code of "A" or "a", from which 26 ASCII letters change case; 0 for none
    inner: (65,536,), code point → new code point of as many bytes, or 0 if the caller must change
        the value
    first: like `inner`, for a character at the start of a value, or after a character with 1 in
        `opens`
    opens: (65,536,), code point → 1 or 0
    is_hard: set for the values that the caller must change
    """
    for i in range(len(starts)):
        p = starts[i]
        end = p + max(sizes[i], 0)
        to = out_starts[i]
        is_first = 1
        while p < end:
            if letter > 0 and p + 8 <= end:
                word = load64(data, p)
                if word & _HIGH_BITS == _U0:
                    store64(out, to, _flip_case(word, np.uint64(letter)))
                    p += 8
                    to += 8
                    continue
            code, width = code_at(data, p, end)
            if code < 0:
                break
            new = int(first[code]) if is_first else int(inner[code])
            if new == 0:
                break
            _write_code(new, width, out, to)
            p += width
            to += width
            is_first = int(opens[code])
        is_hard[i] = p < end


@inlined
def _flip_case(word: Any, letter: Any) -> Any:
    """Change the case of the 26 letters from `letter` on, in eight bytes of ASCII.

    The additions set the high bit of each byte that is at least `letter`, or after the last letter.
    The two bits differ for a letter. Shifted to bit 5, 0x20, the difference flips the case.
    """
    is_from_letter = word + (np.uint64(0x80) - letter) * _ONE_IN_EACH_BYTE
    is_after = word + (np.uint64(0x80 - _N_LETTERS) - letter) * _ONE_IN_EACH_BYTE
    return word ^ ((is_from_letter ^ is_after) & _HIGH_BITS) >> np.uint64(2)


@inlined
def code_at(data: ByteArray, p: int, end: int) -> tuple[int, int]:
    """Return a character's code point and its size in bytes; (−1, 1) if it has four bytes or is
    incomplete."""
    first = int(data[p])
    if first < 0x80:
        return first, 1
    if 0xC2 <= first < 0xE0 and p + 1 < end:
        return (first & 0x1F) << 6 | (int(data[p + 1]) & 0x3F), 2
    if 0xE0 <= first < 0xF0 and p + 2 < end:
        high = (first & 0x0F) << 6 | (int(data[p + 1]) & 0x3F)
        return high << 6 | (int(data[p + 2]) & 0x3F), 3
    return -1, 1


@inlined
def _write_code(code: int, width: int, out: IntArray, to: int) -> None:
    if width == 1:
        out[to] = code
    elif width == 2:
        out[to] = 0xC0 | code >> 6
        out[to + 1] = 0x80 | code & 0x3F
    else:
        out[to] = 0xE0 | code >> 12
        out[to + 1] = 0x80 | code >> 6 & 0x3F
        out[to + 2] = 0x80 | code & 0x3F


# Words and white space


@releasing
def count_words(data: TextArray, starts: LongArray, sizes: LongArray, out: LongArray) -> None:
    for i in range(len(starts)):
        p = starts[i]
        end = p + sizes[i]
        n_words = 0
        white_before = _U1  # a value starts as if after white space
        overhang = _U0
        while p < end:
            white, overhang = _find_white(data, p, end, overhang)
            n_words += ones(~white & ((white << _U1) | white_before))
            white_before = white >> np.uint64(BLOCK - 1)
            p += BLOCK
        out[i] = n_words


@releasing
def find_blank(data: TextArray, starts: LongArray, sizes: LongArray, out: FlagArray) -> None:
    """Find the values that contain only white space."""
    for i in range(len(starts)):
        p = starts[i]
        end = p + sizes[i]
        overhang = _U0
        out[i] = True
        while p < end:
            white, overhang = _find_white(data, p, end, overhang)
            if white != _ALL:
                out[i] = False
                break
            p += BLOCK


@inlined
def _find_white(data: ByteArray, p: int, end: int, overhang: Any) -> tuple[Any, Any]:
    """Return the mask of the 64 bytes at p that are white space, or lie after the value's end.

    overhang: the mask of the first bytes that belong to a white character of the block before
    Also returns the overhang of this block.
    """
    load_p = min(p, len(data) - BLOCK)
    shift = np.uint64(p - load_p)
    inside = _low_bits(end - p)
    is_ascii_white = within(data, load_p, 9, 4) | within(data, load_p, 28, 4)
    starts_wide = within(data, load_p, 0xC2, 0) | within(data, load_p, 0xE1, 2)
    white = (is_ascii_white >> shift) | overhang
    candidates = (starts_wide >> shift) & inside
    overhang = _U0
    while candidates != _U0:
        bit = trailing_zeros(candidates)
        candidates &= candidates - _U1
        size = _wide_space_size(data, p + np.int64(bit), end)
        if size > 0:
            white |= _low_bits(size) << bit
            if np.int64(bit) > BLOCK - size:
                overhang = _low_bits(size) >> (np.uint64(BLOCK) - bit)
    return white | ~inside, overhang


@inlined
def _low_bits(n: int) -> Any:
    """Return a mask of the first n bytes of a block, or of all 64."""
    return _ALL >> np.uint64(max(BLOCK - n, 0))


@inlined
def _wide_space_size(data: ByteArray, p: Any, end: int) -> int:
    """Return the bytes of the white character beyond ASCII that starts at p, or 0 for any other
    character."""
    if p + 1 >= end:
        return 0
    first = data[p]
    second = data[p + 1]
    if first == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if p + 2 >= end:
        return 0
    third = data[p + 2]
    if first == 0xE1:
        is_white = second == 0x9A and third == 0x80
    elif first == 0xE3:
        is_white = second == 0x80 and third == 0x80
    elif second == 0x80:
        is_white = third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF
    else:
        is_white = second == 0x81 and third == 0x9F
    return 3 if is_white else 0


# Bytes


@releasing
def count_within(
    data: TextArray, starts: LongArray, sizes: LongArray, first: int, span: int, out: LongArray
) -> None:
    """Count the bytes of each value that are from `first` to `first + span`."""
    for i in range(len(starts)):
        p = starts[i]
        end = p + sizes[i]
        n_bytes = 0
        while p < end:
            load_p = min(p, len(data) - BLOCK)
            mask = within(data, load_p, first, span) >> np.uint64(p - load_p)
            n_bytes += ones(mask & _low_bits(end - p))
            p += BLOCK
        out[i] = n_bytes


@releasing
def find_any(
    data: TextArray, starts: LongArray, sizes: LongArray, wanted: FlagArray, out: FlagArray
) -> None:
    """Find the values that contain a wanted byte. wanted: (256,), for each byte"""
    for i in range(len(starts)):
        out[i] = False
        for p in range(starts[i], starts[i] + sizes[i]):
            if wanted[data[p]]:
                out[i] = True
                break
