"""The objective of the paper's published program: its solver, its counts, and the values of its own run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

import volt
from experiments import published


def _problem(seed, ratio):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.1, 1, 5), rng.uniform(0.1, 1, 9)
    return a / a.sum(), ratio * b / b.sum(), np.exp(-rng.uniform(0, 2, (5, 9)))


@settings(deadline=None, max_examples=examples(20))
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.0, 5.0]), st.integers(1, 60))
def test_scaling_is_that_of_pot(seed, ratio, n_iters):
    """After any number of iterations, the plan equals that of POT's sinkhorn."""
    bregman = pytest.importorskip("ot.bregman")
    a, b, kernel = _problem(seed, ratio)
    theirs = bregman.sinkhorn_knopp(
        a, b, -np.log(kernel), 1.0, numItermax=n_iters, stopThr=1e-9, warn=False
    )
    ours = published.scaled(a, b, kernel, n_iters=n_iters)
    assert ours.matrix == pytest.approx(theirs, rel=1e-6)


@settings(deadline=None, max_examples=examples(20))
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.2, 3.0, 6.0]))
def test_unequal_masses_end_in_overflow_unless_rescaled(seed, ratio):
    """With Σa ≠ Σb, plain scaling overflows; rescaled, it finds the plan of equal masses."""
    a, b, kernel = _problem(seed, ratio)
    assert published.scaled(a, b, kernel, n_iters=3_000).stopped == "overflow"
    rescaled = published.scaled(a, b, kernel, n_iters=300, rescaled=True)
    equal = published.scaled(a, b / ratio, kernel, n_iters=300)
    assert rescaled.matrix == pytest.approx(equal.matrix, rel=1e-5)
    assert rescaled.matrix.sum(axis=1) == pytest.approx(a)


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), unique=True),
    st.dictionaries(st.text("ab@", min_size=1, max_size=6), st.integers(1, 9)),
)
def test_counts_within_pieces(tokens, pieces):
    """A token's count sums the pieces that contain it."""
    expected = [sum(n for piece, n in pieces.items() if token in piece) for token in tokens]
    assert published.count_within(tokens, pieces) == expected


@pytest.mark.slow
@pytest.mark.campaign
def test_reference_values_are_reproduced(data):
    """Nine objectives on Multi30k and the pick equal those of the published program."""
    counts = volt.count_words(
        [data / f"multi30k/train.{name}.gz" for name in ("en", "de")], pretokenizer="regex:[^ ]+"
    )
    texts = published.read_texts(volt.learn_bpe(counts, 30_000))
    scores = [
        published.score(texts, size, published.VARIANTS["published"]) for size in published.SIZES
    ]
    found = [float(f"{score.objective:.2e}") for score in scores]
    assert found == pytest.approx(published.REFERENCE, rel=1e-9)
    assert published.picked(scores) == 7_000
    assert {score.stopped for score in scores} == {"overflow"}
