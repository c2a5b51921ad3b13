"""Read a file or pipe as blocks: whole lines, decompressed, checked to be UTF-8 text.

    bytes on disk → decompressed pieces → blocks of whole lines → blocks of valid UTF-8

A piece is any number of bytes; it may end within a line. A block ends at a line end, except perhaps
a file's last. An empty piece means that no more bytes are available now: the lines read so far
become a block at once, because whoever writes to a pipe may wait for an answer to them. A regular
file is read up to the size that it had when it was opened.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from typing import Any, Literal, get_args

from volt.arguments import MAX_LINE, checked_max_line
from volt.errors import ConfigError, CorpusError, shown_path, unreadable
from volt.files.decompression import LONGEST_MAGIC, decompress, find_decoder
from volt.files.small_files import open_file
from volt.files.text_checks import (
    BYTE_ORDER_MARK,
    count_lines,
    first_fault,
    is_utf8,
    refuse_binary_pieces,
    refuse_long,
)
from volt.urls import url_of

BLOCK_SIZE = 32 << 20  # bytes
_READ_SIZE = 256 << 10  # bytes per read of a compressed file
_BULK_READ = 1 << 14  # bytes; a longer read is not interactive, so more bytes are expected
_LINGER = 0.02  # seconds to wait for more bytes after a bulk read, so that blocks become long
_MAX_LINGER = 0.03  # seconds of such waits between two empty pieces

Errors = Literal["strict", "replace", "skip"]
# (descriptor, seconds) → whether the descriptor can be read at once; see `is_ready`
Wait = Callable[[int, float | None], bool]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive whole lines of one file.

    path: the path of the file
    first_line: the number of the first line, from 1
    n_lines: number of lines, including dropped ones
    data: the lines as UTF-8
    n_raw_bytes: number of bytes on disk that were read up to the end of the block
    bad_lines: numbers of the lines that were not UTF-8
    dropped: whether bad lines were dropped instead of repaired
    awaited: whether no more bytes were available, so that a consumer may be waiting for the result
    """

    path: str
    first_line: int
    n_lines: int
    data: bytes
    n_raw_bytes: int
    bad_lines: tuple[int, ...] = ()
    dropped: bool = False
    awaited: bool = False

    @property
    def n_bad_lines(self) -> int:
        return len(self.bad_lines)

    def place(self, index: int) -> str:
        r"""Return "FILE:LINE" of the line with this index (from 0) in `data`, for errors.

        >>> Block("a.txt", 5, 3, b"x\nz\n", 9, bad_lines=(6,), dropped=True).place(1)
        'a.txt:7'
        """
        line = self.first_line + index
        if self.dropped:
            for bad_line in self.bad_lines:
                line += bad_line <= line
        return f"{shown_path(self.path)}:{line}"


@dataclass(slots=True)
class ReadProgress:
    """The position up to which a file has been read.

    Readers of its bytes update it; `join_into_blocks` copies it into each block.

    n_raw_bytes: number of bytes read from disk
    awaited: whether no more bytes were available at the last read
    """

    path: str
    n_raw_bytes: int = 0
    awaited: bool = False


def read_blocks(
    path: str,
    *,
    block_size: int = BLOCK_SIZE,
    errors: Errors = "strict",
    checked: bool = True,
    max_line: int | None = MAX_LINE,
    wait: Wait | None = None,
) -> Iterator[Block]:
    r"""Yield the blocks of one file (plain, gzip, bzip2, xz or zstd).

    path: "-" is stdin
    block_size: approximate number of bytes in a block
    errors: for lines not in UTF-8, "strict" raises after the earlier lines, "replace" writes
        U+FFFD, "skip" drops them
    checked: False leaves the UTF-8 check to the caller
    max_line: the maximum number of bytes in a line; None for no limit
    wait: how to wait for a pipe, such as `is_ready`; before each wait, complete lines are yielded
        as a block
    Raises CorpusError if the file cannot be read, is corrupt or is not text, or if a line is too
    long.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"one\ntwo\n") and file.flush()
    ...     [(block.first_line, block.data) for block in read_blocks(file.name)]
    [(1, b'one\ntwo\n')]
    """
    if errors not in get_args(Errors) or block_size < 1:
        raise ConfigError(
            f"errors={errors!r}, block_size={block_size}: give strict, replace or skip, and a size > 0"
        )
    for block in _read_unchecked(path, block_size, max_line, wait=wait):
        if checked:
            yield from checked_blocks(block, errors)
        else:
            yield block


def read_raw(
    path: str, *, block_size: int = BLOCK_SIZE, max_line: int | None = MAX_LINE
) -> Iterator[bytes]:
    """Yield the whole lines of one file as `read_blocks` does, without a UTF-8 check, with the byte
    order mark."""
    for block in _read_unchecked(path, block_size, max_line, keeps_mark=True):
        yield block.data


def _read_unchecked(
    path: str,
    block_size: int,
    max_line: int | None,
    *,
    wait: Wait | None = None,
    keeps_mark: bool = False,
) -> Iterator[Block]:
    with _open(path, wait) as reader:
        yield from join_into_blocks(
            reader.read_text(block_size),
            reader.progress,
            block_size=block_size,
            max_line=max_line,
            keeps_mark=keeps_mark,
        )


