"""The state of a stream: a few hundred bytes of JSON, enough to resume bit for bit with any number of workers.

    {"format": "volt.stream", "version": 3, "n": 1000, "sources": {"wmt": {"lines": 750, "epoch": 0, "start": 512, …}}}

A checksum covers all values. A state belongs to one rank or, once merged, to any rank.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import StreamError
from volt.stream.reading.open_source import Growth
from volt.stream.reading.unread_lines import FOREVER, LineBlock, Unread, UnreadLines, unread_in
from volt.stream.running.state_validation import (
    check_checksum,
    check_keys,
    checksum,
    listed,
    mapping,
    refusal,
    text,
    whole,
)

FORMAT = "volt.stream"
VERSION = 4
_STEPS_FORMAT = "volt.steps"  # the format of the states of steps (volt.batches.steps_state)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position in a source: its next line.

    lines: lines of the source delivered so far.
    epoch, start: the address of the block that contains the line; start is None before the first block.
    offset: outputs of that block already delivered.
    chunk, before: the chunk that contains the line, and the number of outputs of earlier chunks of the block.
    unread: the unread lines of epochs that began with a different number of ranks.
    grown: see `OpenSource`.
    """

    lines: int = 0
    epoch: int = 0
    start: int | None = None
    offset: int = 0
    chunk: int = 0
    before: int = 0
    unread: Unread = ()
    grown: Growth = ()

    @property
    def address(self) -> tuple[int, int] | None:
        return None if self.start is None else (self.epoch, self.start)

    @property
    def inside(self) -> int:
        """Outputs of the chunk already delivered."""
        return self.offset - self.before

    def moved(self, n: int) -> Cursor:
        return Cursor(  # `replace` takes six times as long
            self.lines + n,
            self.epoch,
            self.start,
            self.offset + n,
            self.chunk,
            self.before,
            self.unread,
            self.grown,
        )

    def check(
        self, name: str, *, n_lines: int, block_lines: int, rank: int = 0, world: int = 1
    ) -> None:
        """Raise StreamError if unread lines exceed the source, or if no block of the rank is at the cursor."""
        if max((lines.end for lines in self.unread), default=0) > n_lines:
            problem = f"goes beyond the {n_lines:,} lines of the source"
            raise refusal(f"the state's sources.{name}.unread {problem}")
        if self.start is None:
            return
        share = unread_in(self.epoch, n_lines, self.unread).share(rank, world)
        try:
            share.take(self.start, 0, block_lines=block_lines)
        except StreamError as error:
            raise refusal(f"the state's sources.{name}.start: {error}") from None


