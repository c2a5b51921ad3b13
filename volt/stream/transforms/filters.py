r"""Filters: transforms that keep or drop whole lines, by regular expression, length or a condition
in SQL.

>>> urls = Match(pattern=r"\bhttps?:\S+[a-z]\b")  # the URL filter of SOTASTREAM's Section 6.3
>>> same, other = "see http://a.de\tsiehe http://a.de", "see http://a.de\tsiehe"
>>> urls(Batch.of([same, other]), LineRng(1, 2)).lines
['see http://a.de\tsiehe http://a.de']

Python's `re` searches only candidates: values that contain what every match contains. That is a
string of the pattern, such as "http" of r"\bhttps?:", which one search over all values finds; or
else its rarest character or class, whose first UTF-8 bytes a compiled loop finds.
`find_required_runs` reads the pattern: r"(a|b)see\d+ x*" requires the runs [s, e, e, \d] and [" "].
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, groupby
from operator import eq
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from volt import arguments
from volt.array_types import Flags, Longs
from volt.errors import ConfigError, StreamError
from volt.fork_guard import about_to_use_polars
from volt.stream.transforms.column import Column
from volt.stream.transforms.column_measurements import (
    Unit,
    find_blank_values,
    find_bytes,
    measure_lengths,
)
from volt.stream.transforms.field_edits import KeepFields
from volt.stream.transforms.fields import BOTH_SIDES, with_fields
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.options import Fields, Size, TwoFields, field_number, number_between
from volt.stream.transforms.transform import ConfiguredTransform, Transform
from volt.stream.transforms.word_types import count_tokens

if TYPE_CHECKING:
    import polars as pl


_MOST = 1 << 53  # longer than any text; a double represents all whole numbers up to this
# Functions of one line in Polars SQL, so that other lines do not influence whether a line is kept
_FUNCTIONS = """
    abs array_contains array_length bit_length btrim cast ceil ceiling char_length character_length coalesce concat
    concat_ws div ends_with exp floor greatest if ifnull initcap least left length ln log log10 log2 lower ltrim mod
    normalize nullif octet_length pow power regexp_like replace reverse right round rtrim sign split_part sqrt
    starts_with string_to_array strpos substr substring trim try_cast upper
