"""Laws of `learn_superwords`: its merges are those of the whole text, and its counts are exact."""

from collections import Counter

import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

import volt
from volt.choose import superwords
from volt.errors import CandidateError

MANY = settings(max_examples=examples(600), deadline=None)
WORDS = ["a", "b", "ab", "aa", "ba", "abc", "'s", "1", "12", "!!", "", "é"]
lines = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
texts_of_lines = st.lists(lines | st.text("ab '1", max_size=9), min_size=1, max_size=8)
COUNTING = st.sampled_from(
    [
        {"level": "bytes"},
        {"level": "bytes", "pattern": "llama3"},
        {"pretokenizer": "metaspace"},
        {"pretokenizer": "gpt2"},
        {"pretokenizer": "unicode"},
    ]
)


def stretches_of(texts, across):
    """Count the stretches of texts."""
    return Counter(stretch for text in texts for stretch in across.split(text))


def contains_two_words(stretches, merges):
    """Check whether a token that starts with a space follows another token in a stretch."""
    pieces = [naive.encode(stretch, merges, marker="none") for stretch in stretches]
    return any(piece[0] in "▁Ġ" for parts in pieces for piece in parts[1:])


def naive_counts(words, merges):
    """Count the pieces of counted words."""
    counts = Counter()
    for word, n in words.items():
        for piece in naive.encode(word, merges, marker="none"):
            counts[piece] += n
    return counts


@MANY
@given(
    texts_of_lines,
    COUNTING,
    st.integers(0, 6),
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from([0.01, 0.5, 2.0]),
)
def test_merges_and_counts_equal_those_of_the_whole_text(
    texts, counting, n_first, n_merges, least, surplus
):
    """The merges are those of naive learning in whole stretches, and the counts of every size are
    those of encoding, also if c is too large at first.
    """
    if not "".join(texts):
        return
    words = volt.count_words(texts=texts, **counting)
    first = volt.learn_bpe(words, n_merges=n_first)
    stretches = stretches_of(texts, superwords._choose_coarse(first, None))
    expected = naive.learn(stretches, n_merges, "none", least, first.merges)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(superwords, "_SURPLUS", surplus)

        def learn():
            return volt.learn_superwords(
                first, n_superwords=n_merges, texts=texts, min_pair_count=least
            )

        if not expected or not contains_two_words(stretches, first.merges):
            with pytest.raises(CandidateError):
                learn()
            return
        both = learn()

    assert both.merges == first.merges + expected
    for size in range(first.n_atoms, both.n_tokens + 1):
        words_at = stretches if size > first.n_tokens else dict(words.table.rows())
        counts = naive_counts(words_at, both.merges[: both.merges_at(size)])
        tokens = both.tokens_at(size)
        assert both.counts_at(size).tolist() == [counts[token] for token in tokens]
        assert counts.keys() <= set(tokens)
