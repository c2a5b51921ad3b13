"""What the workers of a loader note where all of them, and the process that started them, can see it.

>>> notes = WorkerNotes()
>>> notes.mark, notes.ended = 7, True
>>> notes.mark, notes.ended, notes.left(7)
(7, True, None)
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from volt.errors import missing
from volt.ext.position import Position

try:
    import torch
except ImportError:
    raise missing("torch", extra="torch") from None

_MARK, _ENDED, _HEIR, _SIZE, _LOADED = range(5)
_MOST_WORKERS, _MOST_BYTES = 256, 1 << 18  # whose states, and of which size, can be noted


class WorkerNotes:
    """Notes in memory that processes share.

    mark: of the workers who read; 0 where there is none
    ended: whether the stream has no further step
    heir: the mark of the workers who go on behind a state that others had loaded; 0 where there is none
    """

    def __init__(self) -> None:
        self._numbers = torch.zeros(_LOADED + _MOST_WORKERS, dtype=torch.int64).share_memory_()
        self._text = torch.zeros(_MOST_BYTES, dtype=torch.uint8).share_memory_()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of a copy, in memory of its own; of what is sent to a worker, in that of the sender."""
        for name, tensor in state.items():
            setattr(self, name, tensor if tensor.is_shared() else tensor.clone().share_memory_())

    @property
    def mark(self) -> int:
        """Of the workers who read."""
        return int(self._numbers[_MARK])

    @mark.setter
    def mark(self, mark: int) -> None:
        self._numbers[_MARK] = mark

    @property
    def ended(self) -> bool:
        """Whether the stream has no further step."""
        return bool(self._numbers[_ENDED])

    @ended.setter
    def ended(self, ended: bool) -> None:
        self._numbers[_ENDED] = int(ended)

    @property
    def heir(self) -> int:
        """The mark of those who go on behind a state that others had loaded."""
        return int(self._numbers[_HEIR])

    @heir.setter
    def heir(self, mark: int) -> None:
        self._numbers[_HEIR] = mark

    def clear(self) -> None:
        """Have nothing noted."""
        self._numbers.zero_()

    def note_loaded(self, position: Position, info: Any) -> None:
        """Note, in a worker, that it loaded a state behind an iteration's end. info: what torch tells the worker"""
        if not position.is_behind or info.num_workers > _MOST_WORKERS:
            return
        text = json.dumps(position.to_json(), separators=(",", ":")).encode()
        if info.id == 0 and len(text) <= _MOST_BYTES:
            self._text[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
            self._numbers[_SIZE], self.heir = len(text), 0
        self._numbers[_LOADED + info.id] = mark_of(info)

    def left(self, mark: int) -> Position | None:
        """Where earlier workers stood that had loaded a state behind an iteration's end, unless others went on there.

        mark: of the workers who ask

        StatefulDataLoader starts such workers, finds its iteration at the end, and starts others.
        """
        size, loaded = int(self._numbers[_SIZE]), self._numbers[_LOADED:]
        if not size or self.heir not in (0, mark):
            return None
        found = Position.from_json(json.loads(bytes(self._text[:size].numpy())))
        of = 0 if found.worker is None else found.worker[1]
        if not of or not bool((loaded[:of] == self.mark).all()) or found.until is None:
            return None
        return replace(found, skip=found.until - found.known, worker=None)


def mark_of(info: Any) -> int:
    """A number that the workers of an iteration have in common, and that those of another do not have; 0 for none.

    info: what torch tells a worker; None where there is no worker

    >>> mark_of(None)
    0
    """
    return 0 if info is None else int(info.seed - info.id) or 1
