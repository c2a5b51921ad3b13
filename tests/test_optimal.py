"""Tests of the experiments with optimal tokens: their vocabularies, plan and comparisons."""

import doctest
from importlib import import_module

import pytest
from support.places import ROOT

import volt
from volt.errors import CandidateError

vocabularies = import_module("experiments.optimal.vocabularies")
MODULES = sorted(path.stem for path in (ROOT / "experiments" / "optimal").glob("[a-z]*.py"))
WORDS = {
    "▁the": 9,
    "▁cat": 5,
    "▁sat": 4,
    "▁mat": 3,
    "▁other": 2,
    "▁cats": 2,
    "▁that": 4,
    "▁there": 3,
}
TEXT = "\n".join(" ".join([word.removeprefix("▁")] * n) for word, n in WORDS.items())


def test_the_encoder_makes_as_many_pieces_as_the_search_counted(tmp_path):
    """The pieces of the vocabularies of fewest pieces are those that the search counted; all have the size."""
    path = tmp_path / "text"
    path.write_text(TEXT + "\n")
    counts = volt.count_words([str(path)], pretokenizer="metaspace")
    result = vocabularies.find_vocabularies(counts, 15)
    assert [*result.vocabularies] == [*vocabularies.SYSTEMS]
    assert {vocabulary.size for vocabulary in result.vocabularies.values()} == {15}
    for system in ("fewest", "optimal"):
        n_pieces = vocabularies.count_pieces(result.vocabularies[system], TEXT.split("\n"))
        assert result.bound <= n_pieces == result.n_pieces[system]
    with pytest.raises(CandidateError, match="give more than 10"):
        vocabularies.find_vocabularies(counts, 10)


def test_every_training_stands_once_in_the_plan():
    """The plan has each corpus, size, system and seed once, and every key differs."""
    pytest.importorskip("torch", reason="the trainings are made with torch")
    trainings = import_module("experiments.optimal.trainings")
    plans = trainings.plans()
    assert len(plans) == 150
    assert len({plan.key("text") for plan in plans}) == 150


def test_changes_compare_equal_operations():
    """Bits at the same operations are read where the cheaper system ends."""
    pytest.importorskip("torch", reason="the trainings are made with torch")
    trainings = import_module("experiments.optimal.trainings")
    same = {"corpus": "a", "size": 10, "seed": 1}
    ranked = {"system": "ranked", "operations": [1.0, 4.0], "dev": [3.0, 2.0], "test": [3.0, 2.0]}
    other = {"system": "optimal", "operations": [0.5, 2.0], "dev": [3.0, 2.0], "test": [3.0, 2.0]}
    rows = [{**same, **ranked}, {**same, **other}]
    key = ("optimal", "a", 10)
    assert trainings.changes(rows, by_operations=False) == {key: [0.0]}
    assert trainings.changes(rows, by_operations=True)[key] == [pytest.approx(-20.0)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_modules_run(name):
    """The doctests of the experiments pass."""
    for needed in ("scipy", "torch", "tokenizers", "sentencepiece"):
        pytest.importorskip(needed, reason="some modules of experiments/optimal need it")
    module = import_module(f"experiments.optimal.{name}")
    assert not doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed
