"""`StateHistory`: the state of a stream at each of its last lines.

The source of each line is retained, and a few states; a state in between is computed from the state before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volt.errors import StreamError
from volt.stream.running.state import Opening, State, advanced
from volt.stream.transforms.column import Longs

_MOST_CURSORS = 1 << 13  # cursors in all retained states, about 200 bytes each
_MOST_OPENINGS = 1 << 14  # openings in all runs, about 500 bytes each
_RUN_OPENINGS = 1 << 8  # openings in one run; `at` reads all openings of a run


@dataclass(slots=True)
class _Run:
    """A state, and the turns and openings since then. turns: unsigned integers, as small as possible"""

    state: State
    turns: bytearray
    openings: list[Opening]


class StateHistory:
    def __init__(self, n_lines: int, *, n_sources: int) -> None:
        self._n_lines = n_lines
        self._n_openings = 0
        self._kind = np.min_scalar_type(n_sources)
        self._most = max(1, _MOST_CURSORS // n_sources)
        self._runs = deque[_Run]()

    def add(self, state: State, turns: Longs, openings: Sequence[Opening]) -> None:
        """Add turns that were taken after a state, and the chunks opened for them."""
        if not self._n_lines:
            return
        run = self._runs[-1] if self._runs else None
        if (
            run is None
            or run.state.since != state.since
            or run.state.ended != state.ended
            or len(run.openings) >= _RUN_OPENINGS
        ):
            run = _Run(state, bytearray(), [])
            self._runs.append(run)
        run.turns += turns.astype(self._kind).tobytes()
        run.openings += openings
        self._n_openings += len(openings)

        oldest = state.n + len(turns) - self._n_lines
        while len(self._runs) > 1 and (
            self._runs[1].state.n <= oldest
            or len(self._runs) > self._most
            or self._n_openings > _MOST_OPENINGS
        ):
            self._n_openings -= len(self._runs.popleft().openings)

    def at(self, line: int, *, n: int) -> State:
        """Return the state before a line, of n delivered lines. Raises StreamError if the line is too old."""
        oldest = n
        if self._runs:
            oldest = max(self._runs[0].state.n, n - self._n_lines)
        if line < oldest or not self._runs:
            raise StreamError(
                f"line {line} cannot be recalled; give a line from {oldest} to {n}, or raise recall"
            )
        run = next(
            run for run in reversed(self._runs) if run.state.n < line or run is self._runs[0]
        )
        turns = np.frombuffer(bytes(run.turns), self._kind, line - run.state.n)
        return advanced(run.state, turns, run.openings)
