"""Write files and folders whole or not at all, and never over an input.

A file is written under a temporary name in the folder of its path, then renamed. Links are followed first. A pipe or
a device is written directly: it has no old contents to protect, and its reader would not see a new file. Inputs and
outputs of a job are compared by device and inode before any work starts; a path without a file is compared by its
resolved spelling.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder, "a.txt")
...     with write_atomic(path) as file:
...         _ = file.write(b"whole")
...     path.read_bytes(), [entry.name for entry in Path(folder).iterdir()]
(b'whole', ['a.txt'])
>>> check_distinct(["/dev/null", "a.out"], ["/dev/null", "a.txt"])
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
from volt.files.temporary import TempFile
from volt.urls import plain_path, same, url_of

_MOST_LINKS = 40  # as many as Linux follows


@dataclass(frozen=True, slots=True)
class Destination:
    """The file that writing to a path changes.

    path: with all links resolved
    status: of what is there; None if nothing is
    descriptor: the open descriptor that the path stands for, as /dev/stdout stands for 1
    """

    path: Path
    status: os.stat_result | None
    descriptor: int | None = None

    @property
    def is_written_through(self) -> bool:
        """Whether writing goes into the existing file, such as a pipe, instead of replacing it."""
        kind = stat.S_IFREG if self.status is None else stat.S_IFMT(self.status.st_mode)
        return self.descriptor is not None or kind not in (stat.S_IFREG, stat.S_IFDIR)


def follow(path: str | os.PathLike[str]) -> Destination:
    """Return where writing to a path ends. Raises OSError where links lead nowhere, ValueError if the path holds a NUL.

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
    folder, name = os.path.split(path)
    return Path(os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(folder), name))


def _is_descriptor(place: Path) -> bool:
    """Check whether a place is one of this process's descriptors, where /dev/stdout and /dev/fd lead on Linux."""
    return place.name.isdecimal() and str(place.parent) in (f"/proc/{os.getpid()}/fd", "/dev/fd")


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
    """Return a key that all paths to one file share; None for a pipe, a terminal, or a file that cannot be looked at.

    >>> identity(__file__) == identity(os.path.realpath(__file__)), identity("/dev/null")
    (True, None)
    """
    if (url := url_of(path)) is not None:
        return same(url)
    try:
        place = follow(path)
    except (OSError, ValueError):  # raised where it is read or written
        return None
    if place.status is None:
        return str(place.path)
    kind = place.status.st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISBLK(kind):
        return place.status.st_dev, place.status.st_ino
    return None


def _shown(path: str | os.PathLike[str]) -> str:
    return _SHOWN.get(os.fspath(path), shown_path(os.fspath(path)))


UNCHANGED = "; nothing was changed. Choose another place"  # at the end of an error: what is there is as it was


