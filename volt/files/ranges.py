r"""Divide files between workers (`FileRange`), and uncompressed files between threads (`FileSpan`).

A range may start and stop anywhere, even within a line. A line belongs to the range that contains
the line's first byte. So the ranges of bytes 0–4 and 5–13 of b"low\nlower\nnew\n" contain the lines
"low", "lower" and the line "new": "lower" starts at byte 4. Workers need not agree on line ends:
each searches for its own first and last line.

A span starts and stops at line ends, which are searched for when the file is divided. So a thread
only reads its bytes.

A compressed file cannot be read from the middle. A worker decompresses it from the start, and uses
the lines of its range only. Bytes of a range are converted to bytes of text by `text_ratio`; see
`FileRange`.
"""

# Files are not memory-mapped, because the process would be killed if a file became shorter.

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.errors import CorpusError, VoltError, unreadable
from volt.files import remote
from volt.files.blocks import (
    BLOCK_SIZE,
    Block,
    Errors,
    ReadProgress,
    Wait,
    checked_blocks,
    join_into_blocks,
    read_blocks,
    shortened_error,
)
from volt.files.decompression import LONGEST_MAGIC, find_decoder
from volt.files.small_files import is_compressed
from volt.files.text_checks import (
    BYTE_ORDER_MARK,
    HEAD_SIZE,
    count_lines,
    find_long_line,
    refuse_binary,
    refuse_long,
)
from volt.urls import plain_path, url_of

RANGE_SIZE = 64 << 20  # bytes
_RATIO_SAMPLE = 4 << 20  # bytes of text from which a file's `text_ratio` is estimated
_SEARCH_STEP = 1 << 12  # bytes read at first to find a line end
_COUNT_STEP = 1 << 20  # bytes read at a time to count lines
# The number of a range's first line while its lines before are not counted: any but 1, the line of a byte order mark.
_PLACEHOLDER = 2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileRange:
    """The lines whose first byte is at `start` or later, but before `stop`, in a file of
    `file_size` bytes.

    version: the version of a URL (`RemoteStat.version`); 0 for a local file
    text_ratio: for a compressed file, the approximate number of bytes of text for each byte of the
        file; otherwise 0. The lines then start at byte `text_ratio · start` of the text or later,
        before byte `text_ratio · stop`; the file's last range extends to the end. As all ranges use
        one ratio, they share no line and omit none.
    first_line: the number of the first line, or a placeholder; see `with_line_numbers`
    """

    path: str
    start: int
    stop: int
    file_size: int
    version: int = 0
    text_ratio: float = 0
    first_line: int = _PLACEHOLDER

    def __len__(self) -> int:
        return self.stop - self.start

    def open(self) -> RandomAccessFile:
        stamp = None
        if url_of(self.path):
            stamp = self.file_size, self.version
        return RandomAccessFile(self.path, stamp=stamp)


def divide_file(path: str, *, size: int = RANGE_SIZE) -> list[FileRange]:
    """Return ranges of `size` bytes (the last may be shorter); [] if the file is smaller or cannot
    be divided.

    A URL can be divided if its server supports ranges, and sends an ETag or a time by which a
    change is detected.
    """
    step = arguments.whole(size, "size", low=1)
    with suppress(CorpusError, OSError):  # reading the file will report the error
        url = url_of(path)
        if url:
            name = url
            file_size, version = remote.look(url).stamp
            is_divisible = file_size > step and _is_divisible_url(url, version)
        else:
            name = plain_path(path)
            version = 0
            file_size = os.path.getsize(name)
            is_divisible = file_size > step and open_divisible(name) is not None
        if is_divisible:
            starts = range(0, file_size, step)
            return [
                FileRange(name, start, min(file_size, start + step), file_size, version)
                for start in starts
            ]
    return []


def _is_divisible_url(url: str, version: int) -> bool:
    if not version or find_decoder(remote.read_range(url, 0, LONGEST_MAGIC)):
        return False
    return remote.has_ranges(url)


