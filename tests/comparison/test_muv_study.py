"""The study of MUV-search: its numbers equal Eq. 1 and Eq. 2 on the counts of encoded text."""

import itertools
from functools import partial

import naive
import numpy as np
import pytest
from comparison.inflected import ENDS, STEMS

from volt.choose.search import search
from volt.choose.size_steps import SearchParameters, size_steps
from volt.comparison import muv_study as module
from volt.comparison.muv_study import GRID, grid_argmax
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