"""
_SQL_WORDS = "and between case else from in is like ilike not on or regexp rlike then to when"
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"[^"]*\"""")
_CALL = re.compile(r"(\w+)\s*\(")
_FIELD_NAME = re.compile(r"f([1-9][0-9]*)")
# The parts of a pattern: an escape, a class, a group's start or end, a quantifier, or a character
_PARTS = re.compile(
    r"""(?P<escape>\\.) | (?P<class>\[\^?\]?(?:\\.|[^\]\\])*\]) | (?P<open>\() | (?P<close>\))
    | (?P<quantifier>[*?+]|\{\d*,?\d*\}) | (?P<character>[^][(){}|.^$\\\n]) | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_AT_LEAST_ONCE = re.compile(r"\+|\{0*[1-9]\d*(,\d*)?\}")  # quantifiers
_GLOBAL_FLAGS = re.compile(r"\A\(\?[a-zA-Z]+\)")
# Escapes of several characters, comments and flags, in which `_PARTS` would misread characters
_UNCLEAR = re.compile(r"\\[xuUN0-9]|\(\?#|\(\?[a-zA-Z-]*[ixu]")


def check_pattern(pattern: str, option: str) -> str:
    try:
        re.compile(arguments.text(pattern, option))
    except re.error as error:
        message = f"{option}: {pattern!r} is not a regular expression: {error}; fix it"
        raise ConfigError(message) from None
    if not pattern:
        raise ConfigError(f"{option}: is empty, so every line matches; give a regular expression")
    return pattern


Pattern = Annotated[str, check_pattern]


class Filter(ConfiguredTransform):
    """Base class of filters. Validation and translation skip filters."""

    __slots__ = ()
    is_compiled: ClassVar[bool] = True

    def deterministic(self) -> Transform | None: ...


def select_lines(batch: Batch, is_kept: Flags) -> Batch:
    return batch if is_kept.all() else batch.take(is_kept)


class FieldFilter(Filter):
    """Base class of filters that drop lines in which a field fails a check."""

    __slots__ = ()
    fields: Fields | None

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch, fields = with_fields(batch, self.fields)
        is_kept = self.fits(batch.column(fields[0]))
        for field in fields[1:]:
            column = batch.column(field)
            is_kept &= self.fits(column) | ~column.present
        return select_lines(batch, is_kept)

    def fits(self, column: Column) -> Flags:
        """Return (n,) bool, True for the values that pass the check."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SkipBlank(Filter):
    """Drop lines with an empty or white-space field."""

    fields: Fields | None = None
    """The fields to check; a missing field counts as blank. By default 1 and, if the line has it,
    2."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        fields = self.fields or BOTH_SIDES
        batch = batch.split(max(fields))
        columns = [batch.column(field) for field in fields]
        is_blank = list(map(find_blank_values, columns))
        if self.fields is None:
            is_blank[1] &= columns[1].present
        return select_lines(batch, ~np.logical_or.reduce(is_blank))


@dataclass(frozen=True, slots=True)
class Bitext(Filter):
    """Drop lines in which a side is missing, empty or white space."""

    fields: TwoFields = (1, 2)
    """The two sides."""
    only: bool = False
    """True if all other fields are dropped, too."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch = SkipBlank(self.fields)(batch, rng)
        return KeepFields(self.fields)(batch, rng) if self.only else batch

    def deterministic(self) -> Transform | None:
        return KeepFields(self.fields) if self.only else None


@dataclass(frozen=True, slots=True)
class Match(Filter):
    """Keep lines in which both sides contain the same matches of a pattern, equally often, such as
    the same URLs.

    Python's `re` searches only lines that contain what every match contains, such as "http" or a
    digit. Only one worker at a time can run it.
    """

    pattern: Pattern
    """A regular expression of Python."""
    fields: TwoFields = (1, 2)
    """The two fields to compare."""
    invert: bool = False
    """Instead, keep the lines in which the two fields differ."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch, fields = with_fields(batch, self.fields)
        left, right = (batch.column(field) for field in fields)
        pattern = re.compile(self.pattern)
        has_match = find_matching_values(left, pattern) | find_matching_values(right, pattern)
        lines = np.flatnonzero(has_match)

        def find_matches(text: str) -> list[str]:
            return sorted(match[0] for match in pattern.finditer(text))

        left_matches = map(find_matches, left.take(lines).strings())
        right_matches = map(find_matches, right.take(lines).strings())
        is_same = np.ones(len(batch), bool)  # true for lines without matches
        is_same[lines] = list(map(eq, left_matches, right_matches))
        return select_lines(batch, is_same != self.invert)


@dataclass(frozen=True, slots=True)
class Regex(FieldFilter):
    """Drop lines in which a pattern matches any of the fields. One worker searches at a time, as
    for `match`."""

    pattern: Pattern
    """A regular expression of Python."""
    fields: Fields | None = None
    """The fields to search; by default 1 and, if the line has it, 2."""
    invert: bool = False
    """Instead, keep only the lines in which the pattern matches all of the fields."""

    def fits(self, column: Column) -> Flags:
        has_match = find_matching_values(column, re.compile(self.pattern))
        return has_match if self.invert else ~has_match


@dataclass(frozen=True, slots=True)
class Length(FieldFilter):
    """Drop lines in which a field is too short or too long."""

    max: Size | None = None
    """The greatest length that is kept; no limit by default."""
    min: Size = 0
    """The least length that is kept."""
    fields: Fields | None = None
    """The fields to measure; by default 1 and, if the line has it, 2."""
    unit: Unit = "words"
    """The unit: words (or pieces) separated by spaces, characters, or bytes."""

    def check(self) -> None:
        if self.max is not None and self.max < self.min:
            raise ConfigError(
                f"length: min is {self.min} and max is {self.max}; no line could be kept, so change "
                "one"
            )

    def fits(self, column: Column) -> Flags:
        sizes = measure_lengths(column, self.unit)
        result: Flags = sizes >= min(self.min, _MOST)
        if self.max is not None:
            result &= sizes <= min(self.max, _MOST)
        return result


@dataclass(frozen=True, slots=True)
class FilterTooLong(FieldFilter):
    """Drop lines in which a field has too many tokens (separated by spaces) or ids."""

    max_len: Size
    """The maximum number of tokens."""
    fields: Fields | None = None
    """The fields to measure; by default 1 and, if the line has it, 2."""

    def fits(self, column: Column) -> Flags:
        return count_tokens(column) <= self.max_len


@dataclass(frozen=True, slots=True)
class Ratio(Filter):
    """Drop lines whose longer side is more than `max` times as long as the shorter; two empty sides
    are kept."""

    max: Annotated[float, partial(number_between, low=1)]
    """The greatest ratio that is kept; 1 or more."""
    fields: TwoFields = (1, 2)
    """The two sides."""
    unit: Unit = "words"
    """The unit: words (or pieces) separated by spaces, characters, or bytes."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch, fields = with_fields(batch, self.fields)
        left, right = (measure_lengths(batch.column(field), self.unit) for field in fields)
        limits = float(min(self.max, _MOST)) * np.minimum(left, right)
        return select_lines(batch, np.maximum(left, right) <= limits)


@dataclass(frozen=True, slots=True)
class Where(Filter):
    """Keep the lines for which a condition in Polars SQL is true, such as length(f1) <= 400 AND f2
    <> ''."""

    condition: str
    """The condition. Fields are called f1, f2 and so on; a missing field is NULL; length counts
    characters."""
    names: tuple[str, ...] = ()
    """Further names of the fields, in order from field 1; by default the names in `pair`."""

    def check(self) -> None:
        import polars as pl

        arguments.texts(self.names, "names", one="give a tuple of names")
        expression = self._expression()
        schema = dict.fromkeys(self._find_fields(expression), pl.String())
        try:
            [dtype] = pl.LazyFrame(schema=schema).select(expression).collect_schema().values()
        except pl.exceptions.PolarsError as error:
            raise self._refusal(_first_line(error)) from None
        if dtype != pl.Boolean():
            fault = f"it gives {dtype}, not true or false; compare the result with a value"
            raise self._refusal(fault)

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        import polars as pl

        about_to_use_polars()
        expression = self._expression()
        fields = self._find_fields(expression)
        batch = batch.split(max(fields.values()))
        columns = {
            name: pl.from_arrow(batch.column(field).as_text().to_arrow())
            for name, field in fields.items()
        }
        try:
            is_kept = pl.DataFrame(columns).select(expression.fill_null(False)).to_series()
        except pl.exceptions.PolarsError as error:
            raise StreamError(
                f"where: {self.condition!r} fails for some line: {_first_line(error)}"
            ) from None
        return select_lines(batch, is_kept.to_numpy())

    def _expression(self) -> pl.Expr:
        import polars as pl

        unquoted = _QUOTED.sub("''", arguments.text(self.condition, "condition"))
        functions = {name.lower() for name in _CALL.findall(unquoted)}
        unknown = sorted(functions - {*_FUNCTIONS.split(), *_SQL_WORDS.split()})
        if unknown:
            use = " ".join(_FUNCTIONS.split())
            raise self._refusal(f"{unknown[0]} is not a function of one line; use one of {use}")
        try:
            return pl.sql_expr(self.condition)
        except (pl.exceptions.PolarsError, UnicodeEncodeError) as error:
            raise self._refusal(_first_line(error)) from None

    def _find_fields(self, expression: pl.Expr) -> dict[str, int]:
        """Return the names of fields in an expression, and each field's number."""
        result = dict[str, int]()
        for name in expression.meta.root_names():
            numbered = _FIELD_NAME.fullmatch(name)
            if name in self.names:
                result[name] = self.names.index(name) + 1
            elif numbered:
                result[name] = field_number(int(numbered[1]), "condition")
            else:
                first = " or ".join([*self.names[:1], "f1"])
                raise self._refusal(f"there is no field {name!r}; field 1 is {first}")
        if not result:
            raise self._refusal("it does not name a field; field 1 is f1")
        return result

    def _refusal(self, reason: str) -> ConfigError:
        return ConfigError(f"condition: {self.condition!r} cannot be used: {reason}; fix it")


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0]


