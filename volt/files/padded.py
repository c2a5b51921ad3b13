"""Text → the same with bytes behind it that may be read, as the loops over units need it.

>>> text = PaddedMemory().read(b"low", separator=ord("\\n"))
>>> text.size, text.data[: text.size].tobytes()
(4, b'low\\n')
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volt.files.spans import FileSpan


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
        """A text as the loops need it. Unless it is `padded`, it lies in this memory until the next is read.

        separator: the byte that ends a line; the last line may lack it
        padded: whether the text ends with a separator and has `PADDING` readable bytes behind it
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
