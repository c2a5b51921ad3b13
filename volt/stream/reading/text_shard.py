r"""A text file, plain or compressed → pieces of `split_lines` whole lines, which are views into the bytes of the file.

Lines end at "\n" alone; a "\r" before it, or at the end of the file, is dropped, and so is a byte order mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from volt.errors import StreamError, shown_path
from volt.files.blocks import read_raw
from volt.files.decompression import find_decoder
from volt.files.limits import BYTE_ORDER_MARK, MAX_LINE
from volt.files.remote import has_ranges
from volt.files.small_files import read_start
from volt.files.utf8 import is_utf8_array
from volt.stream.reading.shard import Facts, Packing, Shard, as_stream_errors, noted, stamp_of
from volt.stream.reading.shard_cache import Index, cached_index
from volt.stream.transforms.column import Column, line_ends_of
from volt.urls import url_of

SMALL = 1 << 20  # bytes; indexing a smaller plain file is faster than reading its index from the cache
_READ_SIZE = 1 << 20
_RETURN = 0x0D
PARQUET = b"PAR1"  # the first bytes of a Parquet file


@dataclass(frozen=True, slots=True)
class TextShard(Shard):
    def read(self, piece: int) -> tuple[Column, ...]:
        column = lines_of(self.pieces.read(piece), is_first=piece == 0)
        if len(column) != self.counts[piece]:
            raise self.pieces.changed()
        return (column,)

    def digests_of(self, n_lines: int) -> tuple[str, ...]:
        hash_ = blake2b(digest_size=16)
        for piece, count in enumerate(self.counts):
            data = self.pieces.read(piece)
            if n_lines <= count:
                break
            hash_.update(data)
            n_lines -= count
        ends = line_ends_of(np.frombuffer(data, np.uint8))
        end = int(ends[n_lines - 1]) if n_lines <= len(ends) else len(data)
        hash_.update(data[:end])
        ended = hash_.copy()
        ended.update(data[end : end + 1])
        return (ended.hexdigest(), hash_.hexdigest())


def lines_of(data: bytes, *, is_first: bool) -> Column:
    """Split bytes into lines, as views. is_first: the bytes are the start of a file"""
    text = np.frombuffer(data, np.uint8)
    ends = line_ends_of(text)
    first = len(BYTE_ORDER_MARK) * (is_first and data.startswith(BYTE_ORDER_MARK))
    if len(data) > first and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.empty_like(ends)
    starts[:1] = first
    starts[1:] = ends[:-1] + 1
    sizes = ends - starts
    if b"\r" in data:
        sizes -= (sizes > 0) & (text[ends - 1] == _RETURN)
    return Column(text, starts, sizes)


def split_lines(data: bytes) -> list[bytes]:
    is_ended = data.endswith(b"\n")
    data = data.replace(b"\r\n", b"\n")
    return (data[:-1] if is_ended else data.removesuffix(b"\r")).split(b"\n")


def open_text(
    path: str, *, split_lines: int | None, cache: Path | None = None, max_line: int | None = MAX_LINE
) -> TextShard:
    """Index a text file, or load its index from the cache; options as for `open_shard`."""
    with as_stream_errors(path):
        head, url = read_start(path, 8), url_of(path)
        if head.startswith(PARQUET):
            raise StreamError(f"{shown_path(path)}: is a Parquet file; name its columns by `fields`")
        packing: Packing = "frames" if split_lines else "whole"
        if find_decoder(head) is None and (url is None or has_ranges(url)):  # some servers know whole files only
            packing = "plain"

        def make(copy: Path | None = None) -> Index:
            look = _Look()
            pieces = look.at(cut_lines(path, split_lines, max_line=max_line))
            return (noted(path, packing, pieces, copy=copy if packing == "frames" else None),), look.facts()

        if packing == "plain" and stamp_of(path)[0] < SMALL:
            return TextShard(*make())
        return TextShard(*cached_index([path], make, cache=cache, max_line=max_line, key=["text", split_lines]))


class _Look:
    def __init__(self) -> None:
        self.n_lines = self.n_bytes = self.longest = self.first_tab = 0
        self.hash, self.is_utf8 = blake2b(digest_size=16), True

    def at(self, pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
        for piece in pieces:
            lines = lines_of(piece, is_first=not self.n_lines)
            self.hash.update(piece)
            self.is_utf8 = self.is_utf8 and is_utf8_array(lines.data)
            self.n_bytes += len(piece)
            ends = np.append(lines.starts[1:] - 1, len(piece) - piece.endswith(b"\n"))
            self.longest = max(self.longest, int((ends - lines.starts).max(initial=0)))
            if not self.first_tab and (tab := piece.find(b"\t")) >= 0:
                self.first_tab = self.n_lines + piece.count(b"\n", 0, tab) + 1
            self.n_lines += len(lines)
            yield piece, len(lines)

    def facts(self) -> Facts:
        return Facts(self.n_bytes, self.longest, self.first_tab, self.hash.hexdigest(), self.is_utf8)


def cut_lines(path: str, n: int | None, *, max_line: int | None) -> Iterator[bytes]:
    """Yield the bytes of a file's lines, decompressed, n lines at a time, or all at once if n is None."""
    parts, n_lines, step = list[bytes](), 0, n or 1 << 62
    for block in read_raw(path, block_size=_READ_SIZE, max_line=max_line):
        ends = line_ends_of(np.frombuffer(block, np.uint8)) + 1
        start = 0
        for cut in ends[step - n_lines - 1 :: step].tolist():
            yield b"".join([*parts, block[start:cut]])
            parts, start = [], cut
        parts.append(block[start:])
        n_lines = (n_lines + len(ends)) % step
    if rest := b"".join(parts):
        yield rest
