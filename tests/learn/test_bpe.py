"""Laws of learning merges, against a naive learner, and against subword-nmt on real text."""

from collections import Counter
from random import Random
from threading import Thread

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.merges import (
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
from volt.errors import ArgumentError, CandidateError, ConfigError, CorpusError
from volt.learn.bpe import learn_bpe, replay_bpe
from volt.learn.parity import learn_parity
from volt.text.atoms import atom_code
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

MOST = 2**63 - 1


@given(word_counts(), markers, st.integers(0, 40), st.integers(1, 4))
@settings(max_examples=examples(300))
def test_learn_bpe_equals_the_naive_learner(words, marker, n_merges, min_pair_count):
    """The merges of `learn_bpe` equal those of a learner that counts every pair anew after each
    merge, also with overlaps, ties, and "</w>" in the text."""
    candidates = learned(words, n_merges, marker=marker, min_pair_count=min_pair_count)
    assert candidates.merges == naive.learn(words, n_merges, marker, min_pair_count)


def test_learn_bpe_equals_the_naive_learner_when_its_arrays_grow():
    """On long words, `learn_bpe` equals the naive learner, although its heap and lists of pairs
    outgrow their first size."""
    rng = Random(5)
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(9, 20))) for _ in range(15)]
    for table in ({word: rng.randint(1, 9) for word in words}, {"ab" * 2100: 1, "b": 2}):
        assert learned(table, 40).merges == naive.learn(table, 40, min_pair_count=1)


def test_learn_bpe_skips_outdated_positions_of_a_pair():
    """`learn_bpe` merges a pair only where it still occurs: in "abcb", "a" is part of "abc" before
    ("a", "b") is merged, and a "b" follows it again."""
    words = {"abcb": 2, "abc": 30, "ab": 10, "bc": 50}
    candidates = learned(words, 3, marker="none")
    assert candidates.merges == [("b", "c"), ("a", "bc"), ("a", "b")]
    assert candidates.merges == naive.learn(words, 3, "none")
    assert_exact_at_every_size(candidates, words)


@pytest.mark.parametrize("code", [FIRST_HIDDEN - 1, FIRST_HIDDEN, LAST_HIDDEN, LAST_HIDDEN + 1])
def test_learn_bpe_splits_words_at_user_tokens(code):
    """No merge of `learn_bpe` contains a character that may stand for a user token; the
    neighbouring characters are ordinary."""
    word = f"ab{chr(code)}cd"
    parts = ["ab", "cd"] if code in (FIRST_HIDDEN, LAST_HIDDEN) else [word]
    candidates = learned({word: 5, "abc": 1}, marker="none")
    assert candidates.merges == naive.learn({**dict.fromkeys(parts, 5), "abc": 1}, 9, "none", 1)


@given(word_counts(), markers, st.data())
@FEW
def test_candidates_of_learned_merges(words, marker, data):
    """Tokens are the atoms, most frequent first, then the results of merges, each once; merged pairs do not occur
    again; k merges are the first k of n, with equal counts; `curve` sums the counts of each size; characters add up."""
    candidates = learned(words, marker=marker)
    atoms = candidates.tokens[: candidates.n_atoms]
    atom_counts = candidates.atom_counts.tolist()
    results = ["".join(merge) for merge in candidates.merges]
    ranks = [
        (-count, atom_code(atom, marker=marker))
        for atom, count in zip(atoms, atom_counts, strict=True)
    ]
    assert ranks == sorted(ranks)  # by code point, inside a word before its end
    assert dict(zip(atoms, atom_counts, strict=True)) == naive.token_counts(words, [], marker)
    assert candidates.tokens == (*atoms, *results)
    assert len(set(candidates.tokens)) == candidates.n_tokens
    assert [candidates.tokens[number] for number in candidates.results] == results
    lengths = [naive.token_length(token, marker) for token in candidates.tokens]
    assert candidates.lengths.tolist() == lengths
    assert not naive.returns(words, candidates.merges, marker)

    shorter = learned(words, data.draw(st.integers(0, candidates.n_merges)), marker=marker)
    assert shorter.merges == candidates.merges[: shorter.n_merges]
    assert shorter.tokens == candidates.tokens[: shorter.n_tokens]
    same_size = candidates.counts_at(shorter.n_tokens).tolist()
    assert shorter.counts_at(shorter.n_tokens).tolist() == same_size

    weights = candidates.lengths + 0.5

    def term(counts, tokens):
        return counts * weights[tokens] + np.sqrt(counts)

    n_characters = sum(len(word) * count for word, count in words.items())
    if marker == "none":
        lengths = list(map(len, candidates.tokens))
    for value, size in zip(candidates.curve(term), candidates.sizes_after().tolist(), strict=True):
        counts = candidates.counts_at(size)
        assert value == pytest.approx(term(counts, np.arange(size)).sum(), rel=1e-9)
        if marker != "prefix":
            n = sum(n * length for n, length in zip(counts.tolist(), lengths, strict=False))
            assert n == n_characters


