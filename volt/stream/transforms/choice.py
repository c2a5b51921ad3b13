r"""Random choice: each line goes through one of several variants.

>>> from volt.stream.transforms.case import Lower, Title
>>> noise = Choice((Variant(0.95), Variant(0.04, (Lower(fields=(1,)),)), Variant(0.01, (Title(),))))  # Figure 2
>>> noise(Batch.of(["A\tB", "C\tD"]), LineRng(1, 2)).lines
['A\tB', 'C\tD']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms import transform as steps
from volt.stream.transforms.column import Longs
from volt.stream.transforms.line_batch import Batch, together
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import Amount
from volt.stream.transforms.transform import ConfiguredTransform, LineFault, LoadedFiles, Transform


@dataclass(frozen=True, slots=True)
class Variant(ConfiguredTransform):
    """A variant of transforms, with its weight."""

    weight: Amount
    """The weight, relative to the other variants: 0.95, 0.04 and 0.01 mean the same as 95, 4 and 1."""
    transforms: tuple[Transform, ...] = ()
    """The transforms to apply; without any, the line does not change."""


@dataclass(frozen=True, slots=True)
class Choice(ConfiguredTransform):
    """Send each line through one of several variants, drawn by their weights.

    Validation and translation use the variant of largest weight; in a tie, the first.
    """

    variants: tuple[Variant, ...]
    """The variants, each with a weight and its transforms."""

    def check(self) -> None:
        variants = arguments.several(self.variants, "variants", remedy="give a tuple of Variant")
        for place, variant in enumerate(variants):
            arguments.instance(
                variant, Variant, f"variants[{place}]", remedy="give Variant(weight, transforms)"
            )
        if not sum(variant.weight for variant in self.variants) > 0:
            raise ConfigError(
                "choice: the weights of the variants sum to 0; give at least one a weight above 0"
            )

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        bounds = np.cumsum([variant.weight for variant in self.variants])
        drawn = np.searchsorted(bounds[:-1], rng.uniform(batch.origins) * bounds[-1], side="right")
        numbered = Batch(batch.columns, batch.rest, np.arange(len(batch)))
        changing = [number for number, variant in enumerate(self.variants) if variant.transforms]
        parts = [numbered.take(~np.isin(drawn, changing))]
        within = _VariantRng(rng.first, rng.second, rng.words(batch.origins))
        for number in changing:
            chosen = np.flatnonzero(drawn == number)
            if len(chosen):
                parts.append(
                    _through(numbered.take(chosen), self.variants[number], within.at(number))
                )
        if len(parts) == 1:
            return batch
        merged = together(
            parts, np.argsort(np.concatenate([part.origins for part in parts]), kind="stable")
        )
        return Batch(merged.columns, merged.rest, batch.origins[merged.origins])

    def opened(self, files: LoadedFiles) -> Transform:
        return self._each(lambda step: steps.loaded(step, files))

    def excluding(self, tokens: tuple[str, ...]) -> Choice:
        return self._each(lambda step: steps.excluding(step, tokens))

    def _each(self, function: Callable[[Transform], Transform]) -> Choice:
        variants = [
            replace(variant, transforms=tuple(map(function, variant.transforms)))
            for variant in self.variants
        ]
        return replace(self, variants=tuple(variants))

    def deterministic(self) -> Transform | None:
        return self.in_a_row(steps.deterministic(self.heaviest))

    def inverse(self) -> Transform | None:
        return self.in_a_row(steps.inverse(self.heaviest))

    def special_tokens(self) -> tuple[str, ...]:
        return steps.special_tokens(self._transforms)

    @staticmethod
    def in_a_row(transforms: tuple[Transform, ...]) -> Transform | None:
        return (
            Choice((Variant(1.0, transforms),))
            if len(transforms) > 1
            else next(iter(transforms), None)
        )

    @property
    def heaviest(self) -> tuple[Transform, ...]:
        return max(self.variants, key=lambda variant: variant.weight).transforms

    @property
    def is_compiled(self) -> bool:
        return all(map(steps.is_compiled, self._transforms))

    @property
    def joins_lines(self) -> bool:
        return any(map(steps.joins_lines, self._transforms))

    @property
    def keeps_lines(self) -> bool:
        return all(map(steps.keeps_lines, self._transforms))

    @property
    def max_copies(self) -> int:
        return max(steps.max_copies(variant.transforms) for variant in self.variants)

    @property
    def _transforms(self) -> list[Transform]:
        return [transform for variant in self.variants for transform in variant.transforms]


@dataclass(frozen=True, slots=True, eq=False)
class _VariantRng(LineRng):
    """The random numbers of steps inside a choice. Its `origins` are indices of `lines`, the bits of each line."""

    lines: NDArray[np.uint64]

    def at(self, name: str | int) -> _VariantRng:
        other = LineRng.at(self, name)
        return _VariantRng(other.first, other.second, self.lines)

    def words(self, origins: Longs) -> NDArray[np.uint64]:
        return LineRng.words(self, self.lines[origins].view(np.int64))


def _through(part: Batch, variant: Variant, rng: LineRng) -> Batch:
    for step, transform in enumerate(variant.transforms):
        try:
            part = transform(part, rng.at(step))
        except LineFault as fault:
            raise LineFault(
                {int(part.origins[index]): reason for index, reason in fault.reasons.items()}
            ) from None
    return part
