r"""Transforms that add or remove tags, fields, copies and final ids.

>>> Tag(text="[BT]")(Batch.of(["ein Haus\ta house"]), LineRng(1, 2)).lines
['[BT] ein Haus\ta house']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import map_columns, map_strings, with_fields
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import (
    ConfiguredTransform,
    Copies,
    FieldNumber,
    Fields,
    FieldText,
    LineTransform,
    Size,
)
from volt.stream.transforms.transform import LineFault

TARGET = 2  # the field of the target side


@dataclass(frozen=True, slots=True)
class Tag(LineTransform):
    """Put a tag before (or after) fields, such as "[BT]" before the source side of back-translated data."""

    text: FieldText
    """The tag."""
    fields: Fields = (1,)
    """The fields to tag."""
    separator: FieldText = " "
    """The text between the tag and the text; may be empty."""
    position: Literal["start", "end"] = "start"
    """The end of the field that gets the tag."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        before = self.text + self.separator if self.position == "start" else ""
        after = "" if self.position == "start" else self.separator + self.text
        return map_columns(batch, lambda column: surrounded(column, before, after), fields=self.fields)

    def special_tokens(self) -> tuple[str, ...]:
        return tuple(token for token in self.text.split(" ") if token)

    def inverse(self) -> Untag | None:
        return Untag(self) if TARGET in self.fields else None


@dataclass(frozen=True, slots=True)
class Untag(LineTransform):
    """Remove a tag from the target side of lines that have it."""

    tag: Tag

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        text, separator = self.tag.text, self.tag.separator

        def without_tag(value: str) -> str:
            at_start = self.tag.position == "start"
            rest = value.removeprefix(text + separator) if at_start else value.removesuffix(separator + text)
            return "" if value == text else rest

        return map_strings(batch, lambda values: list(map(without_tag, values)), fields=(TARGET,))


def surrounded(column: Column, before: str, after: str) -> Column:
    """Put one string before and one after each value; missing values stay missing."""
    from volt.kernels.column_text import surround

    column = column.as_text()
    head, tail = (np.frombuffer(text.encode(), np.uint8) for text in (before, after))
    sizes = np.where(column.present, column.sizes + len(head) + len(tail), 0)
    starts, out = np.cumsum(sizes) - sizes, np.empty(int(sizes.sum()), np.uint8)
    surround(column.data, column.starts, column.sizes, head, tail, out, starts)
    return Column(out, starts, np.where(column.present, sizes, -1))


@dataclass(frozen=True, slots=True)
class LangPrefixBoth(LineTransform):
    """Put both languages before field 1, as "<FROM_de> <TO_en> "; a task that names its languages gives them."""

    from_task: ClassVar[tuple[str, ...]] = ("src_lang", "tgt_lang", "extra_prefix")
    src_lang: FieldText | None = None
    """The language of field 1; by default the task's."""
    tgt_lang: FieldText | None = None
    """The language of field 2; by default the task's."""
    extra_prefix: FieldText | None = None
    """A further tag before field 1, after the languages, such as <BT>; by default the task's, if it has one."""

    def check(self) -> None:
        for option, language in (("src_lang", self.src_lang), ("tgt_lang", self.tgt_lang)):
            if language is None:
                raise ConfigError(f"{option}: is missing; give it here, or as {option} of the task")
            if not language or " " in language:
                raise ConfigError(f"{option}: {language!r}; give a language's name without spaces, such as de")

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        before = "".join(f"{token} " for token in self.special_tokens())

        def prefixed(column: Column) -> Column:
            output, empty = surrounded(column, before, ""), np.flatnonzero(column.sizes == 0)
            return output.replaced(empty, Column.repeated(before.rstrip(" "), len(empty))) if len(empty) else output

        return map_columns(batch, prefixed, fields=(1,))

    def special_tokens(self) -> tuple[str, ...]:
        return f"<FROM_{self.src_lang}>", f"<TO_{self.tgt_lang}>", *filter(None, (self.extra_prefix or "").split(" "))


@dataclass(frozen=True, slots=True)
class Append(LineTransform):
    """Append a constant as a last field; `user` with `append: true` appends what a function returns."""

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
    """Copy one field over another; a new field may be added, with empty ones before it."""

    from_: FieldNumber = 1
    """The field to copy."""
    to: FieldNumber = 2
    """The field to overwrite."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch = with_fields(batch, (self.from_,))[0].split(self.to)
        empty = Column.repeated("", len(batch))  # one for all fields without any value
        before = {k: _filled(batch.columns[k - 1], empty) for k in range(1, self.to)}
        return batch.with_columns({**before, self.to: batch.columns[self.from_ - 1]})


def _filled(column: Column, empty: Column) -> Column:
    if column.present.all():
        return column
    return Column(column.data, column.starts, np.maximum(column.sizes, 0)) if column.present.any() else empty


@dataclass(frozen=True, slots=True)
class DuplicateMono(LineTransform):
    """Copy field 1 to field 2 of a monolingual line; a line with two sides is unfit."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch = batch.split(2)
        lines = np.flatnonzero(batch.columns[1].present).tolist()
        if lines:
            raise LineFault(dict.fromkeys(lines, "has a second field already; duplicate_mono makes one"))
        return batch.with_columns({2: batch.columns[0]})


@dataclass(frozen=True, slots=True)
class Multiply(LineTransform):
    """Copy field 1 over the fields 2 to n; further fields stay. (`repeat` makes equal lines.)"""

    n: Copies = 2
    """The number of fields that get the text of field 1."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch = batch.split(1)
        return batch.with_columns(dict.fromkeys(range(1, self.n + 1), batch.columns[0]))


@dataclass(frozen=True, slots=True)
class Repeat(ConfiguredTransform):
    """Repeat every line n times in a row; later random transforms draw for each copy."""

    is_compiled: ClassVar[bool] = True
    n: Copies = 2
    """The number of copies."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return batch.take(np.repeat(np.arange(len(batch)), self.n))

    def deterministic(self) -> None: ...


@dataclass(frozen=True, slots=True)
class KeepFields(LineTransform):
    """Keep only these fields, in this order; [2, 1] swaps the sides."""

    fields: Fields = (1, 2)
    """The fields to keep."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch, fields = with_fields(batch, self.fields)
        return Batch(tuple(batch.columns[field - 1] for field in fields), None, batch.origins)


@dataclass(frozen=True, slots=True)
class StripEos(LineTransform):
    """Remove one end-of-sentence id from the end of lines of ids."""

    id: Size = 2
    """The id, which is 2 in VOLT's vocabularies and in fairseq's."""
    fields: Fields | None = None
    """The fields of ids; by default 1 and, where a line has it, 2."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch, numbers = with_fields(batch, self.fields)
        columns = {number: batch.columns[number - 1] for number in numbers if batch.columns[number - 1].present.any()}
        reasons = dict[int, str]()
        for number, column in columns.items():
            texts = () if column.is_ids else np.flatnonzero(column.present).tolist()
            reasons |= dict.fromkeys(texts, f"field {number} is text, and strip_eos takes ids")
        if reasons:
            raise LineFault(reasons)
        for number, column in columns.items():
            filled, sizes = np.flatnonzero(column.sizes > 0), column.sizes.copy()
            sizes[filled] -= column.data[column.starts[filled] + sizes[filled] - 1] == self.id
            columns[number] = Column(column.data, column.starts, sizes)
        return batch.with_columns(columns)
