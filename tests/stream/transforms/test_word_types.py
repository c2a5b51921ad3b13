"""Columns cut into tokens and written from them: as plain Python does it, in both representations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_lines import ID_LINES, LINES, id_batch, ids_of, tokens_of

from volt.stream.transforms.column import Column, Longs
from volt.stream.transforms.word_types import (
    NO_OTHERS,
    Choices,
    WordTypes,
    cut,
    token_counts,
    with_values,
    written,
)


def flattened(lists: list[list[int]]) -> tuple[Longs, Longs]:
    """Lists one after the other, and where each ends."""
    flat = [number for line in lists for number in line]
    return np.array(flat, np.int64), np.cumsum(list(map(len, lists)), dtype=np.int64)


@given(LINES, st.data())
def test_tokens_of_text_are_those_of_split(values: list[str], data: st.DataObject) -> None:
    """Of any values, in any order and missing ones among them, tokens are what stands between spaces."""
    order = data.draw(st.lists(st.integers(0, len(values)), max_size=8))
    column, plain = Column.of([*values, None]).take(np.array(order, np.int64)), [*values, ""]
    counts = token_counts(column)
    assert counts.tolist() == [len(tokens_of(plain[k])) for k in order]
    tokens, buffer = cut(column, counts), column.data.tobytes()
    spans = zip(tokens.starts.tolist(), tokens.sizes.tolist(), strict=True)
    found = [buffer[start : start + size].decode() for start, size in spans]
    assert found == [token for k in order for token in tokens_of(plain[k])]


@given(LINES, st.lists(st.text("xyé", min_size=1), min_size=1, max_size=3), st.data())
def test_text_is_written_from_any_tokens(
    values: list[str], others: list[str], data: st.DataObject
) -> None:
    """Values of any tokens, own or others, have one space between two."""
    column = Column.of(values)
    tokens = cut(column, token_counts(column))
    own = [token for value in values for token in tokens_of(value)]
    numbers = st.integers(-len(others), len(own) - 1)
    chosen = data.draw(st.lists(st.lists(numbers, max_size=9), max_size=5))
    flat, ends = flattened(chosen)
    made = written(tokens, flat, ends, Column.of(others)).strings()
    assert made == [" ".join(own[k] if k >= 0 else others[-1 - k] for k in line) for line in chosen]


@given(ID_LINES, st.data())
def test_ids_are_written_from_any_ids(lines: list[list[int]], data: st.DataObject) -> None:
    """The same of ids, whose tokens are themselves."""
    order = data.draw(st.permutations(range(len(lines))))
    column = id_batch(lines).column(1).take(np.array(order, np.int64))
    own = [number for k in order for number in lines[k]]
    tokens = cut(column, token_counts(column))
    chosen = data.draw(st.lists(st.lists(st.integers(-2, len(own) - 1), max_size=9), max_size=5))
    flat, ends = flattened(chosen)
    made = written(tokens, flat, ends, Column.of_ids(np.array([70, 80], np.int32), np.arange(3)))
    assert ids_of(made) == [
        [own[k] if k >= 0 else (70, 80)[-1 - k] for k in line] for line in chosen
    ]


def test_the_number_of_tokens_is_kept() -> None:
    """It is counted once, and goes with the values that are taken."""
    column = Column.of(["a b", "c"])
    assert token_counts(column) is token_counts(column)
    assert token_counts(column.take([1])).tolist() == [1]


def test_values_in_some_lines() -> None:
    """Only these lines change; without any, the column is the same object; the buffer holds no other lines."""
    column = Column.of(["a", None, "  c ", "x" * 10_000]).take([0, 1, 2])
    assert with_values(column, np.array([], np.int64), NO_OTHERS) is column
    changed = with_values(column, np.array([0]), Column.of(["new"]))
    assert changed.to_arrow().to_pylist() == ["new", None, "  c "]
    assert len(changed.data) < 100


def test_word_types_work_after_an_error() -> None:
    """A word whose choices cannot be computed is an error each time; later, other words and known words have theirs."""

    def choices(words: list[str]) -> list[Choices]:
        if "bad" in words:
            raise ValueError("bad")
        return [Choices((word.upper(), word[::-1]), ((0, 1),), (1.0,)) for word in words]

    types = WordTypes(choices)
    for values in (["low new"], ["new bad"], ["", "new  low est"], ["bad"], ["est"]):
        column = Column.of(values)
        if "bad" in values[0]:
            with pytest.raises(ValueError, match="bad"):
                types.find(column)
            continue
        words = types.find(column)
        drawn = words.drawn(np.arange(len(values), dtype=np.uint64))
        assert words.written(drawn, side=1).strings() == [
            " ".join(value.split()).upper() for value in values
        ]
