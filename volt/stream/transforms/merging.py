"""Batches put together again: lines of several, in a new order, with each buffer of text copied once at most.

Parts of one batch share its buffers. Where a field was changed in no part, its values go on being views into the same
buffer; where it was, the buffers of all such fields become one.

>>> whole = Batch.of(["a\\tx", "b\\ty"]).split(2)
>>> part = whole.take([0]).with_columns({1: Column.of(["A"])})
>>> merged = together([whole.take([1]), part], np.array([1, 0]))
>>> merged.lines, merged.columns[1].data is whole.columns[1].data
(['A\\tx', 'b\\ty'], True)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from volt.stream.transforms.batch import Batch, Longs
from volt.stream.transforms.column import Column, frozen

Slots = list[list[Column]]  # for each field, its column in each part


def together(parts: Sequence[Batch], order: Longs) -> Batch:
    """The lines of several batches, in an order.

    order: (n,) indices of lines, counted through all parts
    """
    width = max(len(part.columns) for part in parts)
    parts = [part.split(width) for part in parts]
    slots = [[part.columns[k] for part in parts] for k in range(width)]
    if any(part.rest is not None for part in parts):
        slots.append([Column.missing(len(part)) if part.rest is None else part.rest for part in parts])
    columns = [column.take(order) for column in _joined([_of_one_kind(slot) for slot in slots])]
    origins = np.concatenate([part.origins for part in parts])[order]
    return Batch(tuple(columns[:width]), columns[width] if len(columns) > width else None, origins)


def _of_one_kind(slot: list[Column]) -> list[Column]:
    """The columns of a field, all of text if any is. One without values has the buffer of another."""
    held = [column for column in slot if column.present.any()] or slot[:1]
    if len({column.is_ids for column in held}) > 1:
        return _of_one_kind([column.as_text() for column in slot])
    return [column if column.present.any() else Column(held[0].data, column.starts, column.sizes) for column in slot]


def _joined(slots: Slots) -> list[Column]:
    """The columns of each field as one."""
    mixed = [column for slot in slots if len({id(column.data) for column in slot}) > 1 for column in slot]
    pools = {is_ids: _Pool(column for column in mixed if column.is_ids == is_ids) for is_ids in (False, True)}
    return [pools[slot[0].is_ids].joined(slot) for slot in slots]


class _Pool:
    """The buffers of several columns as one, `data`; those that are the same are in it once."""

    def __init__(self, columns: Iterable[Column]) -> None:
        buffers = {id(column.data): column.data for column in columns}
        ends = np.cumsum([len(buffer) for buffer in buffers.values()], dtype=np.int64).tolist()
        self._first = {key: end - len(buffers[key]) for key, end in zip(buffers, ends, strict=True)}
        self._data = frozen(np.concatenate(list(buffers.values()))) if buffers else None

    def joined(self, slot: list[Column]) -> Column:
        """The columns of a field as one, which views the pool, or the one buffer that they all view."""
        sizes = np.concatenate([column.sizes for column in slot])
        if self._data is None or all(column.data is slot[0].data for column in slot):
            return Column(slot[0].data, np.concatenate([column.starts for column in slot]), sizes)
        starts = [column.starts + self._first[id(column.data)] for column in slot]
        return Column(self._data, np.concatenate(starts), sizes)
