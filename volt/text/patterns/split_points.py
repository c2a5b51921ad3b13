"""Where a text may be parted before it is cut by splits, so that each part gives the words that it has in the whole.

    It's so;\\n\\n x = 1      cut by cl100k
    It's| so;\\n\\n| x| =| 1   parted: in front of white space that stands behind something else

A place between a character x and white space b is safe if three things hold there. They are read off the automata:

    no search goes on from x to b                  the row of moves behind x is that of the end of the text, on b too
    what begins at b matches, whatever follows     else a stretch without a match could go on over the place
    a split that reads backwards takes no b        so that it goes on over no such place either

Most patterns meet this for spaces and every x that is no white space. For some b, here called clinging, it may hold
only behind some x: cl100k's signs take the line ends behind them along. So each class of characters is of a kind that
says how it stands in front of white space.

>>> from volt.text.patterns.published import named_splitter
>>> parting = parting_of(named_splitter("cl100k").tables)
>>> [f"{byte:#x}" for byte in range(33) if parting.clinging >> byte & 1]
['0xa', '0xd']
>>> parting_of(named_splitter("digits3").tables) is None  # what lies between digits may hold any white space
True
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.text.characters import WHITE_SPACE, ascii_bytes

if TYPE_CHECKING:
    from volt.kernels.regex_cutting import SplitTables

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class SplitPoints:
    """How a text may be parted.

    breaks: bit b is set if parts may begin with byte b
    clinging: the same for those breaks before which some characters end no part
    kinds: (n_classes,) uint8, how each class stands in front of a break (volt.kernels.pretokenize):
        PARTS       a part ends there
        CARRIES     it takes clinging breaks along, all that follow, and the part ends behind these
        JOINS       the part does not end in front of a clinging break; it goes on to the next text and breaks
        LASTS       white space: if one break and then text follow, or the end, the part has the words that it has alone
        DEPENDS     white space: what words a part has that ends so is not known from the part alone
    alone: whether each word of a part would be cut as one word if it were the whole text
    """

    breaks: int
    clinging: int
    kinds: NDArray[np.uint8]
    alone: bool

    def with_ends_inside(self) -> SplitPoints:
        """Return the same for texts in which the pattern sees ends at other places, too, as at user tokens.

        White space behind such a place begins a word, and white space before it ends one.
        """
        from volt.kernels.pretokenize import CARRIES, DEPENDS, JOINS, LASTS

        kinds = self.kinds.copy()
        kinds[kinds == CARRIES], kinds[kinds == LASTS] = JOINS, DEPENDS
        return replace(self, kinds=kinds)


def parting_of(tables: SplitTables, *, matches_only: bool = False) -> SplitPoints | None:
    """Return how texts may be parted that are cut by these splits; None if not even spaces part them.

    matches_only: whether what lies between the matches of the one split is dropped
    """
    moves = _Moves(tables, matches_only)
    safe = {byte: moves.parts(byte) for byte in ascii_bytes(WHITE_SPACE) if moves.begins_words(byte)}
    free = [byte for byte, parts in safe.items() if parts[moves.holds_text].all()]
    letter = tables.classes[ord("a")]
    clinging = [byte for byte, parts in safe.items() if byte not in free and parts[letter]]
    if ord(" ") not in free:
        return None
    kinds = [moves.kind(number, safe, free, clinging) for number in range(tables.end)]
    return SplitPoints(
        _bits(free + clinging), _bits(clinging), np.array(kinds, np.uint8), alone=moves.leave_words_alone
    )  # fmt: skip


class _Moves:
    """The moves of all splits: a row for each state, and what is asked of them.

    of: (n_rows, n_columns) int64: 2 · (the next row) + (1 if a match ends here)
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
        """Which classes hold a character that is no white space. (n_classes,)"""
        classes = self.tables.classes.copy()
        codes = [ord(character) for character in WHITE_SPACE]
        result = np.bincount(classes, minlength=self.end) - np.bincount(classes[codes], minlength=self.end)
        return np.asarray(result > 0)

    def class_of(self, byte: int) -> int:
        """Return the class of an ASCII character."""
        return int(self.tables.classes[byte])

    def _columns(self, breaks: list[int]) -> Rows:
        return np.array([self.class_of(byte) for byte in breaks], np.int64)

    def behind(self, number: int) -> Rows:
        """Return the rows in which a search can be that has read a character of this class last."""
        rows = np.unique(self.of[:, number] >> 1)
        return rows[rows > 0]

    def _alike(self, rows: Rows, byte: int) -> bool:
        """Check whether in these rows a break is as good as the end of the text. No search goes on behind that."""
        result = self.of[rows]
        return bool((result[:, self.class_of(byte)] == result[:, self.end]).all())

    def parts(self, byte: int) -> NDArray[np.bool_]:
        """Behind which classes a part may end if this break follows. (n_classes,)"""
        return np.array([self._alike(self.behind(number), byte) for number in range(self.end)], np.bool_)

    def begins_words(self, byte: int) -> bool:
        """Check whether a word begins with this break wherever a search does; and no split takes it that reads
        backwards.
        """
        if self.backwards and not self._alike(np.arange(1, len(self.of)), byte):
            return False
        return self.matches_only or any(self.is_sure[self.of[start, self.class_of(byte)] >> 1] for start in self.starts)

    @cached_property
    def is_sure(self) -> NDArray[np.bool_]:
        """In which rows a search will find a match, whatever follows. (n_rows,)"""
        sure = np.arange(len(self.of)) > 0
        while not (still := sure & ((self.of & 1 == 1) | sure[self.of >> 1]).all(axis=1))[sure].all():
            sure = still
        return sure

    def kind(self, number: int, safe: dict[int, NDArray[np.bool_]], free: list[int], clinging: list[int]) -> int:
        """Return how a class stands in front of breaks: see Parting."""
        from volt.kernels.pretokenize import CARRIES, DEPENDS, JOINS, LASTS, PARTS

        if all(parts[number] for parts in safe.values()):
            return PARTS
        if not all(safe[byte][number] for byte in free):
            return LASTS if self._lasts(number, free) else DEPENDS
        return CARRIES if self._carries(number, free, clinging) else JOINS

    def _carries(self, number: int, free: list[int], clinging: list[int]) -> bool:
        """Check whether the match that holds a character of this class takes all clinging breaks that follow, and no
        others.

        A search that has read on behind its match may fail there; the one that begins at the character may not.
        """
        columns = self._columns(clinging)
        rows = self.behind(number)
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
        """Check whether words end behind this class as at the end of the text if one break and then text follow."""
        if not self.is_one:
            return False
        rows, columns = self.behind(number), self._columns(free)
        result = self.of[np.ix_(rows, columns)]
        same_end = ((result & 1) == (self.of[rows, self.end] & 1)[:, None]).all()
        after = np.unique(result >> 1)
        return bool(same_end and not self.of[np.ix_(after[after > 0], np.flatnonzero(self.holds_text))].any())

    @property
    def leave_words_alone(self) -> bool:
        """Whether a word of any text is one word if it is the whole text."""
        matches = self.of & 1
        ends_alike = (matches.any(axis=1) <= (matches[:, self.end] == 1)).all()
        covered = self.matches_only or all(
            self.is_sure[self.of[start, number] >> 1] for start in self.starts for number in range(self.end)
        )
        return bool(self.is_one and ends_alike and covered)


def _bits(numbers: list[int]) -> int:
    """Return the integer with these bits set.

    >>> _bits([0, 3])
    9
    """
    return sum(1 << number for number in numbers)
