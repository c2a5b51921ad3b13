"""`Position`: the place of a loader in the steps of a stream, read by one process or by several workers in turn.

Worker i of n reads steps i, i + n, i + 2n … and skips the steps between. So each worker knows a place in the stream, p,
and how many steps to skip from there, k; its next step has the number p + k. The consumer takes the steps in order, so
its position is the least of these numbers:

    next step of the consumer = min over workers of (p + k)

Skipped steps belong to a number of ranks, so a position records it. `WorkerNotes` are notes in memory that the workers
of a loader and the process that started them share.

>>> first, second = Position(steps={"n": 5}, skip=1, worker=(0, 2)), Position(steps={"n": 4}, skip=1, worker=(1, 2))
>>> consumed([first, second])
Position(steps={'n': 5}, skip=0, world=1, until=None, ended=False, worker=None)
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from volt import arguments
from volt.batches.steps import Steps
from volt.batches.windows import FORMAT as STEPS
from volt.display import counted
from volt.errors import ConfigError, StreamError, VoltError, quoted
from volt.stream.running.state import FORMAT as LINES
from volt.stream.running.state import checksum
from volt.stream.running.stream import Stream

VERSION = 1
_REMEDY = "give what state_dict() returns, or the state of a batch"


@dataclass(frozen=True, slots=True)
class Position:
    """The position of the next step.

    steps: a state of `Steps`; None for the beginning
    skip: how many steps to skip from there
    world: the number of ranks for which these are made
    until: the number of the step before which the iteration ends; None for no such step
    ended: whether the stream has no further step
    worker: the number of the worker at this position, and of workers; None for the consumer
    """

    steps: Mapping[str, Any] | None = None
    skip: int = 0
    world: int = 1
    until: int | None = None
    ended: bool = False
    worker: tuple[int, int] | None = None

    @property
    def known(self) -> int:
        """The number of the next step of `steps`."""
        return 0 if self.steps is None else int(self.steps["n"])

    @property
    def is_over(self) -> bool:
        """Whether the next step is past the end of the iteration.

        >>> Position(skip=3, until=3).is_over, Position(skip=2, until=3).is_over, Position(skip=2).is_over
        (True, False, False)
        """
        return self.until is not None and self.n >= self.until

    @property
    def n(self) -> int:
        """The number of the next step.

        >>> Position(steps={"n": 5}, skip=2).n
        7
        """
        return self.known + self.skip

    def begun(self, *, worker: tuple[int, int] | None, world: int, length: int | None) -> Position:
        """Return the position at which a reader starts an iteration.

        worker: the number of the reader, and of readers; None if there is one
        world: the current number of ranks
        length: steps of an iteration; None for all

        An iteration that was not read to its end continues.

        >>> Position(steps={"n": 6}, until=6).begun(worker=(1, 2), world=1, length=6)
        Position(steps={'n': 6}, skip=1, world=1, until=12, ended=False, worker=(1, 2))
        """
        if self.worker is not None:
            return self
        is_new = self.until is None or self.is_over
        until = self.until if not is_new else None if length is None else self.n + length
        world = self.world if self.skip else world  # skipped steps are of the former number of ranks
        skip = self.skip + (worker or (0, 1))[0]
        return replace(self, skip=skip, world=world, until=until, worker=worker)

    def to_json(self) -> dict[str, Any]:
        """Return the position as JSON values, with their checksum."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "worker"}
        worker = {} if self.worker is None else {"worker": self.worker[0], "of": self.worker[1]}
        result = {"version": VERSION, **values, **worker}
        return {**result, "checksum": checksum(result)}

    @classmethod
    def from_json(cls, state: Any) -> Self:
        """Return the position of what `to_json` or `Steps.state` returned. Raises StreamError for anything else.

        >>> Position.from_json(Position(skip=3).to_json())
        Position(steps=None, skip=3, world=1, until=None, ended=False, worker=None)
        """
        values = dict(arguments.mapping(state, "state", remedy=_REMEDY))
        if values.get("format") == STEPS:
            return cls(steps=_checked_steps(values))
        _check_kind(values)
        worker = values.pop("worker", None), values.pop("of", None)
        own = {"version", "checksum", *(field.name for field in fields(cls))} - {"worker"}
        if set(values) != own:
            raise StreamError(f"the state of a StreamDataset holds {quoted(', '.join(map(str, values)))}; {_REMEDY}")
        _check_values(values)
        number_of = None if worker == (None, None) else _checked_worker(*worker)
        if values["checksum"] != checksum(state):
            raise StreamError(f"the state of a StreamDataset was changed: its checksum does not match; {_REMEDY}")
        return cls(**{name: values[name] for name in own - {"version", "checksum"}}, worker=number_of)


