"""Read URLs from start to end, fetch them as local files, and upload files completely or not at all.

A URL is read by ranges in threads, or in one request if the server supports no ranges. If the file changes while it is
read, an error is raised.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from volt.errors import VoltError, shown_path, unreadable
from volt.files import remote
from volt.files.remote import ChangedError, NoRangesError, files_at
from volt.files.retries import Retries, ServerError
from volt.files.temporary import scratch_folder
from volt.files.threads import in_order, prefetch
from volt.urls import is_web, name_of, url_of

HEAD = 64 << 10  # bytes of the first range, which often suffices
STEP = 8 << 20  # bytes of the other ranges
_N_THREADS = 3  # ranges read at a time


class RemoteFile:
    """A URL open for unbuffered reading. Raises OSError if it is not a file."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = remote.look(url)
        if self.status.is_folder:
            raise IsADirectoryError(
                errno.EISDIR, "is a folder; name the files in it, or the folder as a source"
            )
        self._pieces = self._all()
        self._rest = memoryview(b"")

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, b"" at the end; without a size, all remaining bytes."""
        if size < 0:
            return b"".join([bytes(self._rest), *self._pieces])
        if size and not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        data = bytes(self._rest[:size])
        self._rest = self._rest[size:]
        return data

    def close(self) -> None:
        """Stop reading."""
        self._pieces.close()

    def _all(self) -> Generator[bytes, None, None]:
        done = 0
        try:
            for piece in self._ranges():
                yield piece
                done += len(piece)
        except NoRangesError:
            yield from prefetch(self._in_one_go(done))
            if self.status.size is None:
                return
        if done > HEAD:
            self._check_unchanged()

    def _check_unchanged(self) -> None:
        if remote.look(self.url) != self.status:
            raise ChangedError(errno.ESTALE, "changed while it was read")

    def _ranges(self) -> Iterator[bytes]:
        size = self.status.size
        if size is None:
            raise NoRangesError
        yield self._range((0, min(HEAD, size)))
        if size > HEAD:  # before any thread, to learn whether the server supports ranges
            yield self._range((HEAD, min(STEP, size)))
        spans = [(start, min(start + STEP, size)) for start in range(STEP, size, STEP)]
        yield from in_order(self._range, spans, n_threads=_N_THREADS)

    def _range(self, span: tuple[int, int]) -> bytes:
        start, end = span
        try:
            data = remote.read_range(self.url, start, end - start)
            if len(data) != end - start:
                message = f"the server sent {len(data):,} of {end - start:,} bytes"
                raise ServerError(errno.EIO, message)
        except ServerError as error:
            if error.errno != errno.ETIMEDOUT:
                self._check_unchanged()
            raise
        return data

    def _in_one_go(self, done: int) -> Iterator[bytes]:
        retries = Retries(self.url)
        start = done
        while True:
            try:
                for piece in self._answer(done):
                    yield piece
                    done += len(piece)
                if self.status.size is None or done == self.status.size:
                    return
                self._check_unchanged()
                message = f"the answer ended after {done:,} of {self.status.size:,} bytes"
                raise ServerError(errno.EIO, message)
            except Exception as error:
                if done > start:  # the server works again
                    retries = Retries(self.url)
                    start = done
                remote.pause(retries, error)

    def _answer(self, passed: int) -> Iterator[bytes]:
        """Yield the bytes of one answer after the first `passed` ones."""
        system, path = remote.system_of(self.url)
        with system.open(path, block_size=0) as file:
            while piece := bytes(file.read(1 << 20)):
                if passed < len(piece):
                    yield piece[passed:]
                passed = max(0, passed - len(piece))


Beside = Callable[[Path], Iterable[Path]]


@contextmanager
def local_copy(
    path: str | Path, *, kind: type[VoltError], beside: Beside | None = None
) -> Iterator[Path]:
    """Yield a local path unchanged; for a URL, the path of a temporary copy. Errors name the URL.

    beside: path of the copy → paths next to it; files of these names in the URL's folder, if any, are fetched, too
    """
    url = url_of(path)
    if not url:
        yield Path(path)
        return
    url_folder = url.rpartition("/")[0]
    with scratch_folder() as folder:
        copy = folder / (name_of(url) or "file")
        try:
            _fetch(url, copy)
            others = beside(copy) if beside else ()
            for other in others:
                if not other.exists() and other.parent == folder:
                    with suppress(FileNotFoundError):
                        _fetch(f"{url_folder}/{other.name}", other)
        except OSError as error:
            raise unreadable(url, error, kind=kind) from error

        try:
            yield copy
        except VoltError as error:
            message = error.message.replace(str(folder), shown_path(url_folder))
            if message == error.message:
                raise
            raise error.reworded(message) from error


def _fetch(url: str, place: Path) -> None:
    if not remote.look(url).is_folder:
        with RemoteFile(url) as source, place.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        return
    place.mkdir()
    start = url.rstrip("/") + "/"
    for path in files_at(start):
        if "/" not in path.removeprefix(start):
            _fetch(path, place / name_of(path))


@contextmanager
def put(url: str) -> Iterator[BinaryIO]:
    """Open a binary file that is uploaded when the block ends without an error. Raises OSError."""
    check_can_put(url)
    with scratch_folder() as folder:
        copy = folder / "whole"
        with copy.open("w+b") as file:
            yield file
        remote.put_file(copy, url)


def check_can_put(url: str) -> None:
    """Raise OSError now if a URL cannot be written to."""
    if is_web(url):
        raise OSError(errno.EROFS, "an HTTP server accepts no files")
    remote.system_of(url)
    if url.endswith("/"):
        raise IsADirectoryError(errno.EISDIR, "is a folder")
