r"""Put tags into fields, and remove a tag from a translation.

>>> Tag(text="[BT]")(Batch.of(["ein Haus\ta house"]), LineRng(1, 2)).lines
['[BT] ein Haus\ta house']
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from volt.errors import ConfigError
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import TARGET, map_columns, map_strings
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.options import Fields, FieldText
from volt.stream.transforms.transform import LineTransform


@dataclass(frozen=True, slots=True)
class Tag(LineTransform):
    """Put a tag before (or after) fields, such as "[BT]" before the source side of back-translated
    data."""

    text: FieldText
    """The tag."""
    fields: Fields = (1,)
    """The fields to tag."""
    separator: FieldText = " "
    """The text between the tag and the field; may be empty."""
    position: Literal["start", "end"] = "start"
    """Where the field gets the tag."""

    @property
    def affixes(self) -> tuple[str, str]:
        """The texts before and after a tagged field."""
        if self.position == "start":
            return self.text + self.separator, ""
        return "", self.separator + self.text

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        before, after = self.affixes
        tagged = partial(surround, before=before, after=after)
        return map_columns(batch, tagged, fields=self.fields)

    def special_tokens(self) -> tuple[str, ...]:
        return _split_tokens(self.text)

    def inverse(self) -> Untag | None:
        return Untag(self) if TARGET in self.fields else None


def _split_tokens(text: str | None) -> tuple[str, ...]:
    return tuple(token for token in (text or "").split(" ") if token)


@dataclass(frozen=True, slots=True)
class Untag(LineTransform):
    """Remove a tag from the target side of lines that have it."""

    tag: Tag

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        before, after = self.tag.affixes

        def remove_tags(values: list[str]) -> list[str]:
            return [
                "" if value == self.tag.text else value.removeprefix(before).removesuffix(after)
                for value in values
            ]

        return map_strings(batch, remove_tags, fields=(TARGET,))


@dataclass(frozen=True, slots=True)
class LangPrefixBoth(LineTransform):
    """Put both languages before field 1, as "<FROM_de> <TO_en> ". The task's languages are the
    default."""

    from_task: ClassVar[tuple[str, ...]] = ("src_lang", "tgt_lang", "extra_prefix")
    fields: ClassVar[Fields] = (1,)
    src_lang: FieldText | None = None
    """The language of field 1; by default the task's."""
    tgt_lang: FieldText | None = None
    """The language of field 2; by default the task's."""
    extra_prefix: FieldText | None = None
    """A further tag before field 1, after the languages, such as <BT>; by default the task's tag,
    if any."""

    def check(self) -> None:
        for option, language in (("src_lang", self.src_lang), ("tgt_lang", self.tgt_lang)):
            if language is None:
                raise ConfigError(f"{option}: is missing; give it here, or as {option} of the task")
            if not language or " " in language:
                raise ConfigError(
                    f"{option}: {language!r}; give a language's name without spaces, such as de"
                )

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        tags = " ".join(self.special_tokens())

        def add_prefix(column: Column) -> Column:
            output = surround(column, before=f"{tags} ")
            is_empty = column.sizes == 0
            if is_empty.any():  # no space after the tags
                output = output.replaced(is_empty, Column.repeated(tags, int(is_empty.sum())))
            return output

        return map_columns(batch, add_prefix, fields=self.fields)

    def special_tokens(self) -> tuple[str, ...]:
        return f"<FROM_{self.src_lang}>", f"<TO_{self.tgt_lang}>", *_split_tokens(self.extra_prefix)


def surround(column: Column, *, before: str = "", after: str = "") -> Column:
    """Put `before` and `after` around each value; missing values stay missing."""
    from volt.kernels.columns import put_values

    column = column.as_text()
    prefix = np.frombuffer(before.encode(), np.uint8)
    suffix = np.frombuffer(after.encode(), np.uint8)
    sizes = np.where(column.present, column.sizes + len(prefix) + len(suffix), 0)
    starts = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), np.uint8)
    put_values(*column.views, prefix, suffix, out, starts.copy())
    return Column(out, starts, np.where(column.present, sizes, -1))
