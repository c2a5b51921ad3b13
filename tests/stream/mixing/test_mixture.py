"""`Mixture` turns weights into turns that stay within one of each source's share; `Sampling`
derives weights."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stream.mixing.support import MIXTURES, mixtures
from stream.mixing.support import weights as weight_or_schedule
from support.drawn import examples
from support.golden import check

from volt.errors import ConfigError, StreamError, VoltError
from volt.stream import Mixture, Sampling, Schedule
from volt.stream.mixing import mixture as mixing
from volt.stream.mixing import schedule as scheduling
from volt.stream.mixing.mixture import temperature_shares, virtual_size
from volt.stream.mixing.schedule import FOREVER, UNIT, compute_shares

alike_weights = st.integers(1, 9).map(float)


alike_schedules = st.builds(
    lambda points, kind: Schedule(tuple(sorted({0: 1.0, **points}.items())), kind),
    st.dictionaries(st.integers(0, 99), alike_weights, max_size=4),
    st.sampled_from(["steps", "linear"]),
)


# mixtures in which each source is owed a whole turn within fifty turns
alike_mixtures = st.lists(alike_weights | alike_schedules, min_size=2, max_size=5).map(tuple)


def sum_shares(weights, n):
    """Return the exact sum of each source's shares after each of n turns, computed turn by turn."""
    points = sorted({0, *(s for w in weights if isinstance(w, Schedule) for s, _ in w.points)})
    sums = [Fraction(0)] * len(weights)
    rows = []
    for sample in range(n):
        start = max(point for point in points if point <= sample)
        end = min((point for point in points if point > sample), default=start + 1)
        first = _shares([_at(weight, start) for weight in weights])
        last = _shares([_at(weight, end if _is_linear(weight) else start) for weight in weights])
        part = Fraction(sample - start, end - start)
        shares = [a + (b - a) * part for a, b in zip(first, last, strict=True)]
        sums = [a + b for a, b in zip(sums, shares, strict=True)]
        rows.append([float(value) for value in sums])
    return np.array(rows)


def _is_linear(weight):
    return isinstance(weight, Schedule) and weight.kind == "linear"


def _at(weight, sample):
    if not isinstance(weight, Schedule):
        return Fraction(repr(weight))
    points = [(s, Fraction(repr(w))) for s, w in weight.points]
    start, before = max(point for point in points if point[0] <= sample)
    end, after = min((point for point in points if point[0] > sample), default=(start + 1, before))
    if weight.kind == "steps":
        return before
    return before + (after - before) * Fraction(sample - start, end - start)


def _shares(weights):
    return [weight / sum(weights) for weight in weights]


def _counts(turns, n_sources):
    return np.cumsum(np.asarray(turns)[:, None] == np.arange(n_sources), axis=0)


@settings(deadline=None, max_examples=examples(20))
@given(mixtures)
def test_counts_stay_within_one_turn_of_the_sum_of_shares(weights):
    """After each of 200 turns, |count − Σ share| ≤ 1 for each source (1.02 with linear
    schedules)."""
    counts = _counts(Mixture(weights).turns(200), len(weights))
    assert np.abs(counts - sum_shares(weights, 200)).max() <= 1.02


@settings(deadline=None, max_examples=examples(20))
@given(st.lists(alike_weights, min_size=1, max_size=4), st.integers(1, 300), st.integers(1, 3))
def test_a_source_gets_no_turn_before_its_weight_rises(weights, point, world):
    """No rank gives a source a turn before the sample at which its schedule rises above 0."""
    late = Schedule(((0, 0.0), (point, 1.0)))
    for rank in range(world):
        turns = Mixture((1.0, *weights, late.of_rank(rank, world))).turns(400)
        given_at = np.flatnonzero(turns == len(weights) + 1) * world + rank
        assert given_at.min() >= point


@settings(deadline=None, max_examples=examples(20))
@given(mixtures)
def test_counts_stay_strictly_within_one_of_the_units_owed(weights):
    """After each turn, |UNIT · count − units owed| < UNIT for each source, in whole numbers."""
    mixture = Mixture(weights)
    shares = compute_shares(weights)
    for _ in range(150):
        mixture.turns(1)
        owed = shares.units_owed(mixture.n)
        assert all(
            abs(a - UNIT * b) < UNIT for a, b in zip(owed, mixture.counts.tolist(), strict=True)
        )


