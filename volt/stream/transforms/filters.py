"""Filters: transforms that let whole lines pass or drop them; what passes is unchanged.

Each asks of all lines at once which of them it wants. What it gives stays cut into the fields that it looked at.

>>> urls = Match(pattern=r"\\bhttps?:\\S+[a-z]\\b")  # the URL filter of SOTASTREAM's Section 6.3
>>> urls(Batch.of(["see http://a.de\\tsiehe http://a.de", "see http://a.de\\tsiehe"]), Chance(1, 2)).lines
['see http://a.de\\tsiehe http://a.de']
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.chance import Chance
from volt.stream.transforms.column import Column, Longs, Mask
from volt.stream.transforms.fields import Fields, with_fields
from volt.stream.transforms.measures import Unit, blank, lengths
from volt.stream.transforms.options import ConfiguredTransform, check_fields
from volt.stream.transforms.patterns import check_pattern, found_in
from volt.stream.transforms.tags_and_fields import KeepFields
from volt.stream.transforms.transform import Transform

_MOST = 1 << 53  # no text is as long; up to here a double holds every whole number


class Filter(ConfiguredTransform):
    """Base of the filters: none runs Python code that a user wrote, so threads share their work."""

    __slots__ = ()
    is_compiled: ClassVar[bool] = True

    def settled(self) -> Transform | None:
        """None: where nothing is lost, nothing is filtered."""
        return None


def kept(batch: Batch, wanted: Mask) -> Batch:
    """The wanted lines. Where nothing is dropped, which is the usual case, this takes no time.

    >>> kept(Batch.of(["a", "b"]), np.array([False, True])).lines
    ['b']
    """
    return batch if wanted.all() else batch.take(wanted)


def _sides(batch: Batch, fields: Fields | None) -> tuple[Batch, list[tuple[Column, Mask]]]:
    """The batch, cut, and of each field its column and which lines need not have it: all but field 1 by default."""
    batch, numbers = with_fields(batch, fields)
    columns = [batch.columns[number - 1] for number in numbers]
    return batch, [(column, ~column.present & (k > 0)) for k, column in enumerate(columns)]


@dataclass(frozen=True, slots=True)
class SkipBlank(Filter):
    """Drop lines in which a field is empty, or holds nothing but white space."""

    name: ClassVar[str] = "skip_blank"
    fields: Fields | None = None
    """The fields to look at, where a missing one is blank; by default 1 and, where a line has it, 2."""

    def __post_init__(self) -> None:
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        if self.fields is not None:
            return _with_text(batch, self.fields)
        batch, sides = _sides(batch, None)
        return kept(batch, np.logical_and.reduce([~blank(column) | lacks for column, lacks in sides]))


def _with_text(batch: Batch, fields: Fields) -> Batch:
    """The lines that have all the fields, with text in them."""
    batch = batch.split(max(fields))
    return kept(batch, np.logical_and.reduce([~blank(batch.columns[field - 1]) for field in fields]))


@dataclass(frozen=True, slots=True)
class Bitext(Filter):
    """Drop lines of which a side is missing, empty or white space."""

    name: ClassVar[str] = "bitext"
    fields: Fields = (1, 2)
    """The two sides."""
    only: bool = False
    """Whether to drop all other fields too."""

    def __post_init__(self) -> None:
        check_fields(self.fields, n_fields=2)

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        batch = _with_text(batch, self.fields)
        if not self.only:
            return batch
        return Batch(tuple(batch.columns[field - 1] for field in self.fields), None, batch.origins)

    def settled(self) -> Transform | None:
        """What drops the other fields, and no line."""
        return KeepFields(self.fields) if self.only else None


@dataclass(frozen=True, slots=True)
class Match(Filter):
    r"""Keep lines in which a pattern matches the same strings, equally often, on both sides, as the same URLs.

    Workers take turns at the lines that hold what every match needs, as "http" or a digit, since Python matches them.
    """

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

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        batch, ((left, _), (right, _)) = _sides(batch, self.fields)
        compiled, same = re.compile(self.pattern), np.ones(len(batch), bool)
        looked_at = np.flatnonzero(found_in(left, compiled) | found_in(right, compiled))  # elsewhere both have none
        matches = _finder(compiled)
        pairs = zip(left.take(looked_at).strings(), right.take(looked_at).strings(), strict=True)
        same[looked_at] = [_same(matches(one), matches(other)) for one, other in pairs]
        return kept(batch, same != self.invert)


def _same(left: list[str], right: list[str]) -> bool:
    """Whether two lists hold the same, equally often."""
    return left == right or (len(left) == len(right) and sorted(left) == sorted(right))


def _finder(compiled: re.Pattern[str]) -> Callable[[str], list[str]]:
    """All whole matches of a pattern, whatever its groups."""
    if not compiled.groups:
        return compiled.findall
    return lambda text: [match[0] for match in compiled.finditer(text)]


@dataclass(frozen=True, slots=True)
class Regex(Filter):
    """Drop lines in which a pattern is found in any of the fields. Workers take turns, as for `match`."""

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

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        batch, sides = _sides(batch, self.fields)
        compiled = re.compile(self.pattern)
        found = [found_in(column, compiled) for column, _ in sides]
        fits = [(mask if self.invert else ~mask) | lacks for mask, (_, lacks) in zip(found, sides, strict=True)]
        return kept(batch, np.logical_and.reduce(fits))


@dataclass(frozen=True, slots=True)
class Length(Filter):
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
                arguments.whole(getattr(self, option), option, low=0)
        if self.max is not None and self.max < self.min:
            raise ConfigError(f"length: min is {self.min} and max is {self.max}; nothing could pass, so change one")

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        batch, sides = _sides(batch, self.fields)
        return kept(
            batch, np.logical_and.reduce([self._fits(lengths(column, self.unit)) | lacks for column, lacks in sides])
        )

    def _fits(self, measured: Longs) -> Mask:
        at_least = measured >= min(self.min, _MOST)
        return at_least if self.max is None else at_least & (measured <= min(self.max, _MOST))


@dataclass(frozen=True, slots=True)
class Ratio(Filter):
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

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        batch, sides = _sides(batch, self.fields)
        one, other = (lengths(column, self.unit) for column, _ in sides)
        limit = float(min(self.max, _MOST))
        return kept(batch, np.maximum(one, other) <= limit * np.minimum(one, other))
