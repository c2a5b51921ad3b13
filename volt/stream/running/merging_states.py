"""Resharding: the states of all ranks of a run → one state, from which any number of ranks resume.

For each source, the unread lines of all epochs in progress are merged (`UnreadLines.merge`), and
the counts are added. Each new rank then takes its share of both (`take_rank_share`).

    rank 0 of 2: 400 lines delivered, rank 1 of 2: 401   →   merged: 801   →   3 ranks: 267 each
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from volt import arguments
from volt.errors import StreamError
from volt.stream.reading.unread_lines import Unread, UnreadLines, find_unread
from volt.stream.running.state import Cursor, State
from volt.stream.running.state_differences import differences
from volt.stream.running.state_validation import refusal, whole

_MOST_EPOCHS = 1 << 16  # maximum difference between the ranks of a run
_REMEDY = "give a list of the states of all ranks"
_RANK_KEYS = ("rank", "world")  # of a configuration; ranks of one run agree on the other keys


def merge_states(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the states of all ranks of a run into one state for any number of ranks.

    states: each rank's `Stream.state`, in any order; ranks may have delivered different numbers of
        lines

    Raises StreamError if a rank's state is missing or repeated, or if the states belong to
    different runs.

    >>> merge_states([])
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: no states to merge; give the states of all ranks
    """
    states = arguments.several(states, "states", remedy=_REMEDY)
    ranks = [State.from_json(state) for state in states]
    if not ranks:
        raise StreamError("no states to merge; give the states of all ranks")
    _check_one_run(ranks)

    first = ranks[0]
    cursors = {name: merge_cursors(name, ranks) for name in first.cursors}
    reasons = Counter[str]()
    for state in ranks:
        reasons.update(state.reasons)
    configuration = dict(first.configuration)
    for key in _RANK_KEYS:
        del configuration[key]
    merged = State(
        n=sum(state.n for state in ranks),
        cursors=cursors,
        configuration=configuration,
        ended=tuple(name for name in cursors if all(name in state.ended for state in ranks)),
        n_read=sum(state.n_read for state in ranks),
        n_faults=sum(state.n_faults for state in ranks),
        reasons=dict(reasons),
        accepted=tuple(sorted({name for state in ranks for name in state.accepted})),
        merged=len(ranks),
        skipped=tuple(sorted({entry for state in ranks for entry in state.skipped})),
    )
    return merged.move_base().to_json()


def _check_one_run(states: Sequence[State]) -> None:
    if any(state.merged for state in states):
        raise StreamError(
            "one of the states is already merged; give the states that the ranks have written"
        )
    pairs = [
        [whole(state.configuration.get(key), f"configuration.{key}") for key in _RANK_KEYS]
        for state in states
    ]
    world = pairs[0][1]
    if len(pairs) != world or sorted(pairs) != [[rank, world] for rank in range(world)]:
        ranks = ", ".join(f"{rank} of {world}" for rank, world in sorted(pairs))
        shown = arguments.shortened(ranks)
        raise StreamError(f"the states are of ranks {shown}; give one state per rank of one run")

    first = states[0]
    for state in states:
        lines = differences(first.configuration, state.configuration)
        problem = "; ".join(line for line in lines if not line.startswith("rank: "))
        if not problem and _beginning(state) != _beginning(first):
            problem = "they began with different sources, or from different states"
        if problem:
            remedy = "give the states that one run has written"
            raise StreamError(f"the states are not of one run: {problem}; {remedy}")


def _beginning(state: State) -> list[tuple[object, ...]]:
    """Return the parts of a state's cursors that do not change during a run."""
    return [(name, cursor.unread, cursor.grown) for name, cursor in state.cursors.items()]


def merge_cursors(name: str, states: Sequence[State]) -> Cursor:
    """Merge the cursors of all ranks in a source."""
    unread = _merge_unread(name, states)
    lines = sum(state.cursors[name].lines for state in states)
    grown = states[0].cursors[name].grown
    return Cursor(lines, unread[0].epoch, unread=unread, grown=grown)


def _merge_unread(name: str, states: Sequence[State]) -> Unread:
    fingerprints = states[0].configuration.get("sources", {}).get(name, {})
    key = f"configuration.sources.{name}"
    n_lines = whole(fingerprints.get("n_lines"), f"{key}.n_lines", low=1)
    block_lines = whole(fingerprints.get("block_lines"), f"{key}.block_lines", low=1)
    world = len(states)
    cursors = {state.configuration["rank"]: state.cursors[name] for state in states}
    for rank, cursor in cursors.items():
        cursor.check(name, n_lines=n_lines, block_lines=block_lines, rank=rank, world=world)

    unread_before = states[0].cursors[name].unread  # when the run began
    epochs = [cursor.epoch for cursor in cursors.values()]
    first = min(epochs)
    last = max(*epochs, unread_before[-1].epoch if unread_before else 0)
    if last - first > _MOST_EPOCHS:
        raise refusal(f"the ranks are {last - first:,} epochs apart in source {name!r}")

    result = list[UnreadLines]()
    for epoch in range(first, last + 1):
        whole_epoch = find_unread(epoch, n_lines, unread_before)
        shares = list[UnreadLines]()
        for rank, cursor in cursors.items():
            if epoch < cursor.epoch:
                continue  # this rank has read its share
            share = whole_epoch.share(rank, world)
            if epoch == cursor.epoch and cursor.start is not None:
                share = share.skip_to(cursor.start, cursor.offset, block_lines=block_lines)
            shares.append(share)
        unread = UnreadLines.merge(epoch, shares)
        if result or epoch == last or unread.ranges or unread.begun:
            result.append(unread)
    return tuple(result)


def take_rank_share(merged: State, rank: int, world: int) -> State:
    """Return the state from which a rank continues a merged state.

    It has all unread lines, of which the rank reads its share, and the rank's share of the counts.
    """
    n_lines = _divide_counts(
        {name: cursor.lines for name, cursor in merged.cursors.items()}, rank, world
    )
    reasons = _divide_counts(merged.reasons, rank, world)
    cursors = {
        name: replace(cursor, lines=n_lines[name]) for name, cursor in merged.cursors.items()
    }
    state = replace(
        merged,
        n=sum(n_lines.values()),
        merged=0,
        cursors=cursors,
        configuration={**merged.configuration, "rank": rank, "world": world},
        n_read=_divide_counts({"": merged.n_read}, rank, world)[""],
        n_faults=sum(reasons.values()),
        reasons={kind: count for kind, count in reasons.items() if count},
    )
    return state.move_base()


def _divide_counts(totals: Mapping[str, int], rank: int, world: int) -> dict[str, int]:
    """Divide each total between ranks, and return this rank's counts.

    Two ranks' counts of a total differ by at most one, and so do the sums of their counts: the
    ranks take turns with the remainders. Totals 4 and 4 for 3 ranks: 2 + 1, 1 + 2, and 1 + 1.
    """
    counts = dict[str, int]()
    first_rank = 0  # the next rank to get one more
    for name, total in totals.items():
        quotient, remainder = divmod(total, world)
        counts[name] = quotient + ((rank - first_rank) % world < remainder)
        first_rank += remainder
    return counts
