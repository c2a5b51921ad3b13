r"""`BatchEncoder`: chunks of UTF-8 lines → ids or text, without a Python object for each word.

    Chunk(b"low lower\n")   →   EncodedPart(values=[17, 17, 23], ends=[3])

Each thread borrows its own `UnitCache`, so nothing is locked, and encodes a chunk in these steps:

1. The cache returns the values of the chunk's lines. For new units that compiled code cannot
   encode, it calls `_encode_units`.
2. With dropout, the values so far are atoms. Compiled code merges them, line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from volt import arguments
from volt.array_types import Array, Bytes, Ints, Longs
from volt.display import counted
from volt.encode.arrays import EncodedPart, group_ends
from volt.encode.chunks import NO_BYTE_OF_TEXT, Chunk
from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import split_lines, word_lines
from volt.encode.rendering import Rendering
from volt.encode.score_tables import ScoreTables
from volt.encode.segmentation_sampling import SegmentationSampling
from volt.encode.units import UnitRule, are_whole, follows_lines, normalizes_lines, sums_lines
from volt.encode.word_tables import WordTables, join_words, join_words_of_lines
from volt.files.blocks import utf8_error
from volt.files.threads import available_cores, in_order
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET
from volt.text.normalizer import check_text
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.encode.unit_cache import UnitCache

_LINE_END = bytes([NO_BYTE_OF_TEXT])
_MARK = SPACE.encode()
_PRIVATE = b"\xf4[\x8c-\x8f]"  # the start of a private character that may stand for a user token


class BatchEncoder:
    """Encodes many lines with one vocabulary. Safe to share between threads.

    tables: the vocabulary for compiled code
    rendering: the output: ids, pieces, or ids as text
    sampled: whether to cache atoms of units, for dropout
    limit: about how many units each thread caches
    """

    def __init__(
        self, tables: WordTables, rendering: Rendering, *, limit: int, sampled: bool = False
    ) -> None:
        from volt.encode.unit_cache import UnitCache
        from volt.encode.unit_encoder import CharacterClasses, build_unit_encoder, uses_classes

        self.rendering = rendering
        self._tables = tables
        rule = UnitRule.of(tables.vocabulary)
        self._units_are_words = rule.units_are_words
        unit_rendering = None if sampled else rendering
        self._encode_words = partial(_encode_words, tables, unit_rendering)
        # whether a line needs more than the cache
        self._normalizes_lines = normalizes_lines(tables.vocabulary) and not rule.units_are_words
        self._sums_lines = sums_lines(tables.vocabulary)
        self._follows_lines = follows_lines(tables.vocabulary)
        self._is_indirect = rule.units_are_words or self._normalizes_lines or self._sums_lines

        classes = CharacterClasses()  # the threads share them
        encoder = build_unit_encoder(tables, unit_rendering, classes)
        # the bytes before a space that always end a unit, which the start of a line does not change
        self._unit_ends = b""
        if not (rule.marks_first or self._is_indirect):
            self._unit_ends = bytes(
                byte for byte in range(33, 256) if not encoder.cutter.lasts[byte]
            )
        self._new_cache = partial(
            UnitCache,
            tables.vocabulary,
            encoder,
            np.int32 if sampled or self._follows_lines else rendering.dtype,
            encode_words=self._encode_words,
            limit=limit,
            classes=classes if uses_classes(encoder.cutter.cut) else None,
        )
        self._idle_caches: list[UnitCache] = []

    def encode(
        self,
        chunks: Iterable[Chunk],
        *,
        sampling: SegmentationSampling | None = None,
        n_threads: int | None = None,
    ) -> Iterator[EncodedPart]:
        """Yield each chunk's encoded lines, in the order of the chunks.

        The lines of an `awaited` chunk are yielded before the next chunk is requested.
        """
        encode = partial(self._encode, sampling=sampling)
        n_threads = n_threads or available_cores()
        return in_order(encode, chunks, n_threads=n_threads, is_awaited=attrgetter("awaited"))

    def find_cut(self, text: bytes, start: int, end: int) -> int:
        """Return the last place of text[start:end] where a line may be cut, so that the values of its
        parts are those of the line; 0 if there is none.
        """
        p = text.rfind(b" ", start, end) if self._unit_ends else 0
        while p > start and text[p - 1] not in self._unit_ends:
            p = text.rfind(b" ", start, p)
        return p if p > start else 0

    @cached_property
    def ids_tell_pieces(self) -> bool:
        """Return whether each piece has an id of its own, or else the id of unk."""
        vocabulary = self._tables.vocabulary
        if vocabulary.unk_id is not None:
            return True
        if vocabulary.pretokenizer.is_bytes:
            return vocabulary.marker == "none" and vocabulary.ids.keys() >= set(ALPHABET)
        return vocabulary.byte_fallback

    def encode_line(self, line: str) -> Array:
        """Return the values of one line, which may contain line ends.

        Raises CorpusError if the line contains a lone surrogate.
        """
        try:
            data = str.encode(line)
        except UnicodeEncodeError:
            check_text(line)
            raise
        cache = self._borrow_cache()
        cached_line = self._line_for_cache(line, data)
        if cached_line is None:
            values = self._encode_lines(Chunk(data + _LINE_END, NO_BYTE_OF_TEXT), cache).values
        else:
            values = cache.encode_line(cached_line)
            if self._follows_lines:
                values = self._render(EncodedPart(values, np.array([len(values)]))).values
        self._idle_caches.append(cache)
        return values

    def symbols_of_line(self, line: str) -> Ints | None:
        """Return the symbols of one line, or None if the cache has other values or they do not
        suffice.

        line: text without lone surrogates
        """
        cached_line = self._line_for_cache(line, line.encode())
        if cached_line is None or not self._follows_lines:
            return None
        cache = self._borrow_cache()
        symbols = cache.encode_line(cached_line)
        self._idle_caches.append(cache)
        return symbols

    def _line_for_cache(self, line: str, data: bytes) -> bytes | None:
        """Return the line with which the cache finds its values; None if that is not enough.

        data: the line as UTF-8
        """
        if not self._is_indirect:
            return data
        if self._units_are_words or self._follows_lines != self._sums_lines:
            return None
        normalizer = self._tables.vocabulary.normalizer
        users = self._tables.vocabulary.special.user
        if users and _pattern_of(users).search(data):
            return None
        if self._normalizes_lines and not normalizer.keeps(line):
            data = normalizer.normalize_lines(data + _LINE_END, NO_BYTE_OF_TEXT)[:-1]
            if users and _pattern_of(users).search(data):
                return None
        if self._follows_lines:
            data = data.replace(_MARK, b" ")
        return data

    def _borrow_cache(self) -> UnitCache:
        try:
            return self._idle_caches.pop()
        except IndexError:
            return self._new_cache()

    def _encode(self, chunk: Chunk, *, sampling: SegmentationSampling | None) -> EncodedPart:
        if not len(chunk.text):  # the end of a file needs no cache
            return EncodedPart(np.zeros(0, self.rendering.dtype), np.zeros(0, np.int64))
        tables = self._tables
        try:
            if sampling and isinstance(tables, ScoreTables):
                return self._draw_paths(tables, chunk, sampling)
            cache = self._borrow_cache()
            lines = self._encode_lines(chunk, cache)
        except UnicodeDecodeError:  # and the cache is dropped: some of its units have no values
            raise utf8_error(chunk.block) from None
        self._idle_caches.append(cache)
        if sampling:
            return self._merge_atoms(lines, chunk, sampling)
        if chunk.is_cut:
            return EncodedPart(lines.values, lines.ends[:-1])
        return lines

    def _encode_lines(self, chunk: Chunk, cache: UnitCache) -> EncodedPart:
        """Return the values of a chunk's lines; for dropout, values are atoms."""
        vocabulary = self._tables.vocabulary
        if self._sums_lines and not self._follows_lines:
            return self._encode_texts(chunk.decode())
        raw = chunk
        if self._normalizes_lines:
            chunk = _normalize(vocabulary, chunk)
        users = vocabulary.special.user if self._normalizes_lines or self._follows_lines else ()
        numbers = np.zeros(0, np.int64)
        if users:
            numbers = np.union1d(_lines_with(users, raw), _lines_with(users, chunk))
        if self._units_are_words:  # replace the text by its words
            words = word_lines(vocabulary, chunk, is_normal=self._normalizes_lines)
            chunk = Chunk(words, NO_BYTE_OF_TEXT)
        elif self._follows_lines:
            chunk = _write_spaces(chunk, numbers)

        cache.trim()
        text = cache.memory.read(chunk.text, separator=chunk.separator, padded=chunk.padded)
        lines = cache.encode(text, strips_return=chunk.strips_return)
        if self._follows_lines:
            lines = self._render(lines)
        if not len(numbers):
            return lines
        texts = raw.decode()
        return lines.with_lines(numbers, self._encode_texts([texts[n] for n in numbers.tolist()]))

    def _encode_texts(self, texts: Sequence[str]) -> EncodedPart:
        """Return the values of lines that Python splits. It normalises each text between user tokens
        alone."""
        words_of_lines = split_lines(self._tables.vocabulary, texts)
        text, lengths, n_words = join_words_of_lines(words_of_lines)
        if self._sums_lines:
            assert isinstance(self._tables, ScoreTables)
            symbols, ends = self._tables.segment_lines(text, lengths, n_words)
        else:
            symbols, ends = self._tables.segment(text, lengths)
        line_ends = group_ends(ends, n_words)
        if self.rendering.marks_words:
            symbols *= 2
            symbols[ends - 1] += 1
        return self._render(EncodedPart(symbols, line_ends))

    def _render(self, lines: EncodedPart) -> EncodedPart:
        """Return the values of lines of symbols. If words are marked, values are 2 · symbol, + 1 at the
        end of a word."""
        rendering = self.rendering
        ids = rendering.expand_single(lines.values)
        if ids is not None:
            return EncodedPart(ids, lines.ends)
        if not rendering.marks_words:
            return self._expand(lines)
        from volt.kernels.spans import ENDS_WORD

        values, ends = rendering.expand(lines.values >> 1)
        values[ends[lines.values & 1 == 1] - 1] |= ENDS_WORD
        return EncodedPart(values, np.append(0, ends)[lines.ends])

    def _expand(self, lines: EncodedPart) -> EncodedPart:
        """Return the values of lines of symbols."""
        row_numbers, rows = self.rendering.find_rows(lines.values)
        most = len(row_numbers) * rows.widest if self.rendering.dtype == np.int32 else None
        return expand_rows(row_numbers, lines.ends, rows.starts, rows.values, most=most)

    def _merge_atoms(
        self, atoms: EncodedPart, chunk: Chunk, sampling: SegmentationSampling
    ) -> EncodedPart:
        from volt.kernels.apply_bpe import encode_sampled

        assert isinstance(self._tables, MergeTables)
        symbols, ends = encode_sampled(
            atoms.values,
            atoms.ends,
            self._tables.sampled_merges,
            self._tables.rule,
            sampling.dropout,
            sampling.seed,
            _line_numbers(chunk, len(atoms.ends)),
        )
        return self._expand(EncodedPart(symbols, ends))

    def _draw_paths(
        self, tables: ScoreTables, chunk: Chunk, sampling: SegmentationSampling
    ) -> EncodedPart:
        """Return the values of a random path of each line of a chunk."""
        vocabulary = tables.vocabulary
        is_normal = self._normalizes_lines and not vocabulary.special.user
        normal = _normalize(vocabulary, chunk) if is_normal else chunk
        if are_whole(vocabulary) and not vocabulary.special.user:
            data, starts, ends = _find_lines(normal)
            numbers = _line_numbers(chunk, len(ends))
            is_marked = vocabulary.pretokenizer.dummy_prefix
            symbols, ends = tables.draw_bytes(data, starts, ends, is_marked, sampling, numbers)
        else:
            lines = normal.decode()
            words_of_lines = split_lines(vocabulary, lines, is_normal=is_normal)
            texts = join_words(list(map("".join, words_of_lines)))
            symbols, ends = tables.draw(*texts, sampling, _line_numbers(chunk, len(lines)))
        return self._expand(EncodedPart(symbols, ends))


