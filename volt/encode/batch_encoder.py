r"""`BatchEncoder`: chunks of bytes → ids or text, millions of lines at once, without a Python object for each word.

Each thread borrows its own `UnitCache`, so nothing is locked, and encodes a chunk in these steps:

1. The cache copies the values of all units that it knows, and encodes simple new units in compiled code.
2. If units are pending, Python encodes them in one batch and adds their values to the cache; step 1 is repeated.
3. Python encodes each line that contains an irregular unit, and inserts its values.
4. With dropout, the values so far are atoms; compiled code merges them, line by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from volt import arguments
from volt.display import counted
from volt.encode.arrays import Array, Ints, Longs, sizes_of
from volt.encode.chunks import NO_BYTE_OF_TEXT, Chunk
from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import UnitRule, split_lines, unit_words, word_lines
from volt.encode.rendering import Rendering
from volt.errors import ConfigError
from volt.files.blocks import utf8_error
from volt.files.threads import available_cores, in_order

if TYPE_CHECKING:
    from volt.encode.unit_cache import CachedLines, UnitCache


@dataclass(frozen=True, slots=True)
class Dropout:
    """Random skipping of merges.

    probability: the probability of skipping a merge
    seed: 64 bits; the seed and a line's number together seed the line's random generator
    """

    probability: float
    seed: int

    @classmethod
    def of(cls, probability: float, seed: int | None) -> Dropout | None:
        """Return the dropout, or None for probability 0. Raises ConfigError if a positive probability lacks a seed."""
        probability = arguments.number(probability, "dropout")
        if not 0.0 <= probability <= 1.0:
            raise ConfigError(f"dropout is {probability}; give a probability from 0 to 1")
        if seed is not None:
            seed = arguments.whole(seed, "seed")
        if not probability:
            return None
        if seed is None or seed < 0:
            message = f"dropout needs a seed, a whole number of 0 or more, not {seed}; encode with"
            raise ConfigError(message, hint={"seed": 1})
        [state] = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        return cls(probability, int(state.astype(np.int64)))


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """The encoded lines of a chunk.

    values: ids (n,) int32, or text (n,) uint8 with a line end after each line
    ends: (n_lines,) int64, where each line's values end
    """

    values: Array
    ends: Longs


class BatchEncoder:
    """Encodes many lines with one vocabulary. Safe to share between threads.

    tables: the vocabulary for compiled code
    rendering: the output: ids, pieces, or ids as text
    sampled: whether to cache atoms of units, for dropout
    limit: about how many units each thread caches
    """

    def __init__(
        self, tables: MergeTables, rendering: Rendering, *, limit: int, sampled: bool = False
    ) -> None:
        from volt.encode.unit_cache import UnitCache
        from volt.encode.unit_encoder import CharacterClasses, unit_encoder_of, uses_classes

        self.tables = tables
        self.rendering = rendering
        self.sampled = sampled
        self._rule = UnitRule.of(tables.vocabulary)
        classes = CharacterClasses()  # shared by its threads
        encoder = unit_encoder_of(tables, None if sampled else rendering, classes)
        self._new_cache = partial(
            UnitCache,
            self._rule,
            encoder,
            np.int32 if sampled else rendering.dtype,
            limit=limit,
            classes=classes if uses_classes(encoder.cutter.cut) else None,
        )
        self._idle: list[UnitCache] = []

    def encode(
        self,
        chunks: Iterable[Chunk],
        *,
        dropout: Dropout | None = None,
        n_threads: int | None = None,
    ) -> Iterator[EncodedPart]:
        """Yield each chunk's encoded lines, in order; after an `awaited` chunk, before requesting the next chunk."""
        assert self.sampled == (dropout is not None)
        encode = partial(self._encode, dropout=dropout)
        n_threads = n_threads or available_cores()
        return in_order(encode, chunks, n_threads=n_threads, is_awaited=attrgetter("awaited"))

    def _encode(self, chunk: Chunk, *, dropout: Dropout | None) -> EncodedPart:
        if not len(chunk.text):  # the end of a file needs no cache
            return EncodedPart(np.zeros(0, self.rendering.dtype), np.zeros(0, np.int64))
        try:
            cache = self._idle.pop()
        except IndexError:
            cache = self._new_cache()
        try:
            lines = self._lines(chunk, cache)
        except UnicodeDecodeError:  # the cache is not used again: some of its units have no values
            raise utf8_error(chunk.block) from None
        self._idle.append(cache)
        if dropout:
            return self._merged(lines, chunk, dropout)
        return lines

    def _lines(self, chunk: Chunk, cache: UnitCache) -> EncodedPart:
        """Return the values of a chunk's lines; for dropout, values are atoms: see `_values`."""
        if self._rule.words:
            words = word_lines(
                self.tables.vocabulary,
                bytes(chunk.text),
                separator=chunk.separator,
                strips_return=chunk.strips_return,
            )
            chunk = Chunk(words, NO_BYTE_OF_TEXT)

        cache.trim()
        text = cache.memory.read(chunk.text, separator=chunk.separator, padded=chunk.padded)
        lines = cache.encode(text, strips_return=chunk.strips_return)
        if len(cache.pending):
            self._encode_pending(cache)
            lines = cache.encode(text, strips_return=chunk.strips_return)
        if len(lines.left):
            return self._with_left_lines(lines, text.data.tobytes(), chunk.separator)
        return EncodedPart(lines.values, lines.ends)

    def _encode_pending(self, cache: UnitCache) -> None:
        cache.encode_pending()
        if len(cache.pending):
            units = unit_words(self.tables.vocabulary, *cache.units(cache.pending))
            values, ends = self._values(units.text, units.lengths)
            cache.fill_pending(values, _ends_of_groups(ends, units.n_words), units.irregular)

    def _values(self, text: str, lengths: Longs) -> tuple[Array, Longs]:
        """Return the values of words, and where each word ends. For dropout: 2 · atom, and 1 more for a last atom."""
        symbols, ends = self.tables.atoms(text, lengths)
        if self.sampled:
            values = 2 * symbols
            values[ends - 1] += 1
            return values, ends
        symbols, ends = self.tables.encode_atoms(symbols, ends)
        values, symbol_ends = self.rendering.expand(symbols)
        return values, np.append(0, symbol_ends)[ends]

    def _with_left_lines(self, lines: CachedLines, text: bytes, separator: int) -> EncodedPart:
        """Insert the values of the lines that the cache left out, each encoded as a whole."""
        mark = bytes([separator])
        left = []
        for end in lines.left[:, 1].tolist():
            start = text.rfind(mark, 0, end) + 1
            left.append(text[start:end].decode())

        words_of_lines = split_lines(self.tables.vocabulary, left)
        words = list(chain.from_iterable(words_of_lines))
        values, word_ends = self._values("".join(words), _lengths(words))
        ends = _ends_of_groups(word_ends, _lengths(words_of_lines))
        sizes = sizes_of(ends)

        numbers = lines.left[:, 0]
        places = lines.ends[numbers]
        if lines.values.dtype == np.uint8:
            has_pieces = sizes > 0  # remove the space after the last piece
            values = np.delete(values, ends[has_pieces] - 1)
            sizes -= has_pieces
            places -= 1  # before the line end
        line_sizes = sizes_of(lines.ends)
        line_sizes[numbers] += sizes
        values = np.insert(lines.values, np.repeat(places, sizes), values)
        return EncodedPart(values, np.cumsum(line_sizes))

    def _merged(self, atoms: EncodedPart, chunk: Chunk, dropout: Dropout) -> EncodedPart:
        from volt.kernels.apply_bpe import encode_sampled

        numbers = chunk.numbers
        if numbers is None:
            numbers = np.arange(chunk.first, chunk.first + len(atoms.ends))
        symbols, ends = encode_sampled(
            atoms.values,
            atoms.ends,
            self.tables.sampled_merges,
            self.tables.rule,
            dropout.probability,
            dropout.seed,
            numbers,
        )
        places, rows = self.rendering.numbered(symbols)
        return expanded(places, ends, rows.starts, rows.values)


