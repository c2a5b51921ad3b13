"""`Encoder`: text ⇄ pieces and ids, by the merges of a vocabulary.

A word starts as atoms, its characters or bytes. The applicable merge with the lowest rank is applied, from left to
right, until no merge applies (`Vocabulary.merging` may set another order). A piece outside the vocabulary is then split
back into the two parts of the first merge that makes it. An unknown character becomes its byte tokens, if the
vocabulary has these; otherwise it is a piece of its own, with the id of `<unk>`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np

from volt import arguments
from volt.arguments import MAX_LINE
from volt.encode import inputs
from volt.encode.arrays import Ints
from volt.encode.batch_encoder import BatchEncoder, Dropout, Encoded, EncodedPart
from volt.encode.chunks import (
    CHUNK_SIZE,
    NEWLINE,
    Chunk,
    checked_threads,
    chunks_of,
    file_chunks,
    joined_lines,
    split_for_threads,
)
from volt.encode.decoder import Decoder, decode, decode_stream, skipped_ids
from volt.encode.frames import Frame, PaddedIds, Side, role_id
from volt.encode.inputs import HasVocabulary, Numbers
from volt.encode.merge_tables import MergeTables
from volt.encode.offsets import Spans, encode_offsets
from volt.encode.pretokens import split_lines
from volt.encode.rendering import Kind, Rendering, checked_separator
from volt.encode.special_in_text import Special, finding, found_tokens
from volt.errors import ConfigError
from volt.files.blocks import Errors
from volt.files.paths import size_of
from volt.files.ranges import open_divisible
from volt.text.normalizer import check_text
from volt.text.special_tokens import with_marks
from volt.vocabulary import Vocabulary

CACHE_WORDS = 1 << 20  # the maximum number of words that each thread caches
Form = Literal["pieces", "ids"]
_ONE = "did you mean encode(line) or {}([line])?"


class Encoder:
    """Applies one vocabulary. Safe to share between threads and to pickle.

    vocabulary: a vocabulary, its path, or an object that has one, such as the result of a search
    cache_words: the maximum number of words that each thread caches; a word takes about 200 bytes

    Raises VocabularyError for a file that is not a vocabulary.

    >>> from volt.vocabulary import Vocabulary
    >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
    >>> encoder
    <Encoder of <Vocabulary: 4 tokens, 1 merge, suffix, whitespace>>
    >>> encoder.encode("low"), encoder.encode_ids("low t"), encoder.decode_ids([6, 7])
    (['lo', 'w</w>'], array([6, 7, 0], dtype=int32), 'low')
    """

    def __init__(
        self,
        vocabulary: Vocabulary | str | os.PathLike[str] | HasVocabulary,
        *,
        cache_words: int = CACHE_WORDS,
    ) -> None:
        self._cache_words = arguments.whole(cache_words, "cache_words", low=1)
        self.vocabulary = inputs.vocabulary_of(vocabulary)
        self._tables = MergeTables.of(self.vocabulary)
        self._cache: dict[str, tuple[str, ...]] = {}
        self._variants: dict[frozenset[str], Encoder] = {}
        self._batches: dict[tuple[str, str, bool], BatchEncoder] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Encoder, cache_words=self._cache_words), (self.vocabulary,)

    def __repr__(self) -> str:
        return f"<Encoder of {self.vocabulary!r}>"

    def encode(self, line: str, *, dropout: float = 0.0, seed: int | None = None) -> list[str]:
        """Return the pieces of one line.

        line: text
        dropout: the probability of skipping a merge; above 0 it needs a seed
        seed: a whole number, 0 or more

        Raises CorpusError if the line contains a lone surrogate.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode("low low"), encoder.encode("low", dropout=1.0, seed=1)
        (['lo', 'w</w>', 'lo', 'w</w>'], ['l', 'o', 'w</w>'])
        """
        line = inputs.checked_line(line, "encode")
        [pieces] = self._pieces([line], Dropout.of(dropout, seed))
        return pieces

    def encode_ids(
        self,
        line: str,
        *,
        dropout: float = 0.0,
        seed: int | None = None,
        add_bos: bool = False,
        add_eos: bool = False,
        allowed_special: Special | None = None,
        disallowed_special: Special = (),
    ) -> Ints:
        """Return the ids of one line, (n_ids,) int32.

        line, dropout, seed: see `encode`
        add_bos, add_eos: whether to put the id of bos before the line, and the id of eos after it
        allowed_special: the special tokens that are found in text: "all", or a set, () for none; by default user tokens
        disallowed_special: the special tokens that raise CorpusError if the text contains them: a set, or "all" for
            all that are not found in text

        Raises ConfigError if the vocabulary lacks bos or eos, or for a token that is not special.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"), marker="none"))
        >>> encoder.encode_ids("lo</s>", add_bos=True, allowed_special="all")
        array([1, 6, 2], dtype=int32)
        """
        frame = None
        if add_bos is not False or add_eos is not False:  # checks take 20 µs
            frame = Frame.of_roles(self.vocabulary, bos=add_bos, eos=add_eos)
        line = inputs.checked_line(line, "encode_ids")
        encoder = self
        if not _finds_user_tokens(allowed_special, disallowed_special):
            encoder = self._finding(allowed_special, disallowed_special, *joined_lines([line]))
        drops = Dropout.of(dropout, seed)

        if self.vocabulary.fuse_unk:  # an unknown piece may be spelled like a special token
            ids = encoder._ids_of_text(*joined_lines([line]), None, drops, 1).ids
        else:
            [pieces] = encoder._pieces([line], drops)
            ids = encoder._ids(pieces)
        if frame is None:
            return ids
        ids, _ = frame.fit(ids, np.array([len(ids)]), truncate=None)
        return ids

    def count(self, line: str) -> int:
        """Return the number of ids of one line. For many lines, use `encode_batch(lines).counts`.

        line: text
        """
        return len(self.encode_ids(inputs.checked_line(line, "count")))

    def encode_lines(
        self, lines: Iterable[str], *, dropout: float = 0.0, seed: int | None = None, first: int = 0
    ) -> list[list[str]]:
        """Return the pieces of each line. Line i draws its dropout from (seed, first + i).

        lines: texts
        dropout, seed: see `encode`
        first: the number of the first line
        """
        lines = arguments.texts(lines, "lines", one=_ONE.format("encode_lines"))
        return self._pieces(lines, Dropout.of(dropout, seed), inputs.checked_first(first))

    def encode_words(self, words: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the pieces of each pre-token; pre-tokens are neither normalised nor split.

        words: pre-tokens; an empty one raises ConfigError
        """
        words = arguments.texts(words, "words", one="did you mean encode_words([word])?")
        if "" in words:
            raise ConfigError(f"words[{words.index('')}] is empty; remove it")
        check_text("".join(words))
        if self.vocabulary.special.user:
            words = list(map(with_marks, words))
        return self._tables.pieces(words)

    def encode_batch(
        self,
        lines: Iterable[str],
        *,
        dropout: float = 0.0,
        seed: int | None = None,
        n_threads: int | None = None,
        add_bos: bool = False,
        add_eos: bool = False,
        truncate: int | None = None,
        allowed_special: Special | None = None,
        disallowed_special: Special = (),
    ) -> Encoded:
        """Return the ids of many lines at once. A line may contain line ends.

        lines: texts, or an array of strings of Arrow
        dropout, seed: see `encode`
        n_threads: the number of threads, by default one per core
        add_bos, add_eos, allowed_special, disallowed_special: see `encode_ids`
        truncate: the maximum number of ids of a line, bos and eos included; the last ids of the text are removed
        """
        frame = Frame.of_roles(self.vocabulary, bos=add_bos, eos=add_eos)
        text, separator = joined_lines(inputs.checked_lines(lines))
        encoder = self
        if not _finds_user_tokens(allowed_special, disallowed_special):
            encoder = self._finding(allowed_special, disallowed_special, text, separator)
        encoded = encoder._ids_of_text(text, separator, None, Dropout.of(dropout, seed), n_threads)
        ids, ends = frame.fit(encoded.ids, encoded.offsets[1:], truncate=truncate)
        return Encoded(ids, np.append(0, ends))

    def pad(
        self,
        encoded: Encoded | Iterable[Iterable[int]],
        *,
        pad_to: int | None = None,
        side: Side = "right",
    ) -> PaddedIds:
        """Pad the ids of lines to one length, with the id of pad.

        encoded: the result of `encode_batch`, or the ids of each line
        pad_to: the length; by default, the length of the longest line
        side: where padding goes: "right" or "left"

        Raises ConfigError if a line is longer than `pad_to`, or if the vocabulary has no pad token.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> padded = encoder.pad(encoder.encode_batch(["low", "lolo low"], truncate=3), pad_to=4)
        >>> padded.ids, padded.mask[0]
        (array([[6, 7, 3, 3],
               [6, 4, 0, 3]], dtype=int32), array([ True,  True, False, False]))
        """
        encoded = inputs.flat_ids(encoded)
        ids, offsets = self._decoder.checked(encoded.ids, encoded.offsets)
        pad = role_id(self.vocabulary, "pad")
        return PaddedIds.of(ids, offsets[1:], pad=pad, pad_to=pad_to, side=side)

    def encode_bytes(
        self,
        text: bytes,
        *,
        dropout: float = 0.0,
        seed: int | None = None,
        numbers: Numbers | None = None,
        n_threads: int | None = None,
    ) -> Encoded:
        r"""Return the ids of the lines of UTF-8 text. Lines end at "\n".

        text: bytes; an invalid line raises CorpusError with its number
        dropout, seed, n_threads: see `encode_batch`
        numbers: (n_lines,) int64. Line i draws its dropout from (seed, numbers[i]); by default from (seed, i)
        """
        text = inputs.checked_utf8(text, "encode_bytes")
        numbers = inputs.checked_numbers(numbers, text)
        return self._ids_of_text(text, NEWLINE, numbers, Dropout.of(dropout, seed), n_threads)

    def encode_file(
        self,
        path: str | os.PathLike[str],
        *,
        dropout: float = 0.0,
        seed: int | None = None,
        errors: Errors = "strict",
        n_threads: int | None = None,
        max_line: int | None = MAX_LINE,
    ) -> Encoded:
        r"""Return the ids of the lines of a file, plain or compressed. Lines end at "\n" or "\r\n".

        path: a file, or "-" for stdin
        dropout, seed, n_threads: see `encode_batch`
        errors: how to treat a line that is not UTF-8: "strict", "replace" or "skip"
        max_line: the maximum number of bytes in a line; None for no limit

        Raises CorpusError, with file and line, for an unreadable file, invalid text, or a line that is too long.
        """
        path = arguments.path(path)
        arguments.choice(errors, "errors", get_args(Errors))
        n_bytes = size_of(path) or 0
        size = CHUNK_SIZE
        if open_divisible(path) is not None:
            size, n_threads = split_for_threads(n_bytes, n_threads)
        drops = Dropout.of(dropout, seed)
        numbered = drops is not None
        chunks = file_chunks(path, errors=errors, numbered=numbered, size=size, max_line=max_line)
        return Encoded.of(self._run("ids", chunks, drops, n_threads), n_bytes=n_bytes)

    def encode_text(
        self,
        text: bytes,
        *,
        form: Form = "pieces",
        separator: str = "",
        dropout: float = 0.0,
        seed: int | None = None,
        first: int = 0,
        numbers: Numbers | None = None,
        n_threads: int | None = None,
    ) -> bytes:
        """Encode lines of UTF-8 text as lines of pieces or ids, separated by spaces.

        text: bytes
        form: "pieces" or "ids"
        separator: a mark such as "@@" after each piece that does not end a word
        dropout, seed, n_threads: see `encode_batch`
        first: the number of the first line
        numbers: see `encode_bytes`; overrides `first`
        """
        text = inputs.checked_utf8(text, "encode_text")
        size, n_threads = split_for_threads(len(text), n_threads)
        chunks = chunks_of(
            text,
            first=inputs.checked_first(first),
            numbers=inputs.checked_numbers(numbers, text),
            numbered=Dropout.of(dropout, seed) is not None,
            size=size,
        )
        parts = self.text_parts(
            chunks,
            form=form,
            separator=separator,
            dropout=dropout,
            seed=seed,
            n_threads=n_threads,
        )
        return b"".join(part.values.tobytes() for part in parts)

    def text_parts(
        self,
        chunks: Iterable[Chunk],
        *,
        form: Form = "pieces",
        separator: str = "",
        dropout: float = 0.0,
        seed: int | None = None,
        n_threads: int | None = None,
    ) -> Iterator[EncodedPart]:
        """Yield the lines of chunks as `encode_text` encodes them, in order.

        chunks: see volt.encode.chunks
        form, separator, dropout, seed, n_threads: see `encode_text`
        """
        separator = checked_separator(separator)
        arguments.text(form, "form")
        if form not in get_args(Form) or (separator and form != "pieces"):
            raise ConfigError(
                f"form {form!r}, separator {separator!r}: choose pieces, or ids without a separator"
            )
        kind: Kind = "pieces" if form == "pieces" else "id text"
        return self._run(kind, chunks, Dropout.of(dropout, seed), n_threads, separator)

    def encode_parts(
        self,
        chunks: Iterable[Chunk],
        *,
        dropout: float = 0.0,
        seed: int | None = None,
        n_threads: int | None = None,
    ) -> Iterator[EncodedPart]:
        """Yield the ids of chunks, in order.

        chunks: see volt.encode.chunks
        dropout, seed, n_threads: see `encode_batch`
        """
        return self._run("ids", chunks, Dropout.of(dropout, seed), n_threads)

    def encode_offsets(self, line: str) -> list[tuple[str, int, int]]:
        """Return each piece with its start and end in the line, in characters. A marker has no width.

        line: text

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode_offsets(" low")
        [('lo', 1, 3), ('w</w>', 3, 4)]
        """
        line = inputs.checked_line(line, "encode_offsets")
        spans = encode_offsets(self.vocabulary, line, encode_words=self._tables.pieces)
        return [(piece, start, end) for piece, start, end, _ in spans]

    def encode_spans(self, lines: Iterable[str]) -> Spans:
        """Return the ids of many lines, each with its span in its line and the number of its word.

        lines: texts

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> spans = encoder.encode_spans([" low", "w low"])
        >>> spans.starts.tolist(), spans.ends.tolist(), spans.words.tolist(), spans.offsets.tolist()
        ([1, 3, 0, 2, 4], [3, 4, 1, 4, 5], [0, 0, 0, 1, 1], [0, 2, 5])
        """
        one = "did you mean encode_offsets(line) or encode_spans([line])?"
        lines = arguments.texts(lines, "lines", one=one)
        return Spans.of(self.vocabulary, lines, encode_words=self._tables.pieces)

    def ids(self, pieces: Iterable[str]) -> Ints:
        """Return the ids of pieces, (n_pieces,) int32. Unknown pieces get the id of `unk`, if it exists.

        pieces: strings
        """
        return self._ids(inputs.checked_pieces(pieces, "ids"))

    def decode(self, pieces: Iterable[str]) -> str:
        """Decode pieces into a line of text. Pieces from `encode` give the normalised line, with single spaces.

        pieces: strings
        """
        return decode(self.vocabulary, inputs.checked_pieces(pieces, "decode"))

    def decode_ids(self, ids: Iterable[int], *, skip_special: bool | Special = False) -> str:
        """Decode ids into a line of text.

        ids: whole numbers. Raises VocabularyError if an id is out of range.
        skip_special: True to leave out `vocabulary.special.skipped`; or the special tokens to leave out
        """
        if isinstance(ids, Encoded):
            raise arguments.refusal(ids, "ids", "did you mean decode_batch(encoded)?")
        skipped = skipped_ids(self.vocabulary, skip_special)
        pieces = inputs.pieces_of(self.vocabulary, arguments.wholes(ids, "ids"), skipped)
        return decode(self.vocabulary, pieces)

    def decode_stream(
        self, ids: Iterable[int], *, skip_special: bool | Special = False
    ) -> Iterator[str]:
        """Yield the text of ids as soon as its characters are complete. The parts join to the result of `decode_ids`.

        ids: whole numbers, such as those that a model generates one by one
        skip_special: see `decode_ids`

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(), tokens=("l", "o</w>"), byte_fallback=True))
        >>> list(encoder.decode_stream(encoder.encode_ids("lo l😀")))
        ['l', 'o', ' l', '😀']
        """
        skipped = skipped_ids(self.vocabulary, skip_special)
        pieces = inputs.pieces_of(self.vocabulary, inputs.streamed_ids(ids), skipped)
        return decode_stream(self.vocabulary, pieces)

    def token_bytes(self, number: int) -> bytes:
        """Return the UTF-8 text of an id, which may be part of a character. A marker is a space.

        number: the id. Raises VocabularyError if it is out of range.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(), tokens=("l", "o</w>"), byte_fallback=True))
        >>> [encoder.token_bytes(number) for number in (0, 260, 261, 262)]
        [b'<unk>', b' ', b'l', b'o ']
        """
        number = arguments.whole(number, "number")
        [_] = inputs.pieces_of(self.vocabulary, [number])
        return self._decoder.token_bytes(number)

    def decode_batch(
        self, encoded: Encoded | Iterable[Iterable[int]], *, skip_special: bool | Special = False
    ) -> list[str]:
        """Decode ids into lines of text.

        encoded: the result of `encode_batch`, or the ids of each line
        skip_special: see `decode_ids`
        """
        encoded = inputs.flat_ids(encoded)
        skipped = skipped_ids(self.vocabulary, skip_special)
        return self._decoder.decode_lines(encoded.ids, encoded.offsets, skipped=skipped)

    def decode_bytes(self, encoded: Encoded | Iterable[Iterable[int]]) -> bytes:
        """Return the lines of ids as UTF-8 text, each with a line end.

        encoded: see `decode_batch`
        """
        encoded = inputs.flat_ids(encoded)
        return self._decoder.decode_bytes(encoded.ids, encoded.offsets)

    def decode_text(self, text: bytes) -> bytes:
        """Decode lines of ids, separated by spaces, to lines of UTF-8 text.

        text: bytes; a word that is not an id raises CorpusError
        """
        return self._decoder.decode_text(inputs.checked_utf8(text, "decode_text"))

    @property
    def unknown_characters(self) -> list[str]:
        """The unknown characters of all batches, texts and files so far, sorted.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(), tokens=("l", "o"), marker="none"))
        >>> _ = encoder.encode_batch(["lol", "olé"])
        >>> encoder.unknown_characters
        ['é']
        """
        unknown = (batch.rendering.unknown() for batch in self._batches.values())
        return sorted(set[str]().union(*unknown))

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder.of(self.vocabulary)

    def _finding(
        self, allowed: Special | None, disallowed: Special, text: bytes, separator: int
    ) -> Encoder:
        """Return the encoder that finds the allowed tokens in text, after a search for those that are not allowed."""
        tokens = found_tokens(self.vocabulary, allowed, disallowed, text, separator)
        if tokens == frozenset(self.vocabulary.special.user):
            return self
        if tokens not in self._variants:
            vocabulary = finding(self.vocabulary, tokens)
            self._variants[tokens] = Encoder(vocabulary, cache_words=self._cache_words)
        return self._variants[tokens]

    def _ids(self, pieces: Iterable[str]) -> Ints:
        numbers = self.vocabulary.ids
        unk = self.vocabulary.unk_id
        ids = [numbers.get(piece, unk) for piece in pieces]
        return np.array([number for number in ids if number is not None], np.int32)

    def _pieces(
        self, lines: Sequence[str], drops: Dropout | None, first: int = 0
    ) -> list[list[str]]:
        words_of_lines = split_lines(self.vocabulary, lines)
        if drops:
            numbered = enumerate(words_of_lines, first)
            return [self._sampled(words, drops, number) for number, words in numbered]

        words = set(chain.from_iterable(words_of_lines))
        cache = self._cache
        missing = list(words.difference(cache))
        if len(cache) + len(missing) > self._cache_words:
            missing = list(words)
            cache = self._cache = {}  # other threads may still read the old cache
        cache.update(zip(missing, self._tables.pieces(missing), strict=True))
        return [
            list(chain.from_iterable(map(cache.__getitem__, words))) for words in words_of_lines
        ]

    def _sampled(self, words: Sequence[str], drops: Dropout, line: int) -> list[str]:
        from volt.kernels.apply_bpe import line_state

        state = line_state(drops.seed, line)
        pieces = self._tables.pieces(words, dropout=drops.probability, state=state)
        return list(chain.from_iterable(pieces))

    def _ids_of_text(
        self,
        text: bytes,
        separator: int,
        numbers: Numbers | None,
        drops: Dropout | None,
        n_threads: int | None,
    ) -> Encoded:
        size, n_threads = split_for_threads(len(text), n_threads)
        numbered = drops is not None
        chunks = chunks_of(text, separator=separator, numbers=numbers, numbered=numbered, size=size)
        return Encoded.of(self._run("ids", chunks, drops, n_threads), n_bytes=len(text))

    def _run(
        self,
        kind: Kind,
        chunks: Iterable[Chunk],
        drops: Dropout | None,
        n_threads: int | None,
        separator: str = "",
    ) -> Iterator[EncodedPart]:
        chunks = inputs.checked_chunks(chunks)
        n_threads = checked_threads(n_threads)
        sampled = drops is not None
        key = kind, separator, sampled
        if key not in self._batches:
            rendering = Rendering(kind, self._tables, separator=separator)
            self._batches[key] = BatchEncoder(
                self._tables, rendering, sampled=sampled, limit=self._cache_words
            )
        return self._batches[key].encode(chunks, dropout=drops, n_threads=n_threads)


def _finds_user_tokens(allowed: Special | None, disallowed: Special) -> bool:
    """Check for the default, in which a call finds all user tokens and refuses no token."""
    return allowed is None and isinstance(disallowed, tuple) and not disallowed
