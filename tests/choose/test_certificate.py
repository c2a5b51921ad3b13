"""Laws of the bound on pieces: no vocabulary goes below it, and it is close to what linear programming finds."""

from collections import Counter
from itertools import combinations
from math import ceil

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import coo_array
from support.drawn import examples
from support.merging_modes import vocabularies

import volt
from volt.choose import certificate
from volt.choose.certificate import Relaxation, build_lattice
from volt.errors import CandidateError, ConfigError, CorpusError, VocabularyError
from volt.kernels.arrays import Words
from volt.text.atoms import atom_codes
from volt.vocabulary import Vocabulary

MANY = settings(max_examples=examples(60), deadline=None)
tiny_texts = st.dictionaries(
    st.text("ab", min_size=1, max_size=4), st.integers(1, 9), min_size=1, max_size=4
)
WORDS = Counter(
    {"the": 9, "cat": 5, "sat": 4, "mat": 3, "other": 2, "cats": 2, "that": 4, "there": 3, "ate": 2}
    | {"fattest": 1, "rats": 2, "at": 3, "last": 1, "lost": 1, "rest": 2, "hat": 1, "these": 4}
)


def words_of(counts):
    """Return counted words as codes of atoms, without a marker."""
    codes, ends = atom_codes(list(counts), marker="none")
    return Words(codes, ends, np.array(list(counts.values()), np.int64))


def solve(counts, n_free):
    """Return the least fractional number of pieces, by linear programming, with n_free tokens."""
    lattice = build_lattice(words_of(counts), 1)
    n_tokens = int(lattice.tokens.max()) + 1
    n_places = int(lattice.ends[-1])
    n_edges = len(lattice.tokens)
    starts = np.repeat(np.arange(n_places), np.diff(lattice.first_edges))
    starts = np.append(np.arange(n_places), starts)
    goals = starts + np.append(np.ones(n_places, int), lattice.sizes)
    word_ends = np.repeat(lattice.ends, np.diff(lattice.ends, prepend=0))
    ways = n_tokens + np.arange(n_places + n_edges)
    inner = goals < word_ends[starts]
    flows = np.append(np.ones(len(ways)), -np.ones(int(inner.sum())))
    rows = np.append(starts, goals[inner])
    shape = n_places, n_tokens + len(ways)
    balance = coo_array((flows, (rows, np.append(ways, ways[inner]))), shape=shape)
    sources = np.zeros(n_places)
    sources[np.append(0, lattice.ends[:-1])] = 1
    edges = np.arange(n_edges)
    limits = coo_array(
        (
            np.repeat([1.0, -1.0, 1.0], [n_edges, n_edges, n_tokens]),
            (
                np.concatenate([edges, edges, np.full(n_tokens, n_edges)]),
                np.concatenate([ways[n_places:], lattice.tokens, np.arange(n_tokens)]),
            ),
        ),
        shape=(n_edges + 1, shape[1]),
    )
    word_counts = np.repeat(lattice.counts, np.diff(lattice.ends, prepend=0))
    costs = np.append(np.zeros(n_tokens), word_counts[starts])
    most = np.append(np.zeros(n_edges), n_free)
    solution = linprog(costs, limits, most, balance, sources, method="highs")
    return solution.fun


@MANY
@given(tiny_texts, st.integers(0, 4), st.sampled_from([None, 1, 2, 5, 100]))
def test_no_choice_of_tokens_needs_fewer_pieces_than_the_bound(counts, n_free, least_saving):
    """Of all vocabularies of a size, tried one by one, none goes below the bound, whatever the candidates are."""
    size = len(set("".join(counts))) + n_free
    result = volt.fewest_pieces(
        counts, size, marker="none", least_saving=least_saving, max_sweeps=50
    )
    assert result.bound <= naive.fewest_pieces(counts, n_free) <= result.n_pieces


