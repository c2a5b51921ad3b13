"""A file → its pieces: runs of `split_lines` lines that can be read on their own, and how many lines they hold.

A plain file is indexed by the byte offsets of its pieces. A compressed file is split: its pieces are copied, each a
zstd frame with a checksum, to one file in the cache folder. Index and copy are made in one pass, and appear whole or
not at all. They belong to one path, size and time of change. One process makes them, and others that want the same
wait. The digest is of the lines, so the same text has the same digest in any place and in any packing.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"one\\ntwo\\nthree") and file.flush()
...     shard = open_shard(file.name, split_lines=2)
...     shard.sizes.tolist(), read_piece(shard, 1)
([2, 1], [b'three'])
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.errors import CorpusError, OutputError, StreamError, shown_path, unreadable
from volt.files.atomic import write_atomic
from volt.files.blocks import is_compressed, read_raw
from volt.files.long_lines import BYTE_ORDER_MARK, MAX_LINE

VERSION = 2
SMALL = 1 << 20  # bytes; the index of a smaller plain file is faster made than looked up
_READ_SIZE = 1 << 20

Packing = Literal["plain", "frames", "whole"]
Stamp = tuple[int, int]  # size, time of change


@dataclass(frozen=True, slots=True)
class Shard:
    """A file that has been indexed.

    path: as it was named.
    data_path: the file that lines are read from: itself, or its split copy.
    packing: of data_path: "plain" text, zstd "frames", or "whole", a compressed file that is read as one piece.
    ends: byte offsets in data_path at which pieces end.
    counts: lines per piece.
    n_bytes: bytes of text.
    longest: bytes of its longest line.
    digest: of the lines.
    stamp: size and time of change of data_path.
    """

    path: str
    data_path: str
    packing: Packing
    ends: tuple[int, ...]
    counts: tuple[int, ...]
    n_bytes: int
    longest: int
    digest: str
    stamp: Stamp

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(n_pieces,) lines per piece."""
        return np.array(self.counts, np.int64)

    @property
    def n_lines(self) -> int:
        """Lines in the file."""
        return sum(self.counts)


def default_cache() -> Path:
    """Where indices and split copies are kept unless the caller says otherwise.

    >>> default_cache().name
    'stream'
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volt" / "stream"


def open_shard(
    path: str, *, split_lines: int | None, cache: Path | None = None, max_line: int | None = MAX_LINE
) -> Shard:
    """Index a file, or find its index in the cache.

    split_lines: lines per piece, or None to leave files whole.
    max_line: the most bytes of a line; None for no limit.
    Raises StreamError if the file is missing, damaged or no text, has a line that is too long, or the cache cannot be
    written.
    """
    job = _Job(path, split_lines, max_line)
    try:
        stamp = stamp_of(path)
        packing = _packing(path, split_lines)
        if packing == "plain" and stamp[0] < SMALL:
            return _index(job, stamp, None)
        return _cached(job, stamp, cache or default_cache(), packing)
    except CorpusError as error:
        raise StreamError(str(error)) from error
    except (OutputError, OSError) as error:
        found = f"{shown_path(path)}: no index can be kept ({error})"
        raise StreamError(f"{found}; name another cache folder") from error


class _Job(NamedTuple):
    """What is to be indexed, as `open_shard` was told."""

    path: str
    split_lines: int | None
    max_line: int | None


def stamp_of(path: str | int) -> Stamp:
    """Size and time of change of a file. Raises StreamError if it is not there."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise unreadable(path, error, kind=StreamError) from error
    return status.st_size, status.st_mtime_ns


def _packing(path: str, split_lines: int | None) -> Packing:
    if not is_compressed(path):
        return "plain"
    return "frames" if split_lines else "whole"


def _cached(job: _Job, stamp: Stamp, cache: Path, packing: Packing) -> Shard:
    name = blake2b(json.dumps([VERSION, os.path.abspath(job.path), *stamp, job.split_lines]).encode(), digest_size=12)
    index_path = cache / f"{name.hexdigest()}.json"
    if (shard := _load(index_path, job)) is not None:
        return shard
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(index_path.with_suffix(".lock")):
        if (shard := _load(index_path, job)) is not None:  # another process has just made it
            return shard
        copy = index_path.with_suffix(".lines.zst") if packing == "frames" else None
        shard = _index(job, stamp, copy)
        with write_atomic(index_path) as file:
            file.write(json.dumps({"version": VERSION, **asdict(shard)}).encode())
    return shard


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that dies with the process."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _load(index_path: Path, job: _Job) -> Shard | None:
    """The index, if it is there, whole, and its data is still as it was when the index was made.

    None too if a line is longer than is allowed now: it will be told when the file is read.
    """
    try:
        stored: dict[str, Any] = json.loads(index_path.read_bytes())
        if stored.pop("version") != VERSION:
            return None
        lists = {name: tuple(stored.pop(name)) for name in ("ends", "counts", "stamp")}
        shard = Shard(**{**stored, **lists, "path": job.path})
        fits = job.max_line is None or shard.longest <= job.max_line
        return shard if fits and stamp_of(shard.data_path) == shard.stamp else None
    except (OSError, ValueError, KeyError, TypeError, StreamError):
        return None