def _find_lines(chunk: Chunk) -> tuple[Bytes, Longs, Longs]:
    """Return the text of a chunk, and where each of its lines starts and ends.

    Raises UnicodeDecodeError if it is not UTF-8.
    """
    text = bytes(chunk.text)
    line_end = bytes([chunk.separator])
    if text and not text.endswith(line_end):
        text += line_end
    text.replace(line_end, b"\n").decode()
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == chunk.separator)
    starts = np.append(0, ends + 1)[:-1]
    if chunk.strips_return:
        ends -= (ends > starts) & (data[ends - 1] == ord("\r"))
    return data, starts, ends


def _lines_with(users: tuple[str, ...], chunk: Chunk) -> Longs:
    """Return the numbers of a chunk's lines that contain user tokens or private characters."""
    text = bytes(chunk.text)
    places = [match.start() for match in _pattern_of(users).finditer(text)]
    line_ends = np.flatnonzero(np.frombuffer(text, np.uint8) == chunk.separator)
    return np.searchsorted(line_ends, places)


@lru_cache(maxsize=16)
def _pattern_of(users: tuple[str, ...]) -> re.Pattern[bytes]:
    branches = [re.escape(user.encode()) for user in users]
    return re.compile(b"|".join([*branches, _PRIVATE]))


