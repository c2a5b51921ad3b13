"""Weights and schedules become turns that never stray a whole sample from what was asked for."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stream.mixing.support import MIXTURES
from support.drawn import examples
from support.golden import check

from volt.errors import ConfigError, StreamError, VoltError
from volt.stream import Mixture, Sampling, Schedule
from volt.stream.mixing import mixture as mixing
from volt.stream.mixing import schedule as scheduling
from volt.stream.mixing.mixture import temperature_shares, virtual_size
from volt.stream.mixing.schedule import FOREVER, UNIT, compute_shares

values = st.one_of(st.floats(0.001, 1000), st.sampled_from([0.0, 1.0, 1e-6, 0.1, 1 / 3]))


@st.composite
def schedules(draw):
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


def requested(weights, n):
    """Return what each source is owed after each of n samples, by exact sums of its shares."""
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


def _at(weight, sample):
    if not isinstance(weight, Schedule):
        return Fraction(repr(weight))
    (start, before), *_ = [
        (s, Fraction(repr(w))) for s, w in reversed(weight.points) if s <= sample
    ]
    after = next(((s, Fraction(repr(w))) for s, w in weight.points if s > sample), None)
    if weight.kind == "steps" or after is None:
        return before
    return before + (after[1] - before) * Fraction(sample - start, after[0] - start)


def _shares(weights):
    return [weight / sum(weights) for weight in weights]


def _counts(turns, n_sources):
    return np.cumsum(np.asarray(turns)[:, None] == np.arange(n_sources), axis=0)


@settings(deadline=None, max_examples=examples(20))
@given(mixtures)
def test_counts_stay_within_one_sample_of_the_requested_share(weights):
    """At every prefix of 200 samples, |count − Σ share| ≤ 1 (and the stairs of a line cost at most a hundredth)."""
    turns = Mixture(weights).turns(200)
    asked = np.array([[float(value) for value in row] for row in requested(weights, 200)])
    assert np.abs(_counts(turns.tolist(), len(weights)) - asked).max() <= 1.02


@settings(deadline=None, max_examples=examples(20))
@given(st.lists(alike_weights, min_size=1, max_size=4), st.integers(1, 300), st.integers(1, 3))
def test_a_source_without_a_weight_so_far_gives_nothing(weights, point, world):
    """No rank gives a turn to a source before the point at which its weight rises above 0."""
    late = Schedule(((0, 0.0), (point, 1.0)))
    for rank in range(world):
        turns = Mixture((1.0, *weights, late.of_rank(rank, world))).turns(400)
        given_at = np.flatnonzero(turns == len(weights) + 1) * world + rank
        assert given_at.min() >= point


@settings(deadline=None, max_examples=examples(20))
@given(mixtures)
def test_counts_stay_strictly_within_one_of_the_whole_number_shares(
    weights,
):
    """In whole units nothing is rounded: |UNIT·count − owed| < UNIT at every prefix."""
    mixture, shares = Mixture(weights), compute_shares(weights)
    for _ in range(150):
        mixture.turns(1)
        owed = shares.units_owed(mixture.n)
        assert all(
            abs(a - UNIT * b) < UNIT for a, b in zip(owed, mixture.counts.tolist(), strict=True)
        )


@settings(deadline=None, max_examples=examples(30))
@given(mixtures, st.lists(st.integers(1, 90), min_size=1, max_size=5), st.integers(0, 299))
def test_turns_do_not_depend_on_how_many_are_asked_for(weights, sizes, cut):
    """Turns are the same for any window sizes, and when resumed from counts."""
    whole = Mixture(weights).turns(300)
    mixture, parts = Mixture(weights), list[int]()
    while len(parts) < 300:
        parts += mixture.turns(sizes[len(parts) % len(sizes)]).tolist()
    assert parts[:300] == whole.tolist()
    counts = np.bincount(whole[:cut], minlength=len(weights))
    assert Mixture(weights, counts).turns(300 - cut).tolist() == whole[cut:].tolist()


@settings(deadline=None, max_examples=examples(50))
@given(alike_mixtures)
def test_a_turn_goes_to_the_source_that_must_come_first(weights):
    """Each turn goes to the source whose next sample is due first; ties go to the first source."""
    shares, counts = compute_shares(weights), [0] * len(weights)
    owed = [shares.units_owed(n) for n in range(1, 200)]
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


def test_counts_far_out_follow_at_once():
    """A mixture resumed after 10¹² samples has exact counts: shares do not drift."""
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
def test_turns_end_where_no_weight_is_left(weights, n):
    """After a source ends, turns continue for as long as another source has a weight, and no longer."""
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


def _between(weight, sample):
    """Check whether a weight is above 0 at a sample or, if it is linear, just before or after it."""
    if not isinstance(weight, Schedule) or weight.kind == "steps":
        return _weight(weight, sample) > 0
    return _weight(weight, sample) > 0 or any(
        start <= sample < end and (a or b) for (start, a), (end, b) in pairwise(weight.points)
    )


def _weight(weight, sample):
    return weight.at(sample) if isinstance(weight, Schedule) else weight


def test_a_schedule_takes_effect_at_its_point():
    """A weight that a step sets to 0 gives no sample from that point on, and one from 0 none before."""
    weights = (Schedule(((0, 1.0), (100, 0.0))), Schedule(((0, 0.0), (100, 1.0))))
    assert Mixture(weights).turns(200).tolist() == [0] * 100 + [1] * 100


def test_an_ended_source_leaves_its_share_to_the_others():
    """After one source ends the others keep their proportion, counted from there."""
    mixture = Mixture((2.0, 1.0, 1.0))
    mixture.turns(41)
    left = mixture.end(0)
    assert left is not None
    counts = _counts(left.turns(1000).tolist(), 3)
    assert np.abs(counts - np.arange(1, 1001)[:, None] * np.array([0, 0.5, 0.5])).max() < 1
    assert left.end(1) is not None
    assert left.end(1).end(2) is None  # type: ignore[union-attr]


@pytest.mark.parametrize("name", MIXTURES)
def test_turns_of_mixtures(name):
    """Turns, shares and owed samples do not change, also after the first source ends."""
    mixture = Mixture(MIXTURES[name])
    text = "".join(map(str, mixture.turns(24).tolist()))
    text += f" {np.round(mixture.shares(), 9).tolist()} {np.round(mixture.owed(), 6).tolist()} {mixture.left}"
    text += f" {np.round(mixture.owed(7), 6).tolist()} {mixture.counts_at(7).tolist()} {mixture!r}"
    assert mixture.counts_at(24).tolist() == mixture.counts.tolist()
    assert mixture.owed(24) == mixture.owed()
    left = mixture.end(0)
    if left is not None:
        assert (left.n, left.since, left.base.tolist()) == (24, 24, mixture.counts.tolist())
        text += f" | {''.join(map(str, left.turns(9).tolist()))} {np.round(left.owed(), 6).tolist()} {left.left}"
        text += f" {left.counts_at(27).tolist()} {left!r}"
    check(f"mixing turns {name}", text)


def test_weights_and_virtual_sizes():
    """Weights that sizes give, with the usual temperature too, and lines of a virtual epoch."""
    sizes = {"a": 1000, "b": 100, "c": 1}
    rows = dict[str, Any]()
    by_temperature = [Sampling(), Sampling(temperature=5), Sampling(temperature=1)]
    for one in (*by_temperature, Sampling("uniform"), Sampling("concatenation")):
        weights = one.weights(sizes)
        assert Sampling(one.by, 1.5 if one == Sampling() else one.temperature) == one
        rows[repr(one)] = f"{one} {weights} {virtual_size([*sizes.values()], [*weights.values()])}"
    check("mixing weights", rows)
    assert temperature_shares([], temperature=2.0) == []
    assert temperature_shares([0, 0], temperature=2.0) == [0.0, 0.0]
    assert (
        virtual_size([3, 3], [0.1, 0.2]) == virtual_size([3, 3], [0.2, 0.1]) == 4
    )  # of equals, the heavier
    assert (
        virtual_size([7, 2], [7 / 9 - 1e-12, 2 / 9]) == 9
    )  # a hair below a whole number, by rounding
    assert virtual_size([1, 1], [1, 1]) == 2
    assert virtual_size([1, 1, 1], [1e-9, 1, 0]) == 1


def test_limits_of_weights():
    """A share of one unit is the least; a mixture's counts follow from its weights to within one sample."""
    assert compute_shares([1.152921504606846e18, 1.0]).units.tolist() == [[UNIT - 1, 1]]
    with pytest.raises(
        ConfigError,
        match=r"^weight 1\.0 of 1\.15\d+e\+18 in all at sample 0 is too small for a share; raise this",
    ):
        compute_shares([1.152921504606847e18, 1.0])
    assert Sampling(temperature=0.1).weights({"a": 63, "b": 1})["b"] == pytest.approx(63.0**-10)
    with pytest.raises(
        ConfigError,
        match=r"^ratio: temperature 0\.1 leaves nothing to source 'b' \(1 lines against 64\)",
    ):
        Sampling(temperature=0.1, where="ratio").weights({"a": 64, "b": 1})
    assert Mixture((1.0, 1.0), np.array([1, 0])).turns(3).tolist() == [1, 0, 1]
    assert Mixture((1.0, 1.0), np.array([2, 0])).turns(3).tolist() == [1, 1, 0]
    for counts in (
        [3, 0],
        [3, 0, 0],
        [2, 2, 0],
    ):  # one source is too far ahead, or too far behind, or both
        with pytest.raises(
            StreamError,
            match=rf"counts \{counts} do not follow from the weights; use another state",
        ):
            Mixture([1.0] * len(counts), np.array(counts)).turns(1)
    assert Mixture((1.0,)).left == FOREVER
    assert Schedule(((0, 1.0), (5, 3.0))).at(5) == Schedule(((0, 1.0), (5, 3.0))).at(9) == 3.0
    assert [Schedule(((0, 1.0), (5, 3.0)), "linear").at(n) for n in (0, 4, 5, 6)] == [
        1.0,
        2.6,
        3.0,
        3.0,
    ]


