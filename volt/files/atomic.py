"""Files that appear whole or not at all: written beside their place, then renamed.

>>> import tempfile, pathlib
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder, "a.txt")
...     with write_atomic(path) as file:
...         _ = file.write(b"whole")
...     path.read_bytes(), [found.name for found in pathlib.Path(folder).iterdir()]
(b'whole', ['a.txt'])
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from volt.errors import OutputError


@contextmanager
def write_atomic(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that takes its place at `path` when the block ends, and vanishes if the block or the disk fails.

    Raises OutputError if the place cannot be written to or the disk is full. A file that was there keeps its mode.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "is a folder")
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise _refusal(path, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
    except OSError as error:
        raise _refusal(path, error) from None
    finally:
        Path(name).unlink(missing_ok=True)


def check_writable(path: str | Path) -> None:
    """Raise OutputError now if `write_atomic` would for want of a folder or a permission; for use before a long job.

    >>> check_writable("a.txt")
    """
    try:
        tempfile.TemporaryFile(dir=Path(path).parent).close()
        if Path(path).is_dir():
            raise IsADirectoryError(21, "is a folder")
    except OSError as error:
        raise _refusal(Path(path), error) from None


def _refusal(path: Path, error: OSError) -> OutputError:
    reason = (error.strerror or str(error)).lower()
    return OutputError(f"{path}: cannot be written: {reason}; nothing was changed. Choose another place")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
