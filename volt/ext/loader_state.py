"""`Position`: where a loader stands in the steps of a stream, read by one process or by several
workers in turn.

Worker i of n reads steps i, i + n, i + 2n, … Each worker stores a state of the stream, at step p,
and the number k of steps to skip from there until its next step. The number of the next step that
the loader returns is the minimum of p + k over the workers. For example, 2 workers after 3 steps:
worker 0 has read steps 0 and 2, so its next step is 4 = 3 + 1; worker 1 has read step 1, so its
next step is 3 = 2 + 1; the loader's next step is 3.

`WorkerNotes` is memory that workers write and the consumer's process reads; both ends are in
`StreamDataset`.
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
_MAX_WORKERS = 256  # to note
_MAX_BYTES = 1 << 18  # of a state
# Slots of `WorkerNotes._numbers`; from _LOADED_BY on, one for each worker.
_READ_BY, _ENDED, _CONTINUED_BY, _STATE_SIZE, _LOADED_BY = range(5)


@dataclass(frozen=True, slots=True)
class Position:
    """The position of the next step: `skip` steps after the state `steps`.

    steps: a state of `Steps`; None for the beginning
    skip: a number of steps
    world: the number of ranks that share the skipped steps
    until: the number of the first step after the iteration; None for all steps
    ended: whether the stream has no further step
    worker: the number of the worker that reads, and how many workers read; None for the process
        that consumes the steps
    """

    steps: Mapping[str, Any] | None = None
    skip: int = 0
    world: int = 1
    until: int | None = None
    ended: bool = False
    worker: tuple[int, int] | None = None

    @property
    def n_of_state(self) -> int:
        """The number of the first step after the state `steps`."""
        return 0 if self.steps is None else int(self.steps["n"])

    @property
    def is_over(self) -> bool:
        return self.until is not None and self.n >= self.until

    @property
    def n(self) -> int:
        """The number of the next step."""
        return self.n_of_state + self.skip

    def for_reader(
        self, worker: tuple[int, int] | None, *, world: int, length: int | None
    ) -> Position:
        """Return the position at which a worker, or the process itself, starts or continues an
        iteration.

        A worker's own position is returned unchanged.

        length: number of steps in an iteration; None for all steps
        """
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
        """Return the position that `to_json` or `Steps.state` stored.

        Raises StreamError for anything else.
        """
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
        names = [field.name for field in fields(cls) if field.name != "worker"]
        return cls(**{name: values[name] for name in names}, worker=worker)


def position_of_loader(workers: Sequence[Position], *, n_since: int = 0) -> Position:
    """Return the position of the process that consumes the steps of workers.

    workers: the position of each worker
    n_since: number of steps that the process has consumed since the workers were at these positions
    """
    n = min(position.n for position in workers) + n_since
    earlier = [position for position in workers if position.n_of_state <= n]
    nearest = max(earlier, key=lambda position: position.n_of_state)
    ended = all(position.ended for position in workers)
    return replace(nearest, skip=n - nearest.n_of_state, ended=ended, worker=None)


def iteration_id(info: Any) -> int:
    """Return a number that all workers of one iteration share.

    info: the result of `get_worker_info`, None gives 0
    """
    if info is None:
        return 0
    return int(info.seed - info.id) or 1


def _shared_number(slot: int) -> Any:
    """Return a property that reads and writes a number of `WorkerNotes`."""
    return property(
        lambda notes: int(notes._numbers[slot]),
        lambda notes, number: notes._numbers.__setitem__(slot, number),
    )


class WorkerNotes:
    """Notes in memory that the workers of a loader share with their parent process.

    read_by: the id of the iteration (`iteration_id`) whose workers read the dataset; 0 without
        workers
    ended: 1 if the stream has no further step
    continued_by: the id of the iteration that continues from a state loaded by earlier workers; 0
        if none does
    """

    read_by = _shared_number(_READ_BY)
    ended = _shared_number(_ENDED)
    continued_by = _shared_number(_CONTINUED_BY)

    def __init__(self) -> None:
        import torch

        self._numbers = torch.zeros(_LOADED_BY + _MAX_WORKERS, dtype=torch.int64).share_memory_()
        self._state = torch.zeros(_MAX_BYTES, dtype=torch.uint8).share_memory_()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Give a copy its own memory; notes sent to a worker remain in the sender's memory."""
        for name, tensor in state.items():
            setattr(self, name, tensor if tensor.is_shared() else tensor.clone().share_memory_())

    def clear(self) -> None:
        self._numbers.zero_()

    def note_loaded(self, position: Position, info: Any) -> None:
        """In a worker, note a state that it has loaded, if the state is at the end of an
        iteration."""
        if not position.is_over or info.num_workers > _MAX_WORKERS:
            return
        text = json.dumps(position.to_json(), separators=(",", ":")).encode()
        if info.id == 0 and len(text) <= _MAX_BYTES:
            import torch

            self._state[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
            self._numbers[_STATE_SIZE] = len(text)
            self.continued_by = 0
        self._numbers[_LOADED_BY + info.id] = iteration_id(info)

    def position_after(self, iteration: int) -> Position | None:
        """Return the position from which the iteration with this id continues after the noted
        state.

        Return None if another iteration continues there, or if not all workers have loaded the
        state.
        """
        size = int(self._numbers[_STATE_SIZE])
        if not size or self.continued_by not in (0, iteration):
            return None
        position = Position.from_json(json.loads(bytes(self._state[:size].numpy())))
        if position.worker is None or position.until is None:
            return None
        _, n_workers = position.worker
        loaded_by = self._numbers[_LOADED_BY : _LOADED_BY + n_workers]
        if not bool((loaded_by == self.read_by).all()):
            return None
        return replace(position, skip=position.until - position.n_of_state, worker=None)
