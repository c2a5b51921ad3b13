r"""`BatchEncoder`: bytes → ids or text, by the million lines, without a Python object for a word or a line.

Threads look up the values of the units of chunks (volt.encode.pretokens). The compiled loop encodes simple new units;
Python encodes the others together. Each thread borrows its own `UnitCache`, so nothing is locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.display import counted
from volt.encode.chunks import NO_BYTE_OF_TEXT, Chunk
from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import UnitRule, joined_lines, split_lines, unit_words
from volt.encode.rendering import Rendering
from volt.encode.unit_cache import EncodedPart, UnitCache, unit_encoder_of
from volt.errors import ConfigError
from volt.files.blocks import utf8_error
from volt.files.threads import available_cores, in_order
from volt.text.characters import CharacterClasses

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dropout:
    """Random skipping of merges.

    probability: the probability of skipping a merge
    seed: 64 bits; with a line's number, it starts the generator of the line
    """

    probability: float
    seed: int

    @classmethod
    def of(cls, probability: float, seed: int | None) -> Dropout | None:
        """Return the dropout, or None for probability 0. Raises ConfigError if it lacks a seed."""
        if not 0.0 <= (probability := arguments.number(probability, "dropout")) <= 1.0:
            raise ConfigError(f"dropout is {probability}; give a probability from 0 to 1")
        seed = None if seed is None else arguments.whole(seed, "seed")
        if not probability:
            return None
        if seed is None or seed < 0:
            raise ConfigError(f"dropout draws at random: give a seed, a whole number from 0 up (it is {seed})")
        return cls(probability, np.random.SeedSequence(seed).generate_state(1, np.uint64).view(np.int64)[0].item())


class BatchEncoder:
    """Encodes many lines with one vocabulary. Safe to share between threads.

    tables: the vocabulary for compiled code
    rendering: the output: ids, pieces, or ids as text
    sampled: whether to cache atoms of units, for dropout
    limit: about how many units each thread caches
    """

    def __init__(
        self, tables: MergeTables, rendering: Rendering, *, sampled: bool = False, limit: int = 1 << 20
    ) -> None:
        self.tables, self.rendering, self.sampled, self._limit = tables, rendering, sampled, limit
        self._rule = UnitRule.of(tables.vocabulary)
        self._classes = CharacterClasses()  # shared by its threads
        self._encoder = unit_encoder_of(tables, None if sampled else rendering, self._classes)
        self._idle: list[UnitCache] = []

    def encode(
        self, chunks: Iterable[Chunk], *, dropout: Dropout | None = None, n_threads: int | None = None
    ) -> Iterator[EncodedPart]:
        """Yield the encoded lines of each chunk, in order; an awaited chunk's before the next is requested."""
        assert self.sampled == (dropout is not None)
        encode, n_threads = partial(self._encode, dropout=dropout), n_threads or available_cores()
        return in_order(encode, chunks, n_threads=n_threads, is_awaited=attrgetter("awaited"))

    def _encode(self, chunk: Chunk, *, dropout: Dropout | None) -> EncodedPart:
        if not len(chunk.text):  # the end of a file needs no cache
            return EncodedPart(np.zeros(0, self.rendering.dtype), np.zeros(0, np.int64))
        try:
            cache = self._idle.pop()
        except IndexError:
            dtype = np.int32 if self.sampled else self.rendering.dtype
            cache = UnitCache(self._rule, self._encoder, dtype, limit=self._limit)
        try:
            lines = self._lines(chunk, cache)
        except UnicodeDecodeError:  # the cache is not used again: it holds units without values
            raise utf8_error(chunk.block) from None
        self._idle.append(cache)
        return self._sampled(lines, chunk, dropout) if dropout else lines

    def _lines(self, chunk: Chunk, cache: UnitCache) -> EncodedPart:
        if self._rule.words:
            words = joined_lines(
                self.tables.vocabulary, bytes(chunk.text), separator=chunk.separator, strips_return=chunk.strips_return
            )
            chunk = Chunk(words, NO_BYTE_OF_TEXT)
        cache.trim()
        text = cache.read(chunk.text, separator=chunk.separator, padded=chunk.padded)
        lines = cache.encode(text, strips_return=chunk.strips_return)
        if len(cache.pending):
            self._encode_pending(cache)
            lines = cache.encode(text, strips_return=chunk.strips_return)
        return self._with_left_lines(lines, text.data.tobytes(), chunk.separator) if len(lines.left) else lines

    def _encode_pending(self, cache: UnitCache) -> None:
        if cache.uses_classes and self._classes.classify(cache.units(cache.pending)[0].decode()):
            cache.encode_pending()
        if not len(numbers := cache.pending):
            return
        data, ends = cache.units(numbers)
        result = unit_words(self.tables.vocabulary, data, ends, first=cache.firsts(numbers))
        values, ends = self._values(result.text, result.lengths)
        cache.fill_pending(values, _ends_of_groups(ends, result.n_words), result.irregular)

    def _values(self, text: str, lengths: Longs) -> tuple[NDArray[Any], Longs]:
        """Return the values of words, and where each word ends; for dropout, atoms, each word's last marked."""
        symbols, ends = self.tables.atoms(text, lengths)
        if self.sampled:
            atoms = 2 * symbols
            atoms[ends - 1] += 1
            return atoms, ends
        symbols, ends = self.tables.encode_atoms(symbols, ends)
        values, symbol_ends = self.rendering.expand(symbols)
        return values, _ends_of_groups(symbol_ends, np.diff(ends, prepend=0))

    def _with_left_lines(self, lines: EncodedPart, text: bytes, separator: int) -> EncodedPart:
        """Insert the values of the lines that the compiled loop left out, each encoded as a whole."""
        numbers, mark = lines.left[:, 0], bytes([separator])
        left = [text[text.rfind(mark, 0, end) + 1 : end].decode() for end in lines.left[:, 1].tolist()]
        split = split_lines(self.tables.vocabulary, left)
        words = list(chain.from_iterable(split))
        values, ends = self._values("".join(words), np.array([len(word) for word in words], np.int64))
        starts_ends = pairwise([0, *_ends_of_groups(ends, np.array([len(words) for words in split])).tolist()])
        parts, done, is_text = list[NDArray[Any]](), 0, lines.values.dtype == np.uint8
        sizes = np.diff(lines.ends, prepend=0)
        for number, (start, end) in zip(numbers.tolist(), starts_ends, strict=True):
            place = lines.ends[number] - is_text  # before the line end
            parts += [lines.values[done:place], values[start : max(start, end - is_text)]]
            done, sizes[number] = place, sizes[number] + len(parts[-1])
        return EncodedPart(np.concatenate([*parts, lines.values[done:]]), np.cumsum(sizes), lines.left[:0])

    def _sampled(self, lines: EncodedPart, chunk: Chunk, dropout: Dropout) -> EncodedPart:
        from volt.kernels.apply_bpe import encode_sampled

        numbers = np.arange(chunk.first, chunk.first + len(lines.ends)) if chunk.numbers is None else chunk.numbers
        tables, drawn = self.tables, (dropout.probability, dropout.seed, numbers)
        symbols, ends = encode_sampled(lines.values, lines.ends, tables.sampled_merges, tables.rule, *drawn)
        places, rows = self.rendering.numbered(symbols)
        return expanded(places, ends, rows.starts, rows.values)


