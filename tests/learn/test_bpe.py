"""Laws of learning merges, against a naive twin, and against subword-nmt on real text."""

from __future__ import annotations

from collections import Counter
from random import Random
from threading import Thread

import naive
import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from merges import (
    FEW,
    LINES,
    MARKERS,
    assert_exact_at_every_size,
    counts_of,
    learned,
    markers,
    word_counts,
)

from volt.choose.learning import learn_enough
from volt.count.word_counts import WordCounts
from volt.errors import ArgumentError, CandidateError, ConfigError
from volt.learn.bpe import learn_bpe, replay_bpe
from volt.learn.candidates import Candidates
from volt.learn.parity import learn_parity
from volt.text.atoms import atom_code
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN


@given(word_counts(), markers, st.integers(0, 40), st.integers(1, 4))
@settings(deadline=None, max_examples=examples(300))
def test_merges_equal_the_naive_learner(words, marker, n_merges, min_pair_count):
    """Merges are those of recounting every pair after every merge, overlaps, ties and "</w>" in text included."""
    candidates = learned(words, n_merges, marker=marker, min_pair_count=min_pair_count)
    assert candidates.merges == naive.learn(words, n_merges, marker, min_pair_count)


def test_merges_equal_the_naive_learner_on_longer_words():
    """The same, where pair lists, heap and pool outgrow their first size, and a pair occurs thousands of times."""
    rng = Random(5)
    words = {
        "".join(rng.choices("abcdefgh", k=rng.randint(9, 20))): rng.randint(1, 9) for _ in range(15)
    }
    for table in (words, {"ab" * 2100: 1, "b": 2}):
        assert learned(table, 40).merges == naive.learn(table, 40, min_pair_count=1)


def test_a_pair_is_merged_only_where_it_still_stands():
    """In "abcb" the "a" is a part of "abc" by the time that ("a", "b") is merged, and a "b" stands behind it again."""
    words = {"abcb": 2, "abc": 30, "ab": 10, "bc": 50}
    candidates = learned(words, 3, marker="none")
    assert (
        candidates.merges == naive.learn(words, 3, "none") == [("b", "c"), ("a", "bc"), ("a", "b")]
    )
    assert_exact_at_every_size(candidates, words)


@pytest.mark.parametrize("code", [FIRST_HIDDEN - 1, FIRST_HIDDEN, LAST_HIDDEN, LAST_HIDDEN + 1])
def test_no_merge_spans_a_user_token(code):
    """Words are split at each character that may stand for a user token, from the first to the last; at no other."""
    parts = {"ab": 5, "cd": 5} if code in (FIRST_HIDDEN, LAST_HIDDEN) else {f"ab{chr(code)}cd": 5}
    candidates = learned({f"ab{chr(code)}cd": 5, "abc": 1}, marker="none")
    assert candidates.merges == naive.learn(parts | {"abc": 1}, 9, "none", 1)


@given(word_counts(), markers)
@FEW
def test_atoms_are_in_a_stated_order(words, marker):
    """The most frequent first; of equally frequent ones the one with the lower code point, within a word before at its
    end."""
    candidates = learned(words, marker=marker)
    ranks = [
        (-count, atom_code(atom, marker=marker))
        for atom, count in zip(candidates.tokens, candidates.atom_counts.tolist(), strict=False)
    ]
    assert ranks == sorted(ranks)


@given(word_counts(), markers)
@settings(deadline=None, max_examples=examples(100))
def test_counts_equal_an_encoded_corpus_at_every_size(words, marker):
    """counts_at(size) counts the pieces of the corpus encoded with the merges of that size, at every size."""
    assert_exact_at_every_size(learned(words, marker=marker), words)


@given(word_counts(), markers)
@FEW
def test_learned_merges_make_each_token_once(words, marker):
    """Equal strings between token boundaries are always cut alike, so no two learned merges spell the same token, and
    no merged pair ever stands in a word again."""
    candidates = learned(words, marker=marker)
    made = ["".join(merge) for merge in candidates.merges]
    assert len(set(made)) == len(made)
    assert not set(made) & set(candidates.tokens[: candidates.n_atoms])
    assert not naive.returns(words, candidates.merges, marker)


