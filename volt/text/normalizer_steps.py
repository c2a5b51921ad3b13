r"""Compile the steps of another library's normalizer: JSON → functions on Polars expressions and on
bytes.

    ["charsmap", table, "longest"]     sentencepiece's table, of `pack_table`: from left to right,
                                       replace the longest string that the table contains. A list of
                                       protected strings, which stay as they are, may follow.
    ["charsmap", table, "graphemes"]   as Hugging Face's Precompiled applies the table
    ["spaces"]                         remove extra spaces, as sentencepiece does
    ["replace", pattern, text, kind]   kind: "literal", or "regex" for a regex of Polars
    ["strip", left, right]             strip white space on these sides
    ["nfc"], ["nfd"], ["nfkc"], ["nfkd"]
    ["lowercase"]                      each character by itself: Σ always becomes σ
    ["accents"]                        remove combining marks of Unicode 9
    ["nmt"]                            remove control characters, or turn them into spaces
    ["prepend", text]                  write a text before each line that is not empty

Every step but "spaces" and the longest charsmap does what the step of Hugging Face's tokenizers
does. Unicode differs: "nfd", "nfkd" and "nfkc" decompose 21, 192 and 171 characters, most of them of
Unicode 13 to 16, that tokenizers 0.23 leaves as they are.

>>> [step] = compile_steps('[["replace", "a{2,}", "o", "regex"]]').steps
>>> step.normalize_lines(b"baat\naaa\n", 10)
b'bot\no\n'
"""

from __future__ import annotations

import json
from base64 import b85decode, b85encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import compress, decompressobj
from zlib import error as ZlibError

import numpy as np

from volt import arguments
from volt.array_types import Longs
from volt.errors import ConfigError, VocabularyError
from volt.fork_guard import about_to_use_polars
from volt.text.charsmap import (
    DAMAGED,
    Replace,
    build_rules,
    check_charsmap,
    copies_ascii,
    line_replacement,
)

if TYPE_CHECKING:
    import polars as pl

    from volt.kernels.charsmap import Rules


# An example of each step: a step has arguments of the same types.
_EXAMPLES: list[list[Any]] = [
    ["charsmap", "a table of pack_table", "longest"],
    ["spaces"],
    ["replace", "a", "b", "literal"],
    ["strip", True, True],
    ["nfc"],
    ["nfd"],
    ["nfkc"],
    ["nfkd"],
    ["lowercase"],
    ["accents"],
    ["nmt"],
    ["prepend", "a"],
]
_EXAMPLE_OF = {example[0]: example for example in _EXAMPLES}
_FORMS = ("nfc", "nfd", "nfkc", "nfkd")
_LARGEST_TABLE = 1 << 26  # bytes
_END = b"\xff"  # of lines; UTF-8 does not contain it

# The marks that tokenizers' StripAccents removes: of Unicode 9, except for three later changes
_MARKS = r"[[\p{M}\x{1CF2}\x{1CF3}&&\p{age=9.0}]--\x{111C9}]"
# Characters that tokenizers' Nmt removes, and those that it turns into spaces
_NMT_REMOVED = r"[\x01-\x08\x0B\x0E-\x1F\x7F\x8F\x9F]"
_NMT_SPACES = r"[\t\n\f\r\x{1680}\x{200B}-\x{200F}\x{2028}\x{2029}\x{2581}\x{FEFF}\x{FFFD}]"