@settings(deadline=None, max_examples=examples(30))
@given(mixtures, st.lists(st.integers(1, 90), min_size=1, max_size=5), st.integers(0, 299))
def test_turns_do_not_depend_on_the_sizes_of_requests(weights, sizes, cut):
    """Mixture.turns returns equal turns for requests of any sizes, and for a mixture made from
    counts."""
    whole = Mixture(weights).turns(300)
    mixture = Mixture(weights)
    parts = []
    while len(parts) < 300:
        parts += mixture.turns(sizes[len(parts) % len(sizes)]).tolist()
    assert parts[:300] == whole.tolist()
    counts = np.bincount(whole[:cut], minlength=len(weights))
    assert Mixture(weights, counts).turns(300 - cut).tolist() == whole[cut:].tolist()


@settings(deadline=None, max_examples=examples(50))
@given(alike_mixtures)
def test_a_turn_goes_to_the_source_whose_next_turn_is_due_first(weights):
    """Mixture gives each turn to the source that must have it soonest; ties go to the first
    source."""
    shares = compute_shares(weights)
    counts = [0] * len(weights)
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


def test_shares_do_not_drift():
    """A mixture that is resumed after 10¹² turns still gives each source its exact share."""
    n = 10**12
    mixture = Mixture((0.1, 0.2, 0.7), np.array([n // 10, n // 5, n - n // 10 - n // 5]))
    assert mixture.owed() == pytest.approx([n / 10, n / 5, 7 * n / 10], abs=1)
    assert np.bincount(mixture.turns(1000)).tolist() == [100, 200, 700]


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(weight_or_schedule, min_size=1, max_size=4), st.integers(0, 300))
@example([Schedule(((0, 0.0), (30, 0.0), (60, 0.0), (90, 1.0)))], 20)  # several idle intervals
@example(
    [Schedule(((0, 0.0), (30, 0.0), (90, 1.0)), "linear"), Schedule(((0, 0.0), (40, 0.0)))], 20
)
def test_turns_end_where_no_weight_is_left(weights, n):
    """After a source has ended, there are turns until the last sample at which another weight is
    above 0."""
    before = Mixture((1.0, *weights))
    before.turns(n or 1)
    n = before.n
    mixture = before.end(0)
    end = n
    for sample in range(n, 2000):
        if any(_is_positive(weight, sample) for weight in weights):
            end = sample + 1
    if mixture is None:
        assert end == n
        return
    turns = mixture.turns(700 - n)
    assert len(turns) == min(end, 700) - n
    assert 0 not in turns
    assert len(mixture.peek(1)) == (end > 700)


def _is_positive(weight, sample):
    """Check whether a weight is above 0 at a sample or, if it is linear, just before or after
    it."""
    if not isinstance(weight, Schedule):
        return weight > 0
    is_rising_or_falling = weight.kind == "linear" and any(
        start <= sample < end and (a or b) for (start, a), (end, b) in pairwise(weight.points)
    )
    return weight.at(sample) > 0 or is_rising_or_falling


def test_a_step_takes_effect_at_its_sample():
    """A source whose weight a step sets to 0 has no turn from its sample on; the other source has
    all."""
    weights = (Schedule(((0, 1.0), (100, 0.0))), Schedule(((0, 0.0), (100, 1.0))))
    assert Mixture(weights).turns(200).tolist() == [0] * 100 + [1] * 100


def test_the_other_sources_share_the_turns_of_an_ended_source():
    """Mixture.end returns a mixture of the other sources in proportion; None after the last
    source."""
    mixture = Mixture((2.0, 1.0, 1.0))
    mixture.turns(41)
    others = mixture.end(0)
    counts = _counts(others.turns(1000), 3)
    assert np.abs(counts - np.arange(1, 1001)[:, None] * np.array([0, 0.5, 0.5])).max() < 1
    assert others.end(1).end(2) is None


@pytest.mark.parametrize("name", MIXTURES)
def test_turns_of_mixtures_do_not_change(name):
    """The turns, shares and owed turns of each example, also after its first source ends, equal the
    stored ones."""
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


def test_weights_and_virtual_sizes_do_not_change():
    """The weights that each Sampling derives from three sizes, and their virtual epoch, equal the
    stored ones."""
    sizes = {"a": 1000, "b": 100, "c": 1}
    rows = {}
    by_temperature = [Sampling(), Sampling(temperature=5), Sampling(temperature=1)]
    for one in (*by_temperature, Sampling("uniform"), Sampling("concatenation")):
        weights = one.weights(sizes)
        assert Sampling(one.by, 1.5 if one == Sampling() else one.temperature) == one
        rows[repr(one)] = f"{one} {weights} {virtual_size([*sizes.values()], [*weights.values()])}"
    check("mixing weights", rows)
    assert temperature_shares([], temperature=2.0) == []
    assert temperature_shares([0, 0], temperature=2.0) == [0.0, 0.0]


def test_shares_of_less_than_a_unit_and_wrong_counts_are_refused():
    """compute_shares and Sampling refuse a share of less than a unit; Mixture refuses counts off by
    over a turn."""
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
    # one source is too far ahead, or too far behind, or both
    for counts in ([3, 0], [3, 0, 0], [2, 2, 0]):
        message = rf"counts \{counts} do not follow from the weights; use another state"
        with pytest.raises(StreamError, match=message):
            Mixture([1.0] * len(counts), np.array(counts)).turns(1)
    assert Mixture((1.0,)).left == FOREVER


def test_schedules_step_or_interpolate_between_points():
    """Schedule.at returns the last point's weight, or interpolates linearly; after the last point,
    it is constant."""
    points = ((0, 1.0), (5, 3.0))
    assert [Schedule(points).at(n) for n in (0, 4, 5, 9)] == [1.0, 1.0, 3.0, 3.0]
    assert [Schedule(points, "linear").at(n) for n in (0, 4, 5, 6)] == [1.0, 2.6, 3.0, 3.0]


def test_limits_of_turns_and_intervals_at_once(monkeypatch):
    """counts_at does not depend on how many turns it computes at a time; slopes have a limited
    number of intervals."""
    counts = [Mixture(MIXTURES["weights"]).counts_at(n).tolist() for n in range(12)]
    monkeypatch.setattr(mixing, "_MOST_TURNS", 3)
    mixture = Mixture(MIXTURES["weights"])
    for n in (0, 5, 5, 11, 2):
        assert mixture.counts_at(n).tolist() == counts[n]
    monkeypatch.setattr(scheduling, "_MOST_INTERVALS", 2)
    assert compute_shares(MIXTURES["stairs"]).starts == (0, 200, 400)


FAULTS = [
    (lambda: Schedule(()), "schedule (): samples must start at 0 and rise"),
    (lambda: Schedule(((1, 1.0),)), "schedule ((1, 1.0),): samples must start at 0 and rise"),
    (lambda: Schedule(((0, 1.0), (0, 2.0))), "schedule ((0, 1.0), (0, 2.0)): samples must"),
    (
        lambda: Schedule(((0, 1.0), (5, 1.0), (3, 1.0))),
        "schedule ((0, 1.0), (5, 1.0), (3, 1.0)): samples must",
    ),
    (lambda: Schedule(((0, 1.0), (5,))), "points[1] has 1 parts; give a sample and a weight"),
    (lambda: Schedule(((0, 1.0), 5)), "points[1] is 5 (int); give a sample and a weight"),
    (lambda: Schedule(((0, "a"),)), "points[0][1] is 'a' (str); give a number"),
    (lambda: Schedule(((0, 1.0), (1.5, 1.0))), "points[1][0] is 1.5"),
    (lambda: Schedule(((0, 1.0),), "curve"), "unknown kind 'curve'; choose from steps, linear"),
    (lambda: Mixture(3), "weights is 3 (int); give a list of numbers or schedules"),
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
    ),
    (lambda: Sampling(temperature=0), "temperature 0: give a number above 0, such as 1.5"),
    (lambda: Sampling(temperature=math.nan), "temperature nan: give a number above 0, such as 1.5"),
    (lambda: Sampling(temperature=math.inf), "temperature inf: give a number above 0"),
]


@pytest.mark.parametrize(("make", "message"), FAULTS)
def test_invalid_weights_schedules_and_sampling_are_refused(make, message):
    """Schedule, Mixture, Sampling and virtual_size refuse invalid values with the value and the
    remedy."""
    with pytest.raises(VoltError) as error:
        make()
    assert str(error.value).startswith(message)


SIZES = st.lists(st.integers(1, 10**6), min_size=1, max_size=6)


TEMPERATURES = st.sampled_from([0.5, 1.0, 1.5, 2.0, 5.0, 100.0])


def naive_ratios(sizes, temperature):
    """Return r_i = (s_i / Σs)^(1/T), normalised."""
    ratios = [(size / sum(sizes)) ** (1 / temperature) for size in sizes]
    return [ratio / sum(ratios) for ratio in ratios]


def naive_size(sizes, ratios):
    """Return V = min(Σ (r_i / r_max) · s_max, 1.5 · Σs), before it is rounded down."""
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
def test_weights_and_virtual_epochs_follow_the_formula(sizes, temperature):
    """Sampling.weights are s^(1/T), normalised; virtual_size is Σ (r / r_max) · s_max, or 1.5 · Σs
    if that is less."""
    weights = weights_of(Sampling(temperature=temperature), sizes)
    ratios = naive_ratios(sizes, temperature)
    assert np.allclose(np.array(weights) / sum(weights), ratios, rtol=1e-9)
    found = virtual_size(sizes, weights)
    assert is_rounded_down(found, naive_size(sizes, ratios))
    assert min(max(sizes), sum(sizes)) <= found <= 1.5 * sum(sizes)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 1000)), min_size=1, max_size=6))
