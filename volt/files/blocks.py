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
from typing import Any, Literal, Protocol

from volt.arguments import MAX_LINE, checked_max_line
from volt.errors import ConfigError, CorpusError, shown_path, unreadable
from volt.files.decompression import LONGEST_MAGIC, decompress, find_decoder
from volt.files.small_files import opened
from volt.files.text_checks import (
    BYTE_ORDER_MARK,
    first_fault,
    is_utf8,
    n_line_ends,
    refuse_long,
    refusing_binary,
)
from volt.urls import url_of

Wait = Callable[
    [int, float | None], bool
]  # descriptor, seconds → whether reading returns at once: see `is_ready`

_MUCH = (
    1 << 14
)  # after a read of so many bytes, which is longer than an interactive request, more bytes are expected
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
    result = dict(poll.poll(None if seconds is None else 1000 * seconds))
    if outlet in result:
        raise BrokenPipeError
    return descriptor in result


def pieces_as_they_come(
    read: Callable[[], bytes], descriptor: int, *, wait: Wait = is_ready
) -> Iterator[bytes]:
    """Yield the results of reads, and b"" before each wait for bytes; after a large read, wait a moment before b""."""
    size, left = 0, _LONGEST
    while True:
        start = time.monotonic()
        if wait(descriptor, min(_MOMENT, left) if size >= _MUCH else 0.0):
            left = max(0.0, left - (time.monotonic() - start))
        else:
            yield b""
            wait(descriptor, None)
            left = _LONGEST
        if not (piece := read()):
            return
        size = len(piece)
        yield piece


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
        for bad in self.bad_lines if self.dropped else ():
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
    if errors not in ("strict", "replace", "skip") or block_size < 1:
        raise ConfigError(
            f"errors={errors!r}, block_size={block_size}: give strict, replace or skip, and a size > 0"
        )
    with _open(path, wait) as file:
        for block in blocks_of(
            file, _text(file, block_size), block_size=block_size, max_line=max_line
        ):
            yield from checked_blocks(block, errors) if checked else [block]


def blocks_of(
    file: ByteSource,
    pieces: Iterator[bytes],
    *,
    block_size: int,
    max_line: int | None,
    first_line: int = 1,
) -> Iterator[Block]:
    """Join the pieces of a text into blocks of whole lines, without a UTF-8 check."""
    most = checked_max_line(max_line)
    for data in _whole_lines(pieces, block_size, most):
        text = data.removeprefix(BYTE_ORDER_MARK) if first_line == 1 else data
        refuse_long(text, most, path=file.path, first_line=first_line)
        n_lines = n_line_ends(text) + bool(text and not text.endswith(b"\n"))
        yield Block(file.path, first_line, n_lines, text, file.n_read, awaited=file.awaited)
        first_line += n_lines


def read_raw(
    path: str, *, block_size: int = BLOCK_SIZE, max_line: int | None = MAX_LINE
) -> Iterator[bytes]:
    """Yield the whole lines of one file as `read_blocks` does, without a UTF-8 check."""
    first_line, most = 1, checked_max_line(max_line)
    with _open(path) as file:
        for data in _whole_lines(_text(file, block_size), block_size, most):
            text = data.removeprefix(BYTE_ORDER_MARK) if first_line == 1 else data
            refuse_long(text, most, path=file.path, first_line=first_line)
            first_line += n_line_ends(data)
            yield data


class _CountedFile:
    """A binary file, read up to the size that it had when opened (in full if 0, as in /proc); counts bytes read."""

    def __init__(
        self, path: str, file: Any, wait: Wait | None, *, status: os.stat_result | None = None
    ) -> None:
        self.path, self._file, self._wait = path, file, wait
        self.n_read, self.step, self.awaited = 0, _READ_SIZE, False
        self._end = (
            status.st_size if status and stat.S_ISREG(status.st_mode) and status.st_size else None
        )

    def pieces(self) -> Iterator[bytes]:
        number: int | None = None
        with suppress(AttributeError, OSError):  # a replaced stdin may have no descriptor
            number = int(self._file.fileno())
        if self._wait is None or number is None:
            read = self._filled if self._end is None else self.read
            yield from iter(lambda: read(self.step), b"")
            return
        for piece in pieces_as_they_come(lambda: self.read(self.step), number, wait=self._wait):
            self.awaited = not piece
            yield piece

    def _filled(self, size: int) -> bytes:
        """Read `size` bytes even from a pipe; fewer only at the end."""
        result = [self.read(size)]
        while result[-1] and (left := size - sum(map(len, result))):
            result.append(self.read(left))
        return b"".join(result)

    def read(self, size: int) -> bytes:
        if self._end is not None:
            size = min(size, self._end - self.n_read)
        try:
            while (
                data := self._file.read(size)
            ) is None:  # another process made the descriptor nonblocking
                is_ready(self._file.fileno())
        except OSError as error:
            raise unreadable(self.path, error, kind=CorpusError) from error
        if size and not data and self._end and os.fstat(self._file.fileno()).st_size < self._end:
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
    try:
        yield _CountedFile(
            path, file, wait, status=os.fstat(file.fileno()) if url_of(path) is None else None
        )
    finally:
        with suppress(OSError):  # all data has been read
            file.close()


