"""Files that appear whole or not at all: written beside their place, then renamed; and folders to put them in.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder, "a.txt")
...     with write_atomic(path) as file:
...         _ = file.write(b"whole")
...     path.read_bytes(), [found.name for found in Path(folder).iterdir()]
(b'whole', ['a.txt'])
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from volt.errors import OutputError, reason


@contextmanager
def write_atomic(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that takes its place at `path` when the block ends, and vanishes if the block or the disk fails.

    Raises OutputError if the place cannot be written to or the disk is full. A file that was there keeps its mode, and
    nobody who may not read it may read the new one while it is written. Another file gets the mode that open() gives.

    >>> with write_atomic("/nowhere/a.txt") as file:
    ...     pass
    Traceback (most recent call last):
        ...
    volt.errors.OutputError: /nowhere/a.txt: cannot be written: no such file or directory; nothing was changed. Choose
    another place
    """
    path = Path(path)
    part = path.parent / f".{path.name}.{os.urandom(4).hex()}.part"
    try:
        _refuse_folder(path)
        mode = _mode(path)
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
    except OSError as error:
        raise _refusal(path, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if (mode := _mode(path)) is not None:
            os.chmod(part, mode)  # the process's umask may have taken bits from it
        os.replace(part, path)
    except OSError as error:
        raise _refusal(path, error) from None
    finally:
        part.unlink(missing_ok=True)


def check_writable(path: str | Path) -> None:
    """Raise OutputError now if `write_atomic` would for want of a folder or a permission; for use before a long job.

    >>> check_writable("a.txt")
    """
    try:
        tempfile.TemporaryFile(dir=Path(path).parent).close()
        _refuse_folder(Path(path))
    except OSError as error:
        raise _refusal(Path(path), error) from None


def make_folder(path: str | Path, *, parents: bool = True) -> None:
    """Make a folder, and those that it lies in, where there is none yet. Raises OutputError if that cannot be.

    parents: False makes none of those that it lies in.

    >>> make_folder("/dev/null/plots")
    Traceback (most recent call last):
        ...
    volt.errors.OutputError: /dev/null/plots: cannot be made: not a directory; choose another place
    """
    try:
        Path(path).mkdir(parents=parents, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be made: {reason(error)}; choose another place") from None


def _mode(path: Path) -> int | None:
    """The permissions of the file at `path`; None if there is none."""
    return stat.S_IMODE(path.stat().st_mode) & 0o777 if path.exists() else None


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(21, "is a folder")


def _refusal(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot be written: {reason(error)}; nothing was changed. Choose another place")
