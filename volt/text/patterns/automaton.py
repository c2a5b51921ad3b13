"""The tree of a pattern → an automaton that finds the same matches as a backtracking engine.

A state is a list of places in the program, the preferred one first (Pike's threads, determinised).
If a place accepts, the less preferred places after it are dropped. The places before it are
preferred, so a match found later replaces it.

    program     CharStep (consume a character of a set, or look ahead at it), Fork, Accept
    moves       (n_states, n_columns) int32, by state and class of the next character, or the end:
                    2 · (the next state) + (1 if a match ends before that character)
                State 0 is dead.

A search overruns if it reads on after its match without finding a longer one. The next search reads
that text again, so a*b|a takes quadratic time for "aaa…". Consider pairs of states: those of two
searches that overrun the same text. If unlimited searches can overrun it, the pairs form a cycle.
Without a cycle, time is linear.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from collections.abc import Sequence as List
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from volt.errors import ConfigError
from volt.text.patterns.regex_parser import sets_of
from volt.text.patterns.regex_tree import (
    Ahead,
    Alphabet,
    Alternation,
    CharClass,
    Node,
    Repetition,
    Sequence,
)

MOST_INSTRUCTIONS = 5_000
MOST_STATES = 2_000
_TOO_LARGE = "repeat fewer times, or use several splits"


class CharStep(NamedTuple):
    """Continue if the next character belongs to one of these classes (a bit mask of columns).

    consumes: whether the character becomes a part of the match
    """

    columns: int
    then: int
    consumes: bool


class Fork(NamedTuple):
    """Continue at each of these instructions, preferably the first."""

    places: tuple[int, ...]


class Accept(NamedTuple):
    """A match ends here."""


Instructions: TypeAlias = list[CharStep | Fork | Accept]


@dataclass(frozen=True, eq=False, slots=True)
class Automaton:
    """Moves, as above, and the state before the first character of a match."""

    moves: NDArray[np.int32]
    start: int


def determinize(tree: Node, alphabet: Alphabet) -> Automaton:
    """Return the automaton of a tree. Raises ConfigError if it is too large."""
    program: Instructions = [Accept()]
    start = _assemble(tree, 0, program, alphabet)
    n_columns = alphabet.n_classes + 1
    every_column = (1 << n_columns) - 1
    states: dict[tuple[int, ...], int] = {(): 0, (start,): 1}
    rows = list[list[int]]()
    waiting = list(states)
    for ways in waiting:
        steps, match_columns = _reach(ways, every_column, program)
        row = list[int]()
        for column in range(n_columns):
            places = [place for columns, place in steps if columns >> column & 1]
            next_ways = tuple(dict.fromkeys(places))
            if next_ways not in states:
                states[next_ways] = len(states)
                waiting.append(next_ways)
            row.append(2 * states[next_ways] + (match_columns >> column & 1))
        rows.append(row)
        if len(states) > MOST_STATES:
            raise ConfigError(f"a pattern needs more than {MOST_STATES:,} states; {_TOO_LARGE}")
    return _minimal(np.array(rows, np.int32), 1)


def _assemble(tree: Node, then: int, program: Instructions, alphabet: Alphabet) -> int:
    if len(program) > MOST_INSTRUCTIONS:
        raise ConfigError(
            f"a pattern has more than {MOST_INSTRUCTIONS:,} parts with its repetitions written out; "
            f"{_TOO_LARGE}"
        )
    if isinstance(tree, Sequence):
        for part in reversed(tree.parts):
            then = _assemble(part, then, program, alphabet)
        return then
    if isinstance(tree, Alternation):
        places = tuple(_assemble(part, then, program, alphabet) for part in tree.parts)
        return _add(Fork(places), program)
    if isinstance(tree, Repetition):
        return _assemble_repeat(tree, then, program, alphabet)
    columns = alphabet.columns(tree.characters)
    if isinstance(tree, CharClass):
        return _add(CharStep(columns, then, consumes=True), program)
    if tree.at_end:
        columns |= alphabet.end
    return _add(CharStep(columns, then, consumes=False), program)


def _assemble_repeat(tree: Repetition, then: int, program: Instructions, alphabet: Alphabet) -> int:
    leaving = then
    if tree.possessive:
        (repeated,) = sets_of(tree.part)
        leaving = _assemble(Ahead(~repeated, at_end=True), then, program, alphabet)
    if tree.most is None:
        loop = _add(Fork(()), program)
        part = _assemble(tree.part, loop, program, alphabet)
        program[loop] = Fork((part, leaving))
        then = loop
    else:
        for _ in range(tree.most - tree.least):
            part = _assemble(tree.part, then, program, alphabet)
            then = _add(Fork((part, leaving)), program)
    for _ in range(tree.least):
        then = _assemble(tree.part, then, program, alphabet)
    return then


def _add(instruction: CharStep | Fork, program: Instructions) -> int:
    program.append(instruction)
    return len(program) - 1


def _reach(ways: List[int], every: int, program: Instructions) -> tuple[list[tuple[int, int]], int]:
    """Return the steps from a state, and the columns (a bit mask) before which a match may end.

    A step is a mask of columns and the place after it. All columns are followed at once: a
    look-ahead, a place met earlier, and a preferred match each remove columns.
    """
    steps = list[tuple[int, int]]()
    match_columns = 0
    met = defaultdict[int, int](int)
    waiting = [(place, every) for place in reversed(ways)]
    while waiting:
        place, columns = waiting.pop()
        columns &= ~(met[place] | match_columns)
        if not columns:
            continue
        met[place] |= columns
        instruction = program[place]
        if isinstance(instruction, Accept):
            match_columns |= columns
        elif isinstance(instruction, Fork):
            waiting.extend((place, columns) for place in reversed(instruction.places))
        elif instruction.consumes:
            steps.append((columns & instruction.columns, instruction.then))
        else:
            waiting.append((instruction.then, columns & instruction.columns))
    return steps, match_columns


def _minimal(moves: NDArray[np.int32], start: int) -> Automaton:
    """Merge equivalent states (Moore's algorithm)."""
    following = moves >> 1
    ends_match = moves & 1
    names = np.zeros(len(moves), np.int64)
    n_names = 0
    while True:
        renamed = 2 * names[following] + ends_match
        _, examples, new_names = np.unique(renamed, axis=0, return_index=True, return_inverse=True)
        names = new_names.reshape(-1)  # numpy 2.0 gives them a second axis
        if len(examples) == n_names:
            merged = 2 * names[following[examples]] + ends_match[examples]
            return Automaton(merged.astype(np.int32), int(names[start]))
        n_names = len(examples)


T = TypeVar("T", bound=Hashable)
Pair = tuple[int, int]  # the states of an earlier search and of a later one, at one place
MOST_PAIRS = 100_000  # a few seconds


def is_linear(automaton: Automaton) -> bool:
    """Check that the number of searches that overrun the same text is limited, see above.

    This takes time quadratic in the number of states. Raises ConfigError if it would take too long.
    """
    moves: list[list[int]] = automaton.moves.tolist()
    silent = [[move for move in row if move > 1 and not move & 1] for row in moves]
    after = [{move >> 1 for move in row} for row in silent]
    doomed = leading_to({state for state, row in enumerate(moves) if 0 in row}, after)
    starts = {move >> 1 for move in chain.from_iterable(moves) if move & 1 and move > 1}
    starts.add(automaton.start)
    overrunning = closure(starts, after.__getitem__) & doomed

    def following(pair: Pair, *, may_match: bool = True) -> Iterable[Pair]:
        for earlier, later in zip(moves[pair[0]], moves[pair[1]], strict=True):
            is_overrun = earlier > 1 and not earlier & 1 and earlier >> 1 in doomed
            if is_overrun and later > 1 and (may_match or not later & 1):
                yield earlier >> 1, later >> 1

    pairs = closure({(state, automaton.start) for state in overrunning}, following)
    overruns = [pair for pair in pairs if pair[1] in doomed]
    arrows = {pair: set(following(pair, may_match=False)) for pair in overruns}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError:
        return False
    return True


def leading_to(targets: set[int], after: List[Iterable[int]]) -> set[int]:
    """Return the states from which a path leads to one of `targets`.

    after: the next states of each state
    """
    before = defaultdict[int, set[int]](set)
    for state, next_states in enumerate(after):
        for next_state in next_states:
            before[next_state].add(state)
    return closure(targets, before.__getitem__)


def closure(items: set[T], after: Callable[[T], Iterable[T]]) -> set[T]:
    """Return the items of a set and all items that follow them, directly or indirectly."""
    result = set(items)
    waiting = list(items)
    while waiting:
        for new in set(after(waiting.pop())) - result:
            result.add(new)
            waiting.append(new)
        if len(result) > MOST_PAIRS:
            raise ConfigError(
                f"a pattern has more than {MOST_PAIRS:,} pairs of states, so checking that it splits "
                "long lines in linear time takes too long; repeat fewer times, as in .{100} for "
                ".{1000}, or use several splits"
            )
    return result
