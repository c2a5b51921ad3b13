"""Types of arrays, hash functions and growing arrays, for all loops.

A table with open addressing has `table_size(n_keys)` slots, each with the number of a key + 1, or 0
while free. A search starts at `slot_of(key, n_slots - 1)`, and takes the next slots, until it finds
the key or a free slot.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np
from numba import types
from numpy.typing import NDArray

from volt.kernels.jit import borrowing, compiled, inlined


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


# Array types. Loops called from Python are compiled for them (`volt.kernels.warmup`); elsewhere
# they only inform. TextArray and IdArray are read-only.
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
# the types of the scalars that annotate a loop's arguments
_SCALARS: dict[Any, Any] = {
    bool: types.boolean,
    int: types.int64,
    float: types.float64,
    np.uint64: types.uint64,
}


def numba_type(kind: Any) -> Any:
    """Return numba's type of an argument from its annotation: a scalar, an array or a tuple."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    if hasattr(kind, "__metadata__"):
        return kind.__metadata__[0]
    make: Any = types.BaseTuple.from_types
    return make(list(map(numba_type, annotations_of(kind))), kind)


def annotations_of(thing: Any) -> list[Any]:
    """Return the annotations of a function's arguments, or of a tuple's fields."""
    hints = get_type_hints(thing, include_extras=True)
    hints.pop("return", None)
    return list(hints.values())


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


# Loops allocate growing arrays with these functions, because numba compiles np.zeros anew for each
# loop that calls it. Python allocates all other arrays.


@compiled
def longs(n: int) -> LongArray:
    new = np.empty(n, np.int64)
    for i in range(n):
        new[i] = 0
    return new


@compiled
def grown(array: LongArray, length: int) -> LongArray:
    longer = np.empty(length, array.dtype)
    copy_into(longer, 0, array, 0, len(array))
    return longer
