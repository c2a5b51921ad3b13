"""The compiled measures of texts, against what Python's str says of them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.stream.transforms.column import Column, blank, count_bytes, lengths
from volt.text.white_space import SPLIT_SPACE

# Characters like white space
NEAR = "\x08\x0e\x1b!\x7f\x84\x86\xa1\u167f\u1681\u1fff\u200b\u2027\u202a\u2030\u205e\u2060\u2fff\u3001"
CHARACTERS = st.sampled_from(SPLIT_SPACE + NEAR + "ab  é中😀\ud800\x00")
LONG = st.tuples(st.integers(0, 200), st.text(CHARACTERS, max_size=80)).map(
    lambda message: "a" * message[0] + message[1]
)
VALUES = st.lists(st.one_of(st.none(), st.text(CHARACTERS, max_size=12), LONG), max_size=6)


def n_bytes(text: str) -> int:
    """The length of the text in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def check(column: Column, texts: list[str]) -> None:
    """Assert that everything measured of the column is what Python says of its texts."""
    assert lengths(column, "words").tolist() == [len(text.split()) for text in texts]
    assert lengths(column, "characters").tolist() == [len(text) for text in texts]
    assert lengths(column, "bytes").tolist() == [n_bytes(text) for text in texts]
    assert blank(column).tolist() == [not text.strip() for text in texts]
    assert count_bytes(column, ord("a"), 1).tolist() == [text.count("a") + text.count("b") for text in texts]


@given(VALUES, st.data())
def test_measures_are_those_of_str(values: list[str | None], data: st.DataObject) -> None:
    """Words, characters, bytes and blanks of values, in any order, in buffers that are larger, of any characters."""
    column, texts = Column.of(values), [value or "" for value in values]
    check(column, texts)
    order = data.draw(st.permutations(range(len(values))))[: len(values) // 2 + 1]
    check(column.take(np.array(order, np.int64)), [texts[index] for index in order])


def test_every_character_counts_as_in_python() -> None:
    """Any character between two letters makes two words of them or one, as str.split() does, and is one character."""
    every = [f"a{chr(code)}b" for code in range(sys.maxunicode + 1) if not 0x3100 < code < 0x10FF00]
    assert lengths(Column.of(every), "words").tolist() == [len(text.split()) for text in every]
    assert lengths(Column.of(every), "characters").tolist() == [3] * len(every)


@pytest.mark.parametrize("space", [" ", "\u0085", "\u2003", "\u3000"])
def test_white_space_over_the_edge_of_what_is_looked_at_together(space: str) -> None:
    """Wherever it stands, and wherever the value starts and ends in its buffer, even in the midst of a character."""
    texts = ["a" * before + space * n + "b" for before in range(58, 68) for n in (1, 2, 40)]
    check(Column.of(texts), texts)
    data = np.frombuffer(("a" * 62 + space + space).encode(), np.uint8)
    for start in (0, 61, 62):
        for end in range(62, len(data) + 1):
            text = bytes(data[start:end]).decode(errors="replace")
            column = Column(data, np.array([start]), np.array([end - start]))
            assert lengths(column, "words").tolist() == [len(text.split())]


def test_ids_are_words() -> None:
    """Of ids, words are ids, and characters those of the numbers; none is blank only without any."""
    column = Column.of_ids(np.array([7, 10, 12345], np.int32), np.array([0, 2, 2, 3])).take([2, 1, 0])
    assert [lengths(column, "words").tolist(), lengths(column, "characters").tolist()] == [[1, 0, 2], [5, 0, 4]]
    assert blank(column).tolist() == [False, True, False]


def test_a_huge_value_among_small_ones() -> None:
    """A value of a million words, and what stands beside it."""
    check(Column.of(["a b", "wörter " * 100_000, ""]), ["a b", "wörter " * 100_000, ""])
