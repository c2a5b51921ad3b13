"""Create and lock temporary files and folders. Locks end with a process; later processes remove what it left.

The temporary file of `a.txt` is `.a.txt.00000000.part`. The next writer of `a.txt` finds it by trying small numbers,
without listing the folder.
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
    """Create a locked folder, in TMPDIR if set; remove folders of this user's killed processes. Raises OutputError."""
    requested = os.environ.get("TMPDIR")
    prefix = f"volt-{os.getuid()}-"
    try:
        place = os.path.abspath(requested or tempfile.gettempdir())
        for path in Path(place).glob(f"{prefix}*"):
            sweep(path, is_folder=True)
        handle, folder = _new_folder(place, prefix)
    except OSError as error:
        name = "temporary files"
        if requested:
            name = f"TMPDIR={shown_path(requested)}"
        raise OutputError(
            f"{name}: no folder can be created there: {reason(error)}; "
            "set TMPDIR to a folder that can be written"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _new_folder(place: str, prefix: str) -> tuple[int, Path]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        with suppress(FileNotFoundError):  # another process removed it before it was locked
            handle = os.open(folder, os.O_RDONLY)
            if _lock(handle) and _is_at(handle, folder):
                return handle, folder
            os.close(handle)


N_NAMES = 8  # small numbers for temporary files of one output; if all are in use, a writer draws random numbers
_N_DRAWN = 100
_LONGEST = 255 - len("..00000000.part")  # bytes of an output's name


@contextmanager
def temporary_file(place: Path, mode: int) -> Iterator[tuple[int, str]]:
    """Yield descriptor and path of a new, locked file, in which to write the output `place` before renaming it.

    A file that was not renamed is removed at the end.
    """
    handle, path = _new_file(place, mode)
    try:
        yield handle, path
    finally:
        try:
            if _is_at(handle, path):
                os.unlink(path)
        finally:
            os.close(handle)


def _new_file(place: Path, mode: int) -> tuple[int, str]:
    names = _numbered(place)
    for name in filter(os.path.lexists, names):
        sweep(name)
    drawn = (_name(place, int.from_bytes(os.urandom(4))) for _ in range(_N_DRAWN))
    for name in chain(names, drawn):
        with suppress(FileExistsError):
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            if _lock(handle) and _is_at(handle, name):
                return handle, name
            os.close(handle)  # another writer removed it before it was locked
    raise FileExistsError(errno.EEXIST, "too many processes write to it")


def sweep(path: Path | str, *, is_folder: bool = False) -> None:
    """Remove a temporary file, or a folder of this user, if the process that created it has ended."""
    with suppress(OSError):
        kind = os.O_DIRECTORY if is_folder else os.O_NONBLOCK
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | kind)
        try:
            status = os.fstat(handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_folder and status.st_uid == os.getuid():
                shutil.rmtree(path)
            elif stat.S_ISREG(status.st_mode) and _is_at(handle, path):
                os.unlink(path)
        finally:
            os.close(handle)


def sweep_beside(places: Iterable[Path]) -> list[Path]:
    """Remove these outputs' temporary files whose writers have ended; return those that are still being written."""
    remaining = list[Path]()
    for place in places:
        for name in _numbered(place):
            sweep(name)
            if os.path.lexists(name):
                remaining.append(Path(name))
    return remaining


def _lock(handle: int) -> bool:
    """Lock a file, if the file system has locks; return False if another process holds the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


def _is_at(handle: int, path: Path | str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _numbered(place: Path) -> list[str]:
    start = _name(place, 0).removesuffix("0.part")
    return [f"{start}{number}.part" for number in range(N_NAMES)]


def _name(place: Path, number: int) -> str:
    name = place.name
    encoded = os.fsencode(name)
    if len(encoded) > _LONGEST:
        name = blake2b(encoded, digest_size=16).hexdigest()
    return os.path.join(place.parent, f".{name}.{number:08x}.part")
