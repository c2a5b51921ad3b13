"""Blocks of text → counted words, by threads that count units (volt.count.unit_table).

Each thread has a table of its own. A table that is full is cut into words, and emptied, by the thread that filled it.
All words are in one table, which one thread at a time may add to.

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
from threading import Lock

import polars as pl

from volt.count.unit_table import MOST, UnitTable, WordTable
from volt.count.unit_words import UnitCutter
from volt.files.blocks import Block
from volt.files.threads import available_cores, in_order

_PIECE = 1 << 20  # bytes


class UnitCounter:
    """Counts the words of blocks.

    cutter: what makes them
    piece: bytes that a thread counts at once
    n_threads: None for as many as there are cores
    most_units, most_words: about how many units a thread holds, and how many words all hold together
    """

    def __init__(
        self, cutter: UnitCutter, *, piece: int = _PIECE, n_threads: int | None = None, most_units: int = MOST,
        most_words: int = 4 * MOST,
    ) -> None:  # fmt: skip
        self._cutter, self._piece, self._n_threads = cutter, piece, n_threads or available_cores()
        self._most_units, self._idle = most_units, list[UnitTable]()
        self._words, self._lock = WordTable(most=most_words), Lock()

    def add(self, block: Block) -> Iterator[pl.DataFrame]:
        """Count a block. Gives the words so far, as tables of word and count, if there were many meanwhile."""
        pieces = list(_pieces(self._cutter.normal(block.data), self._piece))
        n_threads = min(self._n_threads, max(len(pieces), 1))
        yield from (table for table in in_order(self._count, pieces, n_threads=n_threads) if table is not None)

    def rest(self) -> Iterator[pl.DataFrame]:
        """All that has not yet been given, once the last block is counted."""
        yield from (table for table in map(self._cut, self._idle) if table is not None)
        if self._words.n:
            yield self._cutter.table(self._words.units())
            self._words.clear()

    def _count(self, text: memoryview) -> pl.DataFrame | None:
        try:
            units = self._idle.pop()
        except IndexError:
            units = UnitTable(self._cutter.ends, most=self._most_units)
        units.add(text)
        words = self._cut(units) if units.is_full else None
        self._idle.append(units)
        return words

    def _cut(self, units: UnitTable) -> pl.DataFrame | None:
        """Add the words of a thread's units to those of all, and give these if there are many."""
        with self._lock:
            self._cutter.add(self._words, units.units())
            units.clear()
            if not self._words.is_full:
                return None
            table = self._cutter.table(self._words.units())
            self._words.clear()
            return table


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
