"""`adapt_state`: check that a saved state belongs to a stream, and adapt it to what has changed.

    state → refuse differences that `accept` does not allow
          → add appended lines → take this rank's share of the counts

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
from volt.stream.running.merging_states import merge_cursors, take_rank_share
from volt.stream.running.state import Cursor, State
from volt.stream.running.state_differences import refuse_difference


def adapt_state(
    state: State,
    configuration: Mapping[str, Any],
    *,
    sources: Sequence[OpenSource] = (),
    accept: Collection[str] = (),
) -> tuple[State, tuple[str, ...]]:
    """Return the state to continue from, and a text for each accepted difference.

    The text names the difference and the first line that it affects.

    configuration, sources: of the stream that continues
    accept: see `refuse_difference`

    Raises StreamError if the state belongs to another stream or rank.
    """
    rank = configuration["rank"]
    world = configuration["world"]
    stored = state.configuration
    if state.merged:
        stored = {**stored, "rank": rank, "world": world}
    stored_sources = stored.get("sources", {})
    n_lines_before = dict[str, int]()  # of each source to which lines were appended
    for source in sources:
        n_before = find_n_lines_before(source, stored_sources.get(source.name, {}))
        if n_before is not None:
            n_lines_before[source.name] = n_before
    kinds = refuse_difference(stored, configuration, accept=accept, grown=n_lines_before)

    n = state.n
    added = [source.name for source in sources if source.name not in state.cursors]
    accepted = list[str]()
    if "weights" in kinds:
        accepted.append(f"changed weights from line {n:,} on")
    accepted += [f"source {name!r} from line {n:,} on" for name in added]

    if n_lines_before and world > 1 and not state.merged:
        name = next(iter(n_lines_before))
        problem = f"lines were appended to source {name!r}, but the state is of one rank of {world}"
        raise StreamError(f"{problem}; merge the states of all ranks and restore the result")
    for source in sources:
        n_before = n_lines_before.get(source.name)
        if n_before is not None:
            state = add_appended(state, source.name, n_before, source.n_lines)
            accepted.append(_describe_appended(state, source, n_before))

    if state.merged:
        state = take_rank_share(state, rank, world)
    if "weights" in kinds or added or n_lines_before:
        state = state.move_base()
    state = replace(
        state,
        configuration=dict(configuration),
        accepted=tuple(sorted({*state.accepted, *kinds})),
        base={**dict.fromkeys(added, 0), **state.base},
        cursors={**dict.fromkeys(added, Cursor()), **state.cursors},
    )
    return state, tuple(accepted)


def _describe_appended(state: State, source: OpenSource, n_before: int) -> str:
    n_appended = counted(source.n_lines - n_before, "line")
    grown = state.cursors[source.name].grown
    epoch = grown[-1][0] if grown else 0
    return (
        f"{n_appended} appended to source {source.name!r}: from line {state.n:,} on, "
        f"after other lines of epoch {epoch}"
    )


def find_n_lines_before(source: OpenSource, stored: Mapping[str, Any]) -> int | None:
    """Return a source's number of lines when a state was stored, if lines were appended since then.

    Return None if no lines were appended, or if earlier lines have changed.

    stored: the source's fingerprints in the state
    """
    n_before = stored.get("n_lines")
    if not isinstance(n_before, int) or not 0 < n_before < source.n_lines:
        return None
    digests = [[shard.facts.digest, shard.n_lines] for shard in source.shards]
    ends = [0, *accumulate(shard.n_lines for shard in source.shards)]
    n_whole_shards = sum(end <= n_before for end in ends) - 1
    n_rest = n_before - ends[n_whole_shards]  # lines of the shard that has grown
    candidates = [digests[:n_whole_shards]]
    if n_rest:
        rest_digests = source.shards[n_whole_shards].digests_of(n_rest)
        candidates = [[*digests[:n_whole_shards], [digest, n_rest]] for digest in rest_digests]
    if any(fingerprint(candidate) == stored.get("lines") for candidate in candidates):
        return n_before
    return None


def add_appended(state: State, name: str, n_before: int, n_lines: int) -> State:
    """Add lines that were appended to a source to its unread lines.

    n_before, n_lines: the source's numbers of lines before and after
    """
    cursor = state.cursors[name]
    if not state.merged:
        cursor = merge_cursors(name, [state])
    # if nothing was read, the appended lines are read like all others
    if cursor.lines or cursor.unread:
        unread = cursor.unread or (UnreadLines(cursor.epoch, (range(n_before),)),)
        last = unread[-1]
        last = last._replace(ranges=(*last.ranges, range(n_before, n_lines)))
        grown = (*cursor.grown, (last.epoch, n_before))
        cursor = replace(cursor, unread=(*unread[:-1], last), grown=grown)
    ended = tuple(other for other in state.ended if other != name)
    return replace(state, cursors=state.cursors | {name: cursor}, ended=ended)