def expanded(numbers: NDArray[np.int32], ends: Longs, starts: Longs, values: NDArray[Any]) -> EncodedPart:
    """Replace each number by its row of values."""
    from volt.kernels.decode import expand

    sizes, out_ends = np.diff(starts), np.empty(len(ends), np.int64)
    out = np.empty(int(sizes[numbers].sum()) + len(ends), values.dtype)
    n = expand(numbers, ends, starts, values, out, out_ends, values.dtype == np.uint8)
    return EncodedPart(out[:n], out_ends)


def _ends_of_groups(ends: Longs, sizes: Longs) -> Longs:
    return np.concatenate([[0], ends])[np.cumsum(sizes)]


Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """The ids of many lines, flat, as numpy arrays.

    ids: (n_ids,) int32
    offsets: (n_lines + 1,) int64; line i has ids[offsets[i]:offsets[i + 1]]

    >>> encoded = Encoded(np.array([5, 6, 7], np.int32), np.array([0, 2, 2, 3]))
    >>> len(encoded), encoded[0]
    (3, array([5, 6], dtype=int32))
    >>> encoded
    <Encoded: 3 ids of 3 lines>
    """

    ids: Ids
    offsets: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"<Encoded: {counted(len(self.ids), 'id')} of {counted(len(self), 'line')}>"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, line: int) -> Ids:
        line = arguments.whole(line, "line")
        if not -len(self) <= line < len(self):
            raise IndexError(f"line {line} of {len(self)}")
        line %= len(self)
        return self.ids[self.offsets[line] : self.offsets[line + 1]]

    @classmethod
    def of(cls, parts: Iterable[EncodedPart], *, n_bytes: int = 0) -> Encoded:
        """Concatenate the lines of parts.

        parts: the encoded chunks
        n_bytes: the size of the text, about the maximum number of ids
        """
        try:
            ids = np.empty(n_bytes, np.int32)  # unused pages cost nothing
        except MemoryError:
            ids = np.empty(n_bytes // 4, np.int32)
        n, ends = 0, [np.zeros(1, np.int64)]
        for part in parts:
            end = n + len(part.values)
            if end > len(ids):
                ids = np.concatenate([ids[:n], np.empty(max(end - n, n // 2), np.int32)])
            ids[n:end] = part.values
            ends.append(part.ends + n)
            n = end
        return cls(ids[:n], np.concatenate(ends))
