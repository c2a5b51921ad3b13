"""Where a stream stood some lines ago, for consumers that say only later how many lines they have used.

>>> from volt.stream.running.state import Cursor
>>> recall = StateHistory(100)
>>> recall.add(State(0, {"a": Cursor(), "b": Cursor()}, {}), np.array([0, 1, 0]), [])
>>> recall.at(2, n=3).cursors["a"].lines
1

How the configuration of a state differs from that of a stream, by name, and which differences can be accepted.

>>> differences({"seed": 1, "sources": {"wmt": "a1"}}, {"seed": 2, "sources": {"wmt": "a1"}})
['seed: 1 in the state, 2 here']

Data appended to a source, or a source added, in the middle of a run: where a state continues then.

Lines that were given are not given again, and appended lines are given once in the epoch that has begun, after its
other lines; from the next epoch on they are lines like all others. A file may have grown at its end, or files may have
been added that come after the others.

>>> state = State(3, {"wmt": Cursor(3, 0, 0, 3)}, {}, merged=1)
>>> grown_by(state, {"wmt": (10, 12)}).cursors["wmt"].grown
((0, 10),)

A state in a file: written whole or not at all, and looked at before it is used.

>>> import tempfile
>>> from volt.stream.running.state import Cursor
>>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
...     save_state(State(3, {"wmt": Cursor(3)}, {}).to_json(), file.name)
...     load_state(file.name)["n"]
3
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import StreamError, shown_path
from volt.files.atomic import write_atomic
from volt.files.paths import is_file
from volt.files.small_files import read_bytes
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.sampler import Remains
from volt.stream.running.state import Cursor, FaultCounts, Opening, State

ACCEPTABLE = ("weights", "sources", "data")
_OF_LINES = (".lines", ".n_lines", ".block_lines", ".chunk_lines")


def fingerprint(value: object) -> str:
    """16 hexadecimal digits that stand for JSON-able values.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def fingerprints(source: OpenSource) -> dict[str, Any]:
    """What a source's lines depend on, short: the files' lines by their number and a fingerprint, each transform by
    name and one.
    """
    signature = dict(source.signature)
    names = [transform.name for transform in source.source.transforms]
    message: Any = signature.pop("transforms")
    transforms = [f"{name} {fingerprint(one)}" for name, one in zip(names, message, strict=True)]
    lines = {"lines": fingerprint(signature["lines"]), "n_lines": source.n_lines}
    return {**signature, **lines, "transforms": transforms}


def differences(stored: Mapping[str, Any], here: Mapping[str, Any], *, at: str = "") -> list[str]:
    """Return how two configurations differ, one line for each value."""
    lines = list[str]()
    for name in sorted({*stored, *here}):
        old, new = stored.get(name), here.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += differences(old, new, at=f"{at}{name}.")
        elif name not in stored and isinstance(new, Mapping) and at == "sources.":
            lines.append(f"{at}{name}: not in the state")
        elif name not in here and isinstance(old, Mapping) and at == "sources.":
            lines.append(f"{at}{name}: only in the state")
        elif old != new:
            lines.append(f"{at}{name}: {_shown(old)} in the state, {_shown(new)} here")
    return lines


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def refuse_difference(
    stored: Mapping[str, Any], here: Mapping[str, Any], *, accept: Collection[str] = (), grown: Collection[str] = ()
) -> tuple[str, ...]:
    """Raise StreamError if a state's configuration is not this one; return which accepted differences there are.

    accept: what may differ: "weights" of the sources, and how they follow from their lines; "sources", which are new;
        "data", lines that were appended to a source
    grown: names of the sources whose lines begin with those of the state
    Raises ConfigError for other names.

    >>> old, new = ({"sources": {"wmt": {"weight": weight}}} for weight in (1.0, 2.0))
    >>> refuse_difference(old, new, accept=["weights"])
    ('weights',)
    """
    for name in arguments.several(accept, "accept", one="did you mean ['weights']?"):
        arguments.choice(name, "accept", ACCEPTABLE)
    lines = differences(stored, here)
    needed = {line: _acceptable(line, grown) for line in lines}
    if refused := [line for line in lines if needed[line] not in accept]:
        raise _refusal(refused, {needed[line] for line in lines})
    return tuple(sorted({*needed.values()} - {""}))


def _refusal(refused: Sequence[str], needed: Collection[str]) -> StreamError:
    message, remedy = "; ".join(refused), "restore it there, or start anew"
    if {line.partition(":")[0] for line in refused} <= {"rank", "world"}:
        merged = "merge the states of all ranks (volt stream merge-states, volt.stream.merge_states)"
        return StreamError(
            f"the state is that of another rank: {message}; restore it there, or {merged} and restore that"
        )
    if "" not in needed:
        names = ", ".join(map(repr, sorted(needed))) + "," * (len(needed) == 1)
        remedy = f"{remedy}, or accept it (accept=({names}))"
    return StreamError(f"the state belongs to another stream: {message}; {remedy}")


