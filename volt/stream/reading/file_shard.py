r"""An indexed file of any kind: the byte offsets, line counts and checksums of its pieces, and facts about its lines.

A plain file is read in place, also from a URL if the server supports ranges. The pieces of a compressed file or a table
are copied to one file in the cache folder, each as an LZ4 frame: LZ4 takes half as much disk again as zstd, and a third
of its time to read. A compressed file that is not cut is one piece, decompressed each time.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile() as file:
...     _ = file.write(b"one\ntwo\nthree") and file.flush()
...     pieces = noted(file.name, "plain", iter([(b"one\ntwo\n", 2), (b"three", 1)]))
...     pieces.counts, pieces.read(1)
((2, 1), b'three')
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from volt.errors import CorpusError, OutputError, StreamError, shown_path, unreadable
from volt.files.atomic import write_atomic
from volt.files.blocks import read_raw
from volt.files.remote import read_range
from volt.stream.reading.shard import Shard, Stamp, stamp_of
from volt.stream.reading.shard_cache import CacheEntry, Record
from volt.urls import bare, url_of

Packing = Literal["plain", "frames", "whole"]


@dataclass(frozen=True, slots=True)
class Segments:
    """The places of a file's pieces.

    path: the file, as it was named.
    data_path: the file that pieces are read from: itself, or its split copy.
    packing: of data_path: "plain" text, LZ4 "frames", or "whole", a compressed file that is read as one piece.
    ends: byte offsets in data_path at which pieces end.
    counts: lines per piece.
    checks: the CRC-32 of each piece, or of its frame.
    stamp: size and time of change of data_path.
    """

    path: str
    data_path: str
    packing: Packing
    ends: tuple[int, ...]
    counts: tuple[int, ...]
    checks: tuple[int, ...]
    stamp: Stamp

    def read(self, piece: int) -> bytes:
        """Return the bytes of a piece. Raises StreamError if the file is not what was indexed, or is damaged."""
        stored = self._stored(piece)
        is_frame = self.packing == "frames"
        if crc32(stored) != self.checks[piece]:
            raise self._damaged(piece) if is_frame else self._edited(piece)
        return _unpacked(stored) if is_frame else stored

    def check_unchanged(self) -> None:
        """Raise StreamError if the file has another size or time of change than it had, or is gone."""
        if stamp_of(self.data_path) != self.stamp:
            raise self.changed()

    def changed(self) -> StreamError:
        """Return the error for a file that has changed since it was indexed."""
        result = f"{shown_path(self.data_path)}: changed while the stream was running"
        return StreamError(f"{result}; start the stream anew")

    def record(self) -> dict[str, Any]:
        """Return it as JSON for the index."""
        return {**asdict(self), "path": bare(self.path), "data_path": bare(self.data_path)}

    @classmethod
    def of_record(cls, record: dict[str, Any], path: str) -> Segments | None:
        """Read it from an index, if the data has not changed since. path: the file's name.

        Raises KeyError, TypeError or ValueError if the index is none of this version.
        """
        lists = {name: tuple(record[name]) for name in ("ends", "counts", "checks", "stamp")}
        pieces = cls(**{**record, **lists, "path": path})
        if pieces.packing != "frames":
            pieces = cls(**{**pieces.record(), "data_path": path})
        try:
            return pieces if stamp_of(pieces.data_path) == pieces.stamp else None
        except StreamError:
            return None

    def _stored(self, piece: int) -> bytes:
        """Return the bytes of a piece as they are on disk, or of the whole file decompressed."""
        start = self.ends[piece - 1] if piece else 0
        try:
            if url := url_of(self.data_path):
                return self._far(url, start, self.ends[piece] - start)
            with open(self.data_path, "rb", buffering=0) as file:
                if stamp_of(file.fileno()) != self.stamp:
                    raise self.changed()
                if self.packing == "whole":
                    return b"".join(read_raw(self.data_path, max_line=None))  # known from the index
                return self._exactly(file.fileno(), start, self.ends[piece] - start)
        except OSError as error:
            remedy = "it could be when it was indexed: restore it"
            raise unreadable(self.data_path, error, kind=StreamError, remedy=remedy) from error
        except CorpusError as error:
            raise StreamError(str(error)) from error

    def _far(self, url: str, start: int, size: int) -> bytes:
        self.check_unchanged()
        if self.packing == "whole":
            return b"".join(read_raw(url, max_line=None))
        if len(data := read_range(url, start, size)) < size:
            raise self.changed()
        return data

    def _exactly(self, handle: int, start: int, size: int) -> bytes:
        data = os.pread(handle, size, start)
        while len(data) < size and (more := os.pread(handle, size - len(data), start + len(data))):
            data += more
        if len(data) < size:
            raise self.changed()
        return data

    def _damaged(self, piece: int) -> StreamError:
        """Delete a damaged copy, so that another is made, and return the error."""
        with suppress(OSError):
            os.unlink(self.data_path)
        result = f"{shown_path(self.path)}: its copy {shown_path(self.data_path)} is damaged in piece {piece}"
        return StreamError(f"{result} and was deleted; start the stream anew")

    def _edited(self, piece: int) -> StreamError:
        first = sum(self.counts[:piece]) + 1
        lines = f"lines {first:,} to {first - 1 + self.counts[piece]:,}"
        result = f"{lines} are not what was indexed, though its size and time of change are the same"
        return StreamError(f"{shown_path(self.path)}: {result}; touch the file, and start the stream anew")


def noted(path: str, packing: Packing, cut: Iterable[tuple[bytes, int]], *, copy: Path | None = None) -> Segments:
    """Return where the pieces of a file are, in one pass. Each is also written to `copy`, as a frame, where there is
    one.

    cut: the bytes of each piece, and how many lines it holds
    Raises StreamError if the file changes meanwhile.
    """
    before, position = stamp_of(path), 0
    ends, counts, checks = list[int](), list[int](), list[int]()
    with nullcontext() if copy is None else write_atomic(copy) as file:
        for piece, n_lines in cut:
            stored = piece if file is None else _frame(piece)
            position += len(stored)
            ends.append(position)
            counts.append(n_lines)
            checks.append(crc32(stored))
            if file is not None:
                file.write(stored)
    if stamp_of(path) != before:
        raise StreamError(f"{shown_path(path)}: changed while it was being indexed; wait until it is complete")
    data_path = str(copy or path)
    return Segments(path, data_path, packing, tuple(ends), tuple(counts), tuple(checks), stamp_of(data_path))


def crc32(data: bytes) -> int:
    """Return zlib's CRC-32 of some bytes, in a twentieth of its time.

    >>> crc32(b"one")
    2053932785
    """
    from isal import isal_zlib

    return int(isal_zlib.crc32(data))


def _frame(piece: bytes) -> bytes:
    """Return the size of a piece, 8 bytes, and the piece packed."""
    import pyarrow as pa

    return len(piece).to_bytes(8, "little") + bytes(pa.compress(piece, codec="lz4_raw", asbytes=True))


def _unpacked(frame: bytes) -> bytes:
    """Return the piece of a frame.

    >>> _unpacked(_frame(b"one"))
    b'one'
    """
    import pyarrow as pa

    size = int.from_bytes(frame[:8], "little")
    return bytes(pa.decompress(memoryview(frame)[8:], size, codec="lz4_raw", asbytes=True))


class Facts(NamedTuple):
    """The facts that one pass over a file's lines finds.

    n_bytes: of text
    longest: bytes of its longest line
    first_tab: the number of the first line with a tab, or row of a table that is not a line; 0 if there is none
    digest: of the lines
    is_utf8: whether all of them are known to be UTF-8
    """

    n_bytes: int
    longest: int
    first_tab: int
    digest: str
    is_utf8: bool = False


@dataclass(frozen=True, slots=True)
class FileShard(Shard):
    """Base of indexed files; each kind of file defines how a piece is read.

    fields: the names of its columns, if they have names
    """

    pieces: Segments
    facts: Facts
    fields: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The file."""
        return (self.pieces.path,)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return self.fields

    @property
    def counts(self) -> tuple[int, ...]:
        """Lines per piece."""
        return self.pieces.counts

    @property
    def n_bytes(self) -> int:
        """Bytes of text."""
        return self.facts.n_bytes

    @property
    def digest(self) -> str:
        """The checksum of the lines."""
        return self.facts.digest

    @property
    def is_utf8(self) -> bool:
        """True if all lines are known to be UTF-8."""
        return self.facts.is_utf8

    def check_unchanged(self) -> None:
        """Raise StreamError if the file is not what was indexed, or is gone."""
        self.pieces.check_unchanged()


Indexed = tuple[Segments, Facts]


def kept_index(entry: CacheEntry, path: str, *, max_line: int | None, make: Callable[[], Indexed]) -> Indexed:
    """Return what the cache holds for an unchanged file; otherwise the result of `make`, which is cached.

    A line that is longer than is allowed now is a reason to make it again: it will be reported when the file is read.
    """

    def load(record: Record) -> Indexed | None:
        pieces, facts = Segments.of_record(record["pieces"], path), Facts(**record["facts"])
        fits = max_line is None or facts.longest <= max_line
        return (pieces, facts) if fits and pieces is not None else None

    def made() -> tuple[Indexed, Record]:
        pieces, facts = make()
        return (pieces, facts), {"pieces": pieces.record(), "facts": facts._asdict()}

    return entry.kept(load, made)


@contextmanager
def as_stream_errors(path: str) -> Iterator[None]:
    """Tell what goes wrong while a file is indexed as a StreamError."""
    try:
        yield
    except CorpusError as error:
        raise StreamError(str(error)) from error
    except (OutputError, OSError) as error:
        result = f"{shown_path(path)}: no index can be kept ({error})"
        raise StreamError(f"{result}; name another cache folder") from error
