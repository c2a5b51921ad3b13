"""Sources by pattern: `each: {path: "data/*.tsv.gz", …}` → a source for each file that matches.

A source is called what `*` stands for in its path. Its share of the weight follows from its number of lines, so files
are indexed, as they are when the stream is opened, which finds the index in the cache.

>>> shares([1000, 10], temperature=1), shares([1000, 10], temperature=2)
([0.990099009901, 0.00990099009901], [0.909090909091, 0.0909090909091])
"""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from typing import Any

from volt.errors import ConfigError

NAME = "{name}"
_OTHERS = re.compile(r"[?\[\]]")


def names_of(pattern: str) -> list[str]:
    """What `*` stands for in the paths of the files that match, sorted. Raises ConfigError if none does.

    >>> names_of("/nowhere/*.tsv")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: /nowhere/*.tsv: no file matches this pattern; check the path
    """
    check_pattern(pattern)
    before, behind = pattern.split("*")
    found = sorted(path[len(before) : len(path) - len(behind)] for path in glob.glob(pattern))
    if not found:
        raise ConfigError(f"{pattern}: no file matches this pattern; check the path")
    return found


def check_pattern(pattern: str) -> None:
    """Raise ConfigError unless a pattern holds one `*`, and no other sign that stands for characters.

    >>> check_pattern("data/*.tsv")
    """
    if pattern.count("*") != 1 or _OTHERS.search(pattern):
        raise ConfigError(f"{pattern}: holds not one *; put it where the names of the sources differ")


def filled(value: Any, name: str) -> Any:
    """A value with a name in place of {name}, wherever text holds it.

    >>> filled([{"tag": "<2{name}>"}, 1], "de")
    [{'tag': '<2de>'}, 1]
    """
    if isinstance(value, str):
        return value.replace(NAME, name)
    if isinstance(value, Mapping):
        return {key: filled(item, name) for key, item in value.items()}
    return [filled(item, name) for item in value] if isinstance(value, list) else value


def shares(sizes: Sequence[int], *, temperature: float) -> list[float]:
    """Shares in proportion to size ^ (1 / temperature), which sum to 1, as far as twelve digits say it.

    >>> shares([8, 1], temperature=3)
    [0.666666666667, 0.333333333333]
    """
    largest = max(sizes, default=0) or 1
    powers = [(size / largest) ** (1 / temperature) for size in sizes]
    return [float(f"{power / (sum(powers) or 1):.12g}") for power in powers]
