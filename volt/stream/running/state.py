"""The state of a stream: a few hundred bytes of JSON, enough to resume bit for bit with any number of workers.

    {"format": "volt.stream", "version": 3, "n": 1000, "sources": {"wmt": {"lines": 750, "epoch": 0, "start": 512, …}}}

A checksum covers all values. A state belongs to one rank or, once merged, to any rank.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import StreamError
from volt.stream.reading.distributed_sampler import BlockRange, Deal, Remains, remains_of
from volt.stream.reading.open_source import Growth
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
VERSION = 3
_STEPS_FORMAT = "volt.steps"  # the format of the states of steps (volt.batches.steps_state)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position in a source: its next line.

    epoch, start: the address of the part (`BlockRange`) that contains the line; start is None before the first part.
    offset: lines of that part already delivered.
    chunk, before: the chunk that contains the line, and the number of lines in earlier chunks of the part.
    deal: the unread lines of epochs that began with a different number of ranks.
    grown: see `OpenSource`.
    """

    lines: int = 0
    epoch: int = 0
    start: int | None = None
    offset: int = 0
    chunk: int = 0
    before: int = 0
    deal: Deal = ()
    grown: Growth = ()

    @property
    def address(self) -> tuple[int, int] | None:
        return None if self.start is None else (self.epoch, self.start)

    @property
    def inside(self) -> int:
        return self.offset - self.before

    def moved(self, n: int) -> Cursor:
        lines, offset = self.lines + n, self.offset + n  # `replace` takes six times as long
        return Cursor(
            lines, self.epoch, self.start, offset, self.chunk, self.before, self.deal, self.grown
        )


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
        rest = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "cursors"}
        sources = {name: _cursor_to_json(cursor) for name, cursor in self.cursors.items()}
        head = {
            "format": FORMAT,
            "version": VERSION,
            "volt": _volt(),
            "n": rest.pop("n"),
            "sources": sources,
        }
        values: dict[str, Any] = json.loads(json.dumps({**head, **rest}))
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
            return cls(
                cursors=cursors,
                **{name: read(stored[name], name) for name, read in _READERS.items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise refusal(f"the state contains values that no stream writes ({error!r})") from None


@cache
def _volt() -> str:
    return version("volt-vocab")


def _check_version(stored: Mapping[str, Any]) -> None:
    for name in ("format", "version"):
        if name not in stored:
            raise refusal(f"the state has no {name!r}")
    kind, version = stored["format"], stored["version"]
    if kind == _STEPS_FORMAT:
        raise StreamError(
            "the state belongs to steps (batches), but this is a stream of lines; resume with `volt stream batches`, "
            "Steps.restore, or StreamDataset.load_state_dict"
        )
    if kind != FORMAT or version != VERSION or type(version) is not int:
        message = f"a state of {arguments.shortened(repr(kind))}, version {arguments.shortened(str(version))}"
        raise StreamError(
            f"{message}, cannot be continued; version {VERSION} is needed; start the stream anew"
        )


def _cursor_to_json(cursor: Cursor) -> dict[str, Any]:
    numbers = {one.name: getattr(cursor, one.name) for one in fields(cursor) if one.name != "grown"}
    deal = [
        {
            **remains._asdict(),
            "begun": [
                {"start": part.start, "n_lines": part.n_lines, "picks": part.picks}
                for part in remains.begun
            ],
        }
        for remains in cursor.deal
    ]
    grown = {"grown": cursor.grown} if cursor.grown else {}
    return {**numbers, "deal": deal, "deal_items": _items(cursor.deal), **grown}


def _items(deal: Deal) -> int:
    spans, begun = sum(len(one.spans) for one in deal), [part for one in deal for part in one.begun]
    return len(deal) + spans + len(begun) + sum(len(part.picks) for part in begun)


def _cursor(stored: Mapping[str, Any], place: str) -> Cursor:
    numbers = ("lines", "epoch", "offset", "chunk", "before")
    return Cursor(
        **{name: whole(stored[name], f"{place}.{name}") for name in numbers},
        start=None if stored["start"] is None else whole(stored["start"], f"{place}.start"),
        deal=tuple(_remains(remains, f"{place}.deal") for remains in stored["deal"]),
        grown=_pairs(stored.get("grown", ()), f"{place}.grown", low=1),
    )


def _remains(stored: Mapping[str, Any], place: str) -> Remains:
    epoch = whole(stored["epoch"], place)
    begun = [
        BlockRange(
            epoch,
            whole(part["start"], place),
            whole(part["n_lines"], place),
            _pairs(part["picks"], place, low=1),
        )
        for part in stored["begun"]
    ]
    return Remains(epoch, _pairs(stored["spans"], place), tuple(begun))


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


_READERS: dict[
    str, Callable[[Any, str], Any]
] = {  # a saved value's name → the function that checks the value
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
        reasons = (
            dict(Counter(state.reasons) + Counter(self.reasons)) if self.reasons else state.reasons
        )
        n_faults = state.n_faults + sum(self.reasons.values())
        return replace(state, n_read=state.n_read + self.n_read, n_faults=n_faults, reasons=reasons)


class Opening(NamedTuple):
    """The opening of a source's block, for line `n` of the stream.

    cursor: the position at the start of the block, or a restored position inside it.
    counts: the numbers of lines read and of faults in the block; 0 if the state already counts them.
    """

    n: int
    source: int
    cursor: Cursor
    part: BlockRange
    size: int
    counts: FaultCounts


def check_cursor(
    cursor: Cursor, name: str, *, n_lines: int, block_lines: int, rank: int = 0, world: int = 1
) -> None:
    """Raise StreamError if the cursor's deal exceeds the source, or the cursor is not at the start of a rank's part."""
    for remains in cursor.deal:
        ends = [
            *(end for _, end in remains.spans),
            *(part.start + part.n_lines for part in remains.begun),
        ]
        if max(ends, default=0) > n_lines:
            raise refusal(
                f"the state's sources.{name}.deal goes beyond the {n_lines:,} lines of the source"
            )
    if cursor.start is not None:
        try:
            remains_of(n_lines, cursor.deal, cursor.epoch).share(rank, world).since(
                cursor.start, block_lines
            )
        except StreamError as error:
            raise refusal(f"the state's sources.{name}.start: {error}") from None


def reached(openings: Sequence[Opening], n: int) -> list[Opening]:
    """Return each source's openings up to its last non-empty block that was opened before line n."""
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
    """Return the state after these turns. openings: the blocks opened for these and later turns"""
    n, names = state.n + len(turns), [*state.cursors]
    opened = reached(openings, n)
    cursors = dict(state.cursors) | {names[opening.source]: opening.cursor for opening in opened}
    for index, count in enumerate(np.bincount(turns, minlength=len(names)).tolist()):
        if count:
            name = names[index]
            cursors[name] = cursors[name].moved(
                state.cursors[name].lines + count - cursors[name].lines
            )
    state = replace(state, n=n, cursors=cursors)
    reasons = Counter[str]()
    for opening in opened:
        reasons.update(opening.counts.reasons)
    return FaultCounts(sum(opening.counts.n_read for opening in opened), reasons).added_to(state)
