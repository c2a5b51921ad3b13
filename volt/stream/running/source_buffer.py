"""`SourceBuffer`: the computed chunks of one source. Several buffers are mixed into a stream.

    chunks of a source → SourceBuffer ─┐
    chunks of a source → SourceBuffer ─┴─ in the order of the turns → `mix_lines` (bytes), or
                                          `stream_batch.mix_columns` (columns)

`Engine` loads chunks into the buffers, and drains them when it commits delivered lines. Mixing
reads the next lines of the buffers, and changes nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from volt.array_types import Bytes, Longs
from volt.stream.reading.error_policy import kind_of
from volt.stream.running.chunk_computation import Address, ComputedChunk
from volt.stream.running.openings import Opening, ReadCounts
from volt.stream.running.state import Cursor
from volt.stream.running.state_validation import refusal

_NO_BYTES = np.frombuffer(b"", np.uint8)


class ChunkLines(NamedTuple):
    """Consecutive lines of a chunk: lines `first` … `end` − 1."""

    address: Address
    chunk: ComputedChunk
    first: int
    end: int

    @property
    def _byte_start(self) -> int:
        return int(self.chunk.ends[self.first - 1]) if self.first else 0

    @property
    def data(self) -> Bytes:
        return self.chunk.data[self._byte_start : int(self.chunk.ends[self.end - 1])]

    def starts_and_sizes(self) -> tuple[Longs, Longs]:
        """Return where each line starts in the chunk's data, and its size, in bytes."""
        ends = self.chunk.ends[self.first : self.end]
        starts = np.concatenate(([self._byte_start], ends[:-1]))
        return starts, ends - starts


@dataclass(slots=True)
class SourceBuffer:
    """The chunks of a source, from its next line on.

    name: the source's name.
    end: the cursor after all lines of the buffer.
    n_lines: lines in the buffer.
    n_read_in_vain: lines read since the last chunk with an output line.
    waiting: a chunk that is held back until its first line is the next line of the stream.
    has_ended: True if the source has no chunks after those of the buffer.
    """

    name: str
    end: Cursor
    n_lines: int = 0
    n_read_in_vain: int = 0
    waiting: tuple[Address, ComputedChunk] | None = None
    has_ended: bool = False
    _chunks: deque[tuple[Address, ComputedChunk]] = field(default_factory=deque)
    _n_drained: int = 0  # drained lines of the first chunk
    _is_fresh: bool = True  # True until a chunk is loaded

    def load(self, address: Address, chunk: ComputedChunk, *, source: int, n: int) -> Opening:
        """Append a chunk that was loaded for line `n` of the stream. Return the record of its
        opening.

        source: the index of the source
        """
        end = self.end
        block = address.block
        is_same_block = end.block_address == block.address
        # a restored cursor may be inside the first chunk; its state counts the chunk's lines
        is_resumed = end.chunk_offset > 0 and is_same_block and end.chunk == address.chunk
        counts = ReadCounts()
        if self._is_fresh and is_resumed:
            if end.chunk_offset > chunk.n_lines:
                problem = f"offset {end.offset:,} exceeds {chunk.n_lines:,} lines"
                raise refusal(f"the state's sources.{self.name}.{problem}")
            cursor = end
            self._n_drained = end.chunk_offset % chunk.n_lines
        else:
            n_before = end.offset if is_same_block else 0
            cursor = Cursor(
                end.lines,
                *block.address,
                offset=n_before,
                chunk=address.chunk,
                before=n_before,
                unread=end.unread,
                grown=end.grown,
            )
            if not block.is_begun:  # else another rank has counted its lines
                counts = ReadCounts(chunk.n_read, Counter(map(kind_of, chunk.faults)))

        n_new = chunk.n_lines - cursor.chunk_offset
        self._is_fresh = False
        self.end = cursor.advance(n_new)
        self.n_lines += n_new
        self.n_read_in_vain = 0 if chunk.n_lines else self.n_read_in_vain + counts.n_read
        if n_new:
            self._chunks.append((address, chunk))
        return Opening(n, source, cursor, block, chunk.n_lines, counts)

    @property
    def next_place(self) -> tuple[Address, int] | None:
        """The chunk of the next line, and the number of the chunk's lines that precede it."""
        return (self._chunks[0][0], self._n_drained) if self._chunks else None

    def next_lines(self, n: int) -> Iterator[ChunkLines]:
        first = self._n_drained
        for address, chunk in self._chunks:
            if n <= 0:
                return
            end = min(chunk.n_lines, first + n)
            yield ChunkLines(address, chunk, first, end)
            n -= end - first
            first = 0

    def drain(self, n: int) -> None:
        """Remove the next n lines, which the stream has delivered."""
        self.n_lines -= n
        self._n_drained += n
        while self._chunks and self._n_drained >= (size := self._chunks[0][1].n_lines):
            self._n_drained -= size
            self._chunks.popleft()


def select_next_lines(
    buffers: Sequence[SourceBuffer], turns: Longs
) -> list[tuple[int, ChunkLines]]:
    """Return the lines that supply these turns, each with its source's index, sorted by source."""
    counts = np.bincount(turns, minlength=len(buffers))
    result = list[tuple[int, ChunkLines]]()
    for source in np.flatnonzero(counts).tolist():
        result += [(source, lines) for lines in buffers[source].next_lines(int(counts[source]))]
    return result


def sort_turns(turns: Longs, n_sources: int) -> Longs:
    """Return the indices of the turns, sorted by source: turns [1, 0, 1] → [1, 0, 2]."""
    return np.argsort(turns.astype(np.min_scalar_type(n_sources)), kind="stable")


def mix_lines(buffers: Sequence[SourceBuffer], turns: Longs) -> bytes:
    """Return the next lines of the buffers in the order of these turns, with line ends."""
    sources, supplies = zip(*select_next_lines(buffers, turns), strict=True)
    if sources[0] == sources[-1]:
        return b"".join([lines.data for lines in supplies])
    from volt.kernels.columns import put_values

    views = [lines.starts_and_sizes() for lines in supplies]
    by_source = sort_turns(turns, len(buffers))
    sizes = np.empty(len(turns), np.int64)
    sizes[by_source] = np.concatenate([sizes for _, sizes in views])
    ends = np.cumsum(sizes)
    # where each line starts in the output, sorted by source
    out_starts = (ends - sizes)[by_source]
    out = np.empty(int(ends[-1]), np.uint8)
    low = 0
    for lines, (starts, chunk_sizes) in zip(supplies, views, strict=True):
        high = low + len(starts)
        put_values(
            lines.chunk.data, starts, chunk_sizes, _NO_BYTES, _NO_BYTES, out, out_starts[low:high]
        )
        low = high
    return out.tobytes()
