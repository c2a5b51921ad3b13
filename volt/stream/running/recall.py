"""`StateHistory`: the state of a stream at each of its last lines.

A state for every line would be too large. The history saves a state now and then, the source index
of each line, and the openings of chunks; `advance_state` computes the states in between:

    saved state at line 0 │ turns 0 1 0 0 1 …, openings │ saved state at line 512 │ turns …

`Engine` adds the lines that it commits; `Stream.state(at=…)` reads the history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from volt.errors import StreamError
from volt.stream.running.openings import Opening, advance_state
from volt.stream.running.state import State
from volt.stream.transforms.column import Longs

_MOST_CURSORS = 1 << 13  # cursors in all saved states, about 200 bytes each
_MOST_OPENINGS = 1 << 14  # openings after all saved states, about 500 bytes each
_MOST_OPENINGS_AFTER = 1 << 8  # openings after one saved state; `state_at` reads all of these


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
