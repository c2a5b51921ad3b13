"""Counted parts → their sum within a memory budget: surplus words are spilled to disk, or the rarest are dropped.

    exact         tables that are too large are written as sorted runs, which are merged at the end
    approximate   lossy counting (Manku and Motwani 2002) of a fixed number of words (Metwally et al. 2005)

Approximate counting forgets the words with the least sum of count and loss; the greatest sum among them becomes the
bound. If a forgotten word reappears, its count restarts at zero. Its loss is the bound at that time: the greatest
number of its occurrences that may have been forgotten.
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
from volt.count.unit_table import MOST
from volt.count.word_counts import EMPTY, CountedPart, added, check_total
from volt.display import counted
from volt.errors import ConfigError, CorpusError, reason
from volt.files.temporary import scratch_folder
from volt.files.threads import available_cores

_LEAST = 512 << 20  # the smallest budget
_BASE = 256 << 20  # the memory of Python and the libraries: a search of two words takes 232 MB
_ROW = 32  # bytes of a word in a table, without its text
_UNIT = 160  # bytes of a unit
_SYMBOL = 60  # bytes of a character in learning
_MMAP_THRESHOLD = -3  # the name of this setting of mallopt
# Exact up to 65,536; beyond that, a threshold is at most twice the exact count.
_THRESHOLDS = np.concatenate([np.arange(1, 1 << 16), 1 << np.arange(16, 63)])


@dataclass(frozen=True, slots=True)
class Budget:
    """The bytes that a counting process may use, including Python and the libraries."""

    n_bytes: int

    @classmethod
    def of(cls, value: int | str) -> Budget:
        """Parse a number of bytes, or a string such as 2G. Raises ConfigError if it is below 512 MB or not a size."""
        examples = "512M, which is the least, 2G or 16G"
        n_bytes = arguments.parse_bytes(value, "memory", such_as=examples)
        if n_bytes < _LEAST:
            raise ConfigError(
                f"memory is {value}; give 512M or more; Python and the libraries take half of that"
            )
        return cls(n_bytes)

    def check_learning(self, table: pl.DataFrame, *, approximate: bool = False) -> None:
        """Raise CorpusError if learning from these words would exceed the budget."""
        n_characters = int(table["word"].str.len_chars().sum())
        if learning_bytes(table.height, n_characters) > self.for_words:
            histogram = CountHistogram(1)
            histogram.add(table)
            raise histogram.refusal(self, approximate=approximate)

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
        return max(1, min(_ROWS, self.for_words >> 15))

    @property
    def n_words(self) -> int:
        """The number of words that approximate counting remembers."""
        return self.for_words // 640

    @property
    def n_symbols(self) -> int:
        """The number of characters and word ends that fit into memory for learning."""
        return self.for_words // _SYMBOL


def return_freed_memory() -> None:
    """Make glibc return each large array to the system once it is freed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 128 << 10)


class CounterLimits(NamedTuple):
    """The limits of a `UnitCounter`: distinct units in each thread's table, distinct words in the shared table.

    n_threads: the number of threads; None for one for each core
    by_block: whether the counter returns its words after each block, so that results do not depend on the threads
    """

    n_units: int = MOST
    n_words: int = 4 * MOST
    by_block: bool = False
    n_threads: int | None = None

    @classmethod
    def of(cls, budget: Budget, *, approximate: bool) -> CounterLimits:
        n_words = max(1 << 12, budget.for_words // 12 // _UNIT)
        n_units = max(1 << 12, n_words // available_cores())
        return cls(min(MOST, n_units), min(4 * MOST, n_words), by_block=approximate)


def table_bytes(table: pl.DataFrame) -> int:
    return int(table["word"].str.len_bytes().sum()) + _ROW * table.height


def learning_bytes(n_words: Any, n_characters: Any) -> Any:
    """Estimate the bytes that learning takes, from the numbers of distinct words and of their characters."""
    return _SYMBOL * (n_words + n_characters)


class CountHistogram:
    """Histogram of word counts; it finds the smallest min_count at which the words fit into memory."""

    def __init__(self, min_count: int) -> None:
        self._least = np.append(min_count, _THRESHOLDS[min_count < _THRESHOLDS])
        self._words = np.zeros(len(self._least), np.int64)
        self._characters = np.zeros(len(self._least))  # floats, which are exact below 2^53

    def add(self, table: pl.DataFrame) -> None:
        n = len(self._least)
        places = np.searchsorted(self._least, table["count"].to_numpy(), side="right") - 1
        lengths = table["word"].str.len_chars().to_numpy()
        self._words += np.bincount(places, minlength=n)
        self._characters += np.bincount(places, lengths, minlength=n)

    def refusal(self, budget: Budget, *, approximate: bool = False) -> CorpusError:
        """Return the error for too many words."""
        n_words = self._words[::-1].cumsum()[::-1]
        n_characters = self._characters[::-1].cumsum()[::-1].astype(np.int64)
        n_bytes = learning_bytes(n_words, n_characters)
        place = int(np.argmax(n_bytes <= budget.for_words))
        least = int(self._least[place])
        hint: dict[str, object] = {"min_count": least}
        if not approximate:
            hint["approximate"] = True
        return CorpusError(
            f"{counted(n_words[0], 'distinct word')} are too many for {budget}, "
            f"and {n_words[place]:,} of them occur {counted(least, 'time')} or more; "
            f"give {-(-(_BASE + int(n_bytes[0])) >> 20)}M of memory or pass",
            hint=hint,
        )


_MOST = 32
_ROWS = 1 << 16


class SortedRuns:
    """Sorted runs: tables on disk, sorted by word. To add them up, `rows` rows of each run are read at a time.

    most: how many runs are merged into one longer run, so that few files are open
    """

    def __init__(self, folder: Path, *, most: int = _MOST, rows: int = _ROWS) -> None:
        self._folder = folder
        self._most = most
        self._rows = rows
        self._levels = defaultdict[int, list[Path]](list)
        self._names = count()

    def write(self, table: pl.DataFrame) -> None:
        """Add a run. table: columns word and count, sorted by word, no word twice"""
        self._add([table], level=0)

    def merged(self) -> Iterator[pl.DataFrame]:
        """Yield the sum of all runs, as consecutive tables in the order of words."""
        return self._merge([*chain.from_iterable(self._levels.values())])

    def _add(self, tables: Iterable[pl.DataFrame], level: int) -> None:
        path = self._folder / f"{next(self._names)}.arrow"
        _write(path, tables, rows=self._rows)
        self._levels[level].append(path)
        if len(self._levels[level]) == self._most:
            full = self._levels.pop(level)
            self._add(self._merge(full), level + 1)
            for part in full:
                part.unlink()

    def _merge(self, paths: list[Path]) -> Iterator[pl.DataFrame]:
        heads = dict.fromkeys(map(_read, paths), EMPTY)
        while True:
            for run, head in [*heads.items()]:
                if not head.height:
                    heads[run] = next(run, EMPTY)
                    if not heads[run].height:
                        del heads[run]
            if not heads:
                return

            # Every run is in memory up to this word.
            last = min(head["word"][-1] for head in heads.values())
            complete = list[pl.DataFrame]()
            for run, head in heads.items():
                end = head["word"].search_sorted(last, side="right")
                complete.append(head[:end])
                heads[run] = head[end:]
            yield pl.concat(complete).group_by("word").agg(_COUNT.sum()).sort("word")


def _write(path: Path, tables: Iterable[pl.DataFrame], *, rows: int) -> None:
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


def _read(path: Path) -> Iterator[pl.DataFrame]:
    import pyarrow as pa
    from pyarrow import ipc

    with path.open("rb") as file, ipc.open_stream(file) as reader:
        for batch in reader:
            if batch.num_rows:
                yield pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch])))


