"""Memory for the loops over units: rows that lie well, and arrays with room for more. Needs no compiler.

>>> longer(np.arange(2), 4).tolist()
[0, 1, 0, 0]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_CACHE_LINE, _LARGE_PAGE = 64, 1 << 21  # bytes


def aligned(n: int) -> NDArray[np.uint64]:
    """Zeros for rows, none of which lies across the end of a cache line.

    A large array starts at a large page, so that Linux can give it such pages: they cost less to get and to look up.

    >>> aligned(8).ctypes.data % 64
    0
    """
    step = _LARGE_PAGE if 8 * n >= _LARGE_PAGE else _CACHE_LINE
    room = np.zeros(n + step // 8, np.uint64)
    skip = -room.ctypes.data % step // 8
    return room[skip : skip + n]


def longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    """A copy with room for more."""
    new = np.zeros(length, array.dtype)
    new[: len(array)] = array
    return new
