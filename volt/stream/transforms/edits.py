r"""Transforms of tags, fields, copies and ids. One line in, one line out, except for `repeat`.

Each is a frozen dataclass whose docstrings are its documentation in `volt stream schema`. None of them can introduce a
tab or a line break, or depends on anything but the line. Fields that are copied, kept or dropped move as views: no text
is read.

>>> Tag(text="[BT]")(Batch.of(["ein Haus\ta house"]), LineRng(1, 2)).lines
['[BT] ein Haus\ta house']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column, Longs
from volt.stream.transforms.fields import (
    ConfiguredTransform,
    Fields,
    check_field,
    check_fields,
    check_text_option,
    map_columns,
    map_strings,
    with_fields,
)
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import MOST_COPIES, LineFault


@dataclass(frozen=True, slots=True)
class StripEos(ConfiguredTransform):
    """Take the end-of-sentence id off lines of ids that end with it, once; a line without it stays as it is."""

    name: ClassVar[str] = "strip_eos"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    id: int = 2
    """The id, which is 2 in VOLT's vocabularies and in fairseq's."""
    fields: Fields | None = None
    """The fields of ids; by default 1 and, where a line has it, 2."""

    def __post_init__(self) -> None:
        arguments.whole(self.id, "id", low=0)
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        batch, numbers = with_fields(batch, self.fields)
        columns = {number: batch.columns[number - 1] for number in numbers if batch.columns[number - 1].present.any()}
        reasons = dict[int, str]()
        for number, column in columns.items():
            texts = () if column.is_ids else np.flatnonzero(column.present).tolist()
            reasons |= dict.fromkeys(texts, f"field {number} is text, and strip_eos takes ids")
        if reasons:
            raise LineFault(reasons)
        return batch.with_columns({number: stripped(column, self.id) for number, column in columns.items()})


def stripped(column: Column, eos: int) -> Column:
    """Return values of ids without the id `eos` at their ends; missing values stay missing."""
    held = np.flatnonzero(column.sizes > 0)
    sizes = column.sizes.copy()
    sizes[held] -= column.data[column.starts[held] + sizes[held] - 1] == eos
    return Column(column.data, column.starts, sizes)


TARGET = 2  # the field of the target side


@dataclass(frozen=True, slots=True)
class Tag(ConfiguredTransform):
    """Put a tag before (or after) fields, as "[BT]" before the source side of back-translated data."""

    name: ClassVar[str] = "tag"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    text: str
    """The tag."""
    fields: Fields = (1,)
    """The fields to tag."""
    separator: str = " "
    """The text between the tag and the text; may be empty."""
    position: Literal["start", "end"] = "start"
    """The end of the field that gets the tag."""

    def __post_init__(self) -> None:
        check_text_option(self.text, option="text")
        check_text_option(self.separator, option="separator")
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        before = self.text + self.separator if self.position == "start" else ""
        after = "" if self.position == "start" else self.separator + self.text
        return map_columns(batch, lambda column: surrounded(column, before, after), fields=self.fields)

    def special_tokens(self) -> tuple[str, ...]:
        """Return the tokens that it adds to lines, which a vocabulary of them needs.

        >>> Tag(text="[BT]").special_tokens()
        ('[BT]',)
        """
        return tuple(token for token in self.text.split(" ") if token)

    def inverse(self) -> Untag | None:
        """Return the transform that takes the tag off the target side; None if it goes to other fields alone."""
        return Untag(self) if TARGET in self.fields else None


@dataclass(frozen=True, slots=True)
class Untag:
    """Take a tag off the target side of lines that have it, at the place where it was put.

    tag: the transform that added it

    >>> Untag(Tag(text="<en>"))(Batch.of(["a\\t<en> a house", "b\\ta <en>", "c\\t<en>"]), LineRng(1, 2)).lines
    ['a\\ta house', 'b\\ta <en>', 'c\\t']
    """

    name: ClassVar[str] = "untag"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    tag: Tag

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return map_strings(batch, lambda values: list(map(self._without, values)), fields=(TARGET,))

    def _without(self, value: str) -> str:
        text, separator = self.tag.text, self.tag.separator
        if value == text:
            return ""
        return (
            value.removeprefix(text + separator)
            if self.tag.position == "start"
            else value.removesuffix(separator + text)
        )


def surrounded(column: Column, before: str, after: str) -> Column:
    """Return the values with one text before each and one after each; missing values stay missing.

    >>> surrounded(Column.of(["a", None]), "<", ">").to_arrow().to_pylist()
    ['<a>', None]
    """
    from volt.kernels.column_text import surround

    column = column.as_text()
    head, tail = (np.frombuffer(text.encode(), np.uint8) for text in (before, after))
    sizes = np.where(column.present, column.sizes + len(head) + len(tail), 0)
    starts, out = np.cumsum(sizes) - sizes, np.empty(int(sizes.sum()), np.uint8)
    surround(column.data, column.starts, column.sizes, head, tail, out, starts)
    return Column(out, starts, np.where(column.present, sizes, -1))


@dataclass(frozen=True, slots=True)
class Append(ConfiguredTransform):
    """Append a constant as a last field; `user` with `append: true` appends what a function returns."""

    name: ClassVar[str] = "append"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    text: str
    """The new field."""

    def __post_init__(self) -> None:
        check_text_option(self.text, option="text")

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        rest = Column.missing(len(batch)) if batch.rest is None else batch.rest
        *columns, rest = _appended([*batch.columns, rest], self.text)
        if batch.rest is None:
            return Batch((*columns, rest), None, batch.origins)
        return Batch(tuple(columns), rest, batch.origins)


def _appended(columns: list[Column], text: str) -> list[Column]:
    """Return the fields and the rest, with the text in the first field that a line lacks, or after the rest."""
    after = columns[-1]
    if after.present.any():
        columns = [*columns[:-1], surrounded(after, "", "\t" + text)]
    n_fields = sum((column.present for column in columns), np.zeros(len(after), np.int64))
    return [_filled(column, np.flatnonzero(n_fields == k), text) for k, column in enumerate(columns)]


def _filled(column: Column, indices: Longs, text: str) -> Column:
    if len(indices) == len(column):
        return Column.repeated(text, len(column))
    return column.replaced(indices, Column.repeated(text, len(indices))) if len(indices) else column


@dataclass(frozen=True, slots=True)
class Copy(ConfiguredTransform):
    """Copy one field over another; a field beyond the last is added, with empty ones before it where needed."""

    name: ClassVar[str] = "copy"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    from_: int = 1
    """The field to copy."""
    to: int = 2
    """The field to overwrite."""

    def __post_init__(self) -> None:
        check_field(self.from_, option="from")
        check_field(self.to, option="to")

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        batch, (source,) = with_fields(batch, (self.from_,))
        batch, empty = batch.split(self.to), Column.repeated("", len(batch))
        before = {k: _padded(batch.columns[k - 1], empty) for k in range(1, self.to)}
        return batch.with_columns({**before, self.to: batch.columns[source - 1]})


def _padded(column: Column, empty: Column) -> Column:
    """Return a column whose missing values are empty. Columns without any values are all the same one, to save
    memory.
    """
    if column.present.all():
        return column
    return Column(column.data, column.starts, np.maximum(column.sizes, 0)) if column.present.any() else empty


@dataclass(frozen=True, slots=True)
class Multiply(ConfiguredTransform):
    """Copy field 1 over the fields 2 to n; further fields stay. (`repeat` makes equal lines.)"""

    name: ClassVar[str] = "multiply"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    n: int = 2
    """How many fields hold the text of field 1."""

    def __post_init__(self) -> None:
        _check_number(self.n)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        batch = batch.split(1)
        return batch.with_columns(dict.fromkeys(range(1, self.n + 1), batch.columns[0]))


@dataclass(frozen=True, slots=True)
class Repeat(ConfiguredTransform):
    """Give every line n times in a row; random transforms after it then draw for each copy."""

    name: ClassVar[str] = "repeat"
    is_compiled: ClassVar[bool] = True
    n: int = 2
    """The number of copies."""

    def __post_init__(self) -> None:
        _check_number(self.n)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return batch.take(np.repeat(np.arange(len(batch)), self.n))

    def deterministic(self) -> None:
        """Return None: each line is given once."""


@dataclass(frozen=True, slots=True)
class KeepFields(ConfiguredTransform):
    """Keep these fields alone, in this order; [2, 1] swaps the sides."""

    name: ClassVar[str] = "keep_fields"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    fields: Fields = (1, 2)
    """The fields to keep."""

    def __post_init__(self) -> None:
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        batch, fields = with_fields(batch, self.fields)
        return Batch(tuple(batch.columns[field - 1] for field in fields), None, batch.origins)


def _check_number(n: int) -> None:
    if not 1 <= arguments.whole(n, "n") <= MOST_COPIES:
        raise ConfigError(f"n: {n}; give 1 or more, and {MOST_COPIES:,} at most")
