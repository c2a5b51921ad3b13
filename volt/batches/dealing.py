"""Batches that are there already → the same number, of like cost, for each rank.

Batches that `token_batches` makes for a number of ranks have equally many rows in each step. Where the number changes
later, or where batches come from elsewhere, they are dealt as they are: sorted by cost, cut into steps of `world`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from volt.batches.lengths import Longs, single, stable_order
from volt.batches.options import check_place, check_world
from volt.stream.reading.order import permutation
from volt.stream.running.ranks import check_rank


@dataclass(frozen=True, slots=True, eq=False)
class Dealt:
    """Which batch each rank gets in each step.

    steps: (n_steps, world) int64, numbers of batches
    left: int64, batches that are too few for one more step, fewer than `world`
    """

    steps: Longs
    left: Longs

    def of_rank(self, rank: int) -> Longs:
        """(n_steps,) the batches of one rank.

        >>> deal([7, 8, 9], world=2).of_rank(0).shape
        (1,)
        """
        return self.steps[:, check_rank(rank, self.steps.shape[1])[0]]


def deal(costs: ArrayLike, *, world: int, seed: int = 0, epoch: int = 0, window: int = 0) -> Dealt:
    """Deal batches to ranks: in a step, each rank gets one, and their costs are neighbours among all costs.

    costs: (n,) whole numbers, such as `TokenBatches.costs`
    world: how many ranks there are
    seed, epoch, window: which batches are left, and the order of steps, follow from them

    Each batch is dealt once or left. The costs of the ranks, summed up over all steps, differ by no more than those of
    the dearest and the cheapest batch: the rank that gets the dearest of a step gets the cheapest of the next dearer.

    >>> dealt = deal([10, 20, 11, 21], world=2)
    >>> sorted(sorted(step) for step in dealt.steps.tolist()), dealt.left.tolist()
    ([[0, 2], [1, 3]], [])
    """
    found, world, place = single(costs, "costs"), check_world(world), check_place(seed, epoch, window)
    order = permutation(len(found), "deal", "batches", *place)
    n_steps = len(found) // world
    kept = order[: n_steps * world]
    steps = kept[stable_order(found[kept])].reshape(n_steps, world)
    steps[1::2] = steps[1::2, ::-1].copy()
    return Dealt(steps[permutation(n_steps, "deal", "steps", *place)], np.sort(order[n_steps * world :]))