def _acceptable(difference: str, grown: Collection[str]) -> str:
    """Return the name by which a difference is accepted; "" if it cannot be."""
    place, _, what = difference.partition(": ")
    if what == "not in the state" and place.startswith("sources."):
        return "sources"
    if any(place.startswith(f"sources.{name}.") and place.endswith(_OF_LINES) for name in grown):
        return "data"
    is_weight = place.startswith("sources.") and (place.endswith(".weight") or ".weight." in place)
    return "weights" if is_weight or place == "mix" else ""


def n_lines_before(source: OpenSource, stored: Mapping[str, Any]) -> int | None:
    """Return how many lines a source had when a state was taken, if its lines begin with those and there are more.

    stored: what the state's configuration says of the source
    """
    before, digest = stored.get("n_lines"), stored.get("lines")
    if not isinstance(before, int) or not 0 < before < source.n_lines:
        return None
    lines = [[shard.digest, shard.n_lines] for shard in source.shards]
    ends = [*accumulate(shard.n_lines for shard in source.shards)]
    whole = sum(end <= before for end in ends)
    rest = before - (ends[whole - 1] if whole else 0)
    digests = source.shards[whole].digests_of(rest) if rest else ()
    candidates = [[*lines[:whole], [one, rest]] for one in digests] if rest else [lines[:whole]]
    return before if any(fingerprint(one) == digest for one in candidates) else None


def grown_by(state: State, grown: Mapping[str, tuple[int, int]]) -> State:
    """Return the state of all ranks with the lines that were appended to sources.

    state: of which the cursors of these sources are a deal, as those of a merged state are
    grown: name of a source → its lines before, and now
    """
    cursors = {
        name: _grown(cursor, *grown[name]) if name in grown else cursor for name, cursor in state.cursors.items()
    }
    return replace(state, cursors=cursors, ended=tuple(name for name in state.ended if name not in grown))


def _grown(cursor: Cursor, before: int, now: int) -> Cursor:
    if not cursor.lines and not cursor.deal:
        return cursor  # nothing was read, so all lines are alike
    deal = cursor.deal or (Remains(cursor.epoch, ((0, before),)),)
    last = deal[-1]._replace(spans=(*deal[-1].spans, (before, now)))
    return replace(cursor, deal=(*deal[:-1], last), grown=(*cursor.grown, (last.epoch, before)))


_MOST = 1 << 28  # bytes of a file


def save_state(state: Mapping[str, Any], path: str | Path) -> None:
    """Write what `Stream.state` gives, whole or not at all.

    state: what `Stream.state` gives
    path: where to

    Raises OutputError if the place cannot be written, StreamError if it is no state.

    >>> import tempfile
    >>> from volt.stream.running.state import Cursor
    >>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
    ...     save_state(State(3, {"wmt": Cursor(3)}, {}).to_json(), file.name)
    ...     load_state(file.name)["n"]
    3
    """
    message = State.from_json(state).to_json()
    with write_atomic(arguments.path(path)) as file:
        file.write((json.dumps(message, ensure_ascii=False) + "\n").encode())


def load_state(path: str | Path) -> dict[str, Any]:
    """Read a saved state, for `Stream.restore`.

    path: of the file

    Raises StreamError if the file cannot be read or is no state.

    >>> load_state("/nowhere/state.json")
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: /nowhere/state.json: cannot be read: no such file or directory; check the path
    """
    place = shown_path(path := arguments.path(path))
    try:
        stored = json.loads(read_bytes(path, kind=StreamError, most=_MOST))
    except (ValueError, RecursionError) as error:
        raise StreamError(f"{place}: not JSON ({error}); take a file that a stream has written") from error
    if not isinstance(stored, dict):
        raise StreamError(f"{place}: no state of a stream; take a file that a stream has written")
    try:
        State.from_json(stored)
    except StreamError as error:
        raise StreamError(f"{place}: {error}") from None
    return stored


def check_own(path: str | Path, rank: int, world: int) -> None:
    """Raise StreamError if a file holds the state of another rank of so many, which a state of this one would replace.

    path: of a file that a state is to be written to; there may be none, or one that holds no state

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
    ...     save_state(State(0, {}, {"rank": 1, "world": 2}).to_json(), file.name)
    ...     check_own(file.name, 1, 2)
    """
    if world == 1 or not is_file(path):
        return
    try:
        result = load_state(path)["configuration"]
    except StreamError:
        return
    if result.get("world") == world and result.get("rank", rank) != rank:
        raise StreamError(
            f"{shown_path(path)}: holds the state of rank {result['rank']} of {world}, and this is rank {rank}; "
            "give each rank a file of its own, or remove this one"
        )


