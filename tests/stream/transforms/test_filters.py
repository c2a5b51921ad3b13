"""Filters: which lines pass, by definitions written out in full; what passes is unchanged."""

from __future__ import annotations

import pickle
import re
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import ConfigError, StreamError
from volt.stream.transforms.column import Column
from volt.stream.transforms.filters import (
    Bitext,
    Length,
    Match,
    Ratio,
    Regex,
    SkipBlank,
    Where,
    first_bytes,
    matching,
    needed,
)
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import LineFault, Transform

FIELD = st.text(st.sampled_from("ab1 \u00a0\u3000é中x"), max_size=8)
ROWS = st.lists(st.lists(FIELD, min_size=2, max_size=3), max_size=10)
URL = r"\bhttps?:\S+[a-z]\b"


def kept(transform: Transform, rows: list[list[str]]) -> list[int]:
    """The indices of the rows that pass; asserts that they pass unchanged."""
    batch = Batch.of(["\t".join(row) for row in rows])
    done = transform(batch, LineRng(1, 2))
    assert done.lines == [batch.lines[index] for index in done.origins.tolist()]
    return done.origins.tolist()


def those(rows: list[list[str]], wanted: object) -> list[int]:
    """The indices of rows for which a definition holds."""
    return [index for index, row in enumerate(rows) if wanted(row)]  # type: ignore[operator]


@given(ROWS)
def test_blank_and_bitext(rows: list[list[str]]) -> None:
    """skip_blank and bitext drop exactly the lines with a side of nothing but white space."""
    both = those(rows, lambda row: row[0].split() and row[1].split())
    assert kept(SkipBlank(), rows) == both
    assert kept(Bitext(), rows) == both
    assert kept(SkipBlank(fields=(3,)), rows) == those(
        rows, lambda row: len(row) > 2 and row[2].split()
    )


@given(ROWS, st.booleans())
def test_match_compares_multisets(rows: list[list[str]], invert: bool) -> None:
    """match keeps lines whose sides have equal multisets of whole matches, whatever the pattern's groups."""
    for pattern in ("a|b", "(a)(b)?", "1+"):
        same = those(
            rows,
            lambda row, found=re.compile(pattern): (
                (
                    Counter(m[0] for m in found.finditer(row[0]))
                    == Counter(m[0] for m in found.finditer(row[1]))
                )
                is not invert
            ),
        )
        assert kept(Match(pattern=pattern, invert=invert), rows) == same


@given(ROWS)
def test_regex_drops_any_and_inverted_needs_all(rows: list[list[str]]) -> None:
    """regex drops lines with the pattern in any field; inverted it keeps those with it in all."""
    assert kept(Regex(pattern="[a1]"), rows) == those(
        rows, lambda row: not set("a1") & set(row[0] + row[1])
    )
    inverted = those(rows, lambda row: set("a1") & set(row[0]) and set("a1") & set(row[1]))
    assert kept(Regex(pattern="[a1]", invert=True), rows) == inverted
    assert kept(Regex(pattern="b", fields=(2,)), rows) == those(rows, lambda row: "b" not in row[1])


@given(ROWS, st.integers(0, 3), st.integers(3, 8))
def test_length_and_ratio(rows: list[list[str]], low: int, high: int) -> None:
    """length and ratio keep exactly what their definitions allow, in words, characters and bytes."""
    units = {
        "words": lambda text: len(text.split()),
        "characters": len,
        "bytes": lambda text: len(text.encode()),
    }
    for unit, measure in units.items():
        fits = those(
            rows,
            lambda row, measure=measure: all(low <= measure(value) <= high for value in row[:2]),
        )
        assert kept(Length(min=low, max=high, unit=unit), rows) == fits  # type: ignore[arg-type]
        near = those(
            rows,
            lambda row, measure=measure: (
                measure(row[0]) <= 2 * measure(row[1]) and measure(row[1]) <= 2 * measure(row[0])
            ),
        )
        assert kept(Ratio(max=2.0, unit=unit), rows) == near  # type: ignore[arg-type]


def test_limits_beyond_any_text() -> None:
    """Limits larger than 64 bits pass everything, or nothing, instead of overflowing."""
    rows = [["a", "b"], ["", ""], ["a a", ""]]
    assert kept(Length(max=10**30), rows) == kept(Length(max=10**30, min=0), rows) == [0, 1, 2]
    assert kept(Length(min=10**30), rows) == []
    assert kept(Ratio(max=10**300), rows) == [0, 1]


