"""Whether bytes are UTF-8 text, by Arrow, which looks at 16 of them at a time and releases the interpreter's lock."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def is_utf8(data: NDArray[np.uint8]) -> bool:
    """Whether bytes are UTF-8 text.

    >>> is_utf8(np.frombuffer(b"a\\xff", np.uint8))
    False
    """
    import pyarrow as pa

    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    text = pa.Array.from_buffers(pa.large_utf8(), 1, [None, offsets, pa.py_buffer(data)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
