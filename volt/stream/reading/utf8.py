"""Check bytes for UTF-8 by Arrow, which looks at 16 of them at a time and releases the interpreter's lock.

Few bytes are Python's, so that a stream's first line need not wait until Arrow has been imported.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_FEW = 1 << 14  # bytes that Python decodes in about 10 µs


def is_utf8(data: NDArray[np.uint8]) -> bool:
    """Check whether bytes are UTF-8 text.

    >>> is_utf8(np.frombuffer(b"a\\xff", np.uint8))
    False
    """
    if len(data) <= _FEW:
        return _is_decoded(data.tobytes())
    import pyarrow as pa

    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    text = pa.Array.from_buffers(pa.large_utf8(), 1, [None, offsets, pa.py_buffer(data)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_decoded(data: bytes) -> bool:
    try:
        return data.isascii() or data.decode() is not None
    except UnicodeDecodeError:
        return False
