"""`documents` joins lines of one document within limits, and loses none."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from stream.transforms.support import FIELD, apply

from volt.stream.transforms.column import Column
from volt.stream.transforms.documents import Documents
from volt.stream.transforms.line_batch import Batch, LineRng

RNG = LineRng(3, 4)


def naive_starts(rows, limits, joins, max_lines):
    """Return where documents start: each field must stay within the limit of the document's first line."""
    starts = list[int]()
    for number, row in enumerate(rows):
        first = starts[-1] if starts else number
        if first < number and joins[first] and row[2] == rows[first][2] != "":
            document = rows[first : number + 1]
            n_tokens = [sum(len(line[field].split()) for line in document) for field in (0, 1)]
            if max(n_tokens) <= limits[first] and (max_lines is None or len(document) <= max_lines):
                continue
        starts.append(number)
    return starts


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a b", "", "\u3000é", "c"]),
            FIELD,
            st.sampled_from(["", "x", "xy", "é"]),
        ),
        max_size=20,
    ),
    st.sampled_from(["", "<sep>"]),
    st.none() | st.integers(1, 4),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
)
def test_documents_follow_their_definition(
    inputs,
    separator,
    max_lines,
    probability,
    sample_length,
):
    """Documents start as in the naive version, join two fields, and take other fields from their first line."""
    lines = ["\t".join([*row, "rest", str(k)]) for k, row in enumerate(inputs)]
    batch = Batch.of(lines).take(np.arange(len(lines))[::-1])
    rows = batch.rows
    joins = (RNG.uniform(batch.origins) < probability).tolist()
    limits = [4] * len(rows)
    if sample_length:
        limits = RNG.at("limit").integers(batch.origins, 1, 4).tolist()
    starts = naive_starts(rows, limits, joins, max_lines)

    result = Documents(
        separator=separator,
        max_tokens=4,
        max_lines=max_lines,
        probability=probability,
        sample_length=sample_length,
    )(batch, RNG)
    between = f" {separator} " if separator else " "
    expected = list[list[str]]()
    for start, end in pairwise([*starts, len(rows)]):
        joined = [between.join(row[field] for row in rows[start:end]) for field in (0, 1)]
        expected.append([*joined, *rows[start][2:]])
    assert result.rows == expected
    assert result.origins.tolist() == batch.origins[np.array(starts, np.int64)].tolist()


def test_documents_of_ids():
    """Joined ids stay ids without a separator, and become text with one."""
    ids = Column.of_ids(np.array([10, 11, 12, 13], np.int32), np.array([0, 2, 2, 3, 4]))
    batch = Batch((ids, Column.of(["x", "x", "x", "y"])), None, np.arange(4))
    result = Documents(id_field=2, fields=(1,), separator="")(batch, RNG)
    assert (result.columns[0].is_ids, result.lines) == (True, ["10 11 12\tx", "13\ty"])
    text = Documents(id_field=2, fields=(1,), separator="|", max_tokens=2)(batch, RNG)
    assert (text.columns[0].is_ids, text.lines) == (False, ["10 11 | \tx", "12\tx", "13\ty"])


def test_documents_are_as_long_as_limits_allow():
    """With probability 1, a document takes all lines that fit; with 0, each line stays alone."""
    ids = ["1"] * 5 + ["2"] * 2 + [""] * 2
    rows = [["a", "b", name] for name in ids]
    batch = Batch.of(["\t".join(row) for row in rows])
    assert Documents(max_lines=3)(batch, RNG).origins.tolist() == [0, 3, 5, 7, 8]
    assert Documents(probability=0.0)(batch, RNG).lines == batch.lines
    joined = apply(Documents(separator="", fields=(1,)), [["a", "b", "1"], ["c", "d", "1"]])
    assert joined == [["a c", "b", "1"]]
