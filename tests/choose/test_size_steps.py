"""Laws of `size_steps`: they equal a dense transport in plain NumPy, and one by POT."""

from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import pairwise

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.merges import LINES, word_counts

from volt.choose import criteria
from volt.choose.size_steps import SearchParameters, size_steps
from volt.errors import ConfigError
from volt.learn.bpe import learn_bpe

EXACT = SearchParameters(threshold=1e-12, max_iters=100_000)
MARKERS = ["suffix", "prefix", "none"]
WORDS = Counter(word for line in LINES for word in line.split())


def learned(marker="suffix", n_merges=150, words=WORDS):
    return learn_bpe(words, n_merges, marker=marker, min_pair_count=1)


def some_sizes(candidates, n=5):
    return sorted({*np.linspace(candidates.n_atoms, candidates.n_tokens, n).astype(int).tolist()})


def characters_of(token, marker):
    return set(token.removesuffix("</w>") if marker == "suffix" else token)


def corpus_characters(words, marker):
    """Count the characters of the corpus, start markers included."""
    characters = Counter()
    for word, n in words.items():
        for char in ("▁" if marker == "prefix" else "") + word:
            characters[char] += n
    return characters


def dense_plan(candidates, size, parameters):
    """Return each token's transported mass and mass b_j, by Eq. 9–10 on dense matrices."""
    marker = candidates.marker
    tokens = candidates.tokens_at(size)
    words = zip(candidates.counts.words, candidates.counts.counts.tolist(), strict=True)
    a = corpus_characters(dict(words), marker)
    lengths = np.array([naive.token_length(token, marker) for token in tokens])
    kernel = np.zeros((len(a), size))
    for row, character in enumerate(a):
        for column, token in enumerate(tokens):
            if character in characters_of(token, marker):
                kernel[row, column] = lengths[column] ** (-1 / parameters.epsilon)

    row_mass = np.array([*a.values()]) / a.total()
    weights = candidates.counts_at(size) * (lengths if parameters.mass == "characters" else 1)
    column_mass = weights / weights.sum()
    u = np.ones(len(a))
    for _ in range(3_000):
        reach = kernel.T @ u
        ratio = np.divide(column_mass, reach, out=np.zeros(size), where=reach > 0)
        v = ratio**parameters.column_tau
        u = (row_mass / (kernel @ v)) ** parameters.row_tau
    return (u[:, None] * kernel * v).sum(axis=0), column_mass


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"mass": "characters"},
        {"length": "occurrence"},
        {"epsilon": 0.5},
        {"row_tau": 0.8, "column_tau": 0.9},
        {"min_share": 0.5},
    ],
)
def test_entropy_equals_a_dense_transport(marker, change):
    """The kept tokens and `transport_entropy` (Eq. 4) equal those of a transport on dense
    matrices.
    """
    candidates = learned(marker)
    parameters = replace(EXACT, **change)
    for step in size_steps(candidates, some_sizes(candidates), parameters=parameters):
        mass, column_mass = dense_plan(candidates, step.size, parameters)
        least = parameters.min_share * column_mass
        is_clear = np.abs(mass - least) > 1e-9 * column_mass
        kept = (mass >= least) & (mass > 0)
        kept[: candidates.n_atoms] = True
        assert (step.kept == kept)[is_clear | (column_mass == 0)].all()
        tokens = np.array(candidates.tokens_at(step.size))[step.kept]
        lengths = [naive.token_length(token, marker) for token in tokens]
        expected = naive.entropy(mass[step.kept].tolist(), lengths, parameters.length)
        assert step.transport_entropy == pytest.approx(expected, rel=1e-7)
        assert step.n_kept == step.kept.sum()
        assert step.converged


@pytest.mark.parametrize("marker", MARKERS)
def test_pot_gives_the_same_steps(marker):
    """With the solver "pot", the kept tokens are the same, and entropies within 1e-6."""
    pytest.importorskip("ot")
    candidates = learned(marker, n_merges=60)
    sizes = some_sizes(candidates, 4)
    ours = [*size_steps(candidates, sizes, parameters=EXACT)]
    pot = [*size_steps(candidates, sizes, parameters=replace(EXACT, solver="pot", threshold=1e-9))]
    for mine, other in zip(ours, pot, strict=True):
        assert other.transport_entropy == pytest.approx(mine.transport_entropy, abs=1e-6)
        assert (other.n_kept, other.entropy) == (mine.n_kept, mine.entropy)


