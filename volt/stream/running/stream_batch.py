"""`StreamBatch`: consecutive lines of a stream as columns, taken in turn from the buffers of its sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volt.display import counted
from volt.errors import StreamError, shown_path
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.source_buffer import SourceBuffer, by_source, next_chunk_lines
from volt.stream.transforms.column import Longs
from volt.stream.transforms.line_batch import Batch, merge_batches


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
    batches = list[Batch]()
    names = list[str]()
    epochs = list[int]()
    for source, lines in next_chunk_lines(buffers, turns):
        if lines.chunk.batch is not None:
            batches.append(lines.chunk.batch.take(np.arange(lines.first, lines.end)))
            names.append(buffers[source].name)
            epochs.append(lines.address.block.epoch)
    if len(batches) == 1:
        line_epochs = np.full(len(turns), epochs[0])
        return StreamBatch(batches[0], first, turns.copy(), line_epochs, opened)

    _check_kinds(names, batches)
    sorted_turns = by_source(turns, len(buffers))
    order = np.empty(len(turns), np.int64)
    order[sorted_turns] = np.arange(len(turns))
    line_epochs = np.empty(len(turns), np.int64)
    line_epochs[sorted_turns] = np.repeat(epochs, list(map(len, batches)))
    mixed_lines = merge_batches([batch.compact() for batch in batches], order)
    return StreamBatch(mixed_lines, first, turns.copy(), line_epochs, opened)


def _check_kinds(names: Sequence[str], batches: Sequence[Batch]) -> None:
    for index in range(max(len(batch.columns) for batch in batches)):
        kinds = dict[bool, str]()
        for name, batch in zip(names, batches, strict=True):
            column = batch.column(index + 1)
            if column.present.any():
                kinds.setdefault(column.is_ids, name)
        if len(kinds) > 1:
            kinds_named = f"ids in source {kinds[True]!r} and text in source {kinds[False]!r}"
            raise StreamError(
                f"field {index + 1} is {kinds_named}; encode it in both sources, or in neither"
            )
