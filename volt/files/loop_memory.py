"""Provide the memory that compiled loops over text require.

A loop over text recognises a line's end by a separator byte, and may read up to `PADDING` bytes
after the text's end. So b"low" becomes b"low\\n", followed by at least `PADDING` bytes of any
value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.files.ranges import FileSpan

_CACHE_LINE = 64  # bytes
_LARGE_PAGE = 1 << 21  # bytes


def aligned_zeros(n: int) -> NDArray[np.uint64]:
    """Return n zeros, aligned to a large page if they fill one, and otherwise to a cache line."""
    alignment = _LARGE_PAGE if 8 * n >= _LARGE_PAGE else _CACHE_LINE
    memory = np.zeros(n + alignment // 8, np.uint64)
    n_skipped = -memory.ctypes.data % alignment // 8  # up to the next multiple of the alignment
    return memory[n_skipped : n_skipped + n]


def extended(array: NDArray[Any], length: int) -> NDArray[Any]:
    """Return a copy of an array, followed by zeros up to this length."""
    result = np.zeros(length, array.dtype)  # pages that nothing is written to take no memory
    result[: len(array)] = array
    return result


@dataclass(frozen=True, slots=True)
class PaddedText:
    """A text that compiled loops can read.

    data: (size + `PADDING` or more,) uint8
    size: number of bytes of the text, including the separator after each line
    separator: the byte after each line
    """

    data: NDArray[np.uint8]
    size: int
    separator: int


class PaddedMemory:
    """Memory for one text at a time, for one thread."""

    def __init__(self) -> None:
        self._memory = np.zeros(0, np.uint8)

    def read(
        self, text: bytes | memoryview | FileSpan, *, separator: int, padded: bool = False
    ) -> PaddedText:
        r"""Return a text that compiled loops can read. The next call may overwrite it.

        padded: whether `text` ends with a separator, followed by `PADDING` readable bytes; then it
            is not copied

        >>> text = PaddedMemory().read(b"low", separator=ord("\n"))
        >>> text.size, text.data[: text.size].tobytes()
        (4, b'low\n')
        """
        from volt.kernels.intrinsics import PADDING

        size = len(text)
        if padded and not isinstance(text, FileSpan):
            return PaddedText(np.frombuffer(text, np.uint8), size, separator)
        capacity = size + 1 + PADDING  # with a last separator
        if len(self._memory) < capacity:
            self._memory = np.empty(capacity, np.uint8)
        memory = self._memory
        if isinstance(text, FileSpan):
            text.read_into(memory[:size].data)
        else:
            memory[:size] = memoryview(text)
        if size and memory[size - 1] != separator:
            memory[size] = separator
            size += 1
        data = memory[: size + PADDING]
        data.flags.writeable = False  # like the memory of bytes, so that the loop is compiled once
        return PaddedText(data, size, separator)
