"""Apply functions to chosen fields of a batch.

Fields count from 1: field 1 is the source side, field 2 the target side. By default a transform takes both, or only
field 1 in lines without field 2. A line that lacks a field named in the options is unfit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.errors import StreamError
from volt.stream.transforms.column import Column, Longs, holding_bytes
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import Fields
from volt.stream.transforms.transform import LineFault

N_SIDES = 2


def with_fields(batch: Batch, fields: Fields | None) -> tuple[Batch, Fields]:
    """Return the batch, split into at least these fields (by default both sides), and the fields' numbers.

    Raises LineFault for lines that lack one of `fields`.
    """
    batch = batch.split(max(fields or (N_SIDES,)))
    if fields is None:
        return batch, tuple(range(1, N_SIDES + 1))
    last = max(fields)
    if not batch.columns[last - 1].present.all():
        short = np.flatnonzero(~batch.columns[last - 1].present)
        n_fields = batch.take(short).n_fields
        raise LineFault(
            {int(i): missing(int(n), last) for i, n in zip(short, n_fields, strict=True)}
        )
    return batch, fields


def missing(n_fields: int, field: int) -> str:
    return f"field {field} is missing: the line has {n_fields} field{'s' * (n_fields != 1)} (fields count from 1)"


def map_columns(
    batch: Batch, function: Callable[[Column], Column], *, fields: Fields | None = None
) -> Batch:
    r"""Return a batch with `function` applied to the chosen fields, by default 1 and 2.

    function: takes a column without missing values; returns a column of equal length

    >>> map_columns(Batch.of(["a\tb\tc", "d"]), lambda column: Column.repeated("x", len(column))).lines
    ['x\tx\tc', 'x']
    """

    def changed(column: Column, number: int) -> Column:
        inputs = column if (present := column.present).all() else column.take(present)
        output = function(inputs)
        if len(output) != len(inputs):
            raise StreamError(
                f"a function returned {len(output)} values for {len(inputs)}; return one for each"
            )
        return output if inputs is column else column.replaced(present, output)

    return _with_changed(batch, changed, fields)


def _with_changed(
    batch: Batch, function: Callable[[Column, int], Column], fields: Fields | None
) -> Batch:
    batch, numbers = with_fields(batch, fields)
    columns = {
        number: batch.columns[number - 1]
        for number in numbers
        if batch.columns[number - 1].present.any()
    }
    return batch.with_columns(
        {number: function(column, number) for number, column in columns.items()}
    )


class Draws(NamedTuple):
    """The random numbers of a field, one for each origin."""

    field: int
    rng: LineRng
    origins: Longs

    @property
    def words(self) -> NDArray[np.uint64]:
        return self.rng.words(self.origins)


def each_field(
    batch: Batch,
    rng: LineRng,
    function: Callable[[Column, Draws], Column],
    *,
    fields: Fields | None,
) -> Batch:
    """Return a batch with `function` applied to the chosen fields, with independent random numbers for each.

    function: returns (n_lines,) values; missing values stay missing
    If the number of values changes, raises LineFault for the lines that contain a line end.
    """

    def changed(column: Column, number: int) -> Column:
        output = function(column, Draws(number, rng.at(number), batch.origins))
        if len(output) != len(column):
            raise LineFault(
                {
                    i: "contains a line end"
                    for i, value in enumerate(column.strings())
                    if "\n" in value
                }
            )
        if output is column or column.present.all():
            return output
        return Column(output.data, output.starts, np.where(column.present, output.sizes, -1))

    return _with_changed(batch, changed, fields)


def map_strings(
    batch: Batch, function: Callable[[list[str]], Sequence[str]], *, fields: Fields | None = None
) -> Batch:
    """Like `map_columns`, for a function of lists of strings."""
    return map_columns(batch, lambda column: Column.of(function(column.strings())), fields=fields)


def check_values(columns: Sequence[Column]) -> None:
    reasons = dict[int, str]()
    for column in columns:
        if not column.is_ids and len(breaking := np.flatnonzero(holding_bytes(column, b"\t\n"))):
            values = zip(breaking.tolist(), column.take(breaking).strings(), strict=True)
            reasons |= {
                i: f"made a tab or a line feed: {value!r}"
                for i, value in values
                if i not in reasons
            }
    if reasons:
        raise LineFault(reasons)
