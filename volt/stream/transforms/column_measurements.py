"""Measure each value of a column, with compiled loops: its length, blank values, certain bytes.

>>> column = Column.of(["a house", None, "", "é"])
>>> measure_lengths(column, "words").tolist(), measure_lengths(column, "characters").tolist()
([2, 0, 0, 1], [7, 0, 0, 1])
>>> find_blank_values(column).tolist()
[False, True, True, False]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from volt.array_types import Array, Flags, Longs
from volt.stream.transforms.column import Column, make_read_only, widths

Unit = Literal["words", "characters", "bytes"]
# The bytes 0x80 to 0xBF continue a character in UTF-8; every other byte starts one
_FIRST_CONTINUATION = 0x80
_N_CONTINUATIONS = 0x40


def measure_lengths(column: Column, unit: Unit) -> Longs:
    """Return (n,) the length of each value; 0 for missing values. An id counts as a word."""
    if unit == "words":
        from volt.kernels.string_functions import count_words

        return count_parts(column, unit, count_words)

    column = column.as_text()
    lengths = widths(column)
    if unit == "characters":
        lengths -= count_bytes(column, _FIRST_CONTINUATION, n_adjacent=_N_CONTINUATIONS)
    return lengths


def count_parts(column: Column, name: str, kernel: Callable[..., Any]) -> Longs:
    """Return (n,) the number of ids of each value or, for text, of the parts that a kernel counts.

    name: the key of the kernel's results in the column's cache
    """
    if column.is_ids:
        return widths(column)
    if name not in column.memo:
        column.memo[name] = run_kernel(column, kernel, np.int64)
    return column.memo[name]


def count_bytes(column: Column, first: int, *, n_adjacent: int = 1) -> Longs:
    """Return (n,) how many bytes of each value are from `first` up to `first + n_adjacent - 1`."""
    from volt.kernels.string_functions import count_within

    return run_kernel(column, count_within, np.int64, first, n_adjacent - 1)


def find_bytes(column: Column, wanted: bytes) -> Flags:
    """Return (n,) bool, True for values that contain any of the bytes."""
    from volt.kernels.string_functions import find_any

    is_wanted = np.zeros(256, bool)
    is_wanted[list(wanted)] = True
    return run_kernel(column, find_any, bool, is_wanted)


def find_blank_values(column: Column) -> Flags:
    """Return (n,) bool, True for missing, empty or white-space values."""
    if column.is_ids:
        return column.sizes <= 0
    from volt.kernels.string_functions import find_blank

    return run_kernel(column, find_blank, bool)


def run_kernel(column: Column, kernel: Callable[..., Any], dtype: type, *options: object) -> Array:
    """Return (n,) the results of a kernel(data, starts, sizes, *options, results)."""
    from volt.kernels.string_functions import BLOCK

    data = column.data
    if len(data) < BLOCK:  # kernels load whole blocks
        padding = np.zeros(BLOCK - len(data), data.dtype)
        data = make_read_only(np.concatenate([data, padding]))
    results: Array = np.empty(len(column), dtype)
    kernel(data, column.starts, column.sizes, *options, results)
    return results
