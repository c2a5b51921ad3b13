"""Laws of the exact curve and its rules: they follow from encoding the text at every size."""

from collections import Counter

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.merges import markers, word_counts

from volt.choose import rules
from volt.choose.criteria import entropy, f95, muv
from volt.choose.exact_curve import muv_search
from volt.choose.rules import EXACT, TRAINED, ExactCurve, curve_picks
from volt.choose.search import search
from volt.choose.training_law import Training
from volt.learn.bpe import learn_bpe, replay_bpe

FEW = settings(deadline=None, max_examples=examples(40))
WORDS = st.dictionaries(
    st.text("abcd", min_size=1, max_size=7), st.integers(1, 40), min_size=3, max_size=12
)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Lower the limits in the rules, so that the picks of a few words vary."""
    monkeypatch.setattr(rules, "LEAST", 10)
    monkeypatch.setattr(rules, "MEDIAN_COUNT", 12)
    monkeypatch.setattr(rules, "F95_COUNT", 4)
    monkeypatch.setattr(rules, "KNEE_RANGE", (8, 24))


def learned(words, n_merges=999):
    """Learn merges until no pair is left, or `n_merges`."""
    return learn_bpe(words, n_merges, min_pair_count=1)


def exact_curve(candidates):
    """Return the curve that the rules read."""
    return ExactCurve(candidates, muv_search(candidates))


def encoded_counts(candidates, size):
    """Count the tokens of a size by encoding every word, slowly."""
    merges = candidates.merges[: candidates.merges_at(size)]
    found = Counter()
    for word, count in zip(candidates.counts.words, candidates.counts.counts.tolist(), strict=True):
        for piece in naive.encode(word, merges):
            found[piece] += count
    return [found[token] for token in candidates.tokens_at(size)]


def naive_entropies(candidates):
    """Return the entropy (Eq. 2) of every size, from the counts of encoded text."""
    return {
        size: entropy(np.array(encoded_counts(candidates, size)), candidates.lengths[:size])
        for size in range(candidates.n_atoms, candidates.n_tokens + 1)
    }


@given(WORDS)
@FEW
def test_utility_equals_its_definition(words):
    """`utility` picks the first size whose entropy is less than 1/8 below the entropy at half the
    size.
    """
    candidates = learned(words)
    entropies = naive_entropies(candidates)
    start = max(rules.LEAST, 2 * candidates.n_atoms)
    fell = [
        size
        for size in range(start, candidates.n_tokens + 1)
        if (entropies[size // 2] - entropies[size]) < entropies[size // 2] / 8 - 1e-12
    ]
    found = exact_curve(candidates).utility()
    assert (found.size, found.at_least) == (
        (fell[0], False) if fell else (candidates.n_tokens, True)
    )


def naive_last(candidates, enough, least):
    """Return the last size of the first run of sizes with enough, after merges become rare."""
    made = [
        encoded_counts(candidates, size)[-1]
        for size in range(candidates.n_atoms + 1, candidates.n_tokens + 1)
    ]
    alike = (candidates.parts[:, 0] == candidates.parts[:, 1]).tolist()
    rare = [n < least and not same for n, same in zip(made, alike, strict=True)]
    faded = rare.index(True) if True in rare else len(rare)
    end = next((n for n in range(faded, len(enough)) if not enough[n]), len(enough))
    fits = [n for n in range(end) if enough[n]]
    return candidates.n_atoms + fits[-1] if fits else None


@given(WORDS)
@FEW
def test_median500_and_f95_equal_their_definitions(words):
    """`median500` and `f95` pick the last size at which the median or 95th percentile is large
    enough.

    Counts come from encoding the text at every size. Sizes after the first failure do not count
    once merges make rare tokens.
    """
    candidates = learned(words)
    counts = [
        np.array(encoded_counts(candidates, size))
        for size in range(candidates.n_atoms, candidates.n_tokens + 1)
    ]
    medians = [
        np.sort(one[one > 0])[::-1][int(np.ceil(0.5 * (one > 0).sum())) - 1] for one in counts
    ]
    readings = exact_curve(candidates)
    for found, least, enough in (
        (
            readings.median500(),
            rules.MEDIAN_COUNT,
            [bool(median >= rules.MEDIAN_COUNT) for median in medians],
        ),
        (readings.f95(), rules.F95_COUNT, [f95(one) >= rules.F95_COUNT for one in counts]),
    ):
        last = naive_last(candidates, enough, least)
        assert (last is None) == ("no size" in found.why)
        assert found.size == last or last is None
        assert not found.at_least


@given(WORDS, st.data())
@FEW
def test_candidates_beyond_a_pick_do_not_change_it(words, data):
    """More candidates than a rule's pick do not change the pick; with fewer, it is "at least"."""
    whole = learned(words)
    training = Training(epochs=data.draw(st.sampled_from([0.01, 0.1, 1, 5])))
    readings = curve_picks(exact_curve(whole), training)
    for rule in ("trained", "balanced", "utility", "median500"):
        size = readings[rule].size
        n_merges = data.draw(st.integers(1, whole.n_merges)) if whole.n_merges else 0
        capped = learned(words, n_merges)
        found = curve_picks(exact_curve(capped), training)[rule]
        if capped.n_tokens > size:
            assert (found.size, found.why) == (size, readings[rule].why)
        elif capped.n_tokens < size:
            assert found.at_least
            assert found.size <= size