def find_matching_values(column: Column, pattern: re.Pattern[str]) -> Flags:
    """Return (n,) bool, True for values with a match; a missing value counts as empty."""
    column = column.as_text()
    candidates = _find_candidates(column, pattern)
    values = column.take(candidates).strings()
    result = np.zeros(len(column), bool)
    result[candidates] = [pattern.search(value) is not None for value in values]
    return result


def _find_candidates(column: Column, pattern: re.Pattern[str]) -> Longs:
    """Return the indices of values that contain what every match contains."""
    runs = find_required_runs(pattern)
    if not runs:
        return np.arange(len(column))

    text = find_longest_text(runs)
    if len(text) < 2 or pattern.flags & re.IGNORECASE:
        byte_sets = [find_first_bytes(part, pattern.flags) for part in chain.from_iterable(runs)]
        return np.flatnonzero(find_bytes(column, min(byte_sets, key=len)))
    lines, line_ends = column.packed()
    positions = _find_in_lines(lines.tobytes(), text.encode("utf-8", "surrogatepass"))
    indices = np.searchsorted(line_ends, np.fromiter(positions, np.int64), side="right")
    return np.unique(indices)


def _find_in_lines(lines: bytes, text: bytes) -> Iterator[int]:
    """Yield the first position of a text in each line that contains it."""
    position = lines.find(text)
    while position >= 0:
        yield position
        position = lines.find(text, lines.index(b"\n", position))


