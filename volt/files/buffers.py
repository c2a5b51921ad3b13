r"""Memory for the compiled loops over text: padded at the end, aligned, and able to grow. Needs no compiler.

>>> text = PaddedMemory().read(b"low", separator=ord("\n"))
>>> text.size, text.data[: text.size].tobytes()
(4, b'low\n')
>>> longer(np.arange(2), 4).tolist()
[0, 1, 0, 0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.files.ranges import FileSpan

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
    """Return a copy with room for more."""
    new = np.zeros(length, array.dtype)
    new[: len(array)] = array
    return new


@dataclass(frozen=True, slots=True)
class Padded:
    """A text as the loop needs it.

    data: (size + PADDING or more,) uint8, whose first `size` bytes are the text
    size: bytes of the text
    separator: the byte that ends a line, and the text
    """

    data: NDArray[np.uint8]
    size: int
    separator: int


class PaddedMemory:
    """Memory for one text at a time; it belongs to one thread."""

    def __init__(self) -> None:
        self._whole = np.zeros(0, np.uint8)

    def read(self, text: bytes | memoryview | FileSpan, *, separator: int, padded: bool = False) -> Padded:
        """Return a text as the loops need it. Unless it is `padded`, it lies in this memory until the next is read.

        separator: the byte that ends a line; the last line may lack it
        padded: whether the text ends with a separator and is followed by `PADDING` readable bytes
        """
        from volt.kernels.memory import PADDING

        size = len(text)
        if padded and not isinstance(text, FileSpan):
            return Padded(np.frombuffer(text, np.uint8), size, separator)
        if len(self._whole) < size + 1 + PADDING:
            self._whole = np.empty(size + 1 + PADDING, np.uint8)
        whole = self._whole
        if isinstance(text, FileSpan):
            text.read_into(whole[:size].data)
        else:
            whole[:size] = memoryview(text)
        if size and whole[size - 1] != separator:
            whole[size], size = separator, size + 1
        data = whole[: size + PADDING]
        data.flags.writeable = False  # as a text's own memory is, so that the loop is compiled once
        return Padded(data, size, separator)
