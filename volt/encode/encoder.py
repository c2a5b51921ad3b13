"""`Encoder`: text ⇄ pieces and ids, by the merges of a vocabulary.

A word starts as atoms; the applicable merge of the lowest rank is applied, from left to right, until none is left; then
every piece that is no kept token is split back into the two parts of its first merge. What the vocabulary cannot spell
stays as it is among pieces, and becomes bytes or `<unk>` among ids.

>>> from volt.vocabulary import Vocabulary
>>> encoder = Encoder(Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "low</w>", "t")))
>>> encoder.encode("low lot"), encoder.encode_ids("low lot")
(['low</w>', 'l', 'o', 't</w>'], array([7, 4, 5, 0], dtype=int32))
>>> encoder.decode(encoder.encode("low lot"))
'low lot'
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from volt.encode.batches import BatchEncoder, Dropout, EncodedPart
from volt.encode.chunks import CHUNK_SIZE, Chunk, chunks_of, file_chunks, joined_lines, shares
from volt.encode.decoder import Decoder, decode
from volt.encode.encoded import Encoded, Ids
from volt.encode.merge_tables import MergeTables
from volt.encode.offsets import encode_offsets
from volt.encode.pretokens import split_lines
from volt.encode.rendering import Rendering, as_id_text, as_ids, as_pieces
from volt.errors import ConfigError, VocabularyError
from volt.files.blocks import Errors
from volt.files.long_lines import MAX_LINE
from volt.files.spans import can_span
from volt.vocabulary import Vocabulary

CACHE_WORDS = 1 << 20  # the most words whose pieces are remembered, by each thread
Form = Literal["pieces", "ids"]


class Encoder:
    """Applies one vocabulary. Safe to share between threads, to pickle and to fork.

    cache_words: the most words whose pieces each thread remembers, at about 200 bytes each; a thread that has more
        forgets them all
    """

    def __init__(self, vocabulary: Vocabulary, *, cache_words: int = CACHE_WORDS) -> None:
        if cache_words < 1:
            raise ConfigError(f"cache_words is {cache_words}; give a positive number")
        self.vocabulary = vocabulary
        self._tables = MergeTables.of(vocabulary)
        self._cache_words = cache_words
        self._cache: dict[str, tuple[str, ...]] = {}
        self._batches: dict[tuple[str, str, bool], BatchEncoder] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.vocabulary, self._cache_words)

    def encode(self, line: str, *, dropout: float = 0.0, seed: int | None = None) -> list[str]:
        """The pieces of one line. With dropout, each merge is passed over with that probability, and a seed is needed.

        Raises CorpusError if the line holds a lone surrogate, ConfigError if dropout is not in [0, 1] or has no seed.
        """
        return self.encode_lines([line], dropout=dropout, seed=seed)[0]

    def encode_ids(self, line: str, *, dropout: float = 0.0, seed: int | None = None) -> Ids:
        """The ids of one line, (n_pieces,) int32, without bos or eos. See `encode`."""
        return self.ids(self.encode(line, dropout=dropout, seed=seed))

    def encode_lines(
        self, lines: Sequence[str], *, dropout: float = 0.0, seed: int | None = None, first: int = 0
    ) -> list[list[str]]:
        """The pieces of each line. Line i draws its dropout from (seed, first + i), however lines are grouped."""
        drops, split = Dropout.of(dropout, seed), split_lines(self.vocabulary, lines)
        if drops:
            return [self._sampled(words, drops, first + number) for number, words in enumerate(split)]
        known = self._known(set(chain.from_iterable(split)))
        return [list(chain.from_iterable(known[word] for word in words)) for words in split]

    def encode_words(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """The pieces of each pre-token, taken as it stands: not normalised, not cut."""
        return self._spelled(*self._tables.encode(words)) if words else []

    def encode_batch(
        self, lines: Sequence[str], *, dropout: float = 0.0, seed: int | None = None, n_threads: int | None = None
    ) -> Encoded:
        """The ids of many lines at once. A line may hold line ends.

        n_threads: by default one for each core

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode_batch(["low", "", "low low"]).ids
        array([6, 7, 6, 7, 6, 7], dtype=int32)
        """
        text, separator = joined_lines(lines)
        size, n_threads = shares(len(text), n_threads)
        chunks = chunks_of(text, separator=separator, numbered=dropout > 0, size=size)
        return Encoded.of(self._run("ids", chunks, dropout, seed, n_threads), n_bytes=len(text))

    def encode_bytes(
        self, text: bytes, *, dropout: float = 0.0, seed: int | None = None, n_threads: int | None = None
    ) -> Encoded:
        """The ids of the lines of UTF-8 text, which end at "\\n".

        Raises CorpusError, with the line, if the text is not UTF-8.

        >>> from volt.vocabulary import Vocabulary
        >>> len(Encoder(Vocabulary(merges=(), tokens=("l", "o"))).encode_bytes(b"lo\\n\\nol\\n"))
        3
        """
        size, n_threads = shares(len(text), n_threads)
        chunks = chunks_of(text, numbered=dropout > 0, size=size)
        return Encoded.of(self._run("ids", chunks, dropout, seed, n_threads), n_bytes=len(text))

    def encode_file(
        self, path: str | os.PathLike[str], *, dropout: float = 0.0, seed: int | None = None,
        errors: Errors = "strict", n_threads: int | None = None, max_line: int | None = MAX_LINE,
    ) -> Encoded:  # fmt: skip
        """The ids of the lines of a file, plain or compressed. Lines end at "\\n" or "\\r\\n".

        errors: what to do with a line that is not UTF-8: "strict", "replace" or "skip".
        max_line: the most bytes of a line; None for no limit.
        Raises CorpusError, with file and line, if the file cannot be read or is not text, or a line is too long.
        """
        path = os.fspath(path)
        n_bytes = os.path.getsize(path) if os.path.isfile(path) else 0
        size, n_threads = shares(n_bytes, n_threads) if can_span(path) else (CHUNK_SIZE, n_threads)
        chunks = file_chunks(path, errors=errors, numbered=dropout > 0, size=size, max_line=max_line)
        return Encoded.of(self._run("ids", chunks, dropout, seed, n_threads), n_bytes=n_bytes)

    def encode_text(
        self, text: bytes, *, form: Form = "pieces", separator: str = "", dropout: float = 0.0, seed: int | None = None,
        first: int = 0, n_threads: int | None = None,
    ) -> bytes:  # fmt: skip
        """Lines of UTF-8 text → lines of pieces, or of ids, with a space between two.

        separator: what marks pieces that do not end a word, such as "@@" in subword-nmt
        first: the number of the first line

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode_text(b"low low\\n", separator="@@")
        b'lo@@ w lo@@ w\\n'
        """
        size, n_threads = shares(len(text), n_threads)
        chunks = chunks_of(text, first=first, numbered=dropout > 0, size=size)
        options: Any = {"form": form, "separator": separator, "dropout": dropout, "seed": seed, "n_threads": n_threads}
        return b"".join(part.values.tobytes() for part in self.text_parts(chunks, **options))

    def text_parts(
        self, chunks: Iterable[Chunk], *, form: Form = "pieces", separator: str = "", dropout: float = 0.0,
        seed: int | None = None, n_threads: int | None = None,
    ) -> Iterator[EncodedPart]:  # fmt: skip
        """What `encode_text` does, chunk by chunk, in order."""
        if form not in get_args(Form) or (separator and form != "pieces"):
            raise ConfigError(f"form {form!r}, separator {separator!r}: choose pieces, or ids without a separator")
        return self._run("pieces" if form == "pieces" else "id text", chunks, dropout, seed, n_threads, separator)

    def encode_parts(
        self, chunks: Iterable[Chunk], *, dropout: float = 0.0, seed: int | None = None, n_threads: int | None = None
    ) -> Iterator[EncodedPart]:
        """Ids, chunk by chunk, in order."""
        return self._run("ids", chunks, dropout, seed, n_threads)

    def encode_offsets(self, line: str) -> list[tuple[str, int, int]]:
        """Each piece with the span of the original line that it came from, in characters. A marker has no width.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode_offsets(" low")
        [('lo', 1, 3), ('w</w>', 3, 4)]
        """
        return list(encode_offsets(self.vocabulary, line, encode_words=self.encode_words))

    def ids(self, pieces: Iterable[str]) -> Ids:
        """The ids of pieces, (n_pieces,) int32. What is no piece of the vocabulary has the id of `unk`."""
        numbers = self.vocabulary.ids
        return np.array([numbers.get(piece, 0) for piece in pieces], np.int32)

    def decode(self, pieces: Iterable[str]) -> str:
        """The line that these pieces spell: its normalised form, with single spaces, if they came from `encode`."""
        return decode(self.vocabulary, pieces)

    def decode_ids(self, ids: Iterable[int]) -> str:
        """The line that these ids spell. Raises VocabularyError if an id is out of range."""
        pieces, numbers = self.vocabulary.pieces, [int(number) for number in ids]
        for place, number in enumerate(numbers):
            if not 0 <= number < len(pieces):
                raise VocabularyError(f"id {number} at position {place}: ids go from 0 to {len(pieces) - 1}")
        return self.decode(pieces[number] for number in numbers)

    def decode_batch(self, encoded: Encoded) -> list[str]:
        """The lines that ids spell. Raises VocabularyError if an id is out of range.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(), tokens=("l", "o", "w</w>")))
        >>> encoder.decode_batch(encoder.encode_batch(["low", "", "low"]))
        ['low', '', 'low']
        """
        return self._decoder.decode_lines(encoded.ids, encoded.offsets)

    def decode_bytes(self, encoded: Encoded) -> bytes:
        """The same as UTF-8 text, with a line end behind every line.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(), tokens=("l", "o", "w</w>")))
        >>> encoder.decode_bytes(encoder.encode_batch(["low", "", "low"]))
        b'low\\n\\nlow\\n'
        """
        return self._decoder.decode_bytes(encoded.ids, encoded.offsets)

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder.of(self.vocabulary)

    def _run(
        self, kind: str, chunks: Iterable[Chunk], dropout: float, seed: int | None, n_threads: int | None,
        separator: str = "",
    ) -> Iterator[EncodedPart]:  # fmt: skip
        drops = Dropout.of(dropout, seed)
        key = kind, separator, drops is not None
        if key not in self._batches:
            self._batches[key] = BatchEncoder(
                self._tables, self._rendering(kind, separator), sampled=key[2], limit=self._cache_words
            )
        return self._batches[key].encode(chunks, dropout=drops, n_threads=n_threads)

    def _rendering(self, kind: str, separator: str) -> Rendering:
        if kind == "pieces":
            return as_pieces(self._tables, separator=separator)
        return as_ids(self._tables) if kind == "ids" else as_id_text(self._tables)

    def _known(self, words: set[str]) -> dict[str, tuple[str, ...]]:
        """The pieces of these words, from the cache where it has them."""
        cache = self._cache
        known = {word: cache[word] for word in words if word in cache}
        missing = list(words.difference(known))
        new = dict(zip(missing, self.encode_words(missing), strict=True))
        if len(cache) + len(new) > self._cache_words:
            self._cache = new
        else:
            cache.update(new)
        return known | new

    def _sampled(self, words: Sequence[str], dropout: Dropout, line: int) -> list[str]:
        """The pieces of one line's words, with dropout drawn from the line's own generator."""
        from volt.kernels.merging import line_state

        if not words:
            return []
        state = line_state(dropout.seed, line)
        found = self._tables.encode(words, dropout=dropout.probability, state=state)
        return list(chain.from_iterable(self._spelled(*found)))

    def _spelled(self, symbols: Ids, ends: NDArray[np.int64]) -> list[tuple[str, ...]]:
        """The pieces of each word."""
        spelled = [self._tables.spell(symbol) for symbol in symbols.tolist()]
        return [tuple(chain.from_iterable(spelled[start:end])) for start, end in pairwise([0, *ends.tolist()])]


def _remade(vocabulary: Vocabulary, cache_words: int) -> Encoder:
    return Encoder(vocabulary, cache_words=cache_words)