def test_a_second_field_need_not_be_there() -> None:
    """By default, a line of one field passes if its field does: what is not there is not searched or measured."""
    rows = [["a"], ["a", "b c"], ["", "b"], [""]]
    assert kept(Regex(pattern="^$"), rows) == [0, 1]
    assert kept(Regex(pattern="^a", invert=True), rows) == [0]
    assert kept(Length(min=1, max=1), rows) == [0]


def test_what_a_filter_gives_stays_cut() -> None:
    """The fields that it looked at are columns of the result, which is the batch itself where nothing is dropped."""
    batch = Batch.of(["a b\tc\td", "e\tf\tg"])
    for transform in (
        SkipBlank(),
        Bitext(),
        Match(pattern="x"),
        Regex(pattern="x"),
        Length(max=9),
        Ratio(max=3),
    ):
        done = transform(batch, LineRng(1, 2))
        assert (len(done.columns), done.lines) == (2, batch.lines)
        assert transform(done, LineRng(1, 2)) is done


IDS = Batch(
    (
        Column.of_ids(np.array([10, 11, 12], np.int32), np.array([0, 2, 2, 3])),
        Column.of_ids(np.array([1, 2, 3, 4], np.int32), np.array([0, 1, 1, 4])),
    ),
    None,
    np.arange(3),
)


@pytest.mark.parametrize(
    ("transform", "origins"),
    [
        (SkipBlank(), [0, 2]),
        (Bitext(fields=(2, 1)), [0, 2]),
        (Length(min=1, max=2), [0]),
        (Length(max=2, unit="characters", fields=(1,)), [1, 2]),
        (Ratio(max=2), [0, 1]),
        (Regex(pattern="11"), [1, 2]),
        (Match(pattern="1"), [1]),
        (Where(condition="f1 <> '' AND f2 LIKE '2%'"), [2]),
    ],
)
def test_fields_of_ids(transform: Transform, origins: list[int]) -> None:
    """Words are the ids; whatever looks at characters sees the numbers."""
    assert transform(IDS, LineRng(1, 2)).origins.tolist() == origins


# Patterns

SPELLED = (
    r"\x41",
    r"\101",
    r"\u0041",
    r"\U00000041",
    r"\N{LATIN CAPITAL LETTER A}",
    r"(A)\1",
)  # all match A
SIMPLE = r"a b ab 1 \. \d \W \b ^ $ . [a1] [^a] [0-9b] []b] é x{"
PATTERNS = st.recursive(
    st.sampled_from([*SIMPLE.split(), *SPELLED, " ", "\\\n"]),
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=4).map("".join),
        st.lists(parts, min_size=2, max_size=2).map("|".join),
        st.tuples(
            parts,
            st.sampled_from(
                [
                    "(?:{})",
                    "({})",
                    "(?={})",
                    "(?!{})",
                    "(?<!a{})",
                    "(?i:{})",
                    "(?#b{})",
                    "(?P<a>{})",
                ]
            ),
        ).map(lambda message: message[1].replace("{}", message[0])),
        st.tuples(
            parts, st.sampled_from(["*", "+", "?", "{2}", "{0,1}", "{,}", "+?", "*?", "++", "{}"])
        ).map("".join),
    ),
    max_leaves=6,
)


@given(st.lists(st.text(st.sampled_from("ab1Aé٣. x{}\n"), max_size=8), max_size=8), PATTERNS)
def test_patterns_are_found_where_re_finds_them(values: list[str], pattern: str) -> None:
    """Whatever text a pattern needs, and wherever that is looked for first, re.search decides."""
    try:
        compiled = re.compile(pattern)
    except re.error:
        return
    assert matching(Column.of(values), compiled).tolist() == [
        bool(compiled.search(value)) for value in values
    ]


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        (URL, "http : [a-z]"),
        ("abc?d+", "ab d"),
        (r"a\.b", r"a\.b"),
        ("(ab|c)de*f", "d f"),
        ("[ab]x", "[ab]x"),
        ("x|abc", ""),
        ("a{2}b{,2}c{0}d{0,}e{ff{1,}", "a e ff"),
        (r"\d\D\w+-", r"\d -"),
        ("(?i)abc", "abc"),
        ("(?x) a b", ""),
        ("(?:abc){0}é", "é"),
        ("a\nbc", "a bc"),
        ("(?#x)abc", ""),
        *((f"{spelled}bc", "") for spelled in SPELLED),
        (r"[]x(]bc[^]|]", "[]x(]bc"),
        (r"\\abc", r"\\abc"),
        ("(?=a)b(?!c)", "b"),
        ("(?i:ab)c", ""),
        ("a+?b*?c++", "a c"),
        ("^a$", "a"),
    ],
)
def test_what_a_pattern_needs(pattern: str, parts: str) -> None:
    """Characters and classes that every match holds; never those of a group, or that may be left out."""
    assert " ".join("".join(run) for run in needed(re.compile(pattern))) == parts


