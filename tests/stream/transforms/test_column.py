"""`Column`: values in any order in a buffer, measured, packed and converted like plain Python values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import ConfigError
from volt.stream.transforms.column import Column, concatenate, find_line_ends
from volt.stream.transforms.column_measurements import (
    find_blank_values,
    find_bytes,
    measure_lengths,
)

TEXTS = st.text("aé\t ", max_size=4)
COLUMNS = st.one_of(
    st.lists(TEXTS).map(lambda lines: Column.cut("".join(f"{line}\n" for line in lines).encode())),
    st.lists(st.none() | TEXTS | st.just("a\nb")).map(Column.of),
)
IDS = Column.of_ids(np.array([7, -10, 0], np.int32), np.array([0, 0, 1, 3]))


def values_of(column):
    """Return each value; a missing one is empty."""
    ends = column.starts + np.maximum(column.sizes, 0)
    spans = zip(column.starts.tolist(), ends.tolist(), strict=True)
    return [column.data[start:end].tobytes() for start, end in spans]


@given(COLUMNS, COLUMNS, st.data(), st.sampled_from([0x0A, 0]))
def test_packed_values_are_adjacent(first, second, data, end):
    """Column.packed returns the values in order, with a byte after each, and the position after
    each such byte."""
    column = concatenate([first, second])
    low = data.draw(st.integers(0, len(column)))
    chosen = st.lists(st.integers(0, max(len(column) - 1, 0)), max_size=2 * len(column))
    column = column.take(data.draw(st.just(list(range(low, len(column)))) | chosen))
    packed, ends = column.packed(end=end)
    expected = [value + bytes([end]) for value in values_of(column)]
    assert packed.tobytes() == b"".join(expected)
    assert ends.tolist() == np.cumsum(list(map(len, expected)), dtype=int).tolist()


def test_adjacent_lines_are_not_copied():
    """Column.packed returns a view for values that are adjacent in the data, and a copy otherwise;
    `compact` always copies."""
    column = Column.cut(b"a\nbc\n\nd\n").take([1, 2])
    packed, _ = column.packed()
    assert np.shares_memory(packed, column.data)
    assert packed.tobytes() == b"bc\n\n"
    assert not np.shares_memory(column.compact().data, column.data)
    assert not np.shares_memory(column.take([1, 0]).packed()[0], column.data)


def test_a_text_among_columns_makes_all_text():
    """concatenate turns ids into numbers separated by spaces if another column is text."""
    ids = Column.of_ids(np.array([5, 6], np.int32), np.array([0, 2]))
    assert concatenate([Column.of(["a"]), ids]).strings() == ["a", "5 6"]


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 18, 40])
def test_text_is_split_into_any_number_of_lines(n):
    """find_line_ends finds all line feeds, also if there are more than its first buffer holds."""
    for line in (b"", b"a", b"a" * 40):
        text = (line + b"\n") * n
        ends = [place for place, byte in enumerate(text) if byte == 0x0A]
        assert find_line_ends(np.frombuffer(text, np.uint8)).tolist() == ends
        assert Column.cut(text).strings() == [line.decode()] * n


def test_values_have_lengths_in_each_unit():
    """measure_lengths counts words, characters and bytes: 0 for missing values, an id as a word,
    and the spaces between ids."""
    column = Column.of(["", None, " \u3000", "é 中 𐐀"])
    assert measure_lengths(column, "words").tolist() == [0, 0, 0, 3]
    assert measure_lengths(column, "characters").tolist() == [0, 0, 2, 5]
    assert measure_lengths(column, "bytes").tolist() == [0, 0, 4, 11]
    assert find_blank_values(column).tolist() == [True, True, True, False]
    assert find_bytes(column, b" 1").tolist() == [False, False, True, True]
    assert measure_lengths(IDS, "words").tolist() == [0, 1, 2]
    assert measure_lengths(IDS, "bytes").tolist() == [0, 1, 5]
    assert find_blank_values(IDS).tolist() == [True, False, False]
    assert IDS.strings() == ["", "7", "-10 0"]
    assert (repr(column), repr(IDS)) == ("<Column: 4 values of text>", "<Column: 3 values of ids>")


def test_columns_are_arrow_arrays():
    """Column.from_arrow and to_arrow preserve text, ids and missing values, also of slices and
    chunks."""
    pa = pytest.importorskip("pyarrow")
    text = pa.array(["a", None, "", "é b"])
    ids = pa.array([[1, 2], None, [], [3]], pa.list_(pa.int32()))
    chunks = pa.chunked_array([text, text.slice(2)])
    for array in (text, ids, text.slice(1, 2), ids.slice(1), chunks, text.slice(4)):
        column = Column.from_arrow(array)
        values = array.to_pylist()
        assert column.to_arrow().to_pylist() == values
        order = np.arange(len(column))[::-1]
        assert column.take(order).to_arrow().to_pylist() == values[::-1]
    assert len(Column.from_arrow(pa.chunked_array([], pa.string()))) == 0


def test_a_single_text_is_not_a_column():
    """Column.of refuses a string in place of a list of strings, with advice."""
    with pytest.raises(ConfigError, match=r"did you mean Column.of\(\[value\]\)"):
        Column.of("low")
