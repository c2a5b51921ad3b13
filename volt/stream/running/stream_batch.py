"""`StreamBatch`: consecutive lines of a stream as columns, taken in turn from the buffers of its sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volt.display import counted
from volt.errors import StreamError, shown_path
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.source_buffer import Longs, SourceBuffer, by_source, next_chunk_lines
from volt.stream.transforms.line_batch import Batch, together


@dataclass(frozen=True, slots=True, eq=False)
class StreamBatch:
    """Consecutive lines of a stream, as columns.

    lines: the columns; `lines.origins` has the number of each line in its source.
    first: the first line's number in the stream, from 0.
    sources: (n_lines,) int64, the number of each line's source.
    epochs: (n_lines,) int64, the epoch of each line in its source.
    opened: the stream's sources.

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
        """(n_lines,) int64, the number of each line in the stream."""
        return np.arange(self.first, self.first + len(self))

    def place(self, line: int) -> str:
        """Return the file and number of a line, for messages.

        line: its index in the batch
        """
        if not self.opened:
            return f"line {self.first + line:,}"
        path, number = self.opened[int(self.sources[line])].place_of(int(self.lines.origins[line]))
        return f"{shown_path(path)}:{number} (line {self.first + line:,} of the stream)"


def mixed_columns(
    buffers: Sequence[SourceBuffer],
    turns: Longs,
    *,
    first: int,
    opened: tuple[OpenSource, ...] = (),
) -> StreamBatch:
    stretches = next_chunk_lines(buffers, turns)
    batches = [
        stretch.chunk.batch.take(np.arange(stretch.first, stretch.end))
        for _, stretch in stretches
        if stretch.chunk.batch is not None
    ]
    epochs = [stretch.address.block.epoch for _, stretch in stretches]
    if len(batches) == 1:
        return StreamBatch(batches[0], first, turns.copy(), np.full(len(turns), epochs[0]), opened)
    _check_kinds(
        [
            (buffers[source].name, batch)
            for (source, _), batch in zip(stretches, batches, strict=True)
        ]
    )
    order, line_epochs = np.empty(len(turns), np.int64), np.empty(len(turns), np.int64)
    sorted_turns = by_source(turns, len(buffers))
    order[sorted_turns] = np.arange(len(turns))
    line_epochs[sorted_turns] = np.repeat(epochs, [len(batch) for batch in batches])
    return StreamBatch(
        together([batch.compact() for batch in batches], order),
        first,
        turns.copy(),
        line_epochs,
        opened,
    )


def _check_kinds(batches: Sequence[tuple[str, Batch]]) -> None:
    for index in range(max(len(batch.columns) for _, batch in batches)):
        kinds = dict[bool, str]()
        for name, batch in batches:
            if (column := batch.column(index + 1)).present.any():
                kinds.setdefault(column.is_ids, name)
        if len(kinds) > 1:
            names = f"ids in source {kinds[True]!r} and text in source {kinds[False]!r}"
            raise StreamError(
                f"field {index + 1} is {names}; encode it in both sources, or in neither"
            )
