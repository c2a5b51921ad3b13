"""Write files and folders completely or not at all, and never over an input.

A file is written under a temporary name in its folder, then renamed. Links are followed; pipes and
devices are written directly. Inputs and outputs are compared by device and inode, and by their
resolved path if they do not exist.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from volt.errors import ConfigError, OutputError, reason, shown_path
from volt.files.paths import mark_of
from volt.files.temporary import temporary_file
from volt.urls import plain_path, same, url_of

STDIN, STDOUT = "/dev/stdin", "/dev/stdout"
UNCHANGED = "; it was not changed. Choose another place"  # the end of an error
_NAMES = {STDIN: "stdin", STDOUT: "stdout", "-": "stdin"}
_MAX_LINKS = 40  # as on Linux
Files = Iterable[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class Destination:
    """The file that is changed by writing to a path.

    path: with all links resolved
    status: None if the file does not exist
    descriptor: the open descriptor that the path names, such as 1 for /dev/stdout; usually None
    """

    path: Path
    status: os.stat_result | None
    descriptor: int | None = None

    @property
    def is_written_through(self) -> bool:
        """Return whether the file, such as a pipe, is written directly instead of being replaced by
        a new file."""
        if self.descriptor is not None:
            return True
        if self.status is None:
            return False
        return stat.S_IFMT(self.status.st_mode) not in (stat.S_IFREG, stat.S_IFDIR)


def follow(path: str | os.PathLike[str]) -> Destination:
    """Return the file that writing to a path changes.

    Raises OSError or ValueError for an impossible path.
    """
    name = plain_path(os.fspath(path))
    for _ in range(_MAX_LINKS):
        folder, last = os.path.split(name)
        if last in ("", ".", ".."):
            resolved = Path(os.path.realpath(name))
        else:
            resolved = Path(os.path.realpath(folder), last)

        is_descriptor = str(resolved.parent) in (f"/proc/{os.getpid()}/fd", "/dev/fd")  # on Linux
        if is_descriptor and resolved.name.isdecimal():
            descriptor = int(resolved.name)
            return Destination(resolved, os.fstat(descriptor), descriptor)

        try:
            status = resolved.lstat()
        except FileNotFoundError:
            return Destination(resolved, None)
        if not stat.S_ISLNK(status.st_mode):
            return Destination(resolved, status)
        name = os.path.join(resolved.parent, os.readlink(resolved))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def check_distinct(outputs: Files, inputs: Files = ()) -> None:
    """Raise ConfigError if an output is also an input (input "-": stdin), or if two outputs are the
    same file."""
    uses = dict[Hashable, str]()  # of each file, for errors
    for path in inputs:
        if os.fspath(path) == "-":
            path = STDIN
        uses[identity(path)] = f"{_shown(path)}, which is read; choose another place"

    for path in outputs:
        key = identity(path)
        if key is None:
            continue
        if key in uses:
            raise ConfigError(f"{_shown(path)}: would be written over {uses[key]}")
        uses[key] = f"{_shown(path)}, which is written too; choose another place for one of them"


def identity(path: str | os.PathLike[str]) -> Hashable:
    """Return a key that all paths to the same file share; None for a pipe, a terminal, or an
    inaccessible file."""
    url = url_of(path)
    if url:
        return same(url)
    try:
        destination = follow(path)
    except (OSError, ValueError):  # reading or writing the file will raise the error
        return None
    status = destination.status
    if status is None:
        return str(destination.path)
    if stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFBLK):
        return status.st_dev, status.st_ino
    return None


def _shown(path: str | os.PathLike[str]) -> str:
    return _NAMES.get(os.fspath(path), shown_path(path))


@contextmanager
def write_atomic(path: str | Path, *, only_file: bool = False) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` when the block ends, and is removed if the block or
    the disk fails.

    path: a link is followed; a pipe or device is written directly; to a URL, the file is uploaded
        at the end
    only_file: raise ConfigError for a pipe or device
    An existing file keeps its mode and, if permitted, its owner. Raises OutputError if the file
    cannot be written, BrokenPipeError if the reader of a pipe has closed it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_atomic(Path(folder, "a.txt")) as file:
    ...         _ = file.write(b"whole")
    ...     os.listdir(folder)
    ['a.txt']
    """
    url = url_of(path)
    is_direct = False
    try:
        if url:
            from volt.files.remote_files import put

            opened = put(url)
        else:
            destination = _follow_to_file(path)
            opened = _open_local(destination)
            is_direct = destination.is_written_through
        if is_direct and only_file:
            raise ConfigError(f"{shown_path(path)}: is a pipe or a device; give the path of a file")
    except (OSError, ValueError) as error:
        raise _write_error(path, error) from None

    try:
        with opened as file:
            yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError) and not url:  # the reader has closed the pipe
            raise
        is_unknown = error.errno == errno.ETIMEDOUT  # the last bytes may have arrived
        raise _write_error(url or path, error, changed=is_direct or is_unknown) from None


