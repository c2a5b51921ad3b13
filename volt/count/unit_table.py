r"""Large plain text → its word counts, by way of units. A unit is the text between white space.

    text --- UnitTable ---> counted units --- WordTable ---> counted words --- UnitCutter ---> table
    "low, low\nlow,\n"      "low," 2, " low" 1   "low" 2, "," 2, " low" 1                   Ġlow 1 …

Units repeat, so most of a text is only looked up: a unit is split into words once for each time
that the table of units is full, not for each occurrence. A unit of "metaspace" or GPT-2 begins with
the space before it. The method requires a pre-tokenizer that splits a unit alone as it does within
a line: most custom patterns, and all built-in ones except "metaspace-line".

`UnitCounter` runs it in threads. Each thread fills a unit table of its own; when that is full, its
units are split into words, which go into one word table, under a lock.

The hash tables are arrays (`UnitRows`) that only the loops of `volt.kernels.count_units` fill. This
module allocates them, and longer ones when a loop reports that it ran out of room. A loop stores
in its `state` array where to continue; `state[N_UNITS]` is the number of units so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from volt.array_types import Bytes, Longs
from volt.files.blocks import Block, split_at_lines
from volt.files.loop_memory import PaddedMemory, aligned_zeros, extended
from volt.files.threads import available_cores, in_order
from volt.text.atoms import SPACE
from volt.text.patterns.published import GPT2
from volt.text.patterns.split_points import white_last_bytes
from volt.text.patterns.splitter import Split, Splitter
from volt.text.patterns.word_cutter import WordCutter
from volt.text.pretokenizer import PreTokenizer
from volt.text.white_space import SPLIT_SPACE, build_bit_mask, select_ascii

if TYPE_CHECKING:
    from volt.kernels.unit_scan import Rule


MAX_UNITS = 1 << 20  # distinct units at which a table is full
MAX_WORDS = 4 * MAX_UNITS  # distinct words at which the table of words is full
_MAX_BYTES = 1 << 26  # bytes of distinct strings at which a table is full
_PIECE = 1 << 20  # bytes of text that a thread counts at a time
_N_SLOTS = 1 << 13  # of an empty hash table
_NUMBERS_PER_SLOT = 4  # uint64 of a slot, see `volt.kernels.unit_table`
_BYTES_PER_STRING = 16  # room for the text of each string in an empty table
_BLANK = ord(" ")
_NEWLINE = ord("\n")
_SPACE = SPACE.encode()


class CounterLimits(NamedTuple):
    """The limits of a `UnitCounter`.

    n_units: distinct units in each thread's table
    n_words: distinct words in the shared table
    yields_each_block: whether the counter yields all words of a block after each block, so that
        approximate results do not depend on the threads
    n_threads: the number of threads; None for one for each core
    """

    n_units: int = MAX_UNITS
    n_words: int = MAX_WORDS
    yields_each_block: bool = False
    n_threads: int | None = None


class UnitCounter:
    """A counter of the words of blocks, in threads.

    piece: the bytes of text that a thread counts at a time
    """

    def __init__(self, cutter: UnitCutter, limits: CounterLimits, *, piece: int = _PIECE) -> None:
        self._cutter = cutter
        self._limits = limits
        self._piece = piece
        self._idle_tables = list[UnitTable]()
        self._words = WordTable(max_strings=limits.n_words)
        self._lock = Lock()

    def add(self, block: Block) -> Iterator[pl.DataFrame]:
        """Count a block. Yield a table of words and counts whenever the table of words is full."""
        data = self._cutter.normalize(block.data)
        view = memoryview(data)
        pieces = [view[start:end] for start, end in split_at_lines(data, self._piece)]
        n_threads = min(self._limits.n_threads or available_cores(), max(len(pieces), 1))
        yield from chain.from_iterable(in_order(self._count, pieces, n_threads=n_threads))

    def finish(self) -> Iterator[pl.DataFrame]:
        """Yield tables of the words that `add` has not yielded, and empty the counter."""
        for units in self._idle_tables:
            yield from self._split_units(units)
        if self._words.n:
            yield self._take_words()

    def _count(self, text: memoryview) -> list[pl.DataFrame]:
        try:
            units = self._idle_tables.pop()
        except IndexError:
            units = UnitTable(self._cutter.rule, max_strings=self._limits.n_units)
        units.add(text)
        tables = list[pl.DataFrame]()
        if units.is_full:
            tables = self._split_units(units)
        self._idle_tables.append(units)
        return tables

    def _split_units(self, units: UnitTable) -> list[pl.DataFrame]:
        """Move the counts of units to the table of words; return its words if it is full."""
        with self._lock:
            self._cutter.add_words(units.counted_strings(), to=self._words)
            units.clear()
            if self._words.is_full:
                return [self._take_words()]
            return []

    def _take_words(self) -> pl.DataFrame:
        table = self._cutter.table(self._words.counted_strings())
        self._words.clear()
        return table


class CountedStrings(NamedTuple):
    """Distinct units or words and their counts: string k is data[starts[k] : ends[k]].

    data: UTF-8 bytes, then padding
    starts, ends, counts: (n,) int64
    is_first: (n,) uint8, 1 for each unit that starts its line, if such units are marked
    """

    data: Bytes
    starts: Longs
    ends: Longs
    is_first: Bytes
    counts: Longs

    @property
    def text(self) -> bytes:
        """The strings, one after the other."""
        last_end = self.ends.max(initial=0)
        return self.data[:last_end].tobytes()


class CountTable:
    """A hash table of distinct byte strings and how often each occurs, for one thread.

    n: the number of strings
    max_strings, max_bytes: at so many strings or bytes of strings, the table is full
    """

    def __init__(self, *, max_strings: int = MAX_UNITS, max_bytes: int = _MAX_BYTES) -> None:
        self._max_strings = max_strings
        self._max_bytes = max_bytes
        self.clear()

    def clear(self) -> None:
        from volt.kernels.unit_table import UnitRows

        n = _N_SLOTS // 2  # strings; half of the slots remain free, so that searches are short
        self._table = UnitRows(
            rows=aligned_zeros(_NUMBERS_PER_SLOT * _N_SLOTS),
            bytes=np.zeros(_BYTES_PER_STRING * n, np.uint8),
            starts=np.zeros(n + 1, np.int64),
            firsts=np.zeros(n, np.uint8),
            values=np.zeros(0, np.uint8),
            pending=np.zeros(0, np.int64),
        )
        self.n = 0

    @property
    def is_full(self) -> bool:
        n_bytes = int(self._table.starts[self.n])
        return self.n >= self._max_strings or n_bytes >= self._max_bytes

    def counted_strings(self) -> CountedStrings:
        """Return the strings in the order of their first occurrence.

        The result shares the table's memory: clear the table before adding more.
        """
        table = self._table
        rows = table.rows.reshape(-1, _NUMBERS_PER_SLOT)
        rows = rows[rows[:, 2] != 0]
        numbers = (rows[:, 2] >> np.uint64(32)).astype(np.int64)  # counted from 1
        counts = np.empty(self.n, np.int64)
        counts[numbers - 1] = rows[:, 3]
        data = table.bytes[:]
        data.flags.writeable = False  # read-only like texts, so that loops are compiled once
        starts = table.starts[: self.n + 1]
        return CountedStrings(data, starts[:-1], starts[1:], table.firsts[: self.n], counts)

    def _grow(self, n: int, n_bytes: int) -> None:
        """Make room for more strings, or else for more bytes.

        n: the number of strings in the table
        n_bytes: the length of the longest string that may come next
        """
        from volt.kernels.unit_table import rebuild

        old = self._table
        if n < len(old.firsts):
            self._table = old._replace(bytes=extended(old.bytes, 2 * len(old.bytes) + n_bytes))
            return
        rows = aligned_zeros(2 * len(old.rows))
        rebuild(rows, old.rows)
        self._table = old._replace(
            rows=rows, starts=extended(old.starts, 2 * n + 1), firsts=extended(old.firsts, 2 * n)
        )


class UnitTable(CountTable):
    """The units of texts. rule: which bytes end a unit"""

    def __init__(
        self, rule: Rule, *, max_strings: int = MAX_UNITS, max_bytes: int = _MAX_BYTES
    ) -> None:
        from volt.kernels.unit_scan import RING, Effects

        super().__init__(max_strings=max_strings, max_bytes=max_bytes)
        self._rule = rule
        self._memory = PaddedMemory()
        self._ring = aligned_zeros(RING)
        no_classes = np.zeros(0, np.uint8)
        lasts = np.zeros(256, np.uint8)
        if rule.keeps_breaks:
            lasts = white_last_bytes(rule.breaks, glues_mark=False)
        self._effects = Effects(no_classes, no_classes, lasts, no_classes)

    def add(self, text: bytes | memoryview) -> None:
        """Count the units of a text: whole lines of UTF-8."""
        from volt.kernels.count_units import count_units
        from volt.kernels.unit_table import N_UNITS

        padded = self._memory.read(text, separator=_NEWLINE)
        state = np.array([self.n, 0, 0, 0], np.int64)
        while not count_units(
            padded.data, padded.size, self._rule, self._effects, self._table, self._ring, state
        ):
            self._grow(int(state[N_UNITS]), padded.size)
        self.n = int(state[N_UNITS])


class WordTable(CountTable):
    """A hash table of distinct words and their counts, which are the sums of counts of units."""

    def add(self, units: CountedStrings, cutter: WordCutter) -> None:
        """Split units into words, and add the count of each unit to the counts of its words."""
        from volt.kernels.count_units import add_words
        from volt.kernels.unit_table import N_UNITS

        tables = cutter.splitter.tables
        longest = int((units.ends - units.starts).max(initial=0))
        word_starts = np.empty(longest + 1, np.int64)  # memory for the words of one unit
        word_ends = np.empty(longest + 1, np.int64)
        state = np.array([self.n, 0, 0], np.int64)
        while not add_words(
            units.data,
            units.starts,
            units.ends,
            units.counts,
            tables,
            int(cutter.matches_only),
            word_starts,
            word_ends,
            self._table,
            state,
        ):
            self._grow(int(state[N_UNITS]), longest)
        self.n = int(state[N_UNITS])


@dataclass(frozen=True, eq=False, slots=True)
class UnitCutter:
    """Describes how a pre-tokenizer splits text without user tokens into units, and units into words.

    rule: which bytes end a unit
    cutter: splits units into words
    spares_space: whether a line that starts with a space gets no dummy space before it
    """

    rule: Rule
    cutter: WordCutter
    spares_space: bool = False

    @staticmethod
    @lru_cache(maxsize=64)
    def of(pretokenizer: PreTokenizer) -> UnitCutter | None:
        """Return the cutter of a pre-tokenizer; None if its words depend on whole lines."""
        from volt.kernels.unit_scan import Rule

        pattern = pretokenizer.pattern
        if pretokenizer.name == "whitespace":
            cutter = WordCutter(Splitter.of(Split(pattern)), matches_only=True)
            spaces = build_bit_mask(select_ascii(SPLIT_SPACE))
            rule = Rule(_NEWLINE, True, spaces, clinging=0, keeps_breaks=False, marks_first=False)
            return UnitCutter(rule, cutter)

        if pretokenizer.is_bytes or pretokenizer.has_own_pattern:
            own_cutter = pretokenizer.cutter
        else:
            pattern = pattern.replace(SPACE, " ")
            if pretokenizer.name == "gpt2":
                pattern = GPT2
            own_cutter = WordCutter(Splitter.of(Split(pattern)))
        if own_cutter is None or own_cutter.split_points is None:
            return None
        breaks = own_cutter.split_points.break_mask & ~own_cutter.split_points.clinging_mask
        has_dummy = pretokenizer.dummy_prefix
        rule = Rule(_NEWLINE, True, breaks, clinging=0, keeps_breaks=True, marks_first=has_dummy)
        cutter = own_cutter.without_user_tokens
        return UnitCutter(rule, cutter, spares_space=pretokenizer.if_absent)

    def normalize(self, data: bytes) -> bytes:
        """Replace "▁" by a space, if the pre-tokenizer spells both alike."""
        if self.cutter.reads_mark_as_space:
            data = data.replace(_SPACE, b" ")
        return data

    def add_words(self, units: CountedStrings, *, to: WordTable) -> None:
        if self.rule.marks_first:
            units = self._with_dummy_spaces(units)
        to.add(units, self.cutter)

    def table(self, words: CountedStrings) -> pl.DataFrame:
        """Return a table with columns word and count; words are spelled as in vocabularies."""
        text = np.frombuffer(words.text, np.uint8)
        ended = np.insert(text, words.ends, _NEWLINE)  # no word contains a line end
        lines = ended[:-1].tobytes()
        spelled = pl.Series("word", [self.cutter.spell_lines(lines)]).str.split("\n").explode()
        table = pl.DataFrame({"word": spelled, "count": words.counts})
        if self.cutter.is_bytes or b" " not in lines or _SPACE not in lines:
            return table
        # A space and a "▁" of the text are spelled alike.
        return table.group_by("word").agg(pl.col("count").sum())

    def _with_dummy_spaces(self, units: CountedStrings) -> CountedStrings:
        """Put a space before each unit that starts its line, as the pre-tokenizer does."""
        is_marked = units.is_first.astype(bool)
        if self.spares_space:
            is_marked &= units.data[units.starts] != _BLANK
        n_spaces = np.cumsum(is_marked)  # before the end of each unit
        data = np.insert(units.data, units.starts[is_marked], _BLANK)
        data.flags.writeable = False
        starts = units.starts + n_spaces - is_marked
        return units._replace(data=data, starts=starts, ends=units.ends + n_spaces)
