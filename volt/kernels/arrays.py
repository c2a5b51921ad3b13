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


# Loops make arrays here, and Python makes those that do not grow: numba compiles np.zeros in three parts for each type,
# and anew for each loop that holds it.


@compiled
def ints(n: int) -> IntArray:
    """Zeros, (n,) int32."""
    new = np.empty(n, np.int32)
    for i in range(n):
        new[i] = 0
    return new


@compiled
def longs(n: int) -> LongArray:
    """Zeros, (n,) int64."""
    new = np.empty(n, np.int64)
    for i in range(n):
        new[i] = 0
    return new


@compiled
def int_table(n_rows: int, n_columns: int) -> IntArray:
    """Room, (n_rows, n_columns) int32."""
    return np.empty((n_rows, n_columns), np.int32)


@compiled
def long_table(n_rows: int, n_columns: int) -> LongArray:
    """Zeros, (n_rows, n_columns) int64."""
    new = np.empty((n_rows, n_columns), np.int64)
    for row in range(n_rows):
        for column in range(n_columns):
            new[row, column] = 0
    return new


@compiled
def grown_ints(array: IntArray, length: int) -> IntArray:
    """A longer copy of an array, (length,) int32, whose new part is zero."""
    longer = ints(length)
    copy_into(longer, 0, array, 0, len(array))
    return longer


@compiled
def grown_longs(array: LongArray, length: int) -> LongArray:
    """The same for int64."""
    longer = longs(length)
    copy_into(longer, 0, array, 0, len(array))
    return longer
