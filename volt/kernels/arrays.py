"""What the compiled loops pass to each other: types of arrays, words as arrays, and arrays that grow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.kernels.compiling import borrowing, compiled

FlagArray = NDArray[Any]  # of uint8
IntArray = NDArray[Any]  # of int32; the names tell people what numba finds out for itself
LongArray = NDArray[Any]  # of int64


class Words(NamedTuple):
    """The distinct words.

    symbols: (n_symbols,) int32, the atoms, word after word
    ends: (n_words,) int64, where each word's symbols end
    counts: (n_words,) int64, > 0
    """

    symbols: IntArray
    ends: LongArray
    counts: LongArray


@borrowing
def copy_into(target: LongArray, at: int, source: LongArray, start: int, end: int) -> None:
    """target[at:] = source[start:end], as a loop: numba takes ten times as long to compile assignments of slices."""
    for i in range(start, end):
        target[at + i - start] = source[i]


@compiled
def grown(array: LongArray, length: int) -> LongArray:
    """A longer copy of an array of any type, whose new part is zero."""
    longer = np.zeros(length, array.dtype)
    copy_into(longer, 0, array, 0, len(array))
    return longer
