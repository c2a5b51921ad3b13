"""Read files and pipes as blocks of whole lines, compressed or not.

Compression is detected by a file's first bytes. Anything that is not text raises an error with the file, the line and
the remedy. A file is read up to the size that it had when it was opened.
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
from typing import Any, Literal, Protocol, get_args

from volt.arguments import MAX_LINE, checked_max_line
from volt.errors import ConfigError, CorpusError, shown_path, unreadable
from volt.files.decompression import LONGEST_MAGIC, decompress, find_decoder
from volt.files.small_files import opened
from volt.files.text_checks import (
    BYTE_ORDER_MARK,
    count_lines,
    first_fault,
    is_utf8,
    refuse_long,
    refusing_binary,
)
from volt.urls import url_of

# descriptor, seconds → whether reading returns at once: see `is_ready`
Wait = Callable[[int, float | None], bool]

# Bytes. A longer read is not an interactive request, so more bytes are expected.
_MUCH = 1 << 14
_MOMENT = 0.02  # seconds to wait for more bytes, so that blocks become long and threads have work
_LONGEST = 0.03  # most seconds of such waits in all


def is_ready(descriptor: int, seconds: float | None = None, *, outlet: int | None = None) -> bool:
    """Wait until a descriptor is ready to be read, at most `seconds` if set. Return whether it is ready.

    outlet: the descriptor of a pipe to write to. Raises BrokenPipeError if that pipe's reader closes it.
    """
    if not hasattr(select, "poll"):  # on Windows only the read itself tells
        return seconds is None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if outlet is not None:
        poll.register(outlet, 0)
    timeout = None
    if seconds is not None:
        timeout = 1000 * seconds
    events = dict(poll.poll(timeout))
    if outlet in events:
        raise BrokenPipeError
    return descriptor in events


def pieces_as_they_come(
    read: Callable[[], bytes], descriptor: int, *, wait: Wait = is_ready
) -> Iterator[bytes]:
    """Yield the results of reads, and b"" before each wait for bytes; after a large read, wait a moment before b""."""
    seconds = 0.0
    left = _LONGEST
    while True:
        start = time.monotonic()
        if wait(descriptor, seconds):
            left = max(0.0, left - (time.monotonic() - start))
        else:
            yield b""
            wait(descriptor, None)
            left = _LONGEST
        piece = read()
        if not piece:
            return
        yield piece
        seconds = 0.0
        if len(piece) >= _MUCH:
            seconds = min(_MOMENT, left)


Errors = Literal["strict", "replace", "skip"]

BLOCK_SIZE = 32 << 20  # bytes
_READ_SIZE = 256 << 10  # bytes per read of a compressed file


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive whole lines of one file.

    path: the path of the file
    first_line: the number of the first line, from 1
    n_lines: number of lines, including dropped ones
    data: the lines as UTF-8
    n_raw_bytes: bytes of the file on disk read so far
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
        r"""Return the file and the line number of line `index` (from 0) of `data`, for errors.

        >>> Block("a.txt", 5, 3, b"x\nz\n", 9, bad_lines=(6,), dropped=True).place(1)
        'a.txt:7'
        """
        number = self.first_line + index
        if self.dropped:
            for bad in self.bad_lines:
                number += bad <= number
        return f"{shown_path(self.path)}:{number}"


class ByteSource(Protocol):
    """A source of blocks. n_read: bytes read so far; awaited: whether no more bytes were available."""

    path: str
    n_read: int
    awaited: bool


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
    errors: for lines not in UTF-8, "strict" raises after the earlier lines, "replace" writes U+FFFD, "skip" drops them
    checked: False leaves the UTF-8 check to the caller
    max_line: the maximum number of bytes in a line; None for no limit
    wait: how to wait for a pipe, such as `is_ready`; before each wait, complete lines are yielded as a block
    Raises CorpusError if the file cannot be read, is corrupt or is not text, or if a line is too long.

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
    with _open(path, wait) as file:
        pieces = _text(file, block_size)
        for block in blocks_of(file, pieces, block_size=block_size, max_line=max_line):
            if checked:
                yield from checked_blocks(block, errors)
            else:
                yield block


def blocks_of(
    file: ByteSource,
    pieces: Iterator[bytes],
    *,
    block_size: int,
    max_line: int | None,
    first_line: int = 1,
    keeps_mark: bool = False,
) -> Iterator[Block]:
    """Join the pieces of a text into blocks of whole lines, without a UTF-8 check.

    keeps_mark: whether the first block contains the byte order mark, if any
    """
    most = checked_max_line(max_line)
    for data in _whole_lines(pieces, block_size, most):
        text = data
        if first_line == 1:
            text = data.removeprefix(BYTE_ORDER_MARK)
        refuse_long(text, most, path=file.path, first_line=first_line)
        n_lines = count_lines(text)
        if keeps_mark:
            text = data
        yield Block(file.path, first_line, n_lines, text, file.n_read, awaited=file.awaited)
        first_line += n_lines


def read_raw(
    path: str, *, block_size: int = BLOCK_SIZE, max_line: int | None = MAX_LINE
) -> Iterator[bytes]:
    """Yield the whole lines of one file as `read_blocks` does, without a UTF-8 check, with the byte order mark."""
    with _open(path) as file:
        pieces = _text(file, block_size)
        for block in blocks_of(
            file, pieces, block_size=block_size, max_line=max_line, keeps_mark=True
        ):
            yield block.data


class _CountedFile:
    """A binary file, read up to the size that it had when opened (in full if 0, as in /proc); counts bytes read.

    step: bytes to read at a time
    """

    def __init__(self, path: str, file: Any, wait: Wait | None, *, size: int | None = None) -> None:
        self.path = path
        self.n_read = 0
        self.step = _READ_SIZE
        self.awaited = False
        self._file = file
        self._wait = wait
        self._end = size or None

    def pieces(self) -> Iterator[bytes]:
        number: int | None = None
        with suppress(AttributeError, OSError):  # a replaced stdin may have no descriptor
            number = int(self._file.fileno())
        if self._wait is None or number is None:
            while piece := self._filled():
                yield piece
            return
        for piece in pieces_as_they_come(self._read, number, wait=self._wait):
            self.awaited = not piece
            yield piece

    def _filled(self) -> bytes:
        """Read `step` bytes even from a pipe; fewer only at the end."""
        piece = self._read()
        whole = [piece]
        left = self.step - len(piece)
        while self._end is None and piece and left:
            piece = self._read(left)
            whole.append(piece)
            left -= len(piece)
        return b"".join(whole)

    def _read(self, size: int = 0) -> bytes:
        size = size or self.step
        end = self._end
        if end is not None:
            size = min(size, end - self.n_read)
        try:
            data = self._file.read(size)
            while data is None:  # another process made the descriptor nonblocking
                is_ready(self._file.fileno())
                data = self._file.read(size)
        except OSError as error:
            raise unreadable(self.path, error, kind=CorpusError) from error
        if size and not data and end and os.fstat(self._file.fileno()).st_size < end:
            raise shortened(self.path)
        self.n_read += len(data)
        return bytes(data)


def shortened(path: str) -> CorpusError:
    return CorpusError(f"{shown_path(path)}: became shorter while it was read; run it again")


@contextmanager
def _open(path: str, wait: Wait | None = None) -> Iterator[_CountedFile]:
    if path == "-":  # raw, because a buffered stdin is locked while a thread waits for it
        yield _CountedFile("stdin", getattr(sys.stdin.buffer, "raw", sys.stdin.buffer), wait)
        return
    try:
        file: Any = opened(path, buffering=0)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=CorpusError) from error
    size = None
    try:
        if not url_of(path):
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode):
                size = status.st_size
        yield _CountedFile(path, file, wait, size=size)
    finally:
        with suppress(OSError):  # all data has been read
            file.close()


def _text(file: _CountedFile, block_size: int) -> Iterator[bytes]:
    """Yield the decompressed pieces of a file; the first bytes decide how long the pieces are."""
    file.step = min(_READ_SIZE, block_size)
    pieces = file.pieces()
    taken = list[bytes]()
    head = b""
    for piece in pieces:
        taken.append(piece)
        head += piece[:LONGEST_MAGIC]
        if len(head) >= LONGEST_MAGIC or (not piece and (b"\n" in head or find_decoder(head))):
            break

    whole: Iterator[bytes] = chain(taken, pieces)
    start = find_decoder(head)
    if start:
        file.step = _READ_SIZE
        whole = decompress(whole, start, path=file.path)
    else:
        file.step = block_size
    return refusing_binary(file.path, whole)


def _whole_lines(pieces: Iterable[bytes], block_size: int, most: int | None) -> Iterator[bytes]:
    """Join pieces into blocks of whole lines; an empty piece flushes the lines so far.

    most: the maximum number of bytes in a line; if a line exceeds it, the last block ends within that line
    """
    whole = list[bytes]()
    rest = list[bytes]()  # of the last line, whose end is not read yet
    size = n_rest = 0
    for piece in pieces:
        size += len(piece)
        cut = piece.rfind(b"\n") + 1
        if cut:
            whole += [*rest, piece[:cut]]
            rest = []
            n_rest = 0
        if cut < len(piece):
            rest.append(piece[cut:])
            n_rest += len(rest[-1])
        if most is not None and n_rest > most + len(BYTE_ORDER_MARK):
            break

        if not piece or (whole and size >= block_size):
            yield b"".join(whole)
            whole = []
            size = n_rest
    if size:
        yield b"".join(whole + rest)


def checked_blocks(block: Block, errors: Errors) -> Iterator[Block]:
    """Yield `checked_block(block)`; if that raises, first yield the valid lines before the bad one."""
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
    """Return the block if it is UTF-8; otherwise raise, or repair or drop its bad lines."""
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
    start = block.data.rfind(b"\n", 0, fault) + 1
    line = block.first_line + block.data.count(b"\n", 0, start)
    column = len(block.data[start:fault].decode()) + 1
    return CorpusError(
        f"{shown_path(block.path)}:{line}: invalid UTF-8 byte 0x{block.data[fault]:02x} "
        f"at column {column}; convert the file or pass",
        hint={"errors": "replace"},
    )


def smaller_blocks(block: Block, most: int) -> Iterator[Block]:
    r"""Split a block of more than `most` lines into blocks of at most `most` bytes each, or of one longer line.

    >>> [part.data for part in smaller_blocks(Block("a.txt", 1, 3, b"x\ny\nz\n", 6), 2)]
    [b'x\n', b'y\n', b'z\n']
    """
    if block.n_lines <= most or block.bad_lines:
        yield block
        return
    first_line = block.first_line
    for start, end in line_spans(block.data, most):
        data = block.data[start:end]
        n_lines = count_lines(data)
        yield replace(block, first_line=first_line, n_lines=n_lines, data=data)
        first_line += n_lines


def line_spans(data: bytes, most: int) -> Iterator[tuple[int, int]]:
    """Divide a text into spans of whole lines, of at most `most` bytes each, or of one longer line."""
    start = 0
    while start < len(data):
        last = data.rfind(b"\n", start, start + most)
        if last < 0:
            last = data.find(b"\n", start + most)
        end = last + 1 or len(data)
        yield start, end
        start = end
