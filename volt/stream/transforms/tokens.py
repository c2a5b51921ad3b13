"""Columns cut into tokens, and written from tokens: runs of bytes other than the space, or ids.

Only the lines that a step changes are cut. They are written anew with one space between two tokens, and all others stay
as they are, spaces and all.

>>> column = Column.of(["a  b c", "d"])
>>> tokens = cut(column.take([0]), token_counts(column)[:1])
>>> made = written(tokens, np.array([2, 0]), np.array([2]), NO_OTHERS)
>>> with_values(column, np.array([0]), made).strings()
['c a', 'd']
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from volt.stream.transforms.column import Column, Longs, concatenated

NO_OTHERS = Column.of([])
_MEMO = "tokens"


class Tokens(NamedTuple):
    """The tokens of a column, one value after the other.

    column: what they were cut from
    starts, sizes: (n_tokens,) int64, where each starts in the column's data, and how many bytes it has, or ids: 1
    ends: (n_values,) int64, how many tokens there are as far as the end of each value
    """

    column: Column
    starts: Longs
    sizes: Longs
    ends: Longs

    def __len__(self) -> int:
        return len(self.starts)


def token_counts(column: Column) -> Longs:
    """(n,) int64, how many tokens each value has; a missing one has none.

    >>> token_counts(Column.of([" to  be", "", None])).tolist()
    [2, 0, 0]
    """
    if column.is_ids:
        return np.maximum(column.sizes, 0)
    if _MEMO not in column.memo:
        from volt.kernels.tokens import count_tokens

        out = np.empty(len(column), np.int64)
        count_tokens(column.data, column.starts, column.sizes, out)
        column.memo[_MEMO] = out
    return column.memo[_MEMO]


def cut(column: Column, counts: Longs) -> Tokens:
    """The tokens of a column.

    counts: how many each value has
    """
    ends = np.cumsum(counts)
    n = int(ends[-1]) if len(ends) else 0
    if column.is_ids:
        return Tokens(column, np.repeat(column.starts - (ends - counts), counts) + np.arange(n), np.ones(n, int), ends)
    from volt.kernels.tokens import cut_tokens

    starts, sizes = np.empty(n, np.int64), np.empty(n, np.int64)
    cut_tokens(column.data, column.starts, column.sizes, starts, sizes)
    return Tokens(column, starts, sizes, ends)


def written(tokens: Tokens, chosen: Longs, ends: Longs, others: Column) -> Column:
    """Values made of tokens, and of others.

    chosen: numbers of tokens; −1 is the first of the others, −2 the second, and so on
    ends: (n_values,) int64, where each value ends in `chosen`
    others: one token a value, text or ids as the tokens are; `NO_OTHERS` where none is chosen
    """
    column, is_own = tokens.column, chosen >= 0
    own, rest = (chosen, chosen[:0]) if is_own.all() else (chosen[is_own], -1 - chosen[~is_own])
    if column.is_ids:
        ids = np.empty(len(chosen), np.int32)
        ids[is_own], ids[~is_own] = column.data[tokens.starts[own]], others.data[others.starts[rest]]
        return Column.of_ids(ids, np.concatenate([[0], ends]))
    from volt.kernels.tokens import SPARE, write_tokens

    n_bytes = int(tokens.sizes[own].sum() + others.sizes[rest].sum()) + len(chosen)  # and spaces
    out, out_ends = np.empty(n_bytes + SPARE, np.uint8), np.empty(len(ends), np.int64)
    write_tokens(
        column.data, tokens.starts, tokens.sizes, others.data, others.starts, others.sizes, chosen, ends, out, out_ends
    )
    sizes = np.diff(out_ends, prepend=0)
    return Column(out[:n_bytes], out_ends - sizes, sizes)


def with_values(column: Column, lines: Longs, made: Column) -> Column:
    """The column with other values in some lines, in a buffer that holds little else; itself where there are none.

    lines: in rising order
    """
    if not len(lines):
        return column
    others = np.delete(np.arange(len(column)), lines)
    if not len(others):
        return made
    places = np.empty(len(column), np.int64)
    places[lines], places[others] = np.arange(len(lines)), np.arange(len(lines), len(column))
    return concatenated([made, column.take(others).compact()]).take(places)
