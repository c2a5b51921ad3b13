"""Files → blocks of whole lines, whatever the compression; knows nothing of words.

A block holds about `block_size` bytes of valid UTF-8 and ends at a line end or at the end of the file.
Compression is told by a file's first bytes, never by its name. What cannot be text (archives, images, UTF-16,
damaged files, invalid UTF-8) is refused with the file, the line and the remedy.

>>> import gzip, tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".txt") as file:
...     _ = file.write(gzip.compress(b"one\\ntwo\\n")) and file.flush()
...     [(block.first_line, block.data) for block in read_blocks(file.name)]
[(1, b'one\\ntwo\\n')]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from typing import Any, Literal

from volt.errors import ConfigError, CorpusError, unreadable
from volt.files.decompression import decompress, find_decoder

Errors = Literal["strict", "replace", "skip"]

BLOCK_SIZE = 32 << 20  # bytes
_READ_SIZE = 16 << 10  # bytes per read of what is compressed: it may unpack to a thousand times as much
HEAD_SIZE = 8 << 10  # bytes searched for what betrays a binary file

_FOREIGN = {
    b"\xff\xfe\x00\x00": "UTF-32 text; convert it: iconv -f UTF-32 -t UTF-8",
    b"\x00\x00\xfe\xff": "UTF-32 text; convert it: iconv -f UTF-32 -t UTF-8",
    b"\xff\xfe": "UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8",
    b"PK\x03\x04": "a zip archive; unpack it",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it",
    b"\x04\x22\x4d\x18": "an lz4 file; recompress it with gzip, xz or zstd",
    b"PAR1": "a parquet file; name it as a file on disk, with its text column",
    b"SQLite format 3": "an SQLite database; export its text column",
    b"%PDF-": "a PDF document; extract its text",
    b"\x89PNG": "a PNG image; leave it out",
}


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive whole lines of one file.

    first_line: the number of the first line, from 1
    n_lines: how many lines, dropped ones included
    data: their UTF-8 bytes
    n_raw_bytes: how much of the file on disk has been read so far
    bad_lines: the numbers of the lines that were not UTF-8
    dropped: whether these were left out of data; otherwise they were repaired

    >>> Block("a.txt", 5, 3, b"x\\nz\\n", 9, bad_lines=(6,), dropped=True).n_bad_lines
    1
    """

    path: str
    first_line: int
    n_lines: int
    data: bytes
    n_raw_bytes: int
    bad_lines: tuple[int, ...] = ()
    dropped: bool = False

    @property
    def n_bad_lines(self) -> int:
        """How many lines were not UTF-8."""
        return len(self.bad_lines)

    def place(self, index: int) -> str:
        """File and line number, as errors name them, of the line at `index` (from 0) of `data`.

        >>> Block("a.txt", 5, 3, b"x\\nz\\n", 9, bad_lines=(6,), dropped=True).place(1)
        'a.txt:7'
        """
        number = self.first_line + index
        for bad in self.bad_lines if self.dropped else ():
            number += bad <= number
        return f"{self.path}:{number}"


def read_blocks(
    path: str, *, block_size: int = BLOCK_SIZE, errors: Errors = "strict", checked: bool = True
) -> Iterator[Block]:
    """Yield the blocks of one file (plain, gzip, bzip2, xz or zstd); "-" is stdin.

    errors: what to do with a line that is not UTF-8: "strict" raises, "replace" puts U+FFFD, "skip" drops it.
    checked: False leaves it to the caller to see whether the text is UTF-8, and then to raise `utf8_error`.
    Raises CorpusError if the file cannot be read, is damaged or is not text.

    >>> next(read_blocks("/nowhere/train.de"))
    Traceback (most recent call last):
        ...
    volt.errors.CorpusError: /nowhere/train.de: cannot be read: no such file or directory; check the path
    """
    if errors not in ("strict", "replace", "skip") or block_size < 1:
        raise ConfigError(f"errors={errors!r}, block_size={block_size}: choose strict, replace or skip, and a size > 0")
    first_line = 1
    with _open(path) as file:
        for data in _whole_lines(_text(file, block_size), block_size):
            text = data.removeprefix(b"\xef\xbb\xbf") if first_line == 1 else data  # less a byte order mark
            n_lines = text.count(b"\n") + bool(text and not text.endswith(b"\n"))
            block = Block(path, first_line, n_lines, text, file.n_read)
            yield _checked(block, errors) if checked else block
            first_line += n_lines


def read_raw(path: str, *, block_size: int = BLOCK_SIZE) -> Iterator[bytes]:
    """Yield the whole lines of one file as `read_blocks` does, decompressed, but not checked to be UTF-8.

    >>> next(read_raw("/nowhere/train.de"))
    Traceback (most recent call last):
        ...
    volt.errors.CorpusError: /nowhere/train.de: cannot be read: no such file or directory; check the path
    """
    with _open(path) as file:
        yield from _whole_lines(_text(file, block_size), block_size)