def _line_numbers(chunk: Chunk, n_lines: int) -> Longs:
    """Return the number of each line of a chunk."""
    if chunk.numbers is None:
        return np.arange(chunk.first, chunk.first + n_lines)
    return chunk.numbers


def _normalize(vocabulary: Vocabulary, chunk: Chunk) -> Chunk:
    text = bytes(chunk.text)
    if not text.endswith(bytes([chunk.separator])):
        text += bytes([chunk.separator])
    if chunk.strips_return:
        text = text.replace(b"\r\n", b"\n")
    return Chunk(vocabulary.normalizer.normalize_lines(text, chunk.separator), chunk.separator)


def _write_spaces(chunk: Chunk, numbers: Longs) -> Chunk:
    """Return a chunk with a space for each "▁", in which lines with some numbers are empty."""
    text = bytes(chunk.text)
    if not len(numbers) and _MARK not in text:
        return chunk
    line_end = bytes([chunk.separator])
    lines = text.replace(_MARK, b" ").split(line_end)
    for number in numbers.tolist():
        lines[number] = b""
    return Chunk(line_end.join(lines), chunk.separator, strips_return=chunk.strips_return)


def _encode_words(
    tables: WordTables, rendering: Rendering | None, text: str, lengths: Longs
) -> tuple[Array, Longs]:
    """Return the values of words, and where each word's values end.

    rendering: None for atoms: the value of an atom is 2 · symbol, plus 1 at the end of a word
    """
    if rendering is None:
        assert isinstance(tables, MergeTables)  # only merges are dropped
        atoms, ends = tables.atoms(text, lengths)
        values = 2 * atoms
        values[ends - 1] += 1
        return values, ends
    symbols, ends = tables.segment(text, lengths)
    values, symbol_ends = rendering.expand(symbols)
    value_ends = np.append(0, symbol_ends)[ends]
    if rendering.word_bits:
        values[value_ends - 1] |= rendering.word_bits
    return values, value_ends


