"""The scores of finished trainings → the trainings to run next, the most informative first.

The sizes that may be tried are factors of √2 apart. The schedule begins with a size, its half and
its double. While the best size so far is the smallest or largest one tried, it goes on in that
direction. Then it tries the sizes next to the best one, and repeats the best size and these
neighbours with another seed. A training is a pair (size, repetition), with repetition 1 or 2.

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

WIDEST = 3  # doublings from the first size to the largest, and halvings to the smallest
REPETITIONS = 2  # trainings of the best size and of each of its neighbours


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that may be tried.

    values: tokens, ascending
    first: the index of the size to begin with
    """

    values: tuple[int, ...]
    first: int

    @classmethod
    def around(cls, size: int, *, low: int, high: int) -> Sizes:
        """Return sizes from an eighth of `size` to eight times `size`, from `low` to `high`."""
        start = min(max(size, low), high)
        values = set[int]()
        for n_halves in range(-2 * WIDEST, 2 * WIDEST + 1):
            value = round(start * 2 ** (n_halves / 2))
            values.add(min(max(value, low), high))
        ascending = tuple(sorted(values))
        return cls(ascending, ascending.index(start))


def wanted(scores: Mapping[tuple[int, int], float], sizes: Sizes) -> list[tuple[int, int]]:
    """Return the trainings that have no score yet, in the order in which to run them.

    scores: (size, repetition) → bits per character; sizes that may not be tried are ignored
    """
    scores_at = defaultdict[int, list[float]](list)  # index of a size → scores
    for (size, _), bits in scores.items():
        if size in sizes.values:
            scores_at[sizes.values.index(size)].append(bits)
    first = sizes.first
    best = min(scores_at, key=lambda index: fmean(scores_at[index]), default=first)
    indices = [first, first - 2, first + 2]  # two steps of √2 are a doubling
    if best == min(scores_at, default=first):
        indices.append(best - 2)
    if best == max(scores_at, default=first):
        indices.append(best + 2)

    neighbours = [best, best - 1, best + 1]
    order = [(index, 1) for index in (*indices, *neighbours)]
    for repetition in range(2, REPETITIONS + 1):
        order += [(index, repetition) for index in neighbours]
    last = len(sizes.values) - 1
    trainings = []
    for index, repetition in order:
        size = sizes.values[min(max(index, 0), last)]
        if (size, repetition) not in scores:
            trainings.append((size, repetition))
    return list(dict.fromkeys(trainings))
