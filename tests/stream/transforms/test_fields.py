"""Functions of columns and of strings change fields like a function of each value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import StreamError
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import describe_missing, map_columns, map_strings
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.transform import LineFault

VALUE = st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]), max_size=6)
ROWS = st.lists(st.lists(VALUE, min_size=1, max_size=4), max_size=8)


def changed(value):
    """Empty some values, and double others."""
    return "" if len(value) % 3 == 2 else value.upper() + value


@given(ROWS, st.sampled_from([None, (1,), (2,), (1, 2), (3, 1)]))
def test_chosen_fields_change(rows, fields):
    """map_strings changes the chosen fields, by default the sides that a line has; lines that lack
    a chosen field are unfit."""
    batch = Batch.of(["\t".join(row) for row in rows])
    last = max(fields or (0,))
    short = {i: describe_missing(len(row), last) for i, row in enumerate(rows) if len(row) < last}
    if short:
        with pytest.raises(LineFault) as fault:
            map_strings(batch, lambda values: list(map(changed, values)), fields=fields)
        assert fault.value.reasons == short
        return

    result = map_strings(batch, lambda values: list(map(changed, values)), fields=fields)
    expected = []
    for row in rows:
        values = enumerate(row, 1)
        expected.append([changed(each) if k in (fields or (1, 2)) else each for k, each in values])
    assert result.rows == expected
    assert result.origins.tolist() == list(range(len(rows)))


def test_functions_return_a_value_for_each():
    """map_columns passes no missing value to its function, and refuses a result with fewer values."""
    with pytest.raises(StreamError, match="a function returned 1 values for 2"):
        map_columns(Batch.of(["a", "b"]), lambda column: column.take([0]), fields=(1,))
    doubled = map_columns(
        Batch.of(["a", "b\tc"]), lambda column: Column.of([2 * value for value in column.strings()])
    )
    assert doubled.lines == ["aa", "bb\tcc"]