@given(word_counts(), markers, st.data())
@FEW
def test_fewer_merges_are_a_prefix(words, marker, data):
    """Learning k merges gives the first k of n, and the same counts at every size that both have."""
    candidates = learned(words, marker=marker)
    k = data.draw(st.integers(0, candidates.n_merges))
    shorter = learned(words, k, marker=marker)
    assert shorter.merges == candidates.merges[:k]
    assert shorter.tokens == candidates.tokens[: shorter.n_tokens]
    assert (
        shorter.counts_at(shorter.n_tokens).tolist()
        == candidates.counts_at(shorter.n_tokens).tolist()
    )


@given(word_counts(), markers)
@FEW
def test_tokens_are_atoms_then_results(words, marker):
    """Tokens are the atoms, most frequent first, then what merges make, in order and without repetition."""
    candidates = learned(words, marker=marker)
    atoms = naive.token_counts(words, [], marker)
    assert set(candidates.tokens[: candidates.n_atoms]) == set(atoms)
    assert candidates.atom_counts.tolist() == sorted(atoms.values(), reverse=True)
    made = dict.fromkeys("".join(merge) for merge in candidates.merges)
    assert list(candidates.tokens) == [*candidates.tokens[: candidates.n_atoms], *made]
    assert [candidates.tokens[i] for i in candidates.results] == [
        "".join(merge) for merge in candidates.merges
    ]
    assert candidates.lengths.tolist() == [
        naive.token_length(token, marker) for token in candidates.tokens
    ]


@given(word_counts(), markers)
@FEW
def test_curve_equals_direct_sums(words, marker):
    """curve(f) is Σ_j f(n_j, j) over the counts of each size."""
    candidates = learned(words, marker=marker)
    weights = candidates.lengths + 0.5

    def term(counts, tokens):
        return counts * weights[tokens] + np.sqrt(counts)

    curve = candidates.curve(term)
    assert curve.shape == (candidates.n_merges + 1,)
    for k, size in enumerate(candidates.sizes_after().tolist()):
        assert curve[k] == pytest.approx(
            term(candidates.counts_at(size), np.arange(size)).sum(), rel=1e-9
        )


@pytest.mark.parametrize("marker", MARKERS)
def test_no_merges_leave_the_atoms(marker):
    """With n_merges=0 there is one size, the atoms."""
    words = {"low": 5, "lower": 2}
    candidates = learned(words, 0, marker=marker)
    assert candidates.merges == []
    assert candidates.sizes_after().tolist() == [candidates.n_atoms]
    assert counts_of(candidates, candidates.n_atoms) == naive.token_counts(words, [], marker)
    assert candidates.curve(lambda counts, _: counts).tolist() == [candidates.atom_counts.sum()]
    assert replay_bpe(candidates.counts, [], marker=marker).tokens == candidates.tokens
    assert learn_bpe(WordCounts.empty(), 5, marker=marker).n_tokens == 0