def join_into_blocks(
    pieces: Iterable[bytes],
    progress: ReadProgress,
    *,
    block_size: int,
    max_line: int | None,
    first_line: int = 1,
    keeps_mark: bool = False,
) -> Iterator[Block]:
    """Join the pieces of a text into blocks of whole lines, without a UTF-8 check.

    progress: the progress of the reader that yields the pieces
    first_line: the number of the text's first line
    keeps_mark: whether line 1 keeps its byte order mark
    """
    max_line = checked_max_line(max_line)
    for data in _join_lines(pieces, block_size, max_line):
        text = data
        if first_line == 1:
            text = data.removeprefix(BYTE_ORDER_MARK)
        refuse_long(text, max_line, path=progress.path, first_line=first_line)
        n_lines = count_lines(text)
        yield Block(
            progress.path,
            first_line,
            n_lines,
            data=data if keeps_mark else text,
            n_raw_bytes=progress.n_raw_bytes,
            awaited=progress.awaited,
        )
        first_line += n_lines


def _join_lines(pieces: Iterable[bytes], block_size: int, max_line: int | None) -> Iterator[bytes]:
    """Join pieces into whole lines, `block_size` bytes or more at a time; an empty piece yields the
    lines so far.

    If a line exceeds `max_line` bytes, the last yielded text ends within that line.
    """
    whole_lines = list[bytes]()
    last_line = list[bytes]()  # pieces of the line whose end is not read yet
    n_bytes = n_last = 0
    for piece in pieces:
        n_bytes += len(piece)
        cut = piece.rfind(b"\n") + 1
        if cut:
            whole_lines += [*last_line, piece[:cut]]
            last_line = []
            n_last = 0
        if cut < len(piece):
            last_line.append(piece[cut:])
            n_last += len(piece) - cut
        if max_line is not None and n_last > max_line + len(BYTE_ORDER_MARK):
            break

        if not piece or (whole_lines and n_bytes >= block_size):
            yield b"".join(whole_lines)
            whole_lines = []
            n_bytes = n_last
    if n_bytes:
        yield b"".join(whole_lines + last_line)


# reading


@contextmanager
def _open(path: str, wait: Wait | None = None) -> Iterator[_Reader]:
    if path == "-":  # raw, because a buffered stdin is locked while a thread waits for it
        yield _Reader("stdin", getattr(sys.stdin.buffer, "raw", sys.stdin.buffer), wait)
        return
    try:
        file: Any = open_file(path, buffering=0)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=CorpusError) from error
    size = None
    try:
        if not url_of(path):
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode):
                size = status.st_size
        yield _Reader(path, file, wait, size=size)
    finally:
        with suppress(OSError):  # all data has been read
            file.close()


class _Reader:
    """Read an open binary file or pipe once, from start to end.

    size: the number of bytes to read; None or 0 (as files in /proc report) for all bytes
    """

    def __init__(self, path: str, file: Any, wait: Wait | None, *, size: int | None = None) -> None:
        self.progress = ReadProgress(path)
        self._file = file
        self._wait = wait
        self._size = size or None
        self._read_size = _READ_SIZE

    def read_text(self, block_size: int) -> Iterator[bytes]:
        """Yield decompressed pieces.

        The first bytes decide whether to decompress, and how many bytes to read at once.
        """
        self._read_size = min(_READ_SIZE, block_size)
        pieces = self._read_pieces()
        first_pieces = list[bytes]()
        head = b""
        for piece in pieces:
            first_pieces.append(piece)
            head += piece[:LONGEST_MAGIC]
            if len(head) >= LONGEST_MAGIC or (not piece and (b"\n" in head or find_decoder(head))):
                break

        path = self.progress.path
        all_pieces: Iterator[bytes] = chain(first_pieces, pieces)
        start_decoder = find_decoder(head)
        if start_decoder:
            self._read_size = _READ_SIZE
            all_pieces = decompress(all_pieces, start_decoder, path=path)
        else:
            self._read_size = block_size
        return refuse_binary_pieces(path, all_pieces)

    def _read_pieces(self) -> Iterator[bytes]:
        descriptor: int | None = None
        with suppress(AttributeError, OSError):  # a replaced stdin may have no descriptor
            descriptor = int(self._file.fileno())
        if self._wait is None or descriptor is None:
            while piece := self._read_full():
                yield piece
            return
        for piece in read_as_available(self._read, descriptor, wait=self._wait):
            self.progress.awaited = not piece
            yield piece

    def _read_full(self) -> bytes:
        """Read `_read_size` bytes even from a pipe; fewer only at the end."""
        pieces = [self._read()]
        n_missing = self._read_size - len(pieces[0])
        while self._size is None and pieces[-1] and n_missing:
            pieces.append(self._read(n_missing))
            n_missing -= len(pieces[-1])
        return b"".join(pieces)

    def _read(self, n_bytes: int = 0) -> bytes:
        n_bytes = n_bytes or self._read_size
        if self._size is not None:
            n_bytes = min(n_bytes, self._size - self.progress.n_raw_bytes)
        try:
            data = self._file.read(n_bytes)
            while data is None:  # another process made the descriptor nonblocking
                is_ready(self._file.fileno())
                data = self._file.read(n_bytes)
        except OSError as error:
            raise unreadable(self.progress.path, error, kind=CorpusError) from error
        if n_bytes and not data:
            self._check_size()
        self.progress.n_raw_bytes += len(data)
        return bytes(data)

    def _check_size(self) -> None:
        if self._size and os.fstat(self._file.fileno()).st_size < self._size:
            raise shortened_error(self.progress.path)


