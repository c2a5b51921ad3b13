"""Divide files and URLs between workers into ranges, and uncompressed files between threads into spans of lines.

A line belongs to the range in which it starts. To find the line end at which a span stops, few bytes are read. A range
of a compressed file is read from the start of the file, but only its own lines are checked and yielded.
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
from typing import TypeVar

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.errors import CorpusError, VoltError, unreadable
from volt.files import remote
from volt.files.blocks import (
    BLOCK_SIZE,
    Block,
    Errors,
    blocks_of,
    checked_blocks,
    read_blocks,
    shortened,
)
from volt.files.decompression import LONGEST_MAGIC, find_decoder
from volt.files.small_files import is_compressed
from volt.files.text_checks import (
    BYTE_ORDER_MARK,
    HEAD_SIZE,
    count_lines,
    overlong,
    refuse_binary,
    refuse_long,
)
from volt.urls import plain_path, url_of

_SPAN_STEP = 1 << 12  # bytes read at first to find a line end
_COUNT_STEP = 1 << 20  # bytes read at a time to count lines


class Descriptor:
    """An open file or URL, which is a `ByteSource`. It is closed when the last reference to it disappears.

    stamp: the size and version of a URL, which must not change
    """

    awaited = False

    def __init__(self, path: str, *, stamp: tuple[int, int] | None = None) -> None:
        self.path = path
        self.stamp = stamp
        self.n_read = 0
        self.number = -1
        if stamp is None:
            with self._readable():
                self.number = os.open(path, os.O_RDONLY)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise unreadable(self.path, error, kind=CorpusError) from error

    def read(self, start: int, size: int) -> bytes:
        with self._readable():
            if self.stamp is None:
                return os.pread(self.number, size, start)
            return remote.read_range(self.path, start, size)

    def read_some(self, start: int, size: int) -> bytes:
        data = self.read(start, size)
        if not data:
            raise shortened(self.path)
        return data

    def line_end(self, place: int, far: int) -> int:
        """Return where the line that contains byte `place - 1` ends (the byte after it), or `far` if it ends later."""
        place -= 1
        size = _SPAN_STEP
        while place < far:
            piece = self.read_some(place, min(size, far - place))
            end = piece.find(b"\n")
            if end >= 0:
                return place + end + 1
            place += len(piece)
            size = min(2 * size, _COUNT_STEP)
        return far

    def line_at(self, place: int) -> int:
        """Return the number of the line that starts at a byte."""
        line = 1
        for start in range(0, place, _COUNT_STEP):
            line += self.read(start, min(_COUNT_STEP, place - start)).count(b"\n")
        return line

    def check(self) -> None:
        """Raise CorpusError if the file of a URL has changed."""
        with self._readable():
            if self.stamp is not None and remote.look(self.path).stamp != self.stamp:
                raise remote.ChangedError(errno.ESTALE, "changed while it was read")

    def __del__(self) -> None:
        if self.number >= 0:
            with suppress(OSError):  # all data has been read
                os.close(self.number)


@dataclass(frozen=True, slots=True)
class FileSpan:
    """Consecutive whole lines of a file, of at most `max_line` bytes each."""

    file: Descriptor
    start: int
    size: int
    max_line: int | None = None

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        room = bytearray(self.size)
        self.read_into(memoryview(room))
        return bytes(room)

    def read_into(self, room: memoryview) -> None:
        """Read the span into `room`. Raises CorpusError if the file became shorter, or a line is too long."""
        done = 0
        while done < self.size:
            with self.file._readable():
                n_bytes = os.preadv(self.file.number, [room[done:]], self.start + done)
            if n_bytes == 0:
                raise shortened(self.file.path)
            done += n_bytes
        if self.max_line is None or self.size <= self.max_line:
            return
        text = bytes(room)
        if overlong(text, self.max_line) >= 0:
            line = self.file.line_at(self.start)
            refuse_long(text, self.max_line, path=self.file.path, first_line=line)

    def block(self) -> Block:
        """Return the span as a block. For errors, the block has the number of its first line."""
        line = self.file.line_at(self.start)
        return Block(self.file.path, line, 0, bytes(self), self.start + self.size)


def can_span(path: str) -> bool:
    """Check whether a file can be divided: it is regular, uncompressed and not empty."""
    return open_plain(path) is not None


def open_plain(path: str) -> Descriptor | None:
    """Open a file if it can be divided; return None if it cannot."""
    if path == "-" or not hasattr(os, "preadv"):
        return None
    if not os.path.isfile(path) or not os.path.getsize(path):
        return None
    file = Descriptor(path)
    if find_decoder(file.read(0, LONGEST_MAGIC)):
        return None
    return file


def file_spans(
    file: str | Descriptor, *, size: int, max_line: int | None = MAX_LINE
) -> Iterator[FileSpan]:
    """Divide a plain file, without its byte order mark, into spans of about `size` bytes. Raises CorpusError."""
    if isinstance(file, str):
        file = Descriptor(file)
    most = checked_max_line(max_line)
    head = file.read(0, HEAD_SIZE)
    refuse_binary(file.path, head)

    end = os.fstat(file.number).st_size
    start = 0
    if head.startswith(BYTE_ORDER_MARK):
        start = len(BYTE_ORDER_MARK)
    while start < end:
        cut = end
        if start + size < end:
            far = min(end, start + size + (most or end))  # a longer line exceeds the limit
            cut = file.line_end(start + size, far)
        yield FileSpan(file, start, cut - start, most)
        start = cut


T = TypeVar("T")
RANGE_SIZE = 64 << 20  # bytes
_SAMPLE = 4 << 20  # bytes of text that show how well a file is compressed
_UNKNOWN = 2  # stands for the number of a line that is not the file's first, if earlier lines are not counted


@dataclass(frozen=True, slots=True)
class FileRange:
    """The lines that start at byte `start` or later, before byte `stop`, of a file of `size` bytes.

    version: of a URL, as in `RemoteStat`
    ratio: of a compressed file, about how many bytes of text a byte stands for: the lines start at byte `ratio · start`
        of the text or later, before byte `ratio · stop` (anywhere, if the range is the file's last)
    first_line: the number of the first line, or a placeholder, as in `numbered`
    """

    path: str
    start: int
    stop: int
    size: int
    version: int = 0
    ratio: float = 0
    first_line: int = _UNKNOWN

    def __len__(self) -> int:
        return self.stop - self.start


def ranges_of(path: str, *, size: int = RANGE_SIZE) -> list[FileRange]:
    """Return ranges of `size` bytes (the last may be shorter); [] if the file is smaller or cannot be divided.

    A URL can be divided if its server supports ranges, and sends an ETag or a time by which a change is detected.
    """
    step = arguments.whole(size, "size", low=1)
    with suppress(CorpusError, OSError):  # reading it raises the error
        url = url_of(path)
        if url:
            place = url
            end, version = remote.look(url).stamp
            can_divide = end > step and _can_divide(url, version)
        else:
            place = plain_path(path)
            end = os.path.getsize(place)
            version = 0
            can_divide = end > step and can_span(place)
        if can_divide:
            starts = range(0, end, step)
            return [FileRange(place, at, min(end, at + step), end, version) for at in starts]
    return []


def packed_ranges(path: str, n: int) -> list[FileRange]:
    """Divide a compressed local file into n ranges of about equally much text; [] if it is not such a file.

    >>> import gzip, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(gzip.compress(b"low\\nlower\\n")) and file.flush()
    ...     [[block.data for block in read_range(part)] for part in packed_ranges(file.name, 2)]
    [[b'low\\nlower\\n'], []]
    """
    with suppress(CorpusError, OSError):  # reading it raises the error
        if url_of(path) is None and is_compressed(path):
            size = os.path.getsize(plain_path(path))
            cuts = pairwise(size * number // n for number in range(n + 1))
            for block in read_blocks(path, block_size=_SAMPLE, checked=False, max_line=None):
                ratio = max(1, len(block.data)) / block.n_raw_bytes
                return [FileRange(path, *cut, size, ratio=ratio) for cut in cuts]
    return []


def _packed_blocks(part: FileRange, *, block_size: int, max_line: int | None) -> Iterator[Block]:
    start = int(part.start * part.ratio)
    stop: float = int(part.stop * part.ratio)
    if part.stop == part.size:
        stop = math.inf
    n_before = 0
    for block in read_blocks(part.path, block_size=block_size, checked=False, max_line=max_line):
        first = _line_start(block.data, start - n_before)
        end = _line_start(block.data, stop - n_before)
        if first < end:
            text = block.data[first:end]
            yield replace(
                block,
                first_line=block.first_line + count_lines(block.data[:first]),
                n_lines=count_lines(text),
                data=text,
            )
        n_before += len(block.data)
        if n_before >= stop:
            return


def _line_start(data: bytes, place: float) -> int:
    """Return where the first line that starts at byte `place` or later starts; the length if there is none."""
    if place <= 0:
        return 0
    if place > len(data):
        return len(data)
    return data.find(b"\n", int(place) - 1) + 1 or len(data)


def _can_divide(url: str, version: int) -> bool:
    if not version or find_decoder(remote.read_range(url, 0, LONGEST_MAGIC)):
        return False
    return remote.has_ranges(url)


def _opened(part: FileRange) -> Descriptor:
    stamp = None
    if url_of(part.path):
        stamp = part.size, part.version
    return Descriptor(part.path, stamp=stamp)


def read_range(
    part: FileRange,
    *,
    block_size: int = BLOCK_SIZE,
    errors: Errors = "strict",
    max_line: int | None = MAX_LINE,
) -> Iterator[Block]:
    """Yield the blocks of a range as `read_blocks` does."""
    blocks = _packed_blocks if part.ratio else _plain_blocks
    for block in blocks(part, block_size=block_size, max_line=max_line):
        yield from checked_blocks(block, errors)


def _plain_blocks(part: FileRange, *, block_size: int, max_line: int | None) -> Iterator[Block]:
    file = _opened(part)
    refuse_binary(part.path, file.read_some(0, min(HEAD_SIZE, part.size)))
    first_line = 1
    if part.start:
        first_line = part.first_line
    longest = (max_line or part.size) + len(BYTE_ORDER_MARK)
    yield from blocks_of(
        file,
        _pieces(file, part, min(part.size, part.stop + longest), block_size),
        block_size=block_size,
        max_line=max_line,
        first_line=first_line,
    )


def numbered(part: FileRange, read: Callable[[FileRange], T]) -> T:
    """Read a range that has a placeholder for its first line's number; if that raises, read it with the number."""
    try:
        return read(part)
    except VoltError:
        if not part.start or part.ratio:
            raise
    file = _opened(part)
    return read(replace(part, first_line=file.line_at(_first_byte(file, part))))


def _pieces(file: Descriptor, part: FileRange, far: int, step: int) -> Iterator[bytes]:
    """Yield the bytes of the lines of a range. far: the byte at which the search for the last line's end stops"""
    file.n_read = _first_byte(file, part)
    if file.n_read == part.stop:
        return  # no line starts in the range
    end = file.line_end(part.stop, far)
    while file.n_read < end:
        piece = file.read_some(file.n_read, min(step, end - file.n_read))
        file.n_read += len(piece)
        yield piece
    file.check()


def _first_byte(file: Descriptor, part: FileRange) -> int:
    if not part.start:
        return 0
    return file.line_end(part.start, part.stop)
