"""Resharding: the states of all ranks of a run → one state, from which any number of ranks resume.

Lines that had been given are not given again, and all others are given once: for each source, the rest of the epochs
that any rank had begun becomes a deal (volt.stream.reading.sampler), which the new ranks divide among themselves. Each
new rank gets an equal part of the old ranks' counts, and the mixture continues from there.

Rank and world come from the caller, or from the variables of launchers (`from_environment`).

>>> source = {"n_lines": 10, "block_lines": 4, "epochs": None}
>>> ranks = [{"rank": rank, "world": 2, "sources": {"wmt": source}} for rank in (0, 1)]
>>> cursors = [Cursor(4, 0, 0, 4), Cursor(4, 0, 5, 4)]
>>> states = [State(4, {"wmt": cursors[rank]}, ranks[rank], 0, {"wmt": 0}) for rank in (0, 1)]
>>> merged = State.from_json(merge_states([state.to_json() for state in states]))
>>> merged.n, merged.cursors["wmt"].deal[0].spans
(8, ((4, 5), (9, 10)))
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, StreamError
from volt.stream.reading.open_source import Growth, OpenSource
from volt.stream.reading.sampler import BlockRange, Deal, Pick, Remains, Span, joined, remains_of
from volt.stream.running.checkpoint import differences, grown_by, n_lines_before, refuse_difference
from volt.stream.running.state import Cursor, State, check_cursor, mapping, refusal, whole

_NAMES = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def from_environment(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Return rank and world from the variables of torchrun, MPI or Slurm, or (0, 1) if none are set.

    environment: the variables; by default of this process

    The first launcher with both variables counts. Half a pair is refused, as each process would then read all lines;
    except that SLURM_NTASKS alone, or SLURM_PROCID=0 alone, is ignored: Slurm sets them in scripts that are not tasks.

    Raises ConfigError if one is set without the other, or is not a number, or the rank is not below the world.

    >>> from_environment({})
    (0, 1)
    >>> from_environment({"RANK": "1"})
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: RANK='1' is set, and WORLD_SIZE is not; set both, or unset it
    """
    variables = os.environ if environment is None else arguments.mapping(environment, "environment")
    for rank, world in _NAMES:
        if rank in variables and world in variables:
            try:
                return check_rank(int(variables[rank]), int(variables[world]))
            except (ValueError, TypeError, ConfigError) as error:
                pair = f"{rank}={variables[rank]!r}, {world}={variables[world]!r}"
                raise ConfigError(f"{pair}: {error}; unset them") from None
        for one, other in ((rank, world), (world, rank)):
            is_ignored = one == "SLURM_NTASKS" or (one == "SLURM_PROCID" and variables.get(one) == "0")
            if one in variables and not is_ignored:
                raise ConfigError(f"{one}={variables[one]!r} is set, and {other} is not; set both, or unset it")
    return 0, 1


def check_rank(rank: int, world: int) -> tuple[int, int]:
    """Return rank and world. Raises ConfigError if there is no such rank.

    >>> check_rank(2, 2)
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: rank 2 of world 2: ranks count from 0 to world − 1
    """
    rank, world = arguments.whole(rank, "rank"), arguments.whole(world, "world")
    if not 0 <= rank < world:
        raise ConfigError(f"rank {rank} of world {world}: ranks count from 0 to world − 1")
    return rank, world


_MOST_EPOCHS = 1 << 16  # between the ranks of a run
_STATES = "give a list of the states of all ranks"
_OWN = ("rank", "world")  # keys of a configuration that belong to one rank


class _Place(NamedTuple):
    """The position of a rank in a source."""

    rank: int
    cursor: Cursor


class _Shape(NamedTuple):
    """The numbers on which the division of a source among ranks depends."""

    n_lines: int
    block_lines: int
    epochs: int | None
    world: int


