"""Join consecutive lines into pseudo-documents, or repeat lines.

    the cat<TAB>die Katze<TAB>doc1
    it eats<TAB>sie frisst<TAB>doc1    →    the cat <sep> it eats<TAB>die Katze <sep> sie frisst<TAB>doc1

`documents` needs lines in the order of their file, so set `shuffle: outputs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from volt.array_types import Longs
from volt.stream.transforms.column import Column, longs, split_at, widths
from volt.stream.transforms.column_measurements import measure_lengths
from volt.stream.transforms.fields import with_fields
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.options import (
    Copies,
    FieldNumber,
    Fields,
    FieldText,
    Number,
    Probability,
)
from volt.stream.transforms.transform import ConfiguredTransform

_MOST_TOKENS = 1 << 53  # no text has as many


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
        n_tokens = [measure_lengths(batch.column(field), "words") for field in self.fields]
        may_start = rng.uniform(batch.origins) < self.probability

        max_tokens = min(self.max_tokens, _MOST_TOKENS)
        token_limits = np.full(len(batch), max_tokens)  # for a document that starts at a line
        if self.sample_length:
            token_limits = rng.at("limit").integers(batch.origins, 1, max_tokens)
        max_lines = len(batch)
        if self.max_lines is not None:
            max_lines = min(self.max_lines, max_lines)

        ids = batch.column(self.id_field).as_text()
        totals = longs(len(self.fields))  # working memory
        starts = longs(len(batch))
        limits = (token_limits, max_lines)
        n = find_starts(np.stack(n_tokens), may_start, *limits, *ids.views, totals, starts)

        first_lines = starts[:n]
        bounds = np.append(first_lines, len(batch))
        columns = {field: self._join(batch.column(field), bounds) for field in self.fields}
        return batch.take(first_lines).with_columns(columns)

    def _join(self, column: Column, bounds: Longs) -> Column:
        if self.separator:
            return join_runs(column.as_text(), bounds, separator=f" {self.separator} ")
        return join_runs(column, bounds, separator="" if column.is_ids else " ")

    def deterministic(self) -> None: ...

    def special_tokens(self) -> tuple[str, ...]:
        return tuple(self.separator.split())


def join_runs(column: Column, bounds: Longs, *, separator: str = "") -> Column:
    """Return a column with one value for each run of values, with a separator between them.

    bounds: (n_runs + 1,); run r has the values bounds[r]:bounds[r + 1]
    """
    from volt.kernels.columns import write_runs

    separator_bytes = np.frombuffer(separator.encode(), np.uint8)
    size_before = np.append(0, np.cumsum(widths(column)))  # of the values before each value
    n_separators = np.diff(bounds) - 1
    sizes = np.diff(size_before[bounds]) + n_separators * len(separator_bytes)

    # The kernel copies bytes, so it gets starts and sizes in bytes, also for ids
    out = np.empty(int(sizes.sum()), column.data.dtype)
    item_size = column.data.itemsize
    data = np.ascontiguousarray(column.data).view(np.uint8)
    views = (data, column.starts * item_size, column.sizes * item_size)
    write_runs(*views, bounds, separator_bytes, out.view(np.uint8))
    return split_at(out, np.cumsum(sizes))


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
