"""Filters drop the lines that their definitions say, and change nothing else."""

import re
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream.transforms.support import LINES, tokens_of

from volt.errors import ConfigError, StreamError
from volt.stream.transforms.column import Column
from volt.stream.transforms.filters import (
    Bitext,
    FilterTooLong,
    Length,
    Match,
    Ratio,
    Regex,
    SkipBlank,
    Where,
    find_first_bytes,
    find_matching_values,
    find_required_runs,
)
from volt.stream.transforms.line_batch import Batch, LineRng

RNG = LineRng(1, 2)
FIELD = st.text(st.sampled_from("ab1 \u00a0\u3000é中x"), max_size=8)
Row = list[str]
ROWS = st.lists(st.lists(FIELD, min_size=2, max_size=3), max_size=10)


def retained(transform, rows):
    """Return the indices of the rows that pass, which must not change."""
    batch = Batch.of(["\t".join(row) for row in rows])
    result = transform(batch, RNG)
    assert result.lines == [batch.lines[index] for index in result.origins.tolist()]
    return result.origins.tolist()


def expected(rows, is_wanted):
    return [index for index, row in enumerate(rows) if is_wanted(row)]


@given(ROWS)
def test_blank_sides(rows):
    """SkipBlank and Bitext drop the lines with an empty or white-space side."""
    both = expected(rows, lambda row: row[0].split() and row[1].split())
    assert retained(SkipBlank(), rows) == retained(Bitext(), rows) == both
    third = expected(rows, lambda row: row[2:] and row[2].split())
    assert retained(SkipBlank(fields=(3,)), rows) == third


@given(ROWS, st.booleans(), st.sampled_from(["a|b", "(a)(b)?", "1+"]))
def test_match_compares_multisets(rows, invert, pattern):
    """Match keeps the lines whose two sides contain the same matches, equally often and in any
    order; `invert` keeps the other lines."""

    def matches(text):
        return Counter(match[0] for match in re.finditer(pattern, text))

    same = expected(rows, lambda row: (matches(row[0]) == matches(row[1])) != invert)
    assert retained(Match(pattern=pattern, invert=invert), rows) == same


@given(ROWS)
def test_regex_searches_all_fields(rows):
    """Regex drops lines with a match in any field; with `invert`, it keeps only lines with a match
    in all fields."""
    none = expected(rows, lambda row: not re.search("[a1]", row[0] + row[1]))
    both = expected(rows, lambda row: all(re.search("[a1]", field) for field in row[:2]))
    assert retained(Regex(pattern="[a1]"), rows) == none
    assert retained(Regex(pattern="[a1]", invert=True), rows) == both
    without_b = expected(rows, lambda row: "b" not in row[1])
    assert retained(Regex(pattern="b", fields=(2,)), rows) == without_b


MEASURES = {
    "words": lambda text: len(text.split()),
    "characters": len,
    "bytes": lambda text: len(text.encode()),
}


@pytest.mark.parametrize("unit", MEASURES)
@given(rows=ROWS, low=st.integers(0, 3), high=st.integers(3, 8))
def test_length_and_ratio(rows, low, high, unit):
    """Length and Ratio keep the lines within their limits, in words, characters and bytes."""
    sizes = [[MEASURES[unit](field) for field in row[:2]] for row in rows]
    fits = [index for index, pair in enumerate(sizes) if low <= min(pair) <= max(pair) <= high]
    assert retained(Length(min=low, max=high, unit=unit), rows) == fits
    near = [index for index, pair in enumerate(sizes) if max(pair) <= 2 * min(pair)]
    assert retained(Ratio(max=2.0, unit=unit), rows) == near


@given(
    st.lists(st.tuples(LINES.map(" ".join), LINES.map(" ".join)), max_size=6), st.integers(0, 12)
)
def test_lines_with_too_many_tokens_are_dropped(pairs, most):
    """FilterTooLong keeps the lines whose sides both have at most `max_len` tokens between spaces."""
    rows = list(map(list, pairs))
    short = expected(rows, lambda row: all(len(tokens_of(side)) <= most for side in row))
    assert retained(FilterTooLong(most), rows) == short


