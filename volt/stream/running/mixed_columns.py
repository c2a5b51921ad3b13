"""The next lines of several sources as columns, in the order of their turns, each with the place that it came from.

>>> from volt.stream.reading.shares import Part
>>> from volt.stream.running.blocks import ComputedBlock
>>> from volt.stream.running.chunks import Address
>>> from volt.stream.running.state import Cursor
>>> block = ComputedBlock(np.zeros(0, np.uint8), np.zeros(0, np.int64), n_read=2, batch=Batch.of(["a\\tx", "b\\ty"]))
>>> buffer = SourceBuffer("wmt", Cursor())
>>> _ = buffer.load(Address(Part(0, 0, 2), 0), block, source=0, n=7)
>>> batch = mixed_columns([buffer], np.zeros(2, np.int64), first=7)
>>> batch, batch.numbers.tolist(), batch.lines.column(2).strings()
(<StreamBatch: 2 lines from line 7 on>, [7, 8], ['x', 'y'])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volt.display import counted
from volt.errors import StreamError, shown_path
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.source_buffer import SourceBuffer, Stretch, by_source, next_stretches
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.merging import together

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StreamBatch:
    """Lines of a stream as columns, one after the other.

    lines: their columns; `lines.origins` are the numbers, in their sources, of the lines that they were made from.
    first: the number of the first in the stream, from 0.
    sources: (n_lines,) int64, the number of the source of each.
    epochs: (n_lines,) int64, the epoch of the source that each belongs to.
    opened: the sources of the stream.

    >>> batch = StreamBatch(Batch.of(["a", "b"]), 7, np.zeros(2, np.int64), np.zeros(2, np.int64))
    >>> batch, batch.numbers.tolist()
    (<StreamBatch: 2 lines from line 7 on>, [7, 8])
    """

    lines: Batch
    first: int
    sources: Longs
    epochs: Longs
    opened: tuple[OpenSource, ...] = ()

    def __repr__(self) -> str:
        return f"<StreamBatch: {counted(len(self), 'line')} from line {self.first:,} on>"

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def numbers(self) -> Longs:
        """(n_lines,) int64, the number of each in the stream: what `volt stream trace` and `Stream.state` take."""
        return np.arange(self.first, self.first + len(self))

    def place(self, line: int) -> str:
        """Where a line came from, for people.

        line: its index in the batch
        """
        if not self.opened:
            return f"line {self.first + line:,}"
        path, number = self.opened[int(self.sources[line])].place_of(int(self.lines.origins[line]))
        return f"{shown_path(path)}:{number} (line {self.first + line:,} of the stream)"


def mixed_columns(
    buffers: Sequence[SourceBuffer], turns: Longs, *, first: int, opened: tuple[OpenSource, ...] = ()
) -> StreamBatch:
    """Return the next lines of the buffers in the order of these turns. Nothing is drained.

    first: the number of the first in the stream
    opened: the sources of the buffers
    """
    stretches = next_stretches(buffers, turns)
    parts = [_lines_of(stretch) for _, stretch in stretches]
    epochs = [stretch.address.part.epoch for _, stretch in stretches]
    if len(parts) == 1:
        return StreamBatch(parts[0], first, turns.copy(), np.full(len(turns), epochs[0]), opened)
    _check_kinds([(buffers[source].name, part) for (source, _), part in zip(stretches, parts, strict=True)])
    order, line_epochs = np.empty(len(turns), np.int64), np.empty(len(turns), np.int64)
    sorted_turns = by_source(turns, len(buffers))
    order[sorted_turns] = np.arange(len(turns))
    line_epochs[sorted_turns] = np.repeat(epochs, [len(part) for part in parts])
    lines = together([part.compact() for part in parts], order)
    return StreamBatch(lines, first, turns.copy(), line_epochs, opened)


def _lines_of(stretch: Stretch) -> Batch:
    assert stretch.block.batch is not None
    return stretch.block.batch.take(np.arange(stretch.first, stretch.end))


def _check_kinds(parts: Sequence[tuple[str, Batch]]) -> None:
    """Raise StreamError if a field is ids in one source and text in another, which no reader could tell apart."""
    for field in range(max(len(part.columns) for _, part in parts)):
        kinds = dict[bool, str]()
        for name, part in parts:
            if (column := part.column(field + 1)).present.any():
                kinds.setdefault(column.is_ids, name)
        if len(kinds) > 1:
            found = f"field {field + 1} is ids in source {kinds[True]!r} and text in source {kinds[False]!r}"
            raise StreamError(f"{found}; encode it in both, or in neither")