@dataclass(frozen=True, slots=True)
class State:
    """The position of a stream, and the fingerprints of everything that its lines depend on.

    n: lines delivered so far.
    since: the line at which sources, ranks or weights last changed.
    base: source name → how many of its lines precede line `since`.
    ended: the names of ended sources.
    accepted: how the configuration has changed since the first run: see `accept` of `Stream.restore`.
    merged: the number of merged states; 0 for the state of one rank.
    """

    n: int
    cursors: dict[str, Cursor]
    configuration: dict[str, Any]
    since: int = 0
    base: dict[str, int] = field(default_factory=dict)
    ended: tuple[str, ...] = ()
    n_read: int = 0
    n_faults: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    accepted: tuple[str, ...] = ()
    merged: int = 0

    def to_json(self) -> dict[str, Any]:
        sources = {name: _cursor_to_json(cursor) for name, cursor in self.cursors.items()}
        head = {"format": FORMAT, "version": VERSION, "volt": _volt(), "n": self.n}
        rest = {name: getattr(self, name) for name in _READERS}
        values: dict[str, Any] = json.loads(json.dumps({**head, "sources": sources, **rest}))
        return {**values, "checksum": checksum(values)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> State:
        """Rebuild a state from the result of `to_json`. Raises StreamError for any other value."""
        arguments.mapping(
            stored, "state", remedy="give the result of Stream.state or volt.stream.load_state"
        )
        _check_version(stored)
        check_keys(stored, ("format", "version", "volt", "sources", *_READERS, "checksum"))
        check_checksum(stored)
        sources = mapping(stored["sources"], "sources")
        try:
            cursors = {name: _cursor(source, f"sources.{name}") for name, source in sources.items()}
            values = {name: read(stored[name], name) for name, read in _READERS.items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise refusal(f"the state contains values that no stream writes ({error!r})") from None
        return cls(cursors=cursors, **values)


@cache
def _volt() -> str:
    return version("volt-vocab")


def _check_version(stored: Mapping[str, Any]) -> None:
    for name in ("format", "version"):
        if name not in stored:
            raise refusal(f"the state has no {name!r}")
    kind = stored["format"]
    number = stored["version"]
    if kind == _STEPS_FORMAT:
        raise StreamError(
            "the state belongs to steps (batches), but this is a stream of lines; resume with `volt stream batches`, "
            "Steps.restore, or StreamDataset.load_state_dict"
        )
    if kind != FORMAT or number != VERSION or type(number) is not int:
        shown = f"{arguments.shortened(repr(kind))}, version {arguments.shortened(str(number))}"
        raise StreamError(
            f"a state of {shown}, cannot be continued; version {VERSION} is needed; start the stream anew"
        )


_NUMBERS = ("lines", "epoch", "start", "offset", "chunk", "before")


def _cursor_to_json(cursor: Cursor) -> dict[str, Any]:
    values = {name: getattr(cursor, name) for name in _NUMBERS}
    values["unread"] = [_unread_to_json(lines) for lines in cursor.unread]
    if cursor.grown:
        values["grown"] = cursor.grown
    return values


def _unread_to_json(lines: UnreadLines) -> dict[str, Any]:
    begun = [
        {
            "start": block.start,
            "n_lines": block.n_lines,
            "outputs": [(outputs.start, outputs.step) for outputs in block.outputs],
        }
        for block in lines.begun
    ]
    ranges = [(own.start, own.stop) for own in lines.ranges]
    return {"epoch": lines.epoch, "ranges": ranges, "begun": begun}


def _cursor(stored: Mapping[str, Any], place: str) -> Cursor:
    numbers = dict[str, Any]()
    for name in _NUMBERS:
        if name != "start" or stored[name] is not None:
            numbers[name] = whole(stored[name], f"{place}.{name}")
    unread = tuple(_unread(lines, f"{place}.unread") for lines in stored["unread"])
    grown = _pairs(stored.get("grown", ()), f"{place}.grown", low=1)
    return Cursor(**numbers, unread=unread, grown=grown)


def _unread(stored: Mapping[str, Any], place: str) -> UnreadLines:
    epoch = whole(stored["epoch"], place)
    ranges = [range(*bounds) for bounds in _pairs(stored["ranges"], place)]
    begun = list[LineBlock]()
    for block in stored["begun"]:
        pairs = _pairs(block["outputs"], place, low=1)
        outputs = tuple(range(first, FOREVER, step) for first, step in pairs)
        start = whole(block["start"], place)
        begun.append(LineBlock(epoch, start, whole(block["n_lines"], place), outputs))
    return UnreadLines(epoch, tuple(ranges), tuple(begun))


def _pairs(stored: object, place: str, *, low: int = 0) -> tuple[tuple[int, int], ...]:
    return tuple(
        (whole(first, place), whole(second, place, low=low))
        for first, second in listed(stored, place)
    )


def _configuration(stored: object, place: str) -> dict[str, Any]:
    result = dict(mapping(stored, place))
    for name, source in mapping(result.get("sources", {}), f"{place}.sources").items():
        mapping(source, f"{place}.sources.{name}")
    return result


def _counts(stored: object, place: str) -> dict[str, int]:
    return {name: whole(n, f"{place}.{name}") for name, n in mapping(stored, place).items()}


def _texts(stored: object, place: str) -> tuple[str, ...]:
    return tuple(text(value, place) for value in listed(stored, place))


# a saved value's name → the function that checks the value
_READERS: dict[str, Callable[[Any, str], Any]] = {
    "n": whole,
    "configuration": _configuration,
    "since": whole,
    "base": _counts,
    "ended": _texts,
    "n_read": whole,
    "n_faults": whole,
    "reasons": _counts,
    "accepted": _texts,
    "merged": whole,
}


@dataclass(frozen=True, slots=True)
class FaultCounts:
    n_read: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    def added_to(self, state: State) -> State:
        reasons = state.reasons
        if self.reasons:
            reasons = dict(Counter(reasons) + Counter(self.reasons))
        n_faults = state.n_faults + sum(self.reasons.values())
        return replace(state, n_read=state.n_read + self.n_read, n_faults=n_faults, reasons=reasons)


class Opening(NamedTuple):
    """The opening of a chunk of a source, for line `n` of the stream.

    cursor: the position at the start of the chunk, or a restored position inside it.
    size: the number of the chunk's outputs.
    counts: the numbers of lines read and of faults in the chunk; 0 if the state already counts them.
    """

    n: int
    source: int
    cursor: Cursor
    block: LineBlock
    size: int
    counts: FaultCounts


def reached(openings: Sequence[Opening], n: int) -> list[Opening]:
    """Return each source's openings up to its last non-empty chunk that was opened before line n."""
    last = {
        opening.source: place
        for place, opening in enumerate(openings)
        if opening.n < n and opening.size
    }
    return [
        opening for place, opening in enumerate(openings) if place <= last.get(opening.source, -1)
    ]


def advanced(
    state: State, turns: NDArray[np.integer[Any]], openings: Sequence[Opening] = ()
) -> State:
    """Return the state after these turns. openings: the chunks opened for these and later turns"""
    n = state.n + len(turns)
    names = [*state.cursors]
    opened = reached(openings, n)

    cursors = dict(state.cursors)
    for opening in opened:
        cursors[names[opening.source]] = opening.cursor
    counts = np.bincount(turns, minlength=len(names)).tolist()
    for name, count in zip(names, counts, strict=True):
        if count:
            n_lines = state.cursors[name].lines + count
            cursors[name] = cursors[name].moved(n_lines - cursors[name].lines)

    reasons = Counter[str]()
    for opening in opened:
        reasons.update(opening.counts.reasons)
    n_read = sum(opening.counts.n_read for opening in opened)
    return FaultCounts(n_read, reasons).added_to(replace(state, n=n, cursors=cursors))
