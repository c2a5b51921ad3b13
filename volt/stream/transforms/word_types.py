"""Split columns into tokens (ids, or bytes between spaces), join tokens, and store replacements of word types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volt.stream.transforms.column import Column, Ints, Longs, concatenated, from_ends, n_parts

NO_OTHERS = Column.of([])
_N_TYPES, _N_BYTES = 1 << 12, 1 << 16  # capacity of a new table
_MOST_TYPES, _MOST_CHOICES = 1 << 19, 1 << 23  # if there are more, all are forgotten


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


def token_counts(column: Column) -> Longs:
    from volt.kernels.word_types import count_tokens

    return n_parts(column, "tokens", count_tokens)


def cut(column: Column, counts: Longs) -> Tokens:
    ends = np.cumsum(counts)
    n = int(ends[-1]) if len(ends) else 0
    if column.is_ids:
        return Tokens(
            column,
            np.repeat(column.starts - (ends - counts), counts) + np.arange(n),
            np.ones(n, int),
            ends,
        )
    from volt.kernels.word_types import cut_tokens

    starts, sizes = np.empty(n, np.int64), np.empty(n, np.int64)
    cut_tokens(column.data, column.starts, column.sizes, starts, sizes)
    return Tokens(column, starts, sizes, ends)


def written(tokens: Tokens, chosen: Longs, ends: Longs, others: Column) -> Column:
    """Join chosen tokens with spaces into the values of a new column.

    chosen: indices of `tokens`; −1 stands for the first value of `others`, −2 for the second, and so on
    ends: (n_values,) int64, where each new value ends in `chosen`
    """
    column, is_own = tokens.column, chosen >= 0
    own, rest = (chosen, chosen[:0]) if is_own.all() else (chosen[is_own], -1 - chosen[~is_own])
    if column.is_ids:
        ids = np.empty(len(chosen), np.int32)
        ids[is_own], ids[~is_own] = (
            column.data[tokens.starts[own]],
            others.data[others.starts[rest]],
        )
        return Column.of_ids(ids, np.concatenate([[0], ends]))
    from volt.kernels.word_types import SPARE, write_tokens

    n_bytes = int(tokens.sizes[own].sum() + others.sizes[rest].sum()) + len(chosen)  # with spaces
    out, out_ends = np.empty(n_bytes + SPARE, np.uint8), np.empty(len(ends), np.int64)
    views = column.data, tokens.starts, tokens.sizes, others.data, others.starts, others.sizes
    write_tokens(*views, chosen, ends, out, out_ends)
    return from_ends(out[:n_bytes], out_ends)


def with_values(column: Column, lines: Longs, values: Column) -> Column:
    """Return the column with new values in `lines`, sorted indices."""
    if not len(lines):
        return column
    others = np.delete(np.arange(len(column)), lines)
    if not len(others):
        return values
    places = np.empty(len(column), np.int64)
    places[lines], places[others] = np.arange(len(lines)), np.arange(len(lines), len(column))
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
        self._choices, self._prepare, self._lock = choices, prepare, Lock()
        self._clear()

    def __reduce__(self) -> tuple[type[WordTypes], tuple[Any, Any]]:
        return WordTypes, (self._choices, self._prepare)

    def find(self, column: Column) -> ColumnWords:
        from volt.kernels.word_types import N_LINES, N_TOKENS, N_TYPES, find_words

        column = column.as_text() if self._prepare is None else self._prepare(column.as_text())
        sizes = np.maximum(column.sizes, 0)
        numbers, ends = (
            np.empty(int((sizes + 1).sum() // 2 + len(sizes)), np.int32),
            np.empty(len(sizes), np.int64),
        )
        with self._lock:
            if self._state[N_TYPES] > _MOST_TYPES or len(self._bounds) > _MOST_CHOICES:
                self._clear()
            self._state[[N_LINES, N_TOKENS]] = 0
            try:
                while not find_words(
                    column.data, column.starts, sizes, self._types, numbers, ends, self._state
                ):
                    self._grow(int(sizes[self._state[N_LINES]]))
                self._add_choices()
            except BaseException:  # otherwise, some types would remain without choices
                self._clear()
                raise
            numbers, hashes, unknown = (
                numbers[: self._state[N_TOKENS]],
                self._types.hashes,
                dict(self._unknown),
            )
            arrays = self._choice_starts, self._bounds, self._sides, self._text_starts, self._text
            return ColumnWords(numbers, ends, hashes, unknown, *(array.view() for array in arrays))

    def _clear(self) -> None:
        from volt.kernels.word_types import Types

        slots, hashes = np.zeros(2 * _N_TYPES, np.int64), np.zeros(_N_TYPES, np.uint64)
        self._types = Types(
            slots, hashes, np.zeros(_N_TYPES + 1, np.int64), np.zeros(_N_BYTES, np.uint8)
        )
        self._state, self._unknown = np.zeros(4, np.int64), dict[int, str]()
        self._choice_starts, self._text_starts = (
            _GrowingArray([0], np.int64),
            _GrowingArray([0], np.int64),
        )
        self._bounds, self._sides = _GrowingArray([], float), _GrowingArray([], np.int32)
        self._text = _GrowingArray([], np.uint8)

    def _grow(self, size: int) -> None:
        from volt.kernels.word_types import N_BYTES, N_TYPES, Types, enter_types

        n_types, n_bytes = 2 * len(self._types.hashes), 2 * len(self._types.bytes)
        while n_types < self._state[N_TYPES] + size:
            n_types *= 2
        slots, hashes = np.zeros(2 * n_types, np.int64), _longer(self._types.hashes, n_types)
        enter_types(hashes, self._state[N_TYPES], slots)
        data = _longer(self._types.bytes, max(n_bytes, self._state[N_BYTES] + size))
        self._types = Types(slots, hashes, _longer(self._types.starts, n_types + 1), data)

    def _add_choices(self) -> None:
        from volt.kernels.word_types import N_TYPES

        done = len(self._choice_starts) - 1
        places = self._types.starts[done : int(self._state[N_TYPES]) + 1].tolist()
        if len(places) == 1:
            return
        data = self._types.bytes[places[0] : places[-1]].tobytes()
        spans = [(start - places[0], end - places[0]) for start, end in pairwise(places)]
        words = [data[start:end].decode("utf-8", "surrogatepass") for start, end in spans]
        texts, sides, bounds, n_choices = (
            list[bytes](),
            list[tuple[int, int]](),
            list[float](),
            list[int](),
        )
        first = len(self._text_starts) - 1
        for number, (word, choices) in enumerate(
            zip(words, self._choices(words), strict=True), done
        ):
            before = first + len(texts)
            texts += [text.encode("utf-8", "surrogatepass") + b" " for text in choices.texts]
            sides += [(before + one, before + other) for one, other in choices.sides]
            bounds += choices.bounds
            n_choices.append(len(choices.bounds))
            if not choices.bounds:
                self._unknown[number] = word
        self._text_starts.add(self._text_starts.view()[-1] + np.cumsum(list(map(len, texts))))
        self._text.add(np.frombuffer(b"".join(texts), np.uint8))
        self._choice_starts.add(self._choice_starts.view()[-1] + np.cumsum(n_choices))
        self._sides.add(np.array(sides, np.int32).ravel())
        self._bounds.add(np.array(bounds, float))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnWords:
    """The words of a column, as views into the tables of `WordTypes`.

    numbers: (n_words,) int32, the type of each word
    ends: (n_lines,) int64, the end of each line's words
    unknown: the number of a type without choices → its word
    choice_starts: where each type's choices start in `bounds`
    bounds, sides: the bounds and sides of all choices, as in `Choices`
    text_starts: where each text starts in `text`
    text: uint8, the texts of all choices, each followed by a space
    """

    numbers: Ints
    ends: Longs
    hashes: NDArray[np.uint64]
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

    def drawn(self, words: NDArray[np.uint64], *, by_type: bool = False) -> Ints:
        """Draw a choice for each word, from random bits (n_lines,); if `by_type`, one for equal words of a line."""
        from volt.kernels.word_types import choose

        out = np.empty(len(self.numbers), np.int32)
        choose(
            words,
            self.ends,
            self.numbers,
            self.hashes,
            by_type,
            self.choice_starts,
            self.bounds,
            out,
        )
        return out

    def written(self, choices: Ints, *, side: int) -> Column:
        from volt.encode.batch_encoder import expanded

        part = expanded(
            self.sides[2 * choices + (side - 1)], self.ends, self.text_starts, self.text
        )
        return from_ends(part.values, part.ends, gap=1)


class _GrowingArray:
    """An array that grows; its views stay valid."""

    def __init__(self, values: Sequence[int], dtype: DTypeLike) -> None:
        self._data = np.array(values, dtype)
        self._n = len(values)

    def __len__(self) -> int:
        return self._n

    def view(self) -> NDArray[Any]:
        return self._data[: self._n]

    def add(self, values: NDArray[Any]) -> None:
        n = self._n + len(values)
        if n > len(self._data):
            self._data = _longer(self._data, 2 * n)
        self._data[self._n : n], self._n = values, n


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    return np.pad(array, (0, size - len(array)))