def test_first_bytes_are_those_of_every_character() -> None:
    """Of the digits of all scripts, and of letters whose case is not looked at, also those far away."""
    first_bytes.cache_clear()
    for part, flags in (
        (r"\d", 0),
        ("k", re.IGNORECASE),
        ("[0-9é]", 0),
        (r"[\d_]", re.ASCII),
        (r"\.", 0),
    ):
        every = re.findall(part, "".join(map(chr, range(sys.maxunicode + 1))), flags)
        assert first_bytes(part, int(flags)) == bytes(
            sorted({one.encode("utf-8")[0] for one in every})
        )


# Conditions


@given(ROWS)
def test_where_is_its_condition(rows: list[list[str]]) -> None:
    """A condition is what Python would say; NULL, as from a field that a line lacks, is not true."""
    long = Where(condition="length(f1) <= length(f2) AND NOT starts_with(f1, 'a')")
    assert kept(long, rows) == those(
        rows, lambda row: len(row[0]) <= len(row[1]) and not row[0].startswith("a")
    )
    named = Where(condition="src <> '' OR f3 <> tgt", names=("src", "tgt"))
    assert kept(named, rows) == those(
        rows, lambda row: row[0] != "" or (len(row) > 2 and row[2] != row[1])
    )
    assert kept(Where(condition="f3 IS NULL"), rows) == those(rows, lambda row: len(row) < 3)


def test_where_takes_names_in_quotes_and_brackets_of_the_language() -> None:
    """A text may look like a call, and a word of the language may stand before a bracket."""
    rows = [["max(a)", "x"], ["b", "y"]]
    assert kept(Where(condition="f1 = 'max(a)' and (f2) in ('x')"), rows) == [0]
    assert kept(Where(condition="\"my (field)\" = 'b'", names=("my (field)",)), rows) == [1]
    where = pickle.loads(
        pickle.dumps(Where(condition="CASE WHEN f1 = 'b' THEN false ELSE TRUE END"))
    )
    assert kept(where, rows) == [0]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("f1 <", "unable to parse"),
        ("length(f1)", "not true or false"),
        ("nosuch(f1) > 1", "nosuch is not a function of one line"),
        ("max(length(f1)) > 3", "max is not a function of one line"),
        ("lag(f1) OVER (ORDER BY f1) = f1", "lag is not a function"),
        ("f0 = 'a'", "no field 'f0'; field 1 is f1"),
        ("F1 = 'a'", "no field 'F1'"),
        ("f99999999 = 'a'", "is 65,536 at most"),
        ("1 = 1", "does not name a field"),
        ("f1 > 3 + 'a'", ""),
    ],
)
def test_a_condition_that_is_none_is_refused(condition: str, message: str) -> None:
    """What is no expression, gives no truth, names no field, or would depend on other lines is a ConfigError."""
    with pytest.raises(ConfigError, match=f"condition.*{re.escape(message)}"):
        Where(condition=condition)


def test_a_condition_that_fails_on_a_line_says_so() -> None:
    """A CAST of what is no number is a StreamError; TRY_CAST gives NULL, which drops the line."""
    rows = [["12"], ["many"]]
    with pytest.raises(StreamError, match="where: 'CAST"):
        kept(Where(condition="CAST(f1 AS INT) > 3"), rows)
    assert kept(Where(condition="TRY_CAST(f1 AS INT) > 3"), rows) == [0]


def test_missing_fields_are_faults() -> None:
    """A named field that a line lacks makes the line unfit, except where a filter is about that."""
    for transform in (
        Match(pattern="a"),
        Regex(pattern="a", fields=(2,)),
        Ratio(max=2),
        Length(max=3, fields=(2,)),
    ):
        with pytest.raises(LineFault, match="field 2 is missing"):
            kept(transform, [["a", "b"], ["c"]])


def test_match_is_the_url_filter() -> None:
    """The pattern of Section 6.3: order does not matter, number does."""
    one, two = "http://a.de", "https://b.com"
    rows = [
        [f"x {one} {two}", f"{two} y {one}"],
        [one, f"{one} {one}"],
        ["x", "y"],
        [one, "y"],
        [one, two],
    ]
    assert kept(Match(pattern=URL), rows) == [0, 2]
    assert kept(Match(pattern=URL, invert=True), rows) == [1, 3, 4]
