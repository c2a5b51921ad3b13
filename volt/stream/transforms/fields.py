r"""Helpers that transforms share: the choice of fields, functions over columns, and the checks of options.

Fields count from 1: field 1 is the text before the first tab. By convention field 1 is the source side and field 2 the
target side. By default a transform takes these two, or field 1 alone in lines without a second. A line that lacks a
named field is unfit. Lists in Python count from 0; `index_of` converts.

>>> map_strings(Batch.of(["a\tb\tc", "d"]), lambda values: [value.upper() for value in values]).lines
['A\tB\tc', 'D']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError, StreamError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column
from volt.stream.transforms.transform import LineFault

Fields = tuple[int, ...]  # numbers of fields, from 1
N_SIDES = 2
MOST_FIELDS = 1 << 16  # that a number may name: `copy` makes the fields before the one that it writes


def with_fields(batch: Batch, fields: Fields | None) -> tuple[Batch, Fields]:
    """Return the batch, cut as far as these fields, and their numbers; without any, the two sides.

    Raises LineFault for the lines that lack one of `fields`. Without any, a line may lack field 2.

    >>> with_fields(Batch.of(["a\\tb", ""]), None)
    (<Batch: 2 lines>, (1, 2))
    """
    batch = batch.split(max(fields or (N_SIDES,)))
    if fields is None:
        return batch, tuple(range(1, N_SIDES + 1))
    last = max(fields)
    if not batch.columns[last - 1].present.all():
        short = np.flatnonzero(~batch.columns[last - 1].present)
        n_fields = batch.take(short).n_fields
        raise LineFault({int(i): missing(int(n), last) for i, n in zip(short, n_fields, strict=True)})
    return batch, fields


def index_of(field: int, *, option: str = "field") -> int:
    """Return the index in a row of the field with a number: the one place where counting from 1 becomes counting from
    0.

    Raises ConfigError if no field can have that number.

    >>> ["source", "target"][index_of(2)]
    'target'
    >>> index_of(0)
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: field: 0; fields count from 1, the first is field 1
    """
    field = arguments.whole(field, option)
    if field < 1:
        raise ConfigError(f"{option}: {field}; fields count from 1, the first is field 1")
    if field > MOST_FIELDS:
        raise ConfigError(f"{option}: {field}; a field's number is {MOST_FIELDS:,} at most")
    return field - 1


def indices_of(fields: Fields) -> list[int]:
    """Return the indices in a row of several fields.

    >>> indices_of((2, 1))
    [1, 0]
    """
    return [index_of(field) for field in fields]


def missing(n_fields: int, field: int) -> str:
    """Why a line is unfit that lacks a field.

    >>> missing(1, 3)
    'field 3 is missing: the line has 1 field (fields count from 1)'
    """
    return f"field {field} is missing: the line has {n_fields} field{'s' * (n_fields != 1)} (fields count from 1)"


def map_columns(batch: Batch, function: Callable[[Column], Column], *, fields: Fields | None = None) -> Batch:
    """Return a batch with its chosen fields replaced by what `function` makes of them.

    function: of a column without missing values; gives as many values
    fields: by default 1 and, where a line has it, 2
    Raises LineFault for lines that lack a named field, StreamError if the function gives more or fewer values.
    """
    batch, numbers = with_fields(batch, fields)
    changed = {number: _changed(batch.columns[number - 1], function) for number in numbers}
    return batch.with_columns(changed)


def _changed(column: Column, function: Callable[[Column], Column]) -> Column:
    present = column.present
    if not present.any():
        return column
    inputs = column if present.all() else column.take(present)
    output = function(inputs)
    if len(output) != len(inputs):
        raise StreamError(f"{len(output)} values were made from {len(inputs)}")
    return output if inputs is column else column.replaced(np.flatnonzero(present), output)


def map_strings(batch: Batch, function: Callable[[list[str]], Sequence[str]], *, fields: Fields | None = None) -> Batch:
    """Return a batch with the values of its fields replaced by those that `function` makes of them, as texts.

    function: takes the values of a field, line after line, and gives one new value for each
    Raises LineFault for lines that lack a named field.
    """
    return map_columns(batch, lambda column: Column.of(function(column.strings())), fields=fields)


def check_values(columns: Sequence[Column]) -> None:
    """Raise LineFault for the lines with a value, made by a transform, that holds a tab or a line feed.

    >>> check_values([Column.of(["a", "c\\nd"])])
    Traceback (most recent call last):
        ...
    volt.stream.transforms.transform.LineFault: 1 unfit lines, the first at index 1: made a tab or a line feed: 'c\\nd'
    """
    reasons = dict[int, str]()
    for column in columns:
        if not column.is_ids and len(breaking := np.flatnonzero(_breaks(column))):
            values = column.take(breaking).strings()
            result = zip(breaking.tolist(), values, strict=True)
            reasons |= {i: f"made a tab or a line feed: {value!r}" for i, value in result if i not in reasons}
    if reasons:
        raise LineFault(reasons)


def _breaks(column: Column) -> NDArray[np.bool_]:
    """Return which values hold a tab or a line feed. The usual answer, none, takes one look at the bytes."""
    text, ends = column.packed(end=0)
    result = (text == 0x09) | (text == 0x0A)
    if not result.any():
        return np.zeros(len(column), bool)
    counts = np.concatenate([[0], np.cumsum(result)])
    broken: NDArray[np.bool_] = np.diff(counts[np.concatenate([[0], ends])]) > 0
    return broken


def is_breaking(text: str) -> bool:
    """Check whether a text cannot be a field.

    >>> is_breaking("a\\tb"), is_breaking("a b")
    (True, False)
    """
    return "\t" in text or "\n" in text


class ConfiguredTransform:
    """Base of the transforms that a configuration can name; says how pydantic checks and documents their options."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        "alias_generator": lambda name: name.rstrip("_"),  # `from_` is `from` in YAML
    }


def check_text_option(text: str, *, option: str) -> None:
    """Raise ConfigError if a constant of the configuration holds a tab or a line break.

    >>> check_text_option("[BT]", option="text")
    """
    if is_breaking(arguments.text(text, option)) or "\r" in text:
        raise ConfigError(
            f"{option}: {text!r} holds a tab or a line break, which separate fields and lines; leave it out"
        )


def check_fields(fields: Fields | None, *, option: str = "fields", n_fields: int | None = None) -> None:
    """Raise ConfigError if no field is named, one is below 1 or named twice, or there are not `n_fields` of them.

    >>> check_fields((2, 2))
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: fields: 2 is given twice; name each field once
    """
    if fields is None:
        return
    if not isinstance(fields, tuple | list):
        raise arguments.refusal(fields, option, "give a tuple of numbers, such as (1, 2)")
    if not fields or (n_fields and len(fields) != n_fields):
        raise ConfigError(f"{option}: {len(fields)} fields; give {n_fields or 'one or more'}")
    for place, field in enumerate(fields):
        check_field(field, option=option)
        if field in fields[:place]:
            raise ConfigError(f"{option}: {field} is given twice; name each field once")


def take_file(transform: object, option: str) -> None:
    """Let a transform's option be a Path, which marks files, where it was given as a str. For its own constructor."""
    path = arguments.path(getattr(transform, option), option)
    if not path:
        raise ConfigError(f"{option} is empty; give the path of a file")
    object.__setattr__(transform, option, Path(path))


def check_field(field: int | None, *, option: str) -> None:
    """Raise ConfigError if no field can have this number; None names no field and passes.

    >>> check_field(2, option="to")
    """
    if field is not None:
        index_of(field, option=option)
