"""How many bytes counting may take, and what each of its parts may take of them.

>>> budget = Budget.of("1G")
>>> budget.n_bytes, budget.pending < budget.table < budget.n_bytes
(1073741824, True)
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from volt.count.unit_table import MOST
from volt.display import counted
from volt.errors import ConfigError, CorpusError
from volt.files.byte_sizes import parse_bytes, shown_bytes
from volt.files.threads import available_cores

_LEAST, _BASE = 512 << 20, 320 << 20  # what Python and the libraries take themselves
_ROW, _UNIT, _SYMBOL = 32, 160, 60  # bytes of a word in a table, besides its text; of a unit; of a character learned
_MMAP_THRESHOLD = -3  # the name of this setting of mallopt
_THRESHOLDS = np.concatenate([np.arange(1, 1 << 16), 1 << np.arange(16, 63)])


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes that a process may take while it counts.

    n_bytes: all of them, what Python and the libraries take included
    """

    n_bytes: int

    @classmethod
    def of(cls, value: int | str) -> Budget:
        """A number of bytes, or a text such as 2G. Raises ConfigError if it is less than 512 MB, or none.

        >>> Budget.of("64M")
        Traceback (most recent call last):
            ...
        volt.errors.ConfigError: memory='64M': give 512M or more; Python and the libraries take half of that
        """
        n_bytes = parse_bytes(value, "memory", such_as="512M, which is the least, 2G or 16G")
        if n_bytes < _LEAST:
            raise ConfigError(f"memory={value!r}: give 512M or more; Python and the libraries take half of that")
        return cls(n_bytes)

    def check_learning(self, table: pl.DataFrame, *, approximate: bool = False) -> None:
        """Raise CorpusError if learning from these words would take more.

        approximate: whether the rarest have been forgotten, which is no remedy then
        """
        if learning_bytes(table.height, int(table["word"].str.len_chars().sum())) > self.for_words:
            tally = Tally(1)
            tally.add(table)
            raise tally.refusal(self, approximate=approximate)

    @property
    def for_words(self) -> int:
        """Bytes of all that counting and learning hold."""
        return self.n_bytes - _BASE

    @property
    def pending(self) -> int:
        """Bytes of tables that have not been added up yet."""
        return self.for_words // 10

    @property
    def table(self) -> int:
        """Bytes of the table of all words that are kept."""
        return self.for_words // 3

    @property
    def block(self) -> int:
        """Bytes of text that are read at a time, of which several are held."""
        return self.for_words // 64

    @property
    def rows(self) -> int:
        """Rows of each run on the disk that are in memory at once."""
        return max(1, min(1 << 16, self.for_words >> 15))

    @property
    def n_units(self) -> int:
        """Units, and words of units, that all threads hold together."""
        return self.for_words // 6 // _UNIT

    @property
    def n_words(self) -> int:
        """Most words that are held if rarer ones are dropped."""
        return self.for_words // 640

    @property
    def n_symbols(self) -> int:
        """Most characters and ends of words that can be learned from: long words are fewer."""
        return self.for_words // _SYMBOL


def return_freed_memory() -> None:
    """Let the system have each large array back as soon as it is freed, for the rest of this process.

    The C library of GNU keeps what threads free, by the hundred megabytes; others know no such call.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 128 << 10)


class Room(NamedTuple):
    """What a counter of units may hold.

    n_units: units of a thread
    n_words: words of all threads
    by_block: whether it gives what it has after each block, so that parts do not depend on threads
    """

    n_units: int = MOST
    n_words: int = 4 * MOST
    by_block: bool = False

    @classmethod
    def of(cls, budget: Budget | None, *, approximate: bool) -> Room:
        """Half of what a budget leaves for the units of all threads, half for their words."""
        if budget is None:
            return cls()
        half, least = budget.n_units // 2, 1 << 12
        n_units = min(MOST, max(least, half // available_cores()))
        return cls(n_units, min(4 * MOST, max(least, half)), by_block=approximate)


def table_bytes(table: pl.DataFrame) -> int:
    """About how much memory a table of words takes."""
    return int(table["word"].str.len_bytes().sum()) + _ROW * table.height


def learning_bytes(n_words: int, n_characters: int) -> int:
    """About how much memory learning from so many distinct words takes."""
    return _SYMBOL * (n_words + n_characters)


class Tally:
    """How many words occur how often, for the least number of occurrences at which they fit into the memory.

    That is the least there is up to 65,536; above, it is a power of two, at most twice the least.

    min_count: the least number that is asked for
    """

    def __init__(self, min_count: int) -> None:
        self._least = np.union1d(_THRESHOLDS, [min_count])
        self._least = self._least[self._least >= min_count]
        self._words, self._characters = (np.zeros(len(self._least), np.int64) for _ in range(2))

    def add(self, table: pl.DataFrame) -> None:
        """Add words, all of which occur so often."""
        places = np.searchsorted(self._least, table["count"].to_numpy(), side="right") - 1
        lengths = table["word"].str.len_chars().to_numpy()
        self._words += np.bincount(places, minlength=len(self._words))
        self._characters += np.bincount(places, lengths, minlength=len(self._characters)).astype(np.int64)

    def refusal(self, budget: Budget, *, approximate: bool = False) -> CorpusError:
        """What to raise if these words are too many. approximate: whether the rarest have been forgotten already."""
        n_words, n_characters = (numbers[::-1].cumsum()[::-1].tolist() for numbers in (self._words, self._characters))
        rows = zip(self._least.tolist(), n_words, n_characters, strict=True)
        least, left, _ = next(row for row in rows if learning_bytes(*row[1:]) <= budget.for_words)
        return CorpusError(
            f"{counted(n_words[0], 'distinct word')} are too many for {shown_bytes(budget.n_bytes)}; give "
            f"min_count={least}, which leaves {left:,}, or more memory{'' if approximate else ', or approximate=True'}"
        )
