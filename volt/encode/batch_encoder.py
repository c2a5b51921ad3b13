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
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from volt import arguments
from volt.display import counted
from volt.encode.arrays import Array, EncodedPart, Ints, Longs, ends_to_sizes
from volt.encode.chunks import NEWLINE, NO_BYTE_OF_TEXT, Chunk
from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import decode_lines, split_lines, word_lines
from volt.encode.rendering import Rendering
from volt.encode.score_tables import ScoreTables
from volt.encode.segmentation_sampling import SegmentationSampling
from volt.encode.units import UnitRule, normalizes_lines
from volt.encode.word_tables import WordTables, join_words
from volt.files.blocks import utf8_error
from volt.files.loop_memory import PaddedText
from volt.files.threads import available_cores, in_order
from volt.kernels.encode_new_unit import UNCLEAR_BYTE, UNCLEAR_ID
from volt.kernels.trie import find_unclear
from volt.text.byte_alphabet import ALPHABET
from volt.text.normalizer import check_text
from volt.text.pretokenizer import RUNS_UNMARKED, UNMARKED_LINE
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.encode.unit_cache import UnitCache

# Pre-tokenizers whose words are the line, with "▁" for spaces, and perhaps one "▁" before it
_PLAIN = ("metaspace", "metaspace-runs", "metaspace-line", RUNS_UNMARKED, UNMARKED_LINE)
_LINE_END = bytes([NO_BYTE_OF_TEXT])
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
        self._is_indirect = rule.units_are_words or self._normalizes_lines or rendering.unclear > 0

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
            np.int32 if sampled else rendering.dtype,
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
        if self._is_indirect:
            values = self._encode_lines(Chunk(data + _LINE_END, NO_BYTE_OF_TEXT), cache).values
        else:
            values = cache.encode_line(data)
        self._idle_caches.append(cache)
        return values

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
        raw = chunk
        if self._normalizes_lines:
            chunk = _normalize(self._tables.vocabulary, chunk)
        if self._units_are_words:  # replace the text by its words
            words = word_lines(
                self._tables.vocabulary,
                bytes(chunk.text),
                separator=chunk.separator,
                strips_return=chunk.strips_return,
                is_normal=self._normalizes_lines,
            )
            chunk = Chunk(words, NO_BYTE_OF_TEXT)

        cache.trim()
        text = cache.memory.read(chunk.text, separator=chunk.separator, padded=chunk.padded)
        lines = cache.encode(text, strips_return=chunk.strips_return)
        if self.rendering.unclear:
            lines = self._clarify(lines, text, strips_return=chunk.strips_return)
        if self._normalizes_lines and self._tables.vocabulary.special.user:
            return self._encode_user_lines(lines, raw, chunk)
        return lines

    def _encode_user_lines(self, lines: EncodedPart, raw: Chunk, normal: Chunk) -> EncodedPart:
        """Encode lines again that contain user tokens or private characters.

        The text between user tokens is normalised alone.

        lines: the values of the normalised lines
        """
        users = self._tables.vocabulary.special.user
        numbers = np.union1d(_lines_with(users, raw), _lines_with(users, normal))
        if not len(numbers):
            return lines
        texts = decode_lines(
            bytes(raw.text), separator=raw.separator, strips_return=raw.strips_return
        )
        words = split_lines(self._tables.vocabulary, [texts[n] for n in numbers.tolist()])
        return lines.with_lines(numbers, self._encode_words_of_lines(words))

    def _clarify(self, lines: EncodedPart, text: PaddedText, *, strips_return: bool) -> EncodedPart:
        """Encode lines again, from their start to their end, of which the cache cannot know all pieces.

        These are lines with an unclear word, see volt.kernels.trie, and lines of many pieces.
        """
        tables = self._tables
        assert isinstance(tables, ScoreTables)
        vocabulary = tables.vocabulary
        most = tables.most_clear
        if vocabulary.unk_id is None and not vocabulary.byte_fallback:
            most = -1  # unknown characters have no ids
        numbers = self._find_unclear(lines, most)
        if not len(numbers):
            return lines

        line_ends = np.flatnonzero(text.data[: text.size] == text.separator)
        starts = np.append(0, line_ends + 1)[numbers]
        ends = line_ends[numbers]
        if strips_return:
            ends -= (ends > starts) & (text.data[ends - 1] == ord("\r"))
        is_normal = self._normalizes_lines or vocabulary.normalizer.name == "none"
        is_plain = vocabulary.pretokenizer.name in _PLAIN and is_normal
        is_plain &= not (vocabulary.special.user or self._units_are_words)
        if is_plain and not self.rendering.marks_words:
            is_marked = vocabulary.pretokenizer.dummy_prefix
            symbols, symbol_ends = tables.segment_bytes(text.data, starts, ends, is_marked)
            row_numbers, rows = self.rendering.find_rows(symbols)
            new_lines = expand_rows(row_numbers, symbol_ends, rows.starts, rows.values)
        else:
            bounds = zip(starts.tolist(), ends.tolist(), strict=True)
            texts = [text.data[start:end].tobytes().decode() for start, end in bounds]
            new_lines = self._encode_whole_lines(texts)
        return lines.with_lines(numbers, new_lines)

    def _find_unclear(self, lines: EncodedPart, most: int) -> Longs:
        """Return the numbers of the lines with an unclear word, or more than `most` pieces."""
        values = lines.values
        ends = lines.ends
        if self.rendering.unclear == UNCLEAR_ID:
            numbers = np.empty(len(ends), np.int64)
            unk_id = self._tables.vocabulary.unk_id
            n = find_unclear(
                values, ends, UNCLEAR_ID, -1 if unk_id is None else unk_id, most, numbers
            )
            return numbers[:n]
        n_pieces = ends_to_sizes(np.append(0, np.cumsum(values == ord(" ")))[ends]) + 1
        marked = np.searchsorted(ends, np.flatnonzero(values == UNCLEAR_BYTE), side="right")
        return np.union1d(marked, np.flatnonzero(n_pieces > most))

    def _encode_whole_lines(self, texts: Sequence[str]) -> EncodedPart:
        if self._units_are_words:
            words_of_lines = [line.split(" ") if line else [] for line in texts]
        else:
            vocabulary = self._tables.vocabulary
            words_of_lines = split_lines(vocabulary, texts, is_normal=self._normalizes_lines)
        return self._encode_words_of_lines(words_of_lines)

    def _encode_words_of_lines(self, words_of_lines: Sequence[Sequence[str]]) -> EncodedPart:
        words = join_words(list(chain.from_iterable(words_of_lines)))
        n_words = np.fromiter(map(len, words_of_lines), np.int64, len(words_of_lines))
        if self.rendering.unclear:
            assert isinstance(self._tables, ScoreTables)
            segmented = self._tables.segment_lines(*words, n_words)
            values, value_ends = render_words(self.rendering, *segmented)
        else:
            values, value_ends = self._encode_words(*words)
        ends = np.append(0, value_ends)[np.cumsum(n_words)]
        if values.dtype == np.uint8:  # text, with a space after each piece
            is_empty = ends_to_sizes(ends) == 0
            values[ends[~is_empty] - 1] = NEWLINE
            values = np.insert(values, ends[is_empty], NEWLINE)
            ends = ends + np.cumsum(is_empty)
        return EncodedPart(values, ends)

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
        row_numbers, rows = self.rendering.find_rows(symbols)
        return expand_rows(row_numbers, ends, rows.starts, rows.values)

    def _draw_paths(
        self, tables: ScoreTables, chunk: Chunk, sampling: SegmentationSampling
    ) -> EncodedPart:
        """Return the values of a random path of each line of a chunk."""
        vocabulary = tables.vocabulary
        is_normal = self._normalizes_lines and not vocabulary.special.user
        normal = _normalize(vocabulary, chunk) if is_normal else chunk
        lines = decode_lines(
            bytes(normal.text), separator=normal.separator, strips_return=normal.strips_return
        )
        words_of_lines = split_lines(vocabulary, lines, is_normal=is_normal)
        texts = join_words(list(map("".join, words_of_lines)))
        symbols, ends = tables.draw(*texts, sampling, _line_numbers(chunk, len(lines)))
        row_numbers, rows = self.rendering.find_rows(symbols)
        return expand_rows(row_numbers, ends, rows.starts, rows.values)


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
    values, ends = render_words(rendering, symbols, ends)
    starts = ends - ends_to_sizes(ends)
    if rendering.unclear == UNCLEAR_ID:
        values[starts[starts < ends]] |= UNCLEAR_ID
    elif rendering.unclear:
        values = np.insert(values, starts, UNCLEAR_BYTE)
        ends = ends + np.arange(1, len(ends) + 1)
    return values, ends


def render_words(rendering: Rendering, symbols: Ints, ends: Longs) -> tuple[Array, Longs]:
    """Return the values of words of symbols, and where each word's values end."""
    from volt.kernels.spans import ENDS_WORD

    values, symbol_ends = rendering.expand(symbols)
    value_ends = np.append(0, symbol_ends)[ends]
    if rendering.marks_words:
        values[value_ends - 1] |= ENDS_WORD
    return values, value_ends


def expand_rows(
    row_numbers: Ints, line_ends: Longs, row_starts: Longs, row_values: Array
) -> EncodedPart:
    """Return lines of values for lines of row numbers.

    row_numbers: (n,) int32, concatenated lines;  line_ends: (n_lines,), where each line ends in it
    row_starts, row_values: row r is row_values[row_starts[r]:row_starts[r + 1]]

    If the values are text (uint8), a line end replaces the last space of a line.
    """
    from volt.kernels.decode import expand

    is_text = row_values.dtype == np.uint8
    n_values = int(np.diff(row_starts)[row_numbers].sum())
    out = np.empty(n_values + len(line_ends), row_values.dtype)
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
