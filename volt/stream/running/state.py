"""`State`: the position of a stream, from which any number of workers continues it bit for bit.

As JSON, it takes a few hundred bytes:

    {"format": "volt.stream", "version": 4, "n": 1000, "since": 0, "base": {"wmt": 0, …}, …,
     "sources": {"wmt": {"lines": 750, "epoch": 0, "start": 512, "offset": 238, …}, …},
     "configuration": {"seed": 1, "rank": 0, "world": 1, …}, "checksum": "9f86d0…"}

The checksum covers all other values. A state belongs to one rank or, once merged, to any rank.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from typing import Any

from volt import arguments
from volt.array_types import Longs
from volt.errors import StreamError
from volt.stream.reading.open_source import Growth
from volt.stream.reading.unread_lines import FOREVER, LineBlock, Unread, UnreadLines, find_unread
from volt.stream.running.state_validation import (
    check_checksum,
    check_keys,
    checksum,
    decode_bits,
    encode_bits,
    listed,
    mapping,
    refusal,
    text,
    whole,
)

FORMAT = "volt.stream"
VERSION = 4
_STEPS_FORMAT = "volt.steps"  # the format of the states of steps (volt.batches.steps_state)
_CURSOR_NUMBERS = ("lines", "epoch", "start", "offset", "chunk", "before")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position in a source: its next line. An output is a line after all transforms.

    lines: lines of the source delivered so far, over all epochs.
    epoch, start: the epoch and first line of the block that contains the next line; start is None
        before the first block.
    offset: outputs of this block already delivered.
    chunk: the number of the chunk, in this block, that contains the next line.
    before: outputs of the block's earlier chunks.
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
    def block_address(self) -> tuple[int, int] | None:
        return None if self.start is None else (self.epoch, self.start)

    @property
    def chunk_offset(self) -> int:
        """Outputs of the chunk already delivered."""
        return self.offset - self.before

    def advance(self, n: int) -> Cursor:
        """Return the cursor n outputs later in the same chunk."""
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
        """Raise StreamError if the cursor does not fit a source of `n_lines` lines.

        This is so if unread lines exceed the source, or if none of the rank's blocks is at the
        cursor.
        """
        if max((lines.end for lines in self.unread), default=0) > n_lines:
            problem = f"goes beyond the {n_lines:,} lines of the source"
            raise refusal(f"the state's sources.{name}.unread {problem}")
        if self.start is None:
            return
        share = find_unread(self.epoch, n_lines, self.unread).share(rank, world)
        try:
            share.skip_to(self.start, 0, block_lines=block_lines)
        except StreamError as error:
            raise refusal(f"the state's sources.{name}.start: {error}") from None

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in _CURSOR_NUMBERS}
        values["unread"] = [_unread_to_json(lines) for lines in self.unread]
        if self.grown:
            values["grown"] = self.grown
        return values


def _unread_to_json(lines: UnreadLines) -> dict[str, Any]:
    begun = list[dict[str, Any]]()
    for block in lines.begun:
        levels = [
            [(range_.start, range_.step) for range_ in ranges]
            for ranges in (*block.earlier, [block.outputs])
        ]
        begun.append({"start": block.start, "n_lines": block.n_lines, "outputs": levels})
    ranges = [(range_.start, range_.stop) for range_ in lines.ranges]
    return {"epoch": lines.epoch, "ranges": ranges, "begun": begun}


@dataclass(frozen=True, slots=True)
class State:
    """The position of a stream, and the fingerprints of everything that its lines depend on.

    n: lines delivered so far.
    cursors: source name → the position in the source.
    configuration: seed, rank, world, and the fingerprints of each source.
    since: the line at which sources, ranks or weights last changed.
    base: source name → how many of its lines precede line `since`.
    ended: the names of ended sources.
    n_read, n_faults: lines read from the sources, and unfit lines among them.
    reasons: kind of fault → number of unfit lines.
    accepted: how the configuration has changed since the first run: see `accept` of
        `Stream.restore`.
    merged: the number of merged states; 0 for the state of one rank.
    skipped: the lines left out by each `skip_range`: its rank, the number of ranks, the first line,
        and the bits of the lines from there on.
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
    skipped: tuple[str, ...] = ()

    def add_skipped(self, lines: Longs) -> State:
        """Return the state with more skipped lines.

        lines: their numbers in this rank's stream
        """
        first = int(lines.min())
        ranks = f"{self.configuration['rank']}/{self.configuration['world']}"
        entry = f"{ranks} {first} {encode_bits(lines - first)}"
        return replace(self, skipped=(*self.skipped, entry))

    def has_skipped(self, line: int, *, rank: int, world: int) -> bool:
        """Return whether a line of this rank's stream was skipped."""
        for entry in self.skipped:
            ranks, first, bits = entry.split(" ")
            lines = decode_bits(bits, "skipped") + int(first)
            if ranks == f"{rank}/{world}" and line in lines:
                return True
        return False

    def move_base(self) -> State:
        """Return the state with `since` and `base` at the next line, from which shares count
        anew."""
        base = {name: cursor.lines for name, cursor in self.cursors.items()}
        return replace(self, since=self.n, base=base)

    def to_json(self) -> dict[str, Any]:
        sources = {name: cursor.to_json() for name, cursor in self.cursors.items()}
        head = {"format": FORMAT, "version": VERSION, "volt": _volt_version(), "n": self.n}
        rest = {name: getattr(self, name) for name in _READERS}
        if not self.skipped:
            del rest["skipped"]
        values: dict[str, Any] = json.loads(json.dumps({**head, "sources": sources, **rest}))
        return {**values, "checksum": checksum(values)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> State:
        """Rebuild a state from the result of `to_json`. Raises StreamError for any other value."""
        arguments.mapping(
            stored, "state", remedy="give the result of Stream.state or volt.stream.load_state"
        )
        _check_version(stored)
        values = {"skipped": [], **stored}
        check_keys(values, ("format", "version", "volt", "sources", *_READERS, "checksum"))
        check_checksum(stored)
        sources = mapping(stored["sources"], "sources")
        try:
            cursors = {
                name: _read_cursor(source, f"sources.{name}") for name, source in sources.items()
            }
            values = {name: read(values[name], name) for name, read in _READERS.items()}
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise refusal(f"the state contains values that no stream writes ({error!r})") from None
        return cls(cursors=cursors, **values)


def check_range(start: int, stop: int, *, at: int, unit: str) -> None:
    """Raise StreamError unless start is the next line or step, and stop comes after it.

    at: the number of the next line or step
    unit: "line" or "step"
    """
    start = arguments.whole(start, "start", low=0)
    arguments.whole(stop, "stop", low=start + 1)
    if start != at:
        problem = f"the state is at {unit} {at:,}, not {unit} {start:,}"
        remedy = f"skip from {unit} {at:,} on, or take the state of a run at {unit} {start:,}"
        raise StreamError(f"{problem}; {remedy}")


@cache
def _volt_version() -> str:
    return version("volt-vocab")


def _check_version(stored: Mapping[str, Any]) -> None:
    for name in ("format", "version"):
        if name not in stored:
            raise refusal(f"the state has no {name!r}")
    format_ = stored["format"]
    number = stored["version"]
    if format_ == _STEPS_FORMAT:
        raise StreamError(
            "the state belongs to steps (batches), but this is a stream of lines; resume with "
            "`volt stream batches`, Steps.restore, or StreamDataset.load_state_dict"
        )
    if format_ != FORMAT or number != VERSION or type(number) is not int:
        shown = f"{arguments.shortened(repr(format_))}, version {arguments.shortened(str(number))}"
        problem = f"a state of {shown}, cannot be continued; version {VERSION} is needed"
        raise StreamError(f"{problem}; start the stream anew")


def _read_cursor(stored: Mapping[str, Any], key: str) -> Cursor:
    numbers = dict[str, Any]()
    for name in _CURSOR_NUMBERS:
        if name != "start" or stored[name] is not None:
            numbers[name] = whole(stored[name], f"{key}.{name}")
    unread = tuple(_read_unread(lines, f"{key}.unread") for lines in stored["unread"])
    grown = _read_pairs(stored.get("grown", ()), f"{key}.grown", low=1)
    return Cursor(**numbers, unread=unread, grown=grown)


def _read_unread(stored: Mapping[str, Any], key: str) -> UnreadLines:
    epoch = whole(stored["epoch"], key)
    ranges = [range(*bounds) for bounds in _read_pairs(stored["ranges"], key)]
    begun = list[LineBlock]()
    for block in stored["begun"]:
        *earlier, [outputs] = [
            tuple(range(first, FOREVER, step) for first, step in _read_pairs(pairs, key, low=1))
            for pairs in block["outputs"]
        ]
        start = whole(block["start"], key)
        n_lines = whole(block["n_lines"], key)
        begun.append(LineBlock(epoch, start, n_lines, outputs, tuple(earlier)))
    return UnreadLines(epoch, tuple(ranges), tuple(begun))


def _read_pairs(stored: object, key: str, *, low: int = 0) -> tuple[tuple[int, int], ...]:
    return tuple(
        (whole(first, key), whole(second, key, low=low)) for first, second in listed(stored, key)
    )


def _read_configuration(stored: object, key: str) -> dict[str, Any]:
    result = dict(mapping(stored, key))
    for name, source in mapping(result.get("sources", {}), f"{key}.sources").items():
        mapping(source, f"{key}.sources.{name}")
    return result


def _read_counts(stored: object, key: str) -> dict[str, int]:
    return {name: whole(n, f"{key}.{name}") for name, n in mapping(stored, key).items()}


def _read_texts(stored: object, key: str) -> tuple[str, ...]:
    return tuple(text(value, key) for value in listed(stored, key))


# a value's key in the JSON object → the function that checks and returns the value
_READERS: dict[str, Callable[[Any, str], Any]] = {
    "n": whole,
    "configuration": _read_configuration,
    "since": whole,
    "base": _read_counts,
    "ended": _read_texts,
    "n_read": whole,
    "n_faults": whole,
    "reasons": _read_counts,
    "accepted": _read_texts,
    "merged": whole,
    "skipped": _read_texts,
}
