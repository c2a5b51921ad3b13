"""Filters: which lines pass, by definitions written out in full; what passes is unchanged."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.transform import LineFault, Transform
from volt.stream.transforms.filters import Bitext, Length, Match, Ratio, Regex, SkipBlank

FIELD = st.text(st.sampled_from("ab1 \u00a0\u3000é中x"), max_size=8)
ROWS = st.lists(st.lists(FIELD, min_size=2, max_size=3), max_size=10)
URL = r"\bhttps?:\S+[a-z]\b"


def kept(transform: Transform, rows: list[list[str]]) -> list[int]:
    """The indices of the rows that pass; asserts that they pass unchanged."""
    batch = Batch.of(["\t".join(row) for row in rows])
    done = transform(batch, np.random.default_rng(0))
    assert done.lines == [batch.lines[index] for index in done.origins.tolist()]
    return done.origins.tolist()


def where(rows: list[list[str]], wanted: object) -> list[int]:
    """The indices of rows for which a definition holds."""
    return [index for index, row in enumerate(rows) if wanted(row)]  # type: ignore[operator]


@given(ROWS)
def test_blank_and_bitext(rows: list[list[str]]) -> None:
    """skip_blank and bitext drop exactly the lines with a side of nothing but white space."""
    both = where(rows, lambda row: row[0].split() and row[1].split())
    assert kept(SkipBlank(), rows) == both
    assert kept(Bitext(), rows) == both
    assert kept(SkipBlank(fields=(3,)), rows) == where(rows, lambda row: len(row) > 2 and row[2].split())


def test_blank_takes_lines_of_one_field_as_they_are_and_bitext_does_not() -> None:
    """A line of one field passes skip_blank by default; bitext needs two; `only` drops the other fields."""
    rows = [["a"], ["a", ""], ["", "b"], ["a", "b", "c"]]
    assert kept(SkipBlank(), rows) == [0, 3]
    assert kept(SkipBlank(fields=(1, 2)), rows) == [3]
    assert kept(Bitext(), rows) == [3]
    done = Bitext(only=True)(Batch.of(["a\tb\tc", "a"]), np.random.default_rng(0))
    assert (done.lines, done.origins.tolist()) == (["a\tb"], [0])


@given(ROWS, st.booleans())
def test_match_compares_multisets(rows: list[list[str]], invert: bool) -> None:
    """match keeps lines whose sides have equal multisets of whole matches, whatever the pattern's groups."""
    for pattern in ("a|b", "(a)(b)?", "1+"):
        same = where(
            rows,
            lambda row, found=re.compile(pattern): (
                (Counter(m[0] for m in found.finditer(row[0])) == Counter(m[0] for m in found.finditer(row[1])))
                is not invert
            ),
        )
        assert kept(Match(pattern=pattern, invert=invert), rows) == same


def test_match_is_the_url_filter() -> None:
    """The pattern of Section 6.3: order does not matter, number does."""
    one, two = "http://a.de", "https://b.com"
    rows = [[f"x {one} {two}", f"{two} y {one}"], [one, f"{one} {one}"], ["x", "y"], [one, "y"], [one, two]]
    assert kept(Match(pattern=URL), rows) == [0, 2]
    assert kept(Match(pattern=URL, invert=True), rows) == [1, 3, 4]


@given(ROWS)
def test_regex_drops_any_and_inverted_needs_all(rows: list[list[str]]) -> None:
    """regex drops lines with the pattern in any field; inverted it keeps those with it in all."""
    assert kept(Regex(pattern="[a1]"), rows) == where(rows, lambda row: not set("a1") & set(row[0] + row[1]))
    inverted = where(rows, lambda row: set("a1") & set(row[0]) and set("a1") & set(row[1]))
    assert kept(Regex(pattern="[a1]", invert=True), rows) == inverted
    assert kept(Regex(pattern="b", fields=(2,)), rows) == where(rows, lambda row: "b" not in row[1])


@given(ROWS, st.integers(0, 3), st.integers(3, 8))
def test_length_and_ratio(rows: list[list[str]], low: int, high: int) -> None:
    """length and ratio keep exactly what their definitions allow, in words, characters and bytes."""
    units = {"words": lambda text: len(text.split()), "characters": len, "bytes": lambda text: len(text.encode())}
    for unit, measure in units.items():
        fits = where(rows, lambda row, measure=measure: all(low <= measure(value) <= high for value in row[:2]))
        assert kept(Length(min=low, max=high, unit=unit), rows) == fits  # type: ignore[arg-type]
        near = where(
            rows,
            lambda row, measure=measure: (
                measure(row[0]) <= 2 * measure(row[1]) and measure(row[1]) <= 2 * measure(row[0])
            ),
        )
        assert kept(Ratio(max=2.0, unit=unit), rows) == near  # type: ignore[arg-type]


def test_missing_fields_are_faults() -> None:
    """A named field that a line lacks makes the line unfit, except where a filter is about that."""
    for transform in (Match(pattern="a"), Regex(pattern="a", fields=(2,)), Ratio(max=2), Length(max=3, fields=(2,))):
        with pytest.raises(LineFault, match="field 2 is missing"):
            kept(transform, [["a", "b"], ["c"]])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Match(pattern="("),
        lambda: Regex(pattern="*"),
        lambda: Match(pattern="a", fields=(1,)),
        lambda: Match(pattern="a", fields=(1, 2, 3)),
        lambda: Bitext(fields=(1,)),
        lambda: Length(min=-1),
        lambda: Length(min=3, max=2),
        lambda: Ratio(max=0.5),
        lambda: Ratio(max=float("inf")),
        lambda: Ratio(max=float("nan")),
        lambda: SkipBlank(fields=(1, 1)),
    ],
)
def test_options_out_of_range_are_refused(make: object) -> None:
    """A filter that nothing or everything could pass, or a pattern that is none, is a ConfigError when it is made."""
    with pytest.raises(ConfigError):
        make()  # type: ignore[operator]
