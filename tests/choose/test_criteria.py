"""Laws of the criteria: they equal plain loops and values worked out by hand."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.choose import criteria
from volt.errors import ConfigError, CriterionError

FEW = settings(deadline=None, max_examples=examples(100))
row_ = st.tuples(st.integers(0, 10**9) | st.integers(0, 3), st.integers(1, 9))
rows_ = st.lists(row_, min_size=1, max_size=30).filter(lambda rows: any(n for n, _ in rows))
lengths_ = st.sampled_from(["type", "occurrence"])
steps_ = st.lists(st.tuples(st.integers(1, 1_000), st.integers(0, 1_000)), min_size=1, max_size=20)


def arrays(rows):
    """Return the first and the second items of pairs."""
    return map(np.array, zip(*rows, strict=True))


@given(rows_, lengths_)
@FEW
def test_entropy_equals_a_plain_loop(rows, length):
    """`entropy` (Eq. 2) and `mean_length` equal plain loops, for both meanings of the mean
    length.
    """
    counts, lengths = arrays(rows)
    expected = naive.entropy(counts.tolist(), lengths.tolist(), length)
    entropy = criteria.entropy(counts, lengths, length=length)
    assert entropy == pytest.approx(expected, rel=1e-9, abs=1e-12)
    weights = counts if length == "occurrence" else None
    mean = criteria.mean_length(counts, lengths, length=length)
    assert mean == pytest.approx(np.average(lengths, weights=weights))


@given(rows_, lengths_, st.floats(1e-6, 1e6))
@FEW
def test_entropy_ignores_scale_and_order(rows, length, scale):
    """`entropy` does not depend on the order or a common factor of counts, and is at most log(n) /
    l.
    """
    counts, lengths = arrays(rows)
    entropy = criteria.entropy(counts, lengths, length=length)
    scaled = criteria.entropy(counts[::-1] * scale, lengths[::-1], length=length)
    assert scaled == pytest.approx(entropy, rel=1e-9, abs=1e-12)
    mean = criteria.mean_length(counts, lengths, length=length)
    assert 0 <= entropy <= math.log(len(counts)) / mean + 1e-9


@pytest.mark.parametrize("counts", [[], [0, 0], [1, -1], [math.nan, 1.0], [math.inf, 1.0]])
def test_impossible_counts_are_refused(counts):
    """Every criterion raises CriterionError if no count is positive, or one is negative or not
    finite.
    """
    counts = np.array(counts)
    functions = [criteria.probs, criteria.divergence, criteria.renyi_efficiency]
    functions.append(lambda counts: criteria.entropy(counts, np.ones(len(counts), int)))
    if not len(counts) or counts.any():
        functions.append(criteria.f95)
    for criterion in functions:
        with pytest.raises(CriterionError):
            criterion(counts)


def test_options_out_of_range_are_refused():
    """An unknown `length`, an `alpha` without a Rényi entropy, and empty ranges of ranks raise
    errors.
    """
    one = np.array([1])
    with pytest.raises(ConfigError, match="median"):
        criteria.mean_length(one, one, length="median")
    for alpha in (0, -1, 1, math.nan):
        with pytest.raises(ConfigError, match="alpha"):
            criteria.renyi_efficiency(np.array([1, 2]), alpha=alpha)
    for low, high in ((0.5, 0.5), (-0.1, 1), (0, 1.1)):
        with pytest.raises(ConfigError, match="low"):
            criteria.percentile_frequency(one, low=low, high=high)


@given(steps_)
@FEW
def test_muv_is_the_slope_of_falling_entropy(steps):
    """`muv` equals Eq. 1 from each size to the next; a single size has none."""
    gaps, entropies = arrays(steps)
    sizes = np.cumsum(gaps)
    expected = [
        (entropies[t - 1] - entropies[t]) / (sizes[t] - sizes[t - 1]) for t in range(1, len(sizes))
    ]
    assert criteria.muv(entropies, sizes).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("sizes", [[1, 1], [2, 1], [1, 2, 2]])
def test_muv_needs_increasing_sizes(sizes):
    """`muv` raises CriterionError if sizes do not increase."""
    with pytest.raises(CriterionError, match="increase"):
        criteria.muv(np.zeros(len(sizes)), np.array(sizes))


@given(steps_)
@FEW
def test_the_knee_is_farthest_below_the_line(steps):
    """`knee` returns the point farthest from the line that joins the first and the last point."""
    gaps, entropies = arrays(steps)
    sizes = np.cumsum(gaps)
    distances = naive.chord_distances(entropies.tolist(), sizes.tolist())
    knee = criteria.knee(entropies, sizes)
    assert distances[knee] == pytest.approx(max(distances), abs=1e-9)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=300))
@FEW
def test_f95_leaves_five_percent_below(counts):
    """`f95` is a count that 95 % of the types reach, and fewer than 95 % exceed."""
    f95 = criteria.f95(np.array(counts))
    assert f95 in counts
    assert sum(count >= f95 for count in counts) >= 0.95 * len(counts)
    assert sum(count > f95 for count in counts) < 0.95 * len(counts)


@given(rows_, st.sampled_from([0.5, 2.0, 2.5, 7.0]))
@FEW
def test_renyi_efficiency_equals_its_formula(rows, alpha):
    """`renyi_efficiency` equals log Σ p^α / ((1 − α) log n), and is between 0 and 1."""
    counts, _ = arrays(rows)
    efficiency = criteria.renyi_efficiency(counts, alpha=alpha)
    if len(counts) == 1:
        assert efficiency == 1
        return
    powers = [(count / counts.sum()) ** alpha for count in counts if count]
    expected = math.log(sum(powers)) / (1 - alpha) / math.log(len(counts))
    assert efficiency == pytest.approx(expected, abs=1e-9)
    assert -1e-9 <= efficiency <= 1 + 1e-9


@given(rows_)
@FEW
def test_divergence_is_a_distance_from_uniform(rows):
    """`divergence` equals ½ Σ |p − 1/K|, which is 1 − 1/K if one type has all occurrences."""
    counts, _ = arrays(rows)
    n = len(counts)
    divergence = criteria.divergence(counts)
    expected = sum(abs(count / counts.sum() - 1 / n) for count in counts) / 2
    assert divergence == pytest.approx(expected, abs=1e-9)
    assert -1e-9 <= divergence <= 1 - 1 / n + 1e-9
    assert criteria.divergence(np.eye(n)[0]) == pytest.approx(1 - 1 / n)


def test_criteria_of_pieces_by_hand():
    """`bits`, `fertility`, `unknown_rate` and `premiums` give values worked out by hand.

    The fertility of a text without words raises CriterionError."""
    assert [criteria.bits(*pair) for pair in ((12, 16), (0, 16), (7, 1))] == [48, 0, 0]
    assert [criteria.fertility(*pair) for pair in ((12, 5), (0, 1))] == [2.4, 0]
    assert [criteria.unknown_rate(*pair) for pair in ((3, 12), (0, 0))] == [0.25, 0]
    assert criteria.premiums([300, 150, 450]) == [2, 1, 3]
    with pytest.raises(CriterionError):
        criteria.fertility(1, 0)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 20)), min_size=1, max_size=20))
@FEW
def test_continued_word_rate_equals_a_loop_over_words(rows):
    """`continued_word_rate` is the share of a text's words that have more than one piece."""
    words = [n_pieces for n_pieces, count in rows for _ in range(count)]
    rate = criteria.continued_word_rate(*arrays(rows))
    assert rate == pytest.approx(sum(n > 1 for n in words) / len(words))


