"""Random choice: each line goes through one of several variants, drawn by weight.

Lines stay in their order, whatever the variants drop, repeat or join.

>>> from volt.stream.transforms.case import Lower, Title
>>> noise = Choice((Variant(0.95), Variant(0.04, (Lower(fields=(1,)),)), Variant(0.01, (Title(),))))  # Figure 2
>>> noise(Batch.of(["A\\tB", "C\\tD"]), LineRng(1, 2)).lines
['A\\tB', 'C\\tD']
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch, Longs, together
from volt.stream.transforms.fields import ConfiguredTransform
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import (
    LineFault,
    LoadedFiles,
    Transform,
    deterministic,
    excluding,
    inverse,
    is_compiled,
    joins_lines,
    keeps_lines,
    loaded,
    special_tokens,
)


@dataclass(frozen=True, slots=True)
class Variant(ConfiguredTransform):
    """A variant of a line's transforms, with its weight."""

    weight: float
    """The weight, relative to the other variants; 0.95, 0.04 and 0.01 are as good as 95, 4 and 1."""
    transforms: tuple[Transform, ...] = ()
    """The transforms to apply; none leave the line as it is."""

    def __post_init__(self) -> None:
        if not 0 <= arguments.number(self.weight, "weight") < math.inf:
            raise ConfigError(f"weight: {self.weight}; give a number from 0 up")

    def opened(self, files: LoadedFiles) -> Variant:
        """Return the same variant, the files of its transforms loaded."""
        return replace(self, transforms=tuple(loaded(transform, files) for transform in self.transforms))

    def excluding(self, tokens: tuple[str, ...]) -> Variant:
        """Return the same variant, whose transforms do not draw these tokens."""
        return replace(self, transforms=tuple(excluding(transform, tokens) for transform in self.transforms))


@dataclass(frozen=True, slots=True)
class Choice(ConfiguredTransform):
    """Send each line through one of several variants, drawn by their weights.

    Nothing is drawn at validation and translation: each line goes through the heaviest variant, the first of several.
    """

    name: ClassVar[str] = "choice"
    variants: tuple[Variant, ...]
    """The variants, each with a weight and its transforms."""

    def __post_init__(self) -> None:
        variants = arguments.several(self.variants, "variants", remedy="give a tuple of Variant")
        for place, variant in enumerate(variants):
            arguments.instance(variant, Variant, f"variants[{place}]", remedy="give Variant(weight, transforms)")
        if not sum(variant.weight for variant in self.variants) > 0:
            raise ConfigError("choice: the weights of the variants sum to 0; give one of them a weight")

    def opened(self, files: LoadedFiles) -> Transform:
        """Return the same choice, the files of the variants' transforms loaded."""
        return replace(self, variants=tuple(variant.opened(files) for variant in self.variants))

    def deterministic(self) -> Transform | None:
        """Return the deterministic form of the variant with the greatest weight, the first of several."""
        return self.in_a_row(deterministic(self.heaviest))

    def inverse(self) -> Transform | None:
        """Return the transform that undoes the variant with the greatest weight."""
        return self.in_a_row(inverse(self.heaviest))

    def special_tokens(self) -> tuple[str, ...]:
        """Return the tokens that any of the variants adds to lines."""
        return special_tokens(self._transforms)

    def excluding(self, tokens: tuple[str, ...]) -> Choice:
        """Return the same choice, whose transforms do not draw these tokens."""
        return replace(self, variants=tuple(variant.excluding(tokens) for variant in self.variants))

    @staticmethod
    def in_a_row(transforms: tuple[Transform, ...]) -> Transform | None:
        """Combine several transforms to one; None if there are none."""
        return Choice((Variant(1.0, transforms),)) if len(transforms) > 1 else next(iter(transforms), None)

    @property
    def heaviest(self) -> tuple[Transform, ...]:
        """The transforms of the variant with the greatest weight, the first of several."""
        return max(self.variants, key=lambda variant: variant.weight).transforms

    @property
    def is_compiled(self) -> bool:
        """True if no variant runs Python code line by line."""
        return all(is_compiled(transform) for transform in self._transforms)

    @property
    def joins_lines(self) -> bool:
        """True if a variant joins lines."""
        return any(joins_lines(transform) for transform in self._transforms)

    @property
    def keeps_lines(self) -> bool:
        """True if every variant gives one line for each."""
        return all(keeps_lines(transform) for transform in self._transforms)

    @property
    def _transforms(self) -> list[Transform]:
        return [transform for variant in self.variants for transform in variant.transforms]

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        bounds = np.cumsum([variant.weight for variant in self.variants])
        drawn = np.searchsorted(bounds[:-1], chance.uniform(batch.origins) * bounds[-1], side="right")
        numbered = Batch(batch.columns, batch.rest, np.arange(len(batch)))
        changing = [number for number, variant in enumerate(self.variants) if variant.transforms]
        parts = [numbered.take(~np.isin(drawn, changing))]
        within = _Within(chance.first, chance.second, chance.words(batch.origins))
        for number in changing:
            chosen = np.flatnonzero(drawn == number)
            if len(chosen):
                parts.append(_through(numbered.take(chosen), self.variants[number], within.at(number)))
        return _merged(batch, parts) if len(parts) > 1 else batch


@dataclass(frozen=True, slots=True, eq=False)
class _Within(LineRng):
    """The chance of steps inside a choice, which are given indices in its batch as origins.

    lines: (n,) uint64 for each line of that batch, what tells it from all others: a draw by its true origin

    So a line draws the same whatever lines stand in the batch, and each copy of a line draws numbers of its own.
    """

    lines: NDArray[np.uint64]

    def at(self, name: str | int) -> _Within:
        """Another draw for the same lines."""
        other = LineRng.at(self, name)
        return _Within(other.first, other.second, self.lines)

    def words(self, origins: Longs) -> NDArray[np.uint64]:
        """64 random bits for each line. origins: (n,) indices in the batch"""
        return LineRng.words(self, self.lines[origins].view(np.int64))


def _through(part: Batch, variant: Variant, chance: LineRng) -> Batch:
    """Some lines after the transforms of a variant. The origins, before and after, are indices in the whole batch."""
    for step, transform in enumerate(variant.transforms):
        try:
            part = transform(part, chance.at(step))
        except LineFault as fault:
            raise LineFault({int(part.origins[index]): reason for index, reason in fault.reasons.items()}) from None
    return part


def _merged(batch: Batch, parts: list[Batch]) -> Batch:
    """Return the lines of the parts, whose origins are indices in the batch, in the order of these."""
    merged = together(parts, np.argsort(np.concatenate([part.origins for part in parts]), kind="stable"))
    return Batch(merged.columns, merged.rest, batch.origins[merged.origins])


def most_copies(transforms: Sequence[Transform]) -> int:
    """Return how many lines these can make of one, at most, by repeating it.

    >>> from volt.stream.transforms.edits import Repeat
    >>> most_copies([Repeat(3), Choice((Variant(1.0, (Repeat(4),)), Variant(1.0)))])
    12
    """
    return math.prod(_copies(transform) for transform in transforms)


def _copies(transform: Transform) -> int:
    if isinstance(transform, Choice):
        return max(most_copies(variant.transforms) for variant in transform.variants)
    return getattr(transform, "n", 1) if transform.name == "repeat" else 1
