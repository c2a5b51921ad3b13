"""Checkpoints: states saved to files and loaded, compared with a stream, and remembered for some lines.

    state → save_state → load_state → refuse_difference (is it a state of this stream?) → restored

A state may continue with appended data. Lines that were given are not given again; appended lines are given once in the
current epoch, after its other lines, and are like all others from the next epoch on. They stand at the end of the last
file, or in files that come after the others.

`StateHistory` holds the states of the last lines, for consumers that report late how many lines they have used.

>>> history = StateHistory(100)
>>> history.add(State(0, {"a": Cursor(), "b": Cursor()}, {}), np.array([0, 1, 0]), [])
>>> history.at(2, n=3).cursors["a"].lines
1
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
    """Return 16 hexadecimal digits that depend on JSON values.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def fingerprints(source: OpenSource) -> dict[str, Any]:
    """Return what the lines of a source depend on, in short: the number of lines, and fingerprints of the files and of
    each transform.
    """
    signature = dict(source.signature)
    names = [transform.name for transform in source.source.transforms]
    signatures: Any = signature.pop("transforms")
    transforms = [f"{name} {fingerprint(one)}" for name, one in zip(names, signatures, strict=True)]
    lines = {"lines": fingerprint(signature["lines"]), "n_lines": source.n_lines}
    return {**signature, **lines, "transforms": transforms}


def differences(stored: Mapping[str, Any], current: Mapping[str, Any], *, at: str = "") -> list[str]:
    """Return how the configuration of a state differs from the current one, one line for each value.

    >>> differences({"seed": 1, "sources": {"wmt": "a1"}}, {"seed": 2, "sources": {"wmt": "a1"}})
    ['seed: 1 in the state, 2 here']
    """
    lines = list[str]()
    for name in sorted({*stored, *current}):
        old, new = stored.get(name), current.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += differences(old, new, at=f"{at}{name}.")
        elif name not in stored and isinstance(new, Mapping) and at == "sources.":
            lines.append(f"{at}{name}: not in the state")
        elif name not in current and isinstance(old, Mapping) and at == "sources.":
            lines.append(f"{at}{name}: only in the state")
        elif old != new:
            before, now = ("none" if value is None else value for value in (old, new))
            lines.append(f"{at}{name}: {before} in the state, {now} here")
    return lines


def refuse_difference(
    stored: Mapping[str, Any], current: Mapping[str, Any], *, accept: Collection[str] = (), grown: Collection[str] = ()
) -> tuple[str, ...]:
    """Raise StreamError if the configuration of a state is not the current one; return the accepted differences.

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
    lines = differences(stored, current)
    needed = {line: _acceptable(line, grown) for line in lines}
    if refused := [line for line in lines if needed[line] not in accept]:
        raise _refusal(refused, {needed[line] for line in lines})
    return tuple(sorted({*needed.values()} - {""}))


def _refusal(refused: Sequence[str], needed: Collection[str]) -> StreamError:
    message, remedy = "; ".join(refused), "restore it there, or start anew"
    if {line.partition(":")[0] for line in refused} <= {"rank", "world"}:
        merged = "merge the states of all ranks"
        return StreamError(
            f"the state belongs to another rank: {message}; restore it there, or {merged} and restore the result"
        )
    message = f"the state belongs to another stream: {message}; {remedy}"
    return StreamError(message) if "" in needed else StreamError(f"{message}, or pass", hint={"accept": sorted(needed)})


def _acceptable(difference: str, grown: Collection[str]) -> str:
    """Return the name that accepts a difference; "" if none does."""
    place, _, what = difference.partition(": ")
    if what == "not in the state" and place.startswith("sources."):
        return "sources"
    if any(place.startswith(f"sources.{name}.") and place.endswith(_OF_LINES) for name in grown):
        return "data"
    is_weight = place.startswith("sources.") and (place.endswith(".weight") or ".weight." in place)
    return "weights" if is_weight or place == "mix" else ""


def n_lines_before(source: OpenSource, stored: Mapping[str, Any]) -> int | None:
    """Return how many lines a source had when a state was taken, if lines were only appended since; else None.

    stored: the configuration of the source in the state
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
    """Return a merged state with the lines that were appended to sources.

    grown: name of a source → its number of lines before, and now

    >>> state = State(3, {"wmt": Cursor(3, 0, 0, 3)}, {}, merged=1)
    >>> grown_by(state, {"wmt": (10, 12)}).cursors["wmt"].grown
    ((0, 10),)
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
    """Write a state to a file, atomically.

    state: what `Stream.state` returns
    path: of the file

    Raises OutputError if the file cannot be written, StreamError if the state is invalid.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
    ...     save_state(State(3, {"wmt": Cursor(3)}, {}).to_json(), file.name)
    ...     load_state(file.name)["n"]
    3
    """
    values = State.from_json(state).to_json()
    with write_atomic(arguments.path(path)) as file:
        file.write((json.dumps(values, ensure_ascii=False) + "\n").encode())


def load_state(path: str | Path) -> dict[str, Any]:
    """Read a saved state, for `Stream.restore`.

    path: of the file

    Raises StreamError if the file cannot be read, or does not hold a state.

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
        raise StreamError(f"{place}: not a state of a stream; take a file that a stream has written")
    try:
        State.from_json(stored)
    except StreamError as error:
        raise StreamError(f"{place}: {error}") from None
    return stored


