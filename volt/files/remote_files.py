"""Read the whole content of URLs, copy URLs to local files, and upload local files.

`RemoteFile` reads a URL like an open file, by byte ranges that threads request ahead. If a server
supports no ranges, or does not state the size, it reads one answer; if that answer breaks off, it
requests the URL again and skips the bytes that it has already returned. `volt.files.remote` retries
single requests. If the file changes while it is read, an error is raised.
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

HEAD_SIZE = 64 << 10  # bytes of the first range, which often suffices
STEP_SIZE = 8 << 20  # bytes of the other ranges
_PIECE_SIZE = 1 << 20  # bytes read or copied at a time
_N_THREADS = 3  # ranges read at a time


class RemoteFile:
    """A URL open for unbuffered reading from start to end. Raises OSError if it is not a file."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = remote.look(url)
        if self.status.is_folder:
            raise IsADirectoryError(
                errno.EISDIR, "is a folder; name the files in it, or the folder as a source"
            )
        self._pieces = self._read_pieces()
        self._unread = memoryview(b"")  # the end of a piece

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, b"" at the end; without a size, all remaining bytes."""
        if size < 0:
            return b"".join([self._unread, *self._pieces])
        if size and not self._unread:
            self._unread = memoryview(next(self._pieces, b""))
        data = bytes(self._unread[:size])
        self._unread = self._unread[size:]
        return data

    def close(self) -> None:
        """Stop reading."""
        self._pieces.close()

    def _read_pieces(self) -> Generator[bytes, None, None]:
        n_bytes = 0
        try:
            for piece in self._read_ranges():
                yield piece
                n_bytes += len(piece)
        except NoRangesError:
            yield from prefetch(self._read_answers(n_bytes))
            if self.status.size is None:
                return
        if n_bytes > HEAD_SIZE:
            self._check_unchanged()

    def _check_unchanged(self) -> None:
        if remote.look(self.url) != self.status:
            raise ChangedError(errno.ESTALE, "changed while it was read")

    def _read_ranges(self) -> Iterator[bytes]:
        size = self.status.size
        if size is None:
            raise NoRangesError
        yield self._read_range((0, min(HEAD_SIZE, size)))
        if size > HEAD_SIZE:  # before any thread, to learn whether the server supports ranges
            yield self._read_range((HEAD_SIZE, min(STEP_SIZE, size)))
        starts = range(STEP_SIZE, size, STEP_SIZE)
        ranges = [(start, min(start + STEP_SIZE, size)) for start in starts]
        yield from in_order(self._read_range, ranges, n_threads=_N_THREADS)

    def _read_range(self, bounds: tuple[int, int]) -> bytes:
        start, end = bounds
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

    def _read_answers(self, n_returned: int) -> Iterator[bytes]:
        """Yield the bytes after the first `n_returned` ones; request the URL again when an answer
        breaks off."""
        retries = Retries(self.url)
        n_before = n_returned  # at the last failure
        while True:
            try:
                for piece in self._read_answer(n_returned):
                    yield piece
                    n_returned += len(piece)
                if self.status.size is None or n_returned == self.status.size:
                    return
                self._check_unchanged()
                message = f"the answer ended after {n_returned:,} of {self.status.size:,} bytes"
                raise ServerError(errno.EIO, message)
            except Exception as error:
                if n_returned > n_before:  # the server works again
                    retries = Retries(self.url)
                    n_before = n_returned
                remote.pause(retries, error)

    def _read_answer(self, n_skipped: int) -> Iterator[bytes]:
        """Request the whole file, and yield its bytes after the first `n_skipped` ones."""
        system, path = remote.system_of(self.url)
        with system.open(path, block_size=0) as file:
            while piece := bytes(file.read(_PIECE_SIZE)):
                if n_skipped < len(piece):
                    yield piece[n_skipped:]
                n_skipped = max(0, n_skipped - len(piece))


Beside = Callable[[Path], Iterable[Path]]


@contextmanager
def local_copy(
    path: str | Path, *, kind: type[VoltError], beside: Beside | None = None
) -> Iterator[Path]:
    """Yield a local path unchanged; for a URL, yield the path of a temporary copy, which is removed
    afterwards.

    kind: the class of the error for a URL that cannot be read; VoltErrors of the block name the
        URL, not the copy
    beside: a function from the path of the copy to paths in the same folder. Files with these names
        are copied from the URL's folder, too, if they exist.
    """
    url = url_of(path)
    if not url:
        yield Path(path)
        return
    url_folder = url.rpartition("/")[0]
    with scratch_folder() as folder:
        copy = folder / (name_of(url) or "file")
        try:
            _download(url, copy)
            others = beside(copy) if beside else ()
            for other in others:
                if not other.exists() and other.parent == folder:
                    with suppress(FileNotFoundError):
                        _download(f"{url_folder}/{other.name}", other)
        except OSError as error:
            raise unreadable(url, error, kind=kind) from error

        try:
            yield copy
        except VoltError as error:
            message = error.message.replace(str(folder), shown_path(url_folder))
            if message == error.message:
                raise
            raise error.reworded(message) from error


def _download(url: str, path: Path) -> None:
    """Download a file, or a folder with the files directly in it."""
    if not remote.look(url).is_folder:
        with RemoteFile(url) as source, path.open("wb") as file:
            shutil.copyfileobj(source, file, _PIECE_SIZE)
        return
    path.mkdir()
    folder = url.rstrip("/") + "/"
    for file_url in files_at(folder):
        if "/" not in file_url.removeprefix(folder):
            _download(file_url, path / name_of(file_url))


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
