"""`StreamBatch`: consecutive lines of a stream as columns, mixed from the buffers of its sources.

turns [0, 1, 0]; source 0: lines a, b; source 1: line x   →   columns of a, x, b; epochs [0, 2, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volt.array_types import Longs
from volt.display import counted
from volt.errors import StreamError, shown_path
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.source_buffer import SourceBuffer, select_next_lines, sort_turns
from volt.stream.transforms.line_batch import Batch, merge_batches


@dataclass(frozen=True, slots=True, eq=False)
class StreamBatch:
    """Consecutive lines of a stream, as columns.

    lines: the columns; `lines.origins` has the number of each line in its source.
    first: the first line's number in the stream, from 0.
    sources: (n_lines,) int64, the index of each line's source in `opened`.
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


def mix_columns(
    buffers: Sequence[SourceBuffer],
    turns: Longs,
    *,
    first: int,
    opened: tuple[OpenSource, ...] = (),
) -> StreamBatch:
    """Return the next lines of the buffers in the order of these turns, as columns.

    first: the number, in the stream, of the first line
    """
    batches = list[Batch]()
    names = list[str]()
    epochs = list[int]()
    for source, chunk_lines in select_next_lines(buffers, turns):
        batch = chunk_lines.chunk.batch
        if batch is not None:
            batches.append(batch.take(np.arange(chunk_lines.first, chunk_lines.end)))
            names.append(buffers[source].name)
            epochs.append(chunk_lines.address.block.epoch)
    if len(batches) == 1:
        line_epochs = np.full(len(turns), epochs[0])
        return StreamBatch(batches[0], first, turns.copy(), line_epochs, opened)

    _check_columns(names, batches)
    by_source = sort_turns(turns, len(buffers))
    order = np.empty(len(turns), np.int64)
    order[by_source] = np.arange(len(turns))
    line_epochs = np.repeat(epochs, list(map(len, batches)))[order]
    lines = merge_batches([batch.compact() for batch in batches], order)
    return StreamBatch(lines, first, turns.copy(), line_epochs, opened)


def _check_columns(names: Sequence[str], batches: Sequence[Batch]) -> None:
    """Raise StreamError if a field contains ids in one source, and text in another.

    names: the source's name of each batch
    """
    for index in range(max(len(batch.columns) for batch in batches)):
        source_names = dict[bool, str]()  # whether the column is of ids → the first such source
        for name, batch in zip(names, batches, strict=True):
            column = batch.column(index + 1)
            if column.present.any():
                source_names.setdefault(column.is_ids, name)
        if len(source_names) > 1:
            problem = (
                f"ids in source {source_names[True]!r} and text in source {source_names[False]!r}"
            )
            raise StreamError(
                f"field {index + 1} is {problem}; encode it in both sources, or in neither"
            )
