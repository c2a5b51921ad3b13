"""`documents` joins lines of one document within limits, and loses none."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from stream.transforms.support import FIELD

from volt.stream.transforms.column import Column
from volt.stream.transforms.documents import Documents
from volt.stream.transforms.line_batch import Batch, LineRng

RNG = LineRng(3, 4)


def naive_starts(rows, limits, joins, max_lines):
    """Return where documents start: each field must stay within the limit of the document's first line."""
    starts = []
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
    """Documents joins the same lines as a naive version, within its limits, and takes fields that
    it does not join from the first line."""
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
    expected = []
    for start, end in pairwise([*starts, len(rows)]):
        joined = [between.join(row[field] for row in rows[start:end]) for field in (0, 1)]
        expected.append([*joined, *rows[start][2:]])
    assert result.rows == expected
    assert result.origins.tolist() == batch.origins[np.array(starts, np.int64)].tolist()


def test_documents_of_ids():
    """Documents without a separator joins ids to ids; with a separator, the ids become text."""
    ids = Column.of_ids(np.array([10, 11, 12, 13], np.int32), np.array([0, 2, 2, 3, 4]))
    batch = Batch((ids, Column.of(["x", "x", "x", "y"])), None, np.arange(4))
    result = Documents(id_field=2, fields=(1,), separator="")(batch, RNG)
    assert (result.columns[0].is_ids, result.lines) == (True, ["10 11 12\tx", "13\ty"])
    text = Documents(id_field=2, fields=(1,), separator="|", max_tokens=2)(batch, RNG)
    assert (text.columns[0].is_ids, text.lines) == (False, ["10 11 | \tx", "12\tx", "13\ty"])
