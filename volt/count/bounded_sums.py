"""Counted parts of a corpus → their sum, computed within a memory budget.

    exact         words that exceed the budget are written to disk as sorted runs, merged at the end
    approximate   the rarest words are forgotten; the result says by how much a count can be too low

Approximate sums are lossy counting (Manku and Motwani 2002) with a fixed number of words (Metwally
et al. 2005). Each word has a count, and the number of its occurrences that may have been missed, so
count + missed is the most it can have. The words with the least count + missed are forgotten; the
greatest such number is the bound. A word that is new may have been forgotten before, so its missed
occurrences are the bound. With room for two words:

    part         known words: count + missed       forgotten     bound
    a 3, b 1     a 3 + 0, b 1 + 0                                   0
    c 2          a 3 + 0, c 2 + 0                  b 1 + 0          1
    b 5          a 3 + 0, b 5 + 1                  c 2 + 0          2
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from volt import arguments
from volt.count.unit_table import MAX_UNITS, MAX_WORDS, CounterLimits
from volt.count.word_counts import EMPTY, CountedPart, add_parts, check_total, sum_counts
from volt.display import counted
from volt.errors import ConfigError, CorpusError, reason
from volt.files.temporary import scratch_folder
from volt.files.threads import available_cores

# Bytes
_LEAST = 512 << 20  # the smallest budget
_BASE = 256 << 20  # what Python and the libraries take: a search of two words takes 232 MB
_ROW = 32  # a word in a table, without its text
_UNIT = 160  # a word in a table of units
_SYMBOL = 60  # a character or word end in learning
_RETURNED_ARRAY = 128 << 10  # glibc returns larger arrays to the system when they are freed

_MMAP_THRESHOLD = -3  # the name of this setting of mallopt
_MAX_OPEN_RUNS = 32  # files that are open at a time
_MAX_RUN_ROWS = 1 << 16  # rows of each run that are in memory at a time
# Exact up to 65,536; beyond that, a threshold is at most twice the exact count.
_THRESHOLDS = np.concatenate([np.arange(1, 1 << 16), 1 << np.arange(16, 63)])
_COUNT = pl.col("count")
_MISSED = pl.col("missed")
_NOTHING = CountedPart(EMPTY)


@dataclass(frozen=True, slots=True)
class Budget:
    """The bytes that a counting process may use, including Python and the libraries."""

    n_bytes: int

    @classmethod
    def of(cls, value: int | str) -> Budget:
        """Parse a number of bytes, or a text such as "2G".

        Raises ConfigError for less than 512 MB, or a text that is not a number of bytes.
        """
        examples = "512M, which is the least, 2G or 16G"
        n_bytes = arguments.parse_bytes(value, "memory", such_as=examples)
        if n_bytes < _LEAST:
            raise ConfigError(
                f"memory is {value}; give 512M or more; Python and the libraries take half of that"
            )
        return cls(n_bytes)

    def check_learning(self, table: pl.DataFrame, *, approximate: bool = False) -> None:
        """Raise CorpusError if learning from a table of words would exceed the budget.

        approximate: whether the words were counted approximately, so the error need not propose it
        """
        n_characters = int(table["word"].str.len_chars().sum())
        if learning_bytes(table.height, n_characters) > self.for_words:
            histogram = CountHistogram(1)
            histogram.add(table)
            raise histogram.refusal(self, approximate=approximate)

    def counter_limits(self, *, approximate: bool) -> CounterLimits:
        """Return the limits of a `UnitCounter` whose tables take a twelfth of the words' memory."""
        n_words = max(1 << 12, self.for_words // 12 // _UNIT)
        n_units = max(1 << 12, n_words // available_cores())
        return CounterLimits(
            min(MAX_UNITS, n_units), min(MAX_WORDS, n_words), yields_each_block=approximate
        )

    def __str__(self) -> str:
        """Return the number of bytes in the largest suitable unit.

        >>> str(Budget(3 << 29))
        '1.5 GB'
        """
        power = min(4, (self.n_bytes.bit_length() - 1) // 10)
        return f"{self.n_bytes / (1 << 10 * power):.3g} {' KMGT'[power]}B"

    @property
    def for_words(self) -> int:
        return self.n_bytes - _BASE

    @property
    def pending(self) -> int:
        """Bytes for tables that are not added up yet."""
        return self.for_words // 10

    @property
    def table(self) -> int:
        """Bytes for the table of all retained words."""
        return self.for_words // 3

    @property
    def block(self) -> int:
        """Bytes of a block of text; several blocks are in memory at once."""
        return self.for_words // 64

    @property
    def rows(self) -> int:
        """Rows of each sorted run that are in memory at a time."""
        return max(1, min(_MAX_RUN_ROWS, self.for_words >> 15))

    @property
    def n_words(self) -> int:
        """The number of words that approximate counting remembers."""
        return self.for_words // 640

    @property
    def n_symbols(self) -> int:
        """The number of characters and word ends that fit into memory for learning."""
        return self.for_words // _SYMBOL


def return_freed_memory() -> None:
    """Make glibc return large arrays to the system when they are freed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _RETURNED_ARRAY)


class BoundedSum(NamedTuple):
    """The sum of counted parts.

    bound: the maximum by which a count can be too low
    n_left_out: the number of occurrences of words that are not in the table
    """

    part: CountedPart
    bound: int
    n_left_out: int


def sum_within_budget(
    parts: Iterable[CountedPart], budget: Budget, *, min_count: int
) -> BoundedSum:
    """Return the exact sum of the parts, without words that occur less often than `min_count`.

    Raises CorpusError if the remaining words do not fit into memory.
    """
    with ExitStack() as stack:
        runs: SortedRuns | None = None
        total = _NOTHING
        pending = list[CountedPart]()
        n_bytes = 0
        for part in parts:
            total = _add_numbers(total, part)
            pending.append(part)
            n_bytes += table_bytes(part.table)
            if n_bytes <= budget.pending:
                continue
            pending = [add_parts(pending)]
            n_bytes = table_bytes(pending[0].table)
            if n_bytes > budget.pending // 2:
                runs = runs or SortedRuns(stack.enter_context(scratch_folder()), rows=budget.rows)
                runs.write(pending[0].table.sort("word"))
                pending = []
                n_bytes = 0
        rest = add_parts([_NOTHING, *pending]).table.sort("word")
        tables = iter([rest])
        if runs:
            runs.write(rest)
            tables = runs.merge()
        return _collect_words(tables, total, budget, min_count)


def _collect_words(
    tables: Iterator[pl.DataFrame], total: CountedPart, budget: Budget, min_count: int
) -> BoundedSum:
    """Concatenate tables without rare words. total: the numbers of lines and bytes of the result"""
    histogram = CountHistogram(min_count)
    retained = [EMPTY]
    n_bytes = n_occurrences = n_retained = 0
    for table in tables:
        n_occurrences += sum_counts(table)
        table = table.filter(min_count <= _COUNT)
        n_retained += sum_counts(table)
        histogram.add(table)
        n_bytes += table_bytes(table)
        if n_bytes > budget.table:
            retained.clear()  # only the histogram is needed
        else:
            retained.append(table)
    check_total(n_occurrences)
    if n_bytes > budget.table:
        raise histogram.refusal(budget)
    return BoundedSum(total._replace(table=pl.concat(retained)), 0, n_occurrences - n_retained)


def sum_approximately(
    parts: Iterable[CountedPart], *, n_words: int, n_symbols: int | None = None
) -> BoundedSum:
    """Return the approximate sum of the parts, with about the `n_words` most frequent words.

    n_symbols: the maximum of the words' characters and word ends together; None for no limit
    """
    known = EMPTY.with_columns(missed=pl.lit(0, pl.Int64))
    most = _COUNT + _MISSED
    total = _NOTHING
    bound = n_occurrences = 0
    for part in parts:
        total = _add_numbers(total, part)
        n_occurrences += sum_counts(part.table)
        new = part.table.with_columns(missed=pl.lit(bound, pl.Int64))
        known = pl.concat([known, new]).group_by("word").agg(_COUNT.sum(), _MISSED.min())
        n_fitting = n_words
        if n_symbols is not None:
            sizes = known.sort(most, descending=True)["word"].str.len_chars() + 1
            n_fitting = min(n_words, int((sizes.cum_sum() <= n_symbols).sum()))
        if n_fitting < known.height:
            bound = known.select(most.top_k(n_fitting + 1).min()).item()
            known = known.filter(most > bound)  # words with equal numbers are forgotten together
    check_total(n_occurrences)
    table = known.select("word", "count").sort("word")
    return BoundedSum(total._replace(table=table), bound, n_occurrences - sum_counts(table))


def _add_numbers(total: CountedPart, part: CountedPart) -> CountedPart:
    """Return the total with the numbers of lines and bytes of a part added, but not its table."""
    return CountedPart(total.table, *map(sum, zip(total[1:], part[1:], strict=True)))


def table_bytes(table: pl.DataFrame) -> int:
    return int(table["word"].str.len_bytes().sum()) + _ROW * table.height


def learning_bytes(n_words: Any, n_characters: Any) -> Any:
    """Estimate the bytes that learning takes for so many distinct words and their characters."""
    return _SYMBOL * (n_words + n_characters)


class CountHistogram:
    """A histogram of word counts. It finds the least min_count whose words fit into memory.

    Class k has the words whose count is at least thresholds[k], but less than thresholds[k + 1].
    """

    def __init__(self, min_count: int) -> None:
        self._thresholds = np.append(min_count, _THRESHOLDS[min_count < _THRESHOLDS])
        self._n_words = np.zeros(len(self._thresholds), np.int64)
        self._n_characters = np.zeros(len(self._thresholds))  # floats are exact below 2^53

    def add(self, table: pl.DataFrame) -> None:
        n = len(self._thresholds)
        counts = table["count"].to_numpy()
        classes = np.searchsorted(self._thresholds, counts, side="right") - 1
        lengths = table["word"].str.len_chars().to_numpy()
        self._n_words += np.bincount(classes, minlength=n)
        self._n_characters += np.bincount(classes, lengths, minlength=n)

    def refusal(self, budget: Budget, *, approximate: bool = False) -> CorpusError:
        """Return the error for too many words. It proposes a min_count, or enough memory.

        approximate: whether counting is approximate already, so the error need not propose it
        """
        # Sums from each class to the last: the words that a min_count of its threshold retains.
        n_words = self._n_words[::-1].cumsum()[::-1]
        n_characters = self._n_characters[::-1].cumsum()[::-1].astype(np.int64)
        n_bytes = learning_bytes(n_words, n_characters)
        fitting = int(np.argmax(n_bytes <= budget.for_words))
        min_count = int(self._thresholds[fitting])
        hint: dict[str, object] = {"min_count": min_count}
        if not approximate:
            hint["approximate"] = True
        return CorpusError(
            f"{counted(n_words[0], 'distinct word')} are too many for {budget}, "
            f"and {n_words[fitting]:,} of them occur {counted(min_count, 'time')} or more; "
            f"give {-(-(_BASE + int(n_bytes[0])) >> 20)}M of memory or pass",
            hint=hint,
        )


class SortedRuns:
    """Tables on disk, each sorted by word ("runs"), and their sum.

    Whenever `max_open` runs have been written, they are merged into one run of the next level, and
    so are `max_open` runs of a level. So few files are open at a time, and each word is rewritten
    only once a level.

    rows: the number of rows of each run that are in memory during a merge
    """

    def __init__(
        self, folder: Path, *, max_open: int = _MAX_OPEN_RUNS, rows: int = _MAX_RUN_ROWS
    ) -> None:
        self._folder = folder
        self._max_open = max_open
        self._rows = rows
        self._levels = defaultdict[int, list[Path]](list)
        self._names = count()

    def write(self, table: pl.DataFrame) -> None:
        """Add a run. table: columns word and count, sorted by word, no word twice"""
        self._add([table], level=0)

    def merge(self) -> Iterator[pl.DataFrame]:
        """Yield the sum of all runs as consecutive tables, sorted by word."""
        return self._merge([*chain.from_iterable(self._levels.values())])

    def _add(self, tables: Iterable[pl.DataFrame], level: int) -> None:
        path = self._folder / f"{next(self._names)}.arrow"
        _write_run(path, tables, rows=self._rows)
        self._levels[level].append(path)
        if len(self._levels[level]) == self._max_open:
            paths = self._levels.pop(level)
            self._add(self._merge(paths), level + 1)
            for merged in paths:
                merged.unlink()

    def _merge(self, paths: list[Path]) -> Iterator[pl.DataFrame]:
        heads = dict.fromkeys(map(_read_run, paths), EMPTY)  # run → its rows in memory
        while True:
            for run, head in [*heads.items()]:
                if not head.height:
                    heads[run] = next(run, EMPTY)
                    if not heads[run].height:
                        del heads[run]
            if not heads:
                return

            # Rows that are not in memory yet have later words than the last word of their head.
            last = min(head["word"][-1] for head in heads.values())
            complete = list[pl.DataFrame]()
            for run, head in heads.items():
                n_complete = head["word"].search_sorted(last, side="right")
                complete.append(head[:n_complete])
                heads[run] = head[n_complete:]
            yield pl.concat(complete).group_by("word").agg(_COUNT.sum()).sort("word")


def _write_run(path: Path, tables: Iterable[pl.DataFrame], *, rows: int) -> None:
    import pyarrow as pa
    from pyarrow import ipc

    schema = pa.schema([("word", pa.large_string()), ("count", pa.int64())])
    options = ipc.IpcWriteOptions(compression="lz4")
    try:
        with path.open("wb") as file, ipc.new_stream(file, schema, options=options) as writer:
            for table in tables:
                for part in table.iter_slices(rows):
                    arrow = part.to_arrow(compat_level=pl.CompatLevel.oldest())
                    writer.write_table(arrow.cast(schema))
    except OSError as error:
        raise CorpusError(
            f"{path.parent}: cannot write words that exceed the memory: {reason(error)}; "
            "set TMPDIR to a folder with more room"
        ) from error


def _read_run(path: Path) -> Iterator[pl.DataFrame]:
    import pyarrow as pa
    from pyarrow import ipc

    with path.open("rb") as file, ipc.open_stream(file) as reader:
        for batch in reader:
            if batch.num_rows:
                yield pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch])))
