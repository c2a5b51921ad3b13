"""Convert weights, which may change over time, to integer shares; a stretch is a run of samples with equal shares.

The unit of a share is 2⁻⁶⁰ of a sample; the sources' shares sum to one sample. A linear schedule becomes stretches so
short that no source gains or loses a hundredth of a sample, unless that needs more than 2¹⁷ stretches.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError

UNIT = 1 << 60
FOREVER = 1 << 62
_MAX_STAIRS = 1 << 17


@dataclass(frozen=True, slots=True)
class Schedule:
    """A weight that changes while the stream runs; after the last point it stays constant.

    points: (sample, weight) pairs with rising samples, the first of which is 0.
    kind: "steps" keeps a weight until the next point; "linear" interpolates between points.

    >>> Schedule(((0, 1.0), (1000, 0.0)), "linear").at(250)
    0.75
    """

    points: tuple[tuple[int, float], ...]
    kind: Literal["steps", "linear"] = "steps"

    def __post_init__(self) -> None:
        points = list[tuple[int, float]]()
        for place, point in enumerate(arguments.several(self.points, "points")):
            parts = arguments.several(
                point, f"points[{place}]", remedy="give a sample and a weight"
            )
            if len(parts) != 2:
                raise ConfigError(
                    f"points[{place}] has {len(parts)} parts; give a sample and a weight"
                )
            arguments.number(parts[1], f"points[{place}][1]")
            points.append((arguments.whole(parts[0], f"points[{place}][0]"), parts[1]))
        object.__setattr__(self, "points", tuple(points))  # a caller may have passed lists
        samples = [sample for sample, _ in points]
        if not samples or samples[0] != 0 or any(b <= a for a, b in pairwise(samples)):
            raise ConfigError(f"schedule {self.points}: samples must start at 0 and rise")
        arguments.choice(self.kind, "kind", ("steps", "linear"))

    def at(self, sample: float) -> float:
        """Return the weight at a sample.

        sample: the sample's number, from 0
        """
        samples, weights = zip(*self.points, strict=True)
        if self.kind == "linear":
            return float(np.interp(sample, samples, weights))
        return float(weights[int(np.searchsorted(samples, sample, side="right")) - 1])

    def of_rank(self, rank: int, world: int) -> Schedule:
        """Convert a schedule from samples of all ranks to samples of one rank.

        rank: the process's rank, from 0; its sample j is sample j · world + rank of all samples.
        world: the number of ranks.
        """
        points = {max(0, -((rank - sample) // world)): weight for sample, weight in self.points}
        return replace(self, points=tuple(points.items()))


Weight = float | Schedule


def check_weight(weight: Weight, name: str) -> None:
    for value in (
        [value for _, value in weight.points] if isinstance(weight, Schedule) else [weight]
    ):
        if not (math.isfinite(arguments.number(value, "weight")) and value >= 0):
            raise ConfigError(f"source {name!r}: weight {value} must be 0 or more, and finite")


@dataclass(frozen=True, slots=True)
class Shares:
    """Whole-number shares for each stretch (consecutive samples with the same shares).

    starts: the first sample of each stretch.
    units: (n_stretches, n_sources) int64; each row sums to UNIT, or to 0 if all weights are 0.
    """

    starts: tuple[int, ...]
    units: NDArray[np.int64]
    _before: list[list[int]] = field(
        init=False, default_factory=list
    )  # units due to each source before each stretch

    def __post_init__(self) -> None:
        before = [0] * self.units.shape[1]
        for (start, end), units in zip(
            pairwise([*self.starts, FOREVER]), self.units.tolist(), strict=True
        ):
            self._before.append(before)
            before = [owed + (end - start) * unit for owed, unit in zip(before, units, strict=True)]

    def _stretch(self, sample: int) -> int:
        return bisect_right(self.starts, sample) - 1

    def lengths(self, sample: int) -> tuple[int, NDArray[np.int64]]:
        """Return the index of a sample's stretch, and the number of samples left in it and in each later stretch."""
        first = self._stretch(sample)
        return first, np.diff([sample, *self.starts[first + 1 :], FOREVER])

    def until(self, sample: int) -> int:
        """Return the first sample, from `sample` on, at which no source has a share; FOREVER if there is none."""
        first = self._stretch(sample)
        idle = np.flatnonzero(~self.units[first:].any(axis=1))
        return max(sample, self.starts[first + int(idle[0])]) if len(idle) else FOREVER

    def owed(self, sample: int) -> list[int]:
        stretch = self._stretch(sample)
        span = sample - self.starts[stretch]
        row = zip(self._before[stretch], self.units[stretch].tolist(), strict=True)
        return [before + span * units for before, units in row]


