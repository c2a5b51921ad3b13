"""Where a loader stands in the steps of a stream, when one process reads them or several do so in turn.

Worker i of n reads steps i, i + n, i + 2n … and passes over those between. So each worker knows a place in the stream,
p, and how many steps it passes over from there, k; its next step has the number p + k. The consumer takes the steps in
order, so it stands at the least of these numbers:

    next step of the consumer = min over workers of (p + k)

>>> first, second = Position(steps={"n": 5}, skip=1, worker=(0, 2)), Position(steps={"n": 4}, skip=1, worker=(1, 2))
>>> consumed([first, second])
Position(steps={'n': 5}, skip=0, world=1, until=None, ended=False, worker=None)

Steps that are passed over are those of a number of ranks, so a position names it.

What a dataset of steps cannot take, or cannot know: options, states and iterations, with what to do instead.

It needs no PyTorch.

>>> str(unknown_place(is_broken_off=True)).partition(";")[0]
'an iteration was broken off, and its workers had read ahead of you'

What the workers of a loader note where all of them, and the process that started them, can see it.

>>> notes = WorkerNotes()
>>> notes.mark, notes.ended = 7, True
>>> notes.mark, notes.ended, notes.left(7)
(7, True, None)
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
from volt.errors import ConfigError, StreamError, VoltError, missing, quoted
from volt.stream.running.state import FORMAT as LINES
from volt.stream.running.state import checksum
from volt.stream.running.stream import Stream

VERSION = 1
_REMEDY = "give what state_dict() or a batch's state holds"


@dataclass(frozen=True, slots=True)
class Position:
    """Where the next step is.

    steps: a state of `Steps`; None for the beginning
    skip: how many steps to pass over from there
    world: for how many ranks these are made
    until: the number of the step before which the iteration ends; None for no such step
    ended: whether the stream has no further step
    worker: which worker stands there, of how many; None for the consumer
    """

    steps: Mapping[str, Any] | None = None
    skip: int = 0
    world: int = 1
    until: int | None = None
    ended: bool = False
    worker: tuple[int, int] | None = None

    @property
    def known(self) -> int:
        """The number of the step at which `steps` stands."""
        return 0 if self.steps is None else int(self.steps["n"])

    @property
    def is_behind(self) -> bool:
        """Whether the next step is behind the end of the iteration.

        >>> Position(skip=3, until=3).is_behind, Position(skip=2, until=3).is_behind, Position(skip=2).is_behind
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
        """Return where a reader starts, when an iteration starts here.

        worker: which reader it is, of how many; None if there is one
        world: how many ranks there are now
        length: steps of an iteration; None for as many as there are

        An iteration that was not read to its end goes on.

        >>> Position(steps={"n": 6}, until=6).begun(worker=(1, 2), world=1, length=6)
        Position(steps={'n': 6}, skip=1, world=1, until=12, ended=False, worker=(1, 2))
        """
        if self.worker is not None:
            return self
        is_over = self.until is None or self.is_behind
        until = self.until if not is_over else None if length is None else self.n + length
        world = self.world if self.skip else world  # what is passed over is counted as it was
        skip = self.skip + (worker or (0, 1))[0]
        return replace(self, skip=skip, world=world, until=until, worker=worker)

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with a checksum of all of them."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "worker"}
        worker = {} if self.worker is None else {"worker": self.worker[0], "of": self.worker[1]}
        result = {"version": VERSION, **values, **worker}
        return {**result, "checksum": checksum(result)}

    @classmethod
    def from_json(cls, state: Any) -> Self:
        """What `to_json` gave, or the state of `Steps`. Raises StreamError if it is something else.

        >>> Position.from_json(Position(skip=3).to_json())
        Position(steps=None, skip=3, world=1, until=None, ended=False, worker=None)
        """
        result = dict(arguments.mapping(state, "state", remedy=_REMEDY))
        if result.get("format") == STEPS:
            return cls(steps=_checked_steps(result))
        _check_kind(result)
        worker = result.pop("worker", None), result.pop("of", None)
        own = {"version", "checksum", *(field.name for field in fields(cls))} - {"worker"}
        if set(result) != own:
            raise StreamError(f"the state of a StreamDataset holds {quoted(', '.join(map(str, result)))}; {_REMEDY}")
        _check_values(result)
        number_of = None if worker == (None, None) else _checked_worker(*worker)
        if result["checksum"] != checksum(state):
            raise StreamError(f"the state of a StreamDataset was changed: its checksum is another; {_REMEDY}")
        return cls(**{name: result[name] for name in own - {"version", "checksum"}}, worker=number_of)


def consumed(positions: Sequence[Position], *, since: int = 0) -> Position:
    """Return where the consumer of several workers stands.

    positions: those of all workers, when the consumer had their last steps
    since: steps that the consumer has taken after that
    """
    n = min(position.n for position in positions) + since
    near = max((position for position in positions if position.known <= n), key=lambda position: position.known)
    ended = all(position.ended for position in positions)
    return replace(near, skip=n - near.known, ended=ended, worker=None)


