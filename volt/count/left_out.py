"""Words that are left out → how often each two characters stand side by side in them, which is all that is kept.

What a merge would have gained from these words is thereby known from above: a pair of tokens occurs in them, at
whatever step, at most as often as any two characters do that are neighbours within it. `volt.learn.certain` tells from
this how many merges the words could not have changed.

    pair = first << 22 | second << 1 | whether the second is the last of its word

The first may be the start of a word. There are at most 2^18 pairs. Of more, the rarest are forgotten, and `rest` is the
most that one of them may have come; it is 0 as long as none is forgotten.

>>> rare = left_out_pairs(pl.DataFrame({"word": ["low", "wow"], "count": [1, 2]}))
>>> rare.table.height, rare.rest, rare.most  # two starts, "lo", "wo", and "ow" at an end
(5, 0, 3)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from volt.text.characters import PREFIX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from volt.text.characters import Marker

MOST_COUNT = 2**59  # beyond it, no count is told
_BITS = 22  # of the second character
_START = 0x110000  # before the first character of a word; no code point
_MOST_PAIRS, _ROWS = 1 << 18, 1 << 16  # words at a time
_PAIR, _COUNT = pl.col("pair"), pl.col("count")


@dataclass(frozen=True, slots=True, eq=False)
class LeftOutPairs:
    """How often each two characters stand side by side in words that are left out, at most.

    table: columns pair and count (both Int64), sorted by pair
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
        return max(self.rest, int(self.table.select(_COUNT.max()).item() or 0))

    def seams(self, marker: Marker) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return the same of atoms: (n,) int64 pairs, in order, (n,) int64 counts, and the rest.

        A pair is the first's code point << 22 | the code of the second as an atom.
        Where words have no end marker, characters count wherever they stand; with the
        marker "prefix" words start with "▁".

        >>> pairs, counts, rest = left_out_pairs(pl.DataFrame({"word": ["ab"], "count": [3]})).seams("prefix")
        >>> [chr(pair >> 22) + chr((pair & 2**22 - 1) >> 1) for pair in pairs.tolist()], counts, rest
        (['ab', '▁a'], array([3, 3]), 0)
        """
        pairs, counts = (self.table[name].to_numpy().copy() for name in ("pair", "count"))
        is_start, n_alike = pairs >> _BITS == _START, {"suffix": 1, "none": 2, "prefix": 4}[marker]
        if marker == "prefix":
            pairs[is_start] += (ord(PREFIX) - _START) << _BITS
        else:
            pairs, counts = pairs[~is_start], counts[~is_start]
        result, places = np.unique(pairs if marker == "suffix" else pairs & ~1, return_inverse=True)
        sums = np.full(len(result), (n_alike - 1) * self.rest, np.int64)  # for those that become one with these
        np.add.at(sums, places, counts)
        return result, sums, n_alike * self.rest


_EMPTY = pl.DataFrame(schema={"pair": pl.Int64, "count": pl.Int64})
NOTHING, UNKNOWN = LeftOutPairs(_EMPTY, 0), LeftOutPairs(_EMPTY, MOST_COUNT)


def left_out_pairs(table: pl.DataFrame) -> LeftOutPairs:
    """Those of words that are left out.

    table: columns word and count
    """
    result = NOTHING
    for rows in table.iter_slices(_ROWS):
        result += _of_rows(rows)
    return result


def _of_rows(table: pl.DataFrame) -> LeftOutPairs:
    lengths, counts = table["word"].str.len_chars().to_numpy().astype(np.int64), table["count"].to_numpy()
    if float(lengths @ counts.astype(float)) > MOST_COUNT:
        return UNKNOWN
    second = np.frombuffer(table["word"].str.join("").item().encode("utf-32-le"), np.uint32).astype(np.int64)
    first, ends = np.concatenate([[_START], second[:-1]]), np.cumsum(lengths)
    first[ends[:-1]] = _START
    pairs = first << _BITS | second << 1
    pairs[ends - 1] += 1
    rows = pl.DataFrame({"pair": pairs, "count": np.repeat(counts, lengths)})
    return _folded(_added(rows), 0)


def _added(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("pair").agg(_COUNT.sum())


def _folded(table: pl.DataFrame, rest: int) -> LeftOutPairs:
    """Return the commonest pairs, of equally common ones those of lower code points. No count is below `rest`."""
    if table.height > _MOST_PAIRS:
        table = table.sort(-_COUNT, _PAIR)
        table, rest = table.head(_MOST_PAIRS), int(table["count"][_MOST_PAIRS])
    return LeftOutPairs(table.sort("pair"), rest)
