"""Split columns into tokens (ids, or bytes between spaces), join tokens, and store replacements of
word types.

A word type is a word that occurs, however often. `WordTypes` numbers the types in the order of
their first occurrence, and stores each type's choices, that is, the texts that can replace its
occurrences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volt.stream.transforms.column import (
    Column,
    Ints,
    Longs,
    concatenated,
    from_ends,
    longs,
    n_parts,
    widths,
)
from volt.stream.transforms.line_rng import Bits

NO_OTHERS = Column.of([])
_N_TYPES = 1 << 12  # capacity of a new table
_N_BYTES = 1 << 16
_MOST_TYPES = 1 << 19  # if there are more types or choices, all are forgotten
_MOST_CHOICES = 1 << 23


class Tokens(NamedTuple):
    """The tokens of a column, one value after the other.

    starts: (n_tokens,) int64, where each token starts in the column's data
    sizes: (n_tokens,) int64, the number of its bytes; 1 for an id
    ends: (n_values,) int64, the number of tokens up to the end of each value
    """

    column: Column
    starts: Longs
    sizes: Longs
    ends: Longs

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def views(self) -> tuple[NDArray[Any], Longs, Longs]:
        return self.column.data, self.starts, self.sizes


def token_counts(column: Column) -> Longs:
    from volt.kernels.word_types import count_tokens

    return n_parts(column, "tokens", count_tokens)


def cut(column: Column, counts: Longs) -> Tokens:
    """Split a column into tokens. counts: `token_counts(column)`"""
    ends = np.cumsum(counts)
    n = int(counts.sum())
    if column.is_ids:
        offsets = column.starts - (ends - counts)
        starts = np.repeat(offsets, counts) + np.arange(n)
        return Tokens(column, starts, np.ones(n, int), ends)
    from volt.kernels.word_types import cut_tokens

    starts = longs(n)
    sizes = longs(n)
    cut_tokens(*column.views, starts, sizes)
    return Tokens(column, starts, sizes, ends)


def written(tokens: Tokens, chosen: Longs, ends: Longs, others: Column) -> Column:
    """Join chosen tokens with spaces into the values of a new column.

    chosen: indices of `tokens`; −1 stands for the first value of `others`, −2 for the second, and
        so on
    ends: (n_values,) int64, where each new value ends in `chosen`
    """
    column = tokens.column
    own = chosen
    rest = chosen[:0]
    if len(others):
        own = chosen[chosen >= 0]
        rest = -1 - chosen[chosen < 0]
    if column.is_ids:
        ids = np.empty(len(chosen), np.int32)
        ids[chosen >= 0] = column.data[tokens.starts[own]]
        ids[chosen < 0] = others.data[others.starts[rest]]
        return from_ends(ids, ends)
    from volt.kernels.word_types import SPARE, write_tokens

    size = tokens.sizes[own].sum() + others.sizes[rest].sum()
    n_bytes = int(size) + len(chosen)  # with spaces
    out = np.empty(n_bytes + SPARE, np.uint8)
    out_ends = longs(len(ends))
    write_tokens(*tokens.views, *others.views, chosen, ends, out, out_ends)
    return from_ends(out[:n_bytes], out_ends)


def with_values(column: Column, lines: Longs, values: Column) -> Column:
    """Return the column with new values in `lines`, sorted indices. The result's buffer contains no
    old values."""
    if not len(lines):
        return column
    others = np.delete(np.arange(len(column)), lines)
    if not len(others):
        return values
    places = longs(len(column))
    places[np.concatenate([lines, others])] = np.arange(len(column))
    return concatenated([values, column.take(others).compact()]).take(places)


class Choices(NamedTuple):
    """Replacements of a word; empty if the word is unknown.

    sides: for each choice, the numbers of its texts, one for each side
    bounds: cumulative probabilities of choices; the last is 1
    """

    texts: Sequence[str] = ()
    sides: Sequence[tuple[int, int]] = ()
    bounds: Sequence[float] = ()


class WordTypes:
    """The word types seen so far, with choices computed at a type's first occurrence. Thread-safe.

    choices: new words → the choices of each word
    prepare: a function that changes a column before its words are looked up
    """

    def __init__(
        self,
        choices: Callable[[list[str]], list[Choices]],
        prepare: Callable[[Column], Column] | None = None,
    ) -> None:
        self._choices = choices
        self._prepare = prepare
        self._lock = Lock()
        self._clear()

    def __reduce__(self) -> tuple[type[WordTypes], tuple[Any, Any]]:
        return WordTypes, (self._choices, self._prepare)

    def find(self, column: Column) -> ColumnWords:
        """Return the words of a column, after adding the types that are new."""
        column = column.as_text()
        if self._prepare is not None:
            column = self._prepare(column)
        sizes = widths(column)
        most_words = int((sizes + 1).sum() // 2 + len(sizes))
        numbers = np.empty(most_words, np.int32)
        ends = longs(len(sizes))

        with self._lock:
            try:
                n_words = self._number(column, sizes, numbers, ends)
                self._add_choices()
            except BaseException:  # otherwise, some types would remain without choices
                self._clear()
                raise
            return ColumnWords(
                numbers[:n_words],
                ends,
                self._types.hashes,
                dict(self._unknown),
                *(array.view() for array in self._tables),
            )

    def _number(self, column: Column, sizes: Longs, numbers: Ints, ends: Longs) -> int:
        """Write the numbers of a column's words, and where each value's words end. Return the
        number of words."""
        from volt.kernels.word_types import N_LINES, N_TOKENS, N_TYPES, find_words

        n_choices = len(self._tables.bounds)
        if self._state[N_TYPES] > _MOST_TYPES or n_choices > _MOST_CHOICES:
            self._clear()

        state = self._state
        state[[N_LINES, N_TOKENS]] = 0
        views = (column.data, column.starts, sizes)
        while not find_words(*views, self._types, True, numbers, ends, state):
            self._grow(int(sizes[state[N_LINES]]))
        return int(state[N_TOKENS])

    def _clear(self) -> None:
        from volt.kernels.word_types import Types

        self._types = Types(
            np.zeros(2 * _N_TYPES, np.int64),
            np.zeros(_N_TYPES, np.uint64),
            np.zeros(_N_TYPES + 1, np.int64),
            np.zeros(_N_BYTES, np.uint8),
        )
        self._state = np.zeros(4, np.int64)
        self._unknown = dict[int, str]()
        self._tables = _ChoiceTables(
            starts=_GrowingArray([0], np.int64),
            bounds=_GrowingArray([], np.float64),
            sides=_GrowingArray([], np.int32),
            text_starts=_GrowingArray([0], np.int64),
            text=_GrowingArray([], np.uint8),
        )

    def _grow(self, size: int) -> None:
        """Make room for the words of a value of `size` bytes, and for twice as many types and bytes
        as now."""
        from volt.kernels.word_types import N_BYTES, N_TYPES, Types, enter_types

        old = self._types
        n_types = 2 * len(old.hashes)
        while n_types < self._state[N_TYPES] + size:
            n_types *= 2
        n_bytes = max(2 * len(old.bytes), int(self._state[N_BYTES]) + size)

        slots = np.zeros(2 * n_types, np.int64)
        hashes = _longer(old.hashes, n_types)
        enter_types(hashes, self._state[N_TYPES], slots)
        starts = _longer(old.starts, n_types + 1)
        self._types = Types(slots, hashes, starts, _longer(old.bytes, n_bytes))

    def _add_choices(self) -> None:
        """Compute and store the choices of the types that have none yet."""
        from volt.kernels.word_types import N_TYPES

        n_known = len(self._tables.starts) - 1
        n_types = int(self._state[N_TYPES])
        bounds = self._types.starts[n_known : n_types + 1].tolist()
        if len(bounds) == 1:
            return

        data = self._types.bytes[: bounds[-1]].tobytes()
        words = [
            data[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(bounds)
        ]
        choices = self._choices(words)
        self._tables.add(choices)
        for number, (word, its_choices) in enumerate(zip(words, choices, strict=True), n_known):
            if not its_choices.bounds:
                self._unknown[number] = word


class _GrowingArray:
    """An array that grows; its views stay valid."""

    def __init__(self, values: Sequence[int], dtype: DTypeLike) -> None:
        self._data = np.array(values, dtype)
        self._n = len(values)

    def __len__(self) -> int:
        return self._n

    def view(self) -> NDArray[Any]:
        return self._data[: self._n]

    def add(self, values: Any) -> None:
        n = self._n + len(values)
        if n > len(self._data):
            self._data = _longer(self._data, 2 * n)
        self._data[self._n : n] = values
        self._n = n

    def add_ends(self, sizes: Sequence[int]) -> None:
        """Add where items of these sizes end, if the first of them starts at the array's last
        value."""
        self.add(self.view()[-1] + np.cumsum(sizes))


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    return np.pad(array, (0, size - len(array)))


class _ChoiceTables(NamedTuple):
    """The choices of all types, in the order of the fields of `ColumnWords`."""

    starts: _GrowingArray
    bounds: _GrowingArray
    sides: _GrowingArray
    text_starts: _GrowingArray
    text: _GrowingArray

    def add(self, choices: Sequence[Choices]) -> None:
        n_choices = [len(each.bounds) for each in choices]
        n_texts = np.array([len(each.texts) for each in choices])
        first_texts = len(self.text_starts) - 1 + np.cumsum(n_texts) - n_texts
        self.starts.add_ends(n_choices)
        self.bounds.add(list(chain.from_iterable(each.bounds for each in choices)))

        pairs = list(chain.from_iterable(each.sides for each in choices))
        offsets = np.repeat(first_texts, n_choices)
        sides = np.array(pairs, np.int64).reshape(-1, 2) + offsets[:, None]
        self.sides.add(sides.ravel())

        texts = chain.from_iterable(each.texts for each in choices)
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        self.text_starts.add_ends(list(map(len, encoded)))
        self.text.add(np.frombuffer(b"".join(encoded), np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnWords:
    """The words of a column, as views into the tables of `WordTypes`.

    numbers: (n_words,) int32, the type of each word
    ends: (n_lines,) int64, the end of each line's words
    hashes: (n_types,) uint64, the hash of each type
    unknown: the number of a type without choices → its word
    choice_starts: where each type's choices start in `bounds`
    bounds, sides: the bounds and sides of all choices, as in `Choices`
    text_starts: where each text starts in `text`
    text: uint8, the texts of all choices
    """

    numbers: Ints
    ends: Longs
    hashes: Bits
    unknown: dict[int, str]
    choice_starts: Longs
    bounds: NDArray[np.float64]
    sides: Ints
    text_starts: Longs
    text: NDArray[np.uint8]

    def unknown_words(self) -> Longs:
        if not self.unknown:
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.isin(self.numbers, list(self.unknown)))

    def drawn(self, words: Bits, *, by_type: bool = False) -> Ints:
        """Draw a choice for each word, from random bits (n_lines,); if `by_type`, one for equal
        words of a line."""
        from volt.kernels.word_types import choose

        out = np.empty(len(self.numbers), np.int32)
        types = (self.hashes, by_type, self.choice_starts, self.bounds)
        choose(words, self.ends, self.numbers, *types, out)
        return out

    def written(self, choices: Ints, *, side: int) -> Column:
        """Return the text of each word's choice on a side, 1 or 2, with spaces between words."""
        texts = Column(self.text, self.text_starts[:-1], np.diff(self.text_starts))
        tokens = Tokens(texts, texts.starts, texts.sizes, self.ends)
        chosen = self.sides[2 * choices + (side - 1)].astype(np.int64)
        return written(tokens, chosen, self.ends, NO_OTHERS)
