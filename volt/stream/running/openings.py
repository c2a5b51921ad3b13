"""`advance_state`: the state of a stream after more lines, from turns and openings alone.

    turns      0 1 0 0 1     the source index of each line after the state
    openings   (line 0, source 0, chunk of 3 outputs), (line 1, source 1, chunk of 2 outputs)

A source's cursor moves one output per turn; at an opening, it moves to the start of the opened
chunk. `SourceBuffer.load` creates each opening, `Engine` collects them until it commits their
lines, and `StateHistory` keeps those of recent lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.state import Cursor, State


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """The number of lines read, and kind of fault → the number of unfit lines among them."""

    n_read: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    def add_to(self, state: State) -> State:
        reasons = state.reasons
        if self.reasons:
            reasons = dict(Counter(reasons) + Counter(self.reasons))
        n_faults = state.n_faults + sum(self.reasons.values())
        return replace(state, n_read=state.n_read + self.n_read, n_faults=n_faults, reasons=reasons)


class Opening(NamedTuple):
    """The record that a chunk of a source was loaded for line `n` of the stream.

    cursor: the cursor at the start of the chunk, or a restored cursor inside the chunk.
    n_outputs: the number of the chunk's lines after all transforms.
    counts: the lines read for the chunk; empty if the state at `cursor` already counts them.
    """

    n: int
    source: int
    cursor: Cursor
    block: LineBlock
    n_outputs: int
    counts: ReadCounts


def select_reached(openings: Sequence[Opening], n: int) -> list[Opening]:
    """Return the openings that belong to the first n lines of the stream.

    For each source, these are the openings up to the last chunk with outputs that was opened before
    line n. A chunk without outputs belongs to the line that made the source open its next chunk.
    """
    last = {
        opening.source: index
        for index, opening in enumerate(openings)
        if opening.n < n and opening.n_outputs
    }
    return [
        opening for index, opening in enumerate(openings) if index <= last.get(opening.source, -1)
    ]


def advance_state(
    state: State, turns: NDArray[np.integer[Any]], openings: Sequence[Opening] = ()
) -> State:
    """Return the state after these turns.

    openings: the chunks opened for these turns; openings for later turns are ignored
    """
    n = state.n + len(turns)
    names = [*state.cursors]
    reached = select_reached(openings, n)

    cursors = dict(state.cursors)
    for opening in reached:
        cursors[names[opening.source]] = opening.cursor
    counts = np.bincount(turns, minlength=len(names)).tolist()
    for name, count in zip(names, counts, strict=True):
        if count:
            n_lines = state.cursors[name].lines + count
            cursors[name] = cursors[name].advance(n_lines - cursors[name].lines)

    reasons = Counter[str]()
    for opening in reached:
        reasons.update(opening.counts.reasons)
    n_read = sum(opening.counts.n_read for opening in reached)
    return ReadCounts(n_read, reasons).add_to(replace(state, n=n, cursors=cursors))
