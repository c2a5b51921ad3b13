"""The scores of finished trainings → the trainings to run next, the most informative first.

A trial has one axis of sizes, or, for a translation, two: the sizes of the source and of the target.
A point is a size on each axis. The sizes of an axis are factors of √2 apart, or of 2 if there are
two. The schedule begins with a size, its half and its double. While the best size so far is the
smallest or largest one tried, it goes on in that direction. Of two axes, it searches the second
first, with the first size of the other axis, and then the first, with the best size of the second.
Last, it tries the sizes next to the best point on each axis, and repeats the best point and these
neighbours with another seed. A training is a pair (point, repetition), with repetition 1 or 2.

>>> sizes = Sizes.around(2000, low=100, high=3000)
>>> sizes.values
(250, 354, 500, 707, 1000, 1414, 2000, 2828, 3000)
>>> [point for point, _ in wanted({}, [sizes])[:3]]
[(2000,), (1000,), (3000,)]
>>> scores = {((2000,), 1): 1.5, ((1000,), 1): 1.6, ((3000,), 1): 1.7}
>>> wanted(scores, [sizes])[:2]
[((1414,), 1), ((2828,), 1)]
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

WIDEST = 3  # doublings from the first size to the largest, and halvings to the smallest
REPETITIONS = 2  # trainings of the best point and of each of its neighbours
_ROUND = 125  # of an axis of two: its sizes are this number, doubled several times

Point = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that may be tried.

    values: tokens, ascending
    start: the size to begin with
    doubling: by how many indices a size and its double are apart
    """

    values: tuple[int, ...]
    start: int
    doubling: int = 2

    @classmethod
    def around(cls, size: int, *, low: int, high: int) -> Sizes:
        """Return sizes from an eighth of `size` to eight times `size`, from `low` to `high`."""
        start = min(max(size, low), high)
        values = set[int]()
        for n_halves in range(-2 * WIDEST, 2 * WIDEST + 1):
            value = round(start * 2 ** (n_halves / 2))
            values.add(min(max(value, low), high))
        return cls(tuple(sorted(values)), start)

    @classmethod
    def near(cls, size: int, *, low: int, high: int) -> Sizes:
        """Return `low`, 125, 250, 500, … up to `high`, to begin with the nearest to `size`.

        >>> Sizes.near(1700, low=70, high=3000)
        Sizes(values=(70, 125, 250, 500, 1000, 2000), start=2000, doubling=1)
        """
        doubled = [_ROUND << n for n in range(high.bit_length())]
        values = (low, *(value for value in doubled if low < value <= high))
        start = min(values, key=lambda value: abs(math.log(size / value)))
        return cls(values, start, doubling=1)

    def move(self, size: int, steps: int) -> int:
        """Return the size some steps up or down, or the last one in that direction."""
        index = self.values.index(size) + steps
        return self.values[min(max(index, 0), len(self.values) - 1)]

    def search(self, best: int, tried: Sequence[int]) -> list[int]:
        """Return the sizes to try, the first one first. best: of the sizes tried"""
        moves = [(self.start, 0), (self.start, -self.doubling), (self.start, self.doubling)]
        if best == min(tried, default=best):
            moves.append((best, -self.doubling))
        if best == max(tried, default=best):
            moves.append((best, self.doubling))
        return [self.move(*move) for move in moves]


def wanted(
    scores: Mapping[tuple[Point, int], float], axes: Sequence[Sizes]
) -> list[tuple[Point, int]]:
    """Return the trainings that have no score yet, in the order in which to run them.

    scores: (point, repetition) → bits per character; points that may not be tried are ignored
    axes: the sizes that may be tried on each axis
    """
    scores_at = defaultdict[Point, list[float]](list)
    for (point, _), bits in scores.items():
        if all(size in axis.values for size, axis in zip(point, axes, strict=True)):
            scores_at[point].append(bits)
    means = {point: fmean(alike) for point, alike in scores_at.items()}

    point = tuple(axis.start for axis in axes)
    points = list[Point]()
    for n in reversed(range(len(axes))):
        line = [other for other in means if _moved(other, n, point[n]) == point]
        best = min(line, key=lambda other: means[other], default=point)[n]
        points += [
            _moved(point, n, size) for size in axes[n].search(best, [other[n] for other in line])
        ]
        point = _moved(point, n, best)
    point = min(means, key=lambda other: means[other], default=point)
    near = [point]
    for n, axis in enumerate(axes):
        near += [_moved(point, n, axis.move(point[n], step)) for step in (-1, 1)]

    order = [(point, 1) for point in (*points, *near)]
    for repetition in range(2, REPETITIONS + 1):
        order += [(point, repetition) for point in near]
    return [training for training in dict.fromkeys(order) if training not in scores]


def _moved(point: Point, n: int, size: int) -> Point:
    return (*point[:n], size, *point[n + 1 :])
