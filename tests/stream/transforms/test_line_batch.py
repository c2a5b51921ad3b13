"""`Batch`: lines as columns, joined, selected and converted."""

from __future__ import annotations

import pytest

from volt.errors import StreamError
from volt.stream.transforms.line_batch import Batch, concatenate_batches


def test_batches_are_joined_in_order():
    """Lines that are split into other numbers of fields can be joined; one batch stays the same object."""
    assert concatenate_batches([Batch.of(["a"]), Batch.of(["b\tc"]).split(2)]).lines == [
        "a",
        "b\tc",
    ]
    assert len(concatenate_batches([])) == 0
    batch = Batch.of(["a", "b"])
    assert concatenate_batches([batch]) is batch


def test_lines_are_selected_by_a_function():
    """`keep` drops lines for which the function is false, with their origins."""
    assert Batch.of(["a", "", "c"]).keep(bool).origins.tolist() == [0, 2]


def test_new_lines_must_be_as_many():
    """Another number of lines is an error that names the remedy."""
    message = r"1 lines were made from 2; first drop or repeat lines with take\(\)"
    with pytest.raises(StreamError, match=message):
        Batch.of(["a", "b"]).with_lines(["a"])
