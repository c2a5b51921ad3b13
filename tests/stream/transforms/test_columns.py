"""Fields changed as columns are what fields changed one by one are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import StreamError
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import map_columns, map_strings, missing
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.options import Fields
from volt.stream.transforms.transform import LineFault

VALUE = st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]), max_size=6)
LINES = st.lists(st.lists(VALUE, min_size=1, max_size=4).map("\t".join), max_size=8)


@given(LINES, st.sampled_from([None, (1,), (2,), (1, 2), (3, 1)]))
def test_fields_are_changed_one_by_one(lines: list[str], fields: Fields | None) -> None:
    """The same lines and origins, for texts that grow, shrink or vanish; lines that lack a field are unfit."""

    def changed(value: str) -> str:
        return "" if len(value) % 3 == 2 else value.upper() + value

    rows = [line.split("\t") for line in lines]
    short = {
        i: missing(len(row), max(fields))
        for i, row in enumerate(rows)
        if fields and len(row) < max(fields)
    }
    batch = Batch.of(lines)
    if short:
        with pytest.raises(LineFault) as fault:
            map_strings(batch, lambda values: list(map(changed, values)), fields=fields)
        assert fault.value.reasons == short
        return
    done = map_strings(batch, lambda values: list(map(changed, values)), fields=fields)
    chosen = fields or (1, 2)
    expected = [
        [changed(value) if k in chosen else value for k, value in enumerate(row, 1)] for row in rows
    ]
    assert (done.lines, done.origins.tolist()) == (
        ["\t".join(row) for row in expected],
        list(range(len(lines))),
    )


def test_a_function_that_loses_values_is_an_error() -> None:
    """Lines are not mixed up: as many values must be made as there are, of those that are not missing."""
    with pytest.raises(StreamError, match="a function returned 1 values for 2"):
        map_columns(Batch.of(["a", "b"]), lambda column: column.take([0]), fields=(1,))
    doubled = map_columns(
        Batch.of(["a", "b\tc"]), lambda column: Column.of([2 * value for value in column.strings()])
    )
    assert doubled.lines == ["aa", "bb\tcc"]
