"""The study of MUV-search: its numbers equal Eq. 1 and Eq. 2 on the counts of encoded text."""

from __future__ import annotations

import itertools
from functools import partial

import naive
import numpy as np
import pytest
from comparison.inflected import ENDS, STEMS
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.choose.search import search
from volt.choose.size_steps import SearchParameters, size_steps
from volt.choose.vocabulary_at import vocabulary_at
from volt.comparison import muv_study as module
from volt.comparison.muv_study import GRID, grid_argmax
from volt.comparison.sample_cuts import cut_samples
from volt.comparison.token_table import token_table
from volt.encode.encoder import Encoder
from volt.learn.bpe import learn_bpe

WORDS = {
    stem + end: 1 + (7 * i + 5 * j) % 23
    for i, stem in enumerate(STEMS)
    for j, end in enumerate(ENDS)
}
SIZES = range(30, 110, 10)

muv_study = partial(module.muv_study, parameters=SearchParameters())


@pytest.fixture(scope="module")
def result():
    """Return a search on inflected words."""
    return search(learn_bpe(WORDS, 150), sizes=range(40, 90, 15))


def entropies(candidates, sizes, length):
    """Return Eq. 2 of each size by a plain loop."""
    lengths = candidates.lengths.tolist()
    return [
        naive.entropy(candidates.counts_at(size).tolist(), lengths[:size], length) for size in sizes
    ]


@pytest.mark.parametrize("length", ["type", "occurrence"])
def test_grid_equals_the_formulas(result, length):
    """Entropy and MUV of the study's grid equal plain loops over Eq. 2 and Eq. 1, for both mean
    lengths."""
    study = muv_study(result, grid=SIZES)
    expected = entropies(result.candidates, SIZES, length)
    prefix = "" if length == "type" else "occurrence_"
    assert [row["size"] for row in study.grid] == list(SIZES)
    assert [row[f"{prefix}entropy"] for row in study.grid] == pytest.approx(expected, rel=1e-9)
    slopes = [(before - after) / 10 for before, after in itertools.pairwise(expected)]
    assert study.grid[0][f"{prefix}muv"] is None
    assert [row[f"{prefix}muv"] for row in study.grid[1:]] == pytest.approx(slopes, rel=1e-6)


def test_grid_has_the_transport_entropies(result):
    """The entropy after the transport (Eq. 4) at a size does not depend on whether the search
    measured that size."""
    parameters = SearchParameters(threshold=1e-9)
    steps = size_steps(result.candidates, list(SIZES), parameters=parameters)
    expected = [step.transport_entropy for step in steps]
    other = search(result.candidates, sizes=SIZES, parameters=parameters)
    for each, error in ((other, 1e-6), (result, 1e-3)):
        study = muv_study(each, parameters=parameters, grid=SIZES)
        entropies = [row["transport_entropy"] for row in study.grid]
        assert entropies == pytest.approx(expected, rel=error)


def test_argmaxes_have_the_greatest_muv(result):
    """In every grid of the study, no size has a greater MUV than the argmax, and edges are
    reported."""
    candidates = result.candidates
    study = muv_study(result, grid=SIZES, grid_step=20)
    end = candidates.n_tokens + 1
    for argmax in study.argmaxes:
        sizes = {
            "grid": SIZES,
            "every size": range(candidates.n_atoms, end),
            "floor": range(argmax.floor, end, 20),
        }[argmax.over]
        slopes = -np.diff(entropies(candidates, sizes, argmax.length)) / np.diff(sizes)
        assert argmax.floor == sizes[0]
        assert argmax.muv == pytest.approx(slopes.max(), rel=1e-6)
        assert slopes[sizes.index(argmax.size) - 1] == pytest.approx(slopes.max(), rel=1e-6)
        assert argmax.on_edge == (argmax.size in (sizes[1], sizes[-1]))
    kinds = {(argmax.over, argmax.length) for argmax in study.argmaxes}
    assert kinds == {*itertools.product(("grid", "every size", "floor"), ("type", "occurrence"))}
    assert grid_argmax(candidates, grid=SIZES) == study.argmaxes[0]


def test_the_curve_has_its_ends_and_muv_between_points(result):
    """The study's curve goes from the atoms to all candidates; its MUV is Eq. 1 between
    neighbouring points."""
    curve = muv_study(result).curve
    candidates = result.candidates
    sizes = curve["sizes"]
    assert (sizes[0], sizes[-1]) == (candidates.n_atoms, candidates.n_tokens)
    assert curve["entropies"] == pytest.approx(entropies(candidates, sizes, "type"), rel=1e-9)
    slopes = -np.diff(entropies(candidates, sizes, "occurrence")) / np.diff(sizes)
    assert curve["occurrence_muv"] == pytest.approx(slopes, rel=1e-6)
    assert curve["n_pieces"] == [candidates.counts_at(size).sum() for size in sizes]