@given(rows_, st.floats(0, 0.5), st.floats(0.5, 1, exclude_min=True))
@FEW
def test_percentile_frequency_equals_a_loop_over_ranks(rows, low, high):
    """`percentile_frequency` sums the shares of the types that occur, from rank ⌊low K⌋ to ⌊high
    K⌋.
    """
    counts = sorted((count for count, _ in rows if count), reverse=True)
    n = len(counts)
    middle = [count for rank, count in enumerate(counts) if int(low * n) <= rank < int(high * n)]
    frequency = criteria.percentile_frequency(np.array(counts), low=low, high=high)
    assert frequency == pytest.approx(sum(middle) / sum(counts), abs=1e-12)
    counts = np.arange(1, 101)  # ranks 4 to 83 have counts 97 to 18
    assert criteria.percentile_frequency(counts) == pytest.approx(sum(range(18, 98)) / 5050)


@given(st.lists(st.integers(0, 300), min_size=1), st.integers(1, 200))
@FEW
def test_rare_share_counts_types_below_the_bound(counts, below):
    """`rare_share` is the share of types that occur fewer than `below` times, perhaps never."""
    expected = sum(n < below for n in counts) / len(counts)
    assert criteria.rare_share(np.array(counts), below=below) == expected


@given(st.lists(st.floats(0.5, 20), min_size=1, max_size=9))
@FEW
def test_parities_average_to_one(fertilities):
    """The values of `parity` have the mean 1, and the same ratios as the fertilities."""
    parities = np.array(criteria.parity(fertilities))
    assert parities.mean() == pytest.approx(1)
    assert parities * fertilities[0] == pytest.approx(parities[0] * np.array(fertilities))


@given(st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**32))
@FEW
def test_source_shares_equal_a_plain_loop_and_sum_to_one(n_sources, n_tokens, seed):
    """`source_shares` averages each source's share of a token's count over all used tokens."""
    counts = np.random.default_rng(seed).integers(0, 4, (n_sources, n_tokens))
    expected = np.zeros(n_sources)
    used = [column for column in counts.T if column.any()]
    for column in used:
        expected += column / column.sum() / len(used)
    shares = criteria.source_shares(counts)
    assert shares == pytest.approx(expected)
    assert shares.sum() == pytest.approx(float(bool(used)))