@contextmanager
def write_atomic(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that takes its place at `path` when the block ends, and vanishes if the block or the disk fails.

    A link stays, and what it leads to is replaced. What is no regular file, such as a pipe, a device or /dev/stdout, is
    written straight through. A file that was there keeps its mode, and its owner if this process may give files away;
    nobody who may not read it may read the new one while it is written. Another file gets the mode that open() gives.

    A URL is sent what was written when the block ends.

    Raises OutputError if the place cannot be written to or the disk is full, BrokenPipeError if the reader of a pipe
    has gone.

    >>> with write_atomic("/nowhere/a.txt") as file:
    ...     pass
    Traceback (most recent call last):
        ...
    volt.errors.OutputError: /nowhere/a.txt: cannot be written: no such file or directory; nothing was changed. Choose
    another place
    """
    if (url := url_of(path)) is not None:
        with _sent(url) as file:
            yield file
        return
    try:
        place = _followed(path)
    except (OSError, ValueError) as error:
        raise _refusal(path, error) from None
    try:
        with _through(place) if place.is_written_through else _replaced(place) as file:
            yield file
    except BrokenPipeError:  # the reader has had enough
        raise
    except OSError as error:
        raise _refusal(path, error, changed=place.is_written_through) from None


@contextmanager
def _sent(url: str) -> Iterator[BinaryIO]:
    """A file that is sent to a URL when the block ends well."""
    from volt.files.remote_files import put

    try:
        with put(url) as file:
            yield file
    except OSError as error:
        raise _refusal(url, error) from None


@contextmanager
def _through(place: Destination) -> Iterator[BinaryIO]:
    """Open the existing file for writing. A descriptor is shared, so other writers continue after this text."""
    handle = os.open(place.path, os.O_WRONLY) if place.descriptor is None else os.dup(place.descriptor)
    with os.fdopen(handle, "wb") as file:
        yield file


@contextmanager
def _replaced(place: Destination) -> Iterator[BinaryIO]:
    """A new file that takes the place when the block ends well.

    What replaces a file is on the disk before it takes its name: a power cut must leave the old one or the new one. A
    file that is new is not waited for, as no tool waits for what can be made again (experiments/LOG.md).
    """
    old = place.status
    part = TempFile(place.path, 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o700)  # its group may be another
    try:
        with os.fdopen(os.dup(part.handle), "wb") as file:
            yield file
        if old is not None:
            _make_alike(part.handle, old)
            os.fsync(part.handle)
        os.replace(part.path, place.path)
    finally:
        part.close()


def _make_alike(handle: int, old: os.stat_result) -> None:
    """Give a new file the owner, the group and the mode of an old one, as far as this process may."""
    with suppress(PermissionError):
        os.fchown(handle, old.st_uid, old.st_gid)
    mode = stat.S_IMODE(old.st_mode) & 0o777
    if os.fstat(handle).st_gid != old.st_gid:
        mode &= 0o707 | (mode & 0o007) << 3  # what its group may do is not for another
    os.fchmod(handle, mode)


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together: all of them or, if one cannot be written, none.

    contents: the bytes of each; the last is the file that the others belong to
    A kill at any moment leaves the old files, the new ones, or no last one, without which the others are not read.
    Raises OutputError as `write_atomic` does.

    >>> write_together({Path("/nowhere/a"): b"low"})
    Traceback (most recent call last):
        ...
    volt.errors.OutputError: /nowhere/a: cannot be written: no such file or directory; nothing was changed. Choose
    another place
    """
    with ExitStack() as places:  # the first to be opened takes its place last
        files = [(path, places.enter_context(write_atomic(path))) for path in reversed([*contents])]
        for path, file in files:
            file.write(contents[path])
        retire(files[0][0], *(file for _, file in files))


def retire(path: str | Path, *new: BinaryIO) -> None:
    """Remove an old file before new ones take its place and those of its parts, once none can fail for want of room.

    path: of the file without which its parts are not read
    new: what `write_atomic` gave for the file and its parts
    """
    for file in new:
        file.flush()
    if url_of(path) is None and (old := _followed(path)).status is not None and not old.is_written_through:
        for file in new:
            os.fsync(file.fileno())
        old.path.unlink(missing_ok=True)


def append(path: str | Path, data: bytes) -> None:
    """Add bytes to the end of a file. A process that is killed later loses none of them; a power cut may.

    path: of a local file
    data: to add
    Raises OutputError if the place cannot be written to or the disk is full; some of the bytes may be there then.

    >>> append("/nowhere/a.txt", b"low")
    Traceback (most recent call last):
        ...
    volt.errors.OutputError: /nowhere/a.txt: cannot be written: no such file or directory
    """
    try:
        with open(path, "ab") as file:
            file.write(data)
    except OSError as error:
        raise _refusal(path, error, changed=True) from None


def check_writable(path: str | Path) -> None:
    """Raise OutputError now if `write_atomic` would for want of a folder or a permission; for use before a long job.

    >>> check_writable("a.txt")
    """
    try:
        if (url := url_of(path)) is not None:
            _check_sendable(url)
            return
        place = _followed(path)
        if place.is_written_through:
            _check_open(place)
        else:
            tempfile.TemporaryFile(dir=place.path.parent).close()
    except (OSError, ValueError) as error:
        raise _refusal(path, error) from None


def _check_sendable(url: str) -> None:
    from volt.files.remote_files import check_can_put

    check_can_put(url)


def _check_open(place: Destination) -> None:
    """Raise OSError if what is there may not be written to. A pipe is not opened, which would wait for its reader."""
    if place.descriptor is not None:
        can_write = fcntl.fcntl(place.descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    else:
        can_write = os.access(place.path, os.W_OK)
    if not can_write:
        raise PermissionError(13, "permission denied")


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Make a folder in an existing one for the files of the block. If the block fails, it is as it was before.

    Raises OutputError as `make_folder` does.
    """
    is_new = url_of(path) is None and not path.exists()
    make_folder(path, parents=False)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # others have put files there meanwhile
            if is_new:
                path.rmdir()
        raise


def make_folder(path: str | Path, *, parents: bool = True) -> None:
    """Make a folder, and those that it lies in, where there is none yet. Raises OutputError if that cannot be.

    Behind a URL there is nothing to make: a folder is there with the first file in it.

    parents: False makes none of those that it lies in.

    >>> make_folder("/dev/null/plots")
    Traceback (most recent call last):
        ...
    volt.errors.OutputError: /dev/null/plots: cannot be made: not a directory; choose another place
    """
    if url_of(path) is not None:
        return
    try:
        Path(plain_path(os.fspath(path))).mkdir(parents=parents, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: cannot be made: {reason(error)}; choose another place") from None


def _followed(path: str | Path) -> Destination:
    """Return where writing to a path ends. Raises OSError if that is a folder."""
    place = follow(path)
    if place.status is not None and stat.S_ISDIR(place.status.st_mode):
        raise IsADirectoryError(21, "is a folder")
    return place


def _refusal(path: str | Path, error: OSError | ValueError, *, changed: bool = False) -> OutputError:
    return OutputError(f"{shown_path(path)}: cannot be written: {reason(error)}{'' if changed else UNCHANGED}")
