"""`compute_shares` converts weights and schedules to whole-number shares, which sum to one turn."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.mixing.support import MIXTURES, mixtures
from support.drawn import examples
from support.golden import check

from volt.stream import Schedule
from volt.stream.mixing.schedule import UNIT, compute_shares


@pytest.mark.parametrize("name", MIXTURES)
def test_shares_of_mixtures_do_not_change(name):
    """The intervals and shares that compute_shares returns for each example equal the stored
    ones."""
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


def test_shares_end_where_all_later_weights_are_0():
    """find_end returns the first sample after which no weight is above 0; earlier pauses do not
    count."""
    result = compute_shares(
        [Schedule(((0, 1.0), (3, 0.0), (5, 1.0), (7, 0.0), (9, 0.0)))], may_end=True
    )
    assert [result.find_end(sample) for sample in (0, 6, 7, 8, 9, 10)] == [7, 7, 7, 8, 9, 10]


@settings(deadline=None, max_examples=examples(50))
@given(mixtures)
def test_shares_sum_to_one_turn(weights):
    """In each interval, the shares that compute_shares returns sum to exactly UNIT."""
    assert set(compute_shares(weights).units.sum(axis=1).tolist()) == {UNIT}


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(st.integers(1, 999), min_size=1, max_size=7))
def test_shares_with_the_largest_remainders_are_rounded_up(weights):
    """compute_shares rounds each share by less than a unit, and rounds up the largest
    remainders."""
    [units] = compute_shares([float(weight) for weight in weights]).units.tolist()
    exact = [Fraction(weight * UNIT, sum(weights)) for weight in weights]
    up = [value % 1 for value, unit in zip(exact, units, strict=True) if unit > value]
    down = [value % 1 for value, unit in zip(exact, units, strict=True) if unit <= value]
    assert all(abs(unit - value) < 1 for value, unit in zip(exact, units, strict=True))
    assert min(up, default=1) >= max(down, default=0)
