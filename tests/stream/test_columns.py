"""Fields changed as one text are what fields changed one by one are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import StreamError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.transform import LineFault
from volt.stream.transforms.columns import map_text
from volt.stream.transforms.fields import Fields, map_fields

VALUE = st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]), max_size=6)
LINES = st.lists(st.lists(VALUE, min_size=1, max_size=4).map("\t".join), max_size=8)


@given(LINES, st.sampled_from([None, (1,), (2,), (1, 2), (3, 1)]))
def test_fields_are_those_of_map_fields(lines: list[str], fields: Fields | None) -> None:
    """The same lines and origins, for texts that grow, shrink or vanish; the same lines lack a field."""

    def changed(value: str) -> str:
        return "" if len(value) % 3 == 2 else value.upper() + value

    def whole(text: bytes) -> bytes:
        return "".join(f"{changed(value)}\n" for value in text.decode().split("\n")[:-1]).encode()

    batch = Batch.of(lines)
    one_by_one = partial(map_fields, batch, lambda values: list(map(changed, values)), fields=fields)
    assert outcome(one_by_one) == outcome(partial(map_text, batch, whole, fields=fields))


def outcome(call: Callable[[], Batch]) -> object:
    """Lines and origins, or what is unfit."""
    try:
        done = call()
    except LineFault as fault:
        return fault.reasons
    return done.lines, done.origins.tolist()


def test_lines_are_not_mixed_up() -> None:
    """A line end inside a line is that line's fault, and a function that loses lines is an error."""
    with pytest.raises(LineFault) as found:
        map_text(Batch.of(["a", "b\nc"]), bytes.upper)
    assert found.value.reasons == {1: "holds a line end"}
    with pytest.raises(StreamError, match="1 fields were made from 2"):
        map_text(Batch.of(["a", "b"]), lambda text: b"a\n")