@given(word_counts(), st.integers(1, 6), st.integers(0, 5), st.none() | st.integers(0, 9))
@FEW
def test_learning_ends_at_the_first_pair_that_is_too_rare(words, least, n_sure, n_merges):
    """Without a number, more merges follow while a pair is common; `left` counts the best remaining pair."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("volt.learn.bpe.N_SURE", n_sure)
        patch.setattr("volt.learn.bpe.COMMON", 4)
        found = learned(words, n_merges, min_pair_count=least)
    symbols, n = {word: naive.atoms(word) for word in words}, 0
    while True:
        counts = naive.pair_counts(words, symbols)
        best = max(
            [
                0,
                *(
                    count
                    for pair, count in counts.items()
                    if not naive.fakes_the_end(pair, "suffix")
                ),
            ]
        )
        if best < max(1, least) or (
            n == n_merges or (n_merges is None and n >= n_sure and best < 4)
        ):
            break
        symbols, n = (
            {word: naive.replace(parts, found.merges[n]) for word, parts in symbols.items()},
            n + 1,
        )
    assert (found.n_merges, found.left) == (n, best if best >= least else 0)


def test_numbers_have_limits(monkeypatch):
    """Numbers of merges and minimum counts are refused beyond their limits, and too many tokens for the tables."""
    counts = WordCounts.from_pairs({"abcdef": 5})
    for name, low, high in (("n_merges", 0, 10**9), ("min_pair_count", 1, 2**63 - 1)):
        for number in (low - 1, high + 1):
            with pytest.raises(CandidateError, match=f"{name} is {number}; give"):
                learn_bpe(counts, **{name: number})
        for number in (low, high):
            assert learn_bpe(counts, **{name: number}).n_atoms == 6
    merges = learn_bpe(counts).merges
    monkeypatch.setattr("volt.kernels.bpe_tables.MOST", 8)
    with pytest.raises(
        CandidateError, match=r"n_merges is 5; at most 2 merges can be learned; ask for fewer"
    ):
        learn_bpe(counts, 5)
    assert [learn_bpe(counts, n).n_merges for n in (None, 2)] == [2, 2]
    assert replay_bpe(counts, merges[:2]).n_tokens == 8
    with pytest.raises(
        CandidateError, match=r"9 candidates, but the limit is 8; ask for fewer merges"
    ):
        replay_bpe(counts, merges[:3])


def test_markers():
    """The marker is inferred from the pre-tokeniser, and an unknown one is refused."""
    for name, marker in (
        ("whitespace", "suffix"),
        ("metaspace", "none"),
        ("regex:[a-z]+", "suffix"),
    ):
        assert learn_bpe(WordCounts.from_pairs({"ab": 1}, pretokenizer=name), 1).marker == marker
    for call in (
        lambda c: learn_bpe(c, 1, marker="infix"),
        lambda c: replay_bpe(c, [], marker="infix"),
    ):
        with pytest.raises(ConfigError, match="infix"):
            call(WordCounts.from_pairs({"ab": 1}))


@pytest.mark.parametrize("size", [-1, 0, 4, 9, 10**9])
def test_sizes_outside_are_refused(size):
    """A size below the atoms or above all tokens is an error that names both ends."""
    candidates = learned({"abcde": 3}, 3)
    for ask in (candidates.merges_at, candidates.tokens_at, candidates.counts_at):
        with pytest.raises(CandidateError, match=r": give 5 .* to 8 "):
            ask(size)


def test_order_of_words_makes_no_difference():
    """The same words in another order, or added up from parts, give the same candidates."""
    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    halves = WordCounts.from_pairs({"newest": 6, "low": 1}) + WordCounts.from_pairs(
        {"widest": 3, "lower": 2, "low": 4}
    )
    for other in (WordCounts.from_pairs(dict(reversed(words.items()))), halves):
        found = learn_bpe(other, 20)
        assert (found.merges, found.tokens) == (
            learned(words, 20, min_pair_count=2).merges,
            found.tokens,
        )
        assert (
            found.counts_at(found.n_tokens).sum()
            == learned(words, 20, min_pair_count=2).counts_at(found.n_tokens).sum()
        )


def test_each_way_to_learn_reports_progress(monkeypatch):
    """`report` gets the merges, or the replayed words, done; its exception is passed on; it must be a function."""
    started, is_alive = (
        set(),
        Thread.is_alive,
    )  # each thread seems alive once, so even a short run is reported
    monkeypatch.setattr(
        Thread,
        "is_alive",
        lambda one: (one not in started and not started.add(one)) or is_alive(one),
    )
    words, numbers = {"aab": 9, "abb": 5}, list[int]()
    ways = [
        lambda report: learn_bpe(words, 1, report=report),
        lambda report: replay_bpe(words, [("a", "b")], marker="none", report=report),
        lambda report: learn_parity({"x": words, "y": {"c": 1}}, 1, report=report),
        lambda report: learn_enough(words, report=report),
    ]
    for way, most in zip(ways, (1, 2, 1, 4), strict=True):
        way(numbers.append)
        assert 0 <= numbers.pop() <= most
        with pytest.raises(ZeroDivisionError):
            way(lambda _: 1 / 0)
        with pytest.raises(ArgumentError, match="report is 5"):
            way(5)


@pytest.mark.slow
def test_progress_is_reported_and_can_stop_the_run():
    """report is called with numbers of merges that do not fall; an exception in it ends the run and is passed on."""
    rng, seen = Random(1), list[int]()
    words = WordCounts.from_pairs(
        {"".join(rng.choices("abcdefghijkl", k=20)): 2 for _ in range(30_000)}
    )
    candidates = learn_bpe(words, 20_000, report=seen.append)
    assert seen == sorted(seen)
    assert 0 < seen[-1] <= candidates.n_merges

    def stop(n_done: int) -> None:
        raise KeyboardInterrupt(n_done)

    with pytest.raises(KeyboardInterrupt) as caught:
        learn_bpe(words, 20_000, report=stop)
    assert caught.value.args[0] < candidates.n_merges


@pytest.mark.slow
@pytest.mark.parametrize(
    "word", ["ab" * 50_000, "".join(Random(1).choices("abcdefghijklmnop", k=100_000))]
)
def test_a_word_of_100_000_characters(word):
    """One very long word is learned like any other."""
    candidates = learned({word: 1}, 20)
    assert candidates.merges == naive.learn({word: 1}, 20, min_pair_count=1)
    assert counts_of(candidates, candidates.n_tokens) == naive.token_counts(
        {word: 1}, candidates.merges
    )
    many = learned({word: 1}, 5_000, min_pair_count=2)
    assert many.merges[:10] == candidates.merges[:10]
    assert (many.counts_at(many.n_tokens) * many.lengths).sum() == 100_000


def spread_sizes(candidates: Candidates) -> list[int]:
    return np.linspace(candidates.n_atoms, candidates.n_tokens, 4).astype(int).tolist()


def assert_equal_to_subword_nmt(oracle, lines, n_merges) -> None:
    words = Counter(word for line in lines for word in line.split())
    candidates = learned(words, n_merges, min_pair_count=2)
    assert candidates.merges == oracle.learn(words, n_merges)
    for size in spread_sizes(candidates):
        recount: Counter[str] = Counter()
        bpe = (
            oracle.bpe(candidates.merges[: candidates.merges_at(size)])
            if candidates.merges_at(size)
            else None
        )
        for word, count in words.items():
            pieces = naive.atoms(word) if bpe is None else oracle.pieces(bpe, word)
            for piece in pieces:
                recount[piece] += count
        assert counts_of(candidates, size) == recount


def test_merges_and_counts_equal_subword_nmt(subword_nmt):
    """Merges are those of subword-nmt; counts at four sizes are a recount of its encoding, on a few lines."""
    assert_equal_to_subword_nmt(subword_nmt, LINES * 3, 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "n_lines", "n_merges"),
    [
        (["multi30k/train.en.gz", "multi30k/train.de.gz"], 29_000, 900),
        (["multi30k/train.fr.gz", "multi30k/train.cs.gz"], 5_000, 600),
        (["ted/Finnish.txt.gz"], 6_000, 300),
        (["ted/Georgian.txt.gz"], 6_000, 300),
        (["ted/Cantonese.txt.gz"], 4_000, 300),
    ],
)
def test_merges_and_counts_equal_subword_nmt_on_corpora(
    subword_nmt, lines, names, n_lines, n_merges
):
    """The same on real corpora, in alphabets from Latin to Chinese."""
    text = [line for name in names for line in lines(name, n_lines)]
    assert_equal_to_subword_nmt(subword_nmt, text, n_merges)


@given(word_counts(), st.sampled_from(["suffix", "none"]))
@FEW
def test_characters_are_conserved(words, marker):
    """Σ n_j · len_j is the number of characters of the corpus at every size."""
    candidates = learned(words, marker=marker)
    n_characters = sum(len(word) * count for word, count in words.items())
    lengths = (
        [len(token) for token in candidates.tokens]
        if marker == "none"
        else candidates.lengths.tolist()
    )
    for size in candidates.sizes_after().tolist():
        counts = candidates.counts_at(size).tolist()
        assert sum(n * length for n, length in zip(counts, lengths, strict=False)) == n_characters