def test_counts_are_dealt_in_parts(monkeypatch):
    """Counts among the first n turns do not depend on how many turns are computed at once."""
    counts = [Mixture(MIXTURES["weights"]).counts_at(n).tolist() for n in range(12)]
    monkeypatch.setattr(mixing, "_MOST_TURNS", 3)
    mixture = Mixture(MIXTURES["weights"])
    assert [mixture.counts_at(n).tolist() for n in (0, 5, 5, 11, 2)] == [
        counts[n] for n in (0, 5, 5, 11, 2)
    ]
    monkeypatch.setattr(scheduling, "_MOST_INTERVALS", 2)
    assert compute_shares(MIXTURES["stairs"]).starts == (0, 200, 400)


FAULTS: list[tuple[Any, str]] = [
    (lambda: Schedule(()), "schedule (): samples must start at 0 and rise"),
    (lambda: Schedule(((1, 1.0),)), "schedule ((1, 1.0),): samples must start at 0 and rise"),
    (lambda: Schedule(((0, 1.0), (0, 2.0))), "schedule ((0, 1.0), (0, 2.0)): samples must"),
    (
        lambda: Schedule(((0, 1.0), (5, 1.0), (3, 1.0))),
        "schedule ((0, 1.0), (5, 1.0), (3, 1.0)): samples must",
    ),
    (lambda: Schedule(((0, 1.0), (5,))), "points[1] has 1 parts; give a sample and a weight"),  # type: ignore[arg-type]
    (lambda: Schedule(((0, 1.0), 5)), "points[1] is 5 (int); give a sample and a weight"),  # type: ignore[arg-type]
    (lambda: Schedule(((0, "a"),)), "points[0][1] is 'a' (str); give a number"),  # type: ignore[arg-type]
    (lambda: Schedule(((0, 1.0), (1.5, 1.0))), "points[1][0] is 1.5"),  # type: ignore[arg-type]
    (lambda: Schedule(((0, 1.0),), "curve"), "unknown kind 'curve'; choose from steps, linear"),  # type: ignore[arg-type]
    (lambda: Mixture(3), "weights is 3 (int); give a list of numbers or schedules"),  # type: ignore[arg-type]
    (lambda: Mixture((1.0, -0.5)), "source '1': weight -0.5 must be 0 or more, and finite"),
    (lambda: Mixture((math.inf, 1.0)), "source '0': weight inf must be 0 or more, and finite"),
    (
        lambda: Mixture((1.0, Schedule(((0, 1.0), (2, -1.0))))),
        "source '1': weight -1.0 must be 0 or more",
    ),
    (
        lambda: Mixture((0.0, 0.0)),
        "all weights are 0 at sample 0; give one source a weight above 0",
    ),
    (
        lambda: Mixture((Schedule(((0, 1.0), (5, 0.0))),)),
        "all weights are 0 at sample 5; give one source",
    ),
    (lambda: virtual_size([1], [-1.0]), "source '0': weight -1.0 must be 0 or more, and finite"),
    (
        lambda: virtual_size([1, 2], [0.0, 0.0]),
        "all weights are 0; give one source a weight above 0",
    ),
    (
        lambda: Sampling("size"),
        "unknown by 'size'; choose from temperature, uniform, concatenation",
    ),  # type: ignore[arg-type]
    (lambda: Sampling(temperature=0), "temperature 0: give a number above 0, such as 1.5"),
    (lambda: Sampling(temperature=math.nan), "temperature nan: give a number above 0, such as 1.5"),
    (lambda: Sampling(temperature=math.inf), "temperature inf: give a number above 0"),
]


