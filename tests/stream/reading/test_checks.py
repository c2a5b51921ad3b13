"""Checks of lines before any transform, against their definition, line by line."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from volt.stream.reading.source_definition import Checks
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch

LINES = st.lists(st.text(st.sampled_from("ab\t\t \u00a0é😀"), max_size=12), max_size=8)
LIMIT = st.one_of(st.none(), st.integers(1, 4))


def naive(checks: Checks, line: str) -> str | None:
    """What is wrong with a line: the first of the reasons."""
    n_fields = line.count("\t") + 1
    if n_fields < checks.min_fields:
        return f"columns: {n_fields} fields, needs at least {checks.min_fields}"
    if checks.max_fields is not None and n_fields > checks.max_fields:
        return f"columns: {n_fields} fields, allows {checks.max_fields}"
    if checks.max_chars is not None and len(line) > checks.max_chars:
        return f"too long: {len(line)} characters, allows {checks.max_chars}"
    return None if checks.blank or line.strip() else "blank: no text"


@given(LINES, st.integers(0, 4), LIMIT, LIMIT, st.booleans(), st.integers(0, 3))
def test_reasons(
    lines: list[str], least: int, more: int | None, max_chars: int | None, blank: bool, n_cut: int
) -> None:
    """The unfit lines, in order, with their reasons, however far the lines have been cut."""
    max_fields = None if more is None else max(1, least) + more - 1
    checks = Checks(min_fields=least, max_fields=max_fields, max_chars=max_chars, blank=blank)
    message = checks.reasons(Batch.of(lines).split(n_cut))
    assert list(message.items()) == [
        (i, naive(checks, line)) for i, line in enumerate(lines) if naive(checks, line)
    ]


def test_lines_without_any_field_are_empty_lines() -> None:
    """A line that has no field reads as an empty line, and is checked as one."""
    batch = Batch((Column.of([None, "a"]),), None, np.arange(2))
    assert Checks(min_fields=2, max_chars=0).reasons(batch) == {
        0: "columns: 1 fields, needs at least 2",
        1: "columns: 1 fields, needs at least 2",
    }
    assert Checks(max_chars=0, blank=False).reasons(batch) == {
        0: "blank: no text",
        1: "too long: 1 characters, allows 0",
    }
