"""The block that the stream takes a source's next lines from: how much of it has been given, and the lines that follow.

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

from volt.stream.reading.source import OpenSource
from volt.stream.running.blocks import ComputedBlock
from volt.stream.running.state import Charge, Cursor


@dataclass(slots=True)
class Tap:
    """What a stream holds of one source.

    name: of the source.
    cursor: how far the source has been read.
    block: the block in use; None at the start, and after the workers have ended.
    size, charge: how many lines the block in use has, and what it was counted as, known also while `block` is None.
    n_empty: how many blocks without a line came one after the other.
    """

    name: str
    cursor: Cursor = field(default_factory=Cursor)
    block: ComputedBlock | None = None
    size: int = 0
    charge: Charge | None = None
    n_empty: int = 0
    _rows: NDArray[Any] | None = None
    _ends: NDArray[np.int64] | None = None

    @property
    def left(self) -> int:
        """Lines left in the block in use."""
        return 0 if self.block is None else self.block.n_lines - self.cursor.offset

    def is_counted(self, address: tuple[int, int]) -> bool:
        """Whether a block has been counted: lines of it have been given, or it was in use here when the workers ended.

        >>> Tap("wmt", Cursor(5, 0, 2, 5)).is_counted((0, 2)), Tap("wmt", Cursor(0, 0, 2)).is_counted((0, 2))
        (True, False)
        """
        begun = self.cursor.offset > 0 or self.charge is not None
        return self.block is None and begun and address == (self.cursor.epoch, self.cursor.block)

    def fill(self, address: tuple[int, int], block: ComputedBlock, *, offset: int = 0) -> None:
        """Put a block in use, of which `offset` lines have been given already."""
        self.charge = Charge.of(block)
        self.cursor = Cursor(self.cursor.lines, *address, offset)
        self.block, self.size = block, block.n_lines
        self._rows = self._ends = None
        self.n_empty = 0 if block.n_lines else self.n_empty + 1

    def drain(self, n: int) -> None:
        """Note that n more lines have been given."""
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
    """The next lines of the taps in the order of these turns, each with its line end. No cursor is moved."""
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