@pytest.mark.parametrize(("make", "message"), FAULTS)
def test_faults_of_mixtures(make, message):
    """Errors name the place, the value and the remedy."""
    with pytest.raises(VoltError) as error:
        make()
    assert str(error.value).startswith(message)


SIZES = st.lists(st.integers(1, 10**6), min_size=1, max_size=6)


TEMPERATURES = st.sampled_from([0.5, 1.0, 1.5, 2.0, 5.0, 100.0])


def naive_ratios(sizes, temperature):
    """r_i = (s_i / Σs)^(1/T), normalised."""
    ratios = [(size / sum(sizes)) ** (1 / temperature) for size in sizes]
    return [ratio / sum(ratios) for ratio in ratios]


def naive_size(sizes, ratios):
    """V = min(Σ (r_i / r_max) · s_max, 1.5 · Σs), before it is rounded down."""
    place = max(range(len(sizes)), key=lambda i: (sizes[i], ratios[i]))
    return min(
        math.fsum(ratio / ratios[place] * sizes[place] for ratio in ratios), 1.5 * sum(sizes)
    )


def is_rounded_down(found, exact):
    """Check whether a number is another one rounded down, up to floating-point error."""
    slack = 1e-10 * exact
    return exact - slack - 1 < found <= exact + slack


