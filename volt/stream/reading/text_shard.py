r"""A text file, plain or compressed → segments of `split_lines` whole lines, which are views into the bytes of the file.

Only "\n" ends a line. A "\r" before it or at the end of the file is dropped, and so is an initial byte order mark.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from volt.arguments import MAX_LINE
from volt.errors import StreamError, shown_path
from volt.files.blocks import read_raw
from volt.files.decompression import find_decoder
from volt.files.remote import has_ranges
from volt.files.small_files import read_start
from volt.files.text_checks import BYTE_ORDER_MARK, first_fault, is_utf8_array
from volt.stream.reading.index_cache import Index, cached_index
from volt.stream.reading.segments import Packing, noted, stamp_of
from volt.stream.reading.shard import Facts, Shard, as_stream_errors
from volt.stream.transforms.column import Column, find_line_ends
from volt.urls import url_of

# Bytes; indexing a smaller plain file is faster than reading its index from the cache
SMALL = 1 << 20
_READ_SIZE = 1 << 20
_RETURN = 0x0D
PARQUET = b"PAR1"  # the first bytes of a Parquet file


@dataclass(frozen=True, slots=True)
class TextShard(Shard):
    def read(self, segment: int) -> tuple[Column, ...]:
        column = lines_of(self.segments.read(segment), is_first=segment == 0)
        if len(column) != self.counts[segment]:
            raise self.segments.changed()
        return (column,)

    def digests_of(self, n_lines: int) -> tuple[str, ...]:
        hash_ = blake2b(digest_size=16)
        for segment, count in enumerate(self.counts):
            data = self.segments.read(segment)
            if n_lines <= count:
                break
            hash_.update(data)
            n_lines -= count
        ends = [*find_line_ends(np.frombuffer(data, np.uint8)).tolist(), len(data)]
        end = ends[n_lines - 1]
        hash_.update(data[:end])
        ended = hash_.copy()
        ended.update(data[end : end + 1])
        return (ended.hexdigest(), hash_.hexdigest())


def lines_of(data: bytes, *, is_first: bool) -> Column:
    """Split bytes into lines, as views. is_first: True if the bytes start a file"""
    text = np.frombuffer(data, np.uint8)
    ends = find_line_ends(text)
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
    data = data[:-1] if is_ended else data.removesuffix(b"\r")
    return data.split(b"\n")


def open_text(
    path: str,
    *,
    split_lines: int | None,
    cache: Path | None = None,
    max_line: int | None = MAX_LINE,
) -> TextShard:
    """Index a text file, or load its index from the cache; options as for `open_shard`."""
    with as_stream_errors(path):
        head = read_start(path, 8)
        if head.startswith(PARQUET):
            raise StreamError(
                f"{shown_path(path)}: is a Parquet file; name its columns, as in columns: {{src: NAME}}"
            )
        url = url_of(path)
        packing: Packing = "frames" if split_lines else "whole"
        # some servers send only whole files
        if find_decoder(head) is None and (url is None or has_ranges(url)):
            packing = "plain"

        def make(copy: Path | None) -> Index:
            scan = TextScan()
            segments = scan.of(cut_lines(path, split_lines, max_line=max_line))
            file = noted(path, packing, segments, copy=copy if packing == "frames" else None)
            return (file,), scan.facts()

        if packing == "plain" and stamp_of(path)[0] < SMALL:
            return TextShard(*make(None))
        key = ["text", split_lines]
        return TextShard(*cached_index([path], make, cache=cache, max_line=max_line, key=key))


class TextScan:
    """Facts about a file, collected while its text is read. first_bad: the first line that is not UTF-8, or 0"""

    def __init__(self) -> None:
        self.n_lines = self.n_bytes = self.longest = self.first_bad = self.first_tab = 0
        self.hash = blake2b(digest_size=16)

    def of(self, segments: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
        for segment in segments:
            lines = lines_of(segment, is_first=not self.n_lines)
            self.hash.update(segment)
            if not self.first_bad and not is_utf8_array(lines.data):
                self.first_bad = self.n_lines + segment.count(b"\n", 0, first_fault(segment)) + 1
            self.n_bytes += len(segment)
            ends = np.append(lines.starts[1:] - 1, len(segment) - segment.endswith(b"\n"))
            self.longest = max(self.longest, int((ends - lines.starts).max(initial=0)))
            tab = segment.find(b"\t")
            if not self.first_tab and tab >= 0:
                self.first_tab = self.n_lines + segment.count(b"\n", 0, tab) + 1
            self.n_lines += len(lines)
            yield segment, len(lines)

    def facts(self) -> Facts:
        digest = self.hash.hexdigest()
        return Facts(self.n_bytes, self.longest, self.first_tab, digest, not self.first_bad)


def cut_lines(path: str, n: int | None, *, max_line: int | None) -> Iterator[bytes]:
    """Yield the bytes of a file's lines, decompressed, n lines at a time, or all at once if n is None."""
    lines = LineCutter(read_raw(path, block_size=_READ_SIZE, max_line=max_line))
    return iter(lambda: b"".join(lines.cut(n or 1 << 62)), b"")


class LineCutter:
    """Takes consecutive lines from blocks of whole lines."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._block = b""
        self._start = 0  # of the next line in the block
        self._ends = np.zeros(0, np.int64)  # of the next lines in the block

    def cut(self, n: int) -> Generator[bytes, None, int]:
        """Yield the next n lines, as views of blocks; return how many are missing if the blocks end early."""
        while n:
            if not len(self._ends):
                block = next(self._blocks, None)
                if block is None:
                    break
                self._block = block
                self._start = 0
                self._ends = find_line_ends(np.frombuffer(block, np.uint8)) + 1
                if not block.endswith(b"\n"):
                    self._ends = np.append(self._ends, len(block))
            taken = self._ends[:n]
            self._ends = self._ends[n:]
            end = int(taken[-1])
            yield self._block[self._start : end]
            self._start = end
            n -= len(taken)
        return n
