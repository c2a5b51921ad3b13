"""Laws of the MUV-search study: every number equals Eq. 1 and Eq. 2 on the counts of the encoded text."""

from __future__ import annotations

import itertools
from functools import partial

import naive
import numpy as np
import pytest

from volt.choose.search import search
from volt.choose.size_steps import SearchParameters, size_steps
from volt.comparison import muv_study as module
from volt.comparison.muv_study import GRID, grid_argmax
from volt.learn.bpe import learn_bpe

ENDS = ("", "s", "ed", "er", "est", "ing", "ings", "ness")
STEMS = (
    "walk",
    "talk",
    "stalk",
    "jump",
    "bump",
    "lump",
    "sing",
    "ring",
    "bring",
    "strong",
    "long",
    "cold",
    "bold",
)
WORDS = {
    stem + end: 1 + (7 * i + 5 * j) % 23
    for i, stem in enumerate(STEMS)
    for j, end in enumerate(ENDS)
}
SIZES = range(30, 110, 10)

muv_study = partial(module.muv_study, parameters=SearchParameters())


@pytest.fixture(scope="module")
def result():
    """A search on inflected words."""
    return search(learn_bpe(WORDS, 150), sizes=range(40, 90, 15))


def entropies(candidates, sizes, length):
    """Eq. 2 by a plain loop over the counts of each size."""
    lengths = candidates.lengths.tolist()
    return [
        naive.entropy(candidates.counts_at(size).tolist(), lengths[:size], length) for size in sizes
    ]


@pytest.mark.parametrize("length", ["type", "occurrence"])
def test_grid_equals_the_formulas(result, length):
    """Entropy and MUV of every grid size by plain loops, with either meaning of the mean length."""
    study = muv_study(result, grid=SIZES)
    expected = entropies(result.candidates, SIZES, length)
    prefix = "" if length == "type" else "occurrence_"
    assert [row["size"] for row in study.grid] == list(SIZES)
    assert [row[f"{prefix}entropy"] for row in study.grid] == pytest.approx(expected, rel=1e-9)
    slopes = [(before - after) / 10 for before, after in itertools.pairwise(expected)]
    assert study.grid[0][f"{prefix}muv"] is None
    assert [row[f"{prefix}muv"] for row in study.grid[1:]] == pytest.approx(slopes, rel=1e-6)


def test_grid_shows_the_transports_entropy(result):
    """Eq. 4 of each size is what its own transport gives, whether the search went through that size or not."""
    parameters = SearchParameters(threshold=1e-9)
    alone = list(size_steps(result.candidates, list(SIZES), parameters=parameters))
    study = muv_study(
        search(result.candidates, sizes=SIZES, parameters=parameters),
        parameters=parameters,
        grid=SIZES,
    )
    assert [row["transport_entropy"] for row in study.grid] == pytest.approx(
        [step.transport_entropy for step in alone], rel=1e-6
    )
    other = muv_study(result, parameters=parameters, grid=SIZES)
    assert [row["transport_entropy"] for row in other.grid] == pytest.approx(
        [step.transport_entropy for step in alone], rel=1e-3
    )


def test_argmaxes_equal_looking_at_every_candidate(result):
    """On the grid, over every size and from every floor, no other step has a greater Eq. 1; edges are said."""
    candidates = result.candidates
    study = muv_study(result, grid=SIZES, grid_step=20)
    for one in study.argmaxes:
        sizes = {
            "grid": list(SIZES),
            "every size": list(range(candidates.n_atoms, candidates.n_tokens + 1)),
            "floor": list(range(one.floor, candidates.n_tokens + 1, 20)),
        }[one.over]
        values = entropies(candidates, sizes, one.length)
        slopes = -np.diff(values) / np.diff(sizes)
        assert one.floor == sizes[0]
        assert one.muv == pytest.approx(slopes.max(), rel=1e-6)
        assert slopes[sizes.index(one.size) - 1] == pytest.approx(slopes.max(), rel=1e-6)
        assert one.on_edge == (one.size in (sizes[1], sizes[-1]))
    assert {(one.over, one.length) for one in study.argmaxes} == {
        (over, length)
        for over in ("grid", "every size", "floor")
        for length in ("type", "occurrence")
    }
    assert grid_argmax(candidates, grid=SIZES) == study.argmaxes[0]


def test_curve_keeps_the_ends_and_eq_1_between_its_points(result):
    """The thinned curve starts at the atoms and ends with all candidates; its MUV is Eq. 1 from point to point."""
    curve = muv_study(result).curve
    candidates = result.candidates
    sizes = curve["sizes"]
    assert (sizes[0], sizes[-1]) == (candidates.n_atoms, candidates.n_tokens)
    assert curve["entropies"] == pytest.approx(entropies(candidates, sizes, "type"), rel=1e-9)
    slopes = -np.diff(entropies(candidates, sizes, "occurrence")) / np.diff(sizes)
    assert curve["occurrence_muv"] == pytest.approx(slopes, rel=1e-6)
    assert curve["n_pieces"] == [candidates.counts_at(size).sum() for size in sizes]


def test_a_grid_beyond_the_candidates_is_reported(result):
    """The paper's grid starts at 1,000: of a corpus with fewer tokens nothing is picked, and the study says why."""
    study = muv_study(result)
    assert study.grid == ()
    assert grid_argmax(result.candidates) is None
    assert f"0 of the grid's {len(GRID)}" in study.warnings[0]
    edge = muv_study(result, grid=(100, 110, 120))
    assert any("the grid decides" in warning for warning in edge.warnings)
