"""The experiment on which merges are worth keeping: its methods keep their laws, and its command writes a table."""

from __future__ import annotations

import doctest
from collections import Counter
from importlib import import_module

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merges import learned, word_counts
from places import ROOT

import volt
from experiments.trimming import figures, picky, removal, texts
from experiments.trimming.__main__ import main
from volt.choose.vocabulary_at import vocabulary_at
from volt.errors import ConfigError

MODULES = sorted(path.stem for path in (ROOT / "experiments" / "trimming").glob("[a-z]*.py"))
FEW = settings(deadline=None, max_examples=15)
LETTERS = ["ab", "aab", "abc"]
taus = st.sampled_from([0.3, 0.6, 0.9, 1.0])


def methods(candidates: volt.Candidates, tau: float) -> list[removal.Method]:
    return [
        removal.plain(candidates),
        removal.transport(candidates, min_share=tau / 2),
        removal.picky(candidates, tau=tau),
        removal.scaffold(candidates),
        removal.scaffold_for_good(candidates),
    ]


@pytest.mark.parametrize("number", range(5))
@settings(deadline=None, max_examples=6)
@given(word_counts(LETTERS), taus, st.data())
def test_what_is_removed_is_made_by_merges_and_the_rest_is_counted_as_it_is_encoded(number, words, tau, data):
    """No method removes an atom, or what no merge has made yet; the counts of what stays are those of encoding."""
    candidates = learned(words)
    if not candidates.n_merges:
        return
    n = data.draw(st.integers(0, candidates.n_merges))
    removed = methods(candidates, tau)[number].removed(n)
    assert removed.shape == (candidates.n_atoms + n,)
    assert not removed[: candidates.n_atoms].any()
    vocabulary = vocabulary_at(candidates, len(removed), kept=~removed)
    told = dict(zip(vocabulary.tokens, vocabulary.counts, strict=True))
    assert +Counter(told) == figures.pieces_of(volt.Encoder(vocabulary).encode_words, words)


@FEW
@given(word_counts(LETTERS), taus)
def test_picky_removes_what_one_merge_uses_up(words, tau):
    """By the definition: a merge of which the share of a part's occurrences is at least τ removes that part. With τ = 1
    it is exactly what merges make and what never stands alone any more."""
    candidates = learned(words)
    n, merges = candidates.n_merges, candidates.merges
    gone = set[str]()
    for k, pair in enumerate(merges):
        before, after = (naive.token_counts(words, merges[: k + more]) for more in (0, 1))
        gone |= {part for part in pair if before[part] - after[part] >= tau * before[part]}
    made, removed = set(map("".join, merges)), removal.picky(candidates, tau=tau).removed(n)
    assert {candidates.tokens[token] for token in np.flatnonzero(removed)} == gone & made
    strict, counts = removal.picky(candidates, tau=1.0).removed(n), candidates.counts_at(candidates.n_tokens)
    assert (strict == (counts == 0) & (np.arange(len(counts)) >= candidates.n_atoms)).all()


@FEW
@given(word_counts(LETTERS), st.data())
def test_scaffold_is_rarer_than_the_next_candidate(words, data):
    """Of the parts of the first merges, those go that are rarer than the next merge is made."""
    candidates = learned(words)
    if candidates.n_merges < 2:
        return
    n = data.draw(st.integers(1, candidates.n_merges - 1))
    merges = candidates.merges
    counts, following = naive.token_counts(words, merges[:n]), naive.token_counts(words, merges[: n + 1])
    made, next_count = set(map("".join, merges[:n])), following["".join(merges[n])]
    expected = {part for pair in merges[:n] for part in pair if part in made and counts[part] < next_count}
    removed = removal.scaffold(candidates).removed(n)
    assert {candidates.tokens[token] for token in np.flatnonzero(removed)} == expected


@FEW
@given(word_counts(LETTERS), taus, st.integers(1, 30))
def test_picky_as_published_encodes_as_it_learned(words, tau, n_tokens):
    """Going through the events gives each word the pieces that learning left it with, all of them kept tokens; with no
    removal possible but of what is used up, it is BPE."""
    model = picky.learn(words, n_tokens=n_tokens, tau=tau)
    assert {word: model.encode(word) for word in words} == model.pieces
    pieces = {piece for found in model.pieces.values() for piece in found}
    atoms = {atom for word in words for atom in naive.atoms(word)}
    assert pieces | atoms <= model.tokens
    assert not model.removed & model.tokens
    if tau == 1.0:
        merges = [event.thing for event in model.events if isinstance(event.thing, tuple)]
        assert merges == naive.learn(words, len(merges))


@pytest.mark.parametrize("tau", [0, -0.1, 1.01, float("nan")])
def test_tau_outside_its_range_is_refused(tau):
    """τ is a share above 0."""
    candidates = volt.learn_bpe({"low": 5, "lower": 2}, 3)
    for call in (lambda: removal.picky(candidates, tau=tau), lambda: picky.learn({"low": 5}, n_tokens=9, tau=tau)):
        with pytest.raises(ConfigError, match="give a number above 0 and at most 1"):
            call()


def test_merges_are_as_many_as_leave_the_size():
    """Every method reaches the size, or the nearest; a size beyond all merges, or below the atoms, has no answer."""
    words = {
        "".join(word): 1 + i % 7
        for i, word in enumerate(zip("abcabcabd" * 9, "bcdbcaabc" * 9, "cabdab" * 14, strict=False))
    }
    candidates = volt.learn_bpe(words, 100)
    middle = candidates.n_atoms + candidates.n_merges // 2
    for method in methods(candidates, 0.9):
        n = removal.merges_for(method, middle, candidates=candidates)
        assert n is not None
        assert abs(int((~method.removed(n)).sum()) - middle) <= 2
        assert removal.merges_for(method, candidates.n_atoms - 1, candidates=candidates) is None
        assert removal.merges_for(method, candidates.n_tokens + 1, candidates=candidates) is None


def test_one_command_writes_the_tables(tmp_path, monkeypatch):
    """With text at hand and a small size: a table with a row for each method, all at the same size."""
    monkeypatch.delenv("VOLT_DATA", raising=False)
    lines = ["the cat that had the hat sat on the mat", "a cat is not a dog that sat on mats"] * 10
    monkeypatch.setattr("experiments.trimming.__main__.texts", lambda data: {"tiny": texts.parted(lines)})
    main(["--size", "30", "900", "-o", str(tmp_path / "TABLE.md")])
    told = (tmp_path / "TABLE.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in told.splitlines() if line.startswith("| ") and line.count("|") == 13]
    assert {row[1] for row in rows[1:]} <= {"29", "30", "31"}
    assert [row[0] for row in rows].count("| picky as published, τ 0.9") == 1
    assert "too few merges" in told


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_experiment_run(name):
    """What the docstrings show is so."""
    assert not doctest.testmod(import_module(f"experiments.trimming.{name}")).failed
