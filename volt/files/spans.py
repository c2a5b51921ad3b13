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
from dataclasses import dataclass

from volt.errors import CorpusError, unreadable
from volt.files.blocks import HEAD_SIZE, Block, refuse_binary
from volt.files.decompression import find_decoder

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_STEP = 1 << 12  # bytes looked at around a cut


class _Descriptor:
    """An open file, closed when nobody holds it any more."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.number = os.open(path, os.O_RDONLY)
        except OSError as error:
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
    """Bytes start to start + size of a file."""

    file: _Descriptor
    start: int
    size: int

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        room = bytearray(self.size)
        self.read_into(memoryview(room))
        return bytes(room)

    def read_into(self, room: memoryview) -> None:
        """Fill the room, which is as long as the span. Raises CorpusError if the file has become shorter."""
        done = 0
        while done < self.size:
            try:
                n = os.preadv(self.file.number, [room[done:]], self.start + done)
            except OSError as error:
                raise unreadable(self.file.path, error, kind=CorpusError) from error
            if n == 0:
                raise CorpusError(f"{self.file.path}: was shortened while it was read; try again")
            done += n

    def block(self) -> Block:
        """The span with the number of its first line, for messages."""
        first_line = 1
        for start in range(0, self.start, 1 << 20):
            first_line += self.file.read(start, min(1 << 20, self.start - start)).count(b"\n")
        return Block(self.file.path, first_line, 0, bytes(self), self.start + self.size)


def can_span(path: str) -> bool:
    """Whether a file can be cut: it is plain, and neither compressed nor a pipe.

    >>> can_span(__file__), can_span("-")
    (True, False)
    """
    if path == "-" or not hasattr(os, "preadv") or not os.path.isfile(path):
        return False
    return find_decoder(_Descriptor(path).read(0, 8)) is None


def file_spans(path: str, *, size: int) -> Iterator[FileSpan]:
    """Cut a plain file behind line ends into spans of about `size` bytes, less a byte order mark.

    Raises CorpusError if the file cannot be read or is not text.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"low\\nlower\\nnew") and file.flush()
    ...     [bytes(span) for span in file_spans(file.name, size=5)]
    [b'low\\nlower\\n', b'new']
    """
    file = _Descriptor(path)
    head = file.read(0, HEAD_SIZE)
    refuse_binary(path, head)
    start, end = len(_BYTE_ORDER_MARK) * head.startswith(_BYTE_ORDER_MARK), os.fstat(file.number)[stat.ST_SIZE]
    while start < end:
        cut = _line_end(file, start + size) if start + size < end else end
        yield FileSpan(file, start, cut - start)
        start = cut


def _line_end(file: _Descriptor, place: int) -> int:
    """Where the line ends in which the byte before a place stands, behind its line end; or the end of the file."""
    place -= 1
    while piece := file.read(place, _STEP):
        if (found := piece.find(b"\n")) >= 0:
            return place + found + 1
        place += len(piece)
    return place
