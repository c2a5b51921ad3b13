"""Filters: transforms that let whole lines pass or drop them; what passes is unchanged.

>>> import numpy as np
>>> urls = Match(pattern=r"\\bhttps?:\\S+[a-z]\\b")  # the URL filter of SOTASTREAM's Section 6.3
>>> urls(Batch.of(["see http://a.de\\tsiehe http://a.de", "see http://a.de\\tsiehe"]), np.random.default_rng(0)).lines
['see http://a.de\\tsiehe http://a.de']
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.fields import N_SIDES, Fields, indices_of, joined, rows_of
from volt.stream.transforms.options import ConfiguredTransform, check_fields

Unit = Literal["words", "characters", "bytes"]
_MEASURES: dict[str, Callable[[str], int]] = {
    "words": lambda text: len(text.split()),
    "characters": len,
    "bytes": lambda text: len(text.encode()),
}


def _kept(batch: Batch, wanted: list[bool]) -> Batch:
    """The wanted lines. Where nothing is dropped, which is the usual case, this takes no time."""
    return batch if all(wanted) else batch.take(np.array(wanted, bool))


@dataclass(frozen=True, slots=True)
class SkipBlank(ConfiguredTransform):
    """Drop lines in which a field is empty, or holds nothing but white space."""

    name: ClassVar[str] = "skip_blank"
    fields: Fields | None = None
    """The fields to look at, where a missing one is blank; by default 1 and, where a line has it, 2."""

    def __post_init__(self) -> None:
        check_fields(self.fields)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        rows = rows_of(batch)
        if self.fields is None:
            return _kept(batch, [all(map(str.strip, row[:N_SIDES])) for row in rows])
        return _kept(batch, _have_all(rows, self.fields))


def _have_all(rows: list[list[str]], fields: Fields) -> list[bool]:
    """For each row, whether it has all the fields, with text in them."""
    indices = indices_of(fields)
    return [all(index < len(row) and row[index].strip() for index in indices) for row in rows]


@dataclass(frozen=True, slots=True)
class Bitext(ConfiguredTransform):
    """Drop lines of which a side is missing, empty or white space."""

    name: ClassVar[str] = "bitext"
    fields: Fields = (1, 2)
    """The two sides."""
    only: bool = False
    """Whether to drop all other fields too."""

    def __post_init__(self) -> None:
        check_fields(self.fields, n_fields=2)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        rows = rows_of(batch)
        wanted, indices = _have_all(rows, self.fields), indices_of(self.fields)
        if not self.only:
            return _kept(batch, wanted)
        sides = joined([[row[index] for index in indices] for row, both in zip(rows, wanted, strict=True) if both])
        return _kept(batch, wanted).with_lines(sides)


@dataclass(frozen=True, slots=True)
class Match(ConfiguredTransform):
    r"""Keep lines in which a pattern matches the same strings, equally often, on both sides, as the same URLs."""

    name: ClassVar[str] = "match"
    pattern: str
    """A regular expression of Python."""
    fields: Fields = (1, 2)
    """The two fields to compare."""
    invert: bool = False
    """Keep the lines in which they differ instead."""

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        check_fields(self.fields, n_fields=2)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        matches, same = _finder(self.pattern), not self.invert
        sides = _values(batch, self.fields)
        return _kept(batch, [(_same(matches(left), matches(right))) is same for left, right in sides])


def _same(left: list[str], right: list[str]) -> bool:
    """Whether two lists hold the same, equally often."""
    return left == right or (len(left) == len(right) and sorted(left) == sorted(right))


def _finder(pattern: str) -> Callable[[str], list[str]]:
    """All whole matches of a pattern, whatever its groups."""
    compiled = re.compile(pattern)
    if not compiled.groups:
        return compiled.findall
    return lambda text: [match[0] for match in compiled.finditer(text)]


@dataclass(frozen=True, slots=True)
class Regex(ConfiguredTransform):
    """Drop lines in which a pattern is found in any of the fields."""

    name: ClassVar[str] = "regex"
    pattern: str
    """A regular expression of Python."""
    fields: Fields | None = None
    """The fields to search; by default 1 and, where a line has it, 2."""
    invert: bool = False
    """Keep only the lines in which the pattern is found in all of the fields instead."""

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        check_fields(self.fields)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        search, decide = re.compile(self.pattern).search, all if self.invert else any
        return _kept(batch, [decide(map(search, values)) is self.invert for values in _values(batch, self.fields)])


@dataclass(frozen=True, slots=True)
class Length(ConfiguredTransform):
    """Drop lines in which a field is too short or too long."""

    name: ClassVar[str] = "length"
    max: int | None = None
    """The greatest length that passes; none by default."""
    min: int = 0
    """The least length that passes."""
    fields: Fields | None = None
    """The fields to measure; by default 1 and, where a line has it, 2."""
    unit: Unit = "words"
    """What is counted: words (or pieces: what spaces separate), characters or bytes."""

    def __post_init__(self) -> None:
        check_fields(self.fields)
        arguments.choice(self.unit, "unit", get_args(Unit))
        for option in ("min", "max"):
            if getattr(self, option) is not None or option == "min":
                arguments.whole(getattr(self, option), option)
        if self.min < 0 or (self.max is not None and self.max < self.min):
            raise ConfigError(f"length: min is {self.min} and max is {self.max}; nothing could pass")

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        measure, low, high = _MEASURES[self.unit], self.min, math.inf if self.max is None else self.max
        wanted = [all(low <= measure(value) <= high for value in row) for row in _values(batch, self.fields)]
        return _kept(batch, wanted)


@dataclass(frozen=True, slots=True)
class Ratio(ConfiguredTransform):
    """Drop lines whose longer side is more than `max` times as long as the shorter; two empty sides pass."""

    name: ClassVar[str] = "ratio"
    max: float
    """The greatest ratio that passes; 1 or more."""
    fields: Fields = (1, 2)
    """The two sides."""
    unit: Unit = "words"
    """What is counted: words (or pieces: what spaces separate), characters or bytes."""

    def __post_init__(self) -> None:
        check_fields(self.fields, n_fields=2)
        arguments.choice(self.unit, "unit", get_args(Unit))
        if not 1 <= arguments.number(self.max, "max") < math.inf:
            raise ConfigError(f"max: {self.max}; the ratio of the longer to the shorter side is 1 or more")

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        measure, limit = _MEASURES[self.unit], self.max
        lengths = [sorted(map(measure, values)) for values in _values(batch, self.fields)]
        return _kept(batch, [longer <= limit * shorter for shorter, longer in lengths])


def _values(batch: Batch, fields: Fields | None) -> list[list[str]]:
    """The values of the fields, line by line."""
    rows = rows_of(batch, fields=fields)
    if fields is None:
        return [row[:N_SIDES] for row in rows]
    indices = indices_of(fields)
    return [[row[index] for index in indices] for row in rows]


def check_pattern(pattern: str) -> None:
    """Raise ConfigError if it is no regular expression, with the position of the fault.

    >>> check_pattern("a(b")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: pattern: 'a(b' is no regular expression: missing ), unterminated subpattern at position 1
    """
    try:
        re.compile(arguments.text(pattern, "pattern"))
    except re.error as error:
        raise ConfigError(f"pattern: {pattern!r} is no regular expression: {error}") from None