def shares_of(weights: Sequence[Weight], *, may_end: bool = False) -> Shares:
    """Convert weights to shares. Raises ConfigError if one rounds to 0, or if all are 0 and `may_end` is False."""
    schedules = [weight for weight in weights if isinstance(weight, Schedule)]
    points = sorted({0, *(sample for schedule in schedules for sample, _ in schedule.points)})
    starts, rows = list[int](), list[list[int]]()
    for start, end in zip(points, [*points[1:], None], strict=True):
        for stair, shares in _stairs(weights, start, end, may_end=may_end):
            starts.append(stair)
            rows.append(_whole(shares))
    for stretch in reversed(range(len(rows) - 1)):
        rows[stretch] = rows[stretch] if any(rows[stretch]) else rows[stretch + 1]
    return Shares(tuple(starts), np.array(rows, np.int64))


def _stairs(
    weights: Sequence[Weight], start: int, end: int | None, *, may_end: bool
) -> list[tuple[int, list[Fraction]]]:
    first = _normalised([_weight(weight, start) for weight in weights], start, may_end=may_end)
    linear = [isinstance(weight, Schedule) and weight.kind == "linear" for weight in weights]
    if end is None or not any(linear):
        return [(start, first)]
    ends = [
        end if moves else start for moves in linear
    ]  # a stepped weight is constant until the end
    last = _normalised(
        [_weight(*pair) for pair in zip(weights, ends, strict=True)], end, may_end=may_end
    )
    if not any(first) or not any(
        last
    ):  # all weights rise from 0 or fall to 0: use the other point's shares
        return [(start, [a or b for a, b in zip(first, last, strict=True)])]
    slopes = [b - a for a, b in zip(first, last, strict=True)]
    if not any(slopes):
        return [(start, first)]
    length, slope = end - start, float(max(map(abs, slopes)))
    # Within one of n stairs, the accumulated share is off by at most slope·length / 8n².
    n_stairs = min(length, _MAX_STAIRS, math.ceil(math.sqrt(slope * length / 8 / 0.01)) + 1)
    bounds = [start + length * stair // n_stairs for stair in range(n_stairs + 1)]
    middles = [Fraction(a + b - 1 - 2 * start, 2 * (end - start)) for a, b in pairwise(bounds)]
    return [
        (bound, [share + slope * middle for share, slope in zip(first, slopes, strict=True)])
        for bound, middle in zip(bounds, middles, strict=False)
    ]


def _weight(weight: Weight, sample: int) -> Fraction:
    value = weight.at(sample) if isinstance(weight, Schedule) else weight
    return Fraction(repr(float(value)))  # 0.1 means exactly a tenth


def _normalised(values: list[Fraction], sample: int, *, may_end: bool) -> list[Fraction]:
    total = sum(values)
    if not total and may_end:
        return values
    if not total:
        raise ConfigError(f"all weights are 0 at sample {sample}; give one source a weight above 0")
    for value in values:
        if value and value / total * UNIT < 1:
            raise ConfigError(
                f"weight {float(value)} of {float(total)} at sample {sample} rounds to 0; raise it"
            )
    return [value / total for value in values]


def _whole(shares: list[Fraction]) -> list[int]:
    if not any(shares):
        return [0] * len(shares)
    exact = [share * UNIT for share in shares]
    units = [math.floor(value) for value in exact]
    by_remainder = sorted(range(len(units)), key=lambda index: units[index] - exact[index])
    for index in by_remainder[: UNIT - sum(units)]:
        units[index] += 1
    return units
