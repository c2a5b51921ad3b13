"""Types of arrays, hash functions and growing arrays, for all loops.

A table with open addressing has `table_size(n_keys)` slots, each with the number of a key + 1, or 0
while free. A search starts at `slot_of(key, n_slots - 1)`, and takes the next slots, until it finds
the key or a free slot.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.kernels.jit import ArrayKind, borrowing, inlined


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


@borrowing
def table_size(n_keys: int) -> int:
    n_slots = 8
    while n_slots < 2 * n_keys:
        n_slots *= 2
    return n_slots


# Array types. Loops called from Python are compiled for them; elsewhere they only inform. TextArray
# and IdArray may be read-only.
TextArray = Annotated[NDArray[Any], ArrayKind(np.dtype(np.uint8), 1, is_read=True)]
IdArray = Annotated[NDArray[Any], ArrayKind(np.dtype(np.int32), 1, is_read=True)]
FlagArray = Annotated[NDArray[Any], ArrayKind(np.dtype(np.bool_), 1)]
ByteArray = Annotated[NDArray[Any], ArrayKind(np.dtype(np.uint8), 1)]
ShortArray = Annotated[NDArray[Any], ArrayKind(np.dtype(np.uint16), 1)]
IntArray = Annotated[NDArray[Any], ArrayKind(np.dtype(np.int32), 1)]
LongArray = Annotated[NDArray[Any], ArrayKind(np.dtype(np.int64), 1)]
KeyArray = Annotated[NDArray[Any], ArrayKind(np.dtype(np.uint64), 1)]
FloatArray = Annotated[NDArray[Any], ArrayKind(np.dtype(np.float64), 1)]
IntTable = Annotated[NDArray[Any], ArrayKind(np.dtype(np.int32), 2)]
LongTable = Annotated[NDArray[Any], ArrayKind(np.dtype(np.int64), 2)]
FloatTable = Annotated[NDArray[Any], ArrayKind(np.dtype(np.float64), 2)]
LongCube = Annotated[NDArray[Any], ArrayKind(np.dtype(np.int64), 3)]


class Words(NamedTuple):
    symbols: IntArray  # (n_symbols,), the atoms, word after word
    ends: LongArray  # (n_words,), where each word's symbols end
    counts: LongArray  # (n_words,), > 0


@borrowing
def copy_into(target: LongArray, at: int, source: LongArray, start: int, end: int) -> None:
    """Do target[at:] = source[start:end], which numba compiles ten times more slowly."""
    for i in range(start, end):
        target[at + i - start] = source[i]
