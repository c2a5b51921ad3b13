"""How texts are named: NAME=FILE, or FILE alone.

FILE alone is named after the part of the file's name in which it differs from the others, so train.de.gz and
train.en.gz are "de" and "en".

>>> source_paths(["data/train.de.gz", "data/train.en.gz"])
{'de': 'data/train.de.gz', 'en': 'data/train.en.gz'}
>>> source_paths(["english=data/train.en.gz"])
{'english': 'data/train.en.gz'}
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from volt.errors import ConfigError

ENDINGS = (".gz", ".bz2", ".zst", ".xz", ".txt", ".tsv")


def source_paths(arguments: Sequence[str]) -> dict[str, str]:
    """The path of each name.

    Raises ConfigError if a name is empty or comes twice, as it does for two files of the same name.
    """
    named = [_named(argument) for argument in arguments]
    stems = _short_names([path for name, path in named if name is None])
    paths: dict[str, str] = {}
    for name, path in named:
        name = stems.pop(0) if name is None else name
        if not name or name in paths:
            found = f"source name {name!r} of {path} is {'given twice' if name else 'empty'}"
            raise ConfigError(f"{found}; write NAME=FILE with a name of its own, or 'NAME=folder/*.gz' for many files")
        paths[name] = path
    return paths


def _named(argument: str) -> tuple[str | None, str]:
    """The name and the path of NAME=FILE; no name for FILE, even where the file's own name holds an equals sign."""
    name, equals, path = argument.partition("=")
    if not equals or "/" in name or os.path.lexists(argument):
        return None, argument
    return name, path


def _short_names(paths: Sequence[str]) -> list[str]:
    """File names less their endings and the parts that all share in front and behind.

    >>> _short_names(["a/train.de.gz", "b/train.en.gz"]), _short_names(["a/train.de.gz"]), _short_names(["-"])
    (['de', 'en'], ['train.de'], ['stdin'])
    """
    stems = [_stem(path) for path in paths]
    parts = [re.split(r"([._-])", stem) for stem in stems]
    if len(set(stems)) < 2:
        return stems
    shortest = min(map(len, parts))
    front = next((i for i in range(shortest) if len({row[i] for row in parts}) > 1), shortest)
    back = next((i for i in range(shortest) if len({row[-1 - i] for row in parts}) > 1), shortest)
    cut = ["".join(row[front : len(row) - back]).strip("._-") for row in parts]
    return cut if all(cut) and len(set(cut)) == len(set(stems)) else stems


def _stem(path: str) -> str:
    name = "stdin" if path == "-" else Path(path).name
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name
