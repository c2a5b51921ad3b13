"""Where a stream stood some lines ago, for consumers that say only later how many lines they have used.

>>> from volt.stream.running.state import Cursor
>>> recall = Recall(100)
>>> recall.add(State(0, {"a": Cursor(), "b": Cursor()}, {}), np.array([0, 1, 0]))
>>> recall.at(2, n=3).cursors["a"].lines
1
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from volt.errors import StreamError
from volt.stream.running.state import Charge, State
from volt.stream.running.taps import moved

Charges = Mapping[str, Charge]
_MOST_RUNS = 1 << 14


class Recall:
    """Keeps the turns of the last `n_lines` lines or a few more, and now and then the state before them."""

    def __init__(self, n_lines: int) -> None:
        self._n_lines, self._held = n_lines, 0
        self._runs = deque[tuple[State, NDArray[np.uint32], Charges]]()

    def add(self, state: State, turns: NDArray[np.int64], charges: Charges | None = None) -> None:
        """Note the state before these turns were taken. charges: as of `advanced`."""
        self._runs.append((state, turns.astype(np.uint32), charges or {}))
        self._held += len(turns)
        while self._runs and (self._held - len(self._runs[0][1]) >= self._n_lines or len(self._runs) > _MOST_RUNS):
            self._held -= len(self._runs.popleft()[1])

    def clear(self) -> None:
        """Forget all."""
        self._runs.clear()
        self._held = 0

    def at(self, sample: int, *, n: int) -> State:
        """The state after `sample` lines, of n given. Raises StreamError if that is ahead or too long ago."""
        for state, turns, charges in reversed(self._runs):
            if state.n < sample <= state.n + len(turns):
                return advanced(state, turns[: sample - state.n], charges)
        if self._runs and self._runs[0][0].n == sample:
            state, turns, charges = self._runs[0]
            return advanced(state, turns[:0], charges)
        oldest = self._runs[0][0].n if self._runs else n
        raise StreamError(f"line {sample} is not within the lines {oldest} to {n} that can be recalled; raise recall")


def advanced(state: State, turns: NDArray[np.uint32] | NDArray[np.int64], charges: Charges | None = None) -> State:
    """The state after some more turns, all within the blocks in use.

    charges: what blocks in use were counted as, by source. Whoever goes on from the state counts a block again of which
    no line has been given, so the state does without it.
    """
    counts = np.bincount(turns, minlength=len(state.cursors)).tolist()
    cursors = {name: moved(cursor, n) for (name, cursor), n in zip(state.cursors.items(), counts, strict=True)}
    state = replace(state, n=state.n + len(turns), cursors=cursors)
    for name, charge in (charges or {}).items():
        state = state if cursors[name].offset else charge.taken_from(state)
    return state