_COUNT = pl.col("count")
_MISSED = pl.col("missed")


_NOTHING = CountedPart(EMPTY, 0, 0, 0)


class BoundedSum(NamedTuple):
    """The sum of parts, by how much a count can be too low at most, and the occurrences of omitted words."""

    part: CountedPart
    bound: int
    n_left_out: int


def bounded_sum(parts: Iterable[CountedPart], budget: Budget, *, min_count: int) -> BoundedSum:
    """Return the exact sum, without the words that occur less often than min_count."""
    with ExitStack() as stack:
        runs: SortedRuns | None = None
        whole = _NOTHING
        pending = list[CountedPart]()
        n_bytes = 0
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
                pending = []
                n_bytes = 0
        rest = added([_NOTHING, *pending]).table.sort("word")
        tables = iter([rest])
        if runs:
            runs.write(rest)
            tables = runs.merged()
        return _retained(tables, whole, budget, min_count)


def _retained(
    tables: Iterator[pl.DataFrame], whole: CountedPart, budget: Budget, min_count: int
) -> BoundedSum:
    histogram = CountHistogram(min_count)
    retained = [EMPTY]
    n_bytes = total = n_retained = 0
    for table in tables:
        total += _total(table)
        table = table.filter(min_count <= _COUNT)
        n_retained += _total(table)
        histogram.add(table)
        n_bytes += table_bytes(table)
        if n_bytes > budget.table:
            retained.clear()  # only the histogram is needed
        else:
            retained.append(table)
    check_total(total)
    if n_bytes > budget.table:
        raise histogram.refusal(budget)
    return BoundedSum(whole._replace(table=pl.concat(retained)), 0, total - n_retained)


def approximate_sum(
    parts: Iterable[CountedPart], *, n_words: int, n_symbols: int | None = None
) -> BoundedSum:
    """Add up word counts approximately: remember about the `n_words` most frequent words.

    n_symbols: the maximum number of characters of these words together; each word's end counts as a character
    """
    known = EMPTY.with_columns(missed=pl.lit(0, pl.Int64))
    most = _COUNT + _MISSED
    whole = _NOTHING
    bound = total = 0
    for part in parts:
        whole = _numbers(whole, part)
        total += _total(part.table)
        new = part.table.with_columns(missed=pl.lit(bound, pl.Int64))
        known = pl.concat([known, new]).group_by("word").agg(_COUNT.sum(), _MISSED.min())
        n_left = n_words
        if n_symbols is not None:
            sizes = known.sort(most, descending=True)["word"].str.len_chars() + 1
            n_left = min(n_words, int((sizes.cum_sum() <= n_symbols).sum()))
        if n_left < known.height:
            bound = known.select(most.top_k(n_left + 1).min()).item()
            known = known.filter(most > bound)
    check_total(total)
    table = known.select("word", "count").sort("word")
    return BoundedSum(whole._replace(table=table), bound, total - _total(table))


def _numbers(one: CountedPart, other: CountedPart) -> CountedPart:
    numbers = zip(one[1:], other[1:], strict=True)
    return CountedPart(one.table, *map(sum, numbers))


def _total(table: pl.DataFrame) -> int:
    return int(table["count"].cast(pl.Int128).sum())