def is_compressed(path: str) -> bool:
    """Whether a file starts as gzip, bzip2, xz or zstd files do.

    >>> is_compressed(__file__)
    False
    """
    with _open(path) as file:
        return find_decoder(file.read(8)) is not None


class _CountedFile:
    """A binary file that knows how much of it has been read. step: how much to read at a time."""

    def __init__(self, path: str, file: Any) -> None:
        self.path, self._file, self.n_read, self.step = path, file, 0, _READ_SIZE

    def read(self, size: int) -> bytes:
        try:
            data: bytes = self._file.read(size)
        except OSError as error:
            raise unreadable(self.path, error, kind=CorpusError) from error
        self.n_read += len(data)
        return data


@contextmanager
def _open(path: str) -> Iterator[_CountedFile]:
    if path == "-":  # raw, because a buffered stdin is locked while a thread waits for it
        yield _CountedFile("stdin", getattr(sys.stdin.buffer, "raw", sys.stdin.buffer))
        return
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise unreadable(path, error, kind=CorpusError) from error
    try:
        yield _CountedFile(path, file)
    finally:
        with suppress(OSError):  # what was read is read
            file.close()


def _text(file: _CountedFile, block_size: int) -> Iterator[bytes]:
    """The decompressed bytes of a file, in pieces."""
    file.step = min(_READ_SIZE, block_size)
    head, pieces = _with_head(iter(lambda: file.read(file.step), b""))
    if start := find_decoder(head):
        head, pieces = _with_head(decompress(pieces, start, path=file.path))
    else:
        file.step = block_size
    refuse_binary(file.path, head)
    return pieces


def _with_head(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and all pieces again."""
    taken: list[bytes] = []
    size = 0
    while size < HEAD_SIZE and (piece := next(pieces, b"")):
        taken.append(piece)
        size += len(piece)
    return b"".join(taken)[:HEAD_SIZE], chain(taken, pieces)


def _whole_lines(pieces: Iterable[bytes], block_size: int) -> Iterator[bytes]:
    """Join pieces into blocks that end at a line end; no byte is searched or copied more than a few times."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= block_size and (cut := piece.rfind(b"\n") + 1):
            parts[-1] = piece[:cut]
            yield b"".join(parts)
            parts, size = [piece[cut:]], len(piece) - cut
    if size:
        yield b"".join(parts)


def refuse_binary(path: str, head: bytes) -> None:
    """Raise CorpusError if a file's first `HEAD_SIZE` bytes show that it is not text.

    >>> refuse_binary("a.txt", b"text")
    """
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise CorpusError(f"{path}: not UTF-8 text but {what}")
    if head[257:262] == b"ustar":
        raise CorpusError(f"{path}: not UTF-8 text but a tar archive; unpack it")
    if (position := head.find(b"\0")) >= 0:
        raise CorpusError(f"{path}: looks like binary data or UTF-16 (NUL at byte {position}); convert it to UTF-8")


def _checked(block: Block, errors: Errors) -> Block:
    """The block if it is UTF-8; otherwise an error, or the block with its bad lines repaired or dropped."""
    if is_utf8(block.data):
        return block
    if errors == "strict":
        raise utf8_error(block)
    return _repaired(block, dropped=errors == "skip")


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8, told by Polars, which sees it ten times faster than bytes.decode() does.

    >>> is_utf8("é".encode()), is_utf8(b"\\xc3")
    (True, False)
    """
    import polars as pl

    try:
        return data.isascii() or not pl.Series([data]).cast(pl.String).has_nulls()
    except pl.exceptions.PolarsError:
        return False


def _repaired(block: Block, *, dropped: bool) -> Block:
    bad, lines = [], []
    for number, line in enumerate(BytesIO(block.data), block.first_line):
        repaired = line.decode(errors="replace").encode()
        if repaired != line:
            bad.append(number)
        if repaired == line or not dropped:
            lines.append(repaired)
    return replace(block, data=b"".join(lines), bad_lines=tuple(bad), dropped=dropped)


def utf8_error(block: Block) -> CorpusError:
    """What to raise for a block that is not UTF-8: file, line, column, byte.

    >>> utf8_error(Block("a.txt", 5, 1, b"ab\\xff\\n", 4))
    CorpusError("a.txt:5: invalid UTF-8 byte 0xff at column 3; convert the file or pass errors='replace' or 'skip'")
    """
    try:
        block.data.decode()
    except UnicodeDecodeError as error:
        start = block.data.rfind(b"\n", 0, error.start) + 1
        line = block.first_line + block.data.count(b"\n", 0, start)
        column = len(block.data[start : error.start].decode()) + 1
        found = f"invalid UTF-8 byte 0x{block.data[error.start]:02x} at column {column}"
    return CorpusError(f"{block.path}:{line}: {found}; convert the file or pass errors='replace' or 'skip'")
