"""Laws of `search`: its picks, steps, vocabulary, warnings and signature agree."""

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from choose.recounts import assert_counts_are_exact
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples, in_turns
from support.merges import LINES, MARKERS, markers, word_counts

from volt import WordCounts
from volt.choose.rules import rules
from volt.choose.search import checked_sizes, default_sizes, search
from volt.choose.size_steps import SearchParameters
from volt.encode.encoder import Encoder
from volt.errors import CandidateError, ConfigError, VoltError
from volt.learn.bpe import learn_bpe
from volt.text.special_tokens import SpecialTokens

WORDS = Counter(" ".join(LINES).split()) + Counter({"<unk>": 30, "</s>x": 20, "<0x41>": 9})


def learned(words=WORDS, n_merges=200, *, marker="suffix", min_pair_count=1):
    return learn_bpe(words, n_merges, marker=marker, min_pair_count=min_pair_count)


def test_a_search_is_consistent():
    """A search's pick, best step, steps, vocabulary and signature belong to one size and rule."""
    candidates = learned()
    sizes = range(candidates.n_atoms, candidates.n_tokens, 20)
    for rule in (*rules(), f"fixed:{sizes[3]}", f"fixed:{sizes[3] + 7}"):
        result = search(candidates, sizes=sizes, select=rule)
        best = result.best
        picked = {pick.size for pick in result.picks.values()}
        assert {step.size for step in result.steps} == {*sizes, *picked}
        assert result.searched == tuple(sizes)
        assert result.pick == result.picks[rule]
        assert best == result.steps[result.pick.index]
        assert best.size == result.pick.size
        assert set(result.picks) == {*rules(), rule}
        kept = np.array(candidates.tokens[: best.size])[best.kept]
        assert result.vocabulary.size == len(set(kept) - {"<unk>", "</s>"})
        n_merges = candidates.merges_at(best.size)
        assert result.vocabulary.merges == tuple(candidates.merges[:n_merges])
        assert result.vocabulary.provenance["signature"] == result.signature
        assert f"select:{rule}" in result.signature


def test_a_pick_on_an_edge_is_a_warning():
    """A search warns exactly if the pick is on an edge, and names the rule and the size."""
    candidates = learned()
    sizes = range(candidates.n_atoms, candidates.n_tokens, 15)
    for rule in rules():
        result = search(candidates, sizes=sizes, select=rule)
        warnings = [text for text in result.warnings if "edge" in text or "at least" in text]
        assert bool(warnings) == result.pick.on_edge
        assert all(rule in text and f"{result.best.size:,}" in text for text in warnings)


def test_the_order_of_the_corpus_does_not_matter(tmp_path):
    """The vocabulary's file does not depend on the order of the words, or on how they were
    divided.
    """
    items = list(WORDS.items())
    parts = [WordCounts.from_pairs(dict(items[start::9])) for start in range(9)]
    for number, counts in enumerate((WORDS, dict(items[::-1]), sum(parts, WordCounts.empty()))):
        search(learn_bpe(counts, 150)).vocabulary.save(tmp_path / str(number))
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([-1, 5], "below the"),
        ([0, 1000], "above the"),
        ([0, 5, 5], "increase"),
        ([5, 0], "increase"),
        ([], "no sizes"),
        ([-1000], "below the"),
        (range(10**12), "size 1000000000[0-9]+ is above"),
    ],
)
def test_impossible_sizes_are_refused(sizes, message):
    """`search` raises CandidateError if sizes are out of range, do not increase, or are missing.

    A range of billions is refused before it is listed. Sizes in the parameters count from the
    atoms.
    """
    candidates = learned()
    n = candidates.n_atoms
    if isinstance(sizes, range):
        sizes = range(sizes.start + n, sizes.stop + n)
    else:
        sizes = [n + size for size in sizes]
    with pytest.raises(CandidateError, match=message):
        search(candidates, sizes=sizes)
    assert n + 1 in [step.size for step in search(candidates, sizes=range(n + 1, n + 2)).steps]


def test_impossible_rules_are_refused():
    """`search` raises an error for a fixed size out of range, an unknown rule, or no words."""
    candidates = learned()
    for size in (candidates.n_atoms - 1, candidates.n_tokens + 1):
        with pytest.raises(CandidateError, match=str(size)):
            search(candidates, select=f"fixed:{size}")
    with pytest.raises(ConfigError, match="best"):
        search(candidates, select="best")
    with pytest.raises(VoltError):
        search(learn_bpe(WordCounts.empty(), 5))


@given(word_counts(), markers, st.integers(0, 60))
@settings(deadline=None, max_examples=examples(40))
def test_default_sizes_can_be_searched(words, marker, n_merges):
    """`default_sizes` returns from 1 to 33 increasing sizes that the candidates have."""
    candidates = learned(words, n_merges, marker=marker)
    sizes = default_sizes(candidates)
    assert checked_sizes(candidates, sizes) == sizes
    assert 1 <= len(sizes) <= 33
    assert all(size < following for size, following in pairwise(sizes))


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
    """`search` of a tiny corpus gives finite numbers, or the error that nothing can be merged."""
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


def test_tiny_corpora_and_failed_transports_are_warnings():
    """`search` warns of a corpus of few words, and of transports that did not converge."""
    parameters = SearchParameters(max_iters=1, threshold=1e-12)
    warnings = "\n".join(search(learned(), parameters=parameters).warnings)
    assert "tiny corpus" in warnings
    assert "did not converge" in warnings


@pytest.mark.slow
def test_a_search_of_multi30k_is_exact_and_converges(lines):
    """On Multi30k, counts are exact, every transport converges, and only `muv` picks an edge."""
    words = Counter()
    for name in ("en", "de"):
        for line in lines(f"multi30k/train.{name}.gz"):
            words.update(line.split())
    result = search(learn_bpe(words, 10_000), sizes=range(1_000, 10_001, 500))
    assert_counts_are_exact(result)
    assert all(step.converged for step in result.steps)
    assert not result.pick.on_edge
    assert result.picks["muv"].on_edge


def test_signatures_distinguish_searches():
    """The signature changes with the corpus, merges, marker, sizes, rule and parameters."""
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
    """A size that `multiple_of` rounds up has the measures of a search for that size."""
    candidates = learned()
    size = candidates.n_atoms + 10
    parameters = SearchParameters("occurrence", "characters", 0.5, 0.9, 0.25, 0)
    best = search(candidates, select=size, multiple_of=13, parameters=parameters).best
    same = search(candidates, select=best.size, parameters=parameters).best
    assert size < best.size < size + 13
    for name in ("n_kept", "entropy", "n_pieces"):
        assert getattr(best, name) == getattr(same, name)
    assert best.transport_entropy == pytest.approx(same.transport_entropy, rel=1e-3)
    assert search(candidates, select=best.size).best.entropy != best.entropy


def test_special_tokens_reach_the_vocabulary():
    """The vocabulary of a search has the special tokens and byte tokens, which no size counts."""
    special = SpecialTokens(user=("<url>",))
    vocabulary = search(learned(), special=special, byte_fallback=True).vocabulary
    assert vocabulary.special == special
    assert vocabulary.byte_fallback
    assert len(vocabulary.pieces) >= vocabulary.size + 5 + 256
    assert Encoder(vocabulary).encode("x<url>")[1] == "<url>"
