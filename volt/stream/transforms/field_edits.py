r"""Append, copy, select or reorder the fields of a line.

>>> KeepFields(fields=(2, 1))(Batch.of(["ein Haus\ta house"]), LineRng(1, 2)).lines
['a house\tein Haus']
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import with_fields
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import Copies, FieldNumber, Fields, FieldText
from volt.stream.transforms.tags import surrounded
from volt.stream.transforms.transform import LineFault, LineTransform


@dataclass(frozen=True, slots=True)
class Append(LineTransform):
    """Append a constant text as the last field. (`user` with `append: true` appends a function's result.)"""

    text: FieldText
    """The new field."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        after = Column.missing(len(batch)) if batch.rest is None else batch.rest
        if after.present.any():
            after = surrounded(after, "", "\t" + self.text)
        columns = [*batch.columns, after]
        n_fields = sum((column.present for column in columns), np.zeros(len(batch), np.int64))
        for k, column in enumerate(columns):  # the text becomes the first field that a line lacks
            lines = np.flatnonzero(n_fields == k)
            if len(lines) == len(batch):
                columns[k] = Column.repeated(self.text, len(batch))
            elif len(lines):
                columns[k] = column.replaced(lines, Column.repeated(self.text, len(lines)))
        if batch.rest is None:
            return Batch(tuple(columns), None, batch.origins)
        return Batch(tuple(columns[:-1]), columns[-1], batch.origins)


@dataclass(frozen=True, slots=True)
class Copy(LineTransform):
    """Copy one field over another. A missing field is added, with empty fields before it if needed."""

    from_: FieldNumber = 1
    """The field to copy."""
    to: FieldNumber = 2
    """The field to overwrite."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch = with_fields(batch, (self.from_,))[0].split(self.to)
        empty = Column.repeated("", len(batch))  # shared by all fields without any value
        before = {k: _filled(batch.columns[k - 1], empty) for k in range(1, self.to)}
        return batch.with_columns({**before, self.to: batch.columns[self.from_ - 1]})


def _filled(column: Column, empty: Column) -> Column:
    if column.present.all():
        return column
    return (
        Column(column.data, column.starts, np.maximum(column.sizes, 0))
        if column.present.any()
        else empty
    )


@dataclass(frozen=True, slots=True)
class DuplicateMono(LineTransform):
    """Copy field 1 to field 2 of a monolingual line; a line with two sides is unfit."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch = batch.split(2)
        lines = np.flatnonzero(batch.columns[1].present).tolist()
        if lines:
            raise LineFault(
                dict.fromkeys(lines, "has a second field already; duplicate_mono makes one")
            )
        return batch.with_columns({2: batch.columns[0]})


@dataclass(frozen=True, slots=True)
class Multiply(LineTransform):
    """Copy field 1 over the fields 2 to n; further fields stay. (`repeat` copies whole lines.)"""

    n: Copies = 2
    """The number of fields that get the text of field 1."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch = batch.split(1)
        return batch.with_columns(dict.fromkeys(range(1, self.n + 1), batch.columns[0]))


@dataclass(frozen=True, slots=True)
class KeepFields(LineTransform):
    """Keep only these fields, in this order; [2, 1] swaps the sides."""

    fields: Fields = (1, 2)
    """The fields to keep."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch, fields = with_fields(batch, self.fields)
        return Batch(tuple(batch.columns[field - 1] for field in fields), None, batch.origins)
