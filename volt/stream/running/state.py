"""The state of a stream: a few hundred bytes of JSON, enough to resume bit for bit with any number of workers.

    {"format": "volt.stream", "version": 3, "n": 1000, "sources": {"wmt": {"lines": 750, "epoch": 0, "start": 512, …}}}

A state belongs to a configuration: it holds, by name, the fingerprints of everything that the lines depend on, so a
stream with other lines refuses it and reports what differs (volt.stream.running.checkpoint). It belongs to one rank;
once the states of all ranks are merged, to any rank (volt.stream.running.resharding).

A stored state is validated once: the types of its values, by key, and its own checksum, which covers all the rest.

>>> Cursor(lines=750, epoch=0, start=512, offset=238).moved(2)
Cursor(lines=752, epoch=0, start=512, offset=240, chunk=0, before=0, deal=(), grown=())
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from volt import arguments
from volt.errors import StreamError, shown
from volt.stream.reading.error_policy import kind_of
from volt.stream.reading.open_source import Growth
from volt.stream.reading.sampler import BlockRange, Deal, Remains, remains_of

if TYPE_CHECKING:
    from volt.stream.running.blocks import ComputedBlock


_MOST = 1 << 62  # of what is counted
REMEDY = "take one that a stream has written, or start the stream anew"


def refusal(problem: str) -> StreamError:
    """Return the error for an invalid state, with the remedy."""
    return StreamError(f"{problem}; {REMEDY}")


def whole(value: object, place: str, *, low: int = 0) -> int:
    """Return a whole number from `low` up. Raises StreamError for anything else, True and False included.

    >>> whole(-1, "n")
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: the state's n is -1, not a whole number from 0 up; take one that a stream has written, or
    start the stream anew
    """
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < _MOST:
        raise refusal(f"the state's {shown(place)} is {shown(repr(value))}, not a whole number from {low} up")
    return value


def text(value: object, place: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise refusal(f"the state's {shown(place)} is {shown(repr(value))}, not a text")
    return value


def mapping(value: object, place: str) -> Mapping[str, Any]:
    """Return a mapping whose keys are texts."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise refusal(f"the state's {shown(place)} is {arguments.shortened(repr(value))}, not a mapping")
    return value


def listed(value: object, place: str) -> Sequence[Any]:
    """Return a list."""
    if not isinstance(value, list | tuple):
        raise refusal(f"the state's {shown(place)} is {arguments.shortened(repr(value))}, not a list")
    return value


def pair(value: object, place: str, *, low: int = 0) -> tuple[int, int]:
    """Return two whole numbers, the second from `low` up.

    >>> pair([3, 5], "spans.0")
    (3, 5)
    """
    result = listed(value, place)
    if len(result) != 2:
        raise refusal(f"the state's {shown(place)} has {len(result)} items, not 2")
    return whole(result[0], place), whole(result[1], place, low=low)


def names(value: object, place: str) -> tuple[str, ...]:
    """Return a list of distinct texts.

    >>> names(["wmt"], "ended")
    ('wmt',)
    """
    result = tuple(text(one, place) for one in listed(value, place))
    if len(set(result)) != len(result):
        raise refusal(f"the state's {place} names something twice")
    return result


def counts(value: object, place: str) -> dict[str, int]:
    """Return a mapping of names to whole numbers.

    >>> counts({"wmt": 3}, "base")
    {'wmt': 3}
    """
    return {name: whole(n, f"{place}.{name}") for name, n in mapping(value, place).items()}


def check_keys(stored: Mapping[str, Any], keys: Sequence[str], place: str = "") -> None:
    """Raise StreamError unless a mapping has exactly these keys. place: of the mapping; empty for the state itself.

    >>> check_keys({"line": 1}, ["lines"], "sources.wmt")
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: the state has an unknown key, sources.wmt.line; take one that a stream has written, or
    start the stream anew
    """
    at = f"{place}." if place else ""
    for key in stored:
        if key not in keys:
            raise refusal(f"the state has an unknown key, {arguments.shortened(f'{at}{key}')}")
    for key in keys:
        if key not in stored:
            raise refusal(f"the state has no {shown(f'{at}{key}')!r}")


