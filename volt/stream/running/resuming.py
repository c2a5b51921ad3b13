"""The state from which a stream continues: checked against the stream, and with appended lines added.

    state → does it belong to this stream, apart from what `accept` allows? → appended lines → the counts of this rank

Appended lines are read once in the current epoch, after its other lines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from volt.display import counted
from volt.errors import StreamError
from volt.stream.reading.open_source import OpenSource, fingerprint
from volt.stream.reading.unread_lines import UnreadLines
from volt.stream.running.merging_states import merged_cursor, rank_state
from volt.stream.running.state import Cursor, State
from volt.stream.running.state_differences import refuse_difference


def continued(
    state: State,
    configuration: Mapping[str, Any],
    *,
    sources: Sequence[OpenSource] = (),
    accept: Collection[str] = (),
) -> tuple[State, tuple[str, ...]]:
    """Return the state to continue from, and texts that name each accepted difference and the first line it affects.

    Raises StreamError if the state belongs to another stream or rank.

    accept: see `refuse_difference`
    """
    rank = configuration["rank"]
    world = configuration["world"]
    stored = state.configuration
    if state.merged:
        stored = {**stored, "rank": rank, "world": world}
    grown = _grown_sources(sources, stored.get("sources", {}))
    kinds = refuse_difference(stored, configuration, accept=accept, grown=grown)

    n = state.n
    added = [source.name for source in sources if source.name not in state.cursors]
    accepted = list[str]()
    if "weights" in kinds:
        accepted.append(f"changed weights from line {n:,} on")
    accepted += [f"source {name!r} from line {n:,} on" for name in added]

    if grown and world > 1 and not state.merged:
        problem = f"lines were appended to source {next(iter(grown))!r}, but the state is of one rank of {world}"
        raise StreamError(f"{problem}; merge the states of all ranks and restore the result")
    for name, (before, now) in grown.items():
        state = with_appended(state, name, before, now)
        growth = state.cursors[name].grown
        epoch = growth[-1][0] if growth else 0
        accepted.append(
            f"{counted(now - before, 'line')} appended to source {name!r}: from line {n:,} on, "
            f"after other lines of epoch {epoch}"
        )

    if state.merged:
        state = rank_state(state, rank, world)
    if "weights" in kinds or added or grown:
        base = {name: cursor.lines for name, cursor in state.cursors.items()}
        state = replace(state, since=state.n, base=base)
    state = replace(
        state,
        configuration=dict(configuration),
        accepted=tuple(sorted({*state.accepted, *kinds})),
        base={**dict.fromkeys(added, 0), **state.base},
        cursors={**dict.fromkeys(added, Cursor()), **state.cursors},
    )
    return state, tuple(accepted)


def _grown_sources(
    sources: Sequence[OpenSource], stored: Mapping[str, Any]
) -> dict[str, tuple[int, int]]:
    """Return source name → (lines before, lines now), for sources to which lines were appended."""
    result = dict[str, tuple[int, int]]()
    for source in sources:
        before = n_lines_before(source, stored.get(source.name, {}))
        if before is not None:
            result[source.name] = before, source.n_lines
    return result


def n_lines_before(source: OpenSource, stored: Mapping[str, Any]) -> int | None:
    """Return the lines of a source when the state was stored; None if the source changed, except by appending."""
    before = stored.get("n_lines")
    if not isinstance(before, int) or not 0 < before < source.n_lines:
        return None
    digests = [[shard.facts.digest, shard.n_lines] for shard in source.shards]
    ends = [0, *accumulate(shard.n_lines for shard in source.shards)]
    n_whole = sum(end <= before for end in ends) - 1
    rest = before - ends[n_whole]
    candidates = [digests[:n_whole]]
    if rest:
        of_rest = source.shards[n_whole].digests_of(rest)
        candidates = [[*digests[:n_whole], [digest, rest]] for digest in of_rest]
    if any(fingerprint(lines) == stored.get("lines") for lines in candidates):
        return before
    return None


def with_appended(state: State, name: str, before: int, now: int) -> State:
    """Add lines that were appended to a source to its unread lines. before, now: its numbers of lines"""
    cursor = state.cursors[name]
    if not state.merged:
        cursor = merged_cursor(name, [state])
    if (
        cursor.lines or cursor.unread
    ):  # else nothing was read, so appended lines need no special order
        unread = cursor.unread or (UnreadLines(cursor.epoch, (range(before),)),)
        last = unread[-1]
        last = last._replace(ranges=(*last.ranges, range(before, now)))
        grown = (*cursor.grown, (last.epoch, before))
        cursor = replace(cursor, unread=(*unread[:-1], last), grown=grown)
    ended = tuple(other for other in state.ended if other != name)
    return replace(state, cursors=state.cursors | {name: cursor}, ended=ended)