@given(word_counts(), markers)
def test_counts_at_equals_an_encoded_corpus(words, marker):
    """At every size, `counts_at` equals the counts of pieces in the corpus, encoded with the merges
    of this size."""
    assert_exact_at_every_size(learned(words, marker=marker), words)


@pytest.mark.parametrize("marker", MARKERS)
def test_no_merges_leave_the_atoms(marker):
    """With n_merges=0, the candidates of `learn_bpe` have one size, the number of atoms."""
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
    """`learn_bpe` stops at the first pair below the minimum count.

    With n_merges=None, it learns more merges while pairs are common. `left` is the count of the
    best pair that is not merged.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("volt.learn.bpe.N_SURE", n_sure)
        patch.setattr("volt.learn.bpe.COMMON", 4)
        candidates = learned(words, n_merges, min_pair_count=least)
    symbols = {word: naive.atoms(word) for word in words}
    n = 0
    while True:
        counts = naive.pair_counts(words, symbols)
        allowed = [n for pair, n in counts.items() if not naive.fakes_the_end(pair, "suffix")]
        best = max(allowed, default=0)
        is_enough = n == n_merges or (n_merges is None and n >= n_sure and best < 4)
        if best < least or is_enough:
            break
        merge = candidates.merges[n]
        symbols = {word: naive.replace(parts, merge) for word, parts in symbols.items()}
        n += 1
    assert candidates.n_merges == n
    assert candidates.left == (best if best >= least else 0)


def test_learn_bpe_refuses_numbers_out_of_range(monkeypatch):
    """`learn_bpe` raises an error for numbers of merges and minimum counts outside their limits,
    and for more tokens than the tables can store."""
    counts = WordCounts.from_pairs({"abcdef": 5})
    for name, low, high in (("n_merges", 0, 10**9), ("min_pair_count", 1, MOST)):
        for number in (low - 1, high + 1):
            with pytest.raises(CandidateError, match=f"{name} is {number}; give"):
                learn_bpe(counts, **{name: number})
        for number in (low, high):
            assert learn_bpe(counts, **{name: number}).n_atoms == 6
    merges = learn_bpe(counts).merges
    monkeypatch.setattr("volt.kernels.bpe_tables.MOST", 8)
    with pytest.raises(CandidateError, match="n_merges is 5; at most 2 merges can be learned; ask"):
        learn_bpe(counts, 5)
    assert [learn_bpe(counts, n).n_merges for n in (None, 2)] == [2, 2]
    assert replay_bpe(counts, merges[:2]).n_tokens == 8
    with pytest.raises(CandidateError, match="9 candidates, but the limit is 8; ask for fewer"):
        replay_bpe(counts, merges[:3])


@pytest.mark.parametrize(
    ("name", "marker"),
    [("whitespace", "suffix"), ("metaspace", "none"), ("regex:[a-z]+", "suffix")],
)
def test_the_default_marker_depends_on_the_pretokenizer(name, marker):
    """Without a marker argument, `learn_bpe` uses none if pre-tokens keep their spaces, and
    otherwise the suffix. An unknown marker is an error."""
    counts = WordCounts.from_pairs({"ab": 1}, pretokenizer=name)
    assert learn_bpe(counts, 1).marker == marker
    for learn in (learn_bpe, replay_bpe):
        with pytest.raises(ConfigError, match="infix"):
            learn(counts, [] if learn is replay_bpe else 1, marker="infix")


@pytest.mark.parametrize("size", [-1, 0, 4, 9, 10**9])
def test_candidates_refuse_sizes_out_of_range(size):
    """Methods of `Candidates` raise an error that names both limits for a size below the atoms or
    above all tokens."""
    candidates = learned({"abcde": 3}, 3)
    for call in (candidates.merges_at, candidates.tokens_at, candidates.counts_at):
        with pytest.raises(CandidateError, match=r": give 5 .* to 8 "):
            call(size)


def test_learn_bpe_ignores_the_order_of_words():
    """`learn_bpe` learns equal candidates from words in another order, and from counts that were
    added up from parts."""
    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    parts = [{"newest": 6, "low": 1}, {"widest": 3, "lower": 2, "low": 4}]
    expected = learned(words, 20, min_pair_count=2)
    first, second = map(WordCounts.from_pairs, parts)
    for other in (WordCounts.from_pairs(dict(reversed(words.items()))), first + second):
        candidates = learn_bpe(other, 20)
        assert candidates.merges == expected.merges
        assert counts_of(candidates, candidates.n_tokens) == counts_of(expected, expected.n_tokens)


def test_each_way_to_learn_reports_progress(monkeypatch):
    """Each function that learns merges calls `report` with the number of merges or words done,
    raises what `report` raises, and refuses a `report` that is not a function."""
    started = set()
    is_alive = Thread.is_alive

    def seems_alive(thread):  # once, so that a short run is reported
        is_new = thread not in started
        started.add(thread)
        return is_new or is_alive(thread)

    monkeypatch.setattr(Thread, "is_alive", seems_alive)
    words = {"aab": 9, "abb": 5}
    numbers = []
    for way, most in (
        (lambda report: learn_bpe(words, 1, report=report), 1),
        (lambda report: replay_bpe(words, [("a", "b")], marker="none", report=report), 2),
        (lambda report: learn_parity({"x": words, "y": {"c": 1}}, 1, report=report), 1),
        (lambda report: learn_enough(words, report=report), 4),
    ):
        way(numbers.append)
        assert 0 <= numbers.pop() <= most
        with pytest.raises(ZeroDivisionError):
            way(lambda _: 1 / 0)
        with pytest.raises(ArgumentError, match="report is 5"):
            way(5)


@pytest.mark.slow
def test_an_exception_in_report_stops_learning():
    """The numbers that `report` receives do not fall, and an exception that it raises ends
    `learn_bpe`."""
    rng = Random(1)
    seen = []
    words = {"".join(rng.choices("abcdefghijkl", k=20)): 2 for _ in range(30_000)}
    candidates = learn_bpe(words, 20_000, report=seen.append)
    assert seen == sorted(seen)
    assert 0 < seen[-1] <= candidates.n_merges

    def stop(n_done):
        raise KeyboardInterrupt(n_done)

    with pytest.raises(KeyboardInterrupt) as caught:
        learn_bpe(words, 20_000, report=stop)
    assert caught.value.args[0] < candidates.n_merges


@pytest.mark.slow
@pytest.mark.parametrize(
    "word", ["ab" * 50_000, "".join(Random(1).choices("abcdefghijklmnop", k=100_000))]
)
def test_learn_bpe_learns_a_word_of_100_000_characters(word):
    """`learn_bpe` learns the merges of one word of 100,000 characters, and counts its tokens
    exactly."""
    words = {word: 1}
    candidates = learned(words, 20)
    assert candidates.merges == naive.learn(words, 20, min_pair_count=1)
    expected = naive.token_counts(words, candidates.merges)
    assert counts_of(candidates, candidates.n_tokens) == expected
    many = learned(words, 5_000, min_pair_count=2)
    assert many.merges[:10] == candidates.merges[:10]
    assert (many.counts_at(many.n_tokens) * many.lengths).sum() == 100_000


# ---- large counts


@given(
    st.lists(st.text("abc", min_size=1, max_size=8), min_size=1, max_size=6, unique=True),
    st.data(),
    st.sampled_from(("suffix", "none")),
)
@settings(max_examples=examples(40))
def test_merges_of_large_counts_equal_the_naive_learner(words, data, marker):
    """With counts near 2⁶³, `learn_bpe` equals the naive learner, which counts with integers of
    Python."""
    within_limit = st.integers(MOST // 60, MOST // 48)  # for six words of eight atoms
    counts = st.integers(1, 10**12) | within_limit
    large = {word: data.draw(counts) for word in words}
    assert learn_bpe(large, n_merges=20, marker=marker).merges == naive.learn(large, 20, marker)


@pytest.mark.parametrize("scale", [10**12, 2**31, MOST // 56])
def test_scaled_word_counts_scale_the_token_counts(scale):
    """If every word is `scale` times as frequent, `learn_bpe` learns equal merges, and every token
    is `scale` times as frequent."""
    words = {"low": 4, "lower": 2, "newest": 3}
    small = learn_bpe(words, n_merges=9)
    large = learn_bpe({word: n * scale for word, n in words.items()}, n_merges=9)
    assert small.merges == large.merges
    for size in range(small.n_atoms, small.n_tokens + 1):
        assert large.counts_at(size).tolist() == [n * scale for n in small.counts_at(size).tolist()]


@pytest.mark.parametrize("pretokenizer", ["whitespace", "bytes"])
def test_more_atoms_than_64_bits_are_refused(pretokenizer):
    """`learn_bpe` and `learn_parity` raise an error if the words contain more atoms than 64 bits
    can count, and accept one word less."""
    too_many = WordCounts.from_pairs({"abababab": 2**60, "c": 1}, pretokenizer=pretokenizer)
    sources = {"a": too_many, "b": too_many}
    for call in (lambda: learn_bpe(too_many), lambda: learn_parity(sources)):
        with pytest.raises(CorpusError, match="more than 64 bits can count; scale the counts down"):
            call()
    counts = WordCounts.from_pairs({"abababab": 2**60 - 1, "c": 1}, pretokenizer=pretokenizer)
    candidates = learn_bpe(counts, n_merges=1, marker="none")
    assert candidates.merges == [("a", "b")]
    assert candidates.counts_at(candidates.n_tokens).max() == 4 * (2**60 - 1)


def test_learn_bpe_compares_counts_of_64_bits():
    """`learn_bpe` merges a pair with the count 2³² + 1 before a pair with the count 3, although the
    lower 32 bits of the first are 1."""
    assert learn_bpe({"ab": 2**32 + 1, "cd": 3}, n_merges=1, marker="none").merges == [("a", "b")]


# ---- subword-nmt


def assert_equal_to_subword_nmt(oracle, lines, n_merges):
    words = Counter(word for line in lines for word in line.split())
    candidates = learned(words, n_merges, min_pair_count=2)
    assert candidates.merges == oracle.learn(words, n_merges)
    for size in np.linspace(candidates.n_atoms, candidates.n_tokens, 4).astype(int).tolist():
        merges = candidates.merges[: candidates.merges_at(size)]
        bpe = oracle.bpe(merges) if merges else None
        recount = Counter()
        for word, count in words.items():
            for piece in naive.atoms(word) if bpe is None else oracle.pieces(bpe, word):
                recount[piece] += count
        assert counts_of(candidates, size) == recount


def test_learn_bpe_equals_subword_nmt(subword_nmt):
    """On a few lines, the merges of `learn_bpe` equal those of subword-nmt, and its counts at four
    sizes equal a recount of the pieces of subword-nmt."""
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
def test_learn_bpe_equals_subword_nmt_on_corpora(subword_nmt, lines, names, n_lines, n_merges):
    """On real corpora, in scripts from Latin to Chinese, the merges of `learn_bpe` equal those of
    subword-nmt, and its counts a recount of the pieces of subword-nmt."""
    text = [line for name in names for line in lines(name, n_lines)]
    assert_equal_to_subword_nmt(subword_nmt, text, n_merges)
