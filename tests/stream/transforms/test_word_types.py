"""Columns are split into tokens and written from them as plain Python does; word types have their choices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream.transforms.support import ID_LINES, LINES, id_batch, ids_of, tokens_of

from volt.stream.transforms import word_types
from volt.stream.transforms.column import Column
from volt.stream.transforms.word_types import (
    NO_TEXTS,
    Choices,
    WordTypes,
    count_tokens,
    join_tokens,
    replace_values,
    split_tokens,
)

OTHERS = st.lists(st.text("xyé", min_size=1), min_size=1, max_size=3)


def tokens_in(column):
    return split_tokens(column, count_tokens(column))


def write(tokens, lines, others):
    """Write lines of token indices."""
    chosen = np.array([number for line in lines for number in line], np.int64)
    return join_tokens(tokens, chosen, np.cumsum(list(map(len, lines)), dtype=np.int64), others)


@given(LINES, st.data())
def test_tokens_are_split_at_spaces(values, data):
    """split_tokens and count_tokens find the runs between spaces, in values in any order, with
    missing values."""
    order = data.draw(st.lists(st.integers(0, len(values)), max_size=8))
    column = Column.of([*values, None]).take(np.array(order, np.int64))
    rows = [tokens_of([*values, ""][number]) for number in order]
    tokens = tokens_in(column)
    assert count_tokens(column).tolist() == list(map(len, rows))
    data_ = column.data.tobytes()
    spans = zip(tokens.starts.tolist(), tokens.sizes.tolist(), strict=True)
    texts = [data_[start : start + size].decode() for start, size in spans]
    assert texts == [token for row in rows for token in row]


@given(LINES, OTHERS, st.data())
def test_values_are_written_from_tokens(values, others, data):
    """join_tokens joins tokens of the column and new tokens with one space."""
    own = [token for value in values for token in tokens_of(value)]
    numbers = st.lists(st.integers(-len(others), len(own) - 1), max_size=9)
    lines = data.draw(st.lists(numbers, max_size=5))
    result = write(tokens_in(Column.of(values)), lines, Column.of(others))
    expected = [[own[k] if k >= 0 else others[-1 - k] for k in line] for line in lines]
    assert result.strings() == list(map(" ".join, expected))


@given(ID_LINES, st.data())
def test_values_are_written_from_ids(inputs, data):
    """join_tokens joins ids of the column and new ids."""
    order = data.draw(st.permutations(range(len(inputs))))
    own = [number for k in order for number in inputs[k]]
    numbers = st.lists(st.integers(-2, len(own) - 1), max_size=9)
    lines = data.draw(st.lists(numbers, max_size=5))
    tokens = tokens_in(id_batch(inputs).column(1).take(np.array(order, np.int64)))
    result = write(tokens, lines, Column.of_ids(np.array([70, 80], np.int32), np.arange(3)))
    assert ids_of(result) == [
        [own[k] if k >= 0 else (70, 80)[-1 - k] for k in line] for line in lines
    ]


def test_tokens_are_counted_once():
    """count_tokens caches its counts in the column, and `take` selects the cached counts."""
    column = Column.of(["a b", "c"])
    assert count_tokens(column) is count_tokens(column)
    assert count_tokens(column.take([1])).tolist() == [1]


def test_new_values_replace_lines():
    """replace_values returns the same column for no lines; otherwise, the result's buffer contains
    none of the old values."""
    column = Column.of(["a", None, "  c ", "x" * 10_000]).take([0, 1, 2])
    assert replace_values(column, np.array([], np.int64), NO_TEXTS) is column
    changed = replace_values(column, np.array([0]), Column.of(["new"]))
    assert (changed.strings(), changed.sizes.tolist()) == (["new", "", "  c "], [3, -1, 4])
    assert len(changed.data) < 100


WORD = st.text(
    st.characters(exclude_characters=" \t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=9
)
WORD_LINES = st.lists(st.lists(WORD | st.just(""), max_size=6).map(" ".join), max_size=9)


@given(WORD_LINES, WORD_LINES)
def test_equal_words_have_equal_numbers(first, second):
    """WordTypes gives equal words one type number, also in later columns, and computes each type's
    choices once."""
    types = []

    def choices(words):
        types.extend(words)
        return [Choices((f"<{word}>", word), ((0, 1), (1, 0)), (0.5, 1.0)) for word in words]

    table = WordTypes(choices)
    for lines in (first, second):
        found = table.look_up(Column.of(lines))
        rows = list(map(tokens_of, lines))
        assert [types[number] for number in found.type_numbers] == [
            word for row in rows for word in row
        ]
        assert found.value_ends.tolist() == np.cumsum(list(map(len, rows)), dtype=int).tolist()
        drawn = 2 * found.type_numbers
        assert found.write_choices(drawn, side=2).strings() == list(map(" ".join, rows))
        bracketed = [" ".join(f"<{word}>" for word in row) for row in rows]
        assert found.write_choices(drawn, side=1).strings() == bracketed
    assert len(types) == len(set(types))


def reversed_words(words):
    if "bad" in words:
        raise ValueError("bad")
    return [Choices((word[::-1],), ((0, 0),), (1.0,)) for word in words]


def written_words(found):
    return found.write_choices(
        found.draw_choices(np.zeros(len(found.value_ends), np.uint64)), side=1
    ).strings()


def test_full_tables_are_enlarged_or_emptied(monkeypatch):
    """WordTypes returns the same choices when its tables are enlarged or emptied, also for columns
    looked up before."""
    monkeypatch.setattr(word_types, "_N_TYPES", 8)
    monkeypatch.setattr(word_types, "_N_BYTES", 8)
    monkeypatch.setattr(word_types, "_MOST_TYPES", 300)
    types = WordTypes(reversed_words)
    results = []
    for block in range(6):
        rows = [[f"w{block * 50 + k + j}" for j in range(9)] for k in range(60)]
        found = types.look_up(Column.of(list(map(" ".join, rows))))
        results.append((found, [" ".join(word[::-1] for word in row) for row in rows]))
    for found, expected in results:
        assert written_words(found) == expected


def test_word_types_work_after_an_error():
    """WordTypes computes the choices of other words after an error in `compute_choices`, and raises
    the error again for the same word."""
    types = WordTypes(reversed_words)
    for line in ("low new", "new bad", "new  low est", "bad", "est"):
        if "bad" in line:
            with pytest.raises(ValueError, match="bad"):
                types.look_up(Column.of([line]))
        else:
            expected = " ".join(word[::-1] for word in line.split())
            assert written_words(types.look_up(Column.of([line]))) == [expected]
