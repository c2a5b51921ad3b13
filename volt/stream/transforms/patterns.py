r"""Regular expressions over the values of a column: which of them hold a match. Python's `re` says what a match is.

Many patterns match nothing without something in the text: "http" for `\bhttps?:\S+[a-z]\b`, a digit for `\d{3}-`. All
values are searched for that first, as bytes, and the pattern sees the few that have it.

>>> found_in(Column.of(["see http://a.de", "see http:", None]), re.compile(r"\bhttps?:\S+[a-z]\b")).tolist()
[True, False, False]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.column import Column, Longs, Mask
from volt.stream.transforms.measures import holding_bytes

# What a pattern consists of: an escape, a class, a group's start or end, a quantifier, or a character
_PARTS = re.compile(
    r"""(?P<escape>\\.) | (?P<class>\[\^?\]?(?:\\.|[^\]\\])*\]) | (?P<open>\() | (?P<close>\))
    | (?P<quantifier>[*?+]|\{\d*,?\d*\}) | (?P<character>[^][(){}|.^$\\\n]) | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_TAKEN = ("escape", "class", "character")
_ONCE = re.compile(r"\+|\{0*[1-9]\d*(,\d*)?\}")  # quantifiers that take their part once at least
_FLAGS = re.compile(r"\A\(\?[a-zA-Z]+\)")  # of the whole pattern
_UNCLEAR = re.compile(r"\\[xuUN0-9]|\(\?#|\(\?[a-zA-Z-]*[ixu]")  # escapes of several characters, comments and flags


def found_in(column: Column, compiled: re.Pattern[str]) -> Mask:
    """(n,) bool, which values hold a match; a missing one is as if empty.

    >>> found_in(Column.of(["a", "b", None]), re.compile("a|^$")).tolist()
    [True, False, True]
    """
    column, runs = column.as_text(), needed(compiled)
    if not runs:
        return _searched(column, compiled)
    found, holding = np.zeros(len(column), bool), _holding(column, runs, compiled.flags)
    found[holding] = _searched(column.take(holding), compiled)
    return found


def _searched(column: Column, compiled: re.Pattern[str]) -> Mask:
    search = compiled.search
    return np.fromiter((search(value) is not None for value in column.strings()), bool, len(column))


def _holding(column: Column, runs: list[list[str]], flags: int) -> Longs:
    """The indices of the values that may hold what a match needs: the longest text, or else the rarest character."""
    text = needed_text(runs)
    if len(text) < 2 or flags & re.IGNORECASE:
        rarest = min((first_bytes(part, flags) for run in runs for part in run), key=len)
        return np.flatnonzero(holding_bytes(column, rarest))
    array, ends = column.packed()
    places = _places(array.tobytes(), text.encode("utf-8", "surrogatepass"))
    return np.unique(np.searchsorted(ends, np.fromiter(places, np.int64), side="right"))


def _places(text: bytes, wanted: bytes) -> Iterator[int]:
    """Where some bytes, without a line feed, stand in a text, once a line."""
    place = text.find(wanted)
    while place >= 0:
        yield place
        place = text.find(wanted, text.index(b"\n", place))


@lru_cache(maxsize=256)
def first_bytes(part: str, flags: int) -> bytes:
    """The first bytes, in UTF-8, of all characters that a part of a pattern can be.

    part: a character or class; flags: of the pattern

    >>> first_bytes("[ab]", 0), first_bytes("é", re.IGNORECASE).hex()
    (b'ab', 'c3')
    """
    is_plain = part.isascii() and "\\" not in part and not flags & re.IGNORECASE
    characters = _characters(128 if is_plain else sys.maxunicode + 1)
    found = np.array([ord(match) for match in re.findall(part, characters, flags)], np.int64)
    heads = np.unique(np.where(found < 128, found, found & ~63))  # 64 characters in a row differ in the last byte
    return bytes(sorted({chr(code).encode("utf-8", "surrogatepass")[0] for code in heads.tolist()}))


@lru_cache(maxsize=2)
def _characters(n: int) -> str:
    return "".join(map(chr, range(n)))


def needed_text(runs: list[list[str]]) -> str:
    """The longest text in the parts that a match needs.

    >>> needed_text([["a", r"\\d", "b", r"\\."], ["c"]])
    'b.'
    """
    split = (group for run in runs for is_one, group in groupby(run, _is_character) if is_one)
    return max(("".join(part[-1] for part in group) for group in split), key=len, default="")


def _is_character(part: str) -> bool:
    """Whether a part is one character, perhaps behind a backslash, and no class."""
    return len(part) == 1 or (len(part) == 2 and part[0] == "\\" and not part[1].isalnum() and part[1] != "\n")


def needed(compiled: re.Pattern[str]) -> list[list[str]]:
    r"""The characters and classes that every match holds, in runs within which nothing stands between two.

    >>> needed(re.compile(r"\bhttps?:[a-z]+(/.*)?")), needed(re.compile("ab|cd"))
    ([['h', 't', 't', 'p'], [':', '[a-z]']], [])
    """
    pattern = _FLAGS.sub("", compiled.pattern)
    if compiled.flags & re.VERBOSE or _UNCLEAR.search(pattern):
        return []
    runs, depth = [list[str]()], 0
    for part in _PARTS.finditer(pattern):
        kind, text = part.lastgroup, part[0]
        if depth == 0 and text == "|":
            return []
        depth += (kind == "open") - (kind == "close")
        if depth == 0 and kind in _TAKEN and (_is_character(text) or _is_choice(text)):
            runs[-1].append(text)
            continue
        if kind == "quantifier" and not _ONCE.fullmatch(text):
            del runs[-1][-1:]
        runs.append([])
    return [run for run in runs if run]


def _is_choice(part: str) -> bool:
    """Whether a part is one of a few characters: digits, or a class that does not say what it is not."""
    return part == r"\d" or (part[0] == "[" and not part.startswith("[^"))


def check_pattern(pattern: str) -> None:
    """Raise ConfigError if it is no regular expression, with the position of the fault, or empty.

    >>> check_pattern("a(b")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: pattern: 'a(b' is no regular expression: missing ), unterminated subpattern at position 1;
    mend it
    """
    try:
        re.compile(arguments.text(pattern, "pattern"))
    except re.error as error:
        raise ConfigError(f"pattern: {pattern!r} is no regular expression: {error}; mend it") from None
    if not pattern:
        raise ConfigError("pattern: is empty, which every line holds; give a regular expression")