def _text(file: _CountedFile, block_size: int) -> Iterator[bytes]:
    file.step, pieces = min(_READ_SIZE, block_size), file.pieces()
    taken, head = list[bytes](), b""
    for piece in pieces:
        taken.append(piece)
        head += piece[:LONGEST_MAGIC]
        if len(head) >= LONGEST_MAGIC or (not piece and (b"\n" in head or find_decoder(head))):
            break
    whole: Iterator[bytes] = chain(taken, pieces)
    if start := find_decoder(head):
        file.step, whole = _READ_SIZE, decompress(whole, start, path=file.path)
    else:
        file.step = block_size
    return refusing_binary(file.path, whole)


def _whole_lines(pieces: Iterable[bytes], block_size: int, most: int | None) -> Iterator[bytes]:
    """Join pieces into blocks of whole lines; an empty piece flushes the lines so far.

    most: the maximum number of bytes in a line; if a line exceeds it, the last block ends within that line
    """
    whole, rest, size, n_rest = list[bytes](), list[bytes](), 0, 0
    for piece in pieces:
        size += len(piece)
        if cut := piece.rfind(b"\n") + 1:
            whole += [*rest, piece[:cut]]
            rest, n_rest = [], 0
        if cut < len(piece):
            rest.append(piece[cut:])
            n_rest += len(rest[-1])
        if most is not None and n_rest > most + len(BYTE_ORDER_MARK):
            break
        if not piece or (whole and size >= block_size):
            block = b"".join(whole)
            yield block
            whole, size = [], size - len(block)
    if size:
        yield b"".join(whole + rest)


def checked_blocks(block: Block, errors: Errors) -> Iterator[Block]:
    """Yield `checked_block(block)`; if that raises, first yield the valid lines before the bad one."""
    try:
        checked = checked_block(block, errors)
    except CorpusError:
        if data := block.data[: block.data.rfind(b"\n", 0, first_fault(block.data)) + 1]:
            yield replace(block, data=data, n_lines=n_line_ends(data))
        raise
    yield checked


def checked_block(block: Block, errors: Errors) -> Block:
    """Return the block if it is UTF-8; otherwise raise, or repair or drop its bad lines."""
    if is_utf8(block.data):
        return block
    if errors == "strict":
        raise utf8_error(block)
    dropped, lines = errors == "skip", BytesIO(block.data).readlines()
    repaired = [line.decode(errors="replace").encode() for line in lines]
    bad = [
        index for index, (line, new) in enumerate(zip(lines, repaired, strict=True)) if line != new
    ]
    for index in bad if dropped else ():
        repaired[index] = b""
    numbers = tuple(block.first_line + index for index in bad)
    return replace(block, data=b"".join(repaired), bad_lines=numbers, dropped=dropped)


def utf8_error(block: Block) -> CorpusError:
    """Return the error for a block that is not UTF-8, with file, line, column and byte."""
    fault = first_fault(block.data)
    start = block.data.rfind(b"\n", 0, fault) + 1
    line, column = (
        block.first_line + block.data.count(b"\n", 0, start),
        len(block.data[start:fault].decode()) + 1,
    )
    result = f"invalid UTF-8 byte 0x{block.data[fault]:02x} at column {column}"
    message = f"{shown_path(block.path)}:{line}: {result}; convert the file or pass"
    return CorpusError(message, hint={"errors": "replace"})


def smaller_blocks(block: Block, most: int) -> Iterator[Block]:
    r"""Split a block of more than `most` lines into blocks of at most `most` bytes each, or of one longer line.

    >>> [part.data for part in smaller_blocks(Block("a.txt", 1, 3, b"x\ny\nz\n", 6), 2)]
    [b'x\n', b'y\n', b'z\n']
    """
    data, start, first_line = block.data, 0, block.first_line
    if block.n_lines <= most or block.bad_lines:
        yield block
        return
    while start < len(data):
        end = data.rfind(b"\n", start, start + most) + 1 or data.find(b"\n", start) + 1 or len(data)
        n_lines = data.count(b"\n", start, end) + (data[end - 1 : end] != b"\n")
        yield replace(block, first_line=first_line, n_lines=n_lines, data=data[start:end])
        start, first_line = end, first_line + n_lines
