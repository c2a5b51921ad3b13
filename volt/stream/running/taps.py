"""The block that the stream takes a source's next lines from: how much of it has been given, and the lines that follow.

>>> tap = Tap("wmt", Cursor(lines=1, epoch=0, start=3, offset=1))
>>> block = ComputedBlock(np.frombuffer(b"a\\nb\\nc\\n", np.uint8), np.array([2, 4, 6]), n_read=3)
>>> tap.fill(Address(Part(0, 3, 3), 0), block, offset=1)
>>> tap.left, bytes(mixed([tap], np.zeros(2, np.int64))), tap.cursor
(2, b'b\\nc\\n', Cursor(lines=1, epoch=0, start=3, offset=1, chunk=0, before=0, deal=()))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.shares import Part
from volt.stream.running.blocks import ComputedBlock
from volt.stream.running.chunks import Address, most_of, rows_of
from volt.stream.running.state import Charge, Cursor


@dataclass(slots=True)
class Tap:
    """What a stream holds of one source.

    name: of the source.
    cursor: how far the source has been read.
    block: the block in use; None at the start, and after the workers have ended.
    address: of the block in use, or that was.
    size, charge: how many lines the block in use has, and what it was counted as, known also while `block` is None.
    n_empty: how many lines of the source were read since the last that gave a line.
    """

    name: str
    cursor: Cursor = field(default_factory=Cursor)
    block: ComputedBlock | None = None
    address: Address | None = None
    size: int = 0
    charge: Charge | None = None
    n_empty: int = 0

    @property
    def left(self) -> int:
        """Lines left in the block in use."""
        return 0 if self.block is None else self.block.n_lines - self.cursor.inside

    def is_counted(self, address: Address) -> bool:
        """Whether this block was in use before, as that of a restored state was."""
        cursor = self.cursor
        begun = cursor.inside > 0 or self.charge is not None
        where = (address.part.epoch, address.part.start, address.chunk)
        return self.block is None and begun and where == (cursor.epoch, cursor.start, cursor.chunk)

    def fill(self, address: Address, block: ComputedBlock, *, offset: int = 0) -> None:
        """Put a block in use, of which `offset` lines have been given already."""
        part, self.address = address.part, address
        self.charge = Charge(0, {}) if part.is_begun else Charge.of(block)  # the ranks that began it have counted it
        cursor = self.cursor if self.cursor.address == part.address else Cursor(self.cursor.lines, *part.address)
        before = cursor.offset - offset
        self.cursor = replace(cursor, chunk=address.chunk, before=before, deal=self.cursor.deal)
        self.block, self.size = block, block.n_lines
        self.n_empty = 0 if block.n_lines else self.n_empty + self.charge.n_read

    def drain(self, n: int) -> None:
        """Note that n more lines have been given."""
        self.cursor = moved(self.cursor, n)

    def spans(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the next n lines start in the data of the block in use, and their sizes with the line end."""
        if self.block is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        offset = self.cursor.inside
        ends = self.block.ends[offset : offset + n]
        first = self.block.ends[offset - 1 : offset] if offset else np.zeros(1, np.int64)
        starts = np.concatenate([first, ends])[: len(ends)]
        return starts, ends - starts


def epochs_read(source: OpenSource, tap: Tap, cursor: Cursor) -> float:
    """How often a source has been read up to a cursor of a tap, by the share of lines of its epoch that were read.

    Inside a block, the lines that it gives stand for those that it was made from.
    """
    part = tap.address.part if tap.address else Part(cursor.epoch, cursor.start or 0, source.block_lines)
    low, high = rows_of(cursor.chunk, n_lines=part.n_lines, most=most_of(source, part))
    inside = cursor.inside / tap.size * (high - low) if tap.size else 0.0
    return cursor.epoch + (part.start + low + inside) / source.n_lines


def mixed(taps: Sequence[Tap], turns: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The next lines of the taps in the order of these turns, each with its line end. No cursor is moved."""
    counts: list[int] = np.bincount(turns, minlength=len(taps)).tolist()
    spans = [tap.spans(n) for tap, n in zip(taps, counts, strict=True)]
    if len(turns) in counts:
        return _alone(taps[counts.index(len(turns))], *spans[counts.index(len(turns))])
    from volt.kernels.columns import scatter

    order = np.argsort(turns.astype(np.min_scalar_type(len(taps))), kind="stable")
    sizes: NDArray[Any] = np.empty(len(turns), np.int64)
    sizes[order] = np.concatenate([own for _, own in spans])
    ends = np.cumsum(sizes)
    out, places = np.empty(int(ends[-1]), np.uint8), (ends - sizes)[order]
    for tap, (starts, own), (low, high) in zip(taps, spans, pairwise(np.cumsum([0, *counts]).tolist()), strict=True):
        if tap.block is not None and high > low:
            scatter(tap.block.data, starts, own, places[low:high], out)
    return out


def _alone(tap: Tap, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    if tap.block is None or not len(starts):
        return np.zeros(0, np.uint8)
    return tap.block.data[int(starts[0]) : int(starts[-1] + sizes[-1])]


def moved(cursor: Cursor, n: int) -> Cursor:
    """A cursor n lines further on in the same block.

    >>> moved(Cursor(10, 1, 2, 3), 4)
    Cursor(lines=14, epoch=1, start=2, offset=7, chunk=0, before=0, deal=())
    """
    return replace(cursor, lines=cursor.lines + n, offset=cursor.offset + n)
