"""Where a stream stood some lines ago, for consumers that say only later how many lines they have used.

>>> from volt.stream.running.state import Cursor
>>> recall = Recall(100)
>>> recall.add(State(0, {"a": Cursor(), "b": Cursor()}, {}), np.array([0, 1, 0]), [])
>>> recall.at(2, n=3).cursors["a"].lines
1
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.errors import StreamError
from volt.stream.running.state import FaultCounts, Opening, State

_MOST_CURSORS = 1 << 13  # in all states that are retained: some 200 bytes each
_MOST_OPENINGS = 1 << 14  # in all runs, some 500 bytes each
_RUN_OPENINGS = 1 << 8  # in one run; each call of `at` goes through those of a run


@dataclass(slots=True)
class _Run:
    """A state, the turns taken from it, and the blocks opened for them."""

    state: State
    turns: bytearray  # of unsigned integers that are as small as the number of sources allows
    openings: list[Opening]

    @property
    def _kind(self) -> np.dtype[np.unsignedinteger[Any]]:
        return np.min_scalar_type(len(self.state.cursors))

    def __len__(self) -> int:
        return len(self.turns) // self._kind.itemsize

    def extend(self, turns: NDArray[np.int64], openings: Sequence[Opening]) -> None:
        """Note turns that follow."""
        self.turns += turns.astype(self._kind).tobytes()
        self.openings += openings

    def after(self, n: int) -> State:
        """Return the state after the first n of the turns."""
        return advanced(self.state, np.frombuffer(bytes(self.turns), self._kind, n), self.openings)

    def continues_at(self, state: State) -> bool:
        """Check that the turns end at this state, before which no source has ended."""
        is_next = self.state.n + len(self) == state.n and len(self.openings) < _RUN_OPENINGS
        return is_next and (self.state.since, self.state.ended) == (state.since, state.ended)


class Recall:
    """Retain the turns of the last `n_lines` lines, and the states before some of them.

    Where blocks are small, only the lines of the latest thousands of blocks are retained.
    """

    def __init__(self, n_lines: int) -> None:
        self._n_lines, self._n_turns, self._n_openings = n_lines, 0, 0
        self._runs = deque[_Run]()

    def add(self, state: State, turns: NDArray[np.int64], openings: Sequence[Opening]) -> None:
        """Note the state before these turns were taken, and the blocks opened for them."""
        if not self._n_lines:
            return
        if not self._runs or not self._runs[-1].continues_at(state):
            self._runs.append(_Run(state, bytearray(), []))
        self._runs[-1].extend(turns, openings)
        self._n_turns, self._n_openings = self._n_turns + len(turns), self._n_openings + len(openings)
        while self._has_surplus(max(1, _MOST_CURSORS // max(1, len(state.cursors)))):
            first = self._runs.popleft()
            self._n_turns, self._n_openings = self._n_turns - len(first), self._n_openings - len(first.openings)

    def _has_surplus(self, most_runs: int) -> bool:
        """Check whether the oldest run is not needed, or cannot be afforded."""
        if len(self._runs) < 2:
            return False
        is_old = self._n_turns - len(self._runs[0]) >= self._n_lines
        return is_old or len(self._runs) > most_runs or self._n_openings > _MOST_OPENINGS

    def clear(self) -> None:
        """Forget all."""
        self._runs.clear()
        self._n_turns = self._n_openings = 0

    def at(self, sample: int, *, n: int) -> State:
        """Return the state after `sample` lines, of n given. Raises StreamError if that is ahead or too long ago."""
        for run in reversed(self._runs if n - sample <= self._n_lines else ()):
            first = run.state.n
            if first < sample <= first + len(run) or (first == sample and run is self._runs[0]):
                return run.after(sample - first)
        oldest = max(self._runs[0].state.n, n - self._n_lines) if self._runs else n
        raise StreamError(f"line {sample} is not within the lines {oldest} to {n} that can be recalled; raise recall")


def reached(openings: Sequence[Opening], n: int) -> list[Opening]:
    """Return the blocks that a state after n lines counts as opened: those before the last of each source that gave
    one of these lines, and that one.

    Blocks without lines at the end are left out: who resumes from the state opens them again.
    """
    last = {opening.source: place for place, opening in enumerate(openings) if opening.n < n and opening.size}
    return [opening for place, opening in enumerate(openings) if place <= last.get(opening.source, -1)]


def advanced(state: State, turns: NDArray[np.integer[Any]], openings: Sequence[Opening] = ()) -> State:
    """Return the state after some more turns.

    openings: of blocks for these turns, and for turns behind them.
    """
    n, names = state.n + len(turns), [*state.cursors]
    opened = reached(openings, n)
    cursors = dict(state.cursors) | {names[opening.source]: opening.cursor for opening in opened}
    for index, count in enumerate(np.bincount(turns, minlength=len(names)).tolist()):
        if count:
            name = names[index]
            cursors[name] = cursors[name].moved(state.cursors[name].lines + count - cursors[name].lines)
    state = replace(state, n=n, cursors=cursors)
    reasons = dict[str, int]()
    for opening in opened:
        for kind, number in opening.counts.reasons.items():
            reasons[kind] = reasons.get(kind, 0) + number
    return FaultCounts(sum(opening.counts.n_read for opening in opened), reasons).added_to(state)
