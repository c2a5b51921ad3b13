r"""The tree of a pattern → an automaton that finds the matches of a backtracking engine.

The tree becomes a program, whose instructions are tried like the choices of a backtracking engine:

    CharStep   consume the next character, or only look at it, if its class is allowed
    Fork       continue at several instructions, preferably at the first
    Accept     a match ends here

Backtracking tries one choice after the other. The automaton follows all of them at once (Pike's
algorithm). Its state is the list of instructions that would be executed next, preferred ones first:
its *threads*. If a thread accepts, the threads after it are dropped, as backtracking would never
try them. The threads before it remain, and if one of these accepts later, its match counts instead.

    moves   (n_states, n_columns) int32: 2 · (next state) + (1 if a match ends before the character)

A row is a state, and state 0 has no threads. A column is the class of the next character; the last
column is the end of the text. A search starts in the state `start`, and ends in state 0.

`is_linear` checks that splitting long text takes linear time. A search *overruns* the text that it
reads after its last match; the next search reads this text again. With a*b|a, each search for a
match in "aaa…" overruns the whole rest, so the time is quadratic. That is so if and only if
unlimited numbers of searches can overrun the same character; then a pair of states, one of an
earlier and one of a later search, leads back to itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from collections.abc import Sequence as List
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from volt.array_types import Ints
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
MOST_PAIRS = 100_000  # following so many pairs of states takes a few seconds
_TOO_LARGE = "repeat fewer times, or use several splits"

T = TypeVar("T", bound=Hashable)
Pair = tuple[int, int]  # the states of an earlier and of a later search at the same character


class CharStep(NamedTuple):
    """Continue at `next_index` if the class of the next character is allowed.

    column_mask: bit c is set if column c is allowed
    next_index: the index of the next instruction
    consumes: whether the character becomes a part of the match; else this looks ahead
    """

    column_mask: int
    next_index: int
    consumes: bool


class Fork(NamedTuple):
    """Continue at each of these instructions, preferably at the first."""

    next_indices: tuple[int, ...]


class Accept(NamedTuple):
    """A match ends here."""


Instructions: TypeAlias = list[CharStep | Fork | Accept]


@dataclass(frozen=True, eq=False, slots=True)
class Automaton:
    """The moves (see the module), and the state before the first character of a match."""

    moves: Ints
    start: int


def determinize(tree: Node, alphabet: Alphabet) -> Automaton:
    """Return the automaton of a tree. Raises ConfigError if it is too large."""
    program = _Program(alphabet)
    first_threads = (program.add(tree, next_index=0),)
    n_columns = alphabet.n_classes + 1
    state_of: dict[tuple[int, ...], int] = {(): 0, first_threads: 1}  # threads → state
    rows = list[list[int]]()
    unexplored = list(state_of)
    for threads in unexplored:
        steps, match_mask = _follow_threads(threads, program.instructions, n_columns)
        row = list[int]()
        for column in range(n_columns):
            reached = [next_index for mask, next_index in steps if mask >> column & 1]
            next_threads = tuple(dict.fromkeys(reached))
            if next_threads not in state_of:
                state_of[next_threads] = len(state_of)
                unexplored.append(next_threads)
            row.append(2 * state_of[next_threads] + (match_mask >> column & 1))
        rows.append(row)
        if len(state_of) > MOST_STATES:
            raise ConfigError(f"a pattern needs more than {MOST_STATES:,} states; {_TOO_LARGE}")
    return _merge_equivalent_states(np.array(rows, np.int32), start=1)


class _Program:
    """Instructions, of which the first is Accept; a match's end is added before its start."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.instructions: Instructions = [Accept()]
        self._alphabet = alphabet

    def add(self, tree: Node, next_index: int) -> int:
        """Add instructions that match a tree, then continue at `next_index`.

        Return the index of the instruction that starts the tree.
        """
        if len(self.instructions) > MOST_INSTRUCTIONS:
            raise ConfigError(
                f"a pattern has more than {MOST_INSTRUCTIONS:,} parts with its repetitions written "
                f"out; {_TOO_LARGE}"
            )
        if isinstance(tree, Sequence):
            for part in reversed(tree.parts):
                next_index = self.add(part, next_index)
            return next_index
        if isinstance(tree, Alternation):
            return self._append(Fork(tuple(self.add(part, next_index) for part in tree.parts)))
        if isinstance(tree, Repetition):
            return self._add_repetition(tree, next_index)
        mask = self._alphabet.columns(tree.characters)
        if isinstance(tree, CharClass):
            return self._append(CharStep(mask, next_index, consumes=True))
        if tree.at_end:
            mask |= self._alphabet.end
        return self._append(CharStep(mask, next_index, consumes=False))

    def _add_repetition(self, tree: Repetition, next_index: int) -> int:
        exit_index = next_index
        if tree.possessive:  # leave the repetition only before a character that it cannot repeat
            [repeated] = sets_of(tree.part)
            exit_index = self.add(Ahead(~repeated, at_end=True), next_index)
        if tree.most is None:
            next_index = self._append(Fork(()))  # completed once the index of the part is known
            part_index = self.add(tree.part, next_index)
            self.instructions[next_index] = Fork((part_index, exit_index))
        else:
            for _ in range(tree.most - tree.least):
                part_index = self.add(tree.part, next_index)
                next_index = self._append(Fork((part_index, exit_index)))
        for _ in range(tree.least):
            next_index = self.add(tree.part, next_index)
        return next_index

    def _append(self, instruction: CharStep | Fork) -> int:
        self.instructions.append(instruction)
        return len(self.instructions) - 1


