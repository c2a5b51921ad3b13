"""Provide the memory that compiled loops over text require.

A loop over text recognises a line's end by a separator byte, and may read up to `PADDING` bytes
after the text's end. So b"low" becomes b"low\\n", followed by at least `PADDING` bytes of any
value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volt.array_types import Array, Bytes
from volt.files.ranges import FileSpan

_CACHE_LINE = 64  # bytes
_LARGE_PAGE = 1 << 21  # bytes
_FIRST_ROOM = 1 << 12  # bytes


def aligned_zeros(n: int) -> NDArray[np.uint64]:
    """Return n zeros, aligned to a large page if they fill one, and otherwise to a cache line."""
    alignment = _LARGE_PAGE if 8 * n >= _LARGE_PAGE else _CACHE_LINE
    memory = np.zeros(n + alignment // 8, np.uint64)
    n_skipped = -memory.ctypes.data % alignment // 8  # up to the next multiple of the alignment
    return memory[n_skipped : n_skipped + n]


def extended(array: Array, length: int) -> Array:
    """Return a copy of an array, followed by zeros up to this length."""
    result = np.zeros(length, array.dtype)  # pages that nothing is written to take no memory
    result[: len(array)] = array
    return result


@dataclass(frozen=True, slots=True)
class PaddedText:
    """A text that compiled loops can read.

    data: (size + `PADDING` or more,) uint8, read-only
    size: number of bytes of the text, including the separator after each line
    separator: the byte after each line
    """

    data: Bytes
    size: int
    separator: int


class PaddedMemory:
    """Memory for one text at a time, for one thread.

    data: the memory as a read-only array, like the memory of bytes, so that loops are compiled once
    view: the memory, to write to
    room: the number of bytes of the longest text that fits
    """

    def __init__(self) -> None:
        self.reserve(_FIRST_ROOM)

    def reserve(self, size: int) -> None:
        """Make room for a text of this size and a last separator."""
        from volt.kernels.intrinsics import PADDING

        memory = np.empty(size + 1 + PADDING, np.uint8)
        self.room = size
        self.view = memory.data
        self.data = memory[:]
        self.data.flags.writeable = False

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
        size = len(text)
        if padded and not isinstance(text, FileSpan):
            return PaddedText(np.frombuffer(text, np.uint8), size, separator)
        if size > self.room:
            self.reserve(size)
        if isinstance(text, FileSpan):
            text.read_into(self.view[:size])
        else:
            self.view[:size] = memoryview(text)
        if size and self.view[size - 1] != separator:
            self.view[size] = separator
            size += 1
        return PaddedText(self.data, size, separator)