def test_limits_may_exceed_any_text():
    """Length and Ratio accept limits above 64 bits without overflow."""
    rows = [["a", "b"], ["", ""], ["a a", ""]]
    assert retained(Length(max=10**30), rows) == [0, 1, 2]
    assert retained(Length(min=10**30), rows) == []
    assert retained(Ratio(max=10**300), rows) == [0, 1]


def test_a_missing_second_side_is_not_checked():
    """Filters without `fields` check only field 1 of a line with one field."""
    rows = [["a"], ["a", "b c"], ["", "b"], [""]]
    assert retained(Regex(pattern="^$"), rows) == [0, 1]
    assert retained(Regex(pattern="^a", invert=True), rows) == [0]
    assert retained(Length(min=1, max=1), rows) == [0]
    assert retained(SkipBlank(), rows) == [0, 1]


def test_a_batch_that_passes_is_not_copied():
    """A filter that drops no line returns the lines in the same buffers, and a batch that is
    already split as the same object."""
    batch = Batch.of(["a b\tc\td", "e\tf\tg"])
    patterns = (Match(pattern="x"), Regex(pattern="x"))
    for transform in (SkipBlank(), Bitext(), *patterns, Length(max=9), Ratio(max=3)):
        result = transform(batch, RNG)
        assert (len(result.columns), result.lines) == (2, batch.lines)
        assert transform(result, RNG) is result


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
def test_ids_are_words_of_digits(transform, origins):
    """Filters of words count ids; filters of characters, patterns and conditions read ids as
    numbers in text."""
    source = Column.of_ids(np.array([10, 11, 12], np.int32), np.array([0, 2, 2, 3]))
    target = Column.of_ids(np.array([1, 2, 3, 4], np.int32), np.array([0, 1, 1, 4]))
    batch = Batch((source, target), None, np.arange(3))
    assert transform(batch, RNG).origins.tolist() == origins


# Patterns that all match A
SPELLED = (r"\x41", r"\101", r"\u0041", r"\U00000041", r"\N{LATIN CAPITAL LETTER A}", r"(A)\1")
SIMPLE = r"a b ab 1 \. \d \W \b ^ $ . [a1] [^a] [0-9b] []b] é x{"
GROUPS = ["(?:{})", "({})", "(?={})", "(?!{})", "(?<!a{})", "(?i:{})", "(?#b{})", "(?P<a>{})"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{0,1}", "{,}", "+?", "*?", "++", "{}"]
PATTERNS = st.recursive(
    st.sampled_from([*SIMPLE.split(), *SPELLED, " ", "\\\n"]),
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=4).map("".join),
        st.lists(parts, min_size=2, max_size=2).map("|".join),
        st.builds(lambda part, group: group.replace("{}", part), parts, st.sampled_from(GROUPS)),
        st.tuples(parts, st.sampled_from(QUANTIFIERS)).map("".join),
    ),
    max_leaves=6,
)


@given(st.lists(st.text(st.sampled_from("ab1Aé٣. x{}\n"), max_size=8), max_size=8), PATTERNS)
def test_matching_values_are_those_of_re(values, pattern):
    """find_matching_values finds exactly the values in which re.search finds a match."""
    try:
        compiled = re.compile(pattern)
    except re.error:
        return
    is_match = [compiled.search(value) is not None for value in values]
    assert find_matching_values(Column.of(values), compiled).tolist() == is_match


# Pattern → the parts that every match contains
NEEDED = r"""
\bhttps?:\S+[a-z]\b → http : [a-z]
abc?d+ → ab d
a\.b → a\.b
(ab|c)de*f → d f
[ab]x → [ab]x
x|abc →
a{2}b{,2}c{0}d{0,}e{ff{1,} → a e ff
\d\D\w+- → \d -
(?i)abc → abc
(?x) a b →
(?:abc){0}é → é
(?#x)abc →
[]x(]bc[^]|] → []x(]bc
\\abc → \\abc
(?=a)b(?!c) → b
(?i:ab)c →
a+?b*?c++ → a c
^a$ → a"""
ROWS_OF_NEEDED = [tuple(map(str.strip, row.split("→"))) for row in NEEDED.strip().splitlines()]
ROWS_OF_NEEDED += [("a\nbc", "a bc"), *((f"{spelled}bc", "") for spelled in SPELLED)]