# Grapheme clusters of several characters (Unicode Standard Annex 29, table 1c). Polars has Unicode
# 16, and tokenizers has the marks of Unicode 17.
_NEW_MARKS = (
    r"\x{1ACF}-\x{1ADD}\x{1AE0}-\x{1AEB}\x{10EFA}\x{10EFB}\x{11B60}-\x{11B67}\x{1E6E3}\x{1E6E6}"
    r"\x{1E6EE}\x{1E6EF}\x{1E6F5}"
)
_JOINED = rf"[\p{{gcb=EX}}\p{{gcb=ZWJ}}\p{{gcb=SM}}{_NEW_MARKS}]"
_PREPENDED = r"\p{gcb=PP}"
_ANY = r"[^\p{gcb=CN}\r\n]"
_HANGUL = (
    r"\p{gcb=L}*(?:\p{gcb=V}+|\p{gcb=LV}\p{gcb=V}*|\p{gcb=LVT})\p{gcb=T}*|\p{gcb=L}+|\p{gcb=T}+"
)
_EMOJI = r"\p{ExtPict}(?:\p{gcb=EX}*\p{gcb=ZWJ}\p{ExtPict})+"
_FLAG = r"\p{gcb=RI}\p{gcb=RI}"
_CLUSTER = (
    rf"\r\n|{_PREPENDED}*(?:{_HANGUL}|{_FLAG}|{_EMOJI}){_JOINED}*"
    rf"|{_PREPENDED}*{_ANY}{_JOINED}+|{_PREPENDED}+{_ANY}?"
)
# A line without a match contains no such cluster of up to five bytes.
_SHORT_CLUSTER = rf"[\x00-\x{{7FF}}]{_JOINED}|[{_JOINED}&&[\x00-\x{{7FF}}]]|{_PREPENDED}|\r\n"


@dataclass(frozen=True, eq=False)
class CompiledStep:
    """A compiled step."""

    rules: Rules

    def normalize_lines(self, data: bytes, separator: int) -> bytes:
        """Return normalised lines of UTF-8, each followed by the byte `separator`."""
        marked = self._mark_clusters(data, separator)
        replace = _replacement(self, separator)
        result, _ = replace(marked, False)
        return result

    def trace(self, lines: Sequence[str]) -> list[tuple[str, Longs]]:
        """Return normalised lines, and where the text of their characters starts.

        The array of each line, (n_characters + 1,), counts characters of the original line. The last
        number belongs to the end of the normalised line.
        """
        data = b"".join(line.encode() + _END for line in lines)
        marked = self._mark_clusters(data, _END[0])
        normal, sources = _replacement(self, _END[0])(marked, True)
        places = _first_bytes(marked)
        normal_places = _first_bytes(normal)
        source_places = sources[normal_places]
        indices = np.searchsorted(places, source_places)

        result = list[tuple[str, Longs]]()
        first = end = 0
        for line, content in zip(lines, normal.split(_END), strict=False):
            text = content.decode()
            start = end
            end += len(text) + 1
            starts = indices[start:end] - first
            result.append((text, starts))
            first += len(line) + 1
        return result

    def _mark_clusters(self, data: bytes, separator: int) -> bytes:
        """Return lines with OPEN and CLOSE around clusters, if the step needs them."""
        if self.rules.takes_longest or (data.isascii() and b"\r\n" not in data):
            return data
        return _mark_clusters(data, separator)

    def apply(self, expr: pl.Expr) -> pl.Expr:
        """Return the Polars expression of this step."""
        import polars as pl

        return expr.map_batches(self._normalize_series, pl.String)

    def _normalize_series(self, series: pl.Series) -> pl.Series:
        import polars as pl

        data = b"".join(text.encode() + _END for text in series.fill_null(""))
        lines = self.normalize_lines(data, _END[0]).split(_END)[:-1]
        result = pl.Series(series.name, [line.decode() for line in lines], pl.String)
        return result.set(series.is_null(), None)


@lru_cache(maxsize=32)
def _replacement(step: CompiledStep, separator: int) -> Replace:
    return line_replacement(step.rules, separator)


class PolarsSteps(NamedTuple):
    """Steps that Polars runs, one after another.

    rows: the name and arguments of each step
    """

    rows: tuple[list[Any], ...]
    changes: tuple[Callable[[pl.Expr], pl.Expr], ...]

    def normalize_lines(self, data: bytes, separator: int) -> bytes:
        """Return normalised lines of UTF-8, each followed by the byte `separator`."""
        return change_lines(self.apply, data, separator)

    def apply(self, expr: pl.Expr) -> pl.Expr:
        """Return the Polars expression of these steps."""
        for change in self.changes:
            expr = change(expr)
        return expr


class CompiledSteps(NamedTuple):
    """All steps of a normalizer: their names, and what runs them, in order."""

    names: list[str]
    steps: list[CompiledStep | PolarsSteps]
    keeps_ascii: (
        bool  # whether no step changes a line of printable ASCII with single spaces between words
    )


def pack_table(table: bytes) -> str:
    """Return the precompiled charsmap of a sentencepiece model as an argument of a step."""
    return b85encode(compress(table, 9)).decode()


