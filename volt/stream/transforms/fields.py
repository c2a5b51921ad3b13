"""What transforms share: the tab-separated fields of a batch, split once, changed as columns, and joined again.

Fields count from 1, here as on the command line: field 1 is what stands before the first tab. By convention field 1 is
the source side and field 2 the target side. A transform that is given no fields takes these two, or field 1 alone in
lines that have no second. A line that lacks a named field is unfit, and the error policy of the stream says what
happens to it. Inside Python a row is a list, whose indices count from 0; `index_of` is where the one becomes the other.

>>> map_fields(Batch.of(["a\\tb\\tc", "d"]), lambda values: [value.upper() for value in values]).lines
['A\\tB\\tc', 'D']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch, LineFault

Fields = tuple[int, ...]  # numbers of fields, from 1
N_SIDES = 2
MOST_FIELDS = 1 << 16  # that a number may name: `copy` makes the fields before the one that it writes


def rows_of(batch: Batch, *, fields: Fields | None = None) -> list[list[str]]:
    """The fields of each line. Raises LineFault for the lines that lack one of `fields`.

    >>> rows_of(Batch.of(["a\\tb", ""]))
    [['a', 'b'], ['']]
    """
    rows = [line.split("\t") for line in batch.lines]
    last = max(fields or (), default=1)
    if last > 1 and min(map(len, rows), default=last) < last:
        raise LineFault({i: missing(len(row), last) for i, row in enumerate(rows) if len(row) < last})
    return rows


def index_of(field: int, *, option: str = "field") -> int:
    """The index in a row of the field with a number: the one place where counting from 1 becomes counting from 0.

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
    """The indices in a row of several fields.

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


def joined(rows: Sequence[Sequence[str]]) -> list[str]:
    """Fields → lines.

    >>> joined([["a", "b"]])
    ['a\\tb']
    """
    return ["\t".join(row) for row in rows]


def map_fields(batch: Batch, function: Callable[[list[str]], Sequence[str]], *, fields: Fields | None = None) -> Batch:
    """A batch with the values of the fields replaced by those that `function` makes of them.

    function: takes the values of all lines, line after line, and gives one new value for each.
    Raises LineFault for lines that lack a named field, or that the new values would break.
    """
    rows = rows_of(batch, fields=fields)
    if fields is None:
        changed = iter(function([value for row in rows for value in row[:N_SIDES]]))
        for row in rows:
            row[:N_SIDES] = islice(changed, len(row[:N_SIDES]))
    else:
        indices = indices_of(fields)
        changed = iter(function([row[index] for row in rows for index in indices]))
        for row in rows:
            for index in indices:
                row[index] = next(changed)
    return batch.with_lines(joined(rows))


def check_values(rows: Sequence[Sequence[str]]) -> None:
    """Raise LineFault for the rows with a value, made by a transform, that holds a tab or a line feed.

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