FORMAT = "volt.stream"
VERSION = 3
_STEPS_FORMAT = "volt.steps"  # of the states of steps (volt.batches.windows)


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a source has been read.

    lines: how many it has given so far.
    epoch, start: the address of the part that its next line comes from; start is None before the first part.
    offset: how many lines of that part have been given.
    chunk, before: the chunk of the part that the next line comes from, and how many lines earlier chunks gave.
    deal: what is left, for all ranks, of the epochs that another number of ranks had begun.
    grown: (epoch, n_lines) pairs: how many lines the source had until lines were appended in that epoch.
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
        """The address of the part; None before the first."""
        return None if self.start is None else (self.epoch, self.start)

    @property
    def inside(self) -> int:
        """The number of lines of the chunk that have been given."""
        return self.offset - self.before

    def moved(self, n: int) -> Cursor:
        """Return the cursor n lines further on in the same part."""
        lines, offset = self.lines + n, self.offset + n  # `replace` takes six times as long
        return Cursor(lines, self.epoch, self.start, offset, self.chunk, self.before, self.deal, self.grown)


@dataclass(frozen=True, slots=True)
class State:
    """The position of a stream, and what it depends on.

    n: how many lines it has given so far.
    cursors: how far each source has been read, by name.
    configuration: fingerprints, by name, of all that the lines depend on.
    since, base, ended: of the mixture: the line at which a source last ended, or ranks or weights last changed; how
        many lines each source had given there; and which sources have ended.
    n_read, n_faults, reasons: lines read, unfit lines among them, and how many for each kind of reason.
    accepted: which differences from the first configuration were accepted.
    merged: how many ranks' states this one was merged from; 0 for a rank's own.
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
        """Return the state as JSON values.

        >>> State(3, {"wmt": Cursor(3, 0, 0, 3)}, {}).to_json()["sources"]
        {'wmt': {'lines': 3, 'epoch': 0, 'start': 0, 'offset': 3, 'chunk': 0, 'before': 0, 'deal': [], 'deal_items': 0}}
        """
        rest = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "cursors"}
        sources = {name: _cursor_to_json(cursor) for name, cursor in self.cursors.items()}
        head = {"format": FORMAT, "version": VERSION, "volt": _volt(), "n": rest.pop("n"), "sources": sources}
        values: dict[str, Any] = json.loads(json.dumps({**head, **rest}))
        return {**values, "checksum": checksum(values)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> State:
        """Return the state that `to_json` wrote. Raises StreamError, with the key, if it is not one.

        >>> state = State(3, {"wmt": Cursor(3, 0, 0, 3)}, {"seed": 1})
        >>> State.from_json(state.to_json()) == state
        True
        """
        arguments.mapping(stored, "state", remedy="give what Stream.state or volt.stream.load_state returns")
        _check_version(stored)
        own = [one.name for one in fields(cls) if one.name != "cursors"]
        check_keys(stored, ("format", "version", "volt", "sources", *own, "checksum"))
        sources = mapping(stored["sources"], "sources").items()
        result = cls(
            n=whole(stored["n"], "n"),
            cursors={name: _cursor(source, f"sources.{name}") for name, source in sources},
            configuration=dict(mapping(stored["configuration"], "configuration")),
            since=whole(stored["since"], "since"),
            base=counts(stored["base"], "base"),
            ended=names(stored["ended"], "ended"),
            n_read=whole(stored["n_read"], "n_read"),
            n_faults=whole(stored["n_faults"], "n_faults"),
            reasons=counts(stored["reasons"], "reasons"),
            accepted=names(stored["accepted"], "accepted"),
            merged=whole(stored["merged"], "merged"),
        )
        text(stored["volt"], "volt")
        check_checksum(stored)
        return result


@cache
def _volt() -> str:
    """Return the version of VOLT, cached, as states may be requested often."""
    return version("volt-vocab")


def checksum(stored: Mapping[str, Any]) -> str:
    """Return 32 hexadecimal digits that depend on all values of a state but its own checksum.

    >>> checksum({"n": 1, "checksum": "?"}) == checksum({"n": 1}), checksum({"n": 1}) == checksum({"n": 2})
    (True, False)
    """
    rest = {name: value for name, value in stored.items() if name != "checksum"}
    return blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=16).hexdigest()


def check_checksum(stored: Mapping[str, Any]) -> None:
    """Raise StreamError unless the checksum of a state matches its values.

    >>> check_checksum({"n": 1, "checksum": checksum({"n": 1})})
    """
    try:
        expected = checksum(stored)
    except (TypeError, ValueError, RecursionError) as error:
        raise refusal(f"the state holds values that are not JSON ({error})") from None
    if stored["checksum"] != expected:
        raise refusal("the state's checksum does not match its values: the state was damaged, or edited by hand")


def _check_version(stored: Mapping[str, Any]) -> None:
    """Raise StreamError unless a state has this format and version."""
    for name in ("format", "version"):
        if name not in stored:
            raise refusal(f"the state has no {name!r}")
    kind, version = stored["format"], stored["version"]
    if kind == _STEPS_FORMAT:
        raise StreamError(
            "the state is one of steps, and this is a stream of lines; resume from it with `volt stream batches`, "
            "Steps.restore, or StreamDataset.load_state_dict"
        )
    if kind != FORMAT or version != VERSION or type(version) is not int:
        message = f"a state of {arguments.shortened(repr(kind))}, version {arguments.shortened(str(version))}"
        raise StreamError(f"{message}, cannot be continued; this is version {VERSION}; start the stream anew")


def _cursor_to_json(cursor: Cursor) -> dict[str, Any]:
    numbers = {one.name: getattr(cursor, one.name) for one in fields(cursor) if one.name != "grown"}
    deal = [
        {
            "epoch": remains.epoch,
            "spans": remains.spans,
            "begun": [{"start": part.start, "n_lines": part.n_lines, "picks": part.picks} for part in remains.begun],
        }
        for remains in cursor.deal
    ]
    grown = {"grown": cursor.grown} if cursor.grown else {}
    return {**numbers, "deal": deal, "deal_items": _items(cursor.deal), **grown}


def _items(deal: Deal) -> int:
    """Return the number of epochs, spans, parts and picks of a deal.

    >>> _items((Remains(0, ((5, 7),)), Remains(1)))
    3
    """
    spans, begun = sum(len(one.spans) for one in deal), [part for one in deal for part in one.begun]
    return len(deal) + spans + len(begun) + sum(len(part.picks) for part in begun)


def _cursor(stored: object, place: str) -> Cursor:
    source = {"grown": (), **mapping(stored, place)}
    check_keys(source, [*(one.name for one in fields(Cursor)), "deal_items"], place)
    numbers = ("lines", "epoch", "offset", "chunk", "before")
    grown = listed(source["grown"], f"{place}.grown")
    whole(source["deal_items"], f"{place}.deal_items")
    deal = [_remains(one, f"{place}.deal.{at}") for at, one in enumerate(listed(source["deal"], f"{place}.deal"))]
    return Cursor(
        **{name: whole(source[name], f"{place}.{name}") for name in numbers},
        start=None if source["start"] is None else whole(source["start"], f"{place}.start"),
        deal=tuple(deal),
        grown=tuple(pair(one, f"{place}.grown", low=1) for one in grown),
    )


def _remains(stored: object, place: str) -> Remains:
    data = mapping(stored, place)
    check_keys(data, ("epoch", "spans", "begun"), place)
    epoch = whole(data["epoch"], f"{place}.epoch")
    spans = tuple(pair(span, f"{place}.spans") for span in listed(data["spans"], f"{place}.spans"))
    begun = tuple(_begun(epoch, part, f"{place}.begun") for part in listed(data["begun"], f"{place}.begun"))
    return Remains(epoch, spans, begun)


def _begun(epoch: int, stored: object, place: str) -> BlockRange:
    data = mapping(stored, place)
    check_keys(data, ("start", "n_lines", "picks"), place)
    picks = tuple(pair(one, f"{place}.picks", low=1) for one in listed(data["picks"], f"{place}.picks"))
    start, n_lines = (whole(data[name], f"{place}.{name}") for name in ("start", "n_lines"))
    return BlockRange(epoch, start, n_lines, picks)


@dataclass(frozen=True, slots=True)
class FaultCounts:
    """The number of lines that were read, and by kind of reason how many of them are unfit."""

    n_read: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, block: ComputedBlock) -> FaultCounts:
        """Count the lines of a computed block."""
        return cls(block.n_read, Counter(map(kind_of, block.faults)) if block.faults else {})

    def added_to(self, state: State) -> State:
        """Return the state after these lines.

        >>> state = State(3, {}, {}, n_read=4, n_faults=1, reasons={"blank": 1})
        >>> FaultCounts(5, {"columns": 2}).added_to(state).reasons
        {'blank': 1, 'columns': 2}
        """
        reasons = dict(Counter(state.reasons) + Counter(self.reasons)) if self.reasons else state.reasons
        n_faults = state.n_faults + sum(self.reasons.values())
        return replace(state, n_read=state.n_read + self.n_read, n_faults=n_faults, reasons=reasons)


class Opening(NamedTuple):
    """A block of a source that is opened when a line of the stream is given.

    n: the number of that line.
    source: the number of the source.
    cursor: of the source, at the start of the block or where a restored state stands in it.
    part: the part of which the block is a chunk.
    size: how many lines the block gives.
    counts: the lines that were read for it, unless a state has counted them already.
    """

    n: int
    source: int
    cursor: Cursor
    part: BlockRange
    size: int
    counts: FaultCounts


def check_cursor(
    cursor: Cursor, name: str, *, n_lines: int, block_lines: int, epochs: int | None, rank: int = 0, world: int = 1
) -> BlockRange | None:
    """Return the part of a source that a rank is reading; None before the first.

    n_lines, block_lines, epochs: of the source; None for epochs without end.
    Raises StreamError if the source has no such part.

    >>> check_cursor(Cursor(9, 0, 4, 1), "wmt", n_lines=10, block_lines=4, epochs=1)
    BlockRange(epoch=0, start=4, n_lines=4, picks=((0, 1),))
    """
    deal, place = cursor.deal, f"the state's sources.{name}"
    if epochs is not None and max(cursor.epoch, deal[-1].epoch if deal else 0) >= epochs:
        raise refusal(f"{place} is beyond the end of the source, which has {epochs:,} epochs")
    for remains in deal:
        ends = [*(end for _, end in remains.spans), *(part.start + part.n_lines for part in remains.begun)]
        if max(ends, default=0) > n_lines:
            raise refusal(f"{place}.deal goes beyond the {n_lines:,} lines of the source")
    first = deal[0].epoch if deal else 0
    if cursor.epoch < first or (cursor.start is None and cursor.epoch > first):
        raise refusal(f"{place}.epoch is {cursor.epoch:,}, where nothing has been given or is left")
    if cursor.start is None:
        return None
    try:
        share = remains_of(n_lines, deal, cursor.epoch).share(rank, world).since(cursor.start, block_lines)
    except StreamError as error:
        raise refusal(f"{place}.start: {error}") from None
    part = next(share.parts(block_lines))
    if cursor.chunk >= (1 if part.is_begun else part.n_lines):
        raise refusal(f"{place}.chunk is {cursor.chunk:,}, which its part does not have")
    return part


def check_offset(cursor: Cursor, name: str, *, n_lines: int) -> None:
    """Raise StreamError if more lines of a chunk have been given than its n_lines.

    >>> check_offset(Cursor(9, 0, 0, 9), "wmt", n_lines=9)
    """
    if not 0 <= cursor.inside <= n_lines:
        raise refusal(f"the state's sources.{name}.offset is {cursor.offset:,}, in a part of {n_lines:,} lines")
