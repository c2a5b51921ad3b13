"""A plain file → spans of whole lines, cut without reading what is in them: threads read their own.

Only what stands around a cut is looked at, so handing out a gigabyte costs a thousand reads of a few bytes. (A memory
map would do without these, but a file that is shortened meanwhile would then end the process.)

>>> [len(span) > 0 for span in file_spans(__file__, size=1 << 20)]
[True]
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from volt.errors import CorpusError, unreadable
from volt.files.binary import HEAD_SIZE, refuse_binary
from volt.files.blocks import Block, shortened
from volt.files.decompression import find_decoder
from volt.files.long_lines import BYTE_ORDER_MARK, MAX_LINE, checked_max_line, long_line_error, overlong

_STEP = 1 << 12  # bytes looked at around a cut


class Descriptor:
    """An open file, closed when nobody holds it any more."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.number = os.open(path, os.O_RDONLY)
        except (OSError, ValueError) as error:
            self.number = -1
            raise unreadable(path, error, kind=CorpusError) from error

    def read(self, start: int, size: int) -> bytes:
        try:
            return os.pread(self.number, size, start)
        except OSError as error:
            raise unreadable(self.path, error, kind=CorpusError) from error

    def __del__(self) -> None:
        if self.number >= 0:
            with suppress(OSError):  # what was read is read
                os.close(self.number)


@dataclass(frozen=True, slots=True)
class FileSpan:
    """Bytes start to start + size of a file. max_line: the most bytes of a line; None for no limit."""

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
        """Fill the room, which is as long as the span.

        Raises CorpusError if the file has become shorter, or a line is too long.
        """
        done = 0
        while done < self.size:
            try:
                n = os.preadv(self.file.number, [room[done:]], self.start + done)
            except OSError as error:
                raise unreadable(self.file.path, error, kind=CorpusError) from error
            if n == 0:
                raise shortened(self.file.path)
            done += n
        if self.max_line is not None and self.size > self.max_line:  # else no line can be too long
            self._check_lines(bytes(room), self.max_line)

    def _check_lines(self, text: bytes, most: int) -> None:
        if (start := overlong(text, most)) >= 0:
            line = replace(self, max_line=None).block().first_line + text.count(b"\n", 0, start)
            raise long_line_error(self.file.path, line, most)

    def block(self) -> Block:
        """The span with the number of its first line, for messages."""
        first_line = 1
        for start in range(0, self.start, 1 << 20):
            first_line += self.file.read(start, min(1 << 20, self.start - start)).count(b"\n")
        return Block(self.file.path, first_line, 0, bytes(self), self.start + self.size)


def can_span(path: str) -> bool:
    """Whether a file can be cut: it is plain and has a size, and is neither compressed nor a pipe.

    >>> can_span(__file__), can_span("-")
    (True, False)
    """
    if path == "-" or not hasattr(os, "preadv") or not os.path.isfile(path) or not os.path.getsize(path):
        return False
    return find_decoder(Descriptor(path).read(0, 8)) is None


def file_spans(path: str, *, size: int, max_line: int | None = MAX_LINE) -> Iterator[FileSpan]:
    """Cut a plain file behind line ends into spans of about `size` bytes, less a byte order mark.

    What is added to the file meanwhile is left out. max_line: the most bytes of a line; None for no limit.
    Raises CorpusError if the file cannot be read or is not text, or a line is too long.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"low\\nlower\\nnew") and file.flush()
    ...     [bytes(span) for span in file_spans(file.name, size=5)]
    [b'low\\nlower\\n', b'new']
    """
    file, most = Descriptor(path), checked_max_line(max_line)
    head, end = file.read(0, HEAD_SIZE), os.fstat(file.number)[stat.ST_SIZE]
    refuse_binary(path, head)
    start = len(BYTE_ORDER_MARK) * head.startswith(BYTE_ORDER_MARK)
    while start < end:
        far = end if most is None else min(end, start + size + most)  # a line that goes on there is too long
        cut = min(far, _line_end(file, start + size, far) if start + size < end else end)
        yield FileSpan(file, start, cut - start, most)
        start = cut


def _line_end(file: Descriptor, place: int, far: int) -> int:
    """Where the line ends in which the byte before a place stands, behind its line end; or `far`, if that is nearer."""
    place -= 1
    while place < far and (piece := file.read(place, _STEP)):
        if (found := piece.find(b"\n")) >= 0:
            return place + found + 1
        place += len(piece)
    return far
