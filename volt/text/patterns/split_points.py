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
        kinds[kinds == CARRIES], kinds[kinds == LASTS] = JOINS, DEPENDS
        return replace(self, kinds=kinds)


def parting_of(tables: SplitTables, *, matches_only: bool = False) -> SplitPoints | None:
    """Return the split points of these splits; None if not even spaces separate units.

    >>> from volt.text.patterns.published import named_splitter
    >>> parting_of(named_splitter("digits3").tables) is None  # text between digits may contain any white space
    True
    """
    moves = _Moves(tables, matches_only)
    safe = {
        byte: moves.parts(byte) for byte in ascii_bytes(WHITE_SPACE) if moves.begins_words(byte)
    }
    free = [byte for byte, parts in safe.items() if parts[moves.holds_text].all()]
    letter = tables.classes[ord("a")]
    clinging = [byte for byte, parts in safe.items() if byte not in free and parts[letter]]
    if ord(" ") not in free:
        return None
    kinds = [moves.kind(number, safe, free, clinging) for number in range(tables.end)]
    return SplitPoints(
        bits_of(free + clinging),
        bits_of(clinging),
        np.array(kinds, np.uint8),
        alone=moves.leave_words_alone,
    )


class _Moves:
    """The moves of all splits: a row for each state.

    of: (n_rows, n_columns) int64, the moves: 2 · (the next row) + (1 if a match ends here)
    """

    def __init__(self, tables: SplitTables, matches_only: bool) -> None:
        width = tables.end + 1
        flat = tables.moves.astype(np.int64)
        self.of: Rows = ((flat >> 1) // width * 2 + (flat & 1)).reshape(-1, width)
        self.tables, self.matches_only, self.end = tables, matches_only, tables.end
        places, backwards = tables.splits >> 1, tables.splits & 1
        self.starts = (places // width)[backwards == 0].tolist()
        self.backwards = bool(backwards.any())
        self.is_one = len(tables.splits) == 1 and not self.backwards

    @cached_property
    def holds_text(self) -> NDArray[np.bool_]:
        """(n_classes,) bool, the classes that contain more than white space."""
        classes = self.tables.classes.copy()
        codes = [ord(character) for character in WHITE_SPACE]
        result = np.bincount(classes, minlength=self.end) - np.bincount(
            classes[codes], minlength=self.end
        )
        return np.asarray(result > 0)

    def rows_after(self, number: int) -> Rows:
        rows = np.unique(self.of[:, number] >> 1)
        return rows[rows > 0]

    def _alike(self, rows: Rows, byte: int) -> bool:
        """Check whether white space has the same moves in these rows as the end of the text: then searches stop."""
        return bool((self.of[rows, self.tables.classes[byte]] == self.of[rows, self.end]).all())

    def parts(self, byte: int) -> NDArray[np.bool_]:
        return np.array(
            [self._alike(self.rows_after(number), byte) for number in range(self.end)], np.bool_
        )

    def begins_words(self, byte: int) -> bool:
        """Check that every search from this break matches, and that no backward split has it in a match."""
        if self.backwards and not self._alike(np.arange(1, len(self.of)), byte):
            return False
        column = self.tables.classes[byte]
        return self.matches_only or any(
            self.is_sure[self.of[start, column] >> 1] for start in self.starts
        )

    @cached_property
    def is_sure(self) -> NDArray[np.bool_]:
        """(n_rows,) bool, the rows from which every search finds a match."""
        sure = np.arange(len(self.of)) > 0
        while not (still := sure & ((self.of & 1 == 1) | sure[self.of >> 1]).all(axis=1))[
            sure
        ].all():
            sure = still
        return sure

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
        columns = self.tables.classes[clinging]
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
        moves = self.of[np.ix_(rows, self.tables.classes[free])]
        same_end = ((moves & 1) == (self.of[rows, self.end] & 1)[:, None]).all()
        after = np.unique(moves >> 1)
        return bool(
            same_end
            and not self.of[np.ix_(after[after > 0], np.flatnonzero(self.holds_text))].any()
        )

    @property
    def leave_words_alone(self) -> bool:
        matches = self.of & 1
        ends_alike = (matches.any(axis=1) <= (matches[:, self.end] == 1)).all()
        covered = self.matches_only or all(
            self.is_sure[self.of[start, number] >> 1]
            for start in self.starts
            for number in range(self.end)
        )
        return bool(self.is_one and ends_alike and covered)
