"""`Encoder`: text ⇄ pieces and ids, by the merges of a vocabulary.

A word starts as atoms; the applicable merge of the lowest rank is applied, from left to right, until none is left, or
unless `Vocabulary.merging` says otherwise. Every piece that is not in the vocabulary is then split back into the two
parts of its first merge. A vocabulary that looks up whole words encodes a word that is a token as that token; with
dropout, merges alone decide, as in tokenizers. Text that the vocabulary cannot spell stays unchanged among pieces and
becomes bytes or `<unk>` among ids.

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

from volt import arguments
from volt.encode import validation
from volt.encode.batch_encoder import BatchEncoder, Dropout, Encoded, EncodedPart, Ids
from volt.encode.chunks import CHUNK_SIZE, Chunk, chunks_of, file_chunks, joined_lines, shares
from volt.encode.decoder import Decoder, decode
from volt.encode.merge_tables import MergeTables
from volt.encode.offsets import encode_offsets
from volt.encode.pretokens import split_lines
from volt.encode.rendering import Kind, rendering_of
from volt.encode.validation import HasVocabulary
from volt.errors import ConfigError, VocabularyError
from volt.files.blocks import Errors
from volt.files.limits import MAX_LINE
from volt.files.paths import size_of
from volt.files.ranges import can_span
from volt.text.special_tokens import with_marks
from volt.vocabulary import Vocabulary

CACHE_WORDS = 1 << 20  # the most words whose pieces are remembered, by each thread
Numbers = NDArray[np.int64]
Form = Literal["pieces", "ids"]
_ONE = "did you mean encode(line) or {}([line])?"


class Encoder:
    """Applies one vocabulary. Safe to share between threads and to pickle.

    vocabulary: the vocabulary, the path of its file, or an object that has one, such as the result of a search
    cache_words: the most words whose pieces each thread caches, at about 200 bytes each; a full cache is emptied

    Raises VocabularyError if a file is not a vocabulary, ConfigError if cache_words is below 1.

    >>> from volt.vocabulary import Vocabulary
    >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
    >>> encoder, encoder.encode("low")
    (<Encoder of <Vocabulary: 4 tokens, 1 merge, suffix, whitespace>>, ['lo', 'w</w>'])
    """

    def __init__(
        self, vocabulary: Vocabulary | str | os.PathLike[str] | HasVocabulary, *, cache_words: int = CACHE_WORDS
    ) -> None:
        self._cache_words = arguments.whole(cache_words, "cache_words", low=1)
        self.vocabulary = validation.vocabulary(vocabulary)
        self._tables = MergeTables.of(self.vocabulary)
        self._cache: dict[str, tuple[str, ...]] = {}
        self._batches: dict[tuple[str, str, bool], BatchEncoder] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.vocabulary, self._cache_words)

    def __repr__(self) -> str:
        return f"<Encoder of {self.vocabulary!r}>"

    def encode(self, line: str, *, dropout: float = 0.0, seed: int | None = None) -> list[str]:
        """Return the pieces of one line.

        line: text
        dropout: the probability of skipping a merge; above 0 it needs a seed
        seed: a whole number from 0 up; equal seeds draw alike

        Raises CorpusError if the line holds a lone surrogate, ConfigError if dropout is not in [0, 1] or has no seed.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode("low low"), encoder.encode("low", dropout=1.0, seed=1)
        (['lo', 'w</w>', 'lo', 'w</w>'], ['l', 'o', 'w</w>'])
        """
        return self._pieces([validation.line(line, "encode")], Dropout.of(dropout, seed))[0]

    def encode_ids(self, line: str, *, dropout: float = 0.0, seed: int | None = None) -> Ids:
        """Return the ids of one line, (n_pieces,) int32, without bos or eos.

        line, dropout, seed: see `encode`
        """
        return self.ids(self._pieces([validation.line(line, "encode_ids")], Dropout.of(dropout, seed))[0])

    def encode_lines(
        self, lines: Iterable[str], *, dropout: float = 0.0, seed: int | None = None, first: int = 0
    ) -> list[list[str]]:
        """Return the pieces of each line. Line i draws its dropout from (seed, first + i), however lines are grouped.

        lines: texts: a list, an array, a column of a table, or any other iterable
        dropout, seed: see `encode`
        first: the number of the first line

        >>> from volt.vocabulary import Vocabulary
        >>> Encoder(Vocabulary(merges=(), tokens=("l", "o"))).encode_lines(line for line in ("lo", "l o"))
        [['l', 'o</w>'], ['l</w>', 'o</w>']]
        """
        lines = arguments.texts(lines, "lines", one=_ONE.format("encode_lines"))
        return self._pieces(lines, Dropout.of(dropout, seed), validation.first(first))

    def encode_words(self, words: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the pieces of each pre-token, which is neither normalised nor cut.

        words: pre-tokens, none of them empty

        Raises ConfigError if a pre-token is empty, CorpusError if it holds a lone surrogate.
        """
        words = validation.words(words)
        return self._encoded(list(map(with_marks, words)) if self.vocabulary.special.user else words)

    def encode_batch(
        self, lines: Iterable[str], *, dropout: float = 0.0, seed: int | None = None, n_threads: int | None = None
    ) -> Encoded:
        """Return the ids of many lines at once. A line may hold line ends.

        lines: texts: a list, an array, a column of a table, or any other iterable
        dropout, seed: see `encode`
        n_threads: how many threads encode, by default one for each core

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode_batch(["low", "", "low low"]).ids
        array([6, 7, 6, 7, 6, 7], dtype=int32)
        """
        text, separator = joined_lines(arguments.several(lines, "lines", one=_ONE.format("encode_batch")))
        size, n_threads = shares(len(text), validation.threads(n_threads))
        drops = Dropout.of(dropout, seed)
        chunks = chunks_of(text, separator=separator, numbered=drops is not None, size=size)
        return Encoded.of(self._run("ids", chunks, drops, n_threads), n_bytes=len(text))

    def encode_bytes(
        self, text: bytes, *, dropout: float = 0.0, seed: int | None = None, numbers: Numbers | None = None,
        n_threads: int | None = None,
    ) -> Encoded:  # fmt: skip
        """Return the ids of the lines of UTF-8 text, which end at "\\n".

        text: bytes
        dropout, seed, n_threads: see `encode_batch`
        numbers: (n_lines,) int64. Line i draws its dropout from (seed, numbers[i]); by default from (seed, i)

        Raises CorpusError, with the line, if the text is not UTF-8, ConfigError unless each line has one number.

        >>> from volt.vocabulary import Vocabulary
        >>> len(Encoder(Vocabulary(merges=(), tokens=("l", "o"))).encode_bytes(b"lo\\n\\nol\\n"))
        3
        """
        text = validation.utf8(text, "encode_bytes")
        size, n_threads = shares(len(text), validation.threads(n_threads))
        drops, own = Dropout.of(dropout, seed), validation.numbers(numbers, text)
        chunks = chunks_of(text, numbers=own, numbered=drops is not None, size=size)
        return Encoded.of(self._run("ids", chunks, drops, n_threads), n_bytes=len(text))

    def encode_file(
        self, path: str | os.PathLike[str], *, dropout: float = 0.0, seed: int | None = None,
        errors: Errors = "strict", n_threads: int | None = None, max_line: int | None = MAX_LINE,
    ) -> Encoded:  # fmt: skip
        """Return the ids of the lines of a file, plain or compressed. Lines end at "\\n" or "\\r\\n".

        path: path of the file, or "-" for stdin
        dropout, seed, n_threads: see `encode_batch`
        errors: what to do with a line that is not UTF-8: "strict", "replace" or "skip".
        max_line: the most bytes of a line; None for no limit.
        Raises CorpusError, with file and line, if the file cannot be read or is not text, or a line is too long.
        """
        path = arguments.path(path)
        arguments.choice(errors, "errors", get_args(Errors))
        n_bytes = size_of(path) or 0
        size, n_threads = shares(n_bytes, validation.threads(n_threads)) if can_span(path) else (CHUNK_SIZE, n_threads)
        drops = Dropout.of(dropout, seed)
        chunks = file_chunks(path, errors=errors, numbered=drops is not None, size=size, max_line=max_line)
        return Encoded.of(self._run("ids", chunks, drops, n_threads), n_bytes=n_bytes)

    def encode_text(
        self, text: bytes, *, form: Form = "pieces", separator: str = "", dropout: float = 0.0, seed: int | None = None,
        first: int = 0, numbers: Numbers | None = None, n_threads: int | None = None,
    ) -> bytes:  # fmt: skip
        """Encode lines of UTF-8 text as lines of pieces, or of ids, with a space between two.

        text: bytes
        form: "pieces" or "ids"
        separator: the mark of pieces that do not end a word, such as "@@" in subword-nmt
        dropout, seed, n_threads: see `encode_batch`
        first: the number of the first line
        numbers: see `encode_bytes`; overrides `first`

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode_text(b"low low\\n", separator="@@")
        b'lo@@ w lo@@ w\\n'
        """
        text = validation.utf8(text, "encode_text")
        size, n_threads = shares(len(text), validation.threads(n_threads))
        numbered, own = Dropout.of(dropout, seed) is not None, validation.numbers(numbers, text)
        chunks = chunks_of(text, first=validation.first(first), numbers=own, numbered=numbered, size=size)
        options: Any = {"form": form, "separator": separator, "dropout": dropout, "seed": seed, "n_threads": n_threads}
        return b"".join(part.values.tobytes() for part in self.text_parts(chunks, **options))

    def text_parts(
        self, chunks: Iterable[Chunk], *, form: Form = "pieces", separator: str = "", dropout: float = 0.0,
        seed: int | None = None, n_threads: int | None = None,
    ) -> Iterator[EncodedPart]:  # fmt: skip
        """Encode as `encode_text` does, chunk by chunk, in order.

        chunks: see volt.encode.chunks
        form, separator, dropout, seed, n_threads: see `encode_text`
        """
        separator = validation.separator(separator)
        arguments.text(form, "form")
        if form not in get_args(Form) or (separator and form != "pieces"):
            raise ConfigError(f"form {form!r}, separator {separator!r}: choose pieces, or ids without a separator")
        kind: Kind = "pieces" if form == "pieces" else "id text"
        return self._run(kind, chunks, Dropout.of(dropout, seed), n_threads, separator)

    def encode_parts(
        self, chunks: Iterable[Chunk], *, dropout: float = 0.0, seed: int | None = None, n_threads: int | None = None
    ) -> Iterator[EncodedPart]:
        """Yield the ids of chunks, in order.

        chunks: see volt.encode.chunks
        dropout, seed, n_threads: see `encode_batch`
        """
        return self._run("ids", chunks, Dropout.of(dropout, seed), n_threads)

    def encode_offsets(self, line: str) -> list[tuple[str, int, int]]:
        """Return each piece with its span in the original line, in characters. A marker has no width.

        line: text

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode_offsets(" low")
        [('lo', 1, 3), ('w</w>', 3, 4)]
        """
        line = validation.line(line, "encode_offsets")
        return list(encode_offsets(self.vocabulary, line, encode_words=self._encoded))

    def ids(self, pieces: Iterable[str]) -> Ids:
        """Return the ids of pieces, (n_pieces,) int32. Unknown pieces get the id of `unk`, or none.

        pieces: strings, as `encode` returns them
        """
        numbers, unk = self.vocabulary.ids, self.vocabulary.unk_id
        result = (numbers.get(piece, unk) for piece in validation.pieces(pieces, "ids"))
        return np.array([number for number in result if number is not None], np.int32)

    def decode(self, pieces: Iterable[str]) -> str:
        """Return the line that these pieces spell. Pieces from `encode` give its normalised form, with single spaces.

        pieces: strings, as `encode` returns them
        """
        return decode(self.vocabulary, validation.pieces(pieces, "decode"))

    def decode_ids(self, ids: Iterable[int]) -> str:
        """Return the line that these ids spell.

        ids: whole numbers, as `encode_ids` returns them

        Raises VocabularyError if an id is out of range.

        >>> from volt.vocabulary import Vocabulary
        >>> Encoder(Vocabulary(merges=(), tokens=("l", "o", "w</w>"))).decode_ids([4, 5, 6])
        'low'
        """
        pieces, numbers = self.vocabulary.pieces, validation.ids(ids)
        for place, number in enumerate(numbers):
            if not 0 <= number < len(pieces):
                raise VocabularyError(f"id {number} at position {place}: ids go from 0 to {len(pieces) - 1}")
        return decode(self.vocabulary, (pieces[number] for number in numbers))

    def decode_batch(self, encoded: Encoded | Iterable[Iterable[int]]) -> list[str]:
        """Return the lines that ids spell.

        encoded: the result of `encode_batch`, or the ids of each line

        Raises VocabularyError if an id is out of range.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(), tokens=("l", "o", "w</w>")))
        >>> encoder.decode_batch(encoder.encode_batch(["low", "", "low"]))
        ['low', '', 'low']
        """
        encoded = validation.encoded(encoded)
        return self._decoder.decode_lines(encoded.ids, encoded.offsets)

    def decode_bytes(self, encoded: Encoded | Iterable[Iterable[int]]) -> bytes:
        """Return the lines that ids spell as UTF-8 text, with a line end after every line.

        encoded: see `decode_batch`

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(), tokens=("l", "o", "w</w>")))
        >>> encoder.decode_bytes(encoder.encode_batch(["low", "", "low"]))
        b'low\\n\\nlow\\n'
        """
        encoded = validation.encoded(encoded)
        return self._decoder.decode_bytes(encoded.ids, encoded.offsets)

    def decode_text(self, text: bytes) -> bytes:
        """Decode lines of ids, with a space between two, to lines of UTF-8 text: the inverse of `encode_text`.

        text: bytes

        Raises CorpusError if a word is not an id, VocabularyError if an id is out of range.

        >>> from volt.vocabulary import Vocabulary
        >>> Encoder(Vocabulary(merges=(), tokens=("l", "o", "w</w>"))).decode_text(b"4 5 6\\n\\n4 6\\n")
        b'low\\n\\nlw\\n'
        """
        return self._decoder.decode_text(validation.utf8(text, "decode_text"))

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder.of(self.vocabulary)

    def _pieces(self, lines: Sequence[str], drops: Dropout | None, first: int = 0) -> list[list[str]]:
        """Encode lines as `encode_lines` does, without checking the arguments."""
        split = split_lines(self.vocabulary, lines)
        if drops:
            return [self._sampled(words, drops, first + number) for number, words in enumerate(split)]
        known = self._known(set(chain.from_iterable(split)))
        return [list(chain.from_iterable(known[word] for word in words)) for words in split]

    def _run(
        self, kind: Kind, chunks: Iterable[Chunk], drops: Dropout | None, n_threads: int | None, separator: str = ""
    ) -> Iterator[EncodedPart]:
        chunks, n_threads = validation.chunks(chunks), validation.threads(n_threads)
        key = kind, separator, drops is not None
        if key not in self._batches:
            rendering = rendering_of(kind, self._tables, separator=separator)
            self._batches[key] = BatchEncoder(self._tables, rendering, sampled=key[2], limit=self._cache_words)
        return self._batches[key].encode(chunks, dropout=drops, n_threads=n_threads)

    def _encoded(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        return self._spelled(*self._tables.encode(words)) if words else []

    def _known(self, words: set[str]) -> dict[str, tuple[str, ...]]:
        cache = self._cache
        known = {word: cache[word] for word in words if word in cache}
        missing = list(words.difference(known))
        new = dict(zip(missing, self._encoded(missing), strict=True))
        if len(cache) + len(new) > self._cache_words:
            self._cache = new
        else:
            cache.update(new)
        return known | new

    def _sampled(self, words: Sequence[str], dropout: Dropout, line: int) -> list[str]:
        """Return the pieces of one line's words, with dropout drawn from the line's own generator."""
        from volt.kernels.apply_bpe import line_state

        if not words:
            return []
        state = line_state(dropout.seed, line)
        result = self._tables.encode(words, dropout=dropout.probability, state=state)
        return list(chain.from_iterable(self._spelled(*result)))

    def _spelled(self, symbols: Ids, ends: NDArray[np.int64]) -> list[tuple[str, ...]]:
        spelled = [self._tables.spell(symbol) for symbol in symbols.tolist()]
        return [tuple(chain.from_iterable(spelled[start:end])) for start, end in pairwise([0, *ends.tolist()])]


def _remade(vocabulary: Vocabulary, cache_words: int) -> Encoder:
    return Encoder(vocabulary, cache_words=cache_words)
