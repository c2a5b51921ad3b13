"""Resharding: the states of all ranks of a run → one state, from which any number of ranks resume.

For each source, the unread lines of all epochs in progress are merged (`volt.stream.reading.unread_lines`). The new
ranks share these lines, and the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from volt import arguments
from volt.errors import StreamError
from volt.stream.reading.unread_lines import Unread, UnreadLines, unread_in
from volt.stream.running.state import Cursor, State
from volt.stream.running.state_differences import differences
from volt.stream.running.state_validation import refusal, whole

_MOST_EPOCHS = 1 << 16  # maximum difference between the ranks of a run
_STATES = "give a list of the states of all ranks"
_OWN = ("rank", "world")  # keys of a configuration that belong to one rank


def merge_states(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the states of all ranks of a run into one state for any number of ranks.

    states: each rank's `Stream.state`, in any order; ranks may have delivered different numbers of lines

    Raises StreamError if a rank's state is missing or repeated, or if the states belong to different runs.

    >>> merge_states([])
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: no states to merge; give the states of all ranks
    """
    several = arguments.several(states, "states", remedy=_STATES)
    ranks = [State.from_json(state) for state in several]
    if not ranks:
        raise StreamError("no states to merge; give the states of all ranks")
    _check_one_run(ranks)
    return merged_state(ranks).to_json()


def _check_one_run(states: Sequence[State]) -> None:
    if any(state.merged for state in states):
        raise StreamError(
            "one of the states is already merged; give the states that the ranks have written"
        )
    ranks = [_own_number(state, "rank") for state in states]
    worlds = [_own_number(state, "world") for state in states]
    if len(set(worlds)) > 1 or sorted(ranks) != list(range(worlds[0])):
        pairs = sorted(zip(ranks, worlds, strict=True))
        shown = arguments.shortened(", ".join(f"{rank} of {world}" for rank, world in pairs))
        raise StreamError(f"the states are of ranks {shown}; give one state per rank of one run")

    first = states[0]
    for state in states:
        lines = differences(first.configuration, state.configuration)
        problem = "; ".join(line for line in lines if not line.startswith("rank: "))
        if not problem and _beginning(state) != _beginning(first):
            problem = "they began with different sources, or from different states"
        if problem:
            raise StreamError(
                f"the states are not of one run: {problem}; give the states that one run has written"
            )


def _own_number(state: State, name: str) -> int:
    return whole(state.configuration.get(name), f"configuration.{name}")


def _beginning(state: State) -> list[tuple[object, ...]]:
    return [(name, cursor.unread, cursor.grown) for name, cursor in state.cursors.items()]


def merged_state(states: Sequence[State]) -> State:
    """Merge the states of all ranks of one run."""
    first = states[0]
    cursors = {name: merged_cursor(name, states) for name in first.cursors}
    n = sum(state.n for state in states)
    reasons = Counter[str]()
    for state in states:
        reasons.update(state.reasons)
    return State(
        n=n,
        cursors=cursors,
        configuration=_without_own(first.configuration),
        since=n,
        base={name: cursor.lines for name, cursor in cursors.items()},
        ended=tuple(name for name in cursors if all(name in state.ended for state in states)),
        n_read=sum(state.n_read for state in states),
        n_faults=sum(state.n_faults for state in states),
        reasons=dict(reasons),
        accepted=tuple(sorted({name for state in states for name in state.accepted})),
        merged=len(states),
    )


def _without_own(configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in configuration.items() if name not in _OWN}


def merged_cursor(name: str, states: Sequence[State]) -> Cursor:
    unread = _merged_unread(name, states)
    lines = sum(state.cursors[name].lines for state in states)
    grown = states[0].cursors[name].grown
    return Cursor(lines, unread[0].epoch, unread=unread, grown=grown)


def _merged_unread(name: str, states: Sequence[State]) -> Unread:
    values = states[0].configuration.get("sources", {}).get(name, {})
    place = f"configuration.sources.{name}"
    n_lines = whole(values.get("n_lines"), f"{place}.n_lines", low=1)
    block_lines = whole(values.get("block_lines"), f"{place}.block_lines", low=1)
    world = len(states)
    cursors = {state.configuration["rank"]: state.cursors[name] for state in states}
    for rank, cursor in cursors.items():
        cursor.check(name, n_lines=n_lines, block_lines=block_lines, rank=rank, world=world)

    before = states[0].cursors[name].unread
    epochs = [cursor.epoch for cursor in cursors.values()]
    first = min(epochs)
    last = max(*epochs, before[-1].epoch if before else 0)
    if last - first > _MOST_EPOCHS:
        raise refusal(f"the ranks are {last - first:,} epochs apart in source {name!r}")

    result = list[UnreadLines]()
    for epoch in range(first, last + 1):
        whole_epoch = unread_in(epoch, n_lines, before)
        shares = list[UnreadLines]()
        for rank, cursor in cursors.items():
            if epoch < cursor.epoch:
                continue  # this rank has read its share
            share = whole_epoch.share(rank, world)
            if epoch == cursor.epoch and cursor.start is not None:
                share = share.take(cursor.start, cursor.offset, block_lines=block_lines)
            shares.append(share)
        rest = UnreadLines.merge(epoch, shares)
        if result or epoch == last or rest.ranges or rest.begun:
            result.append(rest)
    return tuple(result)


def rank_state(merged: State, rank: int, world: int) -> State:
    """Return the state from which a rank continues: all unread lines, and its share of the counts."""
    totals = {name: cursor.lines for name, cursor in merged.cursors.items()}
    lines = _divided(totals, rank, world)
    reasons = _divided(merged.reasons, rank, world)
    n = sum(lines.values())
    return replace(
        merged,
        n=n,
        since=n,
        base=lines,
        merged=0,
        cursors={
            name: replace(cursor, lines=lines[name]) for name, cursor in merged.cursors.items()
        },
        configuration={**merged.configuration, "rank": rank, "world": world},
        n_read=_divided({"": merged.n_read}, rank, world)[""],
        n_faults=sum(reasons.values()),
        reasons={kind: count for kind, count in reasons.items() if count},
    )


def _divided(totals: Mapping[str, int], rank: int, world: int) -> dict[str, int]:
    """Split each total between ranks, and return this rank's numbers.

    Two ranks' numbers for a total differ by at most one; so do their sums over all totals.
    """
    result = dict[str, int]()
    n_before = 0
    for name, total in totals.items():
        result[name] = (total + world - 1 - (rank - n_before) % world) // world
        n_before += total % world
    return result
