"""`index_segments`: a file, cut into segments of whole lines → `Segments`, which reads any segment.

    segments of 4, 4 and 1 lines → counts (4, 4, 1), ends (80, 175, 190) in bytes, a CRC-32 of each

A plain file is read in place. The segments of a compressed file or a table are copied to the cache
folder, as LZ4 frames: 8 bytes for the size of the segment, then the compressed segment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from volt.errors import CorpusError, StreamError, shown_path, unreadable
from volt.files.atomic import write_atomic
from volt.files.blocks import read_raw
from volt.files.remote import look, read_range
from volt.urls import url_of

Stamp = tuple[int, int]  # a file's size, and its modification time in nanoseconds
Packing = Literal["plain", "frames", "whole"]


@dataclass(frozen=True, slots=True)
class Segments:
    """The byte positions of a file's segments.

    data_path: the file that contains the segments: `path` itself, or its split copy.
    packing: the format of data_path: "plain" bytes, LZ4 "frames", or "whole" for a compressed file
        that is read as one segment.
    ends: the byte offsets in data_path at which segments end.
    counts: lines per segment.
    checks: the CRC-32 of each segment, or of its frame.
    stamp: the stamp of data_path when it was indexed.
    """

    path: str
    data_path: str
    packing: Packing
    ends: tuple[int, ...]
    counts: tuple[int, ...]
    checks: tuple[int, ...]
    stamp: Stamp

    def read(self, segment: int) -> bytes:
        """Return the bytes of a segment. Raises StreamError if the file has changed or is
        damaged."""
        stored = self._read_stored(segment)
        is_intact = crc32(stored) == self.checks[segment]
        if self.packing == "frames":
            if not is_intact:
                raise self._damaged_copy_error(segment)
            return _unpack_frame(stored)
        if not is_intact:
            raise self._edited_error(segment)
        return stored

    def check_unchanged(self) -> None:
        if stamp_of(self.data_path) != self.stamp:
            raise self.changed_error()

    def changed_error(self) -> StreamError:
        return StreamError(
            f"{shown_path(self.data_path)}: changed while the stream was running; start the stream anew"
        )

    def to_record(self) -> dict[str, Any]:
        """Return the JSON values from which `from_record` rebuilds the object."""
        values = asdict(self)
        del values["path"], values["data_path"]
        return values

    @classmethod
    def from_record(cls, record: Mapping[str, Any], path: str, copy: Path) -> Segments:
        """Return the stored segments of a file at `path`, whose split copy, if any, is `copy`.

        Raises StreamError if the file or its copy has changed.
        """
        values = dict(record)
        for name in ("ends", "counts", "checks", "stamp"):
            values[name] = tuple(values[name])
        data_path = path
        if record["packing"] == "frames":
            data_path = str(copy)
        result = cls(path, data_path, **values)
        result.check_unchanged()
        return result

    def _read_stored(self, segment: int) -> bytes:
        start = self.ends[segment - 1] if segment else 0
        size = self.ends[segment] - start
        is_remote = url_of(self.data_path) is not None
        try:
            with nullcontext() if is_remote else open(self.data_path, "rb") as file:
                if stamp_of(file.fileno() if file else self.data_path) != self.stamp:
                    raise self.changed_error()
                if self.packing == "whole":  # indexing has checked its lines
                    return b"".join(read_raw(self.data_path, max_line=None))
                if file is None:
                    data = read_range(self.data_path, start, size)
                else:
                    file.seek(start)
                    data = file.read(size)
        except OSError as error:
            remedy = "it could be read when it was indexed; restore it"
            raise unreadable(self.data_path, error, kind=StreamError, remedy=remedy) from error
        except CorpusError as error:
            raise StreamError(str(error)) from error
        if len(data) < size:
            raise self.changed_error()
        return data

    def _damaged_copy_error(self, segment: int) -> StreamError:
        with suppress(OSError):
            os.unlink(self.data_path)
        copy = (
            f"its copy {shown_path(self.data_path)} is damaged in segment {segment} and was deleted"
        )
        return StreamError(f"{shown_path(self.path)}: {copy}; start the stream anew")

    def _edited_error(self, segment: int) -> StreamError:
        first = sum(self.counts[:segment]) + 1
        last = first - 1 + self.counts[segment]
        lines = f"lines {first:,} to {last:,} have changed since the file was indexed"
        problem = f"{lines}, but the file's size and modification time have not"
        return StreamError(
            f"{shown_path(self.path)}: {problem}; touch the file, and start the stream anew"
        )


def index_segments(
    path: str, packing: Packing, segments: Iterable[tuple[bytes, int]], *, copy: Path | None = None
) -> Segments:
    """Index the segments of a file in one pass.

    segments: the bytes of each segment, and its number of lines
    copy: the path to which each segment is written as an LZ4 frame; None for no copy

    Raises StreamError if the file changes during indexing.
    """
    before = stamp_of(path)
    position = 0
    ends = list[int]()
    counts = list[int]()
    checks = list[int]()
    with nullcontext() if copy is None else write_atomic(copy) as file:
        for segment, n_lines in segments:
            stored = segment if file is None else _pack_frame(segment)
            position += len(stored)
            ends.append(position)
            counts.append(n_lines)
            checks.append(crc32(stored))
            if file is not None:
                file.write(stored)
    if stamp_of(path) != before:
        raise StreamError(
            f"{shown_path(path)}: changed while it was being indexed; wait until it is complete"
        )
    data_path = str(copy or path)
    stamp = stamp_of(data_path)
    return Segments(path, data_path, packing, tuple(ends), tuple(counts), tuple(checks), stamp)


def crc32(data: bytes) -> int:
    """Return the CRC-32 that zlib defines, in a twentieth of zlib's time."""
    from isal import isal_zlib

    return int(isal_zlib.crc32(data))


def _pack_frame(segment: bytes) -> bytes:
    import pyarrow as pa

    size = len(segment).to_bytes(8, "little")
    return size + bytes(pa.compress(segment, "lz4_raw", asbytes=True))


def _unpack_frame(frame: bytes) -> bytes:
    import pyarrow as pa

    size = int.from_bytes(frame[:8], "little")
    return bytes(pa.decompress(memoryview(frame)[8:], size, "lz4_raw", asbytes=True))


def stamp_of(path: str | int) -> Stamp:
    """Return the stamp of a file or URL. Raises StreamError if it is missing.

    path: the path, or the descriptor of an open file
    """
    try:
        if isinstance(path, str) and (url := url_of(path)):
            return look(url).stamp
        status = os.stat(path)
    except OSError as error:
        raise unreadable(path, error, kind=StreamError) from error
    return status.st_size, status.st_mtime_ns
