"""Where a stream stands, as a few hundred bytes of JSON: enough to go on bit for bit with any number of workers.

    {"format": "volt.stream", "version": 2, "n": 1000, "sources": {"wmt": {"lines": 750, "epoch": 0, "block": 2, …}}, …}

A state belongs to a configuration: the fingerprints of everything that the lines depend on are in it, by name, so a
stream that would go on differently refuses it and says what differs.

>>> differences({"seed": 1, "sources": {"wmt": "a1"}}, {"seed": 2, "sources": {"wmt": "a1"}})
['seed: 1 in the state, 2 here']
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt import arguments
from volt.errors import StreamError, shown, unreadable
from volt.files.atomic import write_atomic
from volt.stream.reading.faults import kind_of
from volt.stream.reading.shares import Deal

if TYPE_CHECKING:
    from volt.stream.reading.source import OpenSource
    from volt.stream.running.blocks import ComputedBlock

FORMAT = "volt.stream"
VERSION = 2  # in version 1 the fields of transforms counted from 0
_MOST = 1 << 62  # of what is counted
_REMEDY = "take one that a stream has written, or start the stream anew"


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a source has been read.

    lines: how many it has given so far.
    epoch, start: the address of the part that its next line comes from; start is None before the first part.
    offset: how many lines of that part have been given.
    chunk, before: the chunk of the part that the next line comes from, and how many lines earlier chunks gave.
    deal: what was left of the epochs that another number of ranks had begun.
    """

    lines: int = 0
    epoch: int = 0
    start: int | None = None
    offset: int = 0
    chunk: int = 0
    before: int = 0
    deal: Deal = ()

    @property
    def address(self) -> tuple[int, int] | None:
        """The address of the part; None before the first."""
        return None if self.start is None else (self.epoch, self.start)

    @property
    def inside(self) -> int:
        """How many lines of the chunk have been given."""
        return self.offset - self.before


@dataclass(frozen=True, slots=True)
class State:
    """Where a stream stands.

    n: how many lines it has given so far.
    cursors: how far each source has been read, by name.
    configuration: fingerprints, by name, of all that the lines depend on.
    since, base, ended: of the mixture: where a source last ended, what each had given there, and which have ended.
    n_read, n_faults, reasons: lines read, unfit lines among them, and how many for each kind of reason.
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

    def to_json(self) -> dict[str, Any]:
        """The state as JSON values.

        >>> State(3, {"wmt": Cursor(3, 0, 0, 3)}, {}).to_json()["sources"]
        {'wmt': {'lines': 3, 'epoch': 0, 'block': 0, 'offset': 3}}
        """
        rest = asdict(self)
        sources = rest.pop("cursors")
        return {"format": FORMAT, "version": VERSION, "n": rest.pop("n"), "sources": sources, **rest}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> State:
        """The state that `to_json` wrote. Raises StreamError if it is none.

        >>> state = State(3, {"wmt": Cursor(3, 0, 0, 3)}, {"seed": 1})
        >>> State.from_json(state.to_json()) == state
        True
        """
        arguments.mapping(stored, "state", remedy="give what Stream.state or volt.stream.load_state returns")
        _check_keys(stored, ("format", "version"))
        _check_version(stored["format"], stored["version"])
        _check_keys(stored, ("n", "sources", "configuration"))
        _refuse_unknown(stored, ("format", "version", "sources", *(field.name for field in fields(cls))), "")
        for name, cursor in _mapping(stored["sources"], "sources").items():
            _refuse_unknown(
                _mapping(cursor, f"sources.{name}"), [field.name for field in fields(Cursor)], f"sources.{name}."
            )
        try:
            rest = {name: value for name, value in stored.items() if name not in ("format", "version", "sources")}
            cursors = {name: Cursor(**cursor) for name, cursor in stored["sources"].items()}
            found = cls(**{**rest, "cursors": cursors, "ended": tuple(rest.get("ended", ()))})
        except (TypeError, AttributeError) as error:
            raise StreamError(f"no state of a stream ({error}); {_REMEDY}") from error
        _check_numbers(found)
        return found


@dataclass(frozen=True, slots=True)
class Charge:
    """What a block was counted as: lines read, and for each kind of reason how many unfit lines."""

    n_read: int
    reasons: Mapping[str, int]

    @classmethod
    def of(cls, block: ComputedBlock) -> Charge:
        """A block's."""
        return cls(block.n_read, Counter(map(kind_of, block.faults)))

    def taken_from(self, state: State) -> State:
        """The state as if the block had not been reached.

        >>> Charge(5, {"columns": 2}).taken_from(State(3, {}, {}, n_read=9, n_faults=3, reasons={"columns": 3})).reasons
        {'columns': 1}
        """
        left = {kind: n - self.reasons.get(kind, 0) for kind, n in state.reasons.items()}
        return replace(
            state, n_read=state.n_read - self.n_read, n_faults=state.n_faults - sum(self.reasons.values()),
            reasons={kind: n for kind, n in left.items() if n},
        )  # fmt: skip


