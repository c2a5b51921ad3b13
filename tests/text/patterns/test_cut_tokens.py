"""Laws of `cut_tokens`: a token counts as split if and only if no word of any text contains it."""

from itertools import combinations, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.exports import texts

from volt.text.patterns.cut_tokens import cut_tokens, leaves_gaps, n_cut
from volt.text.patterns.published import NAMED, named_splitter
from volt.text.patterns.splitter import Split

PATTERNS = (
    "gpt2",
    "cl100k",
    "o200k",
    "llama3",
    "qwen2",
    "qwen3.5",
    "tekken",
    "kimi2",
    "deepseek3",
    "digits3-right",
)
KINDS = ["a", "A", "1", " ", "\n", ".", "s"]


def words_of(pattern, lines):
    return [word.encode() for line in lines for word in named_splitter(pattern).split(line)]


@given(
    st.lists(texts | st.sampled_from(["'ve", "'ll", "'LL", " \n", "4!"]), min_size=1, max_size=3),
    st.sampled_from(PATTERNS),
)
@settings(deadline=None, max_examples=examples(60))
def test_no_part_of_a_word_is_split(lines, pattern):
    """`cut_tokens` returns no token that is part of a word, even if it begins or ends inside a
    character.
    """
    inner = set()
    for word in words_of(pattern, lines):
        inner.update(word[i:j] for i, j in combinations(range(len(word) + 1), 2) if j - i < 9)
    assert cut_tokens(sorted(inner), NAMED[pattern]) == []


@given(texts)
@settings(deadline=None, max_examples=examples(60))
def test_two_words_are_split(text):
    """`cut_tokens` returns a word joined with the next one, if the first ends in a letter and the
    second starts in ASCII.
    """
    joined = [
        left + right
        for left, right in pairwise(words_of("gpt2", [text]))
        if left.decode()[-1].isalpha() and right[0] < 128
    ]
    assert cut_tokens(joined, NAMED["gpt2"]) == joined


def test_tokens_in_no_word_are_split():
    """`cut_tokens` returns a pair of characters if and only if no word of any text of three
    characters contains it.
    """
    lines = list(map("".join, product(KINDS, repeat=3)))
    tokens = ["".join(pair).encode() for pair in product(KINDS, repeat=2)]
    expected = {}
    for pattern in ("gpt2", "cl100k", "o200k"):
        words = words_of(pattern, lines)
        expected[pattern] = {token for token in tokens if not any(token in word for word in words)}
        assert set(cut_tokens(tokens, NAMED[pattern])) == expected[pattern]
    counts = n_cut(tokens, {name: NAMED[name] for name in expected})
    assert counts == {name: len(tokens) for name, tokens in expected.items()}


@pytest.mark.parametrize("pattern", [r"\s+|\S+", r"\s+$|\S+|\s", "(?:..)|[\\s\\S]"])
def test_a_pattern_that_matches_all_text_leaves_no_gaps(pattern):
    """`leaves_gaps` is False for a pattern that matches every character of every text."""
    assert not leaves_gaps(Split(pattern))


@pytest.mark.parametrize("pattern", [".", r"\s+$|\S+", r"\s(?!\S)|\S", "[^a]"])
def test_a_pattern_that_leaves_text_unmatched_has_gaps(pattern):
    """`leaves_gaps` is True for a pattern that leaves a character of some text unmatched."""
    assert leaves_gaps(Split(pattern))