def divide_compressed_file(path: str, n_ranges: int) -> list[FileRange]:
    r"""Divide a compressed local file into ranges of about equally much text; return [] for any
    other file.

    >>> import gzip, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(gzip.compress(b"low\nlower\n")) and file.flush()
    ...     [[block.data for block in read_range(part)] for part in divide_compressed_file(file.name, 2)]
    [[b'low\nlower\n'], []]
    """
    with suppress(CorpusError, OSError):  # reading the file will report the error
        if url_of(path) is None and is_compressed(path):
            file_size = os.path.getsize(plain_path(path))
            bounds = pairwise(file_size * number // n_ranges for number in range(n_ranges + 1))
            for block in read_blocks(path, block_size=_RATIO_SAMPLE, checked=False, max_line=None):
                ratio = max(1, len(block.data)) / block.n_raw_bytes
                return [
                    FileRange(path, start, stop, file_size, text_ratio=ratio)
                    for start, stop in bounds
                ]
    return []


def read_range(
    part: FileRange,
    *,
    block_size: int = BLOCK_SIZE,
    errors: Errors = "strict",
    max_line: int | None = MAX_LINE,
) -> Iterator[Block]:
    """Yield the lines of a range as blocks. The options are those of `read_blocks`."""
    read = _read_compressed if part.text_ratio else _read_uncompressed
    for block in read(part, block_size=block_size, max_line=max_line):
        yield from checked_blocks(block, errors)


def path_of(source: str | FileRange) -> str:
    return source if isinstance(source, str) else source.path


def read_source(
    source: str | FileRange, *, wait: Wait | None = None, checked: bool = True, **reading: Any
) -> Iterator[Block]:
    """Return the blocks of a file, or of a range, which is always checked and never a pipe.

    wait, checked, reading: arguments of `read_blocks`
    """
    if isinstance(source, FileRange):
        return read_range(source, **reading)
    return read_blocks(source, wait=wait, checked=checked, **reading)


def with_line_numbers(part: FileRange, read: Callable[[FileRange], T]) -> T:
    """Return `read(part)`; if that raises, call `read` again with the number of the range's first
    line.

    So errors contain the file's line numbers, but lines before a range are counted only for an
    error.
    """
    try:
        return read(part)
    except VoltError:
        if not part.start or part.text_ratio:
            raise
    file = part.open()
    return read(replace(part, first_line=file.line_number(_first_line_start(file, part))))


def _read_uncompressed(
    part: FileRange, *, block_size: int, max_line: int | None
) -> Iterator[Block]:
    file = part.open()
    refuse_binary(part.path, file.read_some(0, min(HEAD_SIZE, part.file_size)))
    longest_line = (max_line or part.file_size) + len(BYTE_ORDER_MARK)
    limit = min(part.file_size, part.stop + longest_line)
    progress = ReadProgress(part.path, _first_line_start(file, part))
    return join_into_blocks(
        _read_pieces(file, part, progress, limit=limit, size=block_size),
        progress,
        block_size=block_size,
        max_line=max_line,
        first_line=part.first_line if part.start else 1,
    )


def _read_pieces(
    file: RandomAccessFile, part: FileRange, progress: ReadProgress, *, limit: int, size: int
) -> Iterator[bytes]:
    """Yield the bytes of a range's lines, `size` bytes at a time, from `progress.n_raw_bytes` on.

    limit: the byte at which the search for the end of the last line stops, because that line is too
        long
    """
    if progress.n_raw_bytes == part.stop:
        return  # no line starts in the range
    end = file.next_line_start(part.stop, limit)
    while progress.n_raw_bytes < end:
        piece = file.read_some(progress.n_raw_bytes, min(size, end - progress.n_raw_bytes))
        progress.n_raw_bytes += len(piece)
        yield piece
    file.check_unchanged()


def _first_line_start(file: RandomAccessFile, part: FileRange) -> int:
    if not part.start:
        return 0
    return file.next_line_start(part.start, part.stop)


def _read_compressed(part: FileRange, *, block_size: int, max_line: int | None) -> Iterator[Block]:
    text_start = int(part.start * part.text_ratio)
    text_stop: float = int(part.stop * part.text_ratio)
    if part.stop == part.file_size:
        text_stop = math.inf
    block_start = 0  # in the text
    for block in read_blocks(part.path, block_size=block_size, checked=False, max_line=max_line):
        first = _next_line_start(block.data, text_start - block_start)
        end = _next_line_start(block.data, text_stop - block_start)
        if first < end:
            data = block.data[first:end]
            yield replace(
                block,
                first_line=block.first_line + count_lines(block.data[:first]),
                n_lines=count_lines(data),
                data=data,
            )
        block_start += len(block.data)
        if block_start >= text_stop:
            return


def _next_line_start(lines: bytes, offset: float) -> int:
    """Return the first byte at `offset` or later at which a line starts; the length if no line
    starts there."""
    if offset <= 0:
        return 0
    if offset > len(lines):
        return len(lines)
    return lines.find(b"\n", int(offset) - 1) + 1 or len(lines)


class RandomAccessFile:
    """A local file, or a URL, of which any bytes can be read.

    It is closed when its last reference disappears.

    stamp: the size and version of a URL; None for a local file. Reading fails if the URL has
        changed since.
    """

    def __init__(self, path: str, *, stamp: tuple[int, int] | None = None) -> None:
        self.path = path
        self.descriptor = -1
        self._stamp = stamp
        if stamp is None:
            with self._naming_errors():
                self.descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            with suppress(OSError):  # all data has been read
                os.close(self.descriptor)

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise unreadable(self.path, error, kind=CorpusError) from error

    def read(self, start: int, size: int) -> bytes:
        with self._naming_errors():
            if self._stamp is None:
                return os.pread(self.descriptor, size, start)
            return remote.read_range(self.path, start, size)

    def read_some(self, start: int, size: int) -> bytes:
        """Return from 1 to `size` bytes. Raises CorpusError at the end of the file."""
        data = self.read(start, size)
        if not data:
            raise shortened_error(self.path)
        return data

    def read_into(self, start: int, memory: memoryview) -> None:
        """Fill `memory` with a local file's bytes. Raises CorpusError if the file has too few."""
        done = 0
        while done < len(memory):
            with self._naming_errors():
                n_bytes = os.preadv(self.descriptor, [memory[done:]], start + done)
            if not n_bytes:
                raise shortened_error(self.path)
            done += n_bytes

    def next_line_start(self, offset: int, limit: int) -> int:
        r"""Return the first byte at `offset` (1 or more) or later at which a line starts; at most
        `limit`.

        A line starts after each b"\n", so the search begins at the byte before `offset`.
        """
        position = offset - 1
        size = _SEARCH_STEP
        while position < limit:
            piece = self.read_some(position, min(size, limit - position))
            index = piece.find(b"\n")
            if index >= 0:
                return position + index + 1
            position += len(piece)
            size = min(2 * size, _COUNT_STEP)
        return limit

    def line_number(self, line_start: int) -> int:
        """Return the number, from 1, of the line that starts at this byte."""
        line = 1
        for start in range(0, line_start, _COUNT_STEP):
            line += self.read(start, min(_COUNT_STEP, line_start - start)).count(b"\n")
        return line

    def check_unchanged(self) -> None:
        """Raise CorpusError if the file of a URL has changed since it was divided."""
        with self._naming_errors():
            if self._stamp is not None and remote.look(self.path).stamp != self._stamp:
                raise remote.ChangedError(errno.ESTALE, "changed while it was read")


@dataclass(frozen=True, slots=True)
class FileSpan:
    """Consecutive whole lines of a local file, of at most `max_line` bytes each."""

    file: RandomAccessFile
    start: int
    size: int
    max_line: int | None = None

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        memory = bytearray(self.size)
        self.read_into(memoryview(memory))
        return bytes(memory)

    def read_into(self, memory: memoryview) -> None:
        """Fill `memory` with the span.

        Raises CorpusError if the file became shorter, or a line is too long.
        """
        self.file.read_into(self.start, memory)
        if self.max_line is None or self.size <= self.max_line:
            return
        text = bytes(memory)
        if find_long_line(text, self.max_line) >= 0:
            line = self.file.line_number(self.start)
            refuse_long(text, self.max_line, path=self.file.path, first_line=line)

    def block(self) -> Block:
        """Return the span as a block with the number of its first line, for errors."""
        line = self.file.line_number(self.start)
        return Block(self.file.path, line, 0, bytes(self), self.start + self.size)


def open_divisible(path: str) -> RandomAccessFile | None:
    """Open a local file if it can be divided: a regular file that is not empty or compressed;
    otherwise, return None."""
    if path == "-" or not hasattr(os, "preadv"):
        return None
    if not os.path.isfile(path) or not os.path.getsize(path):
        return None
    file = RandomAccessFile(path)
    if find_decoder(file.read(0, LONGEST_MAGIC)):
        return None
    return file


def divide_into_spans(
    file: str | RandomAccessFile, *, size: int, max_line: int | None = MAX_LINE
) -> Iterator[FileSpan]:
    """Divide an uncompressed file, without its byte order mark, into spans of about `size` bytes.

    Raises CorpusError if the file cannot be read or is binary.
    """
    if isinstance(file, str):
        file = RandomAccessFile(file)
    max_line = checked_max_line(max_line)
    head = file.read(0, HEAD_SIZE)
    refuse_binary(file.path, head)

    file_size = os.fstat(file.descriptor).st_size
    start = 0
    if head.startswith(BYTE_ORDER_MARK):
        start = len(BYTE_ORDER_MARK)
    while start < file_size:
        stop = start + size
        if stop < file_size:
            limit = min(file_size, stop + (max_line or file_size))  # a longer line is an error
            stop = file.next_line_start(stop, limit)
        stop = min(stop, file_size)
        yield FileSpan(file, start, stop - start, max_line)
        start = stop