@pytest.mark.parametrize(("pattern", "parts"), ROWS_OF_NEEDED)
def test_every_match_contains_the_needed_parts(pattern, parts):
    """find_required_runs returns the characters and classes outside of groups that no quantifier
    makes optional."""
    assert " ".join("".join(run) for run in find_required_runs(re.compile(pattern))) == parts


@pytest.mark.parametrize(
    ("part", "flags"),
    [(r"\d", 0), ("k", re.IGNORECASE), ("[0-9é]", 0), (r"[\d_]", re.ASCII), (r"\.", 0)],
)
def test_first_bytes_are_those_of_all_characters(part, flags):
    """find_first_bytes returns the first UTF-8 bytes of all characters that a class matches, with
    the digits of all scripts and ignored case."""
    find_first_bytes.cache_clear()
    characters = re.findall(part, "".join(map(chr, range(sys.maxunicode + 1))), flags)
    first = {character.encode()[0] for character in characters}
    assert find_first_bytes(part, int(flags)) == bytes(sorted(first))


@given(ROWS)
def test_where_keeps_lines_for_which_the_condition_is_true(rows):
    """Where keeps the lines for which the condition is true; a missing field is NULL, with which no
    comparison is true."""
    shorter = Where(condition="length(f1) <= length(f2) AND NOT starts_with(f1, 'a')")
    assert retained(shorter, rows) == expected(
        rows, lambda row: len(row[0]) <= len(row[1]) and not row[0].startswith("a")
    )
    named = Where(condition="src <> '' OR f3 <> tgt", names=("src", "tgt"))
    assert retained(named, rows) == expected(
        rows, lambda row: row[0] or (row[2:] and row[2] != row[1])
    )
    missing = expected(rows, lambda row: len(row) < 3)
    assert retained(Where(condition="f3 IS NULL"), rows) == missing


def test_where_accepts_quotes_and_brackets():
    """Where accepts a quoted text or name that looks like a call, and a keyword before a bracket."""
    rows = [["max(a)", "x"], ["b", "y"]]
    assert retained(Where(condition="f1 = 'max(a)' and (f2) in ('x')"), rows) == [0]
    assert retained(Where(condition="\"my (field)\" = 'b'", names=("my (field)",)), rows) == [1]
    where = Where(condition="CASE WHEN f1 = 'b' THEN false ELSE TRUE END")
    assert retained(where, rows) == [0]


CONDITIONS = """
f1 < → unable to parse
length(f1) → not true or false
nosuch(f1) > 1 → nosuch is not a function of one line
max(length(f1)) > 3 → max is not a function of one line
lag(f1) OVER (ORDER BY f1) = f1 → lag is not a function
f0 = 'a' → no field 'f0'; field 1 is f1
F1 = 'a' → no field 'F1'
f99999999 = 'a' → is 65,536 at most
1 = 1 → does not name a field
f1 > 3 + 'a' →"""


@pytest.mark.parametrize("row", CONDITIONS.strip().splitlines())
def test_unusable_conditions_are_refused(row):
    """Where refuses a condition that is not an expression of one line's fields with the result true
    or false."""
    condition, _, message = row.partition(" →")
    with pytest.raises(ConfigError, match=f"condition.*{re.escape(message.strip())}"):
        Where(condition=condition)


def test_a_condition_may_fail_on_a_line():
    """Where raises StreamError if a CAST fails for a line; TRY_CAST gives NULL, which drops the
    line."""
    rows = [["12"], ["many"]]
    with pytest.raises(StreamError, match="where: 'CAST"):
        retained(Where(condition="CAST(f1 AS INT) > 3"), rows)
    assert retained(Where(condition="TRY_CAST(f1 AS INT) > 3"), rows) == [0]
