"""What transforms share: the tab-separated fields of a batch, split once, changed as columns, and joined again.

Fields are numbered from 0; by convention 0 is the source side and 1 the target side. Where a transform is given no
fields, it takes these two, or the first alone in lines that have no second. A named field that a line lacks makes
that line unfit, which the stream's error policy settles.

>>> map_fields(Batch.of(["a\\tb\\tc", "d"]), lambda values: [value.upper() for value in values]).lines
['A\\tB\\tc', 'D']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import ClassVar

from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch, LineFault

Fields = tuple[int, ...]
N_SIDES = 2


class Step:
    """Base of the transforms that a configuration can name; carries how pydantic checks and documents their options."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        "alias_generator": lambda name: name.rstrip("_"),  # `from_` is `from` in YAML
    }


def rows_of(batch: Batch, *, fields: Fields | None = None) -> list[list[str]]:
    """The fields of each line. Raises LineFault for the lines that lack one of `fields`.

    >>> rows_of(Batch.of(["a\\tb", ""]))
    [['a', 'b'], ['']]
    """
    rows = [line.split("\t") for line in batch.lines]
    last = max(fields, default=0) if fields else 0
    if last and min(map(len, rows), default=last + 1) <= last:
        raise LineFault({i: missing(len(row), last) for i, row in enumerate(rows) if len(row) <= last})
    return rows


def missing(n_fields: int, field: int) -> str:
    """Why a line is unfit that lacks a field.

    >>> missing(1, 2)
    'field 2 is missing: the line has 1 field (they are numbered from 0)'
    """
    return f"field {field} is missing: the line has {n_fields} field{'s' * (n_fields != 1)} (they are numbered from 0)"


def joined(rows: Sequence[Sequence[str]]) -> list[str]:
    """Fields → lines.

    >>> joined([["a", "b"]])
    ['a\\tb']
    """
    return ["\t".join(row) for row in rows]


def map_fields(batch: Batch, function: Callable[[list[str]], Sequence[str]], *, fields: Fields | None = None) -> Batch:
    """The values of the fields of all lines, line after line, through `function`, one to one.

    Raises LineFault for lines that lack a named field, or that the new values would break.
    """
    rows = rows_of(batch, fields=fields)
    if fields is None:
        changed = iter(function([value for row in rows for value in row[:N_SIDES]]))
        for row in rows:
            row[:N_SIDES] = islice(changed, len(row[:N_SIDES]))
    else:
        changed = iter(function([row[field] for row in rows for field in fields]))
        for row in rows:
            for field in fields:
                row[field] = next(changed)
    return batch.with_lines(joined(rows))


def check_values(rows: Sequence[Sequence[str]]) -> None:
    """Raise LineFault for the rows in which a value that was made holds a tab or a line feed.

    >>> check_values([["a"], ["b", "c\\nd"]])
    Traceback (most recent call last):
        ...
    volt.stream.transforms.batch.LineFault: 1 unfit lines, the first at index 1: made a tab or a line feed: 'c\\nd'
    """
    if is_breaking("".join(chain.from_iterable(rows))):
        bad = {i: next(filter(is_breaking, row)) for i, row in enumerate(rows) if any(map(is_breaking, row))}
        raise LineFault({i: f"made a tab or a line feed: {value!r}" for i, value in bad.items()})


def is_breaking(text: str) -> bool:
    """Whether a text cannot be a field.

    >>> is_breaking("a\\tb"), is_breaking("a b")
    (True, False)
    """
    return "\t" in text or "\n" in text


def check_text_option(text: str, *, option: str) -> None:
    """Raise ConfigError if a constant of the configuration holds a tab or a line break.

    >>> check_text_option("[BT]", option="text")
    """
    if is_breaking(text) or "\r" in text:
        raise ConfigError(f"{option}: {text!r} holds a tab or a line break, which separate fields and lines")


def check_fields(fields: Fields | None, *, option: str = "fields", n_fields: int | None = None) -> None:
    """Raise ConfigError if fields are none, negative or repeated, or not `n_fields`.

    >>> check_fields((0, 0))
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: fields: 0 is given twice; name each field once
    """
    if fields is None:
        return
    if not fields or (n_fields and len(fields) != n_fields):
        raise ConfigError(f"{option}: {len(fields)} fields; give {n_fields or 'one or more'}")
    for place, field in enumerate(fields):
        check_field(field, option=option)
        if field in fields[:place]:
            raise ConfigError(f"{option}: {field} is given twice; name each field once")


def check_field(field: int | None, *, option: str) -> None:
    """Raise ConfigError if a field's number is negative.

    >>> check_field(2, option="to")
    """
    if field is not None and field < 0:
        raise ConfigError(f"{option}: {field}; fields are numbered from 0")
