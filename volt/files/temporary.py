"""Create temporary files and folders that are locked by their process; after a kill, the next process removes them.

A temporary file ("part") lies in the folder of its output. The next writer of that output removes every part that it
can lock. Parts are numbered, so that nobody lists a large folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import chain
from pathlib import Path

from volt.errors import OutputError, reason, shown_path


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a locked folder, in TMPDIR if set; remove folders of this user's dead processes. Raises OutputError."""
    requested, prefix = os.environ.get("TMPDIR"), f"volt-{os.getuid()}-"
    try:
        place = os.path.abspath(requested or tempfile.gettempdir())
        for path in Path(place).glob(f"{prefix}*"):
            _sweep(path)
        handle, folder = _locked(place, prefix)
    except OSError as error:
        name = f"TMPDIR={shown_path(requested)}" if requested else "temporary files"
        raise OutputError(
            f"{name}: no folder can be made there: {reason(error)}; set TMPDIR to a folder that can be written"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _locked(place: str, prefix: str) -> tuple[int, Path]:
    while True:
        folder = tempfile.mkdtemp(prefix=prefix, dir=place)
        with suppress(FileNotFoundError):  # another process took it for stale before it was locked
            handle = os.open(folder, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.isdir(folder):
                return handle, Path(folder)
            os.close(handle)


def _sweep(folder: Path) -> None:
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_uid == os.getuid():
                shutil.rmtree(folder)
        finally:
            os.close(handle)


N_NAMES = 8  # numbered parts of one output, which a later writer removes; more writers take random numbers
_N_DRAWN = 100
_LONGEST = 255 - len("..00000000.part")  # bytes of an output's name


class TempFile:
    """A new locked file in the folder of `place`. Raises OSError if it cannot be created."""

    def __init__(self, place: Path, mode: int) -> None:
        names = _numbered_parts(place)
        for name in names:
            sweep(name)
        for name in chain(names, (_name(place, int.from_bytes(os.urandom(4))) for _ in range(_N_DRAWN))):
            with suppress(FileExistsError):
                handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                if _lock(handle) and _is_at(handle, name):
                    self.path, self.handle = name, handle
                    return
                os.close(handle)  # another writer took it for stale before it was locked
        raise FileExistsError(errno.EEXIST, "too many others write to it")

    def close(self) -> None:
        """Remove the file, unless it was renamed, and unlock it."""
        try:
            if _is_at(self.handle, self.path):
                self.path.unlink()
        finally:
            os.close(self.handle)


def sweep(part: Path) -> None:
    """Remove a temporary file if the process that wrote it has ended."""
    with suppress(OSError):
        handle = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(handle, part):
                    part.unlink()
        finally:
            os.close(handle)


def sweep_beside(places: Iterable[Path]) -> list[Path]:
    """Remove these outputs' temporary files whose writers have ended; return those with live writers."""
    names, result = dict[Path, set[str]](), list[Path]()
    for place in places:
        if place.parent not in names:
            names[place.parent] = set()
            with suppress(OSError):
                names[place.parent] = set(os.listdir(place.parent))
        result += [part for part in _numbered_parts(place) if part.name in names[place.parent]]
    for part in result:
        sweep(part)
    return [part for part in result if part.exists()]


def _lock(handle: int) -> bool:
    """Lock a file; False if another process holds it. File systems without locks are accepted."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _numbered_parts(place: Path) -> list[Path]:
    return [_name(place, number) for number in range(N_NAMES)]


def _name(place: Path, number: int) -> Path:
    """Return the name of a part; a digest replaces a long name."""
    own = os.fsencode(place.name)
    name = place.name if len(own) <= _LONGEST else blake2b(own, digest_size=16).hexdigest()
    return place.with_name(f".{name}.{number:08x}.part")
