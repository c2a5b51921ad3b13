"""Laws of the schedule of a trial: it finds the best size, and runs no training twice."""

import math

from hypothesis import given
from hypothesis import strategies as st

from volt.trial.schedule import REPETITIONS, WIDEST, Sizes, wanted

LOW, HIGH = st.integers(1, 2_000), st.integers(2_000, 100_000)


@given(st.integers(1, 200_000), LOW, HIGH)
def test_sizes_are_within_limits_and_near_each_other(size, low, high):
    """`Sizes.around` returns ascending sizes within limits, each at most √2 times the one before.

    The first to train is the size, or the nearest limit."""
    sizes = Sizes.around(size, low=low, high=high)
    assert sizes.values[sizes.first] == min(max(size, low), high)
    assert low <= sizes.values[0]
    assert sizes.values[-1] <= high
    for before, after in zip(sizes.values, sizes.values[1:], strict=False):
        assert before < after <= math.sqrt(2) * before + 1.5
    assert sizes.values[0] in (low, round(sizes.values[sizes.first] / 2**WIDEST))


@given(st.integers(50, 50_000), st.floats(1, 200_000), st.integers(1, 8), st.floats(0.1, 2))
def test_the_best_size_is_found_and_nothing_is_repeated(size, best, jobs, slope):
    """For a loss convex over log size, `wanted` leads to the best size within √2, with two seeds.

    It never asks for a training twice."""
    sizes = Sizes.around(size, low=60, high=40_000)
    losses = {one: 1 + slope * math.log(one / best) ** 2 for one in sizes.values}
    scores = {}
    while ahead := wanted(scores, sizes)[:jobs]:
        assert len({*ahead}) == len(ahead)
        assert not {*ahead} & scores.keys()
        for one in ahead:
            assert one[0] in sizes.values
            assert 1 <= one[1] <= REPETITIONS
            scores[one] = losses[one[0]]
    least = min(losses, key=lambda one: losses[one])
    place = sizes.values.index(least)
    near = sizes.values[max(place - 1, 0) : place + 2]
    assert {(one, seed) for one in near for seed in range(1, REPETITIONS + 1)} <= scores.keys()
    if sizes.values[0] <= best <= sizes.values[-1]:
        assert max(least, best) <= (math.sqrt(2) + 0.02) * min(least, best)


def test_a_trial_begins_with_a_size_its_half_and_its_double():
    """`wanted` begins with a size, its half and its double; scores decide what follows.

    A best size at an end leads to its double or half; another one, to its neighbours."""
    sizes = Sizes.around(2000, low=100, high=30_000)
    assert wanted({}, sizes)[:3] == [(2000, 1), (1000, 1), (4000, 1)]
    scores = {(2000, 1): 2.0, (1000, 1): 2.1, (4000, 1): 1.9}
    assert wanted(scores, sizes)[0] == (8000, 1)
    assert wanted({**scores, (1000, 1): 1.8}, sizes)[0] == (500, 1)
    assert wanted({**scores, (8000, 1): 2.2}, sizes)[:2] == [(2828, 1), (5657, 1)]


def test_scores_of_other_sizes_do_not_change_the_schedule():
    """`wanted` ignores the scores of sizes that may not be tried."""
    sizes = Sizes.around(2000, low=100, high=3_000)
    scores = {(2000, 1): 2.0, (1000, 1): 2.1}
    assert wanted({**scores, (2900, 1): 1.0}, sizes) == wanted(scores, sizes)
