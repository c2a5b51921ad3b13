"""Check that input files exist while options are parsed, before anything slow is imported.

The messages equal those of the modules that read. Pipes are not checked, because opening one consumes data.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from volt.errors import CandidateError, ConfigError, CorpusError, VocabularyError, VoltError, unreadable
from volt.urls import plain_path, url_of


def readable_texts(files: list[str] | None) -> list[str] | None:
    """Return the same files, globs and folders. Raises CorpusError if one is missing or cannot be read.

    >>> readable_texts(["-", __file__])[0]
    '-'
    """
    from volt.files.paths import expand

    for path in expand(files) if files else []:
        _check(path, CorpusError)
    return files


def readable_sources(texts: list[str] | None) -> list[str]:
    """Return the same texts, which all are FILE, or all NAME=FILE or NAME=FILE:N; without any, stdin if it is no
    terminal.

    Raises ConfigError if there is nothing to read or only some have names, CorpusError if one is missing or cannot be
    read.
    """
    from volt.count.named_files import named_files

    if not texts:
        if sys.stdin.isatty():
            raise ConfigError("CORPUS is missing: name files, or give a text on stdin, as in volt search < corpus.txt")
        return ["-"]

    readable_texts([file.path for file in named_files(texts).values()] or texts)
    return texts


def readable_named_texts(texts: list[str] | None) -> list[str] | None:
    """Return the same texts, of which each is FILE or NAME=FILE. Raises CorpusError if one is missing or cannot be
    read.
    """
    from volt.count.named_files import source_paths

    readable_texts([*source_paths(texts or []).values()])
    return texts


def readable_sample(path: Path | None) -> Path | None:
    """Return the same text. Raises CorpusError if it cannot be read."""
    return _check(path, CorpusError)


def readable_model(path: Path | None) -> Path | None:
    """Return the same vocabulary. Raises VocabularyError if it cannot be read; sentencepiece adds ".model" to its
    name.
    """
    return path if os.path.isfile(f"{path}.model") else _check(path, VocabularyError)


def readable_config(path: Path) -> Path | None:
    """Return the same configuration. Raises ConfigError if it cannot be read.

    >>> readable_config(Path("/nowhere/stream.yaml"))
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: /nowhere/stream.yaml: cannot be read: no such file or directory; check the path
    """
    return _check(path, ConfigError)


def readable_candidates(argument: str) -> str:
    """Return the same number, or file of merges. Raises CandidateError if it cannot be read.

    >>> readable_candidates("30000")
    '30000'
    """
    if argument and not is_number(argument):
        _check(Path(argument), CandidateError)
    return argument


def is_number(text: str) -> bool:
    """Check whether this is a whole number, with a sign or without.

    >>> is_number("30000"), is_number("-5"), is_number("merges.txt")
    (True, True, False)
    """
    return text.isascii() and text.removeprefix("-").removeprefix("+").isdecimal()


def _check(path: str | Path | None, kind: type[VoltError]) -> Path | None:
    """Return the path. Raises an error of this kind if a regular file of this name is missing or cannot be read."""
    if path is None or str(path) == "-":
        return path if path is None else Path(path)
    if url_of(path) is not None:
        _check_url(path, kind)
        return Path(path)
    path = plain_path(str(path))
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            os.close(os.open(path, os.O_RDONLY))
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=kind) from None
    return Path(path)


def _check_url(path: str | Path, kind: type[VoltError]) -> None:
    """Raise an error of this kind if there is nothing at a URL, or nobody answers."""
    from volt.files.remote import look

    try:
        look(url_of(path) or "")
    except OSError as error:
        raise unreadable(path, error, kind=kind) from None
