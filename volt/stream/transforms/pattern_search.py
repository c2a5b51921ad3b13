r"""Search the values of a column with a regular expression.

Python's `re` searches only candidates: values that contain what every match contains. That is a
string of the pattern, such as "http" of r"\bhttps?:", which one search over all values finds; or
else its rarest character or class, whose first UTF-8 bytes a compiled loop finds.

`find_required_runs` reads the pattern: r"(a|b)see\d+ x*" requires the runs [s, e, e, \d] and [" "].
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, groupby

import numpy as np

from volt.stream.transforms.column import Column, Longs, Mask
from volt.stream.transforms.column_measurements import find_bytes

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


def find_matching_values(column: Column, pattern: re.Pattern[str]) -> Mask:
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
    """Return the characters and classes that every match contains, in runs that are adjacent in the
    pattern; no runs if the pattern is too complex to tell."""
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
