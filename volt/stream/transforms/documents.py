"""Join consecutive lines into pseudo-documents, or repeat lines.

`documents` needs lines in the order of their file, so set `shuffle: outputs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from volt.stream.transforms.column import Column, Longs, from_ends, lengths, longs, widths
from volt.stream.transforms.fields import with_fields
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import (
    Copies,
    FieldNumber,
    Fields,
    FieldText,
    Number,
    Probability,
)
from volt.stream.transforms.transform import ConfiguredTransform

_MOST = 1 << 53  # no text has as many words


@dataclass(frozen=True, slots=True)
class Documents(ConfiguredTransform):
    """Join consecutive lines of one document into one line; fields that are not joined come from
    the first line."""

    is_compiled: ClassVar[bool] = True
    joins_lines: ClassVar[bool] = True
    id_field: FieldNumber = 3
    """The field with the document's id; a line with an empty id is not joined."""
    fields: Fields = (1, 2)
    """The fields to join."""
    separator: FieldText = "<sep>"
    """The text between two joined lines, with a space on either side; if empty, there is only one
    space."""
    max_tokens: Number = 250
    """The maximum number of words (or other tokens separated by spaces) in a joined field, without
    separators."""
    max_lines: Number | None = None
    """The maximum number of lines in a document; no limit by default."""
    probability: Probability = 1.0
    """The probability that a line which can start a document does so; otherwise the line stays
    alone."""
    sample_length: bool = False
    """Draw each document's token limit uniformly from 1 to max_tokens, so that lengths vary."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        from volt.kernels.columns import find_starts

        batch, _ = with_fields(batch, (*self.fields, self.id_field))
        n_tokens = [lengths(batch.column(field), "words") for field in self.fields]
        joins = rng.uniform(batch.origins) < self.probability

        max_tokens = min(self.max_tokens, _MOST)
        limits = np.full(len(batch), max_tokens)
        if self.sample_length:
            limits = rng.at("limit").integers(batch.origins, 1, max_tokens)
        max_lines = len(batch)
        if self.max_lines is not None:
            max_lines = min(self.max_lines, max_lines)

        ids = batch.column(self.id_field).as_text()
        totals = longs(len(self.fields))
        starts = longs(len(batch))
        n = find_starts(np.stack(n_tokens), joins, limits, max_lines, *ids.views, totals, starts)

        bounds = np.append(starts[:n], len(batch))
        columns = {field: self._joined(batch.column(field), bounds) for field in self.fields}
        return batch.take(starts[:n]).with_columns(columns)

    def _joined(self, column: Column, bounds: Longs) -> Column:
        if not self.separator:
            return joined_runs(column, bounds, separator="" if column.is_ids else " ")
        return joined_runs(column.as_text(), bounds, separator=f" {self.separator} ")

    def deterministic(self) -> None: ...

    def special_tokens(self) -> tuple[str, ...]:
        return tuple(self.separator.split())


def joined_runs(column: Column, bounds: Longs, *, separator: str = "") -> Column:
    """Join runs of values with a separator. bounds: (n_runs + 1,) where runs start and end"""
    from volt.kernels.columns import write_runs

    item_size = column.data.itemsize
    between = np.frombuffer(separator.encode(), np.uint8)
    total = np.concatenate([[0], np.cumsum(widths(column))])
    n_separators = np.diff(bounds) - 1
    sizes = np.diff(total[bounds]) + n_separators * len(between)

    out = np.empty(int(sizes.sum()), column.data.dtype)
    data = np.ascontiguousarray(column.data).view(np.uint8)
    starts = column.starts * item_size
    write_runs(data, starts, column.sizes * item_size, bounds, between, out.view(np.uint8))
    return from_ends(out, np.cumsum(sizes))


@dataclass(frozen=True, slots=True)
class Repeat(ConfiguredTransform):
    """Repeat every line n times in a row; later random transforms draw separately for each copy."""

    is_compiled: ClassVar[bool] = True
    n: Copies = 2
    """The number of copies."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return batch.take(np.repeat(np.arange(len(batch)), self.n))

    @property
    def max_copies(self) -> int:
        return self.n

    def deterministic(self) -> None: ...