def find_required_runs(pattern: re.Pattern[str]) -> list[list[str]]:
    """Return runs of characters and classes that every match contains, side by side.

    Return no run if the pattern is too complex to tell.
    """
    text = _GLOBAL_FLAGS.sub("", pattern.pattern)
    if pattern.flags & re.VERBOSE or _UNCLEAR.search(text):
        return []

    runs = [list[str]()]
    depth = 0  # of groups
    for match in _PARTS.finditer(text):
        kind = match.lastgroup
        part = match[0]
        if depth == 0 and part == "|":
            return []
        depth += (kind == "open") - (kind == "close")
        is_required = part == r"\d" or (kind == "class" and not part.startswith("[^"))
        if kind in ("escape", "character"):
            is_required |= _is_character(part)
        if depth == 0 and is_required:
            runs[-1].append(part)
            continue
        if kind == "quantifier" and not _AT_LEAST_ONCE.fullmatch(part):
            del runs[-1][-1:]  # the part before the quantifier may be absent
        runs.append([])
    return [run for run in runs if run]


def _is_character(part: str) -> bool:
    is_escaped = len(part) == 2 and part[0] == "\\"
    return len(part) == 1 or (is_escaped and not part[1].isalnum() and part[1] != "\n")


def find_longest_text(runs: list[list[str]]) -> str:
    """Return the longest string of adjacent characters in runs of characters and classes.

    >>> find_longest_text([["s", "e", "[0-9]"], ["h", "t", r"\\."]])
    'ht.'
    """
    texts = [""]
    for run in runs:
        for are_characters, parts in groupby(run, _is_character):
            if are_characters:
                texts.append("".join(part[-1] for part in parts))
    return max(texts, key=len)


@lru_cache(maxsize=256)
def find_first_bytes(part: str, flags: int) -> bytes:
    """Return the first UTF-8 bytes of the characters that a character or class matches.

    flags: the flags of the pattern
    """
    is_plain = part.isascii() and "\\" not in part and not flags & re.IGNORECASE
    characters = _list_characters(128 if is_plain else sys.maxunicode + 1)
    codes = np.array(list(map(ord, re.findall(part, characters, flags))), np.int64)
    # 64 adjacent characters beyond ASCII differ only in the last byte
    representatives = np.unique(np.where(codes < 128, codes, codes & ~63))
    encoded = [chr(code).encode("utf-8", "surrogatepass") for code in representatives.tolist()]
    return bytes(sorted({character[0] for character in encoded}))


@lru_cache(maxsize=2)
def _list_characters(n: int) -> str:
    return "".join(map(chr, range(n)))