@contextmanager
def _open_local(destination: Destination) -> Iterator[BinaryIO]:
    """Open a pipe or a device, or a file that replaces the old one.

    The new file is synced before the old one is replaced, so that a power cut loses at most one.
    """
    if destination.is_written_through:
        if destination.descriptor is None:
            handle = os.open(destination.path, os.O_WRONLY)
        else:
            handle = os.dup(destination.descriptor)
        with os.fdopen(handle, "wb") as file:
            yield file
        return

    old = destination.status
    mode = 0o666
    if old is not None:  # the new file's group may differ
        mode = old.st_mode & 0o700
    with temporary_file(destination.path, mode) as (handle, path):
        with os.fdopen(os.dup(handle), "wb") as file:
            yield file
        if old is not None:
            with suppress(PermissionError):
                os.fchown(handle, old.st_uid, old.st_gid)
            mode = old.st_mode & 0o777
            if os.fstat(handle).st_gid != old.st_gid:  # which gets no more rights than all users
                mode &= 0o707 | (mode & 0o007) << 3
            os.fchmod(handle, mode)
            os.fsync(handle)
        os.replace(path, destination.path)


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write all files or none.

    If the process is killed, only the main file, the last of `contents`, may be missing.

    Raises OutputError if a file cannot be written, ConfigError if one of the other files belongs to
    another output.
    """
    *others, main = contents
    refuse_strays(main, others)
    with ExitStack() as stack:  # the file that is opened first is renamed last
        files = list[BinaryIO]()
        for path in (main, *reversed(others)):
            file = stack.enter_context(write_atomic(path))
            file.write(contents[path])
            files.append(file)
        retire(main, *files)


def refuse_strays(main: Path, others: Iterable[Path]) -> None:
    """Raise ConfigError if one of `others`, the files to be written with `main`, exists, but `main`
    does not."""
    if mark_of(main) is not None:
        return
    for other in others:
        if mark_of(other) is not None:
            raise ConfigError(
                f"{shown_path(other)}: exists, but {shown_path(main)} does not, so it belongs to "
                "another output; choose another name, or remove it"
            )


def retire(path: str | Path, *new_files: BinaryIO) -> None:
    """Sync open new files, then remove the old file at `path`, which one of the new files will
    replace.

    So after a power cut or a kill, the old file never exists together with a new one.
    """
    for file in new_files:
        file.flush()
    if url_of(path):
        return
    old = _follow_to_file(path)
    if old.status is not None and not old.is_written_through:
        for file in new_files:
            os.fsync(file.fileno())
        old.path.unlink(missing_ok=True)


def append(path: str | Path, data: bytes) -> None:
    """Append bytes to a local file.

    Raises OutputError if that fails; some of the bytes may have been written.
    """
    try:
        with open(path, "ab") as file:
            file.write(data)
    except OSError as error:
        raise _write_error(path, error, changed=True) from None


def check_writable(path: str | Path) -> None:
    """Raise OutputError now if `write_atomic` would raise it because a folder or a permission is
    missing."""
    try:
        url = url_of(path)
        if url:
            from volt.files.remote_files import check_can_put

            check_can_put(url)
            return
        destination = _follow_to_file(path)
        if not destination.is_written_through:
            tempfile.TemporaryFile(dir=destination.path.parent).close()
            return
        if destination.descriptor is None:  # opening a pipe would wait for its reader
            can_write = os.access(destination.path, os.W_OK)
        else:
            flags = fcntl.fcntl(destination.descriptor, fcntl.F_GETFL)
            can_write = flags & os.O_ACCMODE != os.O_RDONLY
        if not can_write:
            raise PermissionError(errno.EACCES, "permission denied")
    except (OSError, ValueError) as error:
        raise _write_error(path, error) from None


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Create a folder in an existing one; if the block fails, remove it. Raises OutputError."""
    is_new = not url_of(path) and not path.exists()
    make_folder(path, parents=False)
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):  # it may contain files of other processes
                path.rmdir()
        raise


def make_folder(path: str | Path, *, parents: bool = True) -> None:
    """Create a folder, by default with its parents, unless it exists or is a URL.

    Raises OutputError.
    """
    if url_of(path):
        return
    try:
        Path(plain_path(os.fspath(path))).mkdir(parents=parents, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(
            f"{path}: cannot be created: {reason(error)}; choose another place"
        ) from None


def _follow_to_file(path: str | Path) -> Destination:
    destination = follow(path)
    if destination.status is not None and stat.S_ISDIR(destination.status.st_mode):
        raise IsADirectoryError(21, "is a folder")
    return destination


def _write_error(
    path: str | Path, error: OSError | ValueError, *, changed: bool = False
) -> OutputError:
    end = UNCHANGED
    if changed:
        remedy = getattr(error, "remedy", "")
        end = remedy and f"; {remedy}"
    return OutputError(f"{shown_path(path)}: cannot be written: {reason(error)}{end}")
