"""Resharding: the states of all ranks of a run → one state, from which any number of ranks resume.

For each source, the unread lines of all epochs in progress become a deal (volt.stream.reading.distributed_sampler).
The new ranks divide the deal, and the counts, among themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from volt import arguments
from volt.display import counted
from volt.errors import StreamError
from volt.stream.reading.distributed_sampler import (
    BlockRange,
    Deal,
    Pick,
    Remains,
    Span,
    joined,
    remains_of,
)
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.checkpoint import differences, grown_by, n_lines_before, refuse_difference
from volt.stream.running.state import Cursor, State, check_cursor
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
    inputs = [
        State.from_json(state) for state in arguments.several(states, "states", remedy=_STATES)
    ]
    if not inputs:
        raise StreamError("no states to merge; give the states of all ranks")
    _check_one_run(inputs)
    return _merged(inputs).to_json()


def _merged(states: Sequence[State]) -> State:
    first = states[0]
    n = sum(state.n for state in states)
    lines = {name: sum(state.cursors[name].lines for state in states) for name in first.cursors}
    return State(
        n=n,
        cursors={
            name: Cursor(lines[name], deal[0].epoch, deal=deal, grown=first.cursors[name].grown)
            for name, deal in ((name, _merged_deal(name, states)) for name in first.cursors)
        },
        configuration={
            name: value for name, value in first.configuration.items() if name not in _OWN
        },
        since=n,
        base=lines,
        ended=tuple(name for name in first.cursors if all(name in state.ended for state in states)),
        n_read=sum(state.n_read for state in states),
        n_faults=sum(state.n_faults for state in states),
        reasons=dict(sum((Counter(state.reasons) for state in states), Counter())),
        accepted=tuple(sorted({name for state in states for name in state.accepted})),
        merged=len(states),
    )


def _check_one_run(states: Sequence[State]) -> None:
    if any(state.merged for state in states):
        raise StreamError(
            "one of the states is already merged; give the states that the ranks have written"
        )
    places = [
        tuple(whole(state.configuration.get(name), f"configuration.{name}") for name in _OWN)
        for state in states
    ]
    worlds, ranks = {world for _, world in places}, sorted(rank for rank, _ in places)
    if len(worlds) > 1 or ranks != list(range(max(worlds))):
        message = ", ".join(f"{rank} of {world}" for rank, world in sorted(places))
        raise StreamError(
            f"the states are of ranks {arguments.shortened(message)}; give one state per rank of one run"
        )
    starts = [
        [(name, cursor.deal, cursor.grown) for name, cursor in state.cursors.items()]
        for state in states
    ]
    first = states[0]
    for state, start in zip(states, starts, strict=True):
        lines = [
            one
            for one in differences(first.configuration, state.configuration)
            if not one.startswith("rank: ")
        ]
        if lines or start != starts[0]:
            message = (
                "; ".join(lines) or "they began with different sources, or from different states"
            )
            raise StreamError(
                f"the states are not of one run: {message}; give the states that one run has written"
            )


def _merged_deal(name: str, states: Sequence[State]) -> Deal:
    place, deal = f"configuration.sources.{name}", states[0].cursors[name].deal
    values = states[0].configuration.get("sources", {}).get(name, {})
    n_lines, block_lines = (
        whole(values.get(key), f"{place}.{key}", low=1) for key in ("n_lines", "block_lines")
    )
    world, cursors = (
        len(states),
        [(state.configuration["rank"], state.cursors[name]) for state in states],
    )
    for rank, cursor in cursors:
        check_cursor(cursor, name, n_lines=n_lines, block_lines=block_lines, rank=rank, world=world)
    epochs = [cursor.epoch for _, cursor in cursors]
    first, last = min(epochs), max(*epochs, deal[-1].epoch if deal else 0)
    if last - first > _MOST_EPOCHS:
        raise refusal(f"the ranks are {last - first:,} epochs apart in source {name!r}")
    left = list[Remains]()
    for remains in (remains_of(n_lines, deal, epoch) for epoch in range(first, last + 1)):
        spans, begun = list[Span](), list[BlockRange]()
        for rank, cursor in cursors:
            own = remains.share(rank, world)
            if remains.epoch == cursor.epoch and cursor.start is not None:
                own = own.after(cursor.start, cursor.offset, block_lines)
            if remains.epoch >= cursor.epoch:
                spans += own.spans
                begun += own.begun
        if left or spans or begun or remains.epoch == last:
            left.append(
                Remains(remains.epoch, tuple(_side_by_side(spans)), tuple(_gathered(begun)))
            )
    return tuple(left)


def _side_by_side(spans: Iterable[Span]) -> list[Span]:
    result = list[Span]()
    for start, end in sorted(spans):
        if result and result[-1][1] == start:
            start = result.pop()[0]
        result.append((start, end))
    return result


def _gathered(begun: Iterable[BlockRange]) -> list[BlockRange]:
    picks = dict[BlockRange, list[Pick]]()
    for part in begun:
        picks.setdefault(part._replace(picks=()), []).extend(part.picks)
    return [part._replace(picks=joined(own)) for part, own in sorted(picks.items())]


def rank_state(merged: State, rank: int, world: int) -> State:
    lines = _divided({name: cursor.lines for name, cursor in merged.cursors.items()}, rank, world)
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
    """Split each total between ranks, and return this rank's shares.

    Two ranks' shares of a total differ by at most one; so do the two ranks' sums over all totals.
    """
    result, before = dict[str, int](), 0
    for name, total in totals.items():
        result[name] = (total + world - 1 - (rank - before) % world) // world
        before += total % world
    return result


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
    rank, world = configuration["rank"], configuration["world"]
    stored = (
        state.configuration
        if not state.merged
        else {**state.configuration, "rank": rank, "world": world}
    )
    old = stored.get("sources", {})
    grown = {
        source.name: (n, source.n_lines)
        for source in sources
        if (n := n_lines_before(source, old.get(source.name, {}))) is not None
    }
    names = refuse_difference(stored, configuration, accept=accept, grown=grown)
    n, new = state.n, [source.name for source in sources if source.name not in state.cursors]
    if grown:
        if world > 1 and not state.merged:
            problem = f"lines were appended to source {next(iter(grown))!r}, but the state is of one rank of {world}"
            raise StreamError(f"{problem}; merge the states of all ranks and restore the result")
        whole = state if state.merged else _merged([state])
        state = replace(
            state, cursors={**state.cursors, **{name: whole.cursors[name] for name in grown}}
        )
        state = grown_by(state, grown)
    if state.merged:
        state = rank_state(state, rank, world)
    if "weights" in names or new or grown:
        state = replace(
            state,
            since=state.n,
            base={name: cursor.lines for name, cursor in state.cursors.items()},
        )
    accepted = [f"changed weights from line {n:,} on"] if "weights" in names else []
    accepted += [f"source {name!r} from line {n:,} on" for name in new]
    accepted += [
        f"{counted(now - before, 'line')} appended to source {name!r}: from line {n:,} on, after other lines of epoch "
        f"{state.cursors[name].grown[-1][0] if state.cursors[name].grown else 0}"
        for name, (before, now) in grown.items()
    ]
    state = replace(
        state,
        configuration=dict(configuration),
        accepted=tuple(sorted({*state.accepted, *names})),
        base={**dict.fromkeys(new, 0), **state.base},
        cursors={**dict.fromkeys(new, Cursor()), **state.cursors},
    )
    return state, tuple(accepted)