def _check_kind(result: Mapping[str, Any]) -> None:
    """Raise StreamError for states of others."""
    if "_snapshot" in result or "dataset_state" in result:
        raise StreamError("this is the state of a loader; give it to the loader, or take StreamDataset.state_of(it)")
    if result.get("format") == LINES:
        raise StreamError(f"this is the state of a Stream of lines, which says nothing of steps; {_REMEDY}")
    if result.get("version") != VERSION:
        raise StreamError(f"this is no state of a StreamDataset of version {VERSION}; {_REMEDY}")


def _check_values(result: Mapping[str, Any]) -> None:
    if result["steps"] is not None:
        _checked_steps(arguments.mapping(result["steps"], "state: steps", remedy=_REMEDY))
    until = 0 if result["until"] is None else result["until"]
    for name, value, low in (("skip", result["skip"], 0), ("until", until, 0), ("world", result["world"], 1)):
        arguments.whole(value, f"state: {name}", low=low, kind=StreamError)
    if not isinstance(result["ended"], bool):
        raise arguments.refusal(result["ended"], "state: ended", _REMEDY)


def _checked_steps(steps: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments.whole(steps.get("n"), "state: steps: n", low=0, kind=StreamError)
    return steps


def _checked_worker(number: Any, of: Any) -> tuple[int, int]:
    of = arguments.whole(of, "state: of", low=1, kind=StreamError)
    return arguments.whole(number, "state: worker", low=0, high=of - 1, kind=StreamError), of


_RELOAD = "load_state_dict() the state to go on from"
_STATE_OF = "where a loader's state was loaded, dataset.load_state_dict(StreamDataset.state_of(it)) instead"
_NO_OPTIONS = {"self", "path", "options", "sources", "rank", "world", "files"}


def refusing(error: VoltError) -> Iterator[dict[str, Any]]:
    """No steps, but an error."""
    raise error
    yield


def iterated_again() -> StreamError:
    """What to raise where an iterator goes on that is not the last one."""
    return StreamError("the dataset has been iterated again, or loaded, since; take a new iterator")


def yes_or_no(value: Any, name: str) -> bool:
    """True or False as it is. Raises ArgumentError for anything else.

    >>> yes_or_no(True, "tell")
    True
    """
    if not isinstance(value, bool):
        raise arguments.refusal(value, name, "give True or False")
    return value


def known_options(config: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options of what opens the steps. Raises ConfigError, with the name, for one that it does not take."""
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
        message = ", ".join(sorted(names))
        raise ConfigError(f"StreamDataset has no option {quoted(unknown[0])}; options are {message}")
    return options


def unknown_place(is_broken_off: bool) -> StreamError:
    """What to raise where it is not known where to go on."""
    if is_broken_off:
        result = "an iteration was broken off, and its workers had read ahead of you"
        return StreamError(f"{result}; say epoch=… to end iterations after so many steps, or {_RELOAD}")
    result = "workers of an earlier iteration read this dataset, and they have ended"
    return StreamError(
        f"{result}; say persistent_workers=True, or repeat=True to start again each time, or {_RELOAD}: {_STATE_OF}"
    )


def parsed(text: str) -> Any:
    """Return the state that a batch holds. Raises StreamError if it is none.

    >>> parsed("{}")
    {}
    """
    try:
        return json.loads(text)
    except ValueError:
        raise StreamError("state is a text that holds no JSON; give the state of a batch") from None


def check_worker(position: Position, worker: tuple[int, int] | None, world: int) -> None:
    """Raise StreamError if a state is that of another worker."""
    if position.worker is None or (position.worker == worker and position.world == world):
        return
    number, of = position.worker
    result = f"this is the state of worker {number} of {of} of a loader, for {counted(position.world, 'rank')}"
    raise StreamError(
        f"{result}; take StreamDataset.state_of(loader's state), and load_state_dict() it before you iterate"
    )


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
        """Return where earlier workers stood that had loaded a state behind an iteration's end, unless others went on
        there.

        mark: of the workers who ask

        StatefulDataLoader starts such workers, finds its iteration at the end, and starts others.
        """
        size, loaded = int(self._numbers[_SIZE]), self._numbers[_LOADED:]
        if not size or self.heir not in (0, mark):
            return None
        result = Position.from_json(json.loads(bytes(self._text[:size].numpy())))
        of = 0 if result.worker is None else result.worker[1]
        if not of or not bool((loaded[:of] == self.mark).all()) or result.until is None:
            return None
        return replace(result, skip=result.until - result.known, worker=None)


def mark_of(info: Any) -> int:
    """Return a number that the workers of an iteration have in common, and that those of another do not have; 0 for
    none.

    info: what torch tells a worker; None where there is no worker

    >>> mark_of(None)
    0
    """
    return 0 if info is None else int(info.seed - info.id) or 1