def consumed(positions: Sequence[Position], *, since: int = 0) -> Position:
    """Return the position of the consumer of several workers.

    positions: of all workers, after the last steps that the consumer had from them
    since: steps that the consumer has taken after that
    """
    n = min(position.n for position in positions) + since
    near = max((position for position in positions if position.known <= n), key=lambda position: position.known)
    ended = all(position.ended for position in positions)
    return replace(near, skip=n - near.known, ended=ended, worker=None)


def _check_kind(values: Mapping[str, Any]) -> None:
    """Raise StreamError for states of other objects."""
    if "_snapshot" in values or "dataset_state" in values:
        raise StreamError("this is the state of a loader; give it to the loader, or take StreamDataset.state_of(it)")
    if values.get("format") == LINES:
        raise StreamError(f"this is the state of a Stream of lines, not of steps; {_REMEDY}")
    if values.get("version") != VERSION:
        raise StreamError(f"this is not a state of a StreamDataset of version {VERSION}; {_REMEDY}")


def _check_values(values: Mapping[str, Any]) -> None:
    if values["steps"] is not None:
        _checked_steps(arguments.mapping(values["steps"], "state: steps", remedy=_REMEDY))
    until = 0 if values["until"] is None else values["until"]
    for name, value, low in (("skip", values["skip"], 0), ("until", until, 0), ("world", values["world"], 1)):
        arguments.whole(value, f"state: {name}", low=low, kind=StreamError)
    if not isinstance(values["ended"], bool):
        raise arguments.refusal(values["ended"], "state: ended", _REMEDY)


