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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.errors import StreamError
from volt.stream.running.state import Charge, State

Charges = Mapping[str, Charge]
_MOST_CURSORS = 1 << 13  # in all states that are kept: some 200 bytes each


@dataclass(slots=True)
class _Run:
    """A state and the turns taken from it, all within the blocks that were in use then."""

    state: State
    charges: Charges
    turns: bytearray  # of unsigned integers that are as small as the number of sources allows

    @property
    def _kind(self) -> np.dtype[np.unsignedinteger[Any]]:
        return np.min_scalar_type(len(self.state.cursors))

    def __len__(self) -> int:
        return len(self.turns) // self._kind.itemsize

    def extend(self, turns: NDArray[np.int64]) -> None:
        """Note turns that follow."""
        self.turns += turns.astype(self._kind).tobytes()

    def after(self, n: int) -> State:
        """The state after the first n of the turns."""
        return advanced(self.state, np.frombuffer(bytes(self.turns), self._kind, n), self.charges)

    def goes_on_at(self, state: State) -> bool:
        """Whether the turns end at a state in which the same blocks are in use."""
        return self.state.n + len(self) == state.n and _blocks(state) == _blocks(self.state)


def _blocks(state: State) -> tuple[Any, ...]:
    """What stays the same until a block is put in use or a source ends."""
    began = [(cursor.address, cursor.chunk, cursor.lines - cursor.offset) for cursor in state.cursors.values()]
    return state.n_read, state.n_faults, state.since, state.ended, began


class Recall:
    """Keeps the turns of the last `n_lines` lines or a few more, and now and then the state before them.

    There is a state for each time that a block was put in use, and where blocks are small, only the latest thousands of
    them are kept.
    """

    def __init__(self, n_lines: int) -> None:
        self._n_lines, self._held = n_lines, 0
        self._runs = deque[_Run]()

    def add(self, state: State, turns: NDArray[np.int64], charges: Charges | None = None) -> None:
        """Note the state before these turns were taken. charges: as of `advanced`."""
        if not self._n_lines:
            return
        if not self._runs or not self._runs[-1].goes_on_at(state):
            self._runs.append(_Run(state, charges or {}, bytearray()))
        self._runs[-1].extend(turns)
        self._held += len(turns)
        most = max(1, _MOST_CURSORS // max(1, len(state.cursors)))
        while self._held - len(self._runs[0]) >= self._n_lines or len(self._runs) > most:
            self._held -= len(self._runs.popleft())

    def clear(self) -> None:
        """Forget all."""
        self._runs.clear()
        self._held = 0

    def at(self, sample: int, *, n: int) -> State:
        """The state after `sample` lines, of n given. Raises StreamError if that is ahead or too long ago."""
        for run in reversed(self._runs):
            first = run.state.n
            if first < sample <= first + len(run) or (first == sample and run is self._runs[0]):
                return run.after(sample - first)
        oldest = self._runs[0].state.n if self._runs else n
        raise StreamError(f"line {sample} is not within the lines {oldest} to {n} that can be recalled; raise recall")


def advanced(state: State, turns: NDArray[np.integer[Any]], charges: Charges | None = None) -> State:
    """The state after some more turns, all within the blocks in use.

    charges: what blocks in use were counted as, by source. Whoever goes on from the state counts a block again of which
    no line has been given, so the state does without it.
    """
    counts = np.bincount(turns, minlength=len(state.cursors)).tolist()
    cursors = {name: cursor.moved(n) for (name, cursor), n in zip(state.cursors.items(), counts, strict=True)}
    state = replace(state, n=state.n + len(turns), cursors=cursors)
    for name, charge in (charges or {}).items():
        state = state if cursors[name].inside else charge.taken_from(state)
    return state
