"""Create and lock temporary files and folders.

A lock ends with its process. So if a process was killed, later processes can lock its temporary
files, and remove them. The temporary file of `a.txt` is `.a.txt.00000000.part`, or has another
small number; the next writer of `a.txt` tries these names, without listing the folder.
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

N_NAMES = 8  # small numbers for temporary files of one output; if all are in use, a writer draws random numbers
_N_DRAWN = 100  # random numbers that a writer tries
_LONGEST = 255 - len("..00000000.part")  # bytes of an output's name


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a locked folder, in TMPDIR if set; remove folders of this user's killed processes.

    Raises OutputError.
    """
    requested = os.environ.get("TMPDIR")
    prefix = f"volt-{os.getuid()}-"
    try:
        parent = os.path.abspath(requested or tempfile.gettempdir())
        for path in Path(parent).glob(f"{prefix}*"):
            sweep(path, is_folder=True)
        handle, folder = _new_folder(parent, prefix)
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


def _new_folder(parent: str, prefix: str) -> tuple[int, Path]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):  # another process removed it before it was locked
            handle = os.open(folder, os.O_RDONLY)
            if _try_lock(handle) and _is_open_at(handle, folder):
                return handle, folder
            os.close(handle)


@contextmanager
def temporary_file(output: Path, mode: int) -> Iterator[tuple[int, str]]:
    """Create a locked file in which to write an output before renaming it.

    Yield its descriptor and path.

    If the file was not renamed, it is removed at the end.

    output: the path of the output
    mode: the permissions of the file
    """
    handle, path = _new_file(output, mode)
    try:
        yield handle, path
    finally:
        try:
            if _is_open_at(handle, path):
                os.unlink(path)
        finally:
            os.close(handle)


def _new_file(output: Path, mode: int) -> tuple[int, str]:
    names = _small_names(output)
    for name in filter(os.path.lexists, names):
        sweep(name)
    random_names = (_temporary_name(output, int.from_bytes(os.urandom(4))) for _ in range(_N_DRAWN))
    for name in chain(names, random_names):
        with suppress(FileExistsError):
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            if _try_lock(handle) and _is_open_at(handle, name):
                return handle, name
            os.close(handle)  # another writer removed it before it was locked
    raise FileExistsError(errno.EEXIST, "too many processes write to it")


def sweep(path: Path | str, *, is_folder: bool = False) -> None:
    """Remove a temporary file, or a folder of this user, if the process that created it has
    ended."""
    with suppress(OSError):
        flag = os.O_DIRECTORY if is_folder else os.O_NONBLOCK
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | flag)
        try:
            status = os.fstat(handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_folder and status.st_uid == os.getuid():
                shutil.rmtree(path)
            elif stat.S_ISREG(status.st_mode) and _is_open_at(handle, path):
                os.unlink(path)
        finally:
            os.close(handle)


def sweep_beside(outputs: Iterable[Path]) -> list[Path]:
    """Remove the temporary files of outputs whose writers have ended.

    Return temporary files that are being written.
    """
    remaining = list[Path]()
    for output in outputs:
        for name in _small_names(output):
            sweep(name)
            if os.path.lexists(name):
                remaining.append(Path(name))
    return remaining


def _try_lock(handle: int) -> bool:
    """Lock a file, if the file system has locks; return False if another process holds the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


def _is_open_at(handle: int, path: Path | str) -> bool:
    """Check whether a path still names an open file, which another process may have removed."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _small_names(output: Path) -> list[str]:
    start = _temporary_name(output, 0).removesuffix("0.part")
    return [f"{start}{number}.part" for number in range(N_NAMES)]


def _temporary_name(output: Path, number: int) -> str:
    name = output.name
    encoded = os.fsencode(name)
    if len(encoded) > _LONGEST:
        name = blake2b(encoded, digest_size=16).hexdigest()
    return os.path.join(output.parent, f".{name}.{number:08x}.part")
