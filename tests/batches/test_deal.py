"""Laws of dealing: each batch once or left, as many for each rank, of like cost in each step and over all steps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from volt.batches import deal

costs_of = st.lists(st.integers(0, 1000), max_size=60)
worlds = st.integers(1, 9)


@given(costs_of, worlds, st.integers(0, 3))
def test_each_batch_is_dealt_once_or_left(costs: list[int], world: int, seed: int) -> None:
    """Ranks have as many batches, no two have the same one, and fewer than `world` are left."""
    dealt = deal(costs, world=world, seed=seed)
    assert dealt.steps.shape == (len(costs) // world, world)
    assert sorted([*dealt.steps.ravel().tolist(), *dealt.left.tolist()]) == list(range(len(costs)))
    for rank in range(world):
        assert dealt.of_rank(rank).tolist() == [step[rank] for step in dealt.steps.tolist()]


@given(costs_of, worlds, st.integers(0, 3))
def test_the_costs_of_a_step_are_neighbours(costs: list[int], world: int, seed: int) -> None:
    """No batch that is dealt in another step costs more than the cheapest and less than the dearest of a step."""
    dealt = deal(costs, world=world, seed=seed)
    found = np.sort(np.array(costs, np.int64)[dealt.steps], axis=1)
    spans = sorted(found[:, [0, -1]].tolist())
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


@given(costs_of, worlds, st.integers(0, 3))
def test_ranks_pay_the_same_within_one_batch(costs: list[int], world: int, seed: int) -> None:
    """Summed up over all steps, ranks differ by no more than the dearest and the cheapest batch do."""
    steps = np.array(costs, np.int64)[deal(costs, world=world, seed=seed).steps]
    assert not steps.size or np.ptp(steps.sum(axis=0)) <= np.ptp(steps)


def test_where_costs_rise_evenly_all_ranks_pay_the_same() -> None:
    """The rank that gets the dearest batch of a step gets the cheapest of the next dearer."""
    steps = deal(range(0, 120, 10), world=3).steps
    assert len({int(total) for total in (10 * steps).sum(axis=0)}) == 1


def test_a_deal_is_a_function_of_what_is_given() -> None:
    """Twice the same; seed, epoch and window each change it."""
    costs = list(range(40))
    places: list[dict[str, int]] = [{}, {"seed": 1}, {"epoch": 1}, {"window": 1}]
    dealt = [deal(costs, world=3, **place).steps.tolist() for place in places]
    assert dealt == [deal(np.array(costs), world=3, **place).steps.tolist() for place in places]
    assert all(one != other for i, one in enumerate(dealt) for other in dealt[:i])
