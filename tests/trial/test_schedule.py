"""Laws of the schedule of a trial: it finds the best size, and runs no training twice."""

import math
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from volt.trial.schedule import REPETITIONS, WIDEST, Sizes, wanted

LOW, HIGH = st.integers(1, 2_000), st.integers(2_000, 100_000)


@given(st.integers(1, 200_000), LOW, HIGH)
def test_sizes_are_within_limits_and_near_each_other(size, low, high):
    """`Sizes.around` returns ascending sizes within limits, each at most √2 times the one before.

    The first to train is the size, or the nearest limit."""
    sizes = Sizes.around(size, low=low, high=high)
    assert sizes.start == min(max(size, low), high)
    assert low <= sizes.values[0]
    assert sizes.values[-1] <= high
    for before, after in zip(sizes.values, sizes.values[1:], strict=False):
        assert before < after <= math.sqrt(2) * before + 1.5
    assert sizes.values[0] in (low, round(sizes.start / 2**WIDEST))


def run_all(axes, loss, jobs=1):
    """Run the trainings that `wanted` returns, `jobs` at a time. Return their scores."""
    scores = {}
    while ahead := wanted(scores, axes)[:jobs]:
        assert len({*ahead}) == len(ahead)
        assert not {*ahead} & scores.keys()
        for point, repetition in ahead:
            for size, axis in zip(point, axes, strict=True):
                assert size in axis.values
            assert 1 <= repetition <= REPETITIONS
            scores[point, repetition] = loss(*point)
    return scores


@given(st.integers(50, 50_000), st.floats(1, 200_000), st.integers(1, 8), st.floats(0.1, 2))
def test_the_best_size_is_found_and_nothing_is_repeated(size, best, jobs, slope):
    """For a loss convex over log size, `wanted` leads to the best size within √2, with two seeds.

    It never asks for a training twice."""
    sizes = Sizes.around(size, low=60, high=40_000)
    losses = {one: 1 + slope * math.log(one / best) ** 2 for one in sizes.values}
    scores = run_all([sizes], losses.get, jobs)
    least = min(losses, key=lambda one: losses[one])
    place = sizes.values.index(least)
    near = sizes.values[max(place - 1, 0) : place + 2]
    assert {((one,), seed) for one in near for seed in range(1, REPETITIONS + 1)} <= scores.keys()
    if sizes.values[0] <= best <= sizes.values[-1]:
        assert max(least, best) <= (math.sqrt(2) + 0.02) * min(least, best)


SIZE = st.integers(50, 50_000)
BEST = st.floats(1, 200_000)


@given(st.tuples(SIZE, SIZE), st.tuples(BEST, BEST), st.integers(1, 4), st.floats(-0.5, 0.5))
def test_the_best_pair_of_sizes_is_found(first, best, jobs, both):
    """For a loss convex over both log sizes, `wanted` ends at a pair that no neighbour beats.

    If the sides do not interact, no pair is better, and about one pair for each size is tried. The
    pair and its neighbours have two seeds."""
    axes = [Sizes.near(size, low=60, high=40_000) for size in first]

    def loss(source, target):
        from_best = math.log(source / best[0]), math.log(target / best[1])
        return from_best[0] ** 2 + from_best[1] ** 2 + both * from_best[0] * from_best[1]

    scores = run_all(axes, loss, jobs)
    found = min(scores, key=scores.get)[0]
    if not both:
        assert loss(*found) == min(loss(*pair) for pair in product(*(one.values for one in axes)))
    for step in (-1, 0, 1):
        for pair in (
            (axes[0].move(found[0], step), found[1]),
            (found[0], axes[1].move(found[1], step)),
        ):
            assert {(pair, seed) for seed in range(1, REPETITIONS + 1)} <= scores.keys()
            assert loss(*pair) >= loss(*found)
    if jobs == 1 and not both:
        assert len({pair for pair, _ in scores}) <= sum(len(axis.values) for axis in axes) + 2


@given(SIZE, LOW, HIGH)
def test_round_sizes_are_factors_of_two_apart(size, low, high):
    """`Sizes.near` returns round sizes between limits, each at most twice the one before.

    The first to train is the nearest to the size, and the smallest possible size is among them."""
    sizes = Sizes.near(size, low=low, high=high)
    assert sizes.values[0] == low
    assert sizes.values[-1] <= high < max(2 * sizes.values[-1], 125)
    for before, after in zip(sizes.values, sizes.values[1:], strict=False):
        assert before < after
        assert after <= 2 * before or before == low < 125
    distances = {value: abs(math.log(size / value)) for value in sizes.values}
    assert distances[sizes.start] == min(distances.values())


def test_a_trial_begins_with_a_size_its_half_and_its_double():
    """`wanted` begins with a size, its half and its double; scores decide what follows.

    A best size at an end leads to its double or half; another one, to its neighbours."""
    sizes = [Sizes.around(2000, low=100, high=30_000)]

    def ahead(scores):
        return [point for point, _ in wanted({((s,), 1): b for s, b in scores.items()}, sizes)]

    assert ahead({})[:3] == [(2000,), (1000,), (4000,)]
    scores = {2000: 2.0, 1000: 2.1, 4000: 1.9}
    assert ahead(scores)[0] == (8000,)
    assert ahead({**scores, 1000: 1.8})[0] == (500,)
    assert ahead({**scores, 8000: 2.2})[:2] == [(2828,), (5657,)]


def test_a_translation_begins_with_sizes_of_the_target():
    """`wanted` tries target sizes with the first source size, then source sizes with the best
    target."""
    axes = [Sizes.near(size, low=100, high=30_000) for size in (4000, 2000)]
    scores = {}
    assert [point for point, _ in wanted(scores, axes)[:3]] == [
        (4000, 2000),
        (4000, 1000),
        (4000, 4000),
    ]
    for target, bits in ((2000, 2.0), (1000, 1.9), (4000, 2.1)):
        scores[(4000, target), 1] = bits
    assert wanted(scores, axes)[0] == ((4000, 500), 1)
    scores[(4000, 500), 1] = 1.95
    assert wanted(scores, axes)[:2] == [((2000, 1000), 1), ((8000, 1000), 1)]
    scores[(2000, 1000), 1] = 2.0
    scores[(8000, 1000), 1] = 2.0
    assert wanted(scores, axes)[0] == ((4000, 1000), 2)


def test_scores_of_other_sizes_do_not_change_the_schedule():
    """`wanted` ignores the scores of sizes that may not be tried."""
    sizes = [Sizes.around(2000, low=100, high=3_000)]
    scores = {((2000,), 1): 2.0, ((1000,), 1): 2.1}
    assert wanted({**scores, ((2900,), 1): 1.0}, sizes) == wanted(scores, sizes)
