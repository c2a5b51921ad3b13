r"""Regular expressions over the values of a column: which of them hold a match. Python's `re` says what a match is.

Many patterns match nothing without a certain text in it: "http" in `\bhttps?:\S+[a-z]\b`. Where there is one, the bytes
of all values are searched for it first, and the pattern sees the few values that hold it.

>>> found_in(Column.of(["see http://a.de", "see http:", None]), re.compile(r"\bhttps?:\S+[a-z]\b")).tolist()
[True, False, False]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.column import Column, Longs, Mask

# What a pattern consists of: an escape, a class, a group's start or end, a quantifier, or a character
_PARTS = re.compile(
    r"""(?P<escape>\\.) | (?P<class>\[\^?\]?(?:\\.|[^\]\\])*\]) | (?P<open>\() | (?P<close>\))
    | (?P<quantifier>[*?+]|\{\d*,?\d*\}) | (?P<character>[^][(){}|.^$\\\n]) | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_NEVER = re.IGNORECASE | re.VERBOSE  # flags with which a character of the pattern need not be one of the text
_NUMBERED = re.compile(r"\\[xuUN0-9]|\(\?#|\(\?[a-zA-Z-]*[ixu]")  # escapes of several characters, comments and flags


def found_in(column: Column, compiled: re.Pattern[str]) -> Mask:
    """(n,) bool, which values hold a match; a missing one is as if empty.

    >>> found_in(Column.of(["a", "b", None]), re.compile("a|^$")).tolist()
    [True, False, True]
    """
    if not (needed := needed_text(compiled)):
        return _searched(column, compiled)
    found, column = np.zeros(len(column), bool), column.as_text()
    holding = _holding(column, needed.encode("utf-8", "surrogatepass"))
    found[holding] = _searched(column.take(holding), compiled)
    return found


def _searched(column: Column, compiled: re.Pattern[str]) -> Mask:
    search = compiled.search
    return np.fromiter((search(value) is not None for value in column.strings()), bool, len(column))


def _holding(column: Column, needed: bytes) -> Longs:
    """The indices of the values that hold some bytes, without a line feed in them."""
    array, ends = column.packed()
    return np.unique(np.searchsorted(ends, np.fromiter(_places(array.tobytes(), needed), np.int64), side="right"))


def _places(text: bytes, needed: bytes) -> Iterator[int]:
    """Where some bytes stand in a text, once a line."""
    place = text.find(needed)
    while place >= 0:
        yield place
        place = text.find(needed, text.index(b"\n", place))


def needed_text(compiled: re.Pattern[str]) -> str:
    r"""The longest text that is found to be in every match; '' where none is.

    >>> [needed_text(re.compile(pattern)) for pattern in (r"\bhttps?:\S+[a-z]\b", "ab|cd", "(?i)ab")]
    ['http', '', '']
    """
    if compiled.flags & _NEVER or _NUMBERED.search(compiled.pattern):
        return ""
    runs, depth = [""], 0
    for part in _PARTS.finditer(compiled.pattern):
        kind, text = part.lastgroup, part[0]
        if depth == 0 and text == "|":
            return ""
        depth += (kind == "open") - (kind == "close")
        is_sign = kind == "escape" and not text[1].isalnum() and text[1] != "\n"
        if depth == 0 and (kind == "character" or is_sign):
            runs[-1] += text[-1]
            continue
        if kind == "quantifier" and text != "+":
            runs[-1] = runs[-1][:-1]
        runs.append("")
    return max(runs, key=len)


def check_pattern(pattern: str) -> None:
    """Raise ConfigError if it is no regular expression, with the position of the fault.

    >>> check_pattern("a(b")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: pattern: 'a(b' is no regular expression: missing ), unterminated subpattern at position 1
    """
    try:
        re.compile(arguments.text(pattern, "pattern"))
    except re.error as error:
        raise ConfigError(f"pattern: {pattern!r} is no regular expression: {error}") from None
