"""Values of text cut into tokens, and written from tokens: the compiled loops of `volt.stream.transforms.tokens`.

A token is a run of bytes other than the space. Sixty-four bytes give one bit each in a mask: whether the byte is a
space. A token starts where a bit is not set behind one that is, and ends where it is the other way round.

>>> data, out = np.frombuffer(b" to  be", np.uint8), np.empty(1, np.int64)
>>> count_tokens(data, np.array([0]), np.array([7]), out)
>>> starts, sizes = np.empty(out[0], np.int64), np.empty(out[0], np.int64)
>>> cut_tokens(data, np.array([0]), np.array([7]), starts, sizes)
>>> starts.tolist(), sizes.tolist()
([1, 5], [2, 2])
"""

from typing import Any

import numpy as np

from volt.kernels.arrays import IntArray, LongArray
from volt.kernels.column_measures import ones
from volt.kernels.columns import copy_bytes
from volt.kernels.compiling import inlined, releasing
from volt.kernels.memory import load64, places_of, prefetch, store64, trailing_zeros

SPACE = 0x20
SPARE = 8  # bytes behind what is written that may be overwritten
_BLOCK = 64  # bytes that are looked at at a time
_AHEAD = 8  # values that are brought into the cache ahead of their turn


@inlined
def spaces(data: IntArray, place: int, end: int) -> Any:
    """Which of 64 bytes are spaces, or stand behind the end: bit i stands for byte place + i."""
    found, n = ~np.uint64(0), end - place
    if place + _BLOCK <= len(data):
        found = places_of(data, place, SPACE)
        if n < _BLOCK:
            found |= ~np.uint64(0) << np.uint64(n)
        return found
    for k in range(n):
        if data[place + k] != SPACE:
            found ^= np.uint64(1) << np.uint64(k)
    return found


@releasing
def count_tokens(data: IntArray, starts: LongArray, sizes: LongArray, out: LongArray) -> None:
    """How many tokens each value has; a missing one has none.

    data: uint8;  out: (n,) int64, is written
    """
    for i in range(len(starts)):
        if i + _AHEAD < len(starts):
            prefetch(data, starts[i + _AHEAD])
        place, end, total, before = starts[i], starts[i] + sizes[i], 0, np.uint64(1)
        while place < end:
            found = spaces(data, place, end)
            total += ones(~found & ((found << np.uint64(1)) | before))
            before = found >> np.uint64(_BLOCK - 1)
            place += _BLOCK
        out[i] = total


@releasing
def cut_tokens(
    data: IntArray, starts: LongArray, sizes: LongArray, token_starts: LongArray, token_sizes: LongArray
) -> None:
    """Where the tokens of all values start, one value after the other, and how many bytes each has.

    data: uint8;  token_starts, token_sizes: (n_tokens,) int64, are written
    """
    at = 0
    for i in range(len(starts)):
        if i + _AHEAD < len(starts):
            prefetch(data, starts[i + _AHEAD])
        place, end, before, is_open = starts[i], starts[i] + sizes[i], np.uint64(1), False
        while place < end:
            found = spaces(data, place, end)
            edges = found ^ ((found << np.uint64(1)) | before)
            before = found >> np.uint64(_BLOCK - 1)
            while edges != np.uint64(0):
                edge = place + np.int64(trailing_zeros(edges))
                edges &= edges - np.uint64(1)
                if is_open:
                    token_sizes[at] = edge - token_starts[at]
                    at += 1
                else:
                    token_starts[at] = edge
                is_open = not is_open
            place += _BLOCK
        if is_open:
            token_sizes[at] = end - token_starts[at]
            at += 1


@inlined
def copy_over(data: IntArray, start: int, out: IntArray, at: int, size: int) -> None:
    """out[at:at + size] = data[start:start + size]; up to seven bytes behind that may be overwritten."""
    if start + size + 8 > len(data):
        copy_bytes(data, start, out, at, size)
        return
    done = 0
    while done < size:
        store64(out, at + done, load64(data, start + done))
        done += 8


@releasing
def write_tokens(
    data: IntArray, starts: LongArray, sizes: LongArray, others: IntArray, other_starts: LongArray,
    other_sizes: LongArray, chosen: LongArray, ends: LongArray, out: IntArray, out_ends: LongArray,
) -> None:  # fmt: skip
    """Values made of chosen tokens, with a space between two, one value after the other.

    data, starts, sizes: tokens;  others, other_starts, other_sizes: further tokens, in another buffer
    chosen: tokens by their number; −1 is the first of the others, −2 the second, and so on
    ends: (n,) int64, where each value ends in `chosen`
    out: uint8, is written, `SPARE` bytes longer than the values;  out_ends: (n,) int64, where each value ends in it
    """
    at = place = 0
    for i in range(len(ends)):
        first = place
        while place < ends[i]:
            if place > first:
                out[at] = SPACE
                at += 1
            token = chosen[place]
            if token >= 0:
                copy_over(data, starts[token], out, at, sizes[token])
                at += sizes[token]
            else:
                copy_over(others, other_starts[-1 - token], out, at, other_sizes[-1 - token])
                at += other_sizes[-1 - token]
            place += 1
        out_ends[i] = at
