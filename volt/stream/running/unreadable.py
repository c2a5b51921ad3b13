"""Lines that are not UTF-8, and lines that a transform has made and that cannot be written.

>>> from volt.stream.transforms.column import Column
>>> invalid_lines(Batch((), Column.cut(b"a\\n\\xffb\\n"), np.arange(2)))
{1: 'invalid UTF-8: byte 0xff at column 1'}
"""

from __future__ import annotations

import numpy as np

from volt.stream.reading.utf8 import is_utf8
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column

_END = 0x0A


def invalid_lines(batch: Batch) -> dict[int, str]:
    """Index → what is wrong, for the lines that are not UTF-8."""
    columns = [*batch.columns, *([] if batch.rest is None else [batch.rest])]
    reasons = dict[int, str]()
    for column in columns:
        if not column.is_ids and not is_utf8(column.data):
            reasons |= {index: reason for index, reason in _invalid(column) if index not in reasons}
    return reasons


def _invalid(column: Column) -> list[tuple[int, str]]:
    spans = enumerate(zip(column.starts.tolist(), column.sizes.tolist(), strict=True))
    values = ((index, column.data[start : start + max(size, 0)].tobytes()) for index, (start, size) in spans)
    return [(index, reason) for index, value in values if (reason := _reason(value))]


def _reason(line: bytes) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        place = len(line[: error.start].decode()) + 1
        return f"invalid UTF-8: byte 0x{line[error.start]:02x} at column {place}"
    return ""


def unwritable_lines(batch: Batch) -> dict[int, str]:
    """Index → what is wrong, for lines with a line end inside or a lone surrogate, which no line can hold."""
    data, ends = batch.packed()
    if np.count_nonzero(data == _END) == len(ends) and is_utf8(data):
        return {}
    starts = np.concatenate([[0], ends])[:-1].tolist()
    lines = (data[start : end - 1].tobytes() for start, end in zip(starts, ends.tolist(), strict=True))
    told = "unwritable: a transform left a line end or a lone surrogate"
    return {index: told for index, line in enumerate(lines) if b"\n" in line or _reason(line)}
