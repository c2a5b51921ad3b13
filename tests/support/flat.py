"""Flat arrays, as compiled loops take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np

from volt.kernels.apply_bpe import WordBuffers, room_of


def longs(numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int64)


def ints(numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int32)


def read_only(numbers: Any) -> np.ndarray:
    """Return ids as loops read them."""
    result = ints(numbers)
    result.flags.writeable = False
    return result


def flat(rows: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(rows))


def ends_of(rows: Iterable[Sequence[Any]]) -> list[int]:
    """Return where each row ends when they are concatenated.

    >>> ends_of(["ab", "", "c"])
    [2, 2, 3]
    """
    return list(accumulate(map(len, rows)))


def used_room(n: int, *, held: int) -> WordBuffers:
    """Return working memory for n symbols that holds a number everywhere, as if it was used before."""
    room = room_of(n)
    for array in (*room.word, *room[1:]):
        array[:] = abs(held) if array.dtype == np.uint8 else held
    return room
