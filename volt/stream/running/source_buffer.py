"""`SourceBuffer`: the computed chunks of one source. Several buffers are mixed into the lines of the stream.

chunks of a source → SourceBuffer → mixed (bytes) or `mixed_columns` (columns), in the order of the mixture's turns
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.stream.reading.error_policy import kind_of
from volt.stream.running.chunk_computation import Address, ComputedChunk
from volt.stream.running.state import Cursor, FaultCounts, Opening
from volt.stream.running.state_validation import refusal
from volt.stream.transforms.column import Longs


class ChunkLines(NamedTuple):
    """Consecutive lines of a chunk: lines `first` … `end` − 1."""

    address: Address
    chunk: ComputedChunk
    first: int
    end: int

    @property
    def _start(self) -> int:
        return int(self.chunk.ends[self.first - 1]) if self.first else 0

    @property
    def data(self) -> NDArray[np.uint8]:
        return self.chunk.data[self._start : int(self.chunk.ends[self.end - 1])]

    def views(self) -> tuple[Longs, Longs]:
        """Return the start of each line in the chunk's data, and its size."""
        ends = self.chunk.ends[self.first : self.end]
        starts = np.concatenate(([self._start], ends[:-1]))
        return starts, ends - starts


@dataclass(slots=True)
class SourceBuffer:
    """The chunks of a source, from its next line on.

    end: the cursor after all lines of the buffer.
    left: the number of lines in the buffer.
    n_empty: lines read since the last chunk with an output line.
    waiting: a chunk that is held back until its first line is the next line of the stream.
    """

    name: str
    end: Cursor
    left: int = 0
    n_empty: int = 0
    waiting: tuple[Address, ComputedChunk] | None = None
    has_ended: bool = False
    _chunks: deque[tuple[Address, ComputedChunk]] = field(default_factory=deque)
    _offset: int = 0  # delivered lines of the first chunk
    _is_fresh: bool = True  # True until a chunk is loaded

    def load(self, address: Address, chunk: ComputedChunk, *, source: int, n: int) -> Opening:
        """Append a chunk that was loaded for line `n` of the stream. Return the record of its opening."""
        end = self.end
        block = address.block
        is_at_end = end.address == block.address
        is_resumed = self._is_fresh and end.inside > 0 and is_at_end and end.chunk == address.chunk
        self._is_fresh = False
        counts = FaultCounts()  # nothing, if the state or another rank counts the lines already
        if is_resumed:
            if end.inside > chunk.n_lines:
                raise refusal(
                    f"the state's sources.{self.name}.offset {end.offset:,} exceeds {chunk.n_lines:,} lines"
                )
            cursor = end
            self._offset = end.inside % chunk.n_lines
        else:
            before = end.offset if is_at_end else 0
            cursor = Cursor(
                end.lines, *block.address, before, address.chunk, before, end.unread, end.grown
            )
            if not block.is_begun:
                counts = FaultCounts(chunk.n_read, Counter(map(kind_of, chunk.faults)))

        n_left = chunk.n_lines - cursor.inside
        self.end = cursor.moved(n_left)
        self.left += n_left
        self.n_empty = 0 if chunk.n_lines else self.n_empty + counts.n_read
        if n_left:
            self._chunks.append((address, chunk))
        return Opening(n, source, cursor, block, chunk.n_lines, counts)

    @property
    def place(self) -> tuple[Address, int] | None:
        """The chunk of the next line, and the number of the chunk's lines that precede it."""
        return (self._chunks[0][0], self._offset) if self._chunks else None

    def next_lines(self, n: int) -> Iterator[ChunkLines]:
        first = self._offset
        for address, chunk in self._chunks:
            if n <= 0:
                return
            end = min(chunk.n_lines, first + n)
            yield ChunkLines(address, chunk, first, end)
            n -= end - first
            first = 0

    def drain(self, n: int) -> None:
        self.left -= n
        self._offset += n
        while self._chunks and self._offset >= (size := self._chunks[0][1].n_lines):
            self._offset -= size
            self._chunks.popleft()


def next_chunk_lines(buffers: Sequence[SourceBuffer], turns: Longs) -> list[tuple[int, ChunkLines]]:
    """Return the lines that supply these turns, each with the number of its source, sorted by source."""
    counts = np.bincount(turns, minlength=len(buffers))
    result = list[tuple[int, ChunkLines]]()
    for source in np.flatnonzero(counts).tolist():
        result += [(source, lines) for lines in buffers[source].next_lines(int(counts[source]))]
    return result


def by_source(turns: Longs, n_sources: int) -> Longs:
    """Return the turns' places, sorted by source."""
    return np.argsort(turns.astype(np.min_scalar_type(n_sources)), kind="stable")


def mixed(buffers: Sequence[SourceBuffer], turns: Longs) -> bytes:
    """Return the next lines of the buffers in the order of these turns."""
    sources, supplies = zip(*next_chunk_lines(buffers, turns), strict=True)
    if sources[0] == sources[-1]:
        return b"".join([lines.data for lines in supplies])
    from volt.kernels.columns import put_values

    views = [lines.views() for lines in supplies]
    order = by_source(turns, len(buffers))
    sizes = np.empty(len(turns), np.int64)
    sizes[order] = np.concatenate([own for _, own in views])
    ends = np.cumsum(sizes)
    places = (ends - sizes)[order]
    out = np.empty(int(ends[-1]), np.uint8)
    nothing = np.frombuffer(b"", np.uint8)
    low = 0
    for lines, (starts, own) in zip(supplies, views, strict=True):
        own_places = places[low : low + len(own)]
        put_values(lines.chunk.data, starts, own, nothing, nothing, out, own_places)
        low += len(own)
    return out.tobytes()
