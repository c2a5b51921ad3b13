"""The strings of symbols, as arrays of code points, with which `volt.kernels.learn` breaks ties
between pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from volt.kernels.arrays import IntArray, LongArray, copy_into
from volt.kernels.intrinsics import free, new_array
from volt.kernels.jit import borrowing


class TokenStrings(NamedTuple):
    """The string of symbol s is chars[starts[s]:starts[s + 1]]."""

    chars: IntArray  # (n,), code points
    starts: LongArray  # (n_symbols + 2,)


def pack_strings(tokens: Sequence[str], room: int) -> TokenStrings:
    starts = np.zeros(room + 1, np.int64)
    starts[1 : len(tokens) + 1] = np.cumsum(list(map(len, tokens)))
    return TokenStrings(code_points("".join(tokens)), starts)


def code_points(text: str) -> IntArray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int32)


@borrowing
def compare_strings(strings: TokenStrings, a: int, b: int) -> int:
    """Return −1, 0 or 1 as symbol a's string sorts before, with, or after symbol b's."""
    i = strings.starts[a]
    j = strings.starts[b]
    a_end = strings.starts[a + 1]
    b_end = strings.starts[b + 1]
    while i < a_end and j < b_end:
        if strings.chars[i] != strings.chars[j]:
            return 1 if strings.chars[i] > strings.chars[j] else -1
        i += 1
        j += 1
    return int(i < a_end) - int(j < b_end)


@borrowing
def append_string(strings: TokenStrings, symbol: int, left: int, right: int) -> TokenStrings:
    """Make a symbol's string from two others. `chars` is a `new_array`."""
    starts = strings.starts
    chars = strings.chars
    start = starts[symbol]
    middle = start + starts[left + 1] - starts[left]
    end = middle + starts[right + 1] - starts[right]
    if end > len(chars):
        chars = new_array(chars, (2 * end,))
        copy_into(chars, 0, strings.chars, 0, start)
        free(strings.chars)
    copy_into(chars, start, chars, starts[left], starts[left + 1])
    copy_into(chars, middle, chars, starts[right], starts[right + 1])
    starts[symbol + 1] = end
    return TokenStrings(chars, starts)


@borrowing
def ends_with(strings: TokenStrings, symbol: int, ending: IntArray) -> bool:
    offset = strings.starts[symbol + 1] - len(ending)
    if len(ending) == 0 or offset < strings.starts[symbol]:
        return False
    for i in range(len(ending)):
        if strings.chars[offset + i] != ending[i]:
            return False
    return True


@borrowing
def copy_strings(strings: TokenStrings) -> TokenStrings:
    """Return strings in memory that `append_string` may free."""
    chars = new_array(strings.chars, (len(strings.chars),))
    copy_into(chars, 0, strings.chars, 0, len(chars))
    return TokenStrings(chars, strings.starts)
