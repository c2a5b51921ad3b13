"""Random choice: each line goes through one of several variants, drawn by weight.

Lines stay in their order, whatever the variants drop, repeat or join.

>>> from volt.stream.transforms.case_and_tags import Lower, Title
>>> noise = Choice((Variant(0.95), Variant(0.04, (Lower(fields=(1,)),)), Variant(0.01, (Title(),))))  # Figure 2
>>> noise(Batch.of(["A\\tB", "C\\tD"]), np.random.default_rng(0)).lines
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
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.opening import LoadedFiles, opened
from volt.stream.transforms.options import ConfiguredTransform
from volt.stream.transforms.transform import LineFault, Transform

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Variant(ConfiguredTransform):
    """What may happen to a line, and how likely that is."""

    weight: float
    """How often, relative to the other variants; 0.95, 0.04 and 0.01 are as good as 95, 4 and 1."""
    transforms: tuple[Transform, ...] = ()
    """The transforms to apply; none leave the line as it is."""

    def __post_init__(self) -> None:
        if not 0 <= arguments.number(self.weight, "weight") < math.inf:
            raise ConfigError(f"weight: {self.weight}; give a number from 0 up")

    def opened(self, files: LoadedFiles) -> Variant:
        """The same variant, the files of its transforms loaded."""
        return replace(self, transforms=tuple(opened(transform, files) for transform in self.transforms))


@dataclass(frozen=True, slots=True)
class Choice(ConfiguredTransform):
    """Send each line through one of several variants, drawn by their weights."""

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
        """The same choice, the files of the variants' transforms loaded."""
        return replace(self, variants=tuple(variant.opened(files) for variant in self.variants))

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        bounds = np.cumsum([variant.weight for variant in self.variants])
        drawn = np.searchsorted(bounds, rng.random(len(batch)) * bounds[-1], side="right")
        changed = [
            through(batch, np.flatnonzero(drawn == number), variant.transforms, rng)
            for number, variant in enumerate(self.variants)
            if variant.transforms
        ]
        idle = [number for number, variant in enumerate(self.variants) if not variant.transforms]
        return _merged(batch, np.isin(drawn, idle), changed)


def through(batch: Batch, chosen: Indices, transforms: tuple[Transform, ...], rng: np.random.Generator) -> Batch:
    """The chosen lines of a batch after some transforms. The origins of the result are indices in that batch.

    >>> through(Batch.of(["a", "b"]), np.array([1]), (), np.random.default_rng(0)).lines
    ['b']
    """
    part = Batch(batch.take(chosen).lines, chosen)
    for transform in transforms:
        try:
            part = transform(part, rng)
        except LineFault as fault:
            raise LineFault({int(part.origins[index]): reason for index, reason in fault.reasons.items()}) from None
    return part


def _merged(batch: Batch, stays: NDArray[np.bool_], parts: list[Batch]) -> Batch:
    """The lines that stay and those of the parts, in the order of their indices in the batch."""
    lines = list(batch.lines)
    if all(len(np.unique(part.origins)) == len(part) for part in parts):  # every line became one line, or none
        for part in parts:
            for index, line in zip(part.origins.tolist(), part.lines, strict=True):
                lines[index] = line
            stays[part.origins] = True
        whole = batch.with_lines(lines)
        return whole if stays.all() else whole.take(stays)
    kept = np.flatnonzero(stays)
    pool = [lines[index] for index in kept.tolist()] + [line for part in parts for line in part.lines]
    origins = np.concatenate([kept, *(part.origins for part in parts)])
    order = np.argsort(origins, kind="stable")
    return Batch([pool[index] for index in order.tolist()], batch.origins[origins[order]])


def most_copies(transforms: Sequence[Transform]) -> int:
    """How many lines these can make of one, at most, by repeating it.

    >>> from volt.stream.transforms.case_and_tags import Repeat
    >>> most_copies([Repeat(3), Choice((Variant(1.0, (Repeat(4),)), Variant(1.0)))])
    12
    """
    return math.prod(_copies(transform) for transform in transforms)


def _copies(transform: Transform) -> int:
    if isinstance(transform, Choice):
        return max(most_copies(variant.transforms) for variant in transform.variants)
    return getattr(transform, "n", 1) if transform.name == "repeat" else 1
