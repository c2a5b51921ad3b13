"""Tokens of columns, and tables of word types with the texts that can replace their occurrences.

A token is an id, or the bytes between two spaces. `split_tokens` cuts a column into views of its
tokens, and `join_tokens` writes chosen tokens, with spaces between them, into a new column:

    ["a house", "b"]  →  tokens a, house, b, which end at 2, 3  →  chosen 1, 0, 2  →  ["house a", "b"]

A word type is a distinct word. `WordTypes` numbers types in the order of their first occurrence,
and computes each type's choices once: the texts that can replace the word, with probabilities.
`ColumnWords` draws a choice for each word of a column, and writes the chosen texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from volt.array_types import Array, Bytes, Floats, Ints, Longs
from volt.stream.transforms.column import Column, concatenate, longs, split_at, widths
from volt.stream.transforms.column_measurements import count_parts
from volt.stream.transforms.line_batch import Bits

NO_TEXTS = Column.of([])
_N_TYPES = 1 << 12  # capacities of a new table
_N_BYTES = 1 << 16
_MOST_TYPES = 1 << 19  # a table with more types or choices is emptied, to bound its memory
_MOST_CHOICES = 1 << 23


class Tokens(NamedTuple):
    """The tokens of a column, one value after the other.

    starts: (n_tokens,) int64, where each token starts in the column's data
    sizes: (n_tokens,) int64, the number of its bytes; 1 for an id
    value_ends: (n_values,) int64, the number of tokens up to the end of each value
    """

    column: Column
    starts: Longs
    sizes: Longs
    value_ends: Longs

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def views(self) -> tuple[Array, Longs, Longs]:
        return self.column.data, self.starts, self.sizes


def count_tokens(column: Column) -> Longs:
    """Return (n_values,) the number of tokens of each value."""
    from volt.kernels.word_types import count_tokens as count

    return count_parts(column, "tokens", count)


def split_tokens(column: Column, n_tokens: Longs) -> Tokens:
    """Split a column into tokens. n_tokens: `count_tokens(column)`"""
    value_ends = np.cumsum(n_tokens)
    n = int(n_tokens.sum())
    if column.is_ids:
        # Token t of a value that starts at s, with tokens first … in all, is at s + (t − first)
        offsets = column.starts - (value_ends - n_tokens)
        starts = np.repeat(offsets, n_tokens) + np.arange(n)
        return Tokens(column, starts, np.ones(n, int), value_ends)
    from volt.kernels.word_types import cut_tokens

    starts = longs(n)
    sizes = longs(n)
    cut_tokens(*column.views, starts, sizes)
    return Tokens(column, starts, sizes, value_ends)


def join_tokens(
    tokens: Tokens, chosen: Longs, value_ends: Longs, new_tokens: Column = NO_TEXTS
) -> Column:
    """Join chosen tokens, with spaces between them, into the values of a new column.

    chosen: indices of `tokens`; −1 stands for the first of `new_tokens`, −2 for the second, …
    value_ends: (n_values,) int64, where each new value ends in `chosen`
    new_tokens: further tokens; ids if the tokens are ids
    """
    column = tokens.column
    old = chosen
    new = chosen[:0]
    if len(new_tokens):
        old = chosen[chosen >= 0]
        new = -1 - chosen[chosen < 0]
    if column.is_ids:
        ids = np.empty(len(chosen), np.int32)
        ids[chosen >= 0] = column.data[tokens.starts[old]]
        ids[chosen < 0] = new_tokens.data[new_tokens.starts[new]]
        return split_at(ids, value_ends)
    from volt.kernels.word_types import SPARE, write_tokens

    n_token_bytes = tokens.sizes[old].sum() + new_tokens.sizes[new].sum()
    n_bytes = int(n_token_bytes) + len(chosen)  # with spaces
    out = np.empty(n_bytes + SPARE, np.uint8)
    out_ends = longs(len(value_ends))
    write_tokens(*tokens.views, *new_tokens.views, chosen, value_ends, out, out_ends)
    return split_at(out[:n_bytes], out_ends)


def replace_values(column: Column, indices: Longs, values: Column) -> Column:
    """Return the column with new values; the result's buffer does not contain the old ones.

    indices: sorted indices of the values that are replaced
    """
    if not len(indices):
        return column
    others = np.delete(np.arange(len(column)), indices)
    if not len(others):
        return values
    order = longs(len(column))
    order[np.concatenate([indices, others])] = np.arange(len(column))
    return concatenate([values, column.take(others).compact()]).take(order)


class Choices(NamedTuple):
    """The texts that can replace a word; all are empty if the word is unknown.

    sides: for each choice, the index of its text on side 1, and on side 2
    bounds: the cumulative probabilities of choices; the last is 1

    Choices(["lo w", "l o w"], [(0, 0), (1, 1)], [0.25, 1]): "lo w" in a quarter of the draws.
    """

    texts: Sequence[str] = ()
    sides: Sequence[tuple[int, int]] = ()
    bounds: Sequence[float] = ()


class ChoiceTable(NamedTuple):
    """The choices of all word types.

    choice_starts: (n_types + 1,); type t has the choices choice_starts[t]:choice_starts[t + 1]
    bounds: (n_choices,) float64, as in `Choices`
    sides: (2 · n_choices,) int32; choice c has text sides[2 · c] on side 1, sides[2 · c + 1] on 2
    text_starts: (n_texts + 1,); text x is text[text_starts[x]:text_starts[x + 1]]
    text: uint8, UTF-8
    """

    choice_starts: Longs
    bounds: Floats
    sides: Ints
    text_starts: Longs
    text: Bytes


class WordTypes:
    """The word types of all columns so far, with their choices. Thread-safe.

    compute_choices: a function from words to the choices of each word
    prepare: a function that changes a column before its words are looked up
    """

    def __init__(
        self,
        compute_choices: Callable[[list[str]], list[Choices]],
        prepare: Callable[[Column], Column] | None = None,
    ) -> None:
        self._compute_choices = compute_choices
        self._prepare = prepare
        self._lock = Lock()
        self._clear()

    def __reduce__(self) -> tuple[type[WordTypes], tuple[Any, Any]]:
        return WordTypes, (self._compute_choices, self._prepare)

    def look_up(self, column: Column) -> ColumnWords:
        """Return the words of a column; types that are new get their choices."""
        column = column.as_text()
        if self._prepare is not None:
            column = self._prepare(column)
        with self._lock:
            n_choices = len(self._choices.view().bounds)
            if self._types.n_types > _MOST_TYPES or n_choices > _MOST_CHOICES:
                self._clear()
            try:
                type_numbers, value_ends = self._types.number_words(column)
                self._add_choices()
            except BaseException:  # otherwise, some types would remain without choices
                self._clear()
                raise
            return ColumnWords(
                type_numbers,
                value_ends,
                self._types.arrays.hashes,
                dict(self._unknown_words),
                self._choices.view(),
            )

    def _clear(self) -> None:
        self._types = _TypeTable()
        self._choices = _GrowingChoices()
        self._unknown_words = dict[int, str]()

    def _add_choices(self) -> None:
        n_known = len(self._choices.view().choice_starts) - 1
        words = self._types.decode_words(n_known)
        if not words:
            return
        choices = self._compute_choices(words)
        self._choices.add(choices)
        for type_number, (word, its_choices) in enumerate(
            zip(words, choices, strict=True), n_known
        ):
            if not its_choices.bounds:
                self._unknown_words[type_number] = word


class _TypeTable:
    """A hash table from words to type numbers, which grows.

    The kernel `find_words` writes into `arrays`, and into `state` its four counts, at indices that
    the kernel's module names: N_TYPES and N_BYTES, the content of the table; N_LINES and N_TOKENS,
    the values and words of a column that are done, which `number_words` resets.
    """

    def __init__(self) -> None:
        from volt.kernels.word_types import Types

        self.arrays = Types(
            slots=np.zeros(2 * _N_TYPES, np.int64),
            hashes=np.zeros(_N_TYPES, np.uint64),
            starts=np.zeros(_N_TYPES + 1, np.int64),
            bytes=np.zeros(_N_BYTES, np.uint8),
        )
        self.state = np.zeros(4, np.int64)

    @property
    def n_types(self) -> int:
        from volt.kernels.word_types import N_TYPES

        return int(self.state[N_TYPES])

    def number_words(self, column: Column) -> tuple[Ints, Longs]:
        """Return (n_words,) the type of each word, and (n_values,) where each value's words end."""
        from volt.kernels.word_types import N_LINES, N_TOKENS, find_words

        sizes = widths(column)
        most_words = int(((sizes + 1) // 2).sum())  # words of one byte, and a space between two
        type_numbers = np.empty(most_words, np.int32)
        value_ends = longs(len(sizes))
        views = (column.data, column.starts, sizes)
        self.state[[N_LINES, N_TOKENS]] = 0
        while not find_words(*views, self.arrays, True, type_numbers, value_ends, self.state):
            self._grow(int(sizes[self.state[N_LINES]]))  # then continue with that value
        return type_numbers[: self.state[N_TOKENS]], value_ends

    def _grow(self, n_more: int) -> None:
        """Double the table, or more, so that a value of `n_more` bytes fits."""
        from volt.kernels.word_types import N_BYTES, Types, enter_types

        old = self.arrays
        n_types = 2 * len(old.hashes)
        while n_types < self.n_types + n_more:
            n_types *= 2
        n_bytes = max(2 * len(old.bytes), int(self.state[N_BYTES]) + n_more)

        slots = np.zeros(2 * n_types, np.int64)
        hashes = _lengthen(old.hashes, n_types)
        enter_types(hashes, self.n_types, slots)
        starts = _lengthen(old.starts, n_types + 1)
        self.arrays = Types(slots, hashes, starts, _lengthen(old.bytes, n_bytes))

    def decode_words(self, first_type: int) -> list[str]:
        """Return the words of the types from `first_type` on."""
        bounds = self.arrays.starts[first_type : self.n_types + 1].tolist()
        data = self.arrays.bytes[: bounds[-1]].tobytes()
        return [data[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(bounds)]


class _GrowingChoices:
    """A `ChoiceTable` that grows; views of it stay valid."""

    def __init__(self) -> None:
        self._choice_starts = _GrowingArray([0], np.int64)
        self._bounds = _GrowingArray([], np.float64)
        self._sides = _GrowingArray([], np.int32)
        self._text_starts = _GrowingArray([0], np.int64)
        self._text = _GrowingArray([], np.uint8)

    def view(self) -> ChoiceTable:
        arrays = (
            self._choice_starts,
            self._bounds,
            self._sides,
            self._text_starts,
            self._text,
        )
        return ChoiceTable(*[array.view() for array in arrays])

    def add(self, choices: Sequence[Choices]) -> None:
        """Add the choices of new types."""
        n_choices = [len(each.bounds) for each in choices]
        self._choice_starts.add_ends(n_choices)
        self._bounds.add(list(chain.from_iterable(each.bounds for each in choices)))

        # `sides` of a word counts its own texts; the table counts all texts
        n_texts = np.array([len(each.texts) for each in choices])
        first_texts = len(self._text_starts.view()) - 1 + np.cumsum(n_texts) - n_texts
        pairs = list(chain.from_iterable(each.sides for each in choices))
        sides = np.array(pairs, np.int64).reshape(-1, 2)
        self._sides.add((sides + np.repeat(first_texts, n_choices)[:, None]).ravel())

        texts = chain.from_iterable(each.texts for each in choices)
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        self._text_starts.add_ends(list(map(len, encoded)))
        self._text.add(np.frombuffer(b"".join(encoded), np.uint8))


class _GrowingArray:
    """An array that grows; its views stay valid, because items never change."""

    def __init__(self, values: Sequence[int], dtype: DTypeLike) -> None:
        self._data = np.array(values, dtype)
        self._n = len(values)

    def view(self) -> Array:
        return self._data[: self._n]

    def add(self, values: Any) -> None:
        n = self._n + len(values)
        if n > len(self._data):
            self._data = _lengthen(self._data, 2 * n)
        self._data[self._n : n] = values
        self._n = n

    def add_ends(self, sizes: Sequence[int]) -> None:
        """Add where items of these sizes end; the first of them starts at the last value."""
        self.add(self.view()[-1] + np.cumsum(sizes))


def _lengthen(array: Array, size: int) -> Array:
    return np.pad(array, (0, size - len(array)))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnWords:
    """The words of a column.

    type_numbers: (n_words,) int32, the type of each word
    value_ends: (n_values,) int64, where each value's words end
    hashes: (n_types or more,) uint64, the hash of each type
    unknown_words: the number of a type without choices → its word
    choices: the choices of all types
    """

    type_numbers: Ints
    value_ends: Longs
    hashes: Bits
    unknown_words: dict[int, str]
    choices: ChoiceTable

    def find_unknown(self) -> Longs:
        """Return the indices of the words without choices."""
        if not self.unknown_words:
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.isin(self.type_numbers, list(self.unknown_words)))

    def draw_choices(self, random_bits: Bits, *, by_type: bool = False) -> Ints:
        """Draw a choice for each word. Return (n_words,) int32, their numbers in the table.

        random_bits: (n_values,) 64 bits for each value
        by_type: whether equal words of a value get one choice
        """
        from volt.kernels.word_types import choose

        out = np.empty(len(self.type_numbers), np.int32)
        table = (self.hashes, by_type, self.choices.choice_starts, self.choices.bounds)
        choose(random_bits, self.value_ends, self.type_numbers, *table, out)
        return out

    def write_choices(self, choices: Ints, *, side: int) -> Column:
        """Return the text of each word's choice on a side, 1 or 2, with spaces between words."""
        starts = self.choices.text_starts
        texts = Column(self.choices.text, starts[:-1], np.diff(starts))
        tokens = Tokens(texts, texts.starts, texts.sizes, self.value_ends)
        chosen = self.choices.sides[2 * choices + (side - 1)].astype(np.int64)
        return join_tokens(tokens, chosen, self.value_ends)
