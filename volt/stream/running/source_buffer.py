"""The computed blocks of one source that still have lines to give, and the lines of several sources put in order.

>>> from volt.stream.reading.shares import Part
>>> buffer = SourceBuffer("wmt", Cursor())
>>> block = ComputedBlock(np.frombuffer(b"a\\nb\\nc\\n", np.uint8), np.array([2, 4, 6]), n_read=3)
>>> opening = buffer.load(Address(Part(0, 0, 3), 0), block, source=0, n=0)
>>> buffer.drain(1)
>>> buffer.left, bytes(mixed([buffer], np.zeros(2, np.int64))), buffer.place
(2, b'b\\nc\\n', (Address(part=Part(epoch=0, start=0, n_lines=3, picks=((0, 1),)), chunk=0), 1))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.stream.running.blocks import ComputedBlock
from volt.stream.running.chunks import Address
from volt.stream.running.state import Cursor, FaultCounts, Opening, check_offset

Longs = NDArray[np.int64]


class Stretch(NamedTuple):
    """Consecutive lines of a block that are given next: lines first … end − 1."""

    address: Address
    block: ComputedBlock
    first: int
    end: int

    def spans(self) -> tuple[Longs, Longs]:
        """Return where each line starts in the data of the block, and its size with the line end."""
        ends = self.block.ends[self.first : self.end]
        starts = np.empty_like(ends)
        starts[1:] = ends[:-1]
        starts[:1] = self.block.ends[self.first - 1] if self.first else 0
        return starts, ends - starts


@dataclass(slots=True)
class SourceBuffer:
    """Hold the blocks of a source from the next line on.

    name: of the source.
    end: how far the source has been read when all lines of the buffer have been given.
    left: lines in the buffer.
    n_empty: lines of the source that were read since the last block that gave a line.
    waiting: the next block, which holds an error that is raised when its lines are needed.
    has_ended: whether the source has no further block.
    """

    name: str
    end: Cursor
    left: int = 0
    n_empty: int = 0
    waiting: tuple[Address, ComputedBlock] | None = None
    has_ended: bool = False
    _blocks: deque[tuple[Address, ComputedBlock]] = field(default_factory=deque)
    _offset: int = 0  # lines of the first block that have been given
    _is_fresh: bool = True  # whether no block has been loaded yet

    def load(self, address: Address, block: ComputedBlock, *, source: int, n: int) -> Opening:
        """Append a block. Return what changes in the state when line n of the stream is given.

        Raises StreamError if a restored state says that more of its lines were given than it has.
        """
        part, end = address.part, self.end
        where = (part.epoch, part.start, address.chunk)
        is_resumed = self._is_fresh and end.inside > 0 and where == (end.epoch, end.start, end.chunk)
        self._is_fresh = False
        if is_resumed:
            check_offset(end, self.name, n_lines=block.n_lines)
            cursor, self._offset = end, end.inside % max(1, block.n_lines)
        else:
            before = end.offset if end.address == part.address else 0
            cursor = Cursor(end.lines, *part.address, before, address.chunk, before, end.deal, end.grown)
        counts = FaultCounts() if is_resumed or part.is_begun else FaultCounts.of(block)
        n_left = block.n_lines - cursor.inside
        self.end, self.left = cursor.moved(n_left), self.left + n_left
        self.n_empty = 0 if block.n_lines else self.n_empty + counts.n_read
        if n_left:
            self._blocks.append((address, block))
        return Opening(n, source, cursor, part, block.n_lines, counts)

    @property
    def place(self) -> tuple[Address, int] | None:
        """The block that the next line comes from, and how many of its lines come before."""
        return (self._blocks[0][0], self._offset) if self._blocks else None

    def stretches(self, n: int) -> Iterator[Stretch]:
        """Yield the next n lines, block by block."""
        first = self._offset
        for address, block in self._blocks:
            if n <= 0:
                return
            end = min(block.n_lines, first + n)
            yield Stretch(address, block, first, end)
            n, first = n - (end - first), 0

    def drain(self, n: int) -> None:
        """Drop the next n lines, which have been given."""
        self.left -= n
        self._offset += n
        while self._blocks and self._offset >= (size := self._blocks[0][1].n_lines):
            self._offset -= size
            self._blocks.popleft()


def next_stretches(buffers: Sequence[SourceBuffer], turns: Longs) -> list[tuple[int, Stretch]]:
    """Return the stretches that the lines of these turns come from, with their sources, source by source."""
    counts = np.bincount(turns, minlength=len(buffers))
    sources = np.flatnonzero(counts).tolist()
    return [(source, stretch) for source in sources for stretch in buffers[source].stretches(int(counts[source]))]


def by_source(turns: Longs, n_sources: int) -> Longs:
    """Return the places of the turns, source by source: an index into `turns` that sorts it, stable.

    >>> by_source(np.array([1, 0, 1]), 2).tolist()
    [1, 0, 2]
    """
    return np.argsort(turns.astype(np.min_scalar_type(n_sources)), kind="stable")


def mixed(buffers: Sequence[SourceBuffer], turns: Longs) -> NDArray[np.uint8]:
    """Return the next lines of the buffers in the order of these turns, each with its line end. Nothing is drained."""
    stretches = [stretch for _, stretch in next_stretches(buffers, turns)]
    spans = [stretch.spans() for stretch in stretches]
    if len(stretches) == 1:
        [(starts, own)] = spans
        return stretches[0].block.data[int(starts[0]) : int(starts[-1] + own[-1])]
    from volt.kernels.columns import scatter

    order = by_source(turns, len(buffers))
    sizes: NDArray[Any] = np.empty(len(turns), np.int64)
    sizes[order] = np.concatenate([own for _, own in spans])
    ends = np.cumsum(sizes)
    out, places, low = np.empty(int(ends[-1]), np.uint8), (ends - sizes)[order], 0
    for stretch, (starts, own) in zip(stretches, spans, strict=True):
        scatter(stretch.block.data, starts, own, places[low : low + len(own)], out)
        low += len(own)
    return out
