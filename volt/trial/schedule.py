"""The scores so far → the trainings to run next, the most informative first.

The sizes that may be tried are factors of √2 apart. The schedule begins with a size, its half and
its double; extends them while the best size is at an edge; tries the sizes next to the best one;
and repeats the best and its neighbours with a second seed.

>>> sizes = Sizes.around(2000, low=100, high=3000)
>>> sizes.values
(250, 354, 500, 707, 1000, 1414, 2000, 2828, 3000)
>>> wanted({}, sizes)[:3], wanted({(2000, 1): 1.5, (1000, 1): 1.6, (3000, 1): 1.7}, sizes)[:2]
([(2000, 1), (1000, 1), (3000, 1)], [(1414, 1), (2828, 1)])
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

WIDEST = 3  # doublings from the first size
SEEDS = 2  # of the best size and of its neighbours


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that may be tried. values: ascending;  first: the index of the size to begin with"""

    values: tuple[int, ...]
    first: int

    @classmethod
    def around(cls, size: int, *, low: int, high: int) -> Sizes:
        """Return sizes from an eighth of a size to eight times the size, within limits."""
        start = min(max(size, low), high)
        values = set[int]()
        for n_halves in range(-2 * WIDEST, 2 * WIDEST + 1):
            value = round(start * 2 ** (n_halves / 2))
            values.add(min(max(value, low), high))
        ascending = tuple(sorted(values))
        return cls(ascending, ascending.index(start))


def wanted(scores: Mapping[tuple[int, int], float], sizes: Sizes) -> list[tuple[int, int]]:
    """Return the sizes and seeds that have no score yet, in the order in which to train.

    scores: (size, seed) → bits per character; seeds are counted from 1. Sizes that may not be tried
        do not count
    """
    by_place = defaultdict[int, list[float]](list)
    for (size, _), bits in scores.items():
        if size in sizes.values:
            by_place[sizes.values.index(size)].append(bits)
    first = sizes.first
    best = min(by_place, key=lambda place: fmean(by_place[place]), default=first)
    places = [first, first - 2, first + 2]
    if best == min(by_place, default=first):
        places.append(best - 2)
    if best == max(by_place, default=first):
        places.append(best + 2)

    near = [best, best - 1, best + 1]
    order = [(place, 1) for place in (*places, *near)]
    for seed in range(2, SEEDS + 1):
        order += [(place, seed) for place in near]
    last = len(sizes.values) - 1
    trainings = []
    for place, seed in order:
        size = sizes.values[min(max(place, 0), last)]
        if (size, seed) not in scores:
            trainings.append((size, seed))
    return list(dict.fromkeys(trainings))
