r"""Find where a text may be divided, so that the parts, split one by one, have the text's words.

    "It's so;\n\n x = 1"                   a text
    "It's"  " so;\n\n"  " x"  " ="  " 1"   its units for the pattern cl100k

The parts are called *units*; the encoder splits each distinct unit once. All units but the first
begin with a *break*: a character of ASCII white space. A text may be divided between a character
and a break if three facts hold for the automata of the splits (see volt.text.patterns.automaton):

1. After the character, each search (for a match that starts at one place) moves at the break as it
   moves at the end of a text. So matches end before the break in the text as in the unit alone.
2. Each search that starts at the break finds a match. So no unmatched text, which would be one
   word, extends over the break.
3. No split that reads backwards consumes the break.

Fact 1 depends on the class of the character, and on the break. A *free* break satisfies it after
every class that contains more than white space. A *clinging* break satisfies it after letters, but
not after every such class: for cl100k, ";\n\n" is one word, so "\n" clings to ";". All other
characters of ASCII white space are not breaks. White space after which no fact is known *glues*: a
unit continues over all breaks after it.

A text may also be divided after a clinging break, whatever precedes it, if free breaks, or none,
and then a character of a class that *starts lines* follow: ";\n\n" and "  x" are two units. If all
splits read forwards, fact 2 for the character and a fourth fact suffice:

4. A search that has consumed the clinging break finds no match that ends after it, and ends before
   the character. It finds a match that ends there if and only if it does so at the end of a text.

With several splits, or user tokens, a search may also reach the end of its text between the break
and the character. For cl100k, in which "\n  " is one word at the end of a text, no line starts at a
user token.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from volt.array_types import Array, Bytes, Flags
from volt.text.atoms import SPACE
from volt.text.patterns.automaton import closure
from volt.text.white_space import WHITE_SPACE, build_bit_mask, select_ascii

if TYPE_CHECKING:
    from volt.kernels.regex_cutting import SplitTables


@dataclass(frozen=True, eq=False, slots=True)
class SplitPoints:
    """The places at which a text may be divided into units.

    break_mask: bit b is set if byte b is a break
    clinging_mask: bit b is set if byte b is a clinging break
    class_effects: (n_classes,) uint8, how a character of each class affects the break after it:
        PARTS     the unit ends before the break
        JOINS     the unit includes clinging breaks that follow, and the text and breaks after them
        GLUES     white space: the unit includes all breaks that follow, and the text after them
        + STARTS_LINE if the class starts lines, except at a user token
        + 2 · STARTS_LINE if it starts lines at a user token, too
    words_stand_alone: whether each word of a unit, split alone, is one word
    glues_white_space: whether all white space glues, except breaks
    drops_text: whether text between matches is dropped, and there may be any
    """

    break_mask: int
    clinging_mask: int
    class_effects: Bytes
    words_stand_alone: bool
    glues_white_space: bool
    drops_text: bool


def find_split_points(tables: SplitTables, *, matches_only: bool = False) -> SplitPoints | None:
    """Return the split points of a sequence of splits; None if a space is not a free break.

    tables: the automata of the splits, see volt.kernels.regex_cutting
    matches_only: whether text between matches is dropped

    >>> from volt.text.patterns.published import named_splitter
    >>> find_split_points(named_splitter("digits3").tables) is None  # a word may contain spaces
    True
    """
    from volt.kernels.pretokenize import GLUES, JOINS, PARTS, STARTS_LINE

    moves = _Moves(tables)
    safe_classes = dict[int, Flags]()  # break → the classes after which fact 1 holds
    for byte in select_ascii(WHITE_SPACE):
        if moves.begins_words(byte, matches_only=matches_only):
            safe_classes[byte] = moves.find_safe_classes(byte)

    letter_class = tables.classes[ord("a")]
    free = list[int]()
    clinging = list[int]()
    for byte, is_safe in safe_classes.items():
        if is_safe[moves.holds_text].all():
            free.append(byte)
        elif is_safe[letter_class]:
            clinging.append(byte)
    if ord(" ") not in free:
        return None

    is_safe_for_all = np.all(list(safe_classes.values()), axis=0)
    is_safe_for_free = np.all([safe_classes[byte] for byte in free], axis=0)
    effects = np.full(tables.end, PARTS, np.uint8)
    effects[~is_safe_for_all] = JOINS
    effects[~is_safe_for_free] = GLUES
    other_white = [ord(space) for space in WHITE_SPACE if ord(space) not in free + clinging]
    glues_white_space = bool((effects[tables.classes[other_white]] == GLUES).all())
    words_stand_alone = False
    if not moves.has_backward_split:
        words_stand_alone = moves.leave_words_alone(matches_only=matches_only)
        effects += STARTS_LINE * moves.find_line_starts(free, clinging, matches_only=matches_only)
    return SplitPoints(
        break_mask=build_bit_mask(free + clinging),
        clinging_mask=build_bit_mask(clinging),
        class_effects=effects,
        words_stand_alone=words_stand_alone,
        glues_white_space=glues_white_space,
        drops_text=matches_only and not moves.match_all_text(),
    )


def white_last_bytes(breaks: int, *, glues_mark: bool) -> Bytes:
    """Return (256,), 1 for the last byte of each character of white space that is not a break.

    breaks: bit b is set if byte b is a break;  glues_mark: whether to include "▁"
    """
    characters = [character for character in WHITE_SPACE if not breaks >> ord(character) & 1]
    if glues_mark:
        characters.append(SPACE)
    result = np.zeros(256, np.uint8)
    result[[character.encode()[-1] for character in characters]] = 1
    return result


class _Moves:
    """The automata of all splits, as matrices (n_states, n_classes + 1).

    A row is a state; state 0 ends a search. A column is the class of the next character; the last
    column is the end of the text.

    next_states: the state after the character
    ends_match: whether a match ends before the character
    moves_as_at_end: whether both are as at the end of the text
    """

    def __init__(self, tables: SplitTables) -> None:
        n_columns = tables.end + 1
        # a table's entry is 2 · (index of the next state's row) + (1 if a match ends)
        moves = tables.moves.reshape(-1, n_columns)
        self.n_classes = tables.end
        self.class_of = tables.classes
        self.moves = moves
        self.next_states = moves // (2 * n_columns)
        self.ends_match = moves & 1 == 1
        self.moves_as_at_end = moves == moves[:, [-1]]

        forward = tables.splits[tables.splits & 1 == 0]
        self.start_states = forward // (2 * n_columns)  # of splits that read forwards
        self.has_backward_split = len(forward) < len(tables.splits)

    @cached_property
    def holds_text(self) -> Flags:
        """(n_classes,) bool, whether each class contains more than white space."""
        white_space = self.class_of[list(map(ord, WHITE_SPACE))]
        n_white = np.bincount(white_space, minlength=self.n_classes)
        n_characters = np.bincount(self.class_of, minlength=self.n_classes)
        return np.asarray(n_characters > n_white)

    @cached_property
    def always_match(self) -> Flags:
        """(n_states,) bool, whether a search in each state finds a match, whatever text follows."""
        result = np.arange(len(self.next_states)) > 0
        while True:  # remove states from which some text leads to no match
            remaining = result & (self.ends_match | result[self.next_states]).all(axis=1)
            if np.array_equal(remaining, result):
                return result
            result = remaining

    def states_after(self, class_index: int) -> Array:
        """Return the states, except 0, that a search can be in after a character of a class."""
        states = np.unique(self.next_states[:, class_index])
        return states[states > 0]

    def find_safe_classes(self, byte: int) -> Flags:
        """Return (n_classes,) bool, after which classes fact 1 holds for a break."""
        is_same = self.moves_as_at_end[:, self.class_of[byte]]
        flags = [is_same[self.states_after(index)].all() for index in range(self.n_classes)]
        return np.array(flags, np.bool_)

    def begins_words(self, byte: int, *, matches_only: bool) -> bool:
        """Check facts 2 and 3 for a break. Fact 2 is not needed if unmatched text is dropped."""
        column = self.class_of[byte]
        if self.has_backward_split and not self.moves_as_at_end[1:, column].all():
            return False
        return matches_only or bool(self._always_begins_match[column])

    @cached_property
    def _always_begins_match(self) -> Flags:
        """(n_classes,) bool, whether a split finds a match wherever a class begins (fact 2)."""
        states = self.next_states[self.start_states, : self.n_classes]
        return np.asarray(self.always_match[states].any(axis=0))

    def find_line_starts(
        self, free: list[int], clinging: list[int], *, matches_only: bool
    ) -> Bytes:
        """Return (n_classes,), 0 for classes that do not start lines, 1 for classes that start
        lines except at user tokens, 2 for classes that start all lines.

        All splits must read forwards.
        """
        free_columns = self.class_of[free]
        after_clinging = set(self.next_states[:, self.class_of[clinging]].ravel().tolist())

        def states_after_free(state: int) -> list[int]:
            states: list[int] = self.next_states[state, free_columns].tolist()
            return states

        here = list(after_clinging - {0})
        first = set(chain.from_iterable(map(states_after_free, here)))
        later = list(closure(first, states_after_free) - {0})
        is_end = self.ends_match[here] == self.ends_match[here][:, [-1]]
        ends = is_end.all(axis=0) & ~self.ends_match[later].any(axis=0)
        if not ends[free_columns].all() or not (ends[-1] or len(self.start_states) == 1):
            return np.zeros(self.n_classes, np.uint8)

        is_dead = (self.next_states[here + later] == 0).all(axis=0)
        starts_line = (ends & is_dead)[: self.n_classes]
        if not matches_only:
            starts_line &= self._always_begins_match
        return np.asarray(starts_line * np.uint8(1 + ends[-1]))

    def leave_words_alone(self, *, matches_only: bool) -> bool:
        """Check that a word, split alone, is one word, if all splits read forwards.

        All splits but the last must match runs, so that a part of their words is one word. A match
        must also end where a text ends. Unmatched text must not match where a text ends, unless it
        is dropped.
        """
        can_end = self.ends_match.any(axis=1)
        if not self.ends_match[can_end, -1].all():
            return False
        *starts, last = self.start_states.tolist()
        if not all(map(self._matches_runs, starts)):
            return False
        if matches_only:
            return True

        def states_without_match(state: int) -> list[int]:
            states: list[int] = self.next_states[state, ~self.ends_match[state]].tolist()
            return states

        unmatched = list(closure({last}, states_without_match))
        return bool((self.always_match | ~self.ends_match[:, -1])[unmatched].all())

    def _matches_runs(self, start: int) -> bool:
        """Check that a split matches all runs of certain characters, up to a length.

        start: the state in which the split starts
        """
        reached = closure({start}, lambda state: self.next_states[state].tolist())
        states = [state for state in reached if state > 0]
        is_member = self.next_states[start] > 0
        inside = self.moves[states][:, is_member]
        outside = self.moves_as_at_end[states][:, ~is_member]
        is_end = self.ends_match[states, -1] | (np.array(states) == start)
        return bool((inside == inside[:, :1]).all() and outside.all() and is_end.all())

    def match_all_text(self) -> bool:
        """Check that each search finds a match, whatever text it starts at."""
        states = self.next_states[self.start_states, : self.n_classes]
        return bool(self.always_match[states].all())
