"""A source as the stream drinks from it: the block in use, how much of it is gone, and its lines.

>>> tap = Tap("wmt")
>>> tap.fill((0, 3), ComputedBlock(b"a\\nb\\nc\\n", 3, 3), offset=1)
>>> tap.left, tap.rows(1).tolist(), tap.cursor
(2, [b'b'], Cursor(lines=0, epoch=0, block=3, offset=1))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.stream.pipeline import ComputedBlock
from volt.stream.source import OpenSource
from volt.stream.state import Cursor


@dataclass(slots=True)
class Tap:
    """cursor: where the source stands;  block: the one in use, or None before it is filled.

    size: lines that it yields, kept when the block itself is let go;  n_empty: blocks in a row that gave no line.
    """

    name: str
    cursor: Cursor = field(default_factory=Cursor)
    block: ComputedBlock | None = None
    size: int = 0
    n_empty: int = 0
    _rows: NDArray[Any] | None = None
    _ends: NDArray[np.int64] | None = None

    @property
    def left(self) -> int:
        """Lines left in the block in use."""
        return 0 if self.block is None else self.block.n_lines - self.cursor.offset

    def fill(self, address: tuple[int, int], block: ComputedBlock, *, offset: int = 0) -> None:
        """Go on with a block, from a line of it on."""
        self.cursor = Cursor(self.cursor.lines, *address, offset)
        self.block, self.size = block, block.n_lines
        self._rows = self._ends = None
        self.n_empty = 0 if block.n_lines else self.n_empty + 1

    def drain(self, n: int) -> None:
        """Take n lines away."""
        self.cursor = moved(self.cursor, n)

    def data(self, n: int) -> bytes:
        """The next n lines with their line ends."""
        if self.block is None or n == self.block.n_lines:
            return self.block.data if self.block else b""
        if self._ends is None:
            self._ends = np.flatnonzero(np.frombuffer(self.block.data, np.uint8) == 0x0A) + 1
        offset = self.cursor.offset
        start = int(self._ends[offset - 1]) if offset else 0
        return self.block.data[start : int(self._ends[offset + n - 1])]

    def rows(self, n: int) -> NDArray[Any]:
        """The next n lines, (n,) bytes objects without line ends."""
        if self._rows is None:
            lines = self.block.data.split(b"\n")[:-1] if self.block else []
            self._rows = np.empty(len(lines), object)
            self._rows[:] = lines
        return self._rows[self.cursor.offset : self.cursor.offset + n]


def epochs_read(source: OpenSource, cursor: Cursor, *, size: int) -> float:
    """How often a source has been read up to a cursor, whose block yields `size` lines (0 if that is not known)."""
    inside = cursor.offset / (size or source.block_lines)
    return cursor.epoch + (cursor.block + inside) / source.n_blocks


def mixed(taps: Sequence[Tap], turns: NDArray[np.int64]) -> bytes:
    """The next lines of the taps in the order of these turns, each with its line end; nothing is drained."""
    counts: list[int] = np.bincount(turns, minlength=len(taps)).tolist()
    if len(turns) in counts:
        return taps[counts.index(len(turns))].data(len(turns))
    rows = np.empty(len(turns), object)
    for source, n in enumerate(counts):
        if n:
            rows[turns == source] = taps[source].rows(n)
    lines: list[bytes] = rows.tolist()
    return b"\n".join([*lines, b""])


def moved(cursor: Cursor, n: int) -> Cursor:
    """A cursor n lines further on in the same block.

    >>> moved(Cursor(10, 1, 2, 3), 4)
    Cursor(lines=14, epoch=1, block=2, offset=7)
    """
    return Cursor(cursor.lines + n, cursor.epoch, cursor.block, cursor.offset + n)
