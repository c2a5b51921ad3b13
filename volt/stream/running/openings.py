"""`advance_state`: the state of a stream after more lines; `StateHistory`: its states at earlier lines.

    state at line 0
    turns      0 1 0 0 1     the source index of each later line
    openings   (line 0, source 0, chunk of 3 outputs), (line 1, source 1, chunk of 2 outputs)
    → state at line 5: 3 lines of source 0, 2 lines of source 1

A source's cursor moves one output per turn; at an opening, it moves to the start of the opened
chunk. `SourceBuffer.load` creates each opening, and `Engine` collects the openings until it commits
their lines, and adds them to the history. The history saves a state now and then, and computes the
states in between.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.array_types import Longs
from volt.errors import StreamError
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.state import Cursor, State

_MOST_CURSORS = 1 << 13  # cursors in all saved states, about 200 bytes each
_MOST_OPENINGS = 1 << 14  # openings after all saved states, about 500 bytes each
_MOST_OPENINGS_AFTER = 1 << 8  # openings after one saved state; `state_at` reads all of these


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


@dataclass(slots=True)
class _SavedState:
    """A state, and the turns and openings from it to the next saved state.

    turns: the source index of each line, in an unsigned integer type as small as possible.
    """

    state: State
    turns: bytearray = field(default_factory=bytearray)
    openings: list[Opening] = field(default_factory=list)


class StateHistory:
    """The states at the last `n_lines` lines of a stream."""

    def __init__(self, n_lines: int, *, n_sources: int) -> None:
        self._n_lines = n_lines
        self._n_openings = 0
        self._turn_dtype = np.min_scalar_type(n_sources)
        self._most_saved = max(1, _MOST_CURSORS // n_sources)
        self._saved = deque[_SavedState]()

    def add(self, state: State, turns: Longs, openings: Sequence[Opening]) -> None:
        """Add the lines that follow a state: their turns, and the chunks opened for them."""
        if not self._n_lines:
            return
        if not self._saved or self._is_save_due(state):
            self._saved.append(_SavedState(state))
        last = self._saved[-1]
        last.turns += turns.astype(self._turn_dtype).tobytes()
        last.openings += openings
        self._n_openings += len(openings)

        oldest_line = state.n + len(turns) - self._n_lines
        while len(self._saved) > 1 and (
            self._saved[1].state.n <= oldest_line
            or len(self._saved) > self._most_saved
            or self._n_openings > _MOST_OPENINGS
        ):
            self._n_openings -= len(self._saved.popleft().openings)

    def _is_save_due(self, state: State) -> bool:
        # turns and openings do not tell that a source has ended
        last = self._saved[-1]
        has_source_ended = last.state.since != state.since or last.state.ended != state.ended
        return has_source_ended or len(last.openings) >= _MOST_OPENINGS_AFTER

    def state_at(self, line: int, *, n: int) -> State:
        """Return the state before a line of a stream that has delivered n lines.

        Raises StreamError if the line is older than the history.
        """
        oldest_line = n
        if self._saved:
            oldest_line = max(self._saved[0].state.n, n - self._n_lines)
        if line < oldest_line or not self._saved:
            problem = f"line {line} cannot be recalled; give a line from {oldest_line} to {n}"
            raise StreamError(f"{problem}, or raise recall")
        saved = next(
            saved
            for saved in reversed(self._saved)
            if saved.state.n < line or saved is self._saved[0]
        )
        turns = np.frombuffer(bytes(saved.turns), self._turn_dtype, line - saved.state.n)
        return advance_state(saved.state, turns, saved.openings)
