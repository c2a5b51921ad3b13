"""A path to write to → where writing ends: behind all links, and what stands there.

What is no regular file, such as a pipe or a device, is written straight through: there is nothing to keep whole, and a
new file in its place would take its reader from it.

>>> follow("/dev/null").is_written_through, follow("/nowhere/a.txt").is_written_through
(True, False)
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from volt.urls import plain_path

_MOST_LINKS = 40  # as many as Linux follows


@dataclass(frozen=True, slots=True)
class Destination:
    """Where writing to a path ends.

    path: behind all links
    status: of what is there; None if nothing is
    descriptor: the open descriptor that the path stands for, as /dev/stdout stands for 1
    """

    path: Path
    status: os.stat_result | None
    descriptor: int | None = None

    @property
    def is_written_through(self) -> bool:
        """Whether what is written goes to what is there, instead of to a new file that takes its place."""
        kind = stat.S_IFREG if self.status is None else stat.S_IFMT(self.status.st_mode)
        return self.descriptor is not None or kind not in (stat.S_IFREG, stat.S_IFDIR)


def follow(path: str | os.PathLike[str]) -> Destination:
    """Where writing to a path ends. Raises OSError where links lead nowhere, ValueError if the path holds a NUL.

    >>> follow("/dev/stderr").descriptor
    2
    """
    name = plain_path(os.fspath(path))
    for _ in range(_MOST_LINKS):
        place = _in_real_folder(name)
        if _is_descriptor(place):
            return Destination(place, os.fstat(int(place.name)), int(place.name))
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            return Destination(place, None)
        if not stat.S_ISLNK(status.st_mode):
            return Destination(place, status)
        name = os.path.join(place.parent, os.readlink(place))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _in_real_folder(path: str) -> Path:
    """The same place in a folder whose path holds no link."""
    folder, name = os.path.split(path)
    return Path(os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(folder), name))


def _is_descriptor(place: Path) -> bool:
    """Whether a place is one of this process's descriptors, where /dev/stdout and /dev/fd lead on Linux."""
    return place.name.isdecimal() and str(place.parent) in (f"/proc/{os.getpid()}/fd", "/dev/fd")