def _checked_steps(steps: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments.whole(steps.get("n"), "state: steps: n", low=0, kind=StreamError)
    return steps


def _checked_worker(number: Any, of: Any) -> tuple[int, int]:
    of = arguments.whole(of, "state: of", low=1, kind=StreamError)
    return arguments.whole(number, "state: worker", low=0, high=of - 1, kind=StreamError), of


_RELOAD = "load_state_dict() the state to resume from"
_STATE_OF = "where a loader's state was loaded, dataset.load_state_dict(StreamDataset.state_of(it)) instead"
_NO_OPTIONS = {"self", "path", "options", "sources", "rank", "world", "files"}


def refusing(error: VoltError) -> Iterator[dict[str, Any]]:
    """Raise an error at the first step."""
    raise error
    yield


def iterated_again() -> StreamError:
    """Return the error for an iterator that is read after a newer one was made."""
    return StreamError("the dataset has been iterated again, or loaded, since; take a new iterator")


def yes_or_no(value: Any, name: str) -> bool:
    """Return True or False. Raises ArgumentError for anything else.

    >>> yes_or_no(True, "tell")
    True
    """
    if not isinstance(value, bool):
        raise arguments.refusal(value, name, "give True or False")
    return value


def known_options(config: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that open the steps. Raises ConfigError, with the name, for an unknown one."""
    if callable(config):
        try:
            inspect.signature(config).bind(rank=0, world=1, **options)
        except TypeError as error:
            raise ConfigError(f"config cannot be called with rank, world and the options: {error}") from None
        except ValueError:  # it has no signature
            return options
        return options
    makers = Steps.from_config, Stream.from_config, Stream.__init__
    names = {name for maker in makers for name in inspect.signature(maker).parameters} - _NO_OPTIONS
    if unknown := sorted({*options} - names):
        choices = ", ".join(sorted(names))
        raise ConfigError(f"StreamDataset has no option {quoted(unknown[0])}; options are {choices}")
    return options


def unknown_place(is_broken_off: bool) -> StreamError:
    """Return the error for an iteration whose start is unknown.

    >>> str(unknown_place(is_broken_off=True)).partition(";")[0]
    'an iteration was broken off, and its workers had read ahead of you'
    """
    if is_broken_off:
        message = "an iteration was broken off, and its workers had read ahead of you"
        return StreamError(f"{message}; set epoch=… to end iterations after a number of steps, or {_RELOAD}")
    message = "workers of an earlier iteration read this dataset, and they have ended"
    return StreamError(
        f"{message}; set persistent_workers=True, or repeat=True to start again each time, or {_RELOAD}: {_STATE_OF}"
    )


def parsed(text: str) -> Any:
    """Return the state that a batch holds as text. Raises StreamError if it is not JSON.

    >>> parsed("{}")
    {}
    """
    try:
        return json.loads(text)
    except ValueError:
        raise StreamError("state is a text that is not JSON; give the state of a batch") from None


def check_worker(position: Position, worker: tuple[int, int] | None, world: int) -> None:
    """Raise StreamError if a state belongs to another worker."""
    if position.worker is None or (position.worker == worker and position.world == world):
        return
    number, of = position.worker
    message = f"this is the state of worker {number} of {of} of a loader, for {counted(position.world, 'rank')}"
    raise StreamError(
        f"{message}; take StreamDataset.state_of(loader's state), and load_state_dict() it before you iterate"
    )


_MARK, _ENDED, _HEIR, _SIZE, _LOADED = range(5)
_MOST_WORKERS, _MOST_BYTES = 256, 1 << 18  # whose states, and of which size, can be noted


class WorkerNotes:
    """Notes in memory that processes share.

    mark: of the workers that read; 0 if there are none
    ended: whether the stream has no further step
    heir: the mark of the workers that continue after a state that others had loaded; 0 if there are none
    """

    def __init__(self) -> None:
        import torch

        self._numbers = torch.zeros(_LOADED + _MOST_WORKERS, dtype=torch.int64).share_memory_()
        self._text = torch.zeros(_MOST_BYTES, dtype=torch.uint8).share_memory_()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Give a copy its own memory; notes sent to a worker stay in the memory of the sender."""
        for name, tensor in state.items():
            setattr(self, name, tensor if tensor.is_shared() else tensor.clone().share_memory_())

    @property
    def mark(self) -> int:
        """The mark of the workers that read; 0 if there are none."""
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
        """The mark of the workers that continue after a state that others had loaded."""
        return int(self._numbers[_HEIR])

    @heir.setter
    def heir(self, mark: int) -> None:
        self._numbers[_HEIR] = mark

    def clear(self) -> None:
        """Remove all notes."""
        self._numbers.zero_()

    def note_loaded(self, position: Position, info: Any) -> None:
        """Note, in a worker, that it loaded a state past an iteration's end. info: of `get_worker_info`"""
        if not position.is_over or info.num_workers > _MOST_WORKERS:
            return
        text = json.dumps(position.to_json(), separators=(",", ":")).encode()
        if info.id == 0 and len(text) <= _MOST_BYTES:
            import torch

            self._text[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
            self._numbers[_SIZE], self.heir = len(text), 0
        self._numbers[_LOADED + info.id] = mark_of(info)

    def left(self, mark: int) -> Position | None:
        """Return the position of earlier workers that had loaded a state past an iteration's end, once.

        mark: of the current workers

        StatefulDataLoader starts such workers, finds its iteration at the end, and starts others.
        """
        size, loaded = int(self._numbers[_SIZE]), self._numbers[_LOADED:]
        if not size or self.heir not in (0, mark):
            return None
        position = Position.from_json(json.loads(bytes(self._text[:size].numpy())))
        of = 0 if position.worker is None else position.worker[1]
        if not of or not bool((loaded[:of] == self.mark).all()) or position.until is None:
            return None
        return replace(position, skip=position.until - position.known, worker=None)


def mark_of(info: Any) -> int:
    """Return a number that identifies the workers of one iteration; 0 outside of workers.

    info: of `get_worker_info`

    >>> mark_of(None)
    0
    """
    return 0 if info is None else int(info.seed - info.id) or 1
