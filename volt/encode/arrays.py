"""Types of numpy arrays, and sizes of rows."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Bytes: TypeAlias = NDArray[np.uint8]
Flags: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]


def sizes_of(ends: Longs) -> Longs:
    """Return the sizes of rows, such as words or lines. ends: where each row ends"""
    return np.diff(ends, prepend=0)