def unpack_table(text: str) -> bytes:
    """Undo `pack_table`. Raises VocabularyError for a damaged table."""
    unpacking = decompressobj()
    try:
        table = unpacking.decompress(b85decode(text), _LARGEST_TABLE)
    except (ValueError, ZlibError):
        raise VocabularyError(DAMAGED) from None
    if not unpacking.eof:
        raise VocabularyError(DAMAGED)
    check_charsmap(table)
    return table


@lru_cache(maxsize=16)
def compile_steps(text: str) -> CompiledSteps:
    """Return what steps do.

    text: the steps as JSON

    Raises ConfigError for an invalid step, VocabularyError for a damaged table.
    """
    rows = _read(text)
    steps = list[CompiledStep | PolarsSteps]()
    for row in rows:
        name, *options = row
        last = steps[-1] if steps else None
        if name == "charsmap":
            steps.append(_charsmap(*options))
        elif name == "spaces" and isinstance(last, CompiledStep) and last.rules.takes_longest:
            steps[-1] = CompiledStep(last.rules._replace(folds=1))
        elif name == "spaces":
            steps.append(CompiledStep(build_rules(b"")._replace(folds=1)))
        elif isinstance(last, PolarsSteps):
            changes = (*last.changes, _change(name, options))
            steps[-1] = PolarsSteps((*last.rows, row), changes)
        else:
            steps.append(PolarsSteps((row,), (_change(name, options),)))
    keeps_ascii = all(map(_keeps_ascii, rows))
    for step in steps:
        if isinstance(step, CompiledStep):
            keeps_ascii &= copies_ascii(step.rules)
    return CompiledSteps([row[0] for row in rows], steps, keeps_ascii)


def _keeps_ascii(row: list[Any]) -> bool:
    """Check whether a step changes no such line, if its table does not."""
    return row[0] not in ("replace", "lowercase", "prepend") or row[:2] == ["replace", " {2,}"]


def _read(text: str) -> list[list[Any]]:
    """Return the steps, with arguments of the right types."""
    try:
        text.encode()
        rows = json.loads(text)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list) or not rows:
        raise ConfigError(
            f"the steps of the normalizer are {arguments.shortened(text)!r}; give a list, such as "
            '[["spaces"]]'
        )
    for number, row in enumerate(rows, 1):
        name = row[0] if isinstance(row, list) and row else None
        place = f"step {number} of the normalizer"
        example = _EXAMPLE_OF[arguments.choice(name, f"first word of {place}", _EXAMPLE_OF)]
        wanted = list(map(type, example))
        if name == "charsmap" and len(row) > len(example):
            wanted.append(list)
        if list(map(type, row)) != wanted:
            found = arguments.shortened(json.dumps(row))
            raise ConfigError(f"{place} is {found}; give a list such as {json.dumps(example)}")
    return rows


def _charsmap(table: str, mode: str, protected: Sequence[Any] = ()) -> CompiledStep:
    arguments.choice(mode, "mode of a charsmap", ("longest", "graphemes"))
    takes_longest = mode == "longest"
    for text in protected:
        _check_filled(arguments.text(text, "protected string of a charsmap"), "protected string")
    return CompiledStep(
        build_rules(unpack_table(table), takes_longest=takes_longest, protected=protected)
    )


def _check_filled(text: str, name: str) -> None:
    if not text:
        raise ConfigError(f"a {name} of the normalizer is empty; remove it")


def _change(name: str, options: Sequence[Any]) -> Callable[[pl.Expr], pl.Expr]:
    """Return the function on expressions of a step that Polars runs."""
    if name in _FORMS:
        form: Any = name.upper()
        return lambda expr: expr.str.normalize(form)
    if options:
        return _BUILDERS[name](*options)
    return _CHANGES[name]


def _replace(pattern: str, text: str, kind: str) -> Callable[[pl.Expr], pl.Expr]:
    import polars as pl
    from polars.exceptions import ComputeError

    arguments.choice(kind, "kind of a replaced pattern", ("literal", "regex"))
    _check_filled(pattern, "replaced pattern")
    if kind == "literal":
        return lambda expr: expr.str.replace_all(pattern, text, literal=True)
    about_to_use_polars()
    try:
        pl.select(pl.lit("").str.contains(pattern))
    except ComputeError as error:
        reason = str(error).split("\n\nThis error occurred")[0]
        raise ConfigError(f"invalid regex {pattern!r} of a normalizer: {reason}") from None
    return lambda expr: expr.str.replace_all(pattern, text.replace("$", "$$"))


