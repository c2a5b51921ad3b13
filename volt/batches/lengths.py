"""Lengths as callers give them → an array of whole numbers, and rows that do not fit, reported or refused by name.

>>> table([[3, 4], [5, 1]]).shape, table([3, 4]).shape
((2, 2), (2, 1))
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volt import arguments
from volt.errors import ConfigError, StreamError

Longs = NDArray[np.int64]
OnLong = Literal["raise", "report"]
MOST = 1 << 53  # tokens of a batch


def table(lengths: ArrayLike, name: str = "lengths") -> Longs:
    """(n, n_sides) int64 of whole numbers that are not negative; (n,) is taken as one side.

    Raises ConfigError.
    """
    array = _array(lengths, name)
    if array.ndim == 1 and len(array) == 0:  # which NumPy takes for floats
        return np.empty((0, 1), np.int64)
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2) or 0 in array.shape[1:]:
        remedy = "give whole numbers, (n,) or (n, sides)"
        raise (
            arguments.refusal(lengths, name, remedy)
            if array.ndim == 0
            else ConfigError(f"{name} is an array of {array.dtype} with {array.ndim} dimensions; {remedy}")
        )
    found = array.astype(np.int64, copy=False).reshape(len(array), -1)
    if found.min(initial=0) < 0:
        row = int(np.argmax(found.min(axis=1) < 0))
        raise ConfigError(f"{name}[{row}] is {array[row].tolist()}; a length is 0 or more")
    return found


def _array(lengths: Any, name: str) -> NDArray[Any]:
    """An array of what was given, if it is a table at all."""
    try:
        return np.asarray(lengths)
    except (ValueError, TypeError):  # rows of unequal size, say
        raise ConfigError(f"{name} is no table of numbers; give (n,) or (n, sides)") from None


def single(lengths: ArrayLike, name: str = "lengths") -> Longs:
    """(n,) int64: of `table`, where there is one side only. Raises ConfigError for more.

    >>> single([3, 4]).tolist()
    [3, 4]
    """
    found = table(lengths, name)
    if found.shape[1] != 1:
        raise ConfigError(f"{name} has {found.shape[1]} sides; give one length a row")
    return found[:, 0]


def refuse_long(rows: Longs, longest: Longs, limit: int, name: str, *, on_long: str) -> None:
    """Raise StreamError, which names the first of these rows, unless they are to be reported.

    rows: those that are longer than the limit;  longest: (n,) the lengths of all;  name: of the limit

    >>> refuse_long(np.array([1]), np.array([3, 9]), 8, "max_tokens", on_long="report")
    """
    if len(rows) and on_long == "raise":
        others = f", and so are {len(rows) - 1:,} more" if len(rows) > 1 else ""
        raise StreamError(
            f"row {rows[0]}: {longest[rows[0]]:,} tokens are longer than {name} {limit:,}{others}; "
            f"raise {name}, shorten the row, or leave such rows out with on_long='report'"
        )
