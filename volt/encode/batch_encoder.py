r"""`BatchEncoder`: bytes → ids or text, millions of lines at once, without a Python object for a word or a line.

Threads split chunks into units (see volt.encode.pretokens) and look up the cached values of each unit: its ids or text.
A compiled loop encodes simple new units; Python encodes the other new units, called pending, in one batch. Python also
encodes each line that contains an irregular unit. Each thread borrows its own `UnitCache`, so nothing is locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volt import arguments
from volt.display import counted
from volt.encode.chunks import NO_BYTE_OF_TEXT, Chunk
from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import (
    CharacterClasses,
    UnitRule,
    loop_cutter,
    pretoken_lines,
    split_lines,
    unit_words,
    uses_classes,
)
from volt.encode.rendering import Rendering, places_of
from volt.errors import ConfigError
from volt.files.blocks import utf8_error
from volt.files.loop_memory import Padded, PaddedMemory, aligned, longer
from volt.files.threads import available_cores, in_order
from volt.text.byte_alphabet import BYTE_TOKENS

if TYPE_CHECKING:
    from volt.kernels.encode_new_unit import LoopState, UnitEncoder

Longs = NDArray[np.int64]


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
        if not 0.0 <= (probability := arguments.number(probability, "dropout")) <= 1.0:
            raise ConfigError(f"dropout is {probability}; give a probability from 0 to 1")
        seed = None if seed is None else arguments.whole(seed, "seed")
        if not probability:
            return None
        if seed is None or seed < 0:
            message = f"dropout needs a seed, a whole number of 0 or more, not {seed}; encode with"
            raise ConfigError(message, hint={"seed": 1})
        return cls(
            probability,
            np.random.SeedSequence(seed).generate_state(1, np.uint64).view(np.int64)[0].item(),
        )


_N_SLOTS = 1 << 17
_N_LINES, _N_LEFT = 1 << 14, 1 << 9
_N_AT_ONCE = 1 << 12  # pending units that are encoded in one call


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """The encoded lines of a chunk.

    values: ids (n,) int32, or text (n,) uint8 with a line end after each line
    ends: (n_lines,) int64, where each line's values end
    left: (n_left, 2) int64, for each line that Python must still encode, its number, and where it ends in the text
    """

    values: NDArray[Any]
    ends: Longs
    left: Longs = field(default_factory=lambda: np.empty((0, 2), np.int64))


class UnitCache:
    """Cache of distinct units and their values, for one thread at a time. `trim` empties a cache beyond its limit.

    rule: where units begin and end
    encoder: the tables for new units
    dtype: the type of the values
    limit: about how many units are cached; a unit of n words counts as n units
    """

    def __init__(
        self, rule: UnitRule, encoder: UnitEncoder, dtype: DTypeLike, *, limit: int
    ) -> None:
        from volt.kernels.encode_units import RING

        self.rule, self.limit, self.memory, self._ring = rule, limit, PaddedMemory(), aligned(RING)
        self._encoder, self._dtype = encoder.for_thread(), np.dtype(dtype)
        self._line_ends, self._left = np.empty(_N_LINES, np.int64), np.empty((_N_LEFT, 2), np.int64)
        self.clear()

    def trim(self) -> None:
        if self.n_units > self.limit:
            self.clear()

    def clear(self) -> None:
        from volt.kernels.encode_units import ROOM
        from volt.kernels.unit_table import UnitRows

        n = _N_SLOTS * 3 // 8
        self._table = UnitRows(
            rows=aligned(4 * _N_SLOTS),
            bytes=np.zeros(16 * n, np.uint8),
            starts=np.zeros(n + 1, np.int64),
            firsts=np.zeros(n, np.uint8),
            value_starts=np.zeros(n, np.int64),
            values=np.zeros(16 * n + ROOM, np.uint8),
            pending=np.zeros(n, np.int64),
        )
        self.n_units = self._n_values = self._n_pending = 0

    def encode(self, text: Padded, *, strips_return: bool = False) -> EncodedPart:
        """Return the values of a text's lines. They are valid only if no unit is `pending` now: see `fill_pending`."""
        from volt.kernels.encode_new_unit import LoopState
        from volt.kernels.encode_units import ROOM, Loop, Rule, encode_units

        own = self.rule
        rule = Rule(
            text.separator,
            strips_return,
            own.breaks,
            own.clinging,
            own.keeps_breaks,
            own.marks_first,
            self._dtype == np.uint8,
        )
        self._n_pending = 0
        out = np.empty(
            (2 * text.size if rule.is_text else text.size + text.size // 2) + 2 * ROOM, np.uint8
        )
        slots = LoopState(n_units=self.n_units, n_values=self._n_values).slots()
        while status := encode_units(
            Loop(
                text.data,
                rule,
                self._table,
                self._encoder,
                out,
                self._line_ends,
                self._left,
                self._ring,
                slots,
            ),
            text.size,
        ):
            out = self._with_room(status, out, LoopState.read(slots), text)
        state = LoopState.read(slots)
        self.n_units, self._n_values, self._n_pending = (
            state.n_units,
            state.n_values,
            state.n_pending,
        )
        ends = self._line_ends[: state.line] // self._dtype.itemsize
        return EncodedPart(
            out[: state.written].view(self._dtype), ends, self._left[: state.n_left].copy()
        )

    def _with_room(
        self, status: int, out: NDArray[np.uint8], state: LoopState, text: Padded
    ) -> NDArray[np.uint8]:
        from volt.kernels.encode_units import LINES_FULL, OUT_FULL
        from volt.kernels.pretokenize import LONGEST
        from volt.kernels.unit_table import rebuild

        table = self._table
        if status == OUT_FULL:
            return longer(out, 2 * len(out))
        if status == LINES_FULL:
            self._line_ends = longer(self._line_ends, 2 * len(self._line_ends))
            self._left = np.concatenate([self._left, np.empty_like(self._left)])
        elif state.n_units >= len(table.firsts):
            rows, n = aligned(2 * len(table.rows)), 2 * len(table.firsts)
            rebuild(rows, table.rows)
            self._table = table._replace(
                rows=rows,
                starts=longer(table.starts, n + 1),
                firsts=longer(table.firsts, n),
                value_starts=longer(table.value_starts, n),
                pending=longer(table.pending, n),
            )
        else:  # any unit of the text must fit
            n_values = 2 * len(table.values) + 2 * (LONGEST + 1) * self._encoder.widest
            data = longer(table.bytes, 2 * len(table.bytes) + text.size)
            self._table = table._replace(bytes=data, values=longer(table.values, n_values))
        return out

    @property
    def pending(self) -> Longs:
        """The numbers of the last text's pending units, (n,)."""
        return self._table.pending[: self._n_pending]

    def units(self, numbers: Longs) -> tuple[bytes, Longs, NDArray[np.uint8]]:
        """Return units as concatenated bytes, where each of them ends, and whether each starts a line (0 or 1)."""
        table, starts = self._table, self._table.starts[numbers]
        sizes = table.starts[numbers + 1] - starts
        return (
            table.bytes[places_of(starts, sizes)].tobytes(),
            np.cumsum(sizes),
            table.firsts[numbers],
        )

    def encode_pending(self) -> None:
        from volt.kernels.encode_units import ROOM, encode_pending
        from volt.kernels.unit_table import complete

        pending, retained = self.pending.copy(), list[Longs]()
        for numbers in np.array_split(pending, 1 + len(pending) // _N_AT_ONCE):
            n_bytes = int((self._table.starts[numbers + 1] - self._table.starts[numbers]).sum())
            self._reserve(
                self._n_values + 2 * (n_bytes + len(numbers)) * self._encoder.widest + ROOM
            )
            data, sizes = self._table.bytes[:], np.empty(len(numbers), np.int64)
            data.flags.writeable = False
            self._n_values = encode_pending(
                data, self._table, self._encoder, numbers, sizes, self._n_values
            )
            complete(self._table, numbers[sizes >= 0], sizes[sizes >= 0])
            retained.append(numbers[sizes < 0])
        left = np.concatenate(retained)
        self._table.pending[: len(left)], self._n_pending = left, len(left)

    def fill_pending(self, values: NDArray[Any], ends: Longs, irregular: NDArray[np.bool_]) -> None:
        from volt.kernels.encode_new_unit import IRREGULAR
        from volt.kernels.encode_units import ROOM
        from volt.kernels.unit_table import complete

        used, values, ends = self._n_values, values.view(np.uint8), ends * self._dtype.itemsize
        self._reserve(used + len(values) + ROOM)
        table = self._table
        table.values[used : used + len(values)] = values
        starts = np.concatenate([[0], ends[:-1]])
        table.value_starts[self.pending] = used + starts
        complete(table, self.pending, np.where(irregular, IRREGULAR, ends - starts))
        self._n_values, self._n_pending = used + len(values), 0

    def _reserve(self, n: int) -> None:
        if n > len(self._table.values):
            self._table = self._table._replace(values=longer(self._table.values, 2 * n))


def unit_encoder_of(
    tables: MergeTables, rendering: Rendering | None, classes: CharacterClasses
) -> UnitEncoder:
    """Return the tables with which compiled code encodes units; `UnitEncoder.for_thread` adds memory for a thread.

    rendering: the output; None to output atoms, from which dropout encodes
    """
    from volt.kernels.encode_new_unit import ID_SIZE, numbering
    from volt.kernels.pretokenize import NEVER

    vocabulary, nothing = tables.vocabulary, np.zeros(0, np.int32)
    symbols = np.arange(len(tables.retained) if rendering else 0, dtype=np.int32)
    values, ends = rendering.expand(symbols) if rendering else (nothing, np.zeros(0, np.int64))
    starts, values = (
        np.append(0, ends) * values.itemsize,
        np.append(values.view(np.uint8), np.zeros(8, np.uint8)),
    )
    empty, widths, byte_ids = numbering(), np.diff(starts), nothing
    is_by_bytes = (
        vocabulary.byte_fallback
        and not vocabulary.pretokenizer.is_bytes
        and vocabulary.marker != "suffix"
    )
    if (
        rendering and rendering.dtype == np.int32 and is_by_bytes
    ):  # unknown characters consist of byte tokens only
        byte_ids = np.array([vocabulary.ids[token] for token in BYTE_TOKENS], np.int32)
    cutter = loop_cutter(tables, empty.cutter, classes)
    if (
        rendering is None and vocabulary.fuse_unk
    ):  # Python makes the atoms, in which runs of unknown characters are one
        cutter = cutter._replace(cut=NEVER)
    return empty._replace(
        cutter=cutter,
        sampled=rendering is None,
        merges=tables.merges,
        rule=tables.rule,
        starts=starts,
        rendered=values,
        byte_ids=byte_ids,
        widest=max(ID_SIZE, int(widths.max(initial=0))),
        width=int(widths[0]) if len(widths) and (widths == widths[0]).all() else 0,
    )


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
        self.tables, self.rendering, self.sampled, self._limit = tables, rendering, sampled, limit
        self._rule = UnitRule.of(tables.vocabulary)
        self._classes = CharacterClasses()  # shared by its threads
        self._encoder = unit_encoder_of(tables, None if sampled else rendering, self._classes)
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
        except UnicodeDecodeError:  # the cache is not used again: some of its units have no values
            raise utf8_error(chunk.block) from None
        self._idle.append(cache)
        return self._sampled(lines, chunk, dropout) if dropout else lines

    def _lines(self, chunk: Chunk, cache: UnitCache) -> EncodedPart:
        if self._rule.words:
            words = pretoken_lines(
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
        return (
            self._with_left_lines(lines, text.data.tobytes(), chunk.separator)
            if len(lines.left)
            else lines
        )

    def _encode_pending(self, cache: UnitCache) -> None:
        has_classes = uses_classes(self._encoder.cutter.cut)
        if has_classes and self._classes.classify(cache.units(cache.pending)[0].decode()):
            cache.encode_pending()
        if len(cache.pending):
            result = unit_words(self.tables.vocabulary, *cache.units(cache.pending))
            values, ends = self._values(result.text, result.lengths)
            cache.fill_pending(values, _ends_of_groups(ends, result.n_words), result.irregular)

    def _values(self, text: str, lengths: Longs) -> tuple[NDArray[Any], Longs]:
        """Return the values of words, and where each word ends. For dropout: 2 · atom, and 1 more for a last atom."""
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
        numbers, mark, is_text = (
            lines.left[:, 0],
            bytes([separator]),
            lines.values.dtype == np.uint8,
        )
        left = [
            text[text.rfind(mark, 0, end) + 1 : end].decode() for end in lines.left[:, 1].tolist()
        ]
        split = split_lines(self.tables.vocabulary, left)
        words = list(chain.from_iterable(split))
        values, ends = self._values("".join(words), np.array(list(map(len, words)), np.int64))
        ends = _ends_of_groups(ends, np.array(list(map(len, split)), np.int64))
        sizes, line_sizes = np.diff(ends, prepend=0), np.diff(lines.ends, prepend=0)
        if is_text:  # no space after the last piece
            values, sizes = np.delete(values, ends[sizes > 0] - 1), sizes - (sizes > 0)
        line_sizes[numbers] += sizes
        places = np.repeat(lines.ends[numbers] - is_text, sizes)  # before the line end
        return EncodedPart(
            np.insert(lines.values, places, values), np.cumsum(line_sizes), lines.left[:0]
        )

    def _sampled(self, lines: EncodedPart, chunk: Chunk, dropout: Dropout) -> EncodedPart:
        from volt.kernels.apply_bpe import encode_sampled

        numbers = (
            np.arange(chunk.first, chunk.first + len(lines.ends))
            if chunk.numbers is None
            else chunk.numbers
        )
        tables, drawn = self.tables, (dropout.probability, dropout.seed, numbers)
        symbols, ends = encode_sampled(
            lines.values, lines.ends, tables.sampled_merges, tables.rule, *drawn
        )
        places, rows = self.rendering.numbered(symbols)
        return expanded(places, ends, rows.starts, rows.values)


def expanded(
    numbers: NDArray[np.int32], ends: Longs, starts: Longs, values: NDArray[Any]
) -> EncodedPart:
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

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of ids of each line, (n_lines,)."""
        return np.diff(self.offsets)

    def __getitem__(self, line: int) -> Ids:
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
        n, ends = 0, [np.zeros(1, np.int64)]
        for part in parts:
            end = n + len(part.values)
            if end > len(ids):
                ids = np.concatenate([ids[:n], np.empty(max(end - n, n // 2), np.int32)])
            ids[n:end] = part.values
            ends.append(part.ends + n)
            n = end
        return cls(ids[:n], np.concatenate(ends))
