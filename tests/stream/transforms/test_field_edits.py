"""Transforms that append, copy, select and repeat fields: what they do, and that nothing else changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream.transforms.support import CUTS, LINES, RAGGED, apply
from support.configurations import parse_config

from volt.errors import ConfigError
from volt.stream.transforms.case import Lower
from volt.stream.transforms.documents import Repeat
from volt.stream.transforms.field_edits import Append, Copy, DuplicateMono, KeepFields, Multiply
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import LineFault

RNG = LineRng(1, 2)


@given(RAGGED, CUTS, st.integers(1, 6), st.integers(2, 6))
def test_fields_move_like_items_of_lists(rows, n_split, n, to):
    """Append, Tag, Multiply, Copy and KeepFields change fields like items of Python lists, whether
    or not the batch is split."""
    batch = Batch.of(["\t".join(row) for row in rows]).split(n_split)
    naive = {
        Append(text="new"): lambda row: [*row, "new"],
        Tag(text="<t>"): lambda row: [f"<t> {row[0]}", *row[1:]],
        Multiply(n=n): lambda row: [row[0]] * n + row[n:],
        Copy(to=to): lambda row: [*(row + [""] * to)[: to - 1], row[0], *row[to:]],
        KeepFields(fields=(1,)): lambda row: row[:1],
    }
    for transform, function in naive.items():
        result = transform(batch, RNG)
        expected = list(map(function, rows))
        assert result.rows == expected
        assert result.n_fields.tolist() == list(map(len, expected))
        assert Append(text="z")(result, RNG).rows == [[*row, "z"] for row in expected]


def test_moving_fields_copies_no_text():
    """KeepFields, Copy, Multiply and Repeat return views of the same buffer."""
    batch = Batch.of(["a\tb", "c\td"]).split(2)
    for transform in (KeepFields(fields=(2, 1)), Copy(), Multiply(n=3), Repeat(n=2)):
        columns = transform(batch, RNG).columns
        assert all(column.data is batch.columns[0].data for column in columns)


@given(LINES)
def test_a_monolingual_line_gets_two_sides(values):
    """DuplicateMono makes field 1 also field 2, without a copy."""
    result = DuplicateMono()(Batch.of(values), RNG)
    assert result.lines == [f"{value}\t{value}" for value in values]
    assert result.columns[0] is result.columns[1]


def test_lines_without_a_named_field_are_unfit():
    """A transform reports a line that lacks a field in its options as unfit, with the missing field
    and the line's number of fields."""
    unfit = (
        Lower(fields=(1, 3)),
        Tag(text="x", fields=(3,)),
        Copy(from_=3, to=1),
        KeepFields(fields=(3,)),
    )
    for transform in unfit:
        with pytest.raises(LineFault) as fault:
            apply(transform, [["a", "b", "c"], ["a"], ["a", "b", "c"]])
        assert list(fault.value.reasons) == [1]
        assert "field 3 is missing: the line has 1 field" in fault.value.reasons[1]


def test_transforms_without_options_accept_none():
    """A configuration that gives an option to a transform without options is refused as an unknown
    key."""
    message = r"^stream.yaml:1: .*duplicate_mono.5: unknown key; no key is allowed; remove it"
    with pytest.raises(ConfigError, match=message):
        parse_config("{sources: {a: {path: a, transforms: [duplicate_mono: 5]}}}")