def expanded(numbers: Ints, ends: Longs, starts: Longs, values: Array) -> EncodedPart:
    """Return the values of numbered rows: row r is values[starts[r]:starts[r + 1]]. ends: where each line ends"""
    from volt.kernels.decode import expand

    is_text = values.dtype == np.uint8
    n_values = int(np.diff(starts)[numbers].sum())
    out = np.empty(n_values + len(ends), values.dtype)
    out_ends = np.empty(len(ends), np.int64)
    n = expand(numbers, ends, starts, values, out, out_ends, is_text)
    return EncodedPart(out[:n], out_ends)


def _ends_of_groups(ends: Longs, sizes: Longs) -> Longs:
    """Return where each group ends. ends: where each item ends;  sizes: the number of items in each group"""
    return np.append(0, ends)[np.cumsum(sizes)]


def _lengths(items: list[Any]) -> Longs:
    return np.array(list(map(len, items)), np.int64)


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

    ids: Ints
    offsets: Longs

    def __repr__(self) -> str:
        return f"<Encoded: {counted(len(self.ids), 'id')} of {counted(len(self), 'line')}>"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Longs:
        """The number of ids of each line, (n_lines,)."""
        return np.diff(self.offsets)

    def __getitem__(self, line: int) -> Ints:
        line = arguments.whole(line, "line")
        if not -len(self) <= line < len(self):
            raise IndexError(f"line {line} is out of range for {counted(len(self), 'line')}")
        line %= len(self)
        return self.ids[self.offsets[line] : self.offsets[line + 1]]

    @classmethod
    def of(cls, parts: Iterable[EncodedPart], *, n_bytes: int = 0) -> Encoded:
        """Concatenate the lines of encoded chunks.

        parts: the encoded chunks
        n_bytes: the size of the text, for which memory for ids is reserved; there are seldom more ids than bytes
        """
        try:
            ids = np.empty(n_bytes, np.int32)  # unused pages cost nothing
        except MemoryError:
            ids = np.empty(n_bytes // 4, np.int32)
        n = 0
        offsets = [np.zeros(1, np.int64)]
        for part in parts:
            end = n + len(part.values)
            if end > len(ids):
                more = np.empty(max(end - n, n // 2), np.int32)
                ids = np.append(ids[:n], more)
            ids[n:end] = part.values
            offsets.append(part.ends + n)
            n = end
        return cls(ids[:n], np.concatenate(offsets))
