"""Where a loader stands in the steps of a stream, when one process reads them or several do so in turn.

Worker i of n reads steps i, i + n, i + 2n … and passes over those between. So each worker knows a place in the stream,
p, and how many steps it passes over from there, k; its next step has the number p + k. The consumer takes the steps in
order, so it stands at the least of these numbers:

    next step of the consumer = min over workers of (p + k)

>>> first, second = Position(steps={"n": 5}, skip=1, worker=(0, 2)), Position(steps={"n": 4}, skip=1, worker=(1, 2))
>>> consumed([first, second])
Position(steps={'n': 5}, skip=0, world=1, until=None, ended=False, worker=None)

Steps that are passed over are those of a number of ranks, so a position names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from volt import arguments
from volt.batches.steps_state import FORMAT as STEPS
from volt.errors import StreamError, quoted
from volt.stream.running.state import FORMAT as LINES
from volt.stream.running.state import checksum

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
        """Where a reader starts, when an iteration starts here.

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
        told = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "worker"}
        worker = {} if self.worker is None else {"worker": self.worker[0], "of": self.worker[1]}
        found = {"version": VERSION, **told, **worker}
        return {**found, "checksum": checksum(found)}

    @classmethod
    def from_json(cls, state: Any) -> Self:
        """What `to_json` gave, or the state of `Steps`. Raises StreamError if it is something else.

        >>> Position.from_json(Position(skip=3).to_json())
        Position(steps=None, skip=3, world=1, until=None, ended=False, worker=None)
        """
        found = dict(arguments.mapping(state, "state", remedy=_REMEDY))
        if found.get("format") == STEPS:
            return cls(steps=_checked_steps(found))
        _check_kind(found)
        worker = found.pop("worker", None), found.pop("of", None)
        own = {"version", "checksum", *(field.name for field in fields(cls))} - {"worker"}
        if set(found) != own:
            raise StreamError(f"the state of a StreamDataset holds {quoted(', '.join(map(str, found)))}; {_REMEDY}")
        _check_values(found)
        number_of = None if worker == (None, None) else _checked_worker(*worker)
        if found["checksum"] != checksum(state):
            raise StreamError(f"the state of a StreamDataset was changed: its checksum is another; {_REMEDY}")
        return cls(**{name: found[name] for name in own - {"version", "checksum"}}, worker=number_of)


def consumed(positions: Sequence[Position], *, since: int = 0) -> Position:
    """Where the consumer of several workers stands.

    positions: those of all workers, when the consumer had their last steps
    since: steps that the consumer has taken after that
    """
    n = min(position.n for position in positions) + since
    near = max((position for position in positions if position.known <= n), key=lambda position: position.known)
    ended = all(position.ended for position in positions)
    return replace(near, skip=n - near.known, ended=ended, worker=None)


def _check_kind(found: Mapping[str, Any]) -> None:
    """Raise StreamError for states of others."""
    if "_snapshot" in found or "dataset_state" in found:
        raise StreamError("this is the state of a loader; give it to the loader, or take StreamDataset.state_of(it)")
    if found.get("format") == LINES:
        raise StreamError(f"this is the state of a Stream of lines, which says nothing of steps; {_REMEDY}")
    if found.get("version") != VERSION:
        raise StreamError(f"this is no state of a StreamDataset of version {VERSION}; {_REMEDY}")


def _check_values(found: Mapping[str, Any]) -> None:
    if found["steps"] is not None:
        _checked_steps(arguments.mapping(found["steps"], "state: steps", remedy=_REMEDY))
    until = 0 if found["until"] is None else found["until"]
    for name, value, low in (("skip", found["skip"], 0), ("until", until, 0), ("world", found["world"], 1)):
        arguments.whole(value, f"state: {name}", low=low, kind=StreamError)
    if not isinstance(found["ended"], bool):
        raise arguments.refusal(found["ended"], "state: ended", _REMEDY)


def _checked_steps(steps: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments.whole(steps.get("n"), "state: steps: n", low=0, kind=StreamError)
    return steps


def _checked_worker(number: Any, of: Any) -> tuple[int, int]:
    of = arguments.whole(of, "state: of", low=1, kind=StreamError)
    return arguments.whole(number, "state: worker", low=0, high=of - 1, kind=StreamError), of
