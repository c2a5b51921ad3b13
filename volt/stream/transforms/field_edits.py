r"""Append, copy, select or reorder the fields of a line.

>>> KeepFields(fields=(2, 1))(Batch.of(["ein Haus\ta house"]), LineRng(1, 2)).lines
['a house\tein Haus']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from volt.stream.transforms.column import Column, widths
from volt.stream.transforms.fields import with_fields
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import Copies, FieldNumber, Fields, FieldText
from volt.stream.transforms.tags import surrounded
from volt.stream.transforms.transform import LineFault, LineTransform

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Append(LineTransform):
    """Append a constant text as the last field. (A function of `user` can append its result.)"""

    text: FieldText
    """The new field."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        after = batch.rest or Column.missing(len(batch))
        if after.present.any():
            after = surrounded(after, "", "\t" + self.text)

        columns = [*batch.columns, after]
        n_present = np.sum([column.present for column in columns], axis=0)
        for number, column in enumerate(columns):
            lines = np.flatnonzero(
                n_present == number
            )  # the lines whose first missing field this is
            text = Column.repeated(self.text, len(lines))
            if len(lines) == len(batch):
                columns[number] = text
            elif len(lines):
                columns[number] = column.replaced(lines, text)

        rest = None if batch.rest is None else columns.pop()
        return Batch(tuple(columns), rest, batch.origins)


@dataclass(frozen=True, slots=True)
class Copy(LineTransform):
    """Copy one field over another. A missing field is added, with empty fields before it if
    needed."""

    from_: FieldNumber = 1
    """The field to copy."""
    to: FieldNumber = 2
    """The field to overwrite."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch, _ = with_fields(batch, (self.from_,))
        batch = batch.split(self.to)
        empty = Column.repeated("", len(batch))  # shared by all fields without any value
        columns = dict[int, Column]()
        for field in range(1, self.to):
            column = batch.column(field)
            if not column.present.any():
                column = empty
            elif not column.present.all():
                column = Column(column.data, column.starts, widths(column))
            columns[field] = column
        columns[self.to] = batch.column(self.from_)
        return batch.with_columns(columns)

    def moved(self, fields: Mapping[int, T]) -> dict[int, T]:
        return _moved(fields, {self.to: self.from_})


def _moved(fields: Mapping[int, T], sources: Mapping[int, int]) -> dict[int, T]:
    """Return the fields, with each key of `sources` overwritten by the field that is its value."""
    result = {field: value for field, value in fields.items() if field not in sources}
    for field, source in sources.items():
        if source in fields:
            result[field] = fields[source]
    return result


@dataclass(frozen=True, slots=True)
class DuplicateMono(LineTransform):
    """Copy field 1 to field 2 of a monolingual line; a line with two sides is unfit."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch = batch.split(2)
        lines = np.flatnonzero(batch.columns[1].present).tolist()
        if lines:
            reason = "has a second field already; duplicate_mono makes one"
            raise LineFault(dict.fromkeys(lines, reason))
        return batch.with_columns({2: batch.columns[0]})

    def moved(self, fields: Mapping[int, T]) -> dict[int, T]:
        return _moved(fields, {2: 1})


@dataclass(frozen=True, slots=True)
class Multiply(LineTransform):
    """Copy field 1 over the fields 2 to n; further fields stay. (`repeat` copies whole lines.)"""

    n: Copies = 2
    """The number of fields that get the text of field 1."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch = batch.split(1)
        return batch.with_columns(dict.fromkeys(range(1, self.n + 1), batch.columns[0]))

    def moved(self, fields: Mapping[int, T]) -> dict[int, T]:
        return _moved(fields, dict.fromkeys(range(2, self.n + 1), 1))


@dataclass(frozen=True, slots=True)
class KeepFields(LineTransform):
    """Keep only these fields, in this order; [2, 1] swaps the sides."""

    fields: Fields = (1, 2)
    """The fields to keep."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch, fields = with_fields(batch, self.fields)
        return Batch(tuple(batch.column(field) for field in fields), None, batch.origins)

    def moved(self, fields: Mapping[int, T]) -> dict[int, T]:
        return {new: fields[old] for new, old in enumerate(self.fields, 1) if old in fields}
