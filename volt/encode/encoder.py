"""`Encoder`: text ⇄ pieces and ids, by the merges of a vocabulary.

    "low t"  --split-->  words "low", "t"  --merge-->  pieces "lo", "w</w>", "t</w>"  -->  ids

A word starts as atoms, its characters or bytes. The applicable merge with the lowest rank is
applied, from left to right, until no merge applies (`Vocabulary.merging` may set another order). A
piece outside the vocabulary is then split back into the two parts of the first merge that makes it.
An unknown character becomes its byte tokens, if the vocabulary has these; otherwise it is a piece
of its own, with the id of `<unk>`.

A `BatchEncoder` encodes in compiled code: one line, or chunks of many lines in threads. Python splits
a line and merges its words to return pieces that have no ids of their own, or with dropout.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np

from volt import arguments
from volt.arguments import MAX_LINE
from volt.array_types import Ints, Longs
from volt.encode import inputs
from volt.encode.arrays import EncodedPart
from volt.encode.batch_encoder import BatchEncoder, Encoded
from volt.encode.chunks import (
    CHUNK_SIZE,
    NEWLINE,
    Chunk,
    check_threads,
    chunks_of,
    file_chunks,
    join_lines,
    split_for_threads,
)
from volt.encode.decoding import VocabularyDecoder
from volt.encode.frames import Frame, PaddedIds, Side, role_id
from volt.encode.inputs import HasVocabulary, Numbers
from volt.encode.offsets import SpanFinder, Spans
from volt.encode.pretokens import split_lines
from volt.encode.rendering import Kind, Rendering, check_separator
from volt.encode.score_tables import tables_of
from volt.encode.segmentation_sampling import ALL_PATHS, SegmentationSampling
from volt.encode.special_in_text import (
    Special,
    choose_found_tokens,
    finds_only_users,
    make_tokens_findable,
)
from volt.encode.superwords import SuperwordEncoder, SuperwordTables
from volt.errors import ConfigError
from volt.files.blocks import Errors
from volt.files.paths import size_of
from volt.files.ranges import open_divisible
from volt.files.table_rows import TextColumns
from volt.text.normalizer import check_text
from volt.text.special_tokens import with_marks
from volt.vocabulary import Vocabulary

CACHE_WORDS = 2_900_000  # that each thread caches at most; a table of 2^23 slots has room for them
Form = Literal["pieces", "ids"]


class Encoder(VocabularyDecoder):
    """Applies one vocabulary. Safe to share between threads and to pickle.

    vocabulary: a vocabulary, its path, or an object that has one, such as the result of a search
    cache_words: the maximum number of words that each thread caches; a word takes about 200 bytes

    Raises VocabularyError for a file that is not a vocabulary.

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
        self.vocabulary = inputs.load_vocabulary(vocabulary)
        self._tables = tables_of(self.vocabulary)
        # the special tokens that are found in text → the encoder that finds them
        self._variants: dict[frozenset[str], Encoder] = {}
        # (kind of output, separator, whether there is dropout) → its batch encoder
        self._batch_encoders: dict[tuple[str, str, bool], BatchEncoder] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Encoder, cache_words=self._cache_words), (self.vocabulary,)

    def __repr__(self) -> str:
        return f"<Encoder of {self.vocabulary!r}>"

    def encode(
        self,
        line: str,
        *,
        dropout: float = 0.0,
        alpha: float | None = None,
        nbest: int = ALL_PATHS,
        seed: int | None = None,
    ) -> list[str]:
        """Return the pieces of one line.

        line: text
        dropout: the probability of skipping a merge; above 0 it needs a seed
        alpha: draws from the paths of a unigram model, with a probability in proportion to exp(alpha
            · score); it needs a seed
        nbest: with alpha, how many best paths are drawn from; -1 for all
        seed: a whole number, 0 or more

        Raises CorpusError if the line contains a lone surrogate.

        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode("low low"), encoder.encode("low", dropout=1.0, seed=1)
        (['lo', 'w</w>', 'lo', 'w</w>'], ['l', 'o', 'w</w>'])
        """
        line = inputs.check_line(line, "encode")
        sampling = self._sampling(dropout, seed, alpha, nbest)
        if sampling is None and self._line_encoder.ids_tell_pieces:
            ids = self._line_encoder.encode_line(line).tolist()
            if self.vocabulary.unk_id not in ids:
                return list(map(self.vocabulary.pieces.__getitem__, ids))
            symbols = self._line_encoder.symbols_of_line(line)
            if symbols is not None:
                [pieces_of_line] = self._tables.spell_words(symbols, np.array([len(symbols)]))
                return list(pieces_of_line)
        [pieces] = self._tables.pieces_of_lines(split_lines(self.vocabulary, [line]), sampling)
        return pieces

    def encode_ids(
        self,
        line: str,
        *,
        dropout: float = 0.0,
        alpha: float | None = None,
        nbest: int = ALL_PATHS,
        seed: int | None = None,
        add_bos: bool = False,
        add_eos: bool = False,
        allowed_special: Special | None = None,
        disallowed_special: Special = (),
    ) -> Ints:
        """Return the ids of one line, (n_ids,) int32.

        line, dropout, alpha, nbest, seed: see `encode`
        add_bos, add_eos: whether to put the id of bos before the line, and the id of eos after it
        allowed_special: the special tokens that become their own id where the text contains them:
            "all", or a set, () for none; by default user tokens. Other special tokens are encoded
            as text.
        disallowed_special: the special tokens that raise CorpusError if the text contains them: a
            set, or "all" for all tokens that are not in `allowed_special`

        Raises ConfigError if the vocabulary lacks bos or eos, or for a token that is not special.

        >>> tokens = ("l", "o", "lo")
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=tokens, marker="none"))
        >>> encoder.encode_ids("lo</s>", add_bos=True, allowed_special="all")
        array([1, 6, 2], dtype=int32)
        """
        line = inputs.check_line(line, "encode_ids")
        is_framed = add_bos is not False or add_eos is not False
        is_plain = finds_only_users(allowed_special, disallowed_special) and not is_framed
        if is_plain and self._sampling(dropout, seed, alpha, nbest) is None:
            return self._line_encoder.encode_line(line)
        return self.encode_batch(
            [line],
            dropout=dropout,
            alpha=alpha,
            nbest=nbest,
            seed=seed,
            n_threads=1,
            add_bos=add_bos,
            add_eos=add_eos,
            allowed_special=allowed_special,
            disallowed_special=disallowed_special,
        ).ids

    def count(self, line: str) -> int:
        """Return the number of ids of one line. For many lines, use `encode_batch(lines).counts`.

        line: text
        """
        return len(self._line_encoder.encode_line(inputs.check_line(line, "count")))

    def encode_lines(
        self,
        lines: Iterable[str],
        *,
        dropout: float = 0.0,
        alpha: float | None = None,
        nbest: int = ALL_PATHS,
        seed: int | None = None,
        first: int = 0,
    ) -> list[list[str]]:
        """Return the pieces of each line. Line i draws its dropout from (seed, first + i).

        lines: texts
        dropout, alpha, nbest, seed: see `encode`
        first: the number of the first line
        """
        one = "did you mean encode(line) or encode_lines([line])?"
        lines = arguments.texts(lines, "lines", one=one)
        sampling = self._sampling(dropout, seed, alpha, nbest)
        first = inputs.check_first_line(first)
        return self._tables.pieces_of_lines(split_lines(self.vocabulary, lines), sampling, first)

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
        alpha: float | None = None,
        nbest: int = ALL_PATHS,
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
        dropout, alpha, nbest, seed: see `encode`
        n_threads: the number of threads, by default one per core; a long line is divided among them
        add_bos, add_eos, allowed_special, disallowed_special: see `encode_ids`
        truncate: the maximum number of ids of a line, bos and eos included; ids at the end of the
            line's text are removed
        """
        frame = Frame.of_roles(self.vocabulary, bos=add_bos, eos=add_eos)
        text, separator = join_lines(inputs.check_lines(lines))
        encoder = self
        if not finds_only_users(allowed_special, disallowed_special):
            encoder = self._choose_variant(allowed_special, disallowed_special, text, separator)
        sampling = self._sampling(dropout, seed, alpha, nbest)
        encoded = encoder._encode_text_to_ids(text, separator, None, sampling, n_threads=n_threads)
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

        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> padded = encoder.pad(encoder.encode_batch(["low", "lolo low"], truncate=3), pad_to=4)
        >>> padded.ids, padded.mask[0]
        (array([[6, 7, 3, 3],
               [6, 4, 0, 3]], dtype=int32), array([ True,  True, False, False]))
        """
        encoded = inputs.flatten_ids(encoded)
        ids, offsets = self._decoder.check_ids(encoded.ids, encoded.offsets)
        pad = role_id(self.vocabulary, "pad")
        return PaddedIds.of(ids, offsets[1:], pad=pad, pad_to=pad_to, side=side)

    def encode_bytes(
        self,
        text: bytes,
        *,
        dropout: float = 0.0,
        alpha: float | None = None,
        nbest: int = ALL_PATHS,
        seed: int | None = None,
        numbers: Numbers | None = None,
        n_threads: int | None = None,
    ) -> Encoded:
        r"""Return the ids of the lines of UTF-8 text. Lines end at "\n".

        text: bytes; an invalid line raises CorpusError with its number
        dropout, alpha, nbest, seed, n_threads: see `encode_batch`
        numbers: (n_lines,) int64. Line i draws its dropout from (seed, numbers[i]); by default from
            (seed, i)
        """
        text = inputs.check_utf8(text, "encode_bytes")
        numbers = inputs.check_line_numbers(numbers, text)
        return self._encode_text_to_ids(
            text, NEWLINE, numbers, self._sampling(dropout, seed, alpha, nbest), n_threads=n_threads
        )

    def encode_file(
        self,
        path: str | os.PathLike[str],
        *,
        dropout: float = 0.0,
        alpha: float | None = None,
        nbest: int = ALL_PATHS,
        seed: int | None = None,
        errors: Errors = "strict",
        n_threads: int | None = None,
        max_line: int | None = MAX_LINE,
        fields: str | int | Iterable[int] | None = None,
        column: str | None = None,
    ) -> Encoded:
        r"""Return the ids of the lines of a file, plain or compressed. Lines end at "\n" or "\r\n".

        path: a file, or "-" for stdin
        dropout, alpha, nbest, seed, n_threads: see `encode_batch`
        errors: how to treat a line that is not UTF-8: "strict", "replace" or "skip"
        max_line: the maximum number of bytes in a line; None for no limit
        fields, column: the columns of a table, see `volt.count_words`; each text is then a line

        Raises CorpusError, with file and line, if the file is unreadable or its text is invalid.
        """
        path = arguments.path(path)
        arguments.choice(errors, "errors", get_args(Errors))
        n_bytes = size_of(path) or 0
        columns = TextColumns(column, fields)
        size = CHUNK_SIZE
        if not columns and open_divisible(path) is not None:
            size, n_threads = split_for_threads(n_bytes, n_threads)
        sampling = self._sampling(dropout, seed, alpha, nbest)
        reading: dict[str, Any] = {"errors": errors, "max_line": max_line, "columns": columns}
        chunks = file_chunks(path, numbered=sampling is not None, size=size, **reading)
        parts = self._encode_chunks("ids", chunks, sampling, n_threads=n_threads)
        return Encoded.of(parts, n_bytes=n_bytes)

    def encode_text(
        self,
        text: bytes,
        *,
        form: Form = "pieces",
        separator: str = "",
        dropout: float = 0.0,
        alpha: float | None = None,
        nbest: int = ALL_PATHS,
        seed: int | None = None,
        first: int = 0,
        numbers: Numbers | None = None,
        n_threads: int | None = None,
    ) -> bytes:
        """Encode lines of UTF-8 text as lines of pieces or ids, separated by spaces.

        text: bytes
        form: "pieces" or "ids"
        separator: a mark such as "@@" after each piece that does not end a word
        dropout, alpha, nbest, seed, n_threads: see `encode_batch`
        first: the number of the first line
        numbers: see `encode_bytes`; overrides `first`
        """
        text = inputs.check_utf8(text, "encode_text")
        size, n_threads = split_for_threads(len(text), n_threads)
        chunks = chunks_of(
            text,
            first=inputs.check_first_line(first),
            numbers=inputs.check_line_numbers(numbers, text),
            numbered=self._sampling(dropout, seed, alpha, nbest) is not None,
            size=size,
        )
        parts = self.text_parts(
            chunks,
            form=form,
            separator=separator,
            dropout=dropout,
            alpha=alpha,
            nbest=nbest,
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
        alpha: float | None = None,
        nbest: int = ALL_PATHS,
        seed: int | None = None,
        n_threads: int | None = None,
    ) -> Iterator[EncodedPart]:
        """Yield the lines of chunks as `encode_text` encodes them, in order.

        chunks: see volt.encode.chunks
        form, separator, dropout, alpha, nbest, seed, n_threads: see `encode_text`
        """
        separator = check_separator(separator)
        arguments.text(form, "form")
        if form not in get_args(Form) or (separator and form != "pieces"):
            raise ConfigError(
                f"form {form!r}, separator {separator!r}: choose pieces, or ids without a separator"
            )
        kind: Kind = "pieces" if form == "pieces" else "id text"
        sampling = self._sampling(dropout, seed, alpha, nbest)
        return self._encode_chunks(kind, chunks, sampling, n_threads=n_threads, separator=separator)

    def encode_parts(
        self,
        chunks: Iterable[Chunk],
        *,
        dropout: float = 0.0,
        alpha: float | None = None,
        nbest: int = ALL_PATHS,
        seed: int | None = None,
        n_threads: int | None = None,
    ) -> Iterator[EncodedPart]:
        """Yield the ids of chunks, in order.

        chunks: see volt.encode.chunks
        dropout, alpha, nbest, seed, n_threads: see `encode_batch`
        """
        return self._encode_chunks(
            "ids", chunks, self._sampling(dropout, seed, alpha, nbest), n_threads=n_threads
        )

    def encode_stretches(
        self, chunks: Iterable[Chunk], *, n_threads: int | None = None
    ) -> Iterator[tuple[Ints, Longs]]:
        """Yield the tokens of chunks with the ends of pre-tokens, in order.

        chunks: see volt.encode.chunks
        n_threads: see `encode_batch`
        Each chunk gives two arrays: (n_pieces,) int32, indices of `vocabulary.tokens`, -1 for a
        character that is not a token; and (n_pretokens,) int64, where the pieces of each pre-token
        end.

        Raises ConfigError if pre-tokens cannot contain spaces.
        """
        encoder = self._choose_batch_encoder("symbols")
        tokens = self.vocabulary.numbering.tokens
        index_of = np.full(len(self._tables.tokens) + 1, -1, np.int32)
        index_of[tokens] = np.arange(len(tokens), dtype=np.int32)
        chunks = inputs.check_chunks(chunks)
        for part in encoder.encode(chunks, n_threads=check_threads(n_threads)):
            symbols = np.maximum(part.values, -1)
            yield (
                index_of[symbols.astype(np.int64)],
                part.ends,
            )  # indices of int32 take twice as long

    def encode_offsets(self, line: str) -> list[tuple[str, int, int]]:
        """Return each piece of a line with its start and end in the line, in characters.

        line: text; a marker, which it does not contain, has no width

        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode_offsets(" low")
        [('lo', 1, 3), ('w</w>', 3, 4)]
        """
        line = inputs.check_line(line, "encode_offsets")
        return self._span_finder.add_offsets(self.encode(line), line)

    def encode_spans(self, lines: Iterable[str], *, n_threads: int | None = None) -> Spans:
        """Return the ids of many lines, each with its span in its line and the number of its word.

        lines, n_threads: see `encode_batch`

        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> spans = encoder.encode_spans([" low", "w low"])
        >>> spans.starts.tolist(), spans.ends.tolist(), spans.words.tolist(), spans.offsets.tolist()
        ([1, 3, 0, 2, 4], [3, 4, 1, 4, 5], [0, 0, 0, 1, 1], [0, 2, 5])
        """
        lines = arguments.texts(lines, "lines", one="did you mean encode_spans([line])?")
        return self._span_finder.find(lines, n_threads=n_threads).without_unknown()

    def ids(self, pieces: Iterable[str]) -> Ints:
        """Return the ids of pieces, (n_pieces,) int32.

        pieces: strings. Unknown pieces get the id of `unk`; without `unk`, they are left out.
        """
        id_of = self.vocabulary.ids
        unk = self.vocabulary.unk_id
        ids = [id_of.get(piece, unk) for piece in inputs.check_pieces(pieces, "ids")]
        return np.array([number for number in ids if number is not None], np.int32)

    @property
    def unknown_characters(self) -> list[str]:
        """The unknown characters of all batches, texts and files so far, sorted.

        >>> encoder = Encoder(Vocabulary(merges=(), tokens=("l", "o"), marker="none"))
        >>> _ = encoder.encode_batch(["lol", "olé"])
        >>> encoder.unknown_characters
        ['é']
        """
        renderings = (one.rendering for one in self._batch_encoders.values())
        return sorted(set(chain.from_iterable(one.unknown() for one in renderings)))

    @cached_property
    def _line_encoder(self) -> BatchEncoder:
        return self._choose_batch_encoder("ids")

    @cached_property
    def _superwords(self) -> SuperwordTables | None:
        return SuperwordTables.of(self._tables)

    @cached_property
    def _span_finder(self) -> SpanFinder:
        return SpanFinder(self.vocabulary, self._choose_batch_encoder("marked ids"))

    def _sampling(
        self, dropout: float, seed: int | None, alpha: float | None, nbest: int
    ) -> SegmentationSampling | None:
        return SegmentationSampling.of(
            dropout, seed, alpha, nbest, is_unigram=self.vocabulary.is_unigram
        )

    def _choose_variant(
        self, allowed: Special | None, disallowed: Special, text: bytes, separator: int
    ) -> Encoder:
        """Return the encoder that finds exactly the allowed special tokens in text.

        Raises CorpusError if the text contains a disallowed token.
        """
        tokens = choose_found_tokens(self.vocabulary, allowed, disallowed, text, separator)
        if tokens == frozenset(self.vocabulary.special.user):
            return self
        if tokens not in self._variants:
            vocabulary = make_tokens_findable(self.vocabulary, tokens)
            self._variants[tokens] = Encoder(vocabulary, cache_words=self._cache_words)
        return self._variants[tokens]

    def _encode_text_to_ids(
        self,
        text: bytes,
        separator: int,
        numbers: Numbers | None,
        sampling: SegmentationSampling | None,
        *,
        n_threads: int | None,
    ) -> Encoded:
        """Return the ids of the lines of a text. separator: the byte after each line"""
        size, n_threads = split_for_threads(len(text), n_threads)
        chunks = chunks_of(
            text,
            separator=separator,
            numbers=numbers,
            numbered=sampling is not None,
            size=size,
            find_cut=None if sampling or n_threads == 1 else self._line_encoder.find_cut,
        )
        parts = self._encode_chunks("ids", chunks, sampling, n_threads=n_threads)
        return Encoded.of(parts, n_bytes=len(text))

    def _encode_chunks(
        self,
        kind: Kind,
        chunks: Iterable[Chunk],
        sampling: SegmentationSampling | None,
        *,
        n_threads: int | None,
        separator: str = "",
    ) -> Iterator[EncodedPart]:
        chunks = inputs.check_chunks(chunks)
        n_threads = check_threads(n_threads)
        encoder = self._choose_batch_encoder(
            kind, separator, is_sampled=bool(sampling and sampling.dropout)
        )
        return encoder.encode(chunks, sampling=sampling, n_threads=n_threads)

    def _choose_batch_encoder(
        self, kind: Kind, separator: str = "", *, is_sampled: bool = False
    ) -> BatchEncoder:
        key = kind, separator, is_sampled
        if key not in self._batch_encoders:
            rendering = Rendering(kind, self._tables, separator=separator)
            superwords = self._superwords
            if rendering.gives_symbols and superwords is None:
                raise ConfigError(
                    "pre-tokens of this vocabulary cannot contain spaces; give a vocabulary with "
                    "marker 'none' and a pre-tokenizer such as 'metaspace-line' or 'split:PATTERN'"
                )
            is_faster = rendering.gives_symbols or (superwords and superwords.is_faster)
            if superwords is not None and is_faster and not is_sampled:
                encoder: BatchEncoder = SuperwordEncoder(
                    superwords, rendering, limit=self._cache_words
                )
            else:
                encoder = BatchEncoder(
                    self._tables, rendering, sampled=is_sampled, limit=self._cache_words
                )
            self._batch_encoders[key] = encoder
        return self._batch_encoders[key]
