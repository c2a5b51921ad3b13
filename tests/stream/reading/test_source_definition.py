"""`Source` and `Checks`: declarations are checked, and unfit lines reported with the reason."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import ArgumentError, ConfigError
from volt.stream import Checks, Schedule, Source
from volt.stream.reading.source_definition import check_names
from volt.stream.transforms.column import Column
from volt.stream.transforms.documents import Repeat
from volt.stream.transforms.filters import Length
from volt.stream.transforms.line_batch import Batch

LINES = st.lists(st.text(st.sampled_from("ab\t\t \u00a0é😀"), max_size=12), max_size=8)


LIMIT = st.one_of(st.none(), st.integers(1, 4))


def find_first_fault(checks, line):
    """Return the first fault of a line, computed without columns."""
    n_fields = line.count("\t") + 1
    if n_fields < checks.min_fields:
        return f"columns: {n_fields} fields, needs at least {checks.min_fields}"
    if checks.max_fields is not None and n_fields > checks.max_fields:
        return f"columns: {n_fields} fields, allows {checks.max_fields}"
    if checks.max_chars is not None and len(line) > checks.max_chars:
        return f"too long: {len(line)} characters, allows {checks.max_chars}"
    return None if checks.blank or line.strip() else "blank: no text"


@given(LINES, st.integers(0, 4), LIMIT, LIMIT, st.booleans(), st.integers(0, 3))
def test_checks_report_unfit_lines(lines, least, more, max_chars, blank, n_cut):
    """Checks.reasons reports unfit lines in order, whether or not the lines are split into
    fields."""
    max_fields = None if more is None else max(1, least) + more - 1
    checks = Checks(min_fields=least, max_fields=max_fields, max_chars=max_chars, blank=blank)
    message = checks.reasons(Batch.of(lines).split(n_cut))
    assert list(message.items()) == [
        (i, find_first_fault(checks, line))
        for i, line in enumerate(lines)
        if find_first_fault(checks, line)
    ]


def test_lines_without_fields_are_checked_as_empty_lines():
    """Checks.reasons treats a line that has no field as an empty line."""
    batch = Batch((Column.of([None, "a"]),), None, np.arange(2))
    assert Checks(min_fields=2, max_chars=0).reasons(batch) == {
        0: "columns: 1 fields, needs at least 2",
        1: "columns: 1 fields, needs at least 2",
    }
    assert Checks(max_chars=0, blank=False).reasons(batch) == {
        0: "blank: no text",
        1: "too long: 1 characters, allows 0",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_lines": 0}, "block_lines=0 must be at least 1"),
        ({"block_bytes": 0}, "block_bytes=0 must"),
        ({"split_lines": 0}, "split_lines=0 must"),
        ({"epochs": 0}, "epochs=0 must"),
        ({"block_lines": None}, "block_lines is None"),
        ({"block_bytes": None}, "block_bytes is None"),
        ({"shuffle": "all"}, "shuffle='all': choose lines, outputs or none"),
        ({"paths": ()}, "paths is empty; give"),
        ({"paths": "a"}, "paths is 'a'.*give a tuple of one path"),
        ({"paths": (3,)}, r"paths\[0\] is 3"),
        ({"transforms": (Length,)}, r"transforms\[0\] is .*give a tuple of transforms"),
        ({"name": 3}, "name is 3"),
        ({"transforms": Length()}, r"transforms is .*give a tuple of transforms"),
        ({"name": ["a"]}, "did you mean Source"),
        (
            {"transforms": (Length(), Repeat(101), Repeat(100))},
            "into more than 10,000 lines; remove or lower",
        ),
        ({"names": ("x", "y")}, "2 names and 1 paths; give one file"),
        ({"names": ("x", "y"), "keys": ("x",)}, "2 names and 1 keys"),
        ({"keys": ("x",)}, "0 names and 1 keys"),
        ({"weight": -1.0}, "source 'a': weight"),
        ({"checks": 1}, "give"),
        ({"weight": Schedule(((0, 0.0), (9, 0.0)))}, "every weight of its schedule is 0"),
        ({"max_line": -1}, "max_line"),
        ({"weight": float("nan")}, "source 'a': weight"),
    ],
)
def test_invalid_options_of_sources_are_refused(options, message):
    """Source refuses each invalid option with a remedy."""
    with pytest.raises((ConfigError, ArgumentError), match=message):
        Source(**{"name": "a", "paths": ("a",), **options})


def test_options_of_sources_at_their_limits_are_accepted():
    """Source accepts the smallest and largest values, and lists in place of tuples; repr counts
    paths and transforms."""
    least = Source("a", ["a"], block_lines=1, block_bytes=1, split_lines=1, epochs=1, max_line=1)
    most = Source(
        "a",
        ("a", "b"),
        Schedule(((0, 0.0), (9, 1.0))),
        [Repeat(100), Repeat(100)],
        names=("x", "y"),
    )
    assert (least.paths, most.transforms) == (("a",), (Repeat(100), Repeat(100)))
    assert repr(most) == "<Source 'a': 2 paths, a schedule of weights, 2 transforms>"
    assert repr(replace(least, weight=0.25)) == "<Source 'a': 1 path, weight 0.25, 0 transforms>"
    assert Source(
        "a", ("a",), names=("x",), keys=("y",), split_lines=None, epochs=None, max_line=None
    ).keys == ("y",)
    for wrong in ([], ["a", "a"]):
        with pytest.raises(
            ConfigError, match=r"a stream needs one or more sources, with distinct names"
        ):
            check_names(wrong)
    check_names(["a"])
    assert [
        Checks(**one).any for one in ({}, {"blank": False}, {"min_fields": 1}, {"max_chars": 0})
    ] == [False] + [True] * 3
    for wrong_checks in (
        {"min_fields": -1},
        {"max_fields": 0},
        {"max_chars": -1},
        {"min_fields": 3, "max_fields": 2},
    ):
        with pytest.raises(ConfigError):
            Checks(**wrong_checks)
    Checks(min_fields=2, max_fields=2)