def merge_states(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the states of all ranks of a run to one state for any number of ranks.

    states: what `Stream.state` returned in each rank, in any order; ranks may have given different numbers of lines

    Raises StreamError if the state of a rank is missing or repeated, or the states are not of one run.

    >>> merge_states([])
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: no states to merge; give those of all ranks
    """
    inputs = [State.from_json(state) for state in arguments.several(states, "states", remedy=_STATES)]
    if not inputs:
        raise StreamError("no states to merge; give those of all ranks")
    _check_one_run(inputs)
    return _merged(inputs).to_json()


def _merged(states: Sequence[State]) -> State:
    first = states[0]
    n = sum(state.n for state in states)
    deals = {name: _merged_deal(name, states) for name in first.cursors}
    lines = {name: sum(state.cursors[name].lines for state in states) for name in first.cursors}
    return State(
        n=n,
        cursors={
            name: Cursor(lines[name], deal[0].epoch, deal=deal, grown=first.cursors[name].grown)
            for name, deal in deals.items()
        },
        configuration={name: value for name, value in first.configuration.items() if name not in _OWN},
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
    """Raise StreamError unless these are the states of all ranks of one run."""
    if any(state.merged for state in states):
        raise StreamError("one of the states is merged already; give those that the ranks have written")
    places = [tuple(whole(state.configuration.get(name), f"configuration.{name}") for name in _OWN) for state in states]
    worlds, ranks = {world for _, world in places}, sorted(rank for rank, _ in places)
    if len(worlds) > 1 or ranks != list(range(max(worlds))):
        message = ", ".join(f"{rank} of {world}" for rank, world in sorted(places))
        raise StreamError(f"the states are of ranks {arguments.shortened(message)}; give one of each rank of one run")
    for state in states[1:]:
        lines = [one for one in differences(_common(states[0]), _common(state)) if not one.startswith("rank: ")]
        if lines or [*state.cursors] != [*states[0].cursors] or _deals(state) != _deals(states[0]):
            message = "; ".join(lines) or "they began with other sources, or from other states"
            raise StreamError(f"the states are not of one run: {message}; give those that its ranks have written")


def _common(state: State) -> dict[str, Any]:
    return {name: value for name, value in state.configuration.items() if name != "rank"}


def _deals(state: State) -> list[tuple[Deal, Growth]]:
    return [(cursor.deal, cursor.grown) for cursor in state.cursors.values()]


def _merged_deal(name: str, states: Sequence[State]) -> Deal:
    """Return what is left of the epochs of a source that any rank has begun."""
    shape, deal = _shape(states[0], name), states[0].cursors[name].deal
    places = [_Place(state.configuration["rank"], state.cursors[name]) for state in states]
    for place in places:
        check_cursor(place.cursor, name, rank=place.rank, **shape._asdict())
    epochs = [place.cursor.epoch for place in places]
    first, last = min(epochs), max(*epochs, deal[-1].epoch if deal else 0)
    if last - first > _MOST_EPOCHS:
        raise refusal(f"the ranks are {last - first:,} epochs of source {name!r} apart")
    left = [_left(shape, remains_of(shape.n_lines, deal, epoch), places) for epoch in range(first, last + 1)]
    while len(left) > 1 and not (left[0].spans or left[0].begun):
        left = left[1:]
    return tuple(left)


def _shape(state: State, name: str) -> _Shape:
    place = f"configuration.sources.{name}"
    values = mapping(mapping(state.configuration.get("sources"), "configuration.sources").get(name), place)
    n_lines, block_lines = (whole(values.get(key), f"{place}.{key}", low=1) for key in ("n_lines", "block_lines"))
    epochs = values.get("epochs")
    return _Shape(
        n_lines, block_lines, None if epochs is None else whole(epochs, f"{place}.epochs", low=1),
        whole(state.configuration.get("world"), "configuration.world", low=1),
    )  # fmt: skip


def _left(shape: _Shape, remains: Remains, places: Sequence[_Place]) -> Remains:
    spans, begun = list[Span](), list[BlockRange]()
    for rank, cursor in places:
        own = remains.share(rank, shape.world)
        if remains.epoch == cursor.epoch and cursor.start is not None:
            own = own.after(cursor.start, cursor.offset, shape.block_lines)
        if remains.epoch >= cursor.epoch:
            spans += own.spans
            begun += own.begun
    return Remains(remains.epoch, tuple(_side_by_side(spans)), tuple(_gathered(begun)))


def _side_by_side(spans: Iterable[Span]) -> list[Span]:
    """Return spans in rising order, with adjacent ones joined.

    >>> _side_by_side([(5, 8), (0, 2), (2, 3)])
    [(0, 3), (5, 8)]
    """
    result = list[Span]()
    for start, end in sorted(spans):
        if result and result[-1][1] == start:
            start = result.pop()[0]
        result.append((start, end))
    return result


def _gathered(begun: Iterable[BlockRange]) -> list[BlockRange]:
    """Return parts in rising order, each once, with all outputs that are left of it."""
    picks = dict[BlockRange, list[Pick]]()
    for part in begun:
        picks.setdefault(part._replace(picks=()), []).extend(part.picks)
    return [part._replace(picks=joined(own)) for part, own in sorted(picks.items())]


def rank_state(merged: State, rank: int, world: int) -> State:
    """Return the state of a rank that resumes from a merged state.

    >>> merged = State(7, {"wmt": Cursor(7, 1)}, {"seed": 1}, 7, {"wmt": 7}, merged=2)
    >>> [rank_state(merged, rank, 3).n for rank in range(3)]
    [3, 2, 2]
    """
    lines = _divided({name: cursor.lines for name, cursor in merged.cursors.items()}, rank, world)
    reasons = _divided(merged.reasons, rank, world)
    n = sum(lines.values())
    return replace(
        merged, n=n, since=n, base=lines, merged=0,
        cursors={name: replace(cursor, lines=lines[name]) for name, cursor in merged.cursors.items()},
        configuration={**merged.configuration, "rank": rank, "world": world},
        n_read=_divided({"": merged.n_read}, rank, world)[""], n_faults=sum(reasons.values()),
        reasons={kind: count for kind, count in reasons.items() if count},
    )  # fmt: skip


def _divided(totals: Mapping[str, int], rank: int, world: int) -> dict[str, int]:
    """Return a rank's part of each number. Parts, and sums of parts, differ by at most one between ranks.

    >>> [_divided({"a": 4, "b": 3}, rank, 3) for rank in range(3)]
    [{'a': 2, 'b': 1}, {'a': 1, 'b': 1}, {'a': 1, 'b': 1}]
    """
    result, before = dict[str, int](), 0
    for name, total in totals.items():
        result[name] = (total + world - 1 - (rank - before) % world) // world
        before += total % world
    return result


class Continued(NamedTuple):
    """The state that a stream continues from, and the differences that were accepted.

    state: of this rank, with the configuration of the stream
    accepted: each accepted difference, with the line from which it holds, as text
    """

    state: State
    accepted: tuple[str, ...]


def continued(
    state: State, configuration: Mapping[str, Any], *, sources: Sequence[OpenSource] = (), accept: Collection[str] = ()
) -> Continued:
    """Return the state from which the stream of a configuration continues.

    configuration: of the stream, with its rank and its world
    sources: of the stream, which may have more lines than in the state
    accept: names of the differences to accept; see `refuse_difference`

    Raises StreamError if the state belongs to another stream, or to another rank.

    >>> current = {"rank": 0, "world": 1, "sources": {"wmt": {"weight": 2.0}}}
    >>> before = current | {"sources": {"wmt": {"weight": 1.0}}}
    >>> state, accepted = continued(State(7, {"wmt": Cursor(7)}, before), current, accept=["weights"])
    >>> state.since, accepted
    (7, ('other weights from line 7 on',))
    """
    rank, world = configuration["rank"], configuration["world"]
    stored = state.configuration if not state.merged else {**state.configuration, "rank": rank, "world": world}
    grown = _grown_sources(stored, sources)
    names = refuse_difference(stored, configuration, accept=accept, grown=grown)
    n, new = state.n, [source.name for source in sources if source.name not in state.cursors]
    if grown:
        if world > 1 and not state.merged:
            raise StreamError(
                f"lines were appended to source {next(iter(grown))!r}, and the state is of one rank of {world}; merge "
                "the states of all ranks and restore the result"
            )
        whole = state if state.merged else _merged([state])
        state = replace(state, cursors={**state.cursors, **{name: whole.cursors[name] for name in grown}})
        state = grown_by(state, grown)
    if state.merged:
        state = rank_state(state, rank, world)
    if "weights" in names or new or grown:
        base = {name: cursor.lines for name, cursor in state.cursors.items()}
        state = replace(state, since=state.n, base=base)
    accepted = [f"other weights from line {n:,} on"] if "weights" in names else []
    accepted += [f"source {name!r} from line {n:,} on" for name in new]
    accepted += [
        f"{counted(now - before, 'line')} appended to source {name!r}: from line {n:,} on, after the others of epoch "
        f"{state.cursors[name].grown[-1][0] if state.cursors[name].grown else 0}"
        for name, (before, now) in grown.items()
    ]
    state = replace(
        state, configuration=dict(configuration), accepted=tuple(sorted({*state.accepted, *names})),
        base={**dict.fromkeys(new, 0), **state.base}, cursors={**dict.fromkeys(new, Cursor()), **state.cursors},
    )  # fmt: skip
    return Continued(state, tuple(accepted))


def _grown_sources(stored: Mapping[str, Any], sources: Sequence[OpenSource]) -> dict[str, tuple[int, int]]:
    """Return the sources to which lines were only appended, with their numbers of lines before and now."""
    values = stored.get("sources")
    known = [
        source for source in sources if isinstance(values, Mapping) and isinstance(values.get(source.name), Mapping)
    ]
    before = {source.name: n_lines_before(source, stored["sources"][source.name]) for source in known}
    return {source.name: (n, source.n_lines) for source in known if (n := before[source.name]) is not None}