def _check_keys(stored: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise StreamError if a state lacks one of these keys.

    >>> _check_keys({"format": "volt.stream", "version": 2}, ["n"])
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: the state has no 'n'; take one that a stream has written, or start the stream anew
    """
    for name in names:
        if name not in stored:
            raise StreamError(f"the state has no {name!r}; {_REMEDY}")


def _mapping(stored: object, place: str) -> Mapping[str, Any]:
    if not isinstance(stored, Mapping):
        raise StreamError(f"the state's {place} is {arguments.shortened(repr(stored))}, no mapping; {_REMEDY}")
    return stored


def _refuse_unknown(stored: Mapping[str, Any], known: Sequence[str], at: str) -> None:
    """Raise StreamError if a state has a key that no state has. at: what stands before the key, in an error.

    >>> _refuse_unknown({"line": 1}, ["lines"], "sources.wmt.")
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: the state has an unknown key, sources.wmt.line; take one that a stream has written, or
    start the stream anew
    """
    for name in stored:
        if name not in known or name == "cursors":
            key = arguments.shortened(f"{at}{name}")
            raise StreamError(f"the state has an unknown key, {key}; {_REMEDY}")


def _check_numbers(state: State) -> None:
    """Raise StreamError if what a state counts is no whole number from 0 up."""
    numbers: dict[str, object] = {name: getattr(state, name) for name in ("n", "since", "n_read", "n_faults")}
    for source, cursor in state.cursors.items():
        numbers |= {f"sources.{source}.{name}": value for name, value in asdict(cursor).items()}
    for counted in ("base", "reasons"):
        found = _mapping(getattr(state, counted), counted)
        numbers |= {f"{counted}.{name}": value for name, value in found.items()}
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
            raise StreamError(f"the state's {name} is {shown(repr(value))}, no whole number from 0 up; {_REMEDY}")
    if state.n != sum(cursor.lines for cursor in state.cursors.values()):
        raise StreamError(f"the state's n, {state.n:,}, is not the sum of its sources' lines; {_REMEDY}")


def check_cursor(cursor: Cursor, name: str, *, n_lines: int, epochs: int | None) -> None:
    """Raise StreamError if a source has no such place. epochs: that it has; None for any number.

    >>> check_cursor(Cursor(9, 0, 2, 1), "wmt", n_lines=20, epochs=1)
    """
    if (cursor.start or 0) >= n_lines or (epochs is not None and cursor.epoch > epochs):
        raise StreamError(f"the state's sources.{name} is beyond the end of the source; {_REMEDY}")


def check_offset(cursor: Cursor, name: str, *, n_lines: int) -> None:
    """Raise StreamError if more lines of a block have been given than it has.

    >>> check_offset(Cursor(9, 0, 0, 9), "wmt", n_lines=9)
    """
    if not 0 <= cursor.inside <= n_lines:
        found = f"the state's sources.{name}.offset is {cursor.offset:,}, in a block of {n_lines:,} lines"
        raise StreamError(f"{found}; {_REMEDY}")


def _check_version(kind: object, version: object) -> None:
    """Raise StreamError unless a state has this version.

    >>> _check_version("volt.stream", 1)
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: the configuration differs: a state of version 1 was taken when fields counted from 0, and
    they count from 1 now; start the stream anew
    """
    if kind == FORMAT and version == 1:
        differs = "a state of version 1 was taken when fields counted from 0, and they count from 1 now"
        raise StreamError(f"the configuration differs: {differs}; start the stream anew")
    if kind != FORMAT or version != VERSION:
        raise StreamError(f"a state of {kind!r}, version {version}, cannot be continued; this is version {VERSION}")


def save_state(state: Mapping[str, Any], path: str | Path) -> None:
    """Write what `Stream.state` gives, whole or not at all.

    state: what `Stream.state` gives
    path: where to

    Raises OutputError if the place cannot be written, StreamError if it is no state.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
    ...     save_state(State(3, {"wmt": Cursor(3)}, {}).to_json(), file.name)
    ...     load_state(file.name)["n"]
    3
    """
    told = State.from_json(state).to_json()
    with write_atomic(arguments.path(path)) as file:
        file.write((json.dumps(told, ensure_ascii=False) + "\n").encode())


def load_state(path: str | Path) -> dict[str, Any]:
    """Read a saved state, for `Stream.restore`.

    path: of the file

    Raises StreamError if the file cannot be read or is no state.

    >>> load_state("/nowhere/state.json")
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: /nowhere/state.json: cannot be read: no such file or directory; check the path
    """
    try:
        stored = json.loads(Path(arguments.path(path)).read_bytes())
    except OSError as error:
        raise unreadable(path, error, kind=StreamError) from error
    except (ValueError, RecursionError) as error:
        raise StreamError(f"{path}: not JSON ({error}); take a file that a stream has written") from error
    if not isinstance(stored, dict):
        raise StreamError(f"{path}: no state of a stream; take a file that a stream has written")
    return stored


def fingerprint(value: object) -> str:
    """16 hexadecimal digits that stand for JSON-able values.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def fingerprints(source: OpenSource) -> dict[str, Any]:
    """What a source's lines depend on, short: the files' lines by a fingerprint, each transform by name and one."""
    signature = dict(source.signature)
    names = [transform.name for transform in source.source.transforms]
    told: Any = signature.pop("transforms")
    transforms = [f"{name} {fingerprint(one)}" for name, one in zip(names, told, strict=True)]
    return {**signature, "lines": fingerprint(signature["lines"]), "transforms": transforms}


def differences(stored: Mapping[str, Any], here: Mapping[str, Any], *, at: str = "") -> list[str]:
    """How two configurations differ, one line for each value."""
    found = list[str]()
    for name in sorted({*stored, *here}):
        old, new = stored.get(name), here.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, at=f"{at}{name}.")
        elif old != new:
            found.append(f"{at}{name}: {_shown(old)} in the state, {_shown(new)} here")
    return found


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def refuse_difference(stored: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise StreamError if a state's configuration is not this one."""
    if found := differences(stored, here):
        raise StreamError(f"the state belongs to another stream: {'; '.join(found)}; restore it there, or start anew")
