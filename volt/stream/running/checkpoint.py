"""Checkpoints: states saved to files and loaded, and compared with a stream.

    state → save_state → load_state → refuse_difference (does it belong to this stream?) → restore

Appended lines are read once in the current epoch, after its other lines.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from volt import arguments
from volt.errors import StreamError, shown_path
from volt.files.atomic import write_atomic
from volt.files.paths import is_file
from volt.files.small_files import read_bytes
from volt.stream.reading.distributed_sampler import Remains
from volt.stream.reading.open_source import OpenSource, fingerprint
from volt.stream.running.state import Cursor, State

ACCEPTABLE = ("weights", "sources", "data")
_OF_LINES = (".lines", ".n_lines", ".block_lines", ".chunk_lines")


def differences(
    stored: Mapping[str, Any], current: Mapping[str, Any], *, at: str = ""
) -> list[str]:
    """Return the differences between two configurations, one line for each value."""
    lines = list[str]()
    for name in sorted({*stored, *current}):
        old, new = stored.get(name), current.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += differences(old, new, at=f"{at}{name}.")
        elif at == "sources." and (name not in stored or name not in current):
            lines.append(f"{at}{name}: {'only' if name in stored else 'not'} in the state")
        elif old != new:
            before, now = ("none" if value is None else value for value in (old, new))
            lines.append(f"{at}{name}: {before} in the state, {now} here")
    return lines


def refuse_difference(
    stored: Mapping[str, Any],
    current: Mapping[str, Any],
    *,
    accept: Collection[str] = (),
    grown: Collection[str] = (),
) -> tuple[str, ...]:
    """Raise StreamError if configurations differ in ways that `accept` does not allow. Return the kinds of differences.

    accept: "weights", "sources" (added sources), "data" (appended lines)
    grown: names of the sources with appended lines
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
        remedy = "restore it there, or merge the states of all ranks and restore the result"
        return StreamError(f"the state belongs to another rank: {message}; {remedy}")
    message = f"the state belongs to another stream: {message}; {remedy}"
    return (
        StreamError(message)
        if "" in needed
        else StreamError(f"{message}, or pass", hint={"accept": sorted(needed)})
    )


def _acceptable(difference: str, grown: Collection[str]) -> str:
    place, _, what = difference.partition(": ")
    if what == "not in the state" and place.startswith("sources."):
        return "sources"
    if any(place.startswith(f"sources.{name}.") and place.endswith(_OF_LINES) for name in grown):
        return "data"
    is_weight = place.startswith("sources.") and (place.endswith(".weight") or ".weight." in place)
    return "weights" if is_weight or place == "mix" else ""


def n_lines_before(source: OpenSource, stored: Mapping[str, Any]) -> int | None:
    """Return the lines of a source when the state was stored; None if the source changed, except by appending."""
    before, digest = stored.get("n_lines"), stored.get("lines")
    if not isinstance(before, int) or not 0 < before < source.n_lines:
        return None
    lines = [[shard.facts.digest, shard.n_lines] for shard in source.shards]
    ends = [*accumulate(shard.n_lines for shard in source.shards)]
    whole = sum(end <= before for end in ends)
    rest = before - (ends[whole - 1] if whole else 0)
    digests = source.shards[whole].digests_of(rest) if rest else ()
    candidates = [[*lines[:whole], [one, rest]] for one in digests] if rest else [lines[:whole]]
    return before if any(fingerprint(one) == digest for one in candidates) else None


def grown_by(state: State, grown: Mapping[str, tuple[int, int]]) -> State:
    """Add appended lines to the unread lines of a merged state. grown: source name → (lines before, lines now)"""
    cursors = state.cursors | {
        name: _grown(state.cursors[name], *sizes) for name, sizes in grown.items()
    }
    return replace(
        state, cursors=cursors, ended=tuple(name for name in state.ended if name not in grown)
    )


def _grown(cursor: Cursor, before: int, now: int) -> Cursor:
    if not cursor.lines and not cursor.deal:
        return cursor  # nothing was read yet, so appended lines need no special order
    deal = cursor.deal or (Remains(cursor.epoch, ((0, before),)),)
    last = deal[-1]._replace(spans=(*deal[-1].spans, (before, now)))
    return replace(cursor, deal=(*deal[:-1], last), grown=(*cursor.grown, (last.epoch, before)))


_MOST = 1 << 28  # bytes of a file


def save_state(state: Mapping[str, Any], path: str | Path) -> None:
    """Write a state to a file, atomically.

    state: from `Stream.state`
    path: the file's path

    Raises OutputError if the file cannot be written, StreamError if the state is invalid.

    >>> save_state(State(3, {"wmt": Cursor(3)}, {}).to_json(), "/dev/null")
    """
    values = State.from_json(state).to_json()
    with write_atomic(arguments.path(path)) as file:
        file.write((json.dumps(values, ensure_ascii=False) + "\n").encode())


def load_state(path: str | Path) -> dict[str, Any]:
    """Read a saved state, for `Stream.restore`.

    path: the file's path

    Raises StreamError if the file cannot be read or is not a state.

    >>> load_state("/nowhere/state.json")
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: /nowhere/state.json: cannot be read: no such file or directory; check the path
    """
    place = shown_path(path := arguments.path(path))
    try:
        stored = json.loads(read_bytes(path, kind=StreamError, most=_MOST))
    except (ValueError, RecursionError) as error:
        raise StreamError(
            f"{place}: not JSON ({error}); give a file that a stream has written"
        ) from error
    if not isinstance(stored, dict):
        raise StreamError(
            f"{place}: not a state of a stream; give a file that a stream has written"
        )
    try:
        State.from_json(stored)
    except StreamError as error:
        raise StreamError(f"{place}: {error}") from None
    return stored


def check_own(path: str | Path, rank: int, world: int) -> None:
    """Raise StreamError if a file contains the state of another rank."""
    if world == 1 or not is_file(path):
        return
    try:
        stored = load_state(path)["configuration"]
    except StreamError:
        return
    if stored.get("world") == world and stored.get("rank", rank) != rank:
        owner = f"is the state of rank {stored['rank']} of {world}, but this is rank {rank}"
        raise StreamError(
            f"{shown_path(path)}: {owner}; give each rank its own file, or remove this one"
        )
