"""Laws of replaying merges, learned or not: counts equal those of a naive encoding, and impossible merges are refused."""

from dataclasses import fields
from operator import attrgetter
from random import Random

import naive
import pytest
from hypothesis import given, settings
from support.drawn import examples
from support.merges import (
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

from volt.errors import CandidateError
from volt.learn.bpe import replay_bpe


@given(merge_lists())
@FEW
def test_sizes_after_and_merges_at_agree(case):
    """`sizes_after` lists the number of tokens after each merge; `merges_at` returns the last
    number of merges with a size."""
    words, merges, marker = case
    candidates = replay_bpe(words, merges, marker=marker)
    atoms = candidates.tokens[: candidates.n_atoms]
    sizes = [len({*atoms, *map("".join, merges[:k])}) for k in range(len(merges) + 1)]
    assert candidates.sizes_after().tolist() == sizes
    for size in set(sizes):
        last = len(sizes) - 1 - sizes[::-1].index(size)
        assert candidates.merges_at(size) == last
        assert candidates.tokens_at(size) == list(candidates.tokens[:size])


@given(word_counts(), markers)
@FEW
def test_replay_bpe_of_learned_merges_equals_learn_bpe(words, marker):
    """`replay_bpe` of merges that `learn_bpe` learned returns candidates whose arrays equal those
    of `learn_bpe`."""
    candidates = learned(words, marker=marker)
    replayed = replay_bpe(candidates.counts, candidates.merges, marker=marker)
    assert replayed.tokens == candidates.tokens
    names = [f"trajectory.{field.name}" for field in fields(candidates.trajectory)]
    for name in ("lengths", "atom_counts", "parts", "results", *names):
        array = attrgetter(name)
        assert array(replayed).tolist() == array(candidates).tolist(), name


@given(merge_lists())
@settings(max_examples=examples(200))
def test_counts_of_replay_bpe_are_exact_for_any_merges(case):
    """At every size, the counts of `replay_bpe` equal a naive encoding, also for merges that
    repeat, never apply, or make one token in two ways."""
    words, merges, marker = case
    candidates = replay_bpe(words, merges, marker=marker)
    assert candidates.merges == merges
    assert_exact_at_every_size(candidates, words)


def riffled(first, second, rng):
    """Return two lists of merges, shuffled into one; each retains its order."""
    from_first = rng.sample([True] * len(first) + [False] * len(second), len(first) + len(second))
    sources = {True: iter(first), False: iter(second)}
    return [next(sources[choice]) for choice in from_first]


def test_counts_of_replay_bpe_are_exact_if_a_low_rank_follows_a_high_one():
    """The counts of `replay_bpe` equal a naive encoding, also for words in which a merge becomes
    possible only after a merge of a higher rank."""
    words = {"abcde": 3, "abcd": 1, "eabcdabc": 2, "bcdeaabcd": 1}
    n_late = 0
    for seed in range(200):
        rng = Random(seed)
        merges = riffled(LATE, shuffled_cuts("abcdeab", rng)[: rng.randint(0, 20)], rng)
        if any(naive.is_late(word, merges, "none") for word in words):
            n_late += 1
            assert_exact_at_every_size(replay_bpe(words, merges, marker="none"), words)
    assert n_late >= 20, n_late


def test_replay_bpe_counts_a_late_merge_at_the_step_that_lets_it_apply():
    """In "abcd", only the last merge makes "abc", which an earlier merge joins with "d";
    `replay_bpe` counts "abcd" from the last merge on."""
    candidates = replay_bpe({"abcd": 7}, LATE, marker="none")
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
def test_replay_bpe_refuses_merges_of_unknown_parts(merges, found):
    """`replay_bpe` raises an error that names the merge and the part if no earlier merge makes the
    part."""
    with pytest.raises(CandidateError) as caught:
        replay_bpe({"low": 1}, merges, marker="suffix")
    assert found in str(caught.value)


def test_replay_bpe_accepts_merges_of_other_text():
    """`replay_bpe` accepts merges of characters that the corpus lacks; their tokens have the count
    0."""
    candidates = replay_bpe({"ab": 2}, [("x", "y"), ("a", "b</w>")], marker="suffix")
    assert set(candidates.tokens) == {"a", "b</w>", "x", "y", "xy", "ab</w>"}
    assert counts_of(candidates, candidates.n_tokens) == {"ab</w>": 2}
