"""Provide padded, aligned and growing memory to the compiled loops over text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.files.ranges import FileSpan

_CACHE_LINE = 64  # bytes
_LARGE_PAGE = 1 << 21  # bytes


def aligned(n: int) -> NDArray[np.uint64]:
    """Return n zeros, aligned to a large page if they fill one, and otherwise to a cache line."""
    step = _LARGE_PAGE if 8 * n >= _LARGE_PAGE else _CACHE_LINE
    room = np.zeros(n + step // 8, np.uint64)
    skip = -room.ctypes.data % step // 8
    return room[skip : skip + n]


def longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    return np.pad(array, (0, length - len(array)))


@dataclass(frozen=True, slots=True)
class Padded:
    """A text that compiled loops can read: separators end all lines, and padding follows.

    data: (size + PADDING or more,) uint8
    separator: the byte that ends each line, including the last
    """

    data: NDArray[np.uint8]
    size: int
    separator: int


class PaddedMemory:
    """Memory for one text at a time, for one thread."""

    def __init__(self) -> None:
        self._whole = np.zeros(0, np.uint8)

    def read(
        self, text: bytes | memoryview | FileSpan, *, separator: int, padded: bool = False
    ) -> Padded:
        r"""Return a text that compiled loops can read. The next call may overwrite it.

        padded: whether `text` ends with a separator, followed by `PADDING` readable bytes; then it is not copied

        >>> text = PaddedMemory().read(b"low", separator=ord("\n"))
        >>> text.size, text.data[: text.size].tobytes()
        (4, b'low\n')
        """
        from volt.kernels.intrinsics import PADDING

        size = len(text)
        if padded and not isinstance(text, FileSpan):
            return Padded(np.frombuffer(text, np.uint8), size, separator)
        length = size + 1 + PADDING
        if len(self._whole) < length:
            self._whole = np.empty(length, np.uint8)
        whole = self._whole
        if isinstance(text, FileSpan):
            text.read_into(whole[:size].data)
        else:
            whole[:size] = memoryview(text)
        if size and whole[size - 1] != separator:
            whole[size] = separator
            size += 1
        data = whole[: size + PADDING]
        data.flags.writeable = False  # like the memory of bytes, so that the loop is compiled once
        return Padded(data, size, separator)