def shortened_error(path: str) -> CorpusError:
    return CorpusError(f"{shown_path(path)}: became shorter while it was read; run it again")


# waiting for a pipe


def read_as_available(read: Callable[[], bytes], descriptor: int, *, wait: Wait) -> Iterator[bytes]:
    """Yield the results of `read` until one is empty, and b"" before each wait for bytes.

    After a bulk read, more bytes are awaited for a moment before b"" is yielded.
    """
    seconds = 0.0
    max_seconds = _MAX_LINGER
    while True:
        start = time.monotonic()
        if wait(descriptor, seconds):
            max_seconds = max(0.0, max_seconds - (time.monotonic() - start))
        else:
            yield b""
            wait(descriptor, None)
            max_seconds = _MAX_LINGER
        piece = read()
        if not piece:
            return
        yield piece
        seconds = 0.0
        if len(piece) >= _BULK_READ:
            seconds = min(_LINGER, max_seconds)


def is_ready(descriptor: int, seconds: float | None = None, *, outlet: int | None = None) -> bool:
    """Wait until a descriptor can be read, at most `seconds` if set. Return whether it can be read.

    outlet: the descriptor of a pipe to write to. Raises BrokenPipeError if that pipe's reader
        closes it.
    """
    if not hasattr(select, "poll"):  # on Windows, only a read shows whether bytes are available
        return seconds is None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if outlet is not None:
        poll.register(outlet, 0)
    milliseconds = None
    if seconds is not None:
        milliseconds = 1000 * seconds
    events = dict(poll.poll(milliseconds))
    if outlet in events:
        raise BrokenPipeError
    return descriptor in events


# UTF-8


def checked_blocks(block: Block, errors: Errors) -> Iterator[Block]:
    """Yield `checked_block(block, errors)`.

    If that raises, first yield the block's lines before the bad line.
    """
    try:
        checked = checked_block(block, errors)
    except CorpusError:
        end = block.data.rfind(b"\n", 0, first_fault(block.data)) + 1
        if end:
            data = block.data[:end]
            yield replace(block, data=data, n_lines=count_lines(data))
        raise
    yield checked


def checked_block(block: Block, errors: Errors) -> Block:
    """Return a block of valid UTF-8: unchanged, or with repaired lines ("replace"), or without bad
    lines ("skip").

    Raises CorpusError at a bad line if `errors` is "strict".
    """
    if is_utf8(block.data):
        return block
    if errors == "strict":
        raise utf8_error(block)
    dropped = errors == "skip"
    lines = list[bytes]()
    bad_lines = list[int]()
    for number, line in enumerate(BytesIO(block.data), block.first_line):
        repaired = line.decode(errors="replace").encode()
        if repaired != line:
            bad_lines.append(number)
            if dropped:
                continue
        lines.append(repaired)
    return replace(block, data=b"".join(lines), bad_lines=tuple(bad_lines), dropped=dropped)


def utf8_error(block: Block) -> CorpusError:
    """Return the error for a block that is not UTF-8, with file, line, column and byte."""
    fault = first_fault(block.data)
    line_start = block.data.rfind(b"\n", 0, fault) + 1
    line = block.first_line + block.data.count(b"\n", 0, line_start)
    column = len(block.data[line_start:fault].decode()) + 1
    return CorpusError(
        f"{shown_path(block.path)}:{line}: invalid UTF-8 byte 0x{block.data[fault]:02x} "
        f"at column {column}; convert the file or pass",
        hint={"errors": "replace"},
    )


# dividing


def split_block(block: Block, size: int) -> Iterator[Block]:
    r"""Split a block into blocks of at most `size` bytes each, or of one longer line.

    A block of at most `size` lines, or with bad lines, is yielded unchanged.

    >>> [part.data for part in split_block(Block("a.txt", 1, 3, b"x\ny\nz\n", 6), 2)]
    [b'x\n', b'y\n', b'z\n']
    """
    if block.n_lines <= size or block.bad_lines:
        yield block
        return
    first_line = block.first_line
    for start, end in split_at_lines(block.data, size):
        data = block.data[start:end]
        n_lines = count_lines(data)
        yield replace(block, first_line=first_line, n_lines=n_lines, data=data)
        first_line += n_lines


def split_at_lines(data: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of consecutive parts of a text: whole lines of at most `size` bytes,
    or one longer line."""
    start = 0
    while start < len(data):
        last = data.rfind(b"\n", start, start + size)
        if last < 0:
            last = data.find(b"\n", start + size)
        end = last + 1 or len(data)
        yield start, end
        start = end
