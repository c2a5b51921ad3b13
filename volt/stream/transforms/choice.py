r"""Random choice: each line goes through one of several variants.

>>> from volt.stream.transforms.case import Lower, Title
>>> noise = Choice((Variant(0.95), Variant(0.04, (Lower(fields=(1,)),)), Variant(0.01, (Title(),))))  # Figure 2
>>> noise(Batch.of(["A\tB", "C\tD"]), LineRng(1, 2)).lines
['A\tB', 'C\tD']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms import transform as steps
from volt.stream.transforms.column import Longs
from volt.stream.transforms.line_batch import Batch, together
from volt.stream.transforms.line_rng import Bits, LineRng
from volt.stream.transforms.options import Amount
from volt.stream.transforms.transform import ConfiguredTransform, LineFault, LoadedFiles, Transform


@dataclass(frozen=True, slots=True)
class Variant(ConfiguredTransform):
    """A variant of transforms, with its weight."""

    weight: Amount
    """The weight, relative to the other variants: 0.95, 0.04 and 0.01 mean the same as 95, 4 and
    1."""
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
        uniform = rng.uniform(batch.origins) * bounds[-1]
        drawn = np.searchsorted(bounds[:-1], uniform, side="right")
        changing = [number for number, variant in enumerate(self.variants) if variant.transforms]
        numbered = Batch(batch.columns, batch.rest, np.arange(len(batch)))
        within = _VariantRng(rng.first, rng.second, rng.words(batch.origins))

        parts = [numbered.take(~np.isin(drawn, changing))]
        for number in changing:
            part = numbered.take(drawn == number)
            if len(part):
                parts.append(_through(part, self.variants[number], within.at(number)))
        if len(parts) == 1:
            return batch

        numbers = np.concatenate([part.origins for part in parts])
        merged = together(parts, np.argsort(numbers, kind="stable"))
        return Batch(merged.columns, merged.rest, batch.origins[merged.origins])

    def opened(self, files: LoadedFiles) -> Transform:
        return self._each(lambda step: steps.loaded(step, files))

    def excluding(self, tokens: tuple[str, ...]) -> Choice:
        return self._each(lambda step: steps.excluding(step, tokens))

    def _each(self, function: Callable[[Transform], Transform]) -> Choice:
        variants = list[Variant]()
        for variant in self.variants:
            transforms = tuple(map(function, variant.transforms))
            variants.append(replace(variant, transforms=transforms))
        return replace(self, variants=tuple(variants))

    def deterministic(self) -> Transform | None:
        transforms = steps.deterministic(self.heaviest)
        if len(transforms) > 1:
            return Choice((Variant(1.0, transforms),))
        return next(iter(transforms), None)

    def special_tokens(self) -> tuple[str, ...]:
        return steps.special_tokens(self._transforms)

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
        return list(chain.from_iterable(variant.transforms for variant in self.variants))


@dataclass(frozen=True, slots=True, eq=False)
class _VariantRng(LineRng):
    """The random numbers of steps inside a choice. Its `origins` are indices of `lines`, the bits
    of each line."""

    lines: Bits

    def at(self, name: str | int) -> _VariantRng:
        other = LineRng.at(self, name)
        return _VariantRng(other.first, other.second, self.lines)

    def words(self, origins: Longs) -> Bits:
        return LineRng.words(self, self.lines[origins].view(np.int64))


def _through(part: Batch, variant: Variant, rng: LineRng) -> Batch:
    for step, transform in enumerate(variant.transforms):
        try:
            part = transform(part, rng.at(step))
        except LineFault as fault:
            raise fault.renumbered(part.origins) from None
    return part
