"""A temporary folder that is gone afterwards: at once, or, if the process is killed, when the next one is made.

It lies in the folder that TMPDIR names, and nowhere else; where TMPDIR is not set, in the one that the system has.

>>> with scratch_folder() as folder:
...     _ = Path(folder, "words.tsv").write_text("low\\t5\\n")
>>> folder.exists()
False
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from volt.errors import OutputError, reason, shown_path


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for the length of a block; it is locked, so that nobody takes it for that of a dead process.

    Those of this user's dead processes are removed. Raises OutputError if there can be none.
    """
    asked, prefix = os.environ.get("TMPDIR"), f"volt-{os.getuid()}-"
    try:
        place = os.path.abspath(asked or tempfile.gettempdir())
        for path in Path(place).glob(f"{prefix}*"):
            _sweep(path)
        handle, folder = _locked(place, prefix)
    except OSError as error:
        name = f"TMPDIR={shown_path(asked)}" if asked else "temporary files"
        raise OutputError(
            f"{name}: no folder can be made there: {reason(error)}; set TMPDIR to a folder that can be written"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _locked(place: str, prefix: str) -> tuple[int, Path]:
    """A descriptor that holds the lock of a new folder, and the folder."""
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
    """Remove a folder of this user that nobody holds."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_uid == os.getuid():
                shutil.rmtree(folder)
        finally:
            os.close(handle)