def test_virtual_epochs_follow_the_formula_for_any_weights(pairs):
    """In virtual_size, r_max is the share of the largest source; the order of the sources has no
    effect."""
    sizes = [size for size, _ in pairs]
    weights = [float(weight) for _, weight in pairs]
    found = virtual_size(sizes, weights)
    assert is_rounded_down(found, naive_size(sizes, weights))
    assert found == virtual_size(sizes[::-1], weights[::-1])


@given(SIZES)
def test_temperature_1_concatenates_and_a_high_temperature_is_uniform(sizes):
    """Sampling at T = 1 equals "concatenation", whose virtual epoch is all lines; at T = 10¹², it
    equals "uniform"."""
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
def test_shares_of_twelve_digits_lose_no_line(sizes):
    """If the weights are the sources' shares of all lines, rounded to twelve digits, virtual_size is
    exactly the number of all lines."""
    shares = [float(f"{size / sum(sizes):.12g}") for size in sizes]
    assert virtual_size(sizes, shares) == sum(sizes)


@pytest.mark.parametrize(
    ("sizes", "weights", "lines"),
    [
        ([7], [0.1], 7),  # one source
        ([5, 5, 5], [1.0, 1.0, 1.0], 15),  # equal sizes
        ([9, 1], [3.0, 1.0], 12),  # (1/9)^(1/2) = 1/3, in which no line is lost
        ([100, 1], [1.0, 1.0], 151),  # the bound, 151.5, rounded down
        ([100, 1], [0.0, 1.0], 1),  # a source without a weight does not count
        ([1, 1, 1], [1e-9, 1, 0], 1),
        ([100, 1], [1.0, 1000.0], 151),
        (
            [10, 10],
            [1.0, 3.0],
            13,
        ),  # of equal sizes, the source with the higher weight is read once
        ([3, 3], [0.2, 0.1], 4),
        ([7, 2], [7 / 9 - 1e-12, 2 / 9], 9),  # less than a whole number only by rounding
    ],
)
def test_virtual_epochs_of_edge_cases(sizes, weights, lines):
    """virtual_size returns the right number for one source, equal sizes, its bound, zero weights
    and rounding."""
    assert virtual_size(sizes, weights) == lines
