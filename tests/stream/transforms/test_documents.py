"""documents: lines of one document joined, within limits, and none lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rows import FIELD, apply

from volt.stream.transforms.column import Column
from volt.stream.transforms.documents import Documents
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng


def naive_starts(
    rows: list[list[str]], limits: list[int], joins: list[bool], max_lines: int | None
) -> list[int]:
    """Where documents start, line by line: both fields within the limit of the document's first line."""
    starts = list[int]()
    for number, row in enumerate(rows):
        if starts and joins[first := starts[-1]] and row[2] == rows[first][2] != "":
            totals = [
                sum(len(rows[k][field].split()) for k in range(first, number + 1))
                for field in (0, 1)
            ]
            if max(totals) <= limits[first] and (max_lines is None or number - first < max_lines):
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
    st.one_of(st.none(), st.integers(1, 4)),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
)
def test_documents_are_those_of_their_definition(
    message: list[tuple[str, str, str]],
    separator: str,
    max_lines: int | None,
    probability: float,
    sample: bool,
) -> None:
    """Starts, joined fields, and the other fields of the first line, by what their own chances say; in any order."""
    batch = Batch.of(["\t".join([*row, "rest", str(k)]) for k, row in enumerate(message)]).take(
        np.arange(len(message))[::-1]
    )
    chance, rows = LineRng(3, 4), batch.rows
    joins = (chance.uniform(batch.origins) < probability).tolist()
    limits = (
        chance.at("limit").integers(batch.origins, 1, 4).tolist() if sample else [4] * len(rows)
    )
    starts = naive_starts(rows, limits, joins, max_lines)
    done = Documents(
        separator=separator,
        max_tokens=4,
        max_lines=max_lines,
        probability=probability,
        sample_length=sample,
    )(batch, chance)
    between = f" {separator} " if separator else " "
    groups = [rows[start:end] for start, end in pairwise([*starts, len(rows)])]
    assert done.rows == [
        [*(between.join(row[k] for row in group) for k in (0, 1)), *group[0][2:]]
        for group in groups
    ]
    assert done.origins.tolist() == batch.origins[np.array(starts, np.int64)].tolist()


def test_documents_of_ids() -> None:
    """Ids are counted and stay ids where nothing stands between them; a separator makes them text."""
    ids = Column.of_ids(np.array([10, 11, 12, 13], np.int32), np.array([0, 2, 2, 3, 4]))
    batch = Batch((ids, Column.of(["x", "x", "x", "y"])), None, np.arange(4))
    done = Documents(id_field=2, fields=(1,), separator="")(batch, LineRng(0, 0))
    assert (done.columns[0].is_ids, done.lines) == (True, ["10 11 12\tx", "13\ty"])
    text = Documents(id_field=2, fields=(1,), separator="|", max_tokens=2)(batch, LineRng(0, 0))
    assert (text.columns[0].is_ids, text.lines) == (False, ["10 11 | \tx", "12\tx", "13\ty"])


DOCUMENTS = st.lists(st.tuples(st.sampled_from(["", "x", "y"]), st.integers(0, 3)), max_size=20)


def document_rows(message: list[tuple[str, int]]) -> list[list[str]]:
    """Rows with numbered words and a document id."""
    return [
        [" ".join([f"s{index}"] * n), " ".join([f"t{index}"] * (4 - n)), name]
        for index, (name, n) in enumerate(message)
    ]


@given(
    DOCUMENTS,
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(1, 4)),
    st.booleans(),
    st.integers(0, 99),
)
def test_documents_lose_nothing_and_keep_their_limits(
    message: list[tuple[str, int]], max_tokens: int, max_lines: int | None, sample: bool, seed: int
) -> None:
    """Split at the separator, documents are the lines in order; each has one id and keeps to both limits."""
    rows = document_rows(message)
    transform = Documents(
        separator="|",
        max_tokens=max_tokens,
        max_lines=max_lines,
        probability=0.7,
        sample_length=sample,
    )
    batch = Batch.of(["\t".join(row) for row in rows])
    done = transform(batch, LineRng(seed, 0))
    documents = [line.split("\t") for line in done.lines]
    assert [part.strip() for row in documents for part in row[0].split("|")] == [
        row[0] for row in rows
    ]
    assert [part.strip() for row in documents for part in row[1].split("|")] == [
        row[1] for row in rows
    ]
    bounds = [*done.origins.tolist(), len(rows)]
    for row, first, last in zip(documents, bounds, bounds[1:], strict=False):
        assert {rows[index][2] for index in range(first, last)} == {row[2]}
        if last - first > 1:
            assert row[2] != ""
            assert max_lines is None or last - first <= max_lines
            assert all(len(field.replace("|", " ").split()) <= max_tokens for field in row[:2])


def test_documents_are_as_long_as_limits_allow() -> None:
    """With probability 1 every document takes all lines that fit: a naive grouping gives the same."""
    rows = document_rows([("x", 1)] * 5 + [("y", 1)] * 2 + [("", 1)] * 2)
    starts = Documents(max_tokens=250, max_lines=3)(
        Batch.of(["\t".join(row) for row in rows]), LineRng(0, 0)
    )
    assert starts.origins.tolist() == [0, 3, 5, 7, 8]
    alone = Documents(probability=0.0)(Batch.of(["\t".join(row) for row in rows]), LineRng(0, 0))
    assert alone.lines == ["\t".join(row) for row in rows]
    assert apply(Documents(separator="", fields=(1,)), [["a", "b", "1"], ["c", "d", "1"]]) == [
        ["a c", "b", "1"]
    ]
