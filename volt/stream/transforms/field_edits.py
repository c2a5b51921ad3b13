r"""Append, copy, select or reorder the fields of a line.

>>> KeepFields(fields=(2, 1))(Batch.of(["ein Haus\ta house"]), LineRng(1, 2)).lines
['a house\tein Haus']

`moved` tells `check_order` where the content of fields goes: for a mapping from field numbers to
anything, such as the tags in the field, it returns the mapping after the transform.

>>> KeepFields(fields=(2, 1)).moved({1: "German", 2: "English", 3: "id"})
{1: 'English', 2: 'German'}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from volt.stream.transforms.column import Column, widths
from volt.stream.transforms.fields import with_fields
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.options import Copies, FieldNumber, Fields, FieldText
from volt.stream.transforms.tags import surround
from volt.stream.transforms.transform import LineFault, LineTransform

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Append(LineTransform):
    """Append a constant text as the last field. (A function of `user` can append its result.)"""

    text: FieldText
    """The new field."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        rest = batch.rest or Column.missing(len(batch))
        if rest.present.any():
            rest = surround(rest, after="\t" + self.text)

        # A line with k fields in `columns` gets the text in column k, its first missing column
        columns = [*batch.columns, rest]
        n_present = np.sum([column.present for column in columns], axis=0)
        for index, column in enumerate(columns):
            lines = np.flatnonzero(n_present == index)
            text = Column.repeated(self.text, len(lines))
            if len(lines) == len(batch):
                columns[index] = text
            elif len(lines):
                columns[index] = column.replaced(lines, text)

        new_rest = None if batch.rest is None else columns.pop()
        return Batch(tuple(columns), new_rest, batch.origins)


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

    def moved(self, contents: Mapping[int, T]) -> dict[int, T]:
        return _copy_contents(contents, {self.to: self.from_})


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

    def moved(self, contents: Mapping[int, T]) -> dict[int, T]:
        return _copy_contents(contents, {2: 1})


@dataclass(frozen=True, slots=True)
class Multiply(LineTransform):
    """Copy field 1 over the fields 2 to n; further fields stay. (`repeat` copies whole lines.)"""

    n: Copies = 2
    """The number of fields that get the text of field 1."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch = batch.split(1)
        return batch.with_columns(dict.fromkeys(range(1, self.n + 1), batch.columns[0]))

    def moved(self, contents: Mapping[int, T]) -> dict[int, T]:
        return _copy_contents(contents, dict.fromkeys(range(2, self.n + 1), 1))


@dataclass(frozen=True, slots=True)
class KeepFields(LineTransform):
    """Keep only these fields, in this order; [2, 1] swaps the sides."""

    fields: Fields = (1, 2)
    """The fields to keep."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch, fields = with_fields(batch, self.fields)
        return Batch(tuple(batch.column(field) for field in fields), None, batch.origins)

    def moved(self, contents: Mapping[int, T]) -> dict[int, T]:
        return {new: contents[old] for new, old in enumerate(self.fields, 1) if old in contents}


def _copy_contents(contents: Mapping[int, T], source_of: Mapping[int, int]) -> dict[int, T]:
    """Return the contents of fields after copying.

    source_of: overwritten field → the field copied over it
    """
    result = {field: content for field, content in contents.items() if field not in source_of}
    for field, source in source_of.items():
        if source in contents:
            result[field] = contents[source]
    return result
