"""`Position`: the position of a loader in the steps of a stream, read by one process or by several workers in turn.

Worker i of n reads steps i, i + n, i + 2n … Each worker stores the number p of a step in the stream, and the number k
of steps to skip from there until its next step:

    number of the next step that the loader returns = min over workers of (p + k)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from volt import arguments
from volt.batches.steps_state import FORMAT as STEPS
from volt.errors import StreamError
from volt.stream.running.state import FORMAT as LINES
from volt.stream.running.state_validation import check_checksum, checksum

VERSION = 1
_REMEDY = "give what state_dict() returns, or the state of a batch"


@dataclass(frozen=True, slots=True)
class Position:
    """The position of the next step: `skip` steps after the state `steps`.

    steps: a state of `Steps`; None for the beginning
    skip: a number of steps
    world: the number of ranks that share the skipped steps
    until: the iteration ends before the step of this number; None for all steps
    ended: whether the stream has no further step
    worker: the number of the worker that reads, and how many workers read; None for the process that consumes the steps
    """

    steps: Mapping[str, Any] | None = None
    skip: int = 0
    world: int = 1
    until: int | None = None
    ended: bool = False
    worker: tuple[int, int] | None = None

    @property
    def known(self) -> int:
        """The number of the first step after the state `steps`."""
        return 0 if self.steps is None else int(self.steps["n"])

    @property
    def is_over(self) -> bool:
        return self.until is not None and self.n >= self.until

    @property
    def n(self) -> int:
        """The number of the next step."""
        return self.known + self.skip

    def begun(self, *, worker: tuple[int, int] | None, world: int, length: int | None) -> Position:
        """Return the position at which a reader starts or continues an iteration."""
        if self.worker is not None:
            return self
        until = self.until
        if until is None or self.is_over:
            until = None if length is None else self.n + length
        if self.skip:
            world = self.world  # the steps to skip belong to the former number of ranks
        number, _ = worker or (0, 1)
        return replace(self, skip=self.skip + number, world=world, until=until, worker=worker)

    def to_json(self) -> dict[str, Any]:
        state = {"version": VERSION, **asdict(self)}
        del state["worker"]
        if self.worker is not None:
            state["worker"], state["of"] = self.worker
        return {**state, "checksum": checksum(state)}

    @classmethod
    def from_json(cls, state: Any) -> Self:
        """Return the position that `to_json` or `Steps.state` stored. Raises StreamError for anything else."""
        values = dict(arguments.mapping(state, "state", remedy=_REMEDY))
        if values.get("format") == STEPS:
            arguments.whole(values.get("n"), "state: steps: n", low=0, kind=StreamError)
            return cls(steps=values)
        if "_snapshot" in values or "dataset_state" in values:
            raise StreamError(
                "this is a loader's state: load it into the loader, or take StreamDataset.state_of(state)"
            )
        if values.get("format") == LINES:
            raise StreamError(
                f"this is the state of a Stream of lines, not of the steps of a StreamDataset; {_REMEDY}"
            )
        if values.get("version") != VERSION or "checksum" not in values:
            raise StreamError(
                f"this is not a state of a StreamDataset of version {VERSION}; {_REMEDY}"
            )
        check_checksum(values)
        worker = (values["worker"], values["of"]) if "worker" in values else None
        own = [field.name for field in fields(cls) if field.name != "worker"]
        return cls(**{name: values[name] for name in own}, worker=worker)


def consumed(positions: Sequence[Position], *, since: int = 0) -> Position:
    """Return the position of the process that consumes workers' steps. since: steps it consumed after `positions`"""
    n = min(position.n for position in positions) + since
    passed = [position for position in positions if position.known <= n]
    nearest = max(passed, key=lambda position: position.known)
    ended = all(position.ended for position in positions)
    return replace(nearest, skip=n - nearest.known, ended=ended, worker=None)


_MARK, _ENDED, _HEIR, _SIZE, _LOADED = range(5)  # places in `WorkerNotes.numbers`
_MOST_WORKERS = 256  # to note
_MOST_BYTES = 1 << 18  # of a state


def _number(place: int) -> Any:
    return property(
        lambda notes: int(notes.numbers[place]),
        lambda notes, n: notes.numbers.__setitem__(place, n),
    )


class WorkerNotes:
    """Notes in memory that the workers of a loader share with their parent process.

    mark: identifies the workers that read (`mark_of`); 0 without workers
    ended: 1 if the stream has no further step
    heir: the mark of the workers that continue from a state loaded by earlier workers; 0 if no workers do
    """

    mark, ended, heir = map(_number, (_MARK, _ENDED, _HEIR))

    def __init__(self) -> None:
        import torch

        self.numbers = torch.zeros(_LOADED + _MOST_WORKERS, dtype=torch.int64).share_memory_()
        self._text = torch.zeros(_MOST_BYTES, dtype=torch.uint8).share_memory_()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Give a copy its own memory; notes sent to a worker remain in the sender's memory."""
        for name, tensor in state.items():
            setattr(self, name, tensor if tensor.is_shared() else tensor.clone().share_memory_())

    def note_loaded(self, position: Position, info: Any) -> None:
        """In a worker, note a loaded state if it is past an iteration's end. info: the result of `get_worker_info`"""
        if not position.is_over or info.num_workers > _MOST_WORKERS:
            return
        text = json.dumps(position.to_json(), separators=(",", ":")).encode()
        if info.id == 0 and len(text) <= _MOST_BYTES:
            import torch

            self._text[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
            self.numbers[_SIZE] = len(text)
            self.heir = 0
        self.numbers[_LOADED + info.id] = mark_of(info)

    def left(self, mark: int) -> Position | None:
        """Return the position after an iteration that earlier workers loaded; None unless workers `mark` may use it."""
        size = int(self.numbers[_SIZE])
        if not size or self.heir not in (0, mark):
            return None
        position = Position.from_json(json.loads(bytes(self._text[:size].numpy())))
        if position.worker is None or position.until is None:
            return None
        _, n_workers = position.worker
        loaded = self.numbers[_LOADED : _LOADED + n_workers]
        if not bool((loaded == self.mark).all()):
            return None
        return replace(position, skip=position.until - position.known, worker=None)


def mark_of(info: Any) -> int:
    """Return a number for the workers of one iteration; 0 outside of workers."""
    if info is None:
        return 0
    return int(info.seed - info.id) or 1
