"""Transforms that change fields: case, tags, copies, columns. One line in, one line out, except for `repeat`.

Each is a frozen dataclass whose docstrings are its documentation in `volt stream schema`. None of them can introduce a
tab or a line break, or depends on anything but the line.

>>> import numpy as np
>>> Tag(text="[BT]")(Batch.of(["ein Haus\\ta house"]), np.random.default_rng(0)).lines
['[BT] ein Haus\\ta house']
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.fields import Fields, index_of, indices_of, joined, map_fields, rows_of
from volt.stream.transforms.options import ConfiguredTransform, check_field, check_fields, check_text_option
from volt.stream.transforms.transform import MOST_COPIES, LineFault

_FIRST_LETTER = re.compile(r"(?<![^\s\-–—/(\[{\"„“”«»‹›‘¿¡])[^\W\d_]")  # at the start, or after what may open a word


@dataclass(frozen=True, slots=True)
class _Case(ConfiguredTransform):
    name: ClassVar[str]
    fields: Fields | None = None
    """The fields to change; by default 1 and, where a line has it, 2."""
    if_cased: int | None = None
    """Change a line only if this field of it holds a letter that has case (Chinese, Arabic and Hindi have none)."""

    def __post_init__(self) -> None:
        check_fields(self.fields)
        check_field(self.if_cased, option="if_cased")

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        if self.if_cased is None:
            return map_fields(batch, self._changed, fields=self.fields)
        rows, cased = rows_of(batch, fields=(self.if_cased,)), index_of(self.if_cased)
        chosen = [number for number, row in enumerate(rows) if has_case(row[cased])]
        return _at(batch, chosen, self._changed, fields=self.fields)

    @staticmethod
    def _changed(values: list[str]) -> list[str]:
        raise NotImplementedError


def _at(batch: Batch, chosen: list[int], function: Callable[[list[str]], list[str]], *, fields: Fields | None) -> Batch:
    """Change the chosen lines alone."""
    try:
        changed = map_fields(batch.take(chosen), function, fields=fields)
    except LineFault as fault:
        raise LineFault({chosen[index]: reason for index, reason in fault.reasons.items()}) from None
    lines = list(batch.lines)
    for index, line in zip(chosen, changed.lines, strict=True):
        lines[index] = line
    return batch.with_lines(lines)


def has_case(text: str) -> bool:
    """Whether a text holds a letter that has case.

    >>> has_case("中文"), has_case("中文 a")
    (False, True)
    """
    return text.lower() != text.upper()


@dataclass(frozen=True, slots=True)
class Lower(_Case):
    """Lower-case fields."""

    name: ClassVar[str] = "lower"

    @staticmethod
    def _changed(values: list[str]) -> list[str]:
        return [value.lower() for value in values]


@dataclass(frozen=True, slots=True)
class Upper(_Case):
    """Upper-case fields."""

    name: ClassVar[str] = "upper"

    @staticmethod
    def _changed(values: list[str]) -> list[str]:
        return [value.upper() for value in values]


@dataclass(frozen=True, slots=True)
class Title(_Case):
    """Title-case fields: the first letter of each word is a capital, the others are small ("Don't", "Jean-Paul")."""

    name: ClassVar[str] = "title"

    @staticmethod
    def _changed(values: list[str]) -> list[str]:
        return [titled(value) for value in values]


def titled(text: str) -> str:
    """A text in title case; unlike str.title, it starts no word after an apostrophe, a digit or an accent.

    >>> titled("he DIDN'T see the 3rd école (l'été)")
    "He Didn't See The 3rd École (L'été)"
    """
    return _FIRST_LETTER.sub(lambda letter: letter[0].title(), text.lower())


@dataclass(frozen=True, slots=True)
class Tag(ConfiguredTransform):
    """Put a tag before (or after) fields, as "[BT]" before the source side of back-translated data."""

    name: ClassVar[str] = "tag"
    text: str
    """The tag."""
    fields: Fields = (1,)
    """The fields to tag."""
    separator: str = " "
    """What stands between the tag and the text; may be empty."""
    position: Literal["start", "end"] = "start"
    """Where the tag goes."""

    def __post_init__(self) -> None:
        check_text_option(self.text, option="text")
        check_text_option(self.separator, option="separator")
        check_fields(self.fields)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        before = self.text + self.separator if self.position == "start" else ""
        after = "" if before else self.separator + self.text
        if self.fields == (1,) and not after:  # no need to split
            return batch.with_lines([before + line for line in batch.lines])
        return map_fields(batch, lambda values: [before + value + after for value in values], fields=self.fields)


@dataclass(frozen=True, slots=True)
class Append(ConfiguredTransform):
    """Append a constant as a last field; `user` with `append: true` appends what a function says."""

    name: ClassVar[str] = "append"
    text: str
    """The new field."""

    def __post_init__(self) -> None:
        check_text_option(self.text, option="text")

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        last = "\t" + self.text
        return batch.with_lines([line + last for line in batch.lines])


@dataclass(frozen=True, slots=True)
class Copy(ConfiguredTransform):
    """Copy one field over another; a field beyond the last is made, with empty ones before it where needed."""

    name: ClassVar[str] = "copy"
    from_: int = 1
    """The field to copy."""
    to: int = 2
    """The field to overwrite."""

    def __post_init__(self) -> None:
        check_field(self.from_, option="from")
        check_field(self.to, option="to")

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        source, target = indices_of((self.from_, self.to))
        rows = rows_of(batch, fields=(self.from_,))
        for row in rows:
            row += [""] * (self.to - len(row))
            row[target] = row[source]
        return batch.with_lines(joined(rows))


@dataclass(frozen=True, slots=True)
class Multiply(ConfiguredTransform):
    """Copy field 1 over the fields 2 to n; further fields stay. (`repeat` makes equal lines.)"""

    name: ClassVar[str] = "multiply"
    n: int = 2
    """How many fields hold the text of field 1."""

    def __post_init__(self) -> None:
        _check_number(self.n)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        rows = rows_of(batch)
        for row in rows:
            row[: self.n] = [row[0]] * self.n
        return batch.with_lines(joined(rows))


@dataclass(frozen=True, slots=True)
class Repeat(ConfiguredTransform):
    """Give every line n times in a row; random transforms behind it then draw for each copy."""

    name: ClassVar[str] = "repeat"
    n: int = 2
    """How many times."""

    def __post_init__(self) -> None:
        _check_number(self.n)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        return batch.take(np.repeat(np.arange(len(batch)), self.n))


@dataclass(frozen=True, slots=True)
class KeepFields(ConfiguredTransform):
    """Keep these fields alone, in this order; [2, 1] swaps the sides."""

    name: ClassVar[str] = "keep_fields"
    fields: Fields = (1, 2)
    """The fields to keep."""

    def __post_init__(self) -> None:
        check_fields(self.fields)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        if self._are_all(batch):
            return batch
        rows, indices = rows_of(batch, fields=self.fields), indices_of(self.fields)
        return batch.with_lines(joined([[row[index] for index in indices] for row in rows]))

    def _are_all(self, batch: Batch) -> bool:
        """Whether these are the fields of every line, in their order."""
        last = len(self.fields) - 1
        in_order = indices_of(self.fields) == list(range(last + 1))
        return in_order and all(line.count("\t") == last for line in batch.lines)


def _check_number(n: int) -> None:
    if not 1 <= arguments.whole(n, "n") <= MOST_COPIES:
        raise ConfigError(f"n: {n}; give 1 or more, and {MOST_COPIES:,} at most")
