"""Counted parts → their sum within a budget: words beyond it are on the disk, or the rarest of them are dropped.

    exact         tables that are too large are written as sorted runs, and all runs merged in the end
    approximate   lossy counting: of more words than there is room for, those that occurred least are forgotten

A word that is forgotten may come again, and its count starts anew. So with each word goes how often it may have come
before, which is the bound at that time: the most that a forgotten word can have come. Those words are forgotten whose
count, and what it may lack, are together the least, and the greatest of these sums is the bound from then on. Hence a
count is too low by the bound at most, and a word that is absent came as often at most. (After Manku and Motwani 2002,
with room for a number of words in place of an error that is set beforehand, as in Metwally et al. 2005.)

>>> parts = [CountedPart(pl.DataFrame({"word": ["a", *text], "count": [3, 1, 1]}), 1, 9, 0) for text in ("bc", "cd")]
>>> bounded_sum(parts, Budget.of("1G"), min_count=2).part.table.rows()
[('a', 6), ('c', 2)]
>>> found = approximate_sum(parts, n_words=2)
>>> found.part.table.rows(), found.bound, found.n_left_out
([('a', 6)], 2, 4)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import polars as pl

from volt.count.budget import Budget, Tally, table_bytes
from volt.count.left_out import NOTHING, LeftOutPairs, left_out_pairs
from volt.count.sorted_runs import SortedRuns
from volt.count.summing import EMPTY, CountedPart, added, check_total
from volt.files.scratch import scratch_folder

_COUNT, _MISSED = pl.col("count"), pl.col("missed")


class BoundedSum(NamedTuple):
    """The sum of parts.

    part: the sum, sorted by word
    bound: how much a count is too low at most, and how often a word that is absent occurs at most, were it counted
    n_left_out: occurrences of the words that are absent
    left_out_pairs: the characters that stand side by side in what is not in the sum
    """

    part: CountedPart
    bound: int
    n_left_out: int
    left_out_pairs: LeftOutPairs


def bounded_sum(parts: Iterable[CountedPart], budget: Budget, *, min_count: int) -> BoundedSum:
    """The exact sum, but for words that occur less often than min_count.

    Raises CorpusError if the words that are left take more than the budget, or the disk is full; OutputError if there
    can be no temporary folder.
    """
    with ExitStack() as stack:
        runs: SortedRuns | None = None
        pending, n_bytes, whole = list[CountedPart](), 0, CountedPart(EMPTY, 0, 0, 0)
        for part in parts:
            whole = _numbers(whole, part)
            pending.append(part)
            n_bytes += table_bytes(part.table)
            if n_bytes <= budget.pending:
                continue
            pending = [added(pending)]
            n_bytes = table_bytes(pending[0].table)
            if n_bytes > budget.pending // 2:
                runs = runs or SortedRuns(stack.enter_context(scratch_folder()), rows=budget.rows)
                runs.write(pending[0].table.sort("word"))
                pending, n_bytes = [], 0
        rest = added(pending).table.sort("word") if pending else EMPTY
        if runs:
            runs.write(rest)
            return _kept(runs.merged(), whole, budget, min_count)
        return _kept(iter([rest]), whole, budget, min_count)


def _kept(tables: Iterator[pl.DataFrame], whole: CountedPart, budget: Budget, min_count: int) -> BoundedSum:
    """The words that occur often enough, of tables that follow each other."""
    kept, n_bytes, tally, total, n_kept, pairs = [EMPTY], 0, Tally(min_count), 0, 0, NOTHING
    for table in tables:
        total += _total(table)
        pairs += left_out_pairs(table.filter(min_count > _COUNT))
        table = table.filter(min_count <= _COUNT)
        n_kept += _total(table)
        tally.add(table)
        n_bytes += table_bytes(table)
        kept = [*kept, table] if n_bytes <= budget.table else []
    check_total(total)
    if n_bytes > budget.table:
        raise tally.refusal(budget)
    return BoundedSum(whole._replace(table=pl.concat(kept)), 0, total - n_kept, pairs)


def approximate_sum(parts: Iterable[CountedPart], *, n_words: int, n_symbols: int | None = None) -> BoundedSum:
    """The sum with about so many words, those that occur most.

    parts: the same parts in the same order give the same sum
    n_words: how many words are remembered; at the end of a part, there may be as many more as it has
    n_symbols: how many characters they have at most, with one more for each word's end; None for any number
    """
    known = EMPTY.with_columns(missed=pl.lit(0, pl.Int64))
    whole, bound, total, pairs = CountedPart(EMPTY, 0, 0, 0), 0, 0, NOTHING
    for part in parts:
        whole, total = _numbers(whole, part), total + _total(part.table)
        new = part.table.with_columns(missed=pl.lit(bound, pl.Int64))
        known = pl.concat([known, new]).group_by("word").agg(_COUNT.sum(), _MISSED.min())
        if (n_left := _n_within(known, n_words, n_symbols)) < known.height:
            most = _COUNT + _MISSED
            bound = known.select(most.top_k(n_left + 1).min()).item()
            pairs += left_out_pairs(known.filter(most <= bound))
            known = known.filter(most > bound)
    check_total(total)
    table = known.select("word", "count").sort("word")
    return BoundedSum(whole._replace(table=table), bound, total - _total(table), pairs)


def _n_within(known: pl.DataFrame, n_words: int, n_symbols: int | None) -> int:
    """How many of the words that occur most are within both numbers."""
    if n_symbols is None:
        return min(n_words, known.height)
    sizes = known.sort(_COUNT + _MISSED, descending=True)["word"].str.len_chars() + 1
    return min(n_words, int((sizes.cum_sum() <= n_symbols).sum()))


def _numbers(one: CountedPart, other: CountedPart) -> CountedPart:
    """How much text two parts are of, with the table of the first."""
    return CountedPart(one.table, *(sum(numbers) for numbers in zip(one[1:], other[1:], strict=True)))


def _total(table: pl.DataFrame) -> int:
    return int(table["count"].cast(pl.Int128).sum())