def _follow_threads(
    threads: List[int], instructions: Instructions, n_columns: int
) -> tuple[list[tuple[int, int]], int]:
    """Execute the threads of a state, up to the steps that consume a character.

    Return these steps, preferred ones first, as pairs of a mask of columns and the index of the
    next instruction; and the mask of columns before which a match ends. All columns are followed at
    once: a look-ahead, an instruction already executed, and a preferred match each remove columns.
    """
    steps = list[tuple[int, int]]()
    match_mask = 0
    executed_masks = defaultdict[int, int](int)  # instruction → the columns it was executed for
    every_column = (1 << n_columns) - 1
    waiting = [(index, every_column) for index in reversed(threads)]
    while waiting:
        index, mask = waiting.pop()
        mask &= ~(executed_masks[index] | match_mask)
        if not mask:
            continue
        executed_masks[index] |= mask
        instruction = instructions[index]
        if isinstance(instruction, Accept):
            match_mask |= mask
        elif isinstance(instruction, Fork):
            waiting.extend((index, mask) for index in reversed(instruction.next_indices))
        elif instruction.consumes:
            steps.append((mask & instruction.column_mask, instruction.next_index))
        else:
            waiting.append((instruction.next_index, mask & instruction.column_mask))
    return steps, match_mask


def _merge_equivalent_states(moves: Ints, *, start: int) -> Automaton:
    """Merge states that no text distinguishes, by Moore's algorithm.

    Groups of states are divided until all states of a group move to the same groups.
    """
    next_states = moves >> 1
    ends_match = moves & 1
    group_of = np.zeros(len(moves), np.int64)
    n_groups = 0
    while True:
        moves_to_groups = 2 * group_of[next_states] + ends_match
        _, examples, inverse = np.unique(
            moves_to_groups, axis=0, return_index=True, return_inverse=True
        )
        group_of = inverse.reshape(-1)  # numpy 2.0 gives it a second axis
        if len(examples) == n_groups:
            merged = 2 * group_of[next_states[examples]] + ends_match[examples]
            return Automaton(merged.astype(np.int32), int(group_of[start]))
        n_groups = len(examples)


def is_linear(automaton: Automaton) -> bool:
    """Check that only a limited number of searches can overrun the same character (see the module).

    This takes time quadratic in the number of states. Raises ConfigError if it would take too long.
    """
    moves: list[list[int]] = automaton.moves.tolist()
    next_without_match = list[set[int]]()
    states_after_match = {automaton.start}
    for row in moves:
        live = [move for move in row if move > 1]  # moves to a state other than 0
        next_without_match.append({move >> 1 for move in live if not move & 1})
        states_after_match.update(move >> 1 for move in live if move & 1)
    fails_now = {state for state, row in enumerate(moves) if 0 in row}
    can_fail = leading_to(fails_now, next_without_match)  # without a further match
    overrunning = closure(states_after_match, next_without_match.__getitem__) & can_fail

    def next_pairs(pair: Pair, *, may_match: bool = True) -> Iterable[Pair]:
        """Yield the pairs after one character that the earlier search overruns.

        may_match: whether a match of the later search may end before the character
        """
        earlier, later = pair
        for earlier_move, later_move in zip(moves[earlier], moves[later], strict=True):
            overruns = earlier_move > 1 and not earlier_move & 1 and earlier_move >> 1 in can_fail
            if overruns and later_move > 1 and (may_match or not later_move & 1):
                yield earlier_move >> 1, later_move >> 1

    pairs = closure({(state, automaton.start) for state in overrunning}, next_pairs)
    both_overrun = [pair for pair in pairs if pair[1] in can_fail]
    arrows = {pair: set(next_pairs(pair, may_match=False)) for pair in both_overrun}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError:
        return False
    return True


def leading_to(targets: set[int], next_states: List[Iterable[int]]) -> set[int]:
    """Return the states from which a path leads to one of `targets`, and the targets.

    next_states: the next states of each state
    """
    previous = defaultdict[int, set[int]](set)
    for state, after in enumerate(next_states):
        for next_state in after:
            previous[next_state].add(state)
    return closure(targets, previous.__getitem__)


def closure(items: set[T], next_items: Callable[[T], Iterable[T]]) -> set[T]:
    """Return the items of a set and all items that follow them, directly or indirectly.

    next_items: returns the items that directly follow an item
    Raises ConfigError for more than MOST_PAIRS items.
    """
    result = set(items)
    waiting = list(items)
    while waiting:
        for item in set(next_items(waiting.pop())) - result:
            result.add(item)
            waiting.append(item)
        if len(result) > MOST_PAIRS:
            raise ConfigError(
                f"a pattern has more than {MOST_PAIRS:,} pairs of states, so checking that it splits "
                "long lines in linear time takes too long; repeat fewer times, as in .{100} for "
                ".{1000}, or use several splits"
            )
    return result
