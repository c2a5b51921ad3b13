"""Laws of the places at which a text may be divided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.text.patterns.published import NAMED
from volt.text.patterns.split_points import find_split_points
from volt.text.patterns.splitter import Split, Splitter

ALPHABET = "ab1 2\n\r\t'sS!./éßÀ一ア・\u0301\u00a0\u3000\x00\u200b"
FIRST = [r"\p{N}{1,3}", "[a-c]+", r"\p{N}|\p{N}{3}", "[ab]{2}", "a+|1", "[一-龥ア]+", r"\s?a"]
LAST = [r"\w+|\s", r"\s+(?!\S)|\s+| ?\w+", r"a\s+(?!\S)|b", "a(?=b)|1", r"[^ ]+| ", "a*b|a"]


def splitter_of(*patterns):
    return Splitter.of(*map(Split, patterns))


@given(
    splitter=st.one_of(
        st.sampled_from([Splitter.of(*splits) for splits in NAMED.values()]),
        st.builds(splitter_of, st.sampled_from(LAST)),
        st.builds(splitter_of, st.sampled_from(FIRST), st.sampled_from(LAST)),
        st.builds(splitter_of, *map(st.sampled_from, (FIRST, FIRST, LAST))),
    ),
    text=st.text(ALPHABET, max_size=12),
)
def test_words_stand_alone(splitter, text):
    """If the words of all splits stand alone, each word of a text, split alone, is one word."""
    points = find_split_points(splitter.tables)
    if points is not None and points.words_stand_alone:
        for word in splitter.split(text):
            assert splitter.split(word) == [word]


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "llama3", "deepseek3"])
def test_words_of_published_patterns_stand_alone(name):
    """Words of these patterns, of one split or three, stand alone."""
    assert find_split_points(Splitter.of(*NAMED[name]).tables).words_stand_alone