@given(WORDS, st.data())
@settings(deadline=None, max_examples=6)
def test_searched_sizes_do_not_change_picks_on_the_curve(words, data):
    """Picks of rules on the curve, and the vocabulary, do not depend on the argument `sizes`."""
    candidates = learned(words)
    if not candidates.n_merges:
        return
    sizes = range(candidates.n_atoms, candidates.n_tokens + 1)
    whole = search(candidates)
    for _ in range(2):
        asked = sorted(data.draw(st.sets(st.sampled_from(sizes), min_size=1)))
        found = search(candidates, sizes=asked)
        for rule in (TRAINED, *EXACT):
            assert (found.picks[rule].size, found.picks[rule].why) == (
                whole.picks[rule].size,
                whole.picks[rule].why,
            )
        assert found.vocabulary.tokens == whole.vocabulary.tokens
        assert found.vocabulary.merges == whole.vocabulary.merges


@given(WORDS)
@FEW
def test_balanced_is_the_larger_of_two_picks(words):
    """`balanced` picks the larger size of `utility` and `median500`, and its reason names both."""
    curve = exact_curve(learned(words))
    utility = curve.utility()
    median500 = curve.median500()
    found = curve.balanced()
    assert found.size == max(utility.size, median500.size)
    assert found.why in (
        f"{utility.why} (utility; median500 is not larger)",
        f"{median500.why} (median500; utility is not larger)",
    )


def test_median500_outgrows_rare_characters(monkeypatch):
    """`median500` picks a later size if the first sizes fail only because most characters are
    rare.
    """
    monkeypatch.setattr(rules, "MEDIAN_COUNT", 50)
    words = {f"{chr(0x4E00 + i)}": 1 for i in range(40)}
    words |= {f"{a}{b}{c}": 60 for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx"}
    candidates = learned(words)
    found = exact_curve(candidates).median500()
    counts = candidates.counts_at(candidates.n_atoms)
    assert np.median(counts[counts > 0]) < 50
    assert found.size > candidates.n_atoms
    at = candidates.counts_at(found.size)
    assert np.sort(at[at > 0])[::-1][int(np.ceil((at > 0).sum() / 2)) - 1] >= 50


def test_the_knee_states_its_range():
    """The reason of `knee` names the range; with fewer candidates than the range, the pick is "at
    least".
    """
    words = {f"{a}{b}{c}": 9 for a in "lst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
    whole = exact_curve(learned(words)).knee()
    short = exact_curve(learned(words, 5)).knee()
    assert "from 13 to 24" in whole.why
    assert (whole.at_least, short.at_least) == (False, True)


@given(word_counts(), markers, st.sampled_from(["type", "occurrence"]))
@FEW
def test_the_curve_is_exact_at_every_size(words, marker, length):
    """`muv_search` gives the entropy (Eq. 2), MUV and pieces of the exact counts at every size."""
    check_curve(learn_bpe(words, 40, marker=marker, min_pair_count=1), length)


def test_the_curve_of_replayed_merges_is_exact():
    """`muv_search` is exact if merges are repeated, or several merges make one token."""
    pairs = ["b c", "a b", "ab c", "abc d", "a bc", "a b", "d abcd"]
    words = {"abcd": 3, "dabcd": 2, "cab": 1}
    merges = [tuple(pair.split()) for pair in pairs]
    check_curve(replay_bpe(words, merges, marker="none"), "type")


def check_curve(candidates, length):
    """Compare the curve with the criteria of the counts of each size."""
    curve = muv_search(candidates, length=length)
    sizes = range(candidates.n_atoms, candidates.n_tokens + 1)
    assert curve.sizes.tolist() == list(sizes)
    counts = [candidates.counts_at(size) for size in sizes]
    entropies = [entropy(each, candidates.lengths[: len(each)], length=length) for each in counts]
    assert curve.entropies == pytest.approx(entropies, rel=1e-6, abs=1e-6)
    n_pieces = [each.sum() for each in counts]
    assert curve.n_pieces == pytest.approx(n_pieces, rel=1e-12)  # as exact as doubles
    assert curve.muv == pytest.approx(muv(curve.entropies, curve.sizes))
