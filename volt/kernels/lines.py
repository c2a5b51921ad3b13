"""Lines as compiled code sees them: one array of bytes, and where each line ends in it.

So a block of a hundred thousand lines is permuted without making a hundred thousand objects.

>>> text = np.frombuffer(b"one\\ntwo\\n", np.uint8)
>>> reorder(text, line_ends(text), np.array([1, 0])).tobytes()
b'two\\none\\n'
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from volt.kernels.hashing import LongArray

ByteArray = NDArray[Any]  # of uint8
LINE_FEED = 0x0A


@njit(cache=True, nogil=True)
def line_ends(text: ByteArray) -> LongArray:
    """(n_lines,) positions just past each line feed."""
    n_lines = 0
    for i in range(len(text)):
        n_lines += text[i] == LINE_FEED
    ends, line = np.empty(n_lines, np.int64), 0
    for i in range(len(text)):
        if text[i] == LINE_FEED:
            ends[line] = i + 1
            line += 1
    return ends


@njit(cache=True, nogil=True)
def reorder(text: ByteArray, ends: LongArray, order: LongArray) -> ByteArray:
    """The lines in another order, which may leave lines out or repeat them; each keeps its line feed."""
    size = 0
    for line in order:
        size += ends[line] - (ends[line - 1] if line else 0)
    ordered, position = np.empty(size, np.uint8), 0
    for line in order:
        start = ends[line - 1] if line else 0
        length = ends[line] - start
        for i in range(length):
            ordered[position + i] = text[start + i]
        position += length
    return ordered
