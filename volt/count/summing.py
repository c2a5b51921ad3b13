"""Parts of a corpus that were counted each for itself → their sum, with little more than its words in memory.

>>> parts = [CountedPart(pl.DataFrame({"word": [word], "count": [2]}), 1, 4, 0) for word in ("b", "a", "b")]
>>> summed(parts).table.rows(), summed(parts).n_lines
([('a', 2), ('b', 4)], 3)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from volt.errors import CorpusError
from volt.forks import about_to_use_polars

MAX_TOTAL = 2**63 - 1
_COMPACT_ROWS, _COMPACT_PARTS = 1 << 22, 256  # partial tables are summed when there are more
EMPTY = pl.DataFrame(schema={"word": pl.String, "count": pl.Int64})
_COUNT = pl.col("count")


class CountedPart(NamedTuple):
    """The count of a part of a corpus.

    table: columns word and count, in any order of the rows, no word twice
    n_lines, n_bytes, n_bad_lines: as in `WordCounts`
    """

    table: pl.DataFrame
    n_lines: int
    n_bytes: int
    n_bad_lines: int


def summed(parts: Iterable[CountedPart]) -> CountedPart:
    """Add up parts as they come, and sort the words in the end. Little more than the distinct words is held at once.

    Raises CorpusError if the counts add up to more than 64 bits hold.

    >>> summed([]).table.rows()
    []
    """
    about_to_use_polars()
    pending: list[CountedPart] = []
    n_rows = 0
    for part in parts:
        pending.append(part)
        n_rows += part.table.height
        if n_rows > max(_COMPACT_ROWS, 2 * pending[0].table.height) or len(pending) > _COMPACT_PARTS:
            pending = [added(pending)]
            n_rows = pending[0].table.height
    whole = added(pending or [CountedPart(EMPTY, 0, 0, 0)])
    return whole._replace(table=whole.table.sort("word"))


def added(parts: list[CountedPart]) -> CountedPart:
    """The sum of parts, its words in any order.

    >>> part = CountedPart(pl.DataFrame({"word": ["a"], "count": [2]}), 1, 4, 0)
    >>> added([part, part]).table.rows()
    [('a', 4)]
    """
    if len(parts) == 1:
        return parts[0]
    check_total(sum(int(part.table["count"].sum()) for part in parts))
    tables = [part.table for part in parts if part.table.height] or [EMPTY]
    rows = pl.concat(tables).lazy().group_by("word").agg(_COUNT.sum())
    table = rows.collect(engine="streaming") if len(tables) > 1 else tables[0]
    n_lines, n_bytes, n_bad_lines = (sum(numbers) for numbers in zip(*(part[1:] for part in parts), strict=True))
    return CountedPart(table, n_lines, n_bytes, n_bad_lines)


def check_total(total: int) -> None:
    """Raise CorpusError if the sum of all counts is more than 64 bits hold.

    >>> check_total(2**63)
    Traceback (most recent call last):
        ...
    volt.errors.CorpusError: the counts add up to 9223372036854775808, more than 64 bits hold; scale them down
    """
    if total > MAX_TOTAL:
        raise CorpusError(f"the counts add up to {total}, more than 64 bits hold; scale them down")
