"""Words that are left out → how often each two characters stand side by side in them, which is all that is kept of them.

What a merge would have gained from these words is thereby known from above: a pair of tokens (x, y) occurs in them, at
whatever step, at most as often as the last character of x stands before the first of y. `volt.learn.certain` tells from
this how many merges the words could not have changed.

There are at most 2^18 pairs of characters. Of more, the rarest are forgotten, and `rest` is the most that one of them
may have come; it is 0 as long as none is forgotten.

>>> rare = left_out_pairs(pl.DataFrame({"word": ["low", "wow"], "count": [1, 2]}))
>>> rare.of("o", "w"), rare.of("w", "o"), rare.of("", "w"), rare.of("a", "b"), rare.most
(3, 2, 2, 0, 3)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from volt.text.markers import PREFIX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from volt.text.markers import Marker

MOST_COUNT = 2**60  # beyond it, no count is told
_START = 0x110000  # before the first character of a word; no code point
_BITS, _LAST = 21, (1 << 21) - 1  # of a code point
_MOST_PAIRS, _ROWS = 1 << 18, 1 << 16  # words at a time
_PAIR, _COUNT = pl.col("pair"), pl.col("count")


@dataclass(frozen=True, slots=True, eq=False)
class LeftOutPairs:
    """How often each two characters stand side by side in words that are left out, at most.

    table: columns pair (Int64, first << 21 | second, of their code points) and count (Int64), sorted by pair; the first
        may be the start of a word
    rest: how often any other pair comes at most
    """

    table: pl.DataFrame
    rest: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LeftOutPairs):
            return NotImplemented
        return self.rest == other.rest and self.table.equals(other.table)

    def __hash__(self) -> int:
        return hash((self.rest, self.table.height))

    def __add__(self, other: LeftOutPairs) -> LeftOutPairs:
        """Those of both. A pair that one of them does not hold came as often as its `rest` there, at most."""
        if self.most + other.most > MOST_COUNT:
            return UNKNOWN
        rest = self.rest + other.rest
        above = [one.table.with_columns(_COUNT - one.rest) for one in (self, other)]
        return _folded(_added(pl.concat(above)).with_columns(_COUNT + rest), rest)

    @property
    def most(self) -> int:
        """How often the commonest pair comes."""
        return max(self.rest, *self.table["count"].top_k(1), 0)

    def of(self, first: str, second: str) -> int:
        """How often two characters stand side by side at most. first: may be empty, for the start of a word

        >>> NOTHING.of("a", "b"), UNKNOWN.of("a", "b") == 2**60
        (0, True)
        """
        key = (ord(first) if first else _START) << _BITS | ord(second)
        found = self.table.filter(key == _PAIR)["count"]
        return int(found[0]) if len(found) else self.rest

    def seams(self, marker: Marker) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """(n,) int64 pairs, in order, (n,) int64 counts, and the rest. With the marker "prefix" words start with "▁".

        >>> pairs, counts, rest = left_out_pairs(pl.DataFrame({"word": ["ab"], "count": [3]})).seams("prefix")
        >>> [chr(pair >> 21) + chr(pair & 2**21 - 1) for pair in pairs.tolist()], counts, rest
        (['ab', '▁a'], array([3, 3]), 0)
        """
        pairs, counts = (self.table[name].to_numpy().copy() for name in ("pair", "count"))
        if marker != "prefix":
            n_pairs = np.searchsorted(pairs, _START << _BITS)
            return pairs[:n_pairs], counts[:n_pairs], self.rest
        is_start = pairs >> _BITS == _START
        pairs[is_start] = pairs[is_start] & _LAST | ord(PREFIX) << _BITS
        found, places = np.unique(pairs, return_inverse=True)
        sums = np.full(len(found), self.rest, np.int64)  # where text holds "▁", this and the start may be one pair
        np.add.at(sums, places, counts)
        return found, sums, 2 * self.rest


_EMPTY = pl.DataFrame(schema={"pair": pl.Int64, "count": pl.Int64})
NOTHING, UNKNOWN = LeftOutPairs(_EMPTY, 0), LeftOutPairs(_EMPTY, MOST_COUNT)


def left_out_pairs(table: pl.DataFrame) -> LeftOutPairs:
    """Those of words that are left out.

    table: columns word and count
    """
    found = NOTHING
    for rows in table.iter_slices(_ROWS):
        found += _of_rows(rows)
    return found


def _of_rows(table: pl.DataFrame) -> LeftOutPairs:
    lengths, counts = table["word"].str.len_chars().to_numpy().astype(np.int64), table["count"].to_numpy()
    if float(lengths @ counts.astype(float)) > MOST_COUNT:
        return UNKNOWN
    second = np.frombuffer("".join(table["word"]).encode("utf-32-le"), np.uint32).astype(np.int64)
    first = np.concatenate([[_START], second[:-1]])
    first[np.cumsum(lengths)[:-1]] = _START
    rows = pl.DataFrame({"pair": first << _BITS | second, "count": np.repeat(counts, lengths)})
    return _folded(_added(rows), 0)


def _added(rows: pl.DataFrame) -> pl.DataFrame:
    """The same with each pair once, in any order."""
    return rows.group_by("pair").agg(_COUNT.sum())


def _folded(table: pl.DataFrame, rest: int) -> LeftOutPairs:
    """The commonest pairs, of equally common ones those of lower code points. No count is below `rest`."""
    if table.height > _MOST_PAIRS:
        table = table.sort(-_COUNT, _PAIR)
        table, rest = table.head(_MOST_PAIRS), int(table["count"][_MOST_PAIRS])
    return LeftOutPairs(table.sort("pair"), rest)
