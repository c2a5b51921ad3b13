"""`compute_shares`: weights, which may change over time → each source's share of each turn.

A turn is one line of the stream, which the mixture assigns to a source. A sample is the number of a
turn, from 0. A share is a source's weight divided by the sum of all weights, in units of 2⁻⁶⁰ turn:

    weights 3 and Schedule(((0, 1), (100, 3)))   →   samples 0 … 99     shares 3/4 and 1/4
                                                     samples 100 …      shares 1/2 and 1/2

Shares are constant on an interval of samples. A linear schedule becomes intervals so short that no
source gains or loses a hundredth of a turn, unless that needs more than 2¹⁷ intervals.
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
from volt.array_types import Longs
from volt.errors import ConfigError

UNIT = 1 << 60  # units in a turn; two turns still fit into 64 bits
FOREVER = 1 << 62  # later than any sample
_MOST_INTERVALS = 1 << 17  # of a linear schedule between two points
_TOLERANCE = 0.01  # turns that a source may gain or lose within an interval


@dataclass(frozen=True, slots=True)
class Schedule:
    """A weight that changes while the stream runs; after the last point it stays constant.

    points: (sample, weight) pairs with rising samples from 0 on. A sample is the number of a line.
    kind: "steps" keeps a weight until the next point; "linear" interpolates between points.

    >>> Schedule(((0, 1.0), (1000, 0.0)), "linear").at(250)
    0.75
    """

    points: tuple[tuple[int, float], ...]
    kind: Literal["steps", "linear"] = "steps"

    def __post_init__(self) -> None:
        points = list[tuple[int, float]]()
        for index, point in enumerate(arguments.several(self.points, "points")):
            name = f"points[{index}]"
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

        Sample j of a rank is sample j · world + rank of all ranks. So a weight that changes at
        sample s changes at the rank's sample ⌈(s − rank) / world⌉.

        rank: the process's rank, from 0
        world: the number of ranks
        """
        points = {max(0, -((rank - sample) // world)): weight for sample, weight in self.points}
        return replace(self, points=tuple(points.items()))


Weight = float | Schedule


def check_weight(weight: Weight, name: str) -> None:
    """Raise ConfigError if a weight, or a weight of a schedule, is negative or infinite."""
    points = weight.points if isinstance(weight, Schedule) else [(0, weight)]
    for _, value in points:
        if not (math.isfinite(arguments.number(value, "weight")) and value >= 0):
            raise ConfigError(f"source {name!r}: weight {value} must be 0 or more, and finite")


@dataclass(slots=True)
class Shares:
    """Each source's share of a turn, constant on each interval of samples.

    starts: the first sample of each interval.
    units: (n_intervals, n_sources) int64; each row sums to UNIT, or to 0 if all weights are 0.
    """

    starts: tuple[int, ...]
    units: Longs
    _units_before: NDArray[np.object_] = field(init=False)  # owed before each interval

    def __post_init__(self) -> None:
        lengths = np.diff(np.array(self.starts, object))  # Python's whole numbers have no limit
        before = np.zeros(self.units.shape, object)
        before[1:] = np.cumsum(self.units[:-1].astype(object) * lengths[:, None], axis=0)
        self._units_before = before

    def _interval_of(self, sample: int) -> int:
        return bisect_right(self.starts, sample) - 1

    def lengths_from(self, sample: int) -> tuple[int, Longs]:
        """Return the index of a sample's interval, and the lengths of intervals from the sample on.

        The first length is the number of samples that remain in the sample's interval.
        """
        first = self._interval_of(sample)
        return first, np.diff([sample, *self.starts[first + 1 :], FOREVER])

    def find_end(self, sample: int) -> int:
        """Return the first sample, from `sample` on, at which all shares are 0; FOREVER if none
        is."""
        first = self._interval_of(sample)
        for idle in np.flatnonzero(~self.units[first:].any(axis=1)):
            return max(sample, self.starts[first + int(idle)])
        return FOREVER

    def units_owed(self, sample: int) -> NDArray[np.object_]:
        """Return the sum of each source's shares of all turns before a sample."""
        index = self._interval_of(sample)
        units = self.units[index].astype(object)
        result: NDArray[np.object_] = (
            self._units_before[index] + (sample - self.starts[index]) * units
        )
        return result


def compute_shares(weights: Sequence[Weight], *, may_end: bool = False) -> Shares:
    """Convert weights to shares.

    may_end: allow all weights to be 0: until a later weight is above 0, or for ever

    Raises ConfigError if a share is less than one unit, or if all weights are 0 and `may_end` is
    False.
    """
    points = {0}
    for weight in weights:
        if isinstance(weight, Schedule):
            points.update(sample for sample, _ in weight.points)
    starts = list[int]()
    rows = list[list[int]]()
    for start, end in pairwise([*sorted(points), None]):
        assert start is not None
        for sample, shares in _split_at_slopes(weights, start, end, may_end=may_end):
            starts.append(sample)
            rows.append(_round_to_units(shares))
    # while all weights are 0, the next shares apply
    for index in reversed(range(len(rows) - 1)):
        if not any(rows[index]):
            rows[index] = rows[index + 1]
    return Shares(tuple(starts), np.array(rows, np.int64))


def _split_at_slopes(
    weights: Sequence[Weight], start: int, end: int | None, *, may_end: bool
) -> list[tuple[int, list[Fraction]]]:
    """Return the first sample and the shares of each interval between two points of schedules."""
    first = _normalise([_weight_at(weight, start) for weight in weights], start, may_end=may_end)
    if end is None:
        return [(start, first)]
    at_end = list[Fraction]()
    for weight in weights:
        is_linear = isinstance(weight, Schedule) and weight.kind == "linear"
        at_end.append(_weight_at(weight, end if is_linear else start))  # a step is constant
    last = _normalise(at_end, end, may_end=may_end)
    if not any(first):  # all weights rise from 0
        return [(start, last)]
    if not any(last):  # all weights fall to 0
        return [(start, first)]

    # In one of n equal intervals, a share rises by slope / n. The middle share is right on average;
    # halfway, the sum over turns is off by slope · length / 8n².
    slopes = [b - a for a, b in zip(first, last, strict=True)]
    length = end - start
    steepest = float(max(map(abs, slopes)))
    n = math.ceil(math.sqrt(steepest * length / 8 / _TOLERANCE)) + 1
    n = min(length, _MOST_INTERVALS, n) if steepest else 1
    bounds = [start + length * index // n for index in range(n + 1)]
    intervals = list[tuple[int, list[Fraction]]]()
    for low, high in pairwise(bounds):
        middle = Fraction(low + high - 1 - 2 * start, 2 * length)
        shares = [share + slope * middle for share, slope in zip(first, slopes, strict=True)]
        intervals.append((low, shares))
    return intervals


def _weight_at(weight: Weight, sample: int) -> Fraction:
    if isinstance(weight, Schedule):
        weight = weight.at(sample)
    return Fraction(repr(float(weight)))  # 0.1 means exactly a tenth


def _normalise(values: list[Fraction], sample: int, *, may_end: bool) -> list[Fraction]:
    total = sum(values)
    if not total:
        if may_end:
            return values
        raise ConfigError(f"all weights are 0 at sample {sample}; give one source a weight above 0")
    shares = [value / total for value in values]
    for value, share in zip(values, shares, strict=True):
        if value and share * UNIT < 1:
            problem = f"weight {float(value)} of {float(total)} in all at sample {sample}"
            raise ConfigError(f"{problem} is too small for a share; raise this weight")
    return shares


def _round_to_units(shares: list[Fraction]) -> list[int]:
    """Round shares down to units; the shares with the largest remainders get the missing units."""
    exact = [share * UNIT for share in shares]
    units = list(map(math.floor, exact))
    by_remainder = sorted(range(len(units)), key=lambda index: units[index] - exact[index])
    for index in by_remainder[: math.ceil(sum(exact)) - sum(units)]:
        units[index] += 1
    return units
