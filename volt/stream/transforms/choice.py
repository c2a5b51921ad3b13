r"""Random choice: each line goes through one of several variants, which are lists of transforms.

With weights 0.95, 0.04 and 0.01, a number drawn from [0, 1) selects the first variant below 0.95,
the second below 0.99, and the third from there on.

>>> from volt.stream.transforms.case import Lower, Title
>>> lower = Variant(0.04, (Lower(fields=(1,)),))
>>> noise = Choice((Variant(0.95), lower, Variant(0.01, (Title(),))))
>>> noise(Batch.of(["A\tB", "C\tD"]), LineRng(1, 2)).lines
['A\tB', 'C\tD']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from volt import arguments
from volt.array_types import Longs
from volt.errors import ConfigError
from volt.stream.transforms import transform as steps
from volt.stream.transforms.line_batch import Batch, Bits, LineRng, merge_batches
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
        for index, variant in enumerate(variants):
            arguments.instance(
                variant, Variant, f"variants[{index}]", remedy="give Variant(weight, transforms)"
            )
        if not sum(variant.weight for variant in self.variants) > 0:
            raise ConfigError(
                "choice: the weights of the variants sum to 0; give at least one a weight above 0"
            )

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        variant_ends = np.cumsum([variant.weight for variant in self.variants])
        draws = rng.uniform(batch.origins) * variant_ends[-1]
        variant_of_line = np.searchsorted(variant_ends[:-1], draws, side="right")
        changing = [index for index, variant in enumerate(self.variants) if variant.transforms]

        # Within the variants, origins are indices in `batch`, so that its order can be restored
        indexed = Batch(batch.columns, batch.rest, np.arange(len(batch)))
        index_rng = _IndexRng(rng.first, rng.second, rng.words(batch.origins))
        parts = [indexed.take(~np.isin(variant_of_line, changing))]
        for index in changing:
            part = indexed.take(variant_of_line == index)
            if len(part):
                transforms = self.variants[index].transforms
                parts.append(_apply_all(transforms, part, index_rng.at(index)))
        if len(parts) == 1:
            return batch

        indices = np.concatenate([part.origins for part in parts])
        merged = merge_batches(parts, np.argsort(indices, kind="stable"))
        return Batch(merged.columns, merged.rest, batch.origins[merged.origins])

    def opened(self, files: LoadedFiles) -> Transform:
        return self._map_transforms(lambda step: steps.open_transform(step, files))

    def excluding(self, tokens: tuple[str, ...]) -> Choice:
        return self._map_transforms(lambda step: steps.exclude_tokens(step, tokens))

    def _map_transforms(self, function: Callable[[Transform], Transform]) -> Choice:
        variants = list[Variant]()
        for variant in self.variants:
            transforms = tuple(map(function, variant.transforms))
            variants.append(replace(variant, transforms=transforms))
        return replace(self, variants=tuple(variants))

    def deterministic(self) -> Transform | None:
        transforms = steps.make_deterministic(self.heaviest)
        if len(transforms) > 1:
            return Choice((Variant(1.0, transforms),))
        return next(iter(transforms), None)

    def special_tokens(self) -> tuple[str, ...]:
        return steps.special_tokens(self._all_transforms)

    @property
    def heaviest(self) -> tuple[Transform, ...]:
        """The transforms of the variant of largest weight."""
        return max(self.variants, key=lambda variant: variant.weight).transforms

    @property
    def is_compiled(self) -> bool:
        return all(map(steps.is_compiled, self._all_transforms))

    @property
    def joins_lines(self) -> bool:
        return any(map(steps.joins_lines, self._all_transforms))

    @property
    def keeps_lines(self) -> bool:
        return all(map(steps.keeps_lines, self._all_transforms))

    @property
    def max_copies(self) -> int:
        return max(steps.max_copies(variant.transforms) for variant in self.variants)

    @property
    def _all_transforms(self) -> list[Transform]:
        return list(chain.from_iterable(variant.transforms for variant in self.variants))


@dataclass(frozen=True, slots=True, eq=False)
class _IndexRng(LineRng):
    """The random numbers of the steps inside a choice.

    A step passes `origins` that are indices of the choice's batch. `line_bits` maps an index to the
    random bits of its line, which then take the place of the line's number in its source.
    """

    line_bits: Bits

    def at(self, name: str | int) -> _IndexRng:
        rng = LineRng.at(self, name)
        return _IndexRng(rng.first, rng.second, self.line_bits)

    def words(self, origins: Longs) -> Bits:
        return LineRng.words(self, self.line_bits[origins].view(np.int64))


def _apply_all(transforms: tuple[Transform, ...], part: Batch, rng: LineRng) -> Batch:
    """Apply transforms in turn. The indices in a LineFault become those of the choice's batch."""
    for step, transform in enumerate(transforms):
        try:
            part = transform(part, rng.at(step))
        except LineFault as fault:
            raise fault.renumbered(part.origins) from None
    return part
