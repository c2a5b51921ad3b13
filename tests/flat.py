"""Flat arrays, as compiled loops take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np


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
