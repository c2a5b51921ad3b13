"""Laws of the criteria, against hand-worked cases and plain loops."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.choose.criteria import (
    bits,
    continued_word_rate,
    divergence,
    entropy,
    f95,
    fertility,
    knee,
    mean_length,
    muv,
    parity,
    percentile_frequency,
    premiums,
    probs,
    rare_share,
    renyi_efficiency,
    source_shares,
    unknown_rate,
)
from volt.errors import ConfigError, CriterionError

FEW = settings(deadline=None, max_examples=examples(100))
row = st.tuples(st.integers(0, 10**9) | st.integers(0, 3), st.integers(1, 9))
pairs = st.lists(row, min_size=1, max_size=30).filter(lambda rows: any(count for count, _ in rows))
lengths_ = st.sampled_from(["type", "occurrence"])


def arrays(rows):
    return np.array([count for count, _ in rows]), np.array([length for _, length in rows])


@given(pairs, lengths_)
@FEW
def test_entropy_equals_a_plain_loop(rows, length):
    """Eq. 2 with both meanings of l, tokens that do not occur included among the types."""
    counts, lengths = arrays(rows)
    expected = naive.entropy(counts.tolist(), lengths.tolist(), length)
    assert entropy(counts, lengths, length=length) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    weights = counts if length == "occurrence" else np.ones(len(counts))
    assert mean_length(counts, lengths, length=length) == pytest.approx(
        np.average(lengths, weights=weights)
    )


@given(pairs, lengths_, st.floats(1e-6, 1e6))
@FEW
def test_entropy_ignores_scale_and_order(rows, length, scale):
    """Masses and counts, in any unit and order, have the same entropy; it is never negative, and at most log n / l."""
    counts, lengths = arrays(rows)
    found = entropy(counts, lengths, length=length)
    assert entropy(counts * scale, lengths, length=length) == pytest.approx(
        found, rel=1e-9, abs=1e-12
    )
    assert entropy(counts[::-1], lengths[::-1], length=length) == pytest.approx(
        found, rel=1e-9, abs=1e-12
    )
    assert 0 <= found <= math.log(len(counts)) / mean_length(counts, lengths, length=length) + 1e-9


@pytest.mark.parametrize("counts", [[], [0, 0], [1, -1], [float("nan"), 1.0], [float("inf"), 1.0]])
@pytest.mark.parametrize(
    "criterion", [probs, lambda c: entropy(c, np.ones(len(c), int)), divergence, renyi_efficiency]
)
def test_impossible_counts_are_refused(criterion, counts):
    """No counts, none positive, a negative one, or one that is no number: a CriterionError, never NaN."""
    with pytest.raises(CriterionError):
        criterion(np.array(counts))
    if not all(count == 0 for count in counts) or not counts:
        with pytest.raises(CriterionError):
            f95(np.array(counts))


def test_unknown_options_are_refused():
    """An unknown length, and an order of Rényi entropy that has none."""
    with pytest.raises(ConfigError, match="median"):
        mean_length(np.array([1]), np.array([1]), length="median")
    for alpha in (0, -1, 1, float("nan")):
        with pytest.raises(ConfigError):
            renyi_efficiency(np.array([1, 2]), alpha=alpha)


@given(st.lists(st.tuples(st.integers(1, 1_000), st.floats(0, 10)), min_size=1, max_size=20))
@FEW
def test_muv_is_the_slope_of_falling_entropy(rows):
    """Eq. 1, step by step; a lone size has none."""
    sizes = np.cumsum([gap for gap, _ in rows])
    entropies = np.array([value for _, value in rows])
    found = muv(entropies, sizes)
    expected = [
        -(entropies[t] - entropies[t - 1]) / (sizes[t] - sizes[t - 1]) for t in range(1, len(rows))
    ]
    assert found.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("sizes", [[1, 1], [2, 1], [1, 2, 2]])
def test_muv_needs_growing_sizes(sizes):
    """Sizes that do not increase are a CriterionError."""
    with pytest.raises(CriterionError, match="increase"):
        muv(np.zeros(len(sizes)), np.array(sizes))


@given(st.lists(st.tuples(st.integers(1, 1_000), st.integers(0, 1_000)), min_size=1, max_size=20))
@FEW
def test_the_knee_is_farthest_below_the_chord(rows):
    """No point lies farther below the chord, measured at right angles with both axes scaled to 1."""
    sizes, entropies = (
        np.cumsum([gap for gap, _ in rows]),
        np.array([value / 100 for _, value in rows]),
    )
    distances = naive.chord_distances(entropies.tolist(), sizes.tolist())
    assert distances[knee(entropies, sizes)] == pytest.approx(max(distances), abs=1e-9)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=300))
@FEW
def test_f95_leaves_five_percent_below(counts):
    """At least 95 % of the types are as frequent as f95 says, and with the next frequent type it would be fewer."""
    found = f95(np.array(counts))
    assert found in counts
    assert sum(count >= found for count in counts) >= 0.95 * len(counts)
    assert sum(count > found for count in counts) < 0.95 * len(counts)


@given(pairs, st.sampled_from([0.5, 2.0, 2.5, 7.0]))
@FEW
def test_renyi_efficiency_equals_its_formula(rows, alpha):
    """H_α / log n = log Σ p^α / ((1 − α) log n), between 0 and 1."""
    counts, _ = arrays(rows)
    found = renyi_efficiency(counts, alpha=alpha)
    if len(counts) == 1:
        assert found == 1
        return
    p = [count / counts.sum() for count in counts if count]
    expected = math.log(sum(x**alpha for x in p)) / (1 - alpha) / math.log(len(counts))
    assert found == pytest.approx(expected, abs=1e-9)
    assert -1e-9 <= found <= 1 + 1e-9


@given(pairs)
@FEW
def test_divergence_is_a_distance_to_uniform(rows):
    """½ Σ |p − 1/K| lies between 0 and 1 − 1/K, where it is if one token has everything."""
    counts, _ = arrays(rows)
    n = len(counts)
    expected = sum(abs(count / counts.sum() - 1 / n) for count in counts) / 2
    assert divergence(counts) == pytest.approx(expected, abs=1e-9)
    assert -1e-9 <= divergence(counts) <= 1 - 1 / n + 1e-9
    assert divergence(np.eye(n)[0]) == pytest.approx(1 - 1 / n)


def test_bits_and_fertility_by_hand():
    """12 pieces of 16 types cost 12 · 4 bits; over 5 words they are 2.4 per word; 3 unknown ones are a quarter."""
    assert bits(12, 16) == 48
    assert bits(0, 16) == 0
    assert bits(7, 1) == 0
    assert fertility(12, 5) == 2.4
    assert unknown_rate(3, 12) == 0.25
    assert unknown_rate(0, 0) == 0
    assert (fertility(0, 1), bits(0, 1), premiums([300, 150, 450])) == (0, 0, [2, 1, 3])
    for refused in (
        lambda: bits(1, 0),
        lambda: bits(-1, 1),
        lambda: fertility(1, 0),
        lambda: rare_share(np.array([])),
    ):
        with pytest.raises(CriterionError):
            refused()


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 20)), min_size=1, max_size=20))
@FEW
def test_continued_word_rate_equals_looking_at_every_word(rows):
    """Written out word by word, it is the share of words that take more than one piece."""
    words = [n_pieces for n_pieces, count in rows for _ in range(count)]
    found = continued_word_rate(
        np.array([n for n, _ in rows]), np.array([count for _, count in rows])
    )
    assert found == pytest.approx(sum(n > 1 for n in words) / len(words))


@given(pairs, st.floats(0, 0.5), st.floats(0.5, 1))
@FEW
def test_percentile_frequency_equals_a_plain_loop_over_ranks(rows, low, high):
    """Of the types that occur, by falling count, those behind the first ⌊low K⌋ and within the first ⌊high K⌋."""
    counts = sorted((count for count, _ in rows if count), reverse=True)
    if low == high:
        return
    picked = [
        n
        for rank, n in enumerate(counts)
        if int(low * len(counts)) <= rank < int(high * len(counts))
    ]
    found = percentile_frequency(arrays(rows)[0], low=low, high=high)
    assert found == pytest.approx(sum(picked) / sum(counts), abs=1e-12)


def test_percentile_frequency_by_hand():
    """Of 100 types with counts 100, 99, … 1, ranks 4 to 83 hold counts 97 down to 18, of 5050 in all."""
    counts = np.arange(1, 101)
    assert percentile_frequency(counts) == pytest.approx(sum(range(18, 98)) / 5050)
    assert percentile_frequency(counts, low=0, high=1) == pytest.approx(1)
    for low, high in ((0.5, 0.5), (-0.1, 1), (0, 1.1)):
        with pytest.raises(ConfigError):
            percentile_frequency(counts, low=low, high=high)


@given(st.lists(st.integers(0, 300), min_size=1), st.integers(1, 200))
@FEW
def test_rare_share_counts_types_below_the_bound(counts, below):
    """Types seen fewer than so many times, unseen ones included, over all types."""
    assert rare_share(np.array(counts), below=below) == sum(n < below for n in counts) / len(counts)


@given(st.lists(st.floats(0.5, 20), min_size=1, max_size=9))
@FEW
def test_parities_average_to_one(fertilities):
    """Over all sources parity has the mean 1, and keeps the order and the ratios of the fertilities."""
    found = parity(fertilities)
    assert sum(found) / len(found) == pytest.approx(1)
    assert [value * fertilities[0] for value in found] == pytest.approx(
        [found[0] * value for value in fertilities]
    )


@given(st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**32))
@FEW
def test_source_shares_equal_a_plain_loop_and_sum_to_one(n_sources, n_tokens, seed):
    """The mean over the used tokens of count in the source over count in all; together 1 if any token is used."""
    counts = np.random.default_rng(seed).integers(0, 4, (n_sources, n_tokens))
    used = [column for column in counts.T.tolist() if sum(column)]
    expected = [
        sum(column[i] / sum(column) for column in used) / max(1, len(used))
        for i in range(n_sources)
    ]
    found = source_shares(counts)
    assert found == pytest.approx(expected)
    assert found.sum() == pytest.approx(1 if used else 0)


def test_entropy_by_hand():
    """Counts 2, 1, 1 of lengths 1, 2, 3: H = 1.5 log 2, divided by 2 for types, by (2 + 2 + 3) / 4 for occurrences."""
    counts, lengths = np.array([2, 1, 1, 0]), np.array([1, 2, 3, 2])
    assert entropy(counts, lengths) == pytest.approx(1.5 * math.log(2) / 2)
    assert entropy(counts, lengths, length="occurrence") == pytest.approx(1.5 * math.log(2) / 1.75)


@given(st.floats(0.1, 5), st.floats(0.5, 3), st.floats(0.1, 10), st.floats(-5, 5))
@FEW
def test_the_knee_ignores_units(power, spread, scale, shift):
    """On a falling convex curve the knee is where the slope is the mean slope, whatever the units of either axis."""
    sizes = np.unique((np.linspace(1, 100, 60) ** spread).astype(int) + 1)
    entropies = sizes.astype(float) ** -power
    index = knee(entropies, sizes)
    assert knee(entropies * scale + shift, sizes * 7 + 3) == index
    slopes = np.diff(entropies) / np.diff(sizes)
    mean = (entropies[-1] - entropies[0]) / (sizes[-1] - sizes[0])
    assert (slopes[:index] <= mean + 1e-12).all()
    assert (slopes[index:] >= mean - 1e-12).all()


@given(st.integers(1, 10**9), st.integers(1, 50))
@FEW
def test_uniform_counts_are_efficient(count, n):
    """Equal counts have Rényi efficiency 1, divergence 0, entropy log n and an f95 of that count."""
    counts = np.full(n, count)
    assert renyi_efficiency(counts) == pytest.approx(1)
    assert divergence(counts) == pytest.approx(0, abs=1e-9)
    assert entropy(counts, np.ones(n, int)) == pytest.approx(math.log(n))
    assert f95(counts) == count
