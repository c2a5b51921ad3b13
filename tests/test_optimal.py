"""Laws of the experiments that choose tokens for few pieces: counts are exact, and no step adds pieces."""

import doctest
from importlib import import_module

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.places import ROOT

import volt
from volt.choose.certificate import build_lattice
from volt.choose.token_choice import TokenChoice, list_texts
from volt.errors import CandidateError
from volt.kernels.arrays import Words
from volt.text.atoms import atom_codes

vocabularies = import_module("experiments.optimal.vocabularies")
MODULES = sorted(path.stem for path in (ROOT / "experiments" / "optimal").glob("[a-z]*.py"))
MANY = settings(max_examples=examples(60), deadline=None)
tiny_texts = st.dictionaries(
    st.text("ab", min_size=1, max_size=5), st.integers(1, 9), min_size=1, max_size=4
)


def start(counts, seed):
    """Return a choice of random tokens, and the strings of all candidates."""
    codes, ends = atom_codes(list(counts), marker="none")
    words = Words(codes, ends, np.array(list(counts.values()), np.int64))
    lattice = build_lattice(words, 1)
    texts = list_texts(lattice, words.symbols)
    is_chosen = np.random.default_rng(seed).integers(2, size=len(texts))
    return TokenChoice(lattice, np.flatnonzero(is_chosen)), texts


def count(counts, tokens):
    return sum(n * naive.path_length(word, tokens) for word, n in counts.items())


def chosen_texts(current, texts):
    return {texts[token] for token in np.flatnonzero(current.is_chosen)}


@MANY
@given(tiny_texts, st.integers(0, 99))
def test_pieces_and_values_are_those_of_shortest_paths(counts, seed):
    """Pieces are exact after any changes, and so is the value of each token that can be dropped. The
    value of a token that can be added is exact if it occurs once in each word."""
    current, texts = start(counts, seed)
    for token in range(0, len(texts), 2):
        current.toggle(token)
    tokens = chosen_texts(current, texts)
    assert current.n_pieces == count(counts, tokens)
    for number, text in enumerate(texts):
        if text in tokens:
            value = count(counts, tokens - {text}) - current.n_pieces
            assert current.values[number] == value
            continue
        saved = current.n_pieces - count(counts, tokens | {text})
        if all(word.find(text) == word.rfind(text) for word in counts):
            assert current.values[number] == saved
        assert (current.values[number] > 0) >= (saved > 0)


@MANY
@given(tiny_texts, st.integers(0, 99))
def test_exchanges_keep_the_number_of_tokens_and_add_no_pieces(counts, seed):
    """After exchanges, as many tokens are chosen, with at most as many pieces, and at least the fewest."""
    current, texts = start(counts, seed)
    n_tokens = int(current.is_chosen.sum())
    n_pieces = current.n_pieces
    current.exchange(10)
    assert current.is_chosen.sum() == n_tokens
    assert naive.fewest_pieces(counts, n_tokens) <= current.n_pieces <= n_pieces
    assert current.n_pieces == count(counts, chosen_texts(current, texts))


@MANY
@given(tiny_texts, st.integers(0, 6))
def test_filling_stops_at_the_number_or_when_no_token_saves_pieces(counts, n_tokens):
    """As many tokens are chosen as requested, or fewer if no other saves any piece."""
    current, texts = start(counts, 1)
    current.fill(n_tokens)
    tokens = chosen_texts(current, texts)
    assert len(tokens) <= n_tokens
    if len(tokens) < n_tokens:
        assert current.n_pieces == sum(counts.values())


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