_MOST_CURSORS = 1 << 13  # in all states that are retained: some 200 bytes each
_MOST_OPENINGS = 1 << 14  # in all runs, some 500 bytes each
_RUN_OPENINGS = 1 << 8  # in one run; each call of `at` goes through those of a run


@dataclass(slots=True)
class _Run:
    """A state, the turns taken from it, and the blocks opened for them."""

    state: State
    turns: bytearray  # of unsigned integers that are as small as the number of sources allows
    openings: list[Opening]

    @property
    def _kind(self) -> np.dtype[np.unsignedinteger[Any]]:
        return np.min_scalar_type(len(self.state.cursors))

    def __len__(self) -> int:
        return len(self.turns) // self._kind.itemsize

    def extend(self, turns: NDArray[np.int64], openings: Sequence[Opening]) -> None:
        """Note turns that follow."""
        self.turns += turns.astype(self._kind).tobytes()
        self.openings += openings

    def after(self, n: int) -> State:
        """Return the state after the first n of the turns."""
        return advanced(self.state, np.frombuffer(bytes(self.turns), self._kind, n), self.openings)

    def continues_at(self, state: State) -> bool:
        """Check that the turns end at this state, before which no source has ended."""
        is_next = self.state.n + len(self) == state.n and len(self.openings) < _RUN_OPENINGS
        return is_next and (self.state.since, self.state.ended) == (state.since, state.ended)


class StateHistory:
    """Retain the turns of the last `n_lines` lines, and the states before some of them.

    Where blocks are small, only the lines of the latest thousands of blocks are retained.
    """

    def __init__(self, n_lines: int) -> None:
        self._n_lines, self._n_turns, self._n_openings = n_lines, 0, 0
        self._runs = deque[_Run]()

    def add(self, state: State, turns: NDArray[np.int64], openings: Sequence[Opening]) -> None:
        """Note the state before these turns were taken, and the blocks opened for them."""
        if not self._n_lines:
            return
        if not self._runs or not self._runs[-1].continues_at(state):
            self._runs.append(_Run(state, bytearray(), []))
        self._runs[-1].extend(turns, openings)
        self._n_turns, self._n_openings = self._n_turns + len(turns), self._n_openings + len(openings)
        while self._has_surplus(max(1, _MOST_CURSORS // max(1, len(state.cursors)))):
            first = self._runs.popleft()
            self._n_turns, self._n_openings = self._n_turns - len(first), self._n_openings - len(first.openings)

    def _has_surplus(self, most_runs: int) -> bool:
        if len(self._runs) < 2:
            return False
        is_old = self._n_turns - len(self._runs[0]) >= self._n_lines
        return is_old or len(self._runs) > most_runs or self._n_openings > _MOST_OPENINGS

    def clear(self) -> None:
        """Forget all."""
        self._runs.clear()
        self._n_turns = self._n_openings = 0

    def at(self, sample: int, *, n: int) -> State:
        """Return the state after `sample` lines, of n given. Raises StreamError if that is ahead or too long ago."""
        for run in reversed(self._runs if n - sample <= self._n_lines else ()):
            first = run.state.n
            if first < sample <= first + len(run) or (first == sample and run is self._runs[0]):
                return run.after(sample - first)
        oldest = max(self._runs[0].state.n, n - self._n_lines) if self._runs else n
        raise StreamError(f"line {sample} is not within the lines {oldest} to {n} that can be recalled; raise recall")


def reached(openings: Sequence[Opening], n: int) -> list[Opening]:
    """Return the blocks that a state after n lines counts as opened: those before the last of each source that gave
    one of these lines, and that one.

    Blocks without lines at the end are left out: who resumes from the state opens them again.
    """
    last = {opening.source: place for place, opening in enumerate(openings) if opening.n < n and opening.size}
    return [opening for place, opening in enumerate(openings) if place <= last.get(opening.source, -1)]


def advanced(state: State, turns: NDArray[np.integer[Any]], openings: Sequence[Opening] = ()) -> State:
    """Return the state after some more turns.

    openings: of blocks for these turns, and for turns behind them.
    """
    n, names = state.n + len(turns), [*state.cursors]
    opened = reached(openings, n)
    cursors = dict(state.cursors) | {names[opening.source]: opening.cursor for opening in opened}
    for index, count in enumerate(np.bincount(turns, minlength=len(names)).tolist()):
        if count:
            name = names[index]
            cursors[name] = cursors[name].moved(state.cursors[name].lines + count - cursors[name].lines)
    state = replace(state, n=n, cursors=cursors)
    reasons = dict[str, int]()
    for opening in opened:
        for kind, number in opening.counts.reasons.items():
            reasons[kind] = reasons.get(kind, 0) + number
    return FaultCounts(sum(opening.counts.n_read for opening in opened), reasons).added_to(state)
