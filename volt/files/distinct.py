"""What a job writes must be none of what it reads, nor the same file twice: told before any work.

Files are compared by device and number, so it makes no difference how they are spelled and through which links they are
reached. What is not there yet is compared by its path behind all links, and URLs are by what their spellings share.
Pipes and terminals may be read and written.

>>> check_distinct(["/dev/null", "a.out"], ["/dev/null", "a.txt"])
"""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable, Iterable

from volt.errors import ConfigError, shown_path
from volt.files.destination import follow
from volt.urls import same, url_of

STDIN, STDOUT = "/dev/stdin", "/dev/stdout"
_SHOWN = {STDIN: "stdin", STDOUT: "stdout", "-": "stdin"}
Files = Iterable[str | os.PathLike[str]]


def check_distinct(outputs: Files, inputs: Files = ()) -> None:
    """Raise ConfigError, naming both, if an output is one of the inputs, or two outputs are one file.

    inputs: "-" is stdin.

    >>> check_distinct(["./a.txt"], ["a.txt"])
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: ./a.txt: would be written over a.txt, which is read; choose another place
    """
    read = {identity(STDIN if os.fspath(path) == "-" else path): path for path in inputs}
    written = dict[Hashable, str | os.PathLike[str]]()
    for output in outputs:
        place = identity(output)
        if place is None:
            continue
        if place in read:
            raise ConfigError(
                f"{_shown(output)}: would be written over {_shown(read[place])}, which is read; choose another place"
            )
        if place in written:
            raise ConfigError(
                f"{_shown(output)}: would be written over {_shown(written[place])}, which is written too; choose "
                "another place for one of them"
            )
        written[place] = output


def identity(path: str | os.PathLike[str]) -> Hashable:
    """What two paths to the same file share; None for a pipe or a terminal, and where it cannot be told.

    >>> identity(__file__) == identity(os.path.realpath(__file__)), identity("/dev/null")
    (True, None)
    """
    if (url := url_of(path)) is not None:
        return same(url)
    try:
        place = follow(path)
    except (OSError, ValueError):  # told where it is read or written
        return None
    if place.status is None:
        return str(place.path)
    kind = place.status.st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISBLK(kind):
        return place.status.st_dev, place.status.st_ino
    return None


def _shown(path: str | os.PathLike[str]) -> str:
    return _SHOWN.get(os.fspath(path), shown_path(os.fspath(path)))