def check_own(path: str | Path, rank: int, world: int) -> None:
    """Raise StreamError if a file holds the state of another rank, so that writing would replace that state.

    path: of the file to write; it need not exist, or hold a state

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
    ...     save_state(State(0, {}, {"rank": 1, "world": 2}).to_json(), file.name)
    ...     check_own(file.name, 1, 2)
    """
    if world == 1 or not is_file(path):
        return
    try:
        stored = load_state(path)["configuration"]
    except StreamError:
        return
    if stored.get("world") == world and stored.get("rank", rank) != rank:
        raise StreamError(
            f"{shown_path(path)}: holds the state of rank {stored['rank']} of {world}, and this is rank {rank}; "
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
        """Append turns."""
        self.turns += turns.astype(self._kind).tobytes()
        self.openings += openings

    def after(self, n: int) -> State:
        """Return the state after the first n of the turns."""
        return advanced(self.state, np.frombuffer(bytes(self.turns), self._kind, n), self.openings)

    def continues_at(self, state: State) -> bool:
        """Check whether the turns end at this state, and no source has ended meanwhile."""
        is_next = self.state.n + len(self) == state.n and len(self.openings) < _RUN_OPENINGS
        return is_next and (self.state.since, self.state.ended) == (state.since, state.ended)


class StateHistory:
    """The turns of the last `n_lines` lines, and the states before some of them.

    Where blocks are small, only the lines of the latest thousands of blocks are retained.
    """

    def __init__(self, n_lines: int) -> None:
        self._n_lines, self._n_turns, self._n_openings = n_lines, 0, 0
        self._runs = deque[_Run]()

    def add(self, state: State, turns: NDArray[np.int64], openings: Sequence[Opening]) -> None:
        """Append the state before these turns, the turns, and the blocks opened for them."""
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
        """Remove all states."""
        self._runs.clear()
        self._n_turns = self._n_openings = 0

    def at(self, sample: int, *, n: int) -> State:
        """Return the state after `sample` of n lines. Raises StreamError if it is ahead, or no longer remembered."""
        for run in reversed(self._runs if n - sample <= self._n_lines else ()):
            first = run.state.n
            if first < sample <= first + len(run) or (first == sample and run is self._runs[0]):
                return run.after(sample - first)
        oldest = max(self._runs[0].state.n, n - self._n_lines) if self._runs else n
        raise StreamError(f"line {sample} is not within the lines {oldest} to {n} that can be recalled; raise recall")


def reached(openings: Sequence[Opening], n: int) -> list[Opening]:
    """Return the openings that a state after n lines includes: of each source, up to the last block that gave a line.

    Later blocks without lines are left out: a stream that resumes from the state opens them again.
    """
    last = {opening.source: place for place, opening in enumerate(openings) if opening.n < n and opening.size}
    return [opening for place, opening in enumerate(openings) if place <= last.get(opening.source, -1)]


def advanced(state: State, turns: NDArray[np.integer[Any]], openings: Sequence[Opening] = ()) -> State:
    """Return the state after some more turns.

    openings: of blocks for these turns, and for later ones.
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
