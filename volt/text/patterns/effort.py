"""Whether the loop's effort grows with the length of a text and not faster, whatever the text.

A search notes a match and reads on as long as a longer one is possible. If none comes, it has overrun: what it read
behind the match is read again by the next search. One overrun does no harm, however long it is. Many searches that
overrun the same stretch do: a*b|a looks to the end of "aaa…" for its b from every a, n (n + 1) / 2 characters in all.

If searches without number can overrun one stretch, then two of them go on together for as long as one likes, each
without a match and about to fail. There are finitely many pairs of states, so such two go round in a circle of pairs.
Where there is no such circle, the effort is linear. Where there is one, it may still be: the test is on the safe side.

>>> from volt.text.patterns.splitter import Split, Splitter
>>> Splitter.of(Split("a*b|a")).is_linear, Splitter.of(Split("a+b?|b")).is_linear
(False, True)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from volt.errors import ConfigError
from volt.text.patterns.automaton import Automaton

T = TypeVar("T", bound=Hashable)
Rows = list[list[int]]  # of moves: 2 · (the next state) + (1 if a match ends here)
Pair = tuple[int, int]  # the states of an earlier search and of a later one, at one place
MOST_PAIRS = 100_000  # a few seconds


def is_linear(automaton: Automaton) -> bool:
    """Whether no two searches can overrun the same stretch, however long it is.

    Finding out takes time with the square of the number of states, less than 1 ms for published patterns.
    Raises ConfigError if it would take too long.
    """
    rows: Rows = automaton.moves.tolist()
    doomed = _doomed(rows)
    after_match = {move >> 1 for row in rows for move in row if move & 1 and move > 1}
    overrunning = _closed(after_match | {automaton.start}, lambda state: _silent(rows[state])) & doomed

    def following(pair: Pair) -> Iterable[Pair]:
        """The pairs that one more character leads to while the earlier search finds no match and is about to fail."""
        for before, now in zip(rows[pair[0]], rows[pair[1]], strict=True):
            if before > 1 and now > 1 and not before & 1 and before >> 1 in doomed:
                yield before >> 1, now >> 1

    pairs = _closed({(state, automaton.start) for state in overrunning}, following)
    return not _has_circle({pair: set(_silent_pairs(rows, pair)) for pair in pairs if pair[1] in doomed})


def _silent_pairs(rows: Rows, pair: Pair) -> Iterable[Pair]:
    """The pairs that one more character leads to while neither search finds a match."""
    for before, now in zip(rows[pair[0]], rows[pair[1]], strict=True):
        if before > 1 and now > 1 and not (before | now) & 1:
            yield before >> 1, now >> 1


def _silent(row: list[int]) -> Iterable[int]:
    """The states that follow without a match."""
    return (move >> 1 for move in row if move > 1 and not move & 1)


def _doomed(rows: Rows) -> set[int]:
    """The states from which a search can fail without a match on its way."""
    found = {state for state, row in enumerate(rows) if 0 in row}
    while more := {state for state, row in enumerate(rows) if not found.isdisjoint(_silent(row))} - found:
        found |= more
    return found


def _closed(found: set[T], after: Callable[[T], Iterable[T]]) -> set[T]:
    """What these lead to, with these themselves. Raises ConfigError if that is too much."""
    found, waiting = set(found), list(found)
    while waiting:
        for new in set(after(waiting.pop())) - found:
            found.add(new)
            waiting.append(new)
        if len(found) > MOST_PAIRS:
            raise ConfigError(
                f"a pattern has more than {MOST_PAIRS:,} pairs of states, so it would take long to find out how it "
                "cuts long lines; repeat fewer times, as in .{100} for .{1000}, or cut in several splits"
            )
    return found


def _has_circle(arrows: dict[Pair, set[Pair]]) -> bool:
    """Whether a walk along arrows can go on for ever; what leads nowhere is taken away until nothing does.

    Each arrow is looked at twice, however long the walks are.

    >>> _has_circle({(0, 1): {(1, 1)}, (1, 1): {(2, 2)}}), _has_circle({(0, 1): {(1, 1)}, (1, 1): {(0, 1)}})
    (False, True)
    """
    before: dict[Pair, list[Pair]] = {pair: [] for pair in arrows}
    for pair, after in arrows.items():
        for follower in after & before.keys():
            before[follower].append(pair)
    n_ways = {pair: len(after & before.keys()) for pair, after in arrows.items()}
    ending = [pair for pair, n in n_ways.items() if not n]
    for pair in ending:  # grows as it goes
        for earlier in before[pair]:
            n_ways[earlier] -= 1
            if not n_ways[earlier]:
                ending.append(earlier)
    return len(ending) < len(arrows)