def weights_of(sampling, sizes):
    return [*sampling.weights({str(place): size for place, size in enumerate(sizes)}).values()]


@given(SIZES, TEMPERATURES)
def test_shares_and_virtual_epochs_follow_the_formula(sizes, temperature):
    """Shares are s^(1/T), normalised; V is Σ (r / r_max) · s_max, at most 1.5 times all lines, rounded down."""
    weights = weights_of(Sampling(temperature=temperature), sizes)
    ratios = naive_ratios(sizes, temperature)
    assert np.allclose(np.array(weights) / sum(weights), ratios, rtol=1e-9)
    found = virtual_size(sizes, weights)
    assert is_rounded_down(found, naive_size(sizes, ratios))
    assert min(max(sizes), sum(sizes)) <= found <= 1.5 * sum(sizes)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 1000)), min_size=1, max_size=6))
def test_explicit_weights_have_virtual_epochs_by_the_same_formula(
    message,
):
    """r_max is the share of the largest source, which need not be the largest share; the order plays no part."""
    sizes, weights = [size for size, _ in message], [float(weight) for _, weight in message]
    found = virtual_size(sizes, weights)
    assert is_rounded_down(found, naive_size(sizes, weights))
    assert found == virtual_size(sizes[::-1], weights[::-1])


@given(SIZES)
def test_temperature_one_is_concatenation_and_a_huge_one_is_uniform(sizes):
    """At T = 1 a virtual epoch is all lines once; as T grows, shares and V become those of equal shares."""
    assert weights_of(Sampling(temperature=1), sizes) == weights_of(
        Sampling("concatenation"), sizes
    )
    assert virtual_size(sizes, weights_of(Sampling("concatenation"), sizes)) == sum(sizes)
    hot = weights_of(Sampling(temperature=1e12), sizes)
    assert np.allclose(hot, 1 / len(sizes), rtol=1e-9)
    uniform = virtual_size(sizes, weights_of(Sampling("uniform"), sizes))
    assert uniform == min(max(sizes) * len(sizes), sum(sizes) * 3 // 2)
    assert abs(virtual_size(sizes, hot) - uniform) <= 1e-9 * uniform + 1


@given(SIZES)
def test_rounded_shares_lose_no_line(sizes):
    """Shares in proportion to the lines that are reported to twelve digits still give all lines."""
    shares = [float(f"{size / sum(sizes):.12g}") for size in sizes]
    assert virtual_size(sizes, shares) == sum(sizes)


@pytest.mark.parametrize(
    ("sizes", "weights", "lines"),
    [
        ([7], [0.1], 7),  # one source
        ([5, 5, 5], [1.0, 1.0, 1.0], 15),  # equal sizes
        ([9, 1], [3.0, 1.0], 12),  # (1/9)^(1/2) = 1/3, in which no line is lost
        ([100, 1], [1.0, 1.0], 151),  # the bound, 151.5, rounded down
        ([100, 1], [0.0, 1.0], 1),  # what has no weight is not there
        ([100, 1], [1.0, 1000.0], 151),  # drawn out without bound
        ([10, 10], [1.0, 3.0], 13),  # of equal sizes, the one with the greater weight is read once
    ],
)
def test_virtual_epochs_at_their_edges(sizes, weights, lines):
    """One source, equal sizes, whole thirds, the bound, sources without weight, ties."""
    assert virtual_size(sizes, weights) == lines
