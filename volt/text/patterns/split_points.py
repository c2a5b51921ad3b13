r"""Divide a text into units: each, split alone, has the same words as in the text.

    It's so;\n\n x = 1      the text
    It's| so;\n\n| x| =| 1   its units for cl100k; each but the first begins with white space

Dividing is safe between a character x and white space b (a "break") if the automata show three
facts:

    no search continues from x to b                the moves after x are equal for b and the end
    each search from b matches                     otherwise, unmatched text could extend over it
    no split that reads backwards matches b        otherwise, its match could extend over the point
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volt.text.patterns.automaton import closure
from volt.text.white_space import WHITE_SPACE, ascii_bytes, bits_of

if TYPE_CHECKING:
    from volt.kernels.regex_cutting import SplitTables

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class SplitPoints:
    """How a text may be divided into units.

    A class of characters has one of these effects on a break after it:
    PARTS       the unit ends before the break
    CARRIES     the unit takes all clinging breaks that follow, and ends after these
    JOINS       the unit extends over clinging breaks to the next text and breaks
    LASTS       white space: before one break and text, the unit has the words it has alone
    DEPENDS     white space: the words of the unit depend on the text after it
    """

    breaks: int  # bit b is set if units may begin with byte b
    clinging: int  # bit b is set if byte b is a clinging break: not every unit ends before it
    kinds: NDArray[np.uint8]  # (n_classes,), the kind of each class before a break
    alone: bool  # whether each word of a unit would be one word if it were the whole text

    def with_ends_inside(self) -> SplitPoints:
        """Return split points for texts with user tokens, before each of which a text ends."""
        from volt.kernels.pretokenize import CARRIES, DEPENDS, JOINS, LASTS

        kinds = self.kinds.copy()
        kinds[kinds == CARRIES] = JOINS
        kinds[kinds == LASTS] = DEPENDS
        return replace(self, kinds=kinds)


def find_split_points(tables: SplitTables, *, matches_only: bool = False) -> SplitPoints | None:
    """Return the split points of these splits; None if not even spaces separate units.

    matches_only: whether text between matches is dropped

    >>> from volt.text.patterns.published import named_splitter
    >>> find_split_points(named_splitter("digits3").tables) is None  # a word may contain spaces
    True
    """
    from volt.kernels.pretokenize import CARRIES, DEPENDS, JOINS, LASTS, PARTS

    searches = _Searches(tables)
    stops = dict[int, Flags]()
    for byte in ascii_bytes(WHITE_SPACE):
        if searches.begin_words(byte, matches_only=matches_only):
            stops[byte] = searches.stop_at(byte)

    free = [byte for byte, flags in stops.items() if flags[searches.holds_text].all()]
    if ord(" ") not in free:
        return None
    letter = tables.classes[ord("a")]
    clinging = [byte for byte, flags in stops.items() if flags[letter] and byte not in free]

    stops_at_all = np.all(list(stops.values()), axis=0)
    stops_at_free = np.all([stops[byte] for byte in free], axis=0)
    kinds = np.full(tables.end, PARTS, np.uint8)
    kinds[~stops_at_all] = JOINS
    kinds[~stops_at_free] = DEPENDS
    alone = False
    if searches.is_single:
        alone = searches.leave_words_alone(matches_only=matches_only)
        for number in np.flatnonzero(kinds == JOINS).tolist():
            if searches.carry(number, free, clinging):
                kinds[number] = CARRIES
        for number in np.flatnonzero(kinds == DEPENDS).tolist():
            if searches.last(number, free):
                kinds[number] = LASTS
    return SplitPoints(bits_of(free + clinging), bits_of(clinging), kinds, alone)


class _Searches:
    """The moves of all splits: matrices with a row for each state and a column for each class.

    following: the row of the next state; row 0 has no moves
    ends_match: whether a match ends before the character
    stops: whether the search does the same as at the end of the text
    """

    def __init__(self, tables: SplitTables) -> None:
        width = tables.end + 1
        moves = tables.moves.reshape(-1, width)
        self.end = tables.end
        self.classes = tables.classes
        self.following = moves // (2 * width)
        self.ends_match = moves & 1 == 1
        self.stops = moves == moves[:, [self.end]]

        forward = tables.splits[tables.splits & 1 == 0]
        self.starts = forward // (2 * width)
        self.has_backward = len(forward) < len(tables.splits)
        self.is_single = len(forward) == len(tables.splits) == 1

    @cached_property
    def holds_text(self) -> Flags:
        """(n_classes,), the classes that contain more than white space."""
        white_space = self.classes[list(map(ord, WHITE_SPACE))]
        n_white = np.bincount(white_space, minlength=self.end)
        return np.asarray(np.bincount(self.classes, minlength=self.end) > n_white)

    @cached_property
    def is_sure(self) -> Flags:
        """(n_rows,), the rows from which every search finds a match."""
        result = np.arange(len(self.following)) > 0
        while True:
            sure = result & (self.ends_match | result[self.following]).all(axis=1)
            if np.array_equal(sure, result):
                return result
            result = sure

    def rows_after(self, number: int) -> NDArray[Any]:
        """Return the rows that searches can be in after a character of a class."""
        rows = np.unique(self.following[:, number])
        return rows[rows > 0]

    def stop_at(self, byte: int) -> Flags:
        """Return (n_classes,) whether no search continues from each class to this break."""
        stops = self.stops[:, self.classes[byte]]
        flags = [stops[self.rows_after(number)].all() for number in range(self.end)]
        return np.array(flags, np.bool_)

    def begin_words(self, byte: int, *, matches_only: bool) -> bool:
        """Check that searches from this break match, and that no backward split matches it."""
        column = self.classes[byte]
        if self.has_backward and not self.stops[1:, column].all():
            return False
        after = self.following[self.starts, column]
        return matches_only or bool(self.is_sure[after].any())

    def carry(self, number: int, free: list[int], clinging: list[int]) -> bool:
        """Check that a match extends over all following clinging breaks, but not over free ones."""
        columns = self.classes[clinging]
        over_breaks = self.following[:, columns]
        continues = over_breaks.any(axis=1) | self.ends_match[:, columns].any(axis=1)
        rows = self.rows_after(number)
        rows = rows[continues[rows]]
        if self.following[self.starts[0], number] not in rows:
            return False
        first = set(over_breaks[rows].reshape(-1).tolist())
        inside = list(closure(first, lambda row: over_breaks[row].tolist()))
        stops = self.stops[np.ix_(inside, self.classes[free])]
        return bool(self.is_sure[inside].all() and stops.all())

    def last(self, number: int, free: list[int]) -> bool:
        """Check that words after this class end before breaks as at the end of the text."""
        rows = self.rows_after(number)
        at_breaks = np.ix_(rows, self.classes[free])
        at_end = self.ends_match[rows, self.end]
        if (self.ends_match[at_breaks] != at_end[:, None]).any():
            return False
        after = np.unique(self.following[at_breaks])
        before_text = np.ix_(after, np.flatnonzero(self.holds_text))
        return not (self.following[before_text].any() or self.ends_match[before_text].any())

    def leave_words_alone(self, *, matches_only: bool) -> bool:
        """Check that a match also ends at the end of the text, and that each word is matched."""
        matching = self.ends_match.any(axis=1)
        if not self.ends_match[matching, self.end].all():
            return False
        after = self.following[self.starts, : self.end]
        return matches_only or bool(self.is_sure[after].all())
