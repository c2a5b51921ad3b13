"""Types of arrays, growing arrays, hash slots and token strings, for all loops.

Hash tables are open-addressing tables of 64-bit keys; a slot holds the key's number + 1, or 0.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from volt.kernels.jit import borrowing, compiled, inlined


@inlined
def pair_key(left: int, right: int) -> int:
    return int((np.int64(left) << 32) | np.int64(right))


@inlined
def slot_of(key: int, mask: int) -> int:
    """Return the slot where the search for a key starts (Fibonacci hashing)."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return int(np.int64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(mask)))


@inlined
def mixed(word: Any) -> Any:
    """Mix all bits of a number by the last step of SplitMix64 (Steele et al. 2014)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@inlined
def fraction_of(word: Any) -> float:
    """Turn 64 random bits into a number in [0, 1)."""
    return float(word >> np.uint64(11)) * (1.0 / (1 << 53))


@compiled
def table_size(n_keys: int) -> int:
    n_slots = 8
    while n_slots < 2 * n_keys:
        n_slots *= 2
    return n_slots


# Array types. Loops called from Python are compiled for them (`volt.kernels.warmup`); elsewhere they only inform.
# TextArray and IdArray are read-only.
TextArray = Annotated[NDArray[Any], types.Array(types.uint8, 1, "C", readonly=True)]
IdArray = Annotated[NDArray[Any], types.Array(types.int32, 1, "C", readonly=True)]
FlagArray = Annotated[NDArray[Any], types.boolean[::1]]
ByteArray = Annotated[NDArray[Any], types.uint8[::1]]
ShortArray = Annotated[NDArray[Any], types.uint16[::1]]
IntArray = Annotated[NDArray[Any], types.int32[::1]]
LongArray = Annotated[NDArray[Any], types.int64[::1]]
KeyArray = Annotated[NDArray[Any], types.uint64[::1]]
FloatArray = Annotated[NDArray[Any], types.float64[::1]]
IntTable = Annotated[NDArray[Any], types.int32[:, ::1]]
LongTable = Annotated[NDArray[Any], types.int64[:, ::1]]
FloatTable = Annotated[NDArray[Any], types.float64[:, ::1]]
LongCube = Annotated[NDArray[Any], types.int64[:, :, ::1]]


class Words(NamedTuple):
    symbols: IntArray  # (n_symbols,), the atoms, word after word
    ends: LongArray  # (n_words,), where each word's symbols end
    counts: LongArray  # (n_words,), > 0


@borrowing
def copy_into(target: LongArray, at: int, source: LongArray, start: int, end: int) -> None:
    """Do target[at:] = source[start:end], which numba compiles ten times more slowly."""
    for i in range(start, end):
        target[at + i - start] = source[i]


# Loops allocate growing arrays with these functions, because numba compiles np.zeros anew for each loop that calls it.
# Python allocates all other arrays.


@compiled
def ints(n: int) -> IntArray:
    new = np.empty(n, np.int32)
    for i in range(n):
        new[i] = 0
    return new


@compiled
def longs(n: int) -> LongArray:
    new = np.empty(n, np.int64)
    for i in range(n):
        new[i] = 0
    return new


@compiled
def int_table(n_rows: int, n_columns: int) -> IntArray:
    return np.empty((n_rows, n_columns), np.int32)


@compiled
def long_table(n_rows: int, n_columns: int) -> LongArray:
    new = np.empty((n_rows, n_columns), np.int64)
    for row in range(n_rows):
        for column in range(n_columns):
            new[row, column] = 0
    return new


@compiled
def grown(array: LongArray, length: int) -> LongArray:
    longer = np.empty(length, array.dtype)
    copy_into(longer, 0, array, 0, len(array))
    return longer


class TokenStrings(NamedTuple):
    """The strings of tokens, which break ties between merges: token t is chars[starts[t]:starts[t + 1]]."""

    chars: IntArray  # (room,), code points
    starts: LongArray  # (room + 1,)


@borrowing
def compare_texts(texts: TokenStrings, a: int, b: int) -> int:
    """Return −1, 0 or 1 as token a's string sorts before, with, or after token b's."""
    i = texts.starts[a]
    j = texts.starts[b]
    a_end = texts.starts[a + 1]
    b_end = texts.starts[b + 1]
    while i < a_end and j < b_end:
        if texts.chars[i] != texts.chars[j]:
            return 1 if texts.chars[i] > texts.chars[j] else -1
        i += 1
        j += 1
    return int(i < a_end) - int(j < b_end)


@compiled
def append_text(texts: TokenStrings, token: int, left: int, right: int) -> TokenStrings:
    starts = texts.starts
    chars = texts.chars
    start = starts[token]
    middle = start + starts[left + 1] - starts[left]
    end = middle + starts[right + 1] - starts[right]
    if end > len(chars):
        chars = grown(chars, 2 * end)
    copy_into(chars, start, chars, starts[left], starts[left + 1])
    copy_into(chars, middle, chars, starts[right], starts[right + 1])
    starts[token + 1] = end
    return TokenStrings(chars, starts)


@borrowing
def ends_with(texts: TokenStrings, token: int, ending: IntArray) -> bool:
    offset = texts.starts[token + 1] - len(ending)
    if len(ending) == 0 or offset < texts.starts[token]:
        return False
    for i in range(len(ending)):
        if texts.chars[offset + i] != ending[i]:
            return False
    return True