def _strip(left: bool, right: bool) -> Callable[[pl.Expr], pl.Expr]:
    def change(expr: pl.Expr) -> pl.Expr:
        if left:
            expr = expr.str.strip_chars_start()
        if right:
            expr = expr.str.strip_chars_end()
        return expr

    return change


def _prepend(text: str) -> Callable[[pl.Expr], pl.Expr]:
    return lambda expr: expr.str.replace_all(r"\A(?s:(.))", text.replace("$", "$$") + "${1}")


_BUILDERS: dict[str, Callable[..., Callable[[pl.Expr], pl.Expr]]] = {
    "replace": _replace,
    "strip": _strip,
    "prepend": _prepend,
}
_CHANGES: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "lowercase": lambda expr: expr.str.replace_all("Σ", "σ", literal=True).str.to_lowercase(),
    "accents": lambda expr: expr.str.replace_all(_MARKS, ""),
    "nmt": lambda expr: expr.str.replace_all(_NMT_REMOVED, "").str.replace_all(_NMT_SPACES, " "),
}


def change_lines(change: Callable[[pl.Expr], pl.Expr], data: bytes, separator: int) -> bytes:
    """Return lines of UTF-8, each followed by the byte `separator`, that an expression changes."""
    import polars as pl

    about_to_use_polars()
    end = bytes([separator])
    lines = pl.Series("text", [line.decode() for line in data.split(end)[:-1]], pl.String)
    changed = lines.to_frame().select(change(pl.col("text"))).to_series()
    return b"".join(line.encode() + end for line in changed)


def _first_bytes(text: bytes) -> Longs:
    """Return the indices of the first bytes of characters."""
    from volt.kernels.charsmap import CLOSE, OPEN

    data = np.frombuffer(text, np.uint8)
    is_inner = data & 0xC0 == 0x80
    is_mark = (data == OPEN) | (data == CLOSE)
    return np.flatnonzero(~(is_inner | is_mark))


def _mark_clusters(data: bytes, separator: int) -> bytes:
    """Write the bytes OPEN and CLOSE around clusters of several characters, in lines with short
    clusters."""
    import polars as pl

    from volt.kernels.charsmap import CLOSE, OPEN

    about_to_use_polars()
    end = bytes([separator])
    whole = pl.Series([data.replace(end, b"\n").decode()])
    if not whole.str.contains(_SHORT_CLUSTER).item():
        return data
    lines = data.split(end)
    texts = pl.Series([line.decode() for line in lines], dtype=pl.String)
    places = texts.str.contains(_SHORT_CLUSTER).arg_true()
    first, last = _two_unused(whole.item())
    marked = texts[places].str.replace_all(_CLUSTER, f"{first}${{0}}{last}")
    for place, text in zip(places, marked, strict=True):
        line = text.encode().replace(first.encode(), bytes([OPEN]))
        lines[place] = line.replace(last.encode(), bytes([CLOSE]))
    return end.join(lines)


def find_matches(pattern: str, texts: pl.Series) -> Iterator[list[tuple[int, int]]]:
    """Yield the spans of the matches of a regex of Polars in each text.

    pattern: the regex;  texts: strings

    Polars does not return positions, so each match is put between two characters that the texts
    lack.
    """
    before_match, after_match = _two_unused("".join(texts))
    bracketed = texts.str.replace_all(pattern, f"{before_match}${{0}}{after_match}")
    for text in bracketed:
        gap, *matches = text.split(before_match)
        position = len(gap)
        spans = []
        for match in matches:
            word, gap = match.split(after_match)
            spans.append((position, position + len(word)))
            position += len(word) + len(gap)
        yield spans


def _two_unused(text: str) -> tuple[str, str]:
    """Return two characters that a text lacks."""
    used = set(text)
    unused = (character for character in map(chr, range(0xE000, 0x110000)) if character not in used)
    return next(unused), next(unused)
