"""Laws of columns as bytes: values one after the other, wherever they lie, and copied only where they have to be."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from volt.stream.transforms.column import Column, concatenated
from volt.stream.transforms.line_batch import Batch, joined

texts = st.text("aé\t ", max_size=4)
columns = st.one_of(
    st.lists(texts).map(lambda lines: Column.cut("".join(f"{line}\n" for line in lines).encode())),
    st.lists(st.none() | texts | st.just("a\nb")).map(Column.of),
)


def values_of(column: Column) -> list[bytes]:
    """Each value by itself; a missing one is empty."""
    spans = zip(column.starts.tolist(), np.maximum(column.sizes, 0).tolist(), strict=True)
    return [column.data[start : start + size].tobytes() for start, size in spans]


@given(columns, columns, st.data(), st.sampled_from([0x0A, 0]))
def test_values_are_packed_one_after_the_other(
    one: Column, two: Column, data: st.DataObject, end: int
) -> None:
    """However a column was made and cut, its bytes are its values, each with a byte behind it, and it knows where."""
    column = concatenated([one, two])
    low = data.draw(st.integers(0, len(column)))
    chosen = st.lists(st.integers(0, max(len(column) - 1, 0)), max_size=2 * len(column))
    taken = column.take(data.draw(st.just(list(range(low, len(column)))) | chosen))
    packed, ends = taken.packed(end=end)
    wanted = [value + bytes([end]) for value in values_of(taken)]
    assert packed.tobytes() == b"".join(wanted)
    assert ends.tolist() == np.cumsum([len(value) for value in wanted], dtype=int).tolist()


def test_a_text_that_was_cut_is_not_copied() -> None:
    """Lines that lie in a text as they are to be written are the text's own bytes; compact ones are a copy."""
    column = Column.cut(b"a\nbc\n\nd\n").take([1, 2])
    packed, _ = column.packed()
    assert np.shares_memory(packed, column.data)
    assert packed.tobytes() == b"bc\n\n"
    assert not np.shares_memory(column.compact().data, column.data)
    assert not np.shares_memory(column.take([1, 0]).packed()[0], column.data)


def test_one_batch_is_joined_without_a_copy() -> None:
    """A block that is one piece stays the piece."""
    batch = Batch.of(["a", "b"])
    assert joined([batch]) is batch