@given(word_counts(), st.sampled_from(MARKERS), st.sampled_from(["type", "occurrence"]))
@settings(deadline=None, max_examples=examples(40))
def test_steps_measure_exact_counts(words, marker, length):
    """Every measure of a step is a criterion of its exact counts; MUV is Eq. 1 from the previous
    step.
    """
    candidates = learned(marker, 30, words)
    sizes = some_sizes(candidates, 4)
    steps = [*size_steps(candidates, sizes, parameters=SearchParameters(length=length))]
    assert [step.size for step in steps] == sizes
    for step in steps:
        counts = candidates.counts_at(step.size)
        entropy = criteria.entropy(counts, candidates.lengths[: step.size], length=length)
        assert step.entropy == pytest.approx(entropy, abs=1e-12)
        assert step.n_pieces == counts.sum()
        assert step.f95 == criteria.f95(counts)
        assert step.renyi == pytest.approx(criteria.renyi_efficiency(counts))
        assert step.kept.shape == (step.size,)
        assert step.kept[: candidates.n_atoms].all()
        assert np.isfinite([step.transport_entropy, step.row_residual, step.column_residual]).all()
    assert steps[0].transport_muv is steps[0].muv is None
    for before, step in pairwise(steps):
        gap = step.size - before.size
        muv = (before.entropy - step.entropy) / gap
        transport_muv = (before.transport_entropy - step.transport_entropy) / gap
        assert (step.muv, step.transport_muv) == pytest.approx((muv, transport_muv))


@given(word_counts(), st.sampled_from(MARKERS))
@settings(deadline=None, max_examples=examples(30))
def test_a_higher_min_share_keeps_fewer_tokens(words, marker):
    """`min_share` 0 keeps all tokens, and a higher share keeps a part of those; atoms always stay.

    If no token with mass is left, there is an error."""
    candidates = learned(marker, 30, words)
    sizes = some_sizes(candidates, 3)
    kept = []
    for share in (0.0, 0.001, 0.1, 1.0):
        with suppress(ConfigError) if share == 1.0 else nullcontext():
            steps = [*size_steps(candidates, sizes, parameters=SearchParameters(min_share=share))]
        kept.append([step.kept for step in steps])
        assert all(step.kept[: candidates.n_atoms].all() for step in steps)
    assert all(flags.all() for flags in kept[0])
    for more, fewer in pairwise(kept):
        assert all((b <= a).all() for a, b in zip(more, fewer, strict=True))


def test_steps_start_from_the_previous_potentials():
    """A size takes fewer iterations after the size below it than alone."""
    candidates = learned()
    size = candidates.n_tokens
    _, after = size_steps(candidates, [size - 1, size])
    [alone] = size_steps(candidates, [size])
    assert after.n_iters < alone.n_iters


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "length": ["median"],
        "mass": ["bytes"],
        "solver": ["magic"],
        "epsilon": [0, -1.0, np.nan, np.inf],
        "row_tau": [0, 1.5],
        "column_tau": [np.nan],
        "min_share": [-0.1, 1.1, np.nan],
        "threshold": [0],
        "max_iters": [0],
    }.items(),
)
def test_impossible_parameters_are_refused(name, values):
    """`SearchParameters` raises ConfigError for a value that is unknown, out of range or not a
    number.
    """
    for value in values:
        with pytest.raises(ConfigError, match=name):
            SearchParameters(**{name: value})


def test_tokens_that_no_longer_occur_are_dropped():
    """The transport does not keep a merged token that occurs only within longer tokens."""
    candidates = learned(words={"abc": 9, "abd": 1})
    (step,) = size_steps(candidates, [candidates.n_tokens])
    counts = candidates.counts_at(step.size)
    assert (counts == 0)[candidates.n_atoms :].any()
    assert not step.kept[candidates.n_atoms :][counts[candidates.n_atoms :] == 0].any()


def test_steps_do_not_depend_on_earlier_sizes():
    """Up to the threshold, a step does not depend on the sizes that were measured before it."""
    candidates = learned()
    sizes = some_sizes(candidates)
    together = [*size_steps(candidates, sizes, parameters=EXACT)]
    alone = [next(size_steps(candidates, [size], parameters=EXACT)) for size in sizes]
    for a, b in zip(together, alone, strict=True):
        assert a.transport_entropy == pytest.approx(b.transport_entropy, rel=1e-9)
        assert (a.kept == b.kept).all()