@MANY
@given(tiny_texts, st.integers(0, 4), st.integers(1, 5), st.integers(0, 10**6))
def test_any_multipliers_give_a_bound(counts, n_free, least_saving, seed):
    """A bound by random multipliers is at most the fewest pieces of all vocabularies, too."""
    relaxation = Relaxation(build_lattice(words_of(counts), least_saving), n_free, least_saving)
    draws = np.random.default_rng(seed)
    for scale in (0.3, 1, 5):
        multipliers = scale * draws.random(len(relaxation.lattice.tokens))
        assert relaxation.bound(multipliers) <= naive.fewest_pieces(counts, n_free)


@pytest.mark.parametrize("n_free", [1, 3, 8, 15, 30])
def test_the_bound_is_that_of_linear_programming(n_free):
    """The bound is within 0.1 % of the optimum over fractions of tokens, and not above it."""
    counts = {word: 100 * count for word, count in WORDS.items()}
    n_atoms = len(set("".join(counts)))
    result = volt.fewest_pieces(counts, n_atoms + n_free, marker="none", least_saving=1)
    optimum = solve(counts, n_free)
    assert 0.999 * optimum <= result.bound <= ceil(optimum - 1e-6)


@MANY
@given(vocabularies(longest=6), tiny_texts)
def test_no_vocabulary_goes_below_its_own_bound(vocabulary, counts):
    """A vocabulary with any merges, even one that lacks characters, needs at least as many pieces as its bound."""
    result = volt.certify(vocabulary, counts, max_sweeps=50)
    assert result.bound <= result.n_pieces
    encoder = volt.Encoder(vocabulary)
    if not vocabulary.fuse_unk:
        assert result.n_pieces == sum(
            count * len(encoder.encode(word)) for word, count in counts.items()
        )


@MANY
@given(
    st.sets(st.text("abx", min_size=2, max_size=4), max_size=5),
    tiny_texts,
    st.booleans(),
    st.booleans(),
)
def test_a_unigram_model_does_not_go_below_its_bound(longer, counts, falls_back, fuses):
    """A unigram model with any scores, bytes for unknown characters, or runs of them, keeps to the bound."""
    tokens = ("a", *sorted(longer))
    scores = tuple(-1.0 - len(token) % 3 for token in tokens)
    vocabulary = Vocabulary(
        (), tokens, scores=scores, marker="none", byte_fallback=falls_back, fuse_unk=fuses
    )
    result = volt.certify(vocabulary, counts, max_sweeps=50)
    assert result.bound <= result.n_pieces
    assert result.n_missing == len(set("".join(counts)) - {"a"})
    assert result.size == len(tokens) + result.n_missing


def test_the_bound_does_not_depend_on_threads(monkeypatch):
    """With one thread or three, the bound and the number of sweeps are the same."""
    monkeypatch.setattr(certificate, "_PART", 20)
    results = []
    for n_threads in (1, 3):
        monkeypatch.setattr(certificate, "available_cores", lambda n=n_threads: n)
        results.append(volt.fewest_pieces(WORDS, 30))
    assert results[0] == results[1]


def test_more_tokens_need_no_more_pieces():
    """The bound falls with the size, from the number of atoms to the number of words."""
    n_atoms = volt.learn_bpe(WORDS, 0).n_atoms
    bounds = [volt.fewest_pieces(WORDS, size).bound for size in (*range(n_atoms, 60, 4), 10**9)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] == sum(len(word) * count for word, count in WORDS.items())
    assert bounds[-1] == WORDS.total()


def test_a_limit_gives_the_bound_so_far():
    """Without time or sweeps, the bound is lower, still valid, and the text says that it may rise."""
    full = volt.fewest_pieces(WORDS, 30)
    for limit in ({"seconds": 0}, {"max_sweeps": 1}, {"max_sweeps": 0}):
        result = volt.fewest_pieces(WORDS, 30, **limit)
        assert WORDS.total() <= result.bound <= full.bound
        assert not result.has_converged
        assert str(result).endswith("; more sweeps would raise this bound")
    assert full.has_converged


