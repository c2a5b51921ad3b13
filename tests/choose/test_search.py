"""Laws of the search: exact curves, consistent picks, and vocabularies with the counts of their
encoder.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from drawn import examples, in_turns
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from merges import LINES, word_counts

from volt import WordCounts
from volt.choose import criteria
from volt.choose.exact_curve import muv_search
from volt.choose.rules import rules
from volt.choose.search import checked_sizes, default_sizes, search
from volt.choose.size_steps import SearchParameters
from volt.encode.encoder import Encoder
from volt.errors import CandidateError, ConfigError, VoltError
from volt.learn.bpe import learn_bpe, replay_bpe
from volt.text.special_tokens import SpecialTokens

FEW = settings(deadline=None, max_examples=examples(40))
MARKERS = ["suffix", "prefix", "none"]
WORDS = Counter(word for line in LINES for word in line.split()) + Counter(
    {"<unk>": 30, "</s>x": 20, "<0x41>": 9}
)


def learned(words=WORDS, n_merges=200, *, marker="suffix", min_pair_count=1):
    return learn_bpe(words, n_merges, marker=marker, min_pair_count=min_pair_count)


def recounted(result):
    """Count the pieces of the corpus, encoded with the vocabulary of the result."""
    counts, found = result.candidates.counts, Counter[str]()
    encoder = Encoder(result.vocabulary)
    for pieces, n in zip(encoder.encode_words(counts.words), counts.counts.tolist(), strict=True):
        for piece in pieces:
            found[piece] += n
    return found


def assert_counts_are_exact(result):
    vocabulary = result.vocabulary
    found = recounted(result)
    counts = dict(zip(vocabulary.tokens, vocabulary.counts, strict=True))
    assert counts == {token: found[token] for token in vocabulary.tokens}
    assert set(found) - set(counts) <= set(vocabulary._reserved)


@given(word_counts(), st.sampled_from(MARKERS), st.sampled_from(["type", "occurrence"]))
@FEW
def test_the_curve_is_exact_at_every_size(words, marker, length):
    """At every size, the curve has the entropy (Eq.

    2) and the number of pieces of the exact counts.
    """
    candidates = learned(words, 40, marker=marker)
    curve = muv_search(candidates, length=length)
    assert curve.sizes.tolist() == [*range(candidates.n_atoms, candidates.n_tokens + 1)]
    for size, entropy, n_pieces in zip(
        curve.sizes.tolist(), curve.entropies, curve.n_pieces, strict=True
    ):
        counts = candidates.counts_at(size)
        expected = criteria.entropy(counts, candidates.lengths[:size], length=length)
        assert entropy == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert n_pieces == pytest.approx(
            counts.sum(), rel=1e-12
        )  # beyond 2**53, as exact as a double
    assert curve.muv.tolist() == pytest.approx(criteria.muv(curve.entropies, curve.sizes).tolist())


def test_the_curve_of_replayed_merges_is_exact():
    """The curve is exact if merges repeat, or several merges make one token."""
    merges = [
        ("b", "c"),
        ("a", "b"),
        ("ab", "c"),
        ("abc", "d"),
        ("a", "bc"),
        ("a", "b"),
        ("d", "abcd"),
    ]
    candidates = replay_bpe(
        WordCounts.from_pairs({"abcd": 3, "dabcd": 2, "cab": 1}), merges, marker="none"
    )
    curve = muv_search(candidates)
    for size, entropy in zip(curve.sizes.tolist(), curve.entropies, strict=True):
        expected = criteria.entropy(candidates.counts_at(size), candidates.lengths[:size])
        assert entropy == pytest.approx(expected)


@given(
    word_counts(),
    st.sampled_from(MARKERS),
    st.sampled_from([*rules()]),
    st.sampled_from([0.0, 0.001, 0.3]),
)
@FEW
def test_counts_in_the_vocabulary_equal_a_recount(words, marker, rule, min_share):
    """Counts in the vocabulary equal those of the encoded corpus, for all rules and shares."""
    candidates = learned(words, 40, marker=marker)
    assume(candidates.n_merges)
    result = search(candidates, select=rule, parameters=SearchParameters(min_share=min_share))
    assert_counts_are_exact(result)
    assert sum(result.vocabulary.counts) == recounted(result).total()


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("min_share", [0.001, 0.7])
def test_counts_on_text_that_spells_special_tokens(marker, min_share):
    """Text that spells special tokens is split into their parts, and counted so."""
    result = search(
        learned(marker=marker),
        parameters=SearchParameters(min_share=min_share),
        byte_fallback=True,
        select="tokens",
    )
    assert not {"<unk>", "</s>", "<0x41>"} & set(result.vocabulary.tokens)
    assert_counts_are_exact(result)


def test_a_search_is_consistent():
    """The best step, the picks, the steps and the vocabulary belong to one size."""
    candidates = learned()
    sizes = [*range(candidates.n_atoms, candidates.n_tokens, 20)]
    for rule in (*rules(), f"fixed:{sizes[3]}", f"fixed:{sizes[3] + 7}"):
        result = search(candidates, sizes=sizes, select=rule)
        assert {step.size for step in result.steps} == {
            *sizes,
            *(pick.size for pick in result.picks.values()),
        }
        assert result.searched == tuple(sizes)
        assert result.pick == result.picks[rule]
        assert result.best == result.steps[result.pick.index]
        assert result.best.size == result.pick.size
        assert set(result.picks) == {*rules(), rule}
        assert result.vocabulary.size == result.best.n_kept - len(
            {"<unk>", "</s>"}
            & set(np.array(candidates.tokens[: result.best.size])[result.best.kept])
        )
        assert result.vocabulary.merges == tuple(
            candidates.merges[: candidates.merges_at(result.best.size)]
        )
        assert result.vocabulary.provenance["signature"] == result.signature
        assert f"select:{rule}" in result.signature


def test_a_pick_on_an_edge_is_a_warning():
    """A warning names the rule and the size exactly if the pick is on an edge."""
    candidates = learned()
    sizes = [*range(candidates.n_atoms, candidates.n_tokens, 15)]
    for rule in rules():
        result = search(candidates, sizes=sizes, select=rule)
        warned = [text for text in result.warnings if "edge" in text or "at least" in text]
        assert bool(warned) == result.pick.on_edge
        assert all(rule in text and f"{result.best.size:,}" in text for text in warned)


def test_the_order_of_the_corpus_does_not_matter(tmp_path):
    """The saved vocabulary does not depend on the order or the division of the corpus."""
    items = list(WORDS.items())
    halves = WordCounts.from_pairs(dict(items[::2])) + WordCounts.from_pairs(dict(items[1::2]))
    ones = WordCounts.empty()
    for word, count in items[:40]:
        ones = ones + WordCounts.from_pairs({word: count})
    ones = WordCounts.from_pairs(dict(items[40:])) + ones
    for name, counts in {
        "a": WordCounts.from_pairs(WORDS),
        "b": WordCounts.from_pairs(items[::-1]),
        "c": halves,
        "d": ones,
    }.items():
        search(learn_bpe(counts, 150)).vocabulary.save(tmp_path / name)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        (lambda c: [c.n_atoms - 1, c.n_atoms + 5], "below the"),
        (lambda c: [c.n_atoms, c.n_tokens + 1], "above the"),
        (lambda c: [c.n_atoms, c.n_atoms + 5, c.n_atoms + 5], "increase"),
        (lambda c: [c.n_atoms + 5, c.n_atoms], "increase"),
        (lambda c: [], "no sizes"),
        (lambda c: range(0), "no sizes"),
        (lambda c: [0], "below the"),
        (lambda c: [-5], "below the"),
    ],
)
def test_impossible_sizes_are_refused(sizes, found):
    """An error says if sizes are out of range, do not increase, or are missing."""
    candidates = learned()
    with pytest.raises(CandidateError, match=found):
        search(candidates, sizes=sizes(candidates))


def test_a_range_of_billions_is_refused_before_it_is_listed():
    """A range of billions of sizes is refused at once; a range of one size is searched."""
    assert 200 in [step.size for step in search(learned(), sizes=range(200, 201)).steps]
    with pytest.raises(CandidateError, match="size 999999999999 is above"):
        search(learned(), sizes=range(200, 10**12))


def test_impossible_fixed_sizes_are_refused():
    """A fixed size beyond the candidates, and an unknown rule, are refused."""
    candidates = learned()
    for size in (candidates.n_atoms - 1, candidates.n_tokens + 1):
        with pytest.raises(CandidateError, match=str(size)):
            search(candidates, select=f"fixed:{size}")
    with pytest.raises(ConfigError, match="best"):
        search(candidates, select="best")


@given(word_counts(), st.sampled_from(MARKERS), st.integers(0, 60))
@FEW
def test_default_sizes_can_be_searched(words, marker, n_merges):
    """Default sizes increase, lie within the candidates, and are at most 33."""
    candidates = learned(words, n_merges, marker=marker)
    sizes = default_sizes(candidates)
    assert checked_sizes(candidates, sizes) == sizes
    assert 1 <= len(sizes) <= 33
    assert all(a < b for a, b in pairwise(sizes))


TINY = [
    {"low": 1},
    {"a": 1},
    {"a": 10**12},
    {"ab": 1},
    {"a": 1, "b": 1},
    {f"{i:03}": 1 for i in range(300)},
    {"▁": 2},
]


@pytest.mark.parametrize(("marker", "rule", "words"), in_turns(product(MARKERS, rules(), TINY), 4))
def test_tiny_corpora_can_be_searched(marker, rule, words):
    """A corpus of one word or of rare words gives finite numbers, or the error that nothing can be
    merged.
    """
    for n_merges, least in ((0, 2), (30, 2), (30, 1)):
        candidates = learned(words, n_merges, marker=marker, min_pair_count=least)
        if not candidates.n_merges:
            with pytest.raises(CandidateError, match="nothing to merge"):
                search(candidates, select=rule)
            continue
        result = search(candidates, select=rule)
        assert_counts_are_exact(result)
        for step in result.steps:
            assert np.isfinite([step.transport_entropy, step.entropy, step.f95, step.renyi]).all()
            assert step.transport_entropy >= 0
        assert np.isfinite(result.curve.entropies).all()


def test_an_empty_corpus_is_refused():
    """An empty corpus is an error."""
    with pytest.raises(VoltError):
        search(learn_bpe(WordCounts.empty(), 5))


def test_tiny_corpora_and_failed_transports_are_warnings():
    """Few words, and transports that did not converge, are warnings."""
    candidates = learned()
    assert any("tiny corpus" in text for text in search(candidates).warnings)
    parameters = SearchParameters(max_iters=1, threshold=1e-12)
    assert any(
        "did not converge" in text for text in search(candidates, parameters=parameters).warnings
    )


@pytest.mark.slow
def test_a_real_search(lines):
    """On Multi30k, counts are exact, every transport converges, and only `muv` is on its edge."""
    words = Counter(
        word
        for name in ("en", "de")
        for line in lines(f"multi30k/train.{name}.gz")
        for word in line.split()
    )
    candidates = learn_bpe(words, 10_000)
    result = search(candidates, sizes=range(1_000, 10_001, 500))
    assert_counts_are_exact(result)
    assert all(step.converged for step in result.steps)
    assert not result.pick.on_edge
    assert result.picks["muv"].on_edge


def test_large_counts_are_exact():
    """Counts above 2⁵³ are exact."""
    words = {word: count * 2**40 + 1 for word, count in WORDS.items()}
    assert_counts_are_exact(search(learned(words, 100)))


def test_signatures_distinguish_searches():
    """Corpus, merges, marker, sizes, rule and parameters change the signature."""
    candidates = learned()
    sizes = [candidates.n_atoms + k for k in (0, 10, 20)]
    results = [
        search(candidates, sizes=sizes),
        search(candidates, sizes=sizes[:2]),
        search(candidates, sizes=sizes, select="muv"),
        search(candidates, sizes=sizes, parameters=SearchParameters(min_share=0.5)),
        search(learned(n_merges=100), sizes=sizes),
        search(learned({**WORDS, "new": 1}), sizes=[size + 1 for size in sizes]),
        search(learned(marker="prefix")),
    ]
    assert len({result.signature for result in results}) == len(results)
    assert search(candidates, sizes=sizes).signature == results[0].signature


def test_a_rounded_size_is_measured_as_any_other():
    """The step of a size that was rounded up equals the step of a search for that size."""
    candidates = learned()
    size, parameters = (
        candidates.n_atoms + 10,
        SearchParameters("occurrence", "characters", 0.5, 0.9, 0.25, 0),
    )
    found = search(
        candidates, sizes=[size], select=size, multiple_of=13, parameters=parameters
    ).best
    same = search(candidates, sizes=[found.size], select=found.size, parameters=parameters).best
    assert size < found.size < size + 13
    assert (found.n_kept, found.entropy, found.n_pieces) == (
        same.n_kept,
        same.entropy,
        same.n_pieces,
    )
    assert found.transport_entropy == pytest.approx(same.transport_entropy, rel=1e-3)
    assert search(candidates, select=found.size).best.entropy != found.entropy


def test_special_tokens_reach_the_vocabulary():
    """The vocabulary has the special tokens and byte fallback; sizes do not count them."""
    special = SpecialTokens(user=("<url>",))
    result = search(learned(), special=special, byte_fallback=True)
    assert result.vocabulary.special == special
    assert result.vocabulary.byte_fallback
    assert len(result.vocabulary.pieces) >= result.vocabulary.size + 5 + 256
    assert Encoder(result.vocabulary).encode("x<url>")[1] == "<url>"
