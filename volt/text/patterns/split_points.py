r"""Points where a text may be divided into units: each unit, split alone, gives the words that it has in the text.

    It's so;\n\n x = 1      the text
    It's| so;\n\n| x| =| 1   its units for cl100k; each but the first begins with white space

Dividing is safe between a character x and white space b (a "break") if the automata show three facts:

    no search continues from x to b                the moves after x are equal for b and for the end of the text
    each search from b matches                     otherwise, unmatched text could extend over the point
    no split that reads backwards matches b        otherwise, its match could extend over the point
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.text.white_space import WHITE_SPACE, ascii_bytes, bits_of

if TYPE_CHECKING:
    from volt.kernels.regex_cutting import SplitTables

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class SplitPoints:
    """How a text may be divided into units. A class of characters has one of these effects on a break after it:
    PARTS       the unit ends before the break
    CARRIES     the unit takes all clinging breaks that follow, and ends after these
    JOINS       the unit extends over clinging breaks to the next text and breaks
    LASTS       white space: if one break and then text follow, or the text ends, the unit has the words it has alone
    DEPENDS     white space: the words of the unit depend on the text after it
    """

    breaks: int  # bit b is set if units may begin with byte b
    clinging: int  # bit b is set if byte b is a clinging break: some characters before it do not end their unit
    kinds: NDArray[np.uint8]  # (n_classes,), the kind of each class before a break
    alone: bool  # whether each word of a unit would be one word if it were the whole text

    def with_ends_inside(self) -> SplitPoints:
        """Return split points for texts with user tokens: for the splits, the text ends before each of these."""
        from volt.kernels.pretokenize import CARRIES, DEPENDS, JOINS, LASTS

        kinds = self.kinds.copy()
        kinds[kinds == CARRIES] = JOINS
        kinds[kinds == LASTS] = DEPENDS
        return replace(self, kinds=kinds)


def parting_of(tables: SplitTables, *, matches_only: bool = False) -> SplitPoints | None:
    """Return the split points of these splits; None if not even spaces separate units.

    >>> from volt.text.patterns.published import named_splitter
    >>> parting_of(named_splitter("digits3").tables) is None  # text between digits may contain any white space
    True
    """
    moves = _Moves(tables, matches_only)
    breaks = filter(moves.begins_words, ascii_bytes(WHITE_SPACE))
    safe = {byte: moves.parts(byte) for byte in breaks}
    free = [byte for byte, parts in safe.items() if parts[moves.holds_text].all()]
    if ord(" ") not in free:
        return None
    letter = tables.classes[ord("a")]
    clinging = [byte for byte, parts in safe.items() if byte not in free and parts[letter]]
    kinds = [moves.kind(number, safe, free, clinging) for number in range(tables.end)]
    alone = moves.leave_words_alone
    breaks_of_units = bits_of(free + clinging)
    return SplitPoints(breaks_of_units, bits_of(clinging), np.array(kinds, np.uint8), alone)


class _Moves:
    """The moves of all splits: a row for each state.

    of: (n_rows, n_columns) int64, the moves: 2 · (the next row) + (1 if a match ends here)
    """

    def __init__(self, tables: SplitTables, matches_only: bool) -> None:
        width = tables.end + 1
        flat = tables.moves.astype(np.int64)
        self.of: Rows = ((flat >> 1) // width * 2 + (flat & 1)).reshape(-1, width)
        self.classes = tables.classes
        self.end = tables.end
        self.matches_only = matches_only
        is_backward = tables.splits & 1 == 1
        self.starts = ((tables.splits >> 1) // width)[~is_backward]
        self.backwards = bool(is_backward.any())
        self.is_one = len(tables.splits) == 1 and not self.backwards

    @cached_property
    def holds_text(self) -> NDArray[np.bool_]:
        """(n_classes,) bool, the classes that contain more than white space."""
        n_characters = np.bincount(self.classes, minlength=self.end)
        white_space = self.classes[list(map(ord, WHITE_SPACE))]
        return np.asarray(n_characters > np.bincount(white_space, minlength=self.end))

    def rows_after(self, number: int) -> Rows:
        rows = np.unique(self.of[:, number] >> 1)
        return rows[rows > 0]

    def _alike(self, rows: Rows, byte: int) -> bool:
        """Check whether white space has the same moves in these rows as the end of the text: then searches stop."""
        return bool((self.of[rows, self.classes[byte]] == self.of[rows, self.end]).all())

    def parts(self, byte: int) -> NDArray[np.bool_]:
        """Return (n_classes,) whether no search continues from a character of each class to this break."""
        rows_after = map(self.rows_after, range(self.end))
        return np.array([self._alike(rows, byte) for rows in rows_after], np.bool_)

    def begins_words(self, byte: int) -> bool:
        """Check that every search from this break matches, and that no backward split has it in a match."""
        if self.backwards and not self._alike(np.arange(1, len(self.of)), byte):
            return False
        after = self.of[self.starts, self.classes[byte]] >> 1
        return self.matches_only or bool(self.is_sure[after].any())

    @cached_property
    def is_sure(self) -> NDArray[np.bool_]:
        """(n_rows,) bool, the rows from which every search finds a match."""
        result = np.arange(len(self.of)) > 0
        before = np.zeros_like(result)
        while (result != before).any():
            before = result
            result = before & ((self.of & 1 == 1) | before[self.of >> 1]).all(axis=1)
        return result

    def kind(
        self, number: int, safe: dict[int, NDArray[np.bool_]], free: list[int], clinging: list[int]
    ) -> int:
        from volt.kernels.pretokenize import CARRIES, DEPENDS, JOINS, LASTS, PARTS

        if all(parts[number] for parts in safe.values()):
            return PARTS
        if not all(safe[byte][number] for byte in free):
            return LASTS if self._lasts(number, free) else DEPENDS
        return CARRIES if self._carries(number, free, clinging) else JOINS

    def _carries(self, number: int, free: list[int], clinging: list[int]) -> bool:
        """Check that a match extends from this class over all following clinging breaks, but not over free ones."""
        columns = self.classes[clinging]
        rows = self.rows_after(number)
        rows = rows[self.of[np.ix_(rows, columns)].any(axis=1)]
        if not self.is_one or self.of[self.starts[0], number] >> 1 not in rows:
            return False
        met = set[int]()
        while len(rows):
            rows = np.unique(self.of[np.ix_(rows, columns)] >> 1)
            if not self.is_sure[rows].all():
                return False
            rows = np.array([row for row in rows.tolist() if row not in met], np.int64)
            met.update(rows.tolist())
        return all(self._alike(np.array(sorted(met)), byte) for byte in free)

    def _lasts(self, number: int, free: list[int]) -> bool:
        """Check that words after this class end before a break and text as they do at the end of the text."""
        if not self.is_one:
            return False
        rows = self.rows_after(number)
        moves = self.of[np.ix_(rows, self.classes[free])]
        if ((moves ^ self.of[rows, self.end, None]) & 1).any():
            return False
        after = np.unique(moves >> 1)
        continued = self.of[np.ix_(after[after > 0], np.flatnonzero(self.holds_text))]
        return not continued.any()

    @property
    def leave_words_alone(self) -> bool:
        if not self.is_one:
            return False
        matches = self.of & 1
        ends_alike = (matches.any(axis=1) <= (matches[:, self.end] == 1)).all()
        after = self.of[self.starts, : self.end] >> 1
        return bool(ends_alike and (self.matches_only or self.is_sure[after].all()))