def _index(job: _Job, stamp: Stamp, copy: Path | None) -> Shard:
    """One pass over a file: cut it, copy it if it is to be split, and note where its pieces end."""
    path = job.path
    packing: Packing = "frames" if copy is not None else "whole" if is_compressed(path) else "plain"
    if copy is not None:
        with write_atomic(copy) as file:
            noted = _note(job, file)
    else:
        noted = _note(job, None)
    if stamp_of(path) != stamp:
        raise StreamError(f"{shown_path(path)}: changed while it was being indexed; wait until it is complete")
    data_path = str(copy or path)
    return Shard(path, data_path, packing, *noted, stamp=stamp_of(data_path))


def _note(job: _Job, copy: BinaryIO | None) -> tuple[tuple[int, ...], tuple[int, ...], int, int, str]:
    """ends, counts, n_bytes, longest and digest of a file's pieces; each piece is also written to `copy` as a frame."""
    ends, counts, position, n_bytes, longest, digest = list[int](), list[int](), 0, 0, 0, blake2b(digest_size=16)
    for piece in _cut(job):
        stored = piece if copy is None else _frame(piece)
        position += len(stored)
        n_bytes += len(piece)
        digest.update(piece)
        ends.append(position)
        counts.append(piece.count(b"\n") + (not piece.endswith(b"\n")))
        longest = max(longest, _longest_line(piece.removeprefix(BYTE_ORDER_MARK) if len(counts) == 1 else piece))
        if copy is not None:
            copy.write(stored)
    return tuple(ends), tuple(counts), n_bytes, longest, digest.hexdigest()


def _longest_line(piece: bytes) -> int:
    """The bytes of the longest of some lines."""
    ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == 0x0A)
    return int(np.diff(ends, prepend=-1, append=len(piece)).max()) - 1


def _frame(piece: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=1, write_checksum=True).compress(piece)


def _cut(job: _Job) -> Iterator[bytes]:
    """The bytes of a file's lines, `split_lines` lines at a time."""
    parts, n_lines, step = list[bytes](), 0, job.split_lines or 1 << 62
    for block in read_raw(job.path, block_size=_READ_SIZE, max_line=job.max_line):
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 0x0A) + 1
        start = 0
        for cut in ends[step - n_lines - 1 :: step].tolist():
            yield b"".join([*parts, block[start:cut]])
            parts, start = [], cut
        parts.append(block[start:])
        n_lines = (n_lines + len(ends)) % step
    if rest := b"".join(parts):
        yield rest


def read_piece(shard: Shard, piece: int) -> list[bytes]:
    """The lines of a piece, without line ends. Raises StreamError if the file is not what was indexed."""
    data = _decoded(shard, piece, _stored(shard, piece))
    lines = split_lines(data.removeprefix(BYTE_ORDER_MARK) if piece == 0 else data)
    if len(lines) != shard.counts[piece]:
        raise _changed(shard)
    return lines


def split_lines(data: bytes) -> list[bytes]:
    r"""Lines of bytes: they end at "\n" alone, and a "\r" before it, or at the end, goes too.

    >>> split_lines(b"a\tb\r\n\x0bc\n"), split_lines("a\u2028b".encode()) == ["a\u2028b".encode()]
    ([b'a\tb', b'\x0bc'], True)
    """
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    return data.removesuffix(b"\n").removesuffix(b"\r").split(b"\n")


def _stored(shard: Shard, piece: int) -> bytes:
    """The bytes of a piece as they are on disk, or of the whole file decompressed."""
    start = shard.ends[piece - 1] if piece else 0
    try:
        with open(shard.data_path, "rb") as file:
            if stamp_of(file.fileno()) != shard.stamp:
                raise _changed(shard)
            if shard.packing == "whole":
                return b"".join(read_raw(shard.data_path, max_line=None))  # known from the index
            file.seek(start)
            data = file.read(shard.ends[piece] - start)
            if len(data) < shard.ends[piece] - start:
                raise _changed(shard)
            return data
    except OSError as error:
        raise unreadable(
            shard.data_path, error, kind=StreamError, remedy="it could be when it was indexed: restore it"
        ) from error
    except CorpusError as error:
        raise StreamError(str(error)) from error


def _decoded(shard: Shard, piece: int, stored: bytes) -> bytes:
    if shard.packing != "frames":
        return stored
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompress(stored)
    except zstandard.ZstdError as error:
        raise StreamError(
            f"{shown_path(shard.data_path)}: piece {piece} is damaged ({error}); delete this file"
        ) from error


def check_unchanged(shard: Shard) -> None:
    """Raise StreamError if the file is not what was indexed, or is gone."""
    if stamp_of(shard.data_path) != shard.stamp:
        raise _changed(shard)


def _changed(shard: Shard) -> StreamError:
    return StreamError(f"{shown_path(shard.data_path)}: changed while the stream was running; start the stream anew")
