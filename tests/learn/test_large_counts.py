"""Laws of counts beyond 32 bits: merges and counts of tokens are exact up to the limit, and refused behind it."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.count.word_counts import WordCounts
from volt.errors import CorpusError
from volt.learn.bpe import learn_bpe
from volt.learn.parity import learn_parity

MOST = 2**63 - 1
words = st.lists(st.text("abc", min_size=1, max_size=8), min_size=1, max_size=6, unique=True)
counts = st.integers(1, 10**12) | st.integers(
    MOST // 60, MOST // 48
)  # six words of eight atoms stay within the limit


@given(words=words, data=st.data(), marker=st.sampled_from(("suffix", "none")))
@settings(deadline=None, max_examples=examples(40))
def test_merges_of_large_counts_are_those_of_whole_numbers(
    words: list[str], data: st.DataObject, marker: str
) -> None:
    """The naive learner counts with Python's integers, which have no limit."""
    large = {word: data.draw(counts) for word in words}
    assert learn_bpe(large, n_merges=20, marker=marker).merges == naive.learn(large, 20, marker)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [10**12, 2**31, MOST // 56])
def test_all_counts_grow_with_those_of_the_words(scale: int) -> None:
    """Words that are met so many times as often: the same merges, and every token that many times as often."""
    table = {"low": 4, "lower": 2, "newest": 3}
    small, large = (
        learn_bpe({word: n * k for word, n in table.items()}, n_merges=9) for k in (1, scale)
    )
    assert small.merges == large.merges
    for size in range(small.n_atoms, small.n_tokens + 1):
        assert [n * scale for n in small.counts_at(size).tolist()] == large.counts_at(size).tolist()


@pytest.mark.parametrize("pretokenizer", ["whitespace", "bytes"])
def test_more_atoms_than_64_bits_hold_are_refused(pretokenizer: str) -> None:
    """The counts fit, but four times "ab" in each of 2⁶⁰ words make a pair's count too large; one less is learnt."""
    too_many = WordCounts.from_pairs({"abababab": 2**60, "c": 1}, pretokenizer=pretokenizer)
    for learn in (
        lambda: learn_bpe(too_many),
        lambda: learn_parity({"a": too_many, "b": too_many}),
    ):
        with pytest.raises(CorpusError, match="more than 64 bits can count; scale the counts down"):
            learn()
    fits = WordCounts.from_pairs({"abababab": 2**60 - 1, "c": 1}, pretokenizer=pretokenizer)
    found = learn_bpe(fits, n_merges=1, marker="none")
    assert found.merges == [("a", "b")]
    assert int(np.max(found.counts_at(found.n_tokens))) == 4 * (2**60 - 1)


def test_a_pair_beyond_32_bits_is_merged_before_one_within() -> None:
    """2³² + 1 occurrences are more than 3, though they are 1 to who counts with 32 bits."""
    assert learn_bpe({"ab": 2**32 + 1, "cd": 3}, n_merges=1, marker="none").merges == [("a", "b")]
