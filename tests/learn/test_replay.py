"""Laws of replaying merges, learned or not: every count is that of the naive twin, and what cannot be is named."""

from __future__ import annotations

from dataclasses import fields
from random import Random

import naive
import pytest
from drawn import examples
from hypothesis import given, settings
from merges import (
    FEW,
    LATE,
    assert_exact_at_every_size,
    counts_of,
    learned,
    markers,
    merge_lists,
    shuffled_cuts,
    word_counts,
)

from volt.count.word_counts import WordCounts
from volt.errors import CandidateError
from volt.learn.bpe import replay_bpe


@given(merge_lists())
@FEW
def test_sizes_and_merges_agree(case):
    """sizes_after() counts tokens merge by merge; merges_at(size) is the last merge that leaves that size."""
    words, merges, marker = case
    candidates = replay_bpe(WordCounts.from_pairs(words), merges, marker=marker)
    atoms = candidates.tokens[: candidates.n_atoms]
    sizes = [len({*atoms, *map("".join, merges[:k])}) for k in range(len(merges) + 1)]
    assert candidates.sizes_after().tolist() == sizes
    for size in set(sizes):
        assert candidates.merges_at(size) == max(
            k for k, found in enumerate(sizes) if found == size
        )
        assert candidates.tokens_at(size) == list(candidates.tokens[:size])


@given(word_counts(), markers)
@FEW
def test_replaying_learned_merges_changes_nothing(words, marker):
    """replay_bpe of learned merges gives every array of learn_bpe."""
    candidates = learned(words, marker=marker)
    replayed = replay_bpe(candidates.counts, candidates.merges, marker=marker)
    assert replayed.tokens == candidates.tokens
    for name in ("lengths", "atom_counts", "parts", "results"):
        assert getattr(replayed, name).tolist() == getattr(candidates, name).tolist()
    for name in (field.name for field in fields(candidates.trajectory)):
        assert (
            getattr(replayed.trajectory, name).tolist()
            == getattr(candidates.trajectory, name).tolist()
        ), name


@given(merge_lists())
@settings(deadline=None, max_examples=examples(200))
def test_replayed_counts_are_exact_for_any_merges(case):
    """counts_at is exact even for merges that repeat, cannot be reached, or spell the same token in two ways."""
    words, merges, marker = case
    candidates = replay_bpe(WordCounts.from_pairs(words), merges, marker=marker)
    assert candidates.merges == merges
    assert_exact_at_every_size(candidates, words)


def riffled(first, second, rng: Random) -> list[naive.Pair]:
    """Two lists of merges shuffled into one, each in its order."""
    from_first = rng.sample([True] * len(first) + [False] * len(second), len(first) + len(second))
    sources = {True: iter(first), False: iter(second)}
    return [next(sources[choice]) for choice in from_first]


def test_replayed_counts_are_exact_where_a_low_rank_follows_a_high_one():
    """The same on words in which a merge becomes possible only after one of a higher rank."""
    words, n_late = {"abcde": 3, "abcd": 1, "eabcdabc": 2, "bcdeaabcd": 1}, 0
    for seed in range(200):
        rng = Random(seed)
        merges = riffled(LATE, shuffled_cuts("abcdeab", rng)[: rng.randint(0, 20)], rng)
        if any(naive.is_late(word, merges, "none") for word in words):
            n_late += 1
            assert_exact_at_every_size(
                replay_bpe(WordCounts.from_pairs(words), merges, marker="none"), words
            )
    assert n_late >= 20, n_late


def test_a_low_rank_after_a_high_one_counts_at_the_higher_step():
    """By hand: in "abcd", abc is first made by the last merge, and only then can (abc, d) follow."""
    candidates = replay_bpe(WordCounts.from_pairs({"abcd": 7}), LATE, marker="none")
    sizes = candidates.sizes_after().tolist()
    assert counts_of(candidates, sizes[1]) == {"a": 7, "bc": 7, "d": 7}
    assert counts_of(candidates, sizes[-1]) == {"abcd": 7}


@pytest.mark.parametrize(
    ("merges", "found"),
    [
        ([("l", "o"), ("lo", "wer")], "merge 2, 'lo' + 'wer': no earlier merge makes 'wer'"),
        ([("lo", "w</w>"), ("l", "o")], "merge 1"),
        ([("l", "</w>")], "'</w>'"),
        ([("", "l")], "merge 1"),
    ],
)
def test_replay_names_the_merge_that_cannot_be(merges, found):
    """A part that no earlier merge makes is an error that names the merge and the part."""
    with pytest.raises(CandidateError) as caught:
        replay_bpe(WordCounts.from_pairs({"low": 1}), merges, marker="suffix")
    assert found in str(caught.value)


def test_replay_accepts_merges_of_other_text():
    """Merges whose characters the corpus lacks are candidates with the count 0."""
    candidates = replay_bpe(
        WordCounts.from_pairs({"ab": 2}), [("x", "y"), ("a", "b</w>")], marker="suffix"
    )
    assert set(candidates.tokens) == {"a", "b</w>", "x", "y", "xy", "ab</w>"}
    assert counts_of(candidates, candidates.n_tokens) == {"ab</w>": 2}
