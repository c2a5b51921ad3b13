r"""Apply functions to chosen fields of a batch.

Fields count from 1: field 1 is the source side, field 2 the target side. By default a transform
takes both, or only field 1 in lines without field 2. A line that lacks a field named in the options
is unfit.

    fields     lines "a\tb", "c"
    None       "a", "c" are field 1; "b" and a missing value are field 2
    (2,)       the second line is unfit
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from volt.array_types import Longs
from volt.display import counted
from volt.errors import StreamError
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch, Bits, LineRng
from volt.stream.transforms.options import Fields
from volt.stream.transforms.transform import LineFault

SOURCE = 1
TARGET = 2
BOTH_SIDES = (SOURCE, TARGET)
N_SIDES = len(BOTH_SIDES)


def with_fields(batch: Batch, fields: Fields | None) -> tuple[Batch, Fields]:
    """Return the batch, split into at least these fields (by default both sides), and the fields'
    numbers.

    Raises LineFault for lines that lack one of `fields`.
    """
    if fields is None:
        return batch.split(N_SIDES), BOTH_SIDES

    last = max(fields)
    batch = batch.split(last)
    short = np.flatnonzero(~batch.column(last).present)
    if len(short):
        n_fields = batch.take(short).n_fields.tolist()
        reasons = [describe_missing(n, last) for n in n_fields]
        raise LineFault(dict(zip(short.tolist(), reasons, strict=True)))
    return batch, fields


def describe_missing(n_fields: int, field: int) -> str:
    """Return the reason why a line of `n_fields` fields, which lacks a field, is unfit."""
    n = counted(n_fields, "field")
    return f"field {field} is missing: the line has {n} (fields count from 1)"


def filled_columns(batch: Batch, fields: Sequence[int]) -> dict[int, Column]:
    """Return the columns of those fields that at least one line has."""
    columns = {field: batch.column(field) for field in fields}
    return {field: column for field, column in columns.items() if column.present.any()}


def map_columns(
    batch: Batch, function: Callable[[Column], Column], *, fields: Fields | None = None
) -> Batch:
    r"""Return a batch with `function` applied to the chosen fields, by default 1 and 2.

    function: takes a column without missing values; returns a column of equal length

    >>> map_columns(Batch.of(["a\tb\tc", "d"]), lambda column: Column.repeated("x", len(column))).lines
    ['x\tx\tc', 'x']
    """
    batch, fields = with_fields(batch, fields)
    columns = filled_columns(batch, fields)
    for field, column in columns.items():
        present = column.present
        inputs = column if present.all() else column.take(present)
        output = function(inputs)
        if len(output) != len(inputs):
            raise StreamError(
                f"a function returned {len(output)} values for {len(inputs)}; return one for each"
            )
        columns[field] = output if inputs is column else column.replaced(present, output)
    return batch.with_columns(columns)


class Draws(NamedTuple):
    """The random numbers of a field.

    field: the field's number
    rng: the field's random numbers
    origins: (n_lines,) the batch's origins
    """

    field: int
    rng: LineRng
    origins: Longs

    @property
    def words(self) -> Bits:
        """(n_lines,) 64 random bits for each line."""
        return self.rng.words(self.origins)


def each_field(
    batch: Batch,
    rng: LineRng,
    function: Callable[[Column, Draws], Column],
    *,
    fields: Fields | None,
) -> Batch:
    """Return a batch with `function` applied to the chosen fields, with independent random numbers
    for each.

    function: returns (n_lines,) values; missing values stay missing
    If the number of values changes, raises LineFault for the lines that contain a line end.
    """
    batch, fields = with_fields(batch, fields)
    columns = filled_columns(batch, fields)
    for field, column in columns.items():
        output = function(column, Draws(field, rng.at(field), batch.origins))
        if len(output) != len(column):
            breaking = [i for i, value in enumerate(column.strings()) if "\n" in value]
            raise LineFault(dict.fromkeys(breaking, "contains a line end"))
        if output is not column and not column.present.all():
            sizes = np.where(column.present, output.sizes, -1)
            output = Column(output.data, output.starts, sizes)
        columns[field] = output
    return batch.with_columns(columns)


def map_strings(
    batch: Batch, function: Callable[[list[str]], Sequence[str]], *, fields: Fields | None = None
) -> Batch:
    """Like `map_columns`, for a function of lists of strings."""
    return map_columns(batch, lambda column: Column.of(function(column.strings())), fields=fields)
