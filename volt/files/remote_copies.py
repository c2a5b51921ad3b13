"""Files of a URL as files of this machine, and the other way round: read as a whole, and written whole or not at all.

>>> with put("memory://copies/a.txt") as file:
...     _ = file.write(b"low")
>>> with at_hand("memory://copies/a.txt", kind=VoltError) as path:
...     path.name, path.read_bytes()
('a.txt', b'low')
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from volt.errors import VoltError, shown_path, unreadable
from volt.files import remote
from volt.files.remote_listing import files_at
from volt.files.remote_reading import RemoteFile
from volt.files.scratch import scratch_folder
from volt.urls import is_web, name_of, url_of

Beside = Callable[[Path], Iterable[Path]]


@contextmanager
def at_hand(path: str | Path, *, kind: type[VoltError], beside: Beside | None = None) -> Iterator[Path]:
    """A path itself; for a URL, that of a copy, which is gone behind the block. A folder is copied with its files.

    beside: of a copy, the files that are copied as well, if they are there
    Messages call a copy by its URL. Raises an error of this kind if it cannot be read.
    """
    if (url := url_of(path)) is None:
        yield Path(path)
        return
    with scratch_folder() as folder:
        copy = folder / (name_of(url) or "file")
        try:
            _fetch(url, copy)
            _fetch_beside(url, copy, beside)
        except OSError as error:
            raise unreadable(url, error, kind=kind) from error
        try:
            yield copy
        except VoltError as error:
            if (message := str(error)) == (told := message.replace(str(folder), shown_path(url.rpartition("/")[0]))):
                raise
            raise type(error)(told) from error


def _fetch_beside(url: str, copy: Path, beside: Beside | None) -> None:
    for other in beside(copy) if beside else ():
        if not other.exists() and other.parent == copy.parent:
            with suppress(FileNotFoundError):
                _fetch(f"{url.rpartition('/')[0]}/{other.name}", other)


def _fetch(url: str, place: Path) -> None:
    """Copy the file of a URL, or all files directly in a folder. Raises OSError if it cannot be read."""
    if not remote.look(url).is_folder:
        with RemoteFile(url) as source, place.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        return
    place.mkdir()
    folder = url.rstrip("/")
    for found in files_at(folder + "/"):
        if "/" not in found.removeprefix(f"{folder}/"):
            _fetch(found, place / name_of(found))


@contextmanager
def put(url: str) -> Iterator[BinaryIO]:
    """A binary file that is sent to a URL when the block ends well, so that it appears there whole or not at all.

    Raises OSError if it cannot be sent.
    """
    check_can_put(url)
    with scratch_folder() as folder:
        copy = folder / "whole"
        with copy.open("w+b") as file:
            yield file
        remote.ask(url, lambda system, path: _send(system, path, copy))


def check_can_put(url: str) -> None:
    """Raise OSError now if nothing can be written to a URL of this kind, or it is a folder."""
    if is_web(url):
        raise OSError(errno.EROFS, "a server of http takes no files")
    remote.system_of(url)
    if url.endswith("/"):
        raise IsADirectoryError(errno.EISDIR, "is a folder")


def _send(system: Any, path: str, copy: Path) -> None:
    system.put_file(os.fspath(copy), path)