def test_a_grid_beyond_the_candidates_is_reported(result):
    """The study warns if the candidates do not reach the grid, and if the pick is on its edge."""
    study = muv_study(result)
    assert study.grid == ()
    assert grid_argmax(result.candidates) is None
    assert f"0 of the grid's {len(GRID)}" in study.warnings[0]
    edge = muv_study(result, grid=(100, 110, 120))
    assert any("the grid decides" in warning for warning in edge.warnings)


word_counts_ = st.dictionaries(
    st.text("abc", min_size=2, max_size=8), st.integers(1, 30), min_size=2, max_size=20
)


def searched(words, *, marker="suffix"):
    candidates = learn_bpe(words, 40, marker=marker)
    if not candidates.n_merges:
        assume(False)
    sizes = np.unique(np.linspace(candidates.n_atoms, candidates.n_tokens, 5).astype(int))
    return search(candidates, sizes=sizes)


@given(word_counts_)
@settings(deadline=None, max_examples=examples(25))
def test_the_token_table_equals_looking_at_every_size(word_counts):
    """`token_table` has the first size, the peak and the scaffolding that follow from each size,
    and the counts and ranks of the vocabulary."""
    result = searched(word_counts)
    candidates = result.candidates
    table = token_table(result)
    counts_at = {}
    for size in range(candidates.n_atoms, candidates.n_tokens + 1):
        counts = candidates.counts_at(size).tolist()
        counts_at[size] = dict(zip(candidates.tokens_at(size), counts, strict=True))
    chosen = dict(zip(result.vocabulary.tokens, result.vocabulary.counts, strict=True))
    ordered = sorted(chosen.values(), reverse=True)
    assert table["token"].to_list() == list(candidates.tokens)
    for number, row in enumerate(table.iter_rows(named=True)):
        token = row["token"]
        counts = {size: at[token] for size, at in counts_at.items() if token in at}
        peak = max(counts.values())
        assert row["length"] == candidates.lengths[number]
        assert row["appears"] == min(counts)
        assert row["peak_count"] == peak
        assert row["peak"] == min(size for size, count in counts.items() if count == peak)
        steps = [step for step in result.steps if number < step.size and not step.kept[number]]
        assert row["scaffolding"] == min((step.size for step in steps), default=None)
        assert row["count"] == chosen.get(token)
        assert (row["rank"] is None) == (token not in chosen)
        assert token not in chosen or ordered[row["rank"] - 1] == chosen[token]
    assert sorted(table["rank"].drop_nulls()) == list(range(1, len(chosen) + 1))


@given(
    word_counts_,
    st.lists(st.text("abcd ", max_size=20), max_size=4),
    st.sampled_from(["suffix", "prefix", "none"]),
)
@settings(deadline=None, max_examples=examples(25))
def test_samples_are_split_by_each_sizes_vocabulary(word_counts, lines, marker):
    """`cut_samples` has the pieces and counts of an encoder with all merges and tokens of each
    size."""
    result = searched(word_counts, marker=marker)
    samples = cut_samples(result, [("en", line) for line in lines])
    tokens = result.candidates.tokens
    for step, cuts, counts in zip(result.steps, samples.cuts, samples.counts, strict=True):
        vocabulary = vocabulary_at(result.candidates, step.size, kept=step.kept)
        encoder = Encoder(vocabulary)
        used = set()
        for line, words in zip(lines, cuts, strict=True):
            for word, pieces in zip(line.split(), words, strict=True):
                used.update(piece for piece in pieces if isinstance(piece, int))
                spelled = [tokens[piece] if piece in used else piece for piece in pieces]
                assert [spelled] == [list(cut) for cut in encoder.encode_words([word])]
        assert used <= set(map(int, counts))
        exact = dict.fromkeys(vocabulary.tokens, 0)
        for word, count in result.candidates.counts.table.rows():
            for piece in encoder.encode_words([word])[0]:
                exact[piece] += count
        assert counts == {number: exact[tokens[int(number)]] for number in counts}


def test_a_long_word_is_cut():
    """`cut_samples` splits a word of 21,000 characters into pieces that spell it."""
    result = searched({"abab": 9, "abc": 5, "cab": 3})
    line = "abc" * 7_000
    pieces = cut_samples(result, [("en", line)]).cuts[-1][0][0]
    assert "".join(result.candidates.tokens[piece] for piece in pieces) == line + "</w>"


@pytest.mark.parametrize("lines", [[], ["", "   "]])
def test_empty_samples_have_no_pieces(lines):
    """`cut_samples` stores lines without words, without pieces."""
    found = cut_samples(searched({"abab": 9, "abc": 5}), [("en", line) for line in lines])
    assert all(cuts == ((),) * len(lines) for cuts in found.cuts)
