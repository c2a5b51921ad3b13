"""How long the values of a column are: in words, characters or bytes; and which of them are blank.

All is as Python says of the value's text: len(text.split()), len(text), len(text.encode()), not text.strip(). A value
that is missing is as if empty. Of ids, the words are the ids.

>>> column = Column.of(["ein Haus", "é", None, "\\u3000"])
>>> [lengths(column, unit).tolist() for unit in ("words", "characters", "bytes")], blank(column).tolist()
([[2, 1, 0, 0], [8, 1, 0, 1], [8, 2, 0, 3]], [False, False, True, True])
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from volt.stream.transforms.column import Column, Longs, Mask, frozen

Unit = Literal["words", "characters", "bytes"]
_CONTINUATION = (0x80, 0x3F)  # the bytes from 80 to BF, with which no character starts


def lengths(column: Column, unit: Unit) -> Longs:
    """(n,) int64, how long each value is.

    >>> lengths(Column.of_ids(np.array([10, 20], np.int32), np.array([0, 2])), "characters").tolist()
    [5]
    """
    if unit == "words":
        if unit not in column.memo:
            column.memo[unit] = _words(column)
        return column.memo[unit]
    column = column.as_text()
    n_bytes = np.maximum(column.sizes, 0)
    return n_bytes if unit == "bytes" else n_bytes - count_bytes(column, *_CONTINUATION)


def _words(column: Column) -> Longs:
    if column.is_ids:
        return np.maximum(column.sizes, 0)
    from volt.kernels.column_measures import count_words

    out = np.empty(len(column), np.int64)
    count_words(_padded(column.data), column.starts, column.sizes, out)
    return out


def count_bytes(column: Column, first: int, span: int = 0) -> Longs:
    """(n,) int64, how many bytes of each text lie from `first` to first + span.

    >>> count_bytes(Column.of(["a b c", None]), ord(" ")).tolist()
    [2, 0]
    """
    from volt.kernels.column_measures import count_within

    out = np.empty(len(column), np.int64)
    count_within(_padded(column.data), column.starts, column.sizes, first, span, out)
    return out


def holding_bytes(column: Column, wanted: bytes) -> Mask:
    """(n,) bool, which texts hold any of the bytes.

    >>> holding_bytes(Column.of(["a1", "b", None]), b"123").tolist()
    [True, False, False]
    """
    from volt.kernels.column_measures import find_any

    table, out = np.zeros(256, bool), np.empty(len(column), bool)
    table[list(wanted)] = True
    find_any(column.data, column.starts, column.sizes, table, out)
    return out


def blank(column: Column) -> Mask:
    """(n,) bool, which values are missing, empty or white space.

    >>> blank(Column.of([" ", "a"])).tolist()
    [True, False]
    """
    if column.is_ids:
        return column.sizes <= 0
    from volt.kernels.column_measures import find_blank

    out = np.empty(len(column), bool)
    find_blank(_padded(column.data), column.starts, column.sizes, out)
    return out


def _padded(data: NDArray[Any]) -> NDArray[Any]:
    """The bytes, with zeros behind them where there are fewer than the loops look at."""
    from volt.kernels.column_measures import BLOCK

    return data if len(data) >= BLOCK else frozen(np.concatenate([data, np.zeros(BLOCK - len(data), np.uint8)]))
