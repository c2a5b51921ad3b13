"""Base classes of transforms, functions over chosen fields, and the checks of options.

Fields count from 1: field 1 is the source side, field 2 the target side. By default a transform takes both, or field 1
alone in lines without a second. A line that lacks a named field is unfit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from volt import arguments
from volt.errors import ConfigError, StreamError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column, Mask
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import Call, LineFault, LoadedFiles, Opened, signature

Fields = tuple[int, ...]  # numbers of fields, from 1
N_SIDES = 2
MOST_FIELDS = 1 << 16  # that a number may name: `copy` makes the fields before the one that it writes


class ConfiguredTransform:
    """Base class of transforms that a configuration can name. Attribute docstrings become the schema's descriptions."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        "alias_generator": lambda name: name.rstrip("_"),  # `from_` is `from` in YAML
    }


class LineTransform(ConfiguredTransform):
    __slots__ = ()
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True


class FileTransform(ConfiguredTransform):
    __slots__ = ()
    name: ClassVar[str]

    def load(self, files: LoadedFiles) -> tuple[Call, dict[str, str]]:
        """Return the call with the loaded file, and option → the file's fingerprint. Raises VoltError if the file is
        invalid."""
        raise NotImplementedError

    def opened(self, files: LoadedFiles) -> Opened:
        call, fingerprints = self.load(files)
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        options = {name.rstrip("_"): signature(getattr(self, name)) for name in names if name not in fingerprints}
        return Opened(self, call, {"type": type(self).__name__, **options, **fingerprints})

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, rng)

    def signature(self) -> dict[str, Any]:
        return self.opened(LoadedFiles()).values


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
        raise LineFault({int(i): missing(int(n), last) for i, n in zip(short, n_fields, strict=True)})
    return batch, fields


def index_of(field: int, *, option: str = "field") -> int:
    field = arguments.whole(field, option)
    if field < 1:
        raise ConfigError(f"{option}: {field}; fields count from 1, the first is field 1")
    if field > MOST_FIELDS:
        raise ConfigError(f"{option}: {field}; a field's number is {MOST_FIELDS:,} at most")
    return field - 1


def missing(n_fields: int, field: int) -> str:
    return f"field {field} is missing: the line has {n_fields} field{'s' * (n_fields != 1)} (fields count from 1)"


def map_columns(batch: Batch, function: Callable[[Column], Column], *, fields: Fields | None = None) -> Batch:
    r"""Return a batch with `function` applied to the chosen fields, by default 1 and 2.

    function: takes a column without missing values; returns a column of equal length

    >>> map_columns(Batch.of(["a\tb\tc", "d"]), lambda column: Column.repeated("x", len(column))).lines
    ['x\tx\tc', 'x']
    """
    batch, numbers = with_fields(batch, fields)
    changed = dict[int, Column]()
    for number in numbers:
        column = batch.columns[number - 1]
        if not (present := column.present).any():
            continue
        inputs = column if present.all() else column.take(present)
        output = function(inputs)
        if len(output) != len(inputs):
            raise StreamError(f"{len(output)} values were made from {len(inputs)}")
        changed[number] = output if inputs is column else column.replaced(np.flatnonzero(present), output)
    return batch.with_columns(changed)


def map_strings(batch: Batch, function: Callable[[list[str]], Sequence[str]], *, fields: Fields | None = None) -> Batch:
    """Like `map_columns`, for a function of lists of strings."""
    return map_columns(batch, lambda column: Column.of(function(column.strings())), fields=fields)


def check_values(columns: Sequence[Column]) -> None:
    reasons = dict[int, str]()
    for column in columns:
        if not column.is_ids and len(breaking := np.flatnonzero(_breaks(column))):
            values = zip(breaking.tolist(), column.take(breaking).strings(), strict=True)
            reasons |= {i: f"made a tab or a line feed: {value!r}" for i, value in values if i not in reasons}
    if reasons:
        raise LineFault(reasons)


def _breaks(column: Column) -> Mask:
    text, ends = column.packed(end=0)
    is_break = (text == 0x09) | (text == 0x0A)
    if not is_break.any():
        return np.zeros(len(column), bool)
    counts = np.concatenate([[0], np.cumsum(is_break)])
    broken: Mask = np.diff(counts[np.concatenate([[0], ends])]) > 0
    return broken


def check_text_option(text: str, *, option: str) -> None:
    if not {"\t", "\n", "\r"}.isdisjoint(arguments.text(text, option)):
        raise ConfigError(
            f"{option}: {text!r} contains a tab or a line break, which separate fields and lines; remove it"
        )


def check_fields(fields: Fields | None, *, option: str = "fields", n_fields: int | None = None) -> None:
    """Raise ConfigError unless fields are `n_fields` distinct numbers from 1."""
    if fields is None:
        return
    if not isinstance(fields, tuple | list):
        raise arguments.refusal(fields, option, "give a tuple of numbers, such as (1, 2)")
    if not fields or (n_fields and len(fields) != n_fields):
        raise ConfigError(f"{option}: {len(fields)} fields; give {n_fields or 'one or more'}")
    for place, field in enumerate(fields):
        index_of(field, option=option)
        if field in fields[:place]:
            raise ConfigError(f"{option}: {field} is given twice; name each field once")


def check_probability(number: float, option: str) -> None:
    if not 0 <= arguments.number(number, option) <= 1:
        raise ConfigError(f"{option}: {number}; give a probability from 0 to 1")


def take_file(transform: object, option: str) -> None:
    path = arguments.path(getattr(transform, option), option)
    if not path:
        raise ConfigError(f"{option} is empty; give the path of a file")
    object.__setattr__(transform, option, Path(path))
