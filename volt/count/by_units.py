"""Blocks of text → counted words, by threads that count units (volt.count.unit_table).

Each thread has a table of its own. A table that is full is cut into words, and emptied, by the thread that filled it.

>>> from volt.files.blocks import Block
>>> from volt.text.pretokenizer import PreTokenizer
>>> counter = UnitCounter(UnitCutter.of(PreTokenizer("gpt2")))
>>> list(counter.add(Block("a.txt", 1, 1, b"low low", 7)))
[]
>>> [table.sort("word").rows() for table in counter.rest()]
[[('low', 1), ('▁low', 1)]]
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from volt.count.unit_table import MOST_UNITS, UnitTable
from volt.count.unit_words import UnitCutter
from volt.files.blocks import Block
from volt.files.threads import available_cores, in_order

_PIECE = 1 << 20  # bytes


class UnitCounter:
    """Counts the words of blocks.

    cutter: what makes them
    piece: bytes that a thread counts at once
    n_threads: None for as many as there are cores
    most_units: about how many units a thread holds
    """

    def __init__(
        self, cutter: UnitCutter, *, piece: int = _PIECE, n_threads: int | None = None, most_units: int = MOST_UNITS
    ) -> None:
        self._cutter, self._piece, self._n_threads = cutter, piece, n_threads or available_cores()
        self._most_units = most_units
        self._idle: list[UnitTable] = []

    def add(self, block: Block) -> Iterator[pl.DataFrame]:
        """Count a block. Gives what had to be cut into words meanwhile, as tables of word and count."""
        pieces = list(_pieces(self._cutter.normal(block.data), self._piece))
        n_threads = min(self._n_threads, max(len(pieces), 1))
        yield from (table for table in in_order(self._count, pieces, n_threads=n_threads) if table is not None)

    def rest(self) -> Iterator[pl.DataFrame]:
        """All that has not yet been given, once the last block is counted."""
        filled = [table for table in self._idle if table.n_units]
        yield from in_order(self._cut, filled, n_threads=max(len(filled), 1))

    def _count(self, text: memoryview) -> pl.DataFrame | None:
        try:
            table = self._idle.pop()
        except IndexError:
            table = UnitTable(self._cutter.ends, most_units=self._most_units)
        table.add(text)
        words = self._cut(table) if table.is_full else None
        self._idle.append(table)
        return words

    def _cut(self, table: UnitTable) -> pl.DataFrame:
        units = table.units()
        table.clear()
        return self._cutter.words(units)


def _pieces(data: bytes, size: int) -> Iterator[memoryview]:
    """Whole lines of about so many bytes.

    >>> [bytes(piece) for piece in _pieces(b"one\\ntwo\\nthree", 5)]
    [b'one\\n', b'two\\n', b'three']
    """
    view, start = memoryview(data), 0
    while start < len(data):
        end = len(data) if start + size >= len(data) else data.rfind(b"\n", start, start + size) + 1
        end = end or data.find(b"\n", start + size) + 1 or len(data)
        yield view[start:end]
        start = end
