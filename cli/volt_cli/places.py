"""Where commands write: `-o` is a file, a folder, or `-` for stdout; a file appears when it is complete.

What goes to stdout is one thing only: what a command would print there goes to stderr when the data takes its place.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from volt.errors import ConfigError, VoltError
from volt_cli.console import messages, output, say

if TYPE_CHECKING:
    from rich.console import Console

    from volt.vocabulary import Vocabulary


def is_stdout(place: str | Path | None) -> bool:
    """Whether a place is stdout.

    >>> is_stdout("-"), is_stdout("./-"), is_stdout(None)
    (True, False, False)
    """
    return place is not None and str(place) == "-"


def check_place(place: Path) -> None:
    """Refuse now what could not be written after minutes of work."""
    from volt.files.atomic import check_writable

    if not is_stdout(place):
        check_writable(place)


@contextmanager
def written(place: Path) -> Iterator[Path]:
    """The path to write a file to: the place itself; for stdout one whose content is printed at the end."""
    if not is_stdout(place):
        yield place
        return
    with TemporaryDirectory() as folder:
        path = Path(folder, "stdout")
        try:
            yield path
        except VoltError as error:
            raise type(error)(told_of(place, path, str(error))) from error
        if not path.is_file() or len(list(Path(folder).iterdir())) > 1:
            raise ConfigError("-o -: this is more than one file, and stdout takes one; name a place")
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()


def told_of(place: Path, path: Path, message: str) -> str:
    """A message on the path where a place's file was written, told of the place.

    >>> told_of(Path("-"), Path("/tmp/x/stdout"), "/tmp/x/stdout: too long")
    'stdout: too long'
    """
    return message.replace(str(path), "stdout") if is_stdout(place) else message


def write_bytes(data: bytes, place: Path) -> None:
    """Write a file, whole or not at all, or to stdout."""
    from volt.files.atomic import write_atomic

    with written(place) as path, write_atomic(path) as file:
        file.write(data)


def save(vocabulary: Vocabulary, place: Path) -> None:
    """Write a vocabulary to a file or to stdout."""
    with written(place) as path:
        vocabulary.save(path)


def console_beside(*places: Path | None) -> Console:
    """Where a report goes: to stdout, or to stderr if one of these places is stdout."""
    return messages() if any(map(is_stdout, places)) else output()


def check_one_for_stdout(**claims: bool) -> None:
    """Raise ConfigError if more than one thing is to go to stdout.

    >>> check_one_for_stdout(json=True, output=False)
    """
    claimed = [f"--{name}" for name, claim in claims.items() if claim]
    if len(claimed) > 1:
        raise ConfigError(f"{' and '.join(claimed)} would both write to stdout; give one of them another place")


def say_written(place: Path, what: str = "") -> None:
    """Tell what was written where, on stderr."""
    say(f"wrote {'stdout' if is_stdout(place) else place}{what and f': {what}'}")
