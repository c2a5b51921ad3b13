"""Weights and schedules become turns that never stray a whole sample from what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from drawn import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.schedule import UNIT, Schedule, Weight, shares_of

values = st.one_of(st.floats(0.001, 1000), st.sampled_from([0.0, 1.0, 1e-6, 0.1, 1 / 3]))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """A schedule with up to five points within 400 samples."""
    samples = sorted({0, *draw(st.lists(st.integers(1, 150), max_size=4))})
    points = tuple((sample, draw(values)) for sample in samples)
    return Schedule(points, draw(st.sampled_from(["steps", "linear"])))


alike_weights = st.integers(1, 9).map(float)
alike_schedules = st.builds(
    lambda points, kind: Schedule(tuple(sorted({0: 1.0, **points}.items())), kind),
    st.dictionaries(st.integers(0, 99), alike_weights, max_size=4),
    st.sampled_from(["steps", "linear"]),
)
# Whose every source is owed a whole sample within the next fifty.
alike_mixtures = st.lists(alike_weights | alike_schedules, min_size=2, max_size=5).map(tuple)
mixtures = st.tuples(
    st.floats(0.001, 10), st.lists(st.one_of(values, schedules()), max_size=7)
).map(
    lambda drawn: (drawn[0], *drawn[1])  # the first keeps the sum above 0
)


def requested(weights: Sequence[Weight], n: int) -> list[list[Fraction]]:
    """What each source is owed after each of n samples: shares interpolated between points, summed exactly."""
    points = sorted({0, *(s for w in weights if isinstance(w, Schedule) for s, _ in w.points)})
    sums, rows = [Fraction(0)] * len(weights), list[list[Fraction]]()
    for sample in range(n):
        start = max(point for point in points if point <= sample)
        end = min((point for point in points if point > sample), default=None)
        shares = _shares([_at(w, start) for w in weights])
        if end is not None and any(isinstance(w, Schedule) and w.kind == "linear" for w in weights):
            ahead = _shares(
                [
                    _at(w, end if isinstance(w, Schedule) and w.kind == "linear" else start)
                    for w in weights
                ]
            )
            part = Fraction(sample - start, end - start)
            shares = [a + (b - a) * part for a, b in zip(shares, ahead, strict=True)]
        sums = [a + b for a, b in zip(sums, shares, strict=True)]
        rows.append(sums)
    return rows


def _at(weight: Weight, sample: int) -> Fraction:
    if not isinstance(weight, Schedule):
        return Fraction(repr(weight))
    (start, before), *_ = [
        (s, Fraction(repr(w))) for s, w in reversed(weight.points) if s <= sample
    ]
    after = next(((s, Fraction(repr(w))) for s, w in weight.points if s > sample), None)
    if weight.kind == "steps" or after is None:
        return before
    return before + (after[1] - before) * Fraction(sample - start, after[0] - start)


def _shares(weights: list[Fraction]) -> list[Fraction]:
    return [weight / sum(weights) for weight in weights]


def _counts(turns: Sequence[int], n_sources: int) -> np.ndarray:
    return np.cumsum(np.asarray(turns)[:, None] == np.arange(n_sources), axis=0)


@settings(deadline=None, max_examples=examples(20))
@given(mixtures)
def test_counts_stay_within_one_sample_of_the_requested_share(weights: tuple[Weight, ...]) -> None:
    """At every prefix of 200 samples, |count − Σ share| ≤ 1 (and the stairs of a line cost at most a hundredth)."""
    turns = Mixture(weights).turns(200)
    asked = np.array([[float(value) for value in row] for row in requested(weights, 200)])
    assert np.abs(_counts(turns.tolist(), len(weights)) - asked).max() <= 1.02


@settings(deadline=None, max_examples=examples(50))
@given(mixtures)
def test_whole_number_shares_are_one_sample(weights: tuple[Weight, ...]) -> None:
    """In every stretch the shares sum to one sample exactly: no unit is lost or made by rounding."""
    assert set(shares_of(weights).units.sum(axis=1).tolist()) == {UNIT}


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(st.integers(1, 999), min_size=1, max_size=7))
def test_the_largest_remainders_are_rounded_up(weights: list[int]) -> None:
    """No share is off by a whole unit, and one that is rounded up has no smaller remainder than one rounded down."""
    [units] = shares_of([float(weight) for weight in weights]).units.tolist()
    exact = [Fraction(weight * UNIT, sum(weights)) for weight in weights]
    up = [value % 1 for value, unit in zip(exact, units, strict=True) if unit > value]
    down = [value % 1 for value, unit in zip(exact, units, strict=True) if unit <= value]
    assert all(abs(unit - value) < 1 for value, unit in zip(exact, units, strict=True))
    assert min(up, default=1) >= max(down, default=0)


@settings(deadline=None, max_examples=examples(20))
@given(st.lists(alike_weights, min_size=1, max_size=4), st.integers(1, 300), st.integers(1, 3))
def test_a_source_without_a_weight_so_far_gives_nothing(
    weights: list[float], point: int, world: int
) -> None:
    """Before the point at which it gets its first weight, no rank deals a turn to it."""
    late = Schedule(((0, 0.0), (point, 1.0)))
    for rank in range(world):
        turns = Mixture((1.0, *weights, late.of_rank(rank, world))).turns(400)
        given_at = np.flatnonzero(turns == len(weights) + 1) * world + rank
        assert given_at.min() >= point


@settings(deadline=None, max_examples=examples(20))
@given(mixtures)
def test_counts_stay_strictly_within_one_of_the_whole_number_shares(
    weights: tuple[Weight, ...],
) -> None:
    """In whole units nothing is rounded: |UNIT·count − owed| < UNIT at every prefix."""
    mixture, shares = Mixture(weights), shares_of(weights)
    for _ in range(150):
        mixture.turns(1)
        owed = shares.owed(mixture.n)
        assert all(
            abs(a - UNIT * b) < UNIT for a, b in zip(owed, mixture.counts.tolist(), strict=True)
        )


@settings(deadline=None, max_examples=examples(30))
@given(mixtures, st.lists(st.integers(1, 90), min_size=1, max_size=5), st.integers(0, 299))
def test_turns_do_not_depend_on_how_many_are_asked_for(
    weights: tuple[Weight, ...], sizes: list[int], cut: int
) -> None:
    """In windows of any sizes, or resumed from counts, the turns are those asked for at once."""
    whole = Mixture(weights).turns(300)
    mixture, parts = Mixture(weights), list[int]()
    while len(parts) < 300:
        parts += mixture.turns(sizes[len(parts) % len(sizes)]).tolist()
    assert parts[:300] == whole.tolist()
    counts = np.bincount(whole[:cut], minlength=len(weights))
    assert Mixture(weights, counts).turns(300 - cut).tolist() == whole[cut:].tolist()


@settings(deadline=None, max_examples=examples(50))
@given(alike_mixtures)
def test_a_turn_goes_to_the_source_that_must_come_first(weights: tuple[Weight, ...]) -> None:
    """Of the sources that are owed something, the one served is owed a whole sample soonest; of equals the first."""
    shares, counts = shares_of(weights), [0] * len(weights)
    owed = [shares.owed(n) for n in range(1, 200)]
    for n, turn in enumerate(Mixture(weights).turns(100).tolist()):
        due = {
            source: next(
                later for later in range(n, 199) if owed[later][source] >= UNIT * (count + 1)
            )
            for source, count in enumerate(counts)
            if owed[n][source] > UNIT * count
        }
        assert turn == min(due, key=due.__getitem__)
        counts[turn] += 1


def test_counts_far_out_follow_at_once() -> None:
    """A mixture resumed after 10¹² samples is where it must be: exact shares do not drift."""
    n = 10**12
    mixture = Mixture((0.1, 0.2, 0.7), np.array([n // 10, n // 5, n - n // 10 - n // 5]))
    assert mixture.owed() == pytest.approx([n / 10, n / 5, 7 * n / 10], abs=1)
    assert np.bincount(mixture.turns(1000)).tolist() == [100, 200, 700]


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.one_of(values, schedules()), min_size=1, max_size=4), st.integers(0, 300))
@example(
    [Schedule(((0, 0.0), (30, 0.0), (60, 0.0), (90, 1.0)))], 20
)  # several stretches without a weight
@example(
    [Schedule(((0, 0.0), (30, 0.0), (90, 1.0)), "linear"), Schedule(((0, 0.0), (40, 0.0)))], 20
)
def test_turns_end_where_no_weight_is_left(weights: list[Weight], n: int) -> None:
    """When a source ends, the others share the turns for as long as one of them has a weight, or will have, and not one
    turn more.
    """
    left = Mixture(
        (1.0, *weights),
        _counts(Mixture((1.0, *weights)).turns(n).tolist() or [0], len(weights) + 1)[-1],
    )
    mixture = left.end(0)
    alive = [
        sample
        for sample in range(left.n, 2000)
        if any(_between(weight, sample) for weight in weights)
    ]
    end = alive[-1] + 1 if alive else left.n
    expected = end - left.n if end < 700 else None
    if mixture is None:
        assert expected == 0
        return
    turns = mixture.turns(700 - left.n)
    assert len(turns) == (700 - left.n if expected is None else expected)
    assert 0 not in turns
    assert len(mixture.peek(1)) == (expected is None)


def _between(weight: Weight, sample: int) -> bool:
    """Whether a weight is above 0 at a sample or, where it moves in a line, on the way from it or to it."""
    if not isinstance(weight, Schedule) or weight.kind == "steps":
        return _weight(weight, sample) > 0
    return _weight(weight, sample) > 0 or any(
        start <= sample < end and (a or b) for (start, a), (end, b) in pairwise(weight.points)
    )


def _weight(weight: Weight, sample: int) -> float:
    return weight.at(sample) if isinstance(weight, Schedule) else weight


def test_a_schedule_takes_effect_at_its_point() -> None:
    """A weight that a step sets to 0 gives no sample from that point on, and one from 0 none before."""
    weights = (Schedule(((0, 1.0), (100, 0.0))), Schedule(((0, 0.0), (100, 1.0))))
    assert Mixture(weights).turns(200).tolist() == [0] * 100 + [1] * 100


def test_an_ended_source_leaves_its_share_to_the_others() -> None:
    """After one source ends the others keep their proportion, counted from there."""
    mixture = Mixture((2.0, 1.0, 1.0))
    mixture.turns(41)
    left = mixture.end(0)
    assert left is not None
    counts = _counts(left.turns(1000).tolist(), 3)
    assert np.abs(counts - np.arange(1, 1001)[:, None] * np.array([0, 0.5, 0.5])).max() < 1
    assert left.end(1) is not None
    assert left.end(1).end(2) is None  # type: ignore[union-attr]