def expand_rows(
    row_numbers: Ints,
    line_ends: Longs,
    row_starts: Longs,
    row_values: Array,
    *,
    most: int | None = None,
) -> EncodedPart:
    """Return lines of values for lines of row numbers.

    row_numbers: (n,) int32, concatenated lines;  line_ends: (n_lines,), where each line ends in it
    row_starts, row_values: row r is row_values[row_starts[r]:row_starts[r + 1]]
    most: the most values that all lines may have; by default, they are counted

    If the values are text (uint8), a line end replaces the last space of a line.
    """
    from volt.kernels.decode import expand

    is_text = row_values.dtype == np.uint8
    if most is None:
        most = int((row_starts[row_numbers + 1] - row_starts[row_numbers]).sum())
    out = np.empty(most + len(line_ends), row_values.dtype)
    out_ends = np.empty(len(line_ends), np.int64)
    n_out = expand(row_numbers, line_ends, row_starts, row_values, out, out_ends, is_text)
    return EncodedPart(out[:n_out], out_ends)


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
        n_bytes: the size of their text. Memory for as many ids is reserved, as a text seldom has
            more.
        """
        try:
            ids = np.empty(n_bytes, np.int32)  # unused pages cost nothing
        except MemoryError:
            ids = np.empty(n_bytes // 4, np.int32)
        n_ids = 0
        offsets = [np.zeros(1, np.int64)]
        for part in parts:
            end = n_ids + len(part.values)
            if end > len(ids):
                more = np.empty(max(end - n_ids, n_ids // 2), np.int32)
                ids = np.append(ids[:n_ids], more)
            ids[n_ids:end] = part.values
            offsets.append(part.ends + n_ids)
            n_ids = end
        return cls(ids[:n_ids], np.concatenate(offsets))
