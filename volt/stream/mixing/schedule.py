"""Convert weights, which may change over time, to integer shares; a period is a run of samples with equal shares.

The unit of a share is 2⁻⁶⁰ of a sample; the sources' shares sum to one sample. A linear schedule becomes periods so
short that no source gains or loses a hundredth of a sample, unless that needs more than 2¹⁷ periods.
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

Longs = NDArray[np.int64]
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
            name = f"points[{place}]"
            pair = arguments.several(point, name, remedy="give a sample and a weight")
            if len(pair) != 2:
                raise ConfigError(f"{name} has {len(pair)} parts; give a sample and a weight")
            arguments.number(pair[1], f"{name}[1]")
            points.append((arguments.whole(pair[0], f"{name}[0]"), pair[1]))
        object.__setattr__(self, "points", tuple(points))  # a caller may have passed lists
        samples = [sample for sample, _ in points]
        if samples[:1] != [0] or any(b <= a for a, b in pairwise(samples)):
            raise ConfigError(f"schedule {self.points}: samples must start at 0 and rise")
        arguments.choice(self.kind, "kind", ("steps", "linear"))

    def at(self, sample: float) -> float:
        """Return the weight at a sample.

        sample: the sample's number, from 0
        """
        samples, weights = zip(*self.points, strict=True)
        if self.kind == "linear":
            return float(np.interp(sample, samples, weights))
        return float(weights[bisect_right(samples, sample) - 1])

    def of_rank(self, rank: int, world: int) -> Schedule:
        """Convert a schedule from samples of all ranks to samples of one rank.

        rank: the process's rank, from 0; its sample j is sample j · world + rank of all samples.
        world: the number of ranks.
        """
        points = {max(0, -((rank - sample) // world)): weight for sample, weight in self.points}
        return replace(self, points=tuple(points.items()))


Weight = float | Schedule


def check_weight(weight: Weight, name: str) -> None:
    points = weight.points if isinstance(weight, Schedule) else [(0, weight)]
    for _, value in points:
        if not (math.isfinite(arguments.number(value, "weight")) and value >= 0):
            raise ConfigError(f"source {name!r}: weight {value} must be 0 or more, and finite")


@dataclass(slots=True)
class Shares:
    """Whole-number shares for each period (consecutive samples with the same shares).

    starts: the first sample of each period.
    units: (n_periods, n_sources) int64; each row sums to UNIT, or to 0 if all weights are 0.
    """

    starts: tuple[int, ...]
    units: Longs
    _before: NDArray[np.object_] = field(init=False)  # units due to each source before each period

    def __post_init__(self) -> None:
        lengths = np.diff(np.array(self.starts, object))  # Python's whole numbers have no limit
        before = np.zeros(self.units.shape, object)
        before[1:] = np.cumsum(self.units[:-1].astype(object) * lengths[:, None], axis=0)
        self._before = before

    def _period(self, sample: int) -> int:
        return bisect_right(self.starts, sample) - 1

    def lengths(self, sample: int) -> tuple[int, Longs]:
        """Return the index of a sample's period, and the number of samples left in it and in each later period."""
        first = self._period(sample)
        return first, np.diff([sample, *self.starts[first + 1 :], FOREVER])

    def until(self, sample: int) -> int:
        """Return the first sample, from `sample` on, at which no source has a share; FOREVER if there is none."""
        first = self._period(sample)
        for idle in np.flatnonzero(~self.units[first:].any(axis=1)):
            return max(sample, self.starts[first + int(idle)])
        return FOREVER

    def owed(self, sample: int) -> NDArray[np.object_]:
        """Return the units due to each source before a sample."""
        period = self._period(sample)
        units = self.units[period].astype(object)
        result: NDArray[np.object_] = self._before[period] + (sample - self.starts[period]) * units
        return result


def shares_of(weights: Sequence[Weight], *, may_end: bool = False) -> Shares:
    """Convert weights to shares. Raises ConfigError if one rounds to 0, or if all are 0 and `may_end` is False."""
    points = {0}
    for weight in weights:
        if isinstance(weight, Schedule):
            points.update(sample for sample, _ in weight.points)
    starts = list[int]()
    rows = list[list[int]]()
    for start, end in pairwise([*sorted(points), None]):
        assert start is not None
        for stair, shares in _stairs(weights, start, end, may_end=may_end):
            starts.append(stair)
            rows.append(_whole(shares))
    for period in reversed(range(len(rows) - 1)):
        if not any(rows[period]):
            rows[period] = rows[period + 1]
    return Shares(tuple(starts), np.array(rows, np.int64))


def _stairs(
    weights: Sequence[Weight], start: int, end: int | None, *, may_end: bool
) -> list[tuple[int, list[Fraction]]]:
    """Return the periods from a point to the next: the first sample of each, and its shares."""
    first = _normalised([_weight(weight, start) for weight in weights], start, may_end=may_end)
    linear = [isinstance(weight, Schedule) and weight.kind == "linear" for weight in weights]
    if end is None or not any(linear):
        return [(start, first)]
    # a stepped weight is constant until the end
    at_end = [
        _weight(weight, end if is_linear else start)
        for weight, is_linear in zip(weights, linear, strict=True)
    ]
    last = _normalised(at_end, end, may_end=may_end)
    if not any(first):  # all weights rise from 0
        return [(start, last)]
    if not any(last):  # all weights fall to 0
        return [(start, first)]
    slopes = [b - a for a, b in zip(first, last, strict=True)]
    if not any(slopes):
        return [(start, first)]

    # Within one of n stairs, the accumulated share is off by at most slope·length / 8n².
    length = end - start
    steepest = float(max(map(abs, slopes)))
    n_stairs = math.ceil(math.sqrt(steepest * length / 8 / 0.01)) + 1
    n_stairs = min(length, _MAX_STAIRS, n_stairs)
    bounds = [start + length * stair // n_stairs for stair in range(n_stairs + 1)]
    result = list[tuple[int, list[Fraction]]]()
    for low, high in pairwise(bounds):
        middle = Fraction(low + high - 1 - 2 * start, 2 * length)
        shares = [share + slope * middle for share, slope in zip(first, slopes, strict=True)]
        result.append((low, shares))
    return result


def _weight(weight: Weight, sample: int) -> Fraction:
    if isinstance(weight, Schedule):
        weight = weight.at(sample)
    return Fraction(repr(float(weight)))  # 0.1 means exactly a tenth


def _normalised(values: list[Fraction], sample: int, *, may_end: bool) -> list[Fraction]:
    total = sum(values)
    if not total:
        if may_end:
            return values
        raise ConfigError(f"all weights are 0 at sample {sample}; give one source a weight above 0")
    shares = [value / total for value in values]
    for value, share in zip(values, shares, strict=True):
        if value and share * UNIT < 1:
            raise ConfigError(
                f"weight {float(value)} of {float(total)} at sample {sample} rounds to 0; raise it"
            )
    return shares


def _whole(shares: list[Fraction]) -> list[int]:
    """Round shares down to units; the largest remainders get the units that are left."""
    exact = [share * UNIT for share in shares]
    units = list(map(math.floor, exact))
    by_remainder = sorted(range(len(units)), key=lambda index: units[index] - exact[index])
    for index in by_remainder[: math.ceil(sum(exact)) - sum(units)]:
        units[index] += 1
    return units
