r"""`open_text`: a text file, plain or compressed → a shard of segments of whole lines.

    "\ufefflow\r\nnew\nold", 2 lines per segment   →   segment 0: "low", "new"; segment 1: "old"

Lines are read as views into the bytes of the file. Only "\n" ends a line. A "\r" before it or at
the end of the file is dropped, and so is an initial byte order mark.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
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
from volt.files.tables import table_kind
from volt.files.text_checks import BYTE_ORDER_MARK, first_fault, is_utf8_array
from volt.stream.reading.index_cache import Index, cached_index
from volt.stream.reading.segments import Packing, index_segments, stamp_of
from volt.stream.reading.shard import Facts, Shard, as_stream_errors
from volt.stream.transforms.column import Column, find_line_ends
from volt.urls import url_of

# Bytes; indexing a smaller plain file is faster than reading its index from the cache
SMALL = 1 << 20
_READ_BYTES = 1 << 20  # to decompress at a time
_RETURN = ord("\r")
_ALL_LINES = 1 << 62


@dataclass(frozen=True, slots=True)
class TextShard(Shard):
    def read(self, segment: int) -> tuple[Column, ...]:
        column = lines_of(self.segments.read(segment), is_first=segment == 0)
        if len(column) != self.counts[segment]:
            raise self.segments.changed_error()
        return (column,)

    def digests_of(self, n_lines: int) -> tuple[str, ...]:
        without_end = blake2b(digest_size=16)
        for segment, count in enumerate(self.counts):
            data = self.segments.read(segment)
            if n_lines <= count:
                break
            without_end.update(data)
            n_lines -= count
        ends = [*find_line_ends(np.frombuffer(data, np.uint8)).tolist(), len(data)]
        end = ends[n_lines - 1]
        without_end.update(data[:end])
        with_end = without_end.copy()
        with_end.update(data[end : end + 1])
        return (with_end.hexdigest(), without_end.hexdigest())


def lines_of(data: bytes, *, is_first: bool) -> Column:
    """Split bytes into lines, as views.

    is_first: the bytes start a file, perhaps with a byte order mark
    """
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
    """Split bytes into lines, as copies."""
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
        kind = table_kind(path, reads_urls=False)
        if kind not in (None, "tsv"):
            raise StreamError(
                f"{shown_path(path)}: is a table ({kind}); name its columns, as in columns: {{src: NAME}}"
            )
        url = url_of(path)
        packing: Packing = "frames" if split_lines else "whole"
        # some servers send only whole files
        if find_decoder(head) is None and (url is None or has_ranges(url)):
            packing = "plain"

        def make(copy: Path | None) -> Index:
            scan = TextScan()
            segments = scan.read(cut_lines(path, split_lines, max_line=max_line))
            if packing != "frames":
                copy = None
            return (index_segments(path, packing, segments, copy=copy),), scan.facts()

        if packing == "plain" and stamp_of(path)[0] < SMALL:
            return TextShard(*make(None))
        key = ["text", split_lines]
        return TextShard(*cached_index([path], make, cache=cache, max_line=max_line, key=key))


class TextScan:
    """Reads the segments of a text file once, and collects the facts about its lines.

    n_lines: lines read so far.
    first_bad: the number, from 1, of the first line that is not UTF-8; 0 if there is none.
    """

    def __init__(self) -> None:
        self.n_lines = 0
        self.first_bad = 0
        self.n_bytes = 0
        self.longest = 0
        self.first_tab = 0
        self.hash = blake2b(digest_size=16)

    def read(self, segments: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
        """Yield each segment, and its number of lines."""
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
    """Yield the bytes of a file's lines, decompressed, n lines at a time, or all at once if n is
    None."""
    cutter = LineCutter(read_raw(path, block_size=_READ_BYTES, max_line=max_line))
    return iter(lambda: b"".join(cutter.cut(n or _ALL_LINES)), b"")


class LineCutter:
    """Takes consecutive lines from blocks of whole lines."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._block = b""
        self._next_start = 0  # in the block, of the next line
        self._line_ends = np.zeros(0, np.int64)  # in the block, of the next lines

    def cut(self, n: int) -> Generator[bytes, None, int]:
        """Yield the bytes of the next n lines; return how many are missing if the blocks end
        early."""
        while n:
            if not len(self._line_ends):
                block = next(self._blocks, None)
                if block is None:
                    break
                self._block = block
                self._next_start = 0
                self._line_ends = find_line_ends(np.frombuffer(block, np.uint8)) + 1
                if not block.endswith(b"\n"):
                    self._line_ends = np.append(self._line_ends, len(block))
            ends = self._line_ends[:n]
            self._line_ends = self._line_ends[n:]
            end = int(ends[-1])
            yield self._block[self._next_start : end]
            self._next_start = end
            n -= len(ends)
        return n
