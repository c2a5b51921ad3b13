"""Command-line arguments that name texts → the file of each name.

    NAME=FILE      the text of a file, glob, folder or "-"
    NAME=FILE:N    its N-th column of tab-separated text
    FILE           its name is the part of the file's name that the other files' names do not share

>>> list(source_files(["data/train.de.gz", "data/train.en.gz"]))
['de', 'en']
>>> named_files(["de=train.tsv:1", "en=train.tsv:2"])["en"]
NamedFile(path='train.tsv', column=2)
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from volt.errors import ConfigError, shown
from volt.files.paths import without_compression
from volt.urls import name_of

ENDINGS = (".txt", ".tsv")


class NamedFile(NamedTuple):
    """The file that a name stands for.

    path: a path, a glob, a folder, or "-"
    column: the number of a column, from 1; None for the whole text
    """

    path: str
    column: int | None = None


def source_files(arguments: Sequence[str]) -> dict[str, NamedFile]:
    """Return the file of each name, in the order of the arguments.

    Raises ConfigError if a name is empty or occurs twice.
    """
    pairs = list(map(split_name, arguments))
    derived_names = iter(_derive_names([path for name, path in pairs if name is None]))
    files = dict[str, NamedFile]()
    for name, path in pairs:
        file = NamedFile(path)
        if name is None:
            name = next(derived_names)
        else:
            file = _with_column(name, path)
        _refuse_clash(name, path, files)
        files[name] = file
    return files


def named_files(arguments: Sequence[str]) -> dict[str, NamedFile]:
    """Return the file of each name, sorted by name; {} if no argument has a name.

    Raises ConfigError if only some arguments have a name, or a name is empty or occurs twice.
    """
    named = [argument for argument in arguments if split_name(argument)[0] is not None]
    if not named:
        return {}
    for argument in arguments:
        if split_name(argument)[0] is None:
            raise ConfigError(
                f"{shown(argument)} has no name, but {shown(named[0])} has one; "
                f"write NAME={shown(argument)}, or name none of them"
            )
    return dict(sorted(source_files(arguments).items()))


def split_name(argument: str) -> tuple[str | None, str]:
    """Split NAME=FILE into its name and path; an argument that is only a path has no name.

    A path that exists, or that has a slash before its equals sign, is only a path.

    >>> split_name("en=a.txt"), split_name("./x=1/a.txt")
    (('en', 'a.txt'), (None, './x=1/a.txt'))
    """
    name, equals, path = argument.partition("=")
    if not equals or "/" in name or os.path.lexists(argument):
        return None, argument
    return name, path


def _with_column(name: str, path: str) -> NamedFile:
    match = re.fullmatch(r"(.+):([0-9]+)", path, re.DOTALL)
    if match is None or os.path.lexists(path):
        return NamedFile(path)
    if not int(match[2]):
        raise ConfigError(
            f"{shown(f'{name}={path}')}: columns are counted from 1; "
            f"write a column such as {shown(f'{name}={match[1]}:1')}"
        )
    return NamedFile(match[1], int(match[2]))


def _refuse_clash(name: str, path: str, others: dict[str, NamedFile]) -> None:
    if not path or name in (".", ".."):
        missing = "source" if path else "file"
        raise ConfigError(f"{shown(f'{name}={path}')}: names no {missing}; write NAME=FILE")
    if not name or name in others:
        fault = "given twice" if name else "empty"
        raise ConfigError(
            f"source name {shown(name)!r} of {shown(path)} is {fault}; "
            "write NAME=FILE with a name of its own, or 'NAME=folder/*.gz' for many files"
        )


def _derive_names(paths: Sequence[str]) -> list[str]:
    """Return names of files: without endings, and without the start and end that all names share.

    Shared parts stay if a name would be empty, or two files would get one name.
    """
    stems = list[str]()
    for path in paths:
        stem = "stdin" if path == "-" else without_compression(name_of(path))
        for ending in ENDINGS:
            stem = stem.removesuffix(ending)
        stems.append(stem)
    if len(set(stems)) < 2:
        return stems

    rows = [re.split(r"([._-])", stem) for stem in stems]
    n_shared_first = _count_shared(rows)
    n_shared_last = _count_shared([row[::-1] for row in rows])
    names = ["".join(row[n_shared_first : len(row) - n_shared_last]).strip("._-") for row in rows]
    if all(names) and len(set(names)) == len(set(stems)):
        return names
    return stems


def _count_shared(rows: Sequence[Sequence[str]]) -> int:
    """Return how many items all rows share at the start."""
    columns = zip(*rows, strict=False)
    return len(list(takewhile(lambda column: len(set(column)) == 1, columns)))
