"""Schedules become whole-number shares, which sum to one sample."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.mixing.support import MIXTURES
from support.drawn import examples
from support.golden import check

from volt.stream import Schedule
from volt.stream.mixing.schedule import UNIT, compute_shares


@pytest.mark.parametrize("name", MIXTURES)
def test_shares_of_mixtures(name):
    """The periods of a schedule and their shares, in units of 2⁻⁶⁰, do not change."""
    result = compute_shares(MIXTURES[name], may_end=False)
    rows = [
        f"{start} {units}"
        for start, units in zip(result.starts, result.units.tolist(), strict=True)
    ]
    text = f"{len(rows)}: {' | '.join(rows[:9])} … {rows[-1]}"
    interval, lengths = result.lengths_from(11)
    text += (
        f" {interval} {lengths[:3].tolist()} {result.units_owed(11).tolist()} {result.find_end(3)}"
    )
    ended = compute_shares((0.0, *MIXTURES[name][1:]), may_end=True)
    text += (
        f" | {ended.starts[:9]} {ended.units[0].tolist()} {ended.find_end(3)} {ended.find_end(15)}"
    )
    check(f"mixing shares {name}", text)


def test_a_mixture_ends_with_its_first_stretch_without_shares():
    """If all weights are 0 at several last points, the first of these counts; pauses before other points do not."""
    result = compute_shares(
        [Schedule(((0, 1.0), (3, 0.0), (5, 1.0), (7, 0.0), (9, 0.0)))], may_end=True
    )
    assert [result.find_end(sample) for sample in (0, 6, 7, 8, 9, 10)] == [7, 7, 7, 8, 9, 10]


values = st.one_of(st.floats(0.001, 1000), st.sampled_from([0.0, 1.0, 1e-6, 0.1, 1 / 3]))


@st.composite
def schedules(draw):
    """A schedule with up to five points within 400 samples."""
    samples = sorted({0, *draw(st.lists(st.integers(1, 150), max_size=4))})
    points = tuple((sample, draw(values)) for sample in samples)
    return Schedule(points, draw(st.sampled_from(["steps", "linear"])))


mixtures = st.tuples(
    st.floats(0.001, 10), st.lists(st.one_of(values, schedules()), max_size=7)
).map(
    lambda drawn: (drawn[0], *drawn[1])  # the first keeps the sum above 0
)


@settings(deadline=None, max_examples=examples(50))
@given(mixtures)
def test_whole_number_shares_are_one_sample(weights):
    """In every period, the shares sum to exactly one sample."""
    assert set(compute_shares(weights).units.sum(axis=1).tolist()) == {UNIT}


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(st.integers(1, 999), min_size=1, max_size=7))
def test_the_largest_remainders_are_rounded_up(weights):
    """No share is off by a whole unit, and one that is rounded up has no smaller remainder than one rounded down."""
    [units] = compute_shares([float(weight) for weight in weights]).units.tolist()
    exact = [Fraction(weight * UNIT, sum(weights)) for weight in weights]
    up = [value % 1 for value, unit in zip(exact, units, strict=True) if unit > value]
    down = [value % 1 for value, unit in zip(exact, units, strict=True) if unit <= value]
    assert all(abs(unit - value) < 1 for value, unit in zip(exact, units, strict=True))
    assert min(up, default=1) >= max(down, default=0)
