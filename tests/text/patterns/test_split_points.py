"""Laws of the places at which a text may be divided."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from volt.kernels.pretokenize import JOINS, PARTS, STARTS_LINE
from volt.text.patterns.published import NAMED
from volt.text.patterns.split_points import find_split_points
from volt.text.patterns.splitter import Split, Splitter

ALPHABET = "ab1 2\n\r\t'sS!./éßÀ一ア・\u0301\u00a0\u3000\x00\u200b"
FIRST = [r"\p{N}{1,3}", "[a-c]+", r"\p{N}|\p{N}{3}", "[ab]{2}", "a+|1", "[一-龥ア]+", r"\s?a"]
LAST = [r"\w+|\s", r"\s+(?!\S)|\s+| ?\w+", r"a\s+(?!\S)|b", "a(?=b)|1", r"[^ ]+| ", "a*b|a"]


def splitter_of(*patterns):
    return Splitter.of(*map(Split, patterns))


splitters = st.one_of(
    st.sampled_from([Splitter.of(*splits) for splits in NAMED.values()]),
    st.builds(splitter_of, st.sampled_from(LAST)),
    st.builds(splitter_of, st.sampled_from(FIRST), st.sampled_from(LAST)),
    st.builds(splitter_of, *map(st.sampled_from, (FIRST, FIRST, LAST))),
)
texts = st.text(ALPHABET, max_size=12)


def units_of(text, splitter, points, *, at_users=False):
    """Divide a text at all of its split points. at_users: only where a user token could follow"""
    breaks = {chr(bit) for bit in range(33) if points.break_mask >> bit & 1}
    clinging = {chr(bit) for bit in range(33) if points.clinging_mask >> bit & 1}
    kinds = [int(points.class_effects[splitter.tables.classes[ord(char)]]) for char in text]
    bounds = [0]
    for p in range(1, len(text)):
        effect = kinds[p - 1] % STARTS_LINE
        is_break = text[p] in breaks
        parts = effect == PARTS or (effect == JOINS and text[p] not in clinging)
        line = len(text) - len(text[p:].lstrip("".join(breaks - clinging)))
        starts = text[p - 1] in clinging and line < len(text)
        if (is_break and parts) or (starts and kinds[line] // STARTS_LINE > at_users):
            bounds.append(p)
    return [text[start:end] for start, end in pairwise([*bounds, len(text)])]


@given(splitter=splitters, text=texts | st.text("a1); \n\r\t", max_size=12))
@example(splitter=Splitter.of(*NAMED["deepseek3"]), text="a);\n\n  (b)\n c\n1")
@example(splitter=Splitter.of(*NAMED["cl100k"]), text=";\n  \n  a\r\n\t\x1ca")
def test_units_have_the_words_of_the_text(splitter, text):
    """The words of a text are those of the parts into which it is divided at all split points,
    and the words of its beginning are, if it ends where a character may start all lines.
    """
    points = find_split_points(splitter.tables)
    if points is not None:
        units = units_of(text, splitter, points)
        assert "".join(units) == text
        assert splitter.split(text) == [word for unit in units for word in splitter.split(unit)]
        *units, _ = units_of(f"{text}a", splitter, points, at_users=True)
        rest = text[len("".join(units)) :]
        assert splitter.split(text) == [
            word for unit in [*units, rest] for word in splitter.split(unit)
        ]


def test_lines_of_code_are_units():
    """After a line end, the next line starts a unit, also if several splits divide the text."""
    text = "f(a);\n\n    (b)\nc"
    for name in ("cl100k", "llama3", "o200k", "qwen2", "deepseek3", "kimi2", "tekken"):
        splitter = Splitter.of(*NAMED[name])
        units = units_of(text, splitter, find_split_points(splitter.tables))
        assert units == ["f(a);\n\n", "    (b)\n", "c"]


@given(splitter=splitters, text=texts)
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
