"""Where commands write: `-o` is a file, a folder, or `-` for stdout; a file appears when it is complete.

What goes to stdout is one thing only: what a command would print there goes to stderr when the data takes its place.
What a command writes is none of what it reads.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from volt.errors import ConfigError, VoltError, shown_path
from volt_cli.console import messages, output, say

if TYPE_CHECKING:
    from rich.console import Console

    from volt.vocabulary import Vocabulary

_PACKED = (".gz", ".bz2", ".xz", ".zst")


def is_stdout(place: str | Path | None) -> bool:
    """Whether a place is stdout, by its short name or as a file of the system.

    >>> is_stdout("-"), is_stdout("./-"), is_stdout("/dev/stdout"), is_stdout(None)
    (True, False, True, False)
    """
    from volt.files.destination import follow

    if place is None or str(place) == "-":
        return place is not None
    try:
        return follow(place).descriptor == 1
    except (OSError, ValueError):  # told where it is written to
        return False


def check_place(place: Path) -> None:
    """Refuse now what could not be written after minutes of work, or would not be what its name says."""
    from volt.files.atomic import check_writable

    if place.suffix in _PACKED:
        raise ConfigError(
            f"-o {shown_path(place)}: written as it is, not packed; leave out {place.suffix}, then pack it"
        )

    if not is_stdout(place):
        check_writable(place)


def check_places(
    outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None] = (), *, model: Path | None = None
) -> None:
    """Raise ConfigError if one of these outputs is one of the inputs or belongs to the model, or two are one file.

    outputs, inputs: "-" is stdout, or stdin; None stands for what was not asked for
    """
    from volt.files.distinct import STDOUT, check_distinct
    from volt.formats.registry import files_read

    read = [path for path in inputs if path is not None] + [
        file for file in (files_read(model) if model else ()) if file.exists() or file == model
    ]
    check_distinct([STDOUT if is_stdout(place) else place for place in outputs if place is not None], read)


@contextmanager
def written(place: Path) -> Iterator[Path]:
    """The path to write a file to: the place itself; for stdout one whose content is printed at the end."""
    if not is_stdout(place):
        yield place
        return
    from volt.files.scratch import scratch_folder

    with scratch_folder() as folder:
        path = folder / "stdout"
        try:
            yield path
        except VoltError as error:
            raise type(error)(told_of(place, path, str(error))) from error
        if not path.is_file() or len(list(folder.iterdir())) > 1:
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
    say(f"wrote {'stdout' if is_stdout(place) else shown_path(place)}{what and f': {what}'}")