def test_candidates_that_save_too_little_are_still_bounded():
    """If no token can save as much as the limit, there are no candidates, and the bound is the number of words."""
    result = volt.fewest_pieces(WORDS, 30, least_saving=10**6)
    assert (result.n_candidates, result.bound) == (0, WORDS.total())


def test_long_words_count_as_one_piece():
    """Words beyond the longest that are measured lower the bound, but it holds."""
    counts = {"ab" * certificate.LONGEST: 3, "abc": 5}
    result = volt.fewest_pieces(counts, 4, marker="none")
    assert 8 <= result.bound <= result.n_pieces


def test_a_text_without_choices_has_an_exact_bound():
    """One word of one character, or one word with room for itself, needs one piece for each occurrence."""
    assert volt.fewest_pieces({"a": 7}, 1, marker="none").bound == 7
    assert volt.fewest_pieces({"ab": 7}, 3, marker="none").gap == 0


def test_unsuitable_arguments_are_refused():
    """Errors name the smallest size, missing words, counts that are too high, and lines that are not split."""
    with pytest.raises(CandidateError, match=r"size 2: give 3 \(the atoms\) or more"):
        volt.fewest_pieces({"abc": 1}, 2, marker="none")
    with pytest.raises(CorpusError, match="there are no words"):
        volt.fewest_pieces({}, 10)
    with pytest.raises(CorpusError, match="scale them down"):
        volt.fewest_pieces({"abc": 2**59, "bcd": 1}, 5)
    with pytest.raises(ConfigError, match="seconds is -1"):
        volt.fewest_pieces({"abc": 1}, 4, seconds=-1)
    lines = Vocabulary((), ("a",), scores=(-1.0,), marker="none", pretokenizer="metaspace-line")
    with pytest.raises(VocabularyError, match="its tokens may span words"):
        volt.certify(lines, {"▁a▁a": 1})


def test_the_gap_is_rounded_up():
    """The text never states a smaller gap than there is."""
    result = certificate.Certificate(2_003, 50, 100_001, 100_000, 3, 1, 9, 50, True)
    assert str(result) == (
        "100,001 pieces; no vocabulary of 2,003 tokens with these 50 atoms, of which this one lacks 3, "
        "needs fewer than 100,000: at most 0.1 % above the fewest"
    )


def test_candidates_are_all_tokens_that_can_save_enough():
    """The lattice has an edge for each occurrence of a token whose count times its other atoms reaches the limit."""
    counts = {"abab": 3, "aba": 2, "b": 9}
    savings = Counter()
    for word, count in counts.items():
        for start, end in combinations(range(len(word) + 1), 2):
            savings[word[start:end]] += count * (end - start - 1)
    for limit in range(1, max(savings.values()) + 2):
        lattice = build_lattice(words_of(counts), limit)
        text = "".join(counts)
        starts = np.repeat(np.arange(len(text)), np.diff(lattice.first_edges))
        edges = zip(starts.tolist(), lattice.sizes.tolist(), lattice.tokens.tolist(), strict=True)
        found = {(text[start : start + size], token) for start, size, token in edges}
        expected = {token for token, saving in savings.items() if saving >= limit}
        assert {text for text, _ in found} == expected
        assert {token for _, token in found} == set(range(len(expected)))
        n_edges = sum(
            len(w) - len(t) + 1 >= 1 and sum(w.startswith(t, i) for i in range(len(w)))
            for w in counts
            for t in expected
        )
        assert len(lattice.tokens) == n_edges


def test_an_interrupt_ends_the_sweeps():
    """An error of the caller's report, such as an interrupt, stops the work at once."""

    def stop(n_sweeps, gap):
        assert gap > 0
        raise KeyboardInterrupt(n_sweeps)

    with pytest.raises(KeyboardInterrupt, match="1"):
        volt.fewest_pieces(WORDS, 30, report=stop)
