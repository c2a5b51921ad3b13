"""Segmentations of a SentencePiece model, drawn with the stream's own random numbers.

Since version 0.2.2 the library draws differently in every process, whatever the seed, so a stream that sampled with it
would not repeat. The draws of this module have the library's distribution:

    BPE               joins, best score first, each passed over once with probability alpha (Provilkov et al. 2020)
    unigram, all      P(path) ∝ exp(alpha · Σ score), drawn from the lattice (Kudo 2018)
    unigram, n best   P(path) ∝ exp(alpha · Σ score) among the n best paths, which the library finds

The library normalises the text. `PieceFormat` writes pieces as ids, or as text with spaces between them.

>>> pieces = PieceFormat.of([Piece("<unk>", 0, 2), Piece("a", 0, 1)], 0, byte_fallback=False)
>>> pieces.column(np.array([1, -1 - ord("é"), 1], np.int32), np.array([2, 3]), "pieces").strings()
['a é', 'a']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.errors import ConfigError, VocabularyError
from volt.stream.transforms.column import Column
from volt.stream.transforms.segmenters import check_size, codes_of, symbols_of, trie_of

if TYPE_CHECKING:
    from volt.kernels.lattice import JoinTable


Form = Literal["pieces", "ids"]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
NORMAL, USER, UNUSED, BYTE = 1, 4, 5, 6  # kinds of pieces


class Piece(NamedTuple):
    """A row of a model."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True, slots=True, eq=False)
class PieceFormat:
    """The output form of pieces.

    text: of all pieces, each followed by a space
    starts: (n_pieces + 1,) where each piece's text starts
    unknown: the id of the unknown piece
    bytes: the id of each byte's piece; empty without byte fallback
    """

    text: NDArray[np.uint8]
    starts: Longs
    unknown: int
    bytes: list[int]

    @classmethod
    def of(cls, pieces: Sequence[Piece], unknown: int, *, byte_fallback: bool) -> PieceFormat:
        """Return the spelling of a model's pieces."""
        texts = [f"{piece.text} ".encode() for piece in pieces]
        starts = np.concatenate([[0], np.cumsum(list(map(len, texts)))]).astype(np.int64)
        ids = {piece.text: number for number, piece in enumerate(pieces) if piece.kind == BYTE}
        result = [ids[f"<0x{byte:02X}>"] for byte in range(256 * byte_fallback)]
        return cls(np.frombuffer(b"".join(texts), np.uint8), starts, unknown, result)

    def column(self, numbers: Ints, ends: Longs, form: Form) -> Column:
        """Lines of ids, of which −1 − code is an unknown character. A run of these is one piece, or its bytes.

        ends: (n_lines,) where each line's numbers end

        >>> pieces = PieceFormat.of([Piece("<unk>", 0, 2), Piece("a", 0, 1)], 0, byte_fallback=False)
        >>> numbers = np.array([1, -1 - ord("é"), -1 - ord("ü")], np.int32)
        >>> [pieces.column(numbers, np.array([3, 3]), form).strings() for form in ("pieces", "ids")]
        [['a éü', ''], ['1 0', '']]
        """
        from volt.encode.batch_encoder import expanded

        n = len(self.starts) - 1
        ids = np.arange(n + 1), np.arange(n, dtype=np.int32)
        starts, values = (self.starts, self.text) if form == "pieces" else ids
        if (numbers < 0).any():
            numbers, keys = _unknown_apart(numbers, ends, n, glues=not self.bytes)
            rows = [self._unknown(key >> 1, bool(key & 1), form) for key in keys.tolist()]
            starts = np.concatenate([starts, starts[-1] + np.cumsum(list(map(len, rows)))])
            values = np.concatenate([values, *rows])
        part = expanded(numbers, ends, starts, values)
        offsets = np.concatenate([[0], part.ends])
        if form == "ids":
            return Column.of_ids(part.values, offsets)
        return Column(part.values, offsets[:-1], np.diff(offsets) - 1)

    def _unknown(self, code: int, goes_on: bool, form: Form) -> NDArray[Any]:
        """Return the output for an unknown character. goes_on: whether another follows, so that both are one piece."""
        if form == "ids":
            ids = [self.bytes[byte] for byte in chr(code).encode()] if self.bytes else [self.unknown] * (not goes_on)
            return np.array(ids, np.int32)
        text = "".join(f"<0x{byte:02X}> " for byte in chr(code).encode()) if self.bytes else chr(code)
        return np.frombuffer((text + " " * (not self.bytes and not goes_on)).encode(), np.uint8)


def _unknown_apart(numbers: Ints, ends: Longs, n: int, *, glues: bool) -> tuple[Ints, Longs]:
    """Numbers with rows from n on for unknown characters, and what these rows are: 2 · code, + 1 if another follows."""
    places = np.flatnonzero(numbers < 0)
    followed = np.zeros(len(numbers) + 1, bool)
    followed[places] = glues
    followed[ends[ends < len(numbers)]] = False
    keys, rows = np.unique(2 * (-1 - numbers[places].astype(np.int64)) + followed[places + 1], return_inverse=True)
    numbers = numbers.copy()
    numbers[places] = n + rows
    return numbers, keys


Words = NDArray[np.uint64]
UNIGRAM, BPE = 1, 2
_FIRST_STAND_IN, _MOST_USER = 0xD800, 0x800  # lone surrogates, which no text holds
_UNKNOWN_PENALTY = 10.0  # the library's kUnkPenalty
_USER_MALUS = 0.1  # what it takes off a user-defined symbol


class Drawing(NamedTuple):
    """The options of `spm_encode`: how to draw, and what to write."""

    alpha: float
    nbest: int
    form: Form


def sampler_of(processor: Any, proto: Any) -> Sampler:
    """Return the sampler of this model: (values, 64 random bits for each, how) → a column.

    processor: the library's;  proto: the model as protobuf reads it
    Raises ConfigError if the model has one segmentation only.
    """
    pieces = [Piece(piece.piece, piece.score, piece.type) for piece in proto.pieces]
    spelling = PieceFormat.of(pieces, processor.unk_id(), byte_fallback=proto.trainer_spec.byte_fallback)
    if proto.trainer_spec.model_type == BPE:
        return BpeSampler.of(processor, pieces, spelling)
    if proto.trainer_spec.model_type != UNIGRAM:
        raise ConfigError("alpha: a model of words or characters has one encoding of a text; leave alpha out")
    return UnigramSampler.of(processor, pieces, spelling)


@dataclass(frozen=True, slots=True, eq=False)
class BpeSampler:
    """Draws with a BPE model: of joins that are passed over.

    symbol_of: code point → symbol: a piece, a character of pieces that is not a piece, or −1 − code
    codes: of the characters of pieces that are not pieces themselves; their symbols follow the pieces'
    joins: see volt.kernels.lattice
    user: finds the user-defined symbols of several characters, which have stand-ins
    """

    processor: Any
    spelling: PieceFormat
    symbol_of: Ints
    codes: Ints
    joins: JoinTable
    user: re.Pattern[str] | None
    stand_ins: dict[str, str]

    @classmethod
    def of(cls, processor: Any, pieces: Sequence[Piece], spelling: PieceFormat) -> BpeSampler:
        """Return the sampler of a model."""
        ids = {piece.text: number for number, piece in enumerate(pieces) if piece.kind in (NORMAL, UNUSED)}
        user = {piece.text: number for number, piece in enumerate(pieces) if piece.kind == USER}
        extra = sorted(set(chain.from_iterable(ids)) - ids.keys() - user.keys())
        symbols = ids | {character: len(pieces) + place for place, character in enumerate(extra)}
        long = sorted((text for text in user if len(text) > 1), key=len, reverse=True)
        if len(long) > _MOST_USER:
            raise VocabularyError(f"{len(long)} user-defined symbols; sampling takes {_MOST_USER:,} at most")
        stand_ins = {text: chr(_FIRST_STAND_IN + place) for place, text in enumerate(long)}
        single = {stand_ins.get(text, text): number for text, number in (symbols | user).items()}
        pattern = re.compile("|".join(map(re.escape, long))) if long else None
        codes = np.fromiter(map(ord, extra), np.int32, len(extra))
        joins = _joins(pieces, ids, symbols)
        return cls(processor, spelling, symbols_of(single), codes, joins, pattern, stand_ins)

    def __call__(self, values: Sequence[str], words: Words, how: Drawing) -> Column:
        """Return a column of encodings. words: (n,) 64 random bits for each value"""
        from volt.kernels.apply_bpe import longest, room_of
        from volt.kernels.lattice import join_lines

        texts = self.processor.normalize(list(values))
        if self.user:
            texts = [self.user.sub(lambda result: self.stand_ins[result[0]], text) for text in texts]
        codes, ends = codes_of(texts)
        out, out_ends, parts = np.empty(len(codes), np.int32), np.empty_like(ends), np.full(len(self.joins.kept), -1)
        states = words.view(np.int64).copy()
        room = room_of(longest(ends))
        n = join_lines(self.symbol_of[codes], ends, self.joins, parts, how.alpha, states, room, out, out_ends)
        return self.spelling.column(self._unknown(out[:n]), out_ends, how.form)

    def _unknown(self, numbers: Ints) -> Ints:
        """Return the same, with −1 − code for characters that only occur inside pieces."""
        n = len(self.spelling.starts) - 1
        extra = numbers >= n
        numbers[extra] = -1 - self.codes[numbers[extra] - n]
        return numbers


def _joins(pieces: Sequence[Piece], ids: dict[str, int], symbols: dict[str, int]) -> JoinTable:
    """Return all pairs of symbols that spell a piece. ids: of the pieces that joins make"""
    from volt.kernels.bpe_tables import ranked_merges
    from volt.kernels.lattice import JoinTable

    orders = {score: order for order, score in enumerate(sorted({-pieces[i].score for i in ids.values()}))}
    rows = [
        (symbols[text[:cut]], symbols[text[cut:]], number, orders[-pieces[number].score])
        for text, number in ids.items()
        for cut in range(1, len(text))
        if text[:cut] in symbols and text[cut:] in symbols
    ]
    check_size(len(rows))
    lefts, rights, results, ranks = np.array(rows, np.int32).reshape(-1, 4).T
    retained = np.ones(max([len(pieces), *(symbol + 1 for symbol in symbols.values())]), np.uint8)
    retained[[number for number, piece in enumerate(pieces) if piece.kind == UNUSED]] = 0
    merges = ranked_merges(lefts, rights, results)
    return JoinTable(merges.pairs, merges.results, np.ascontiguousarray(ranks), retained)


@dataclass(frozen=True, slots=True, eq=False)
class UnigramSampler:
    """Draws with a unigram model: of all paths through the lattice.

    symbol_of: code point → symbol of the trie, or −1 − code
    steps, ends: of the trie: see volt.kernels.lattice
    scores: (n_pieces,) float64;  unknown: the score of an unknown character
    depth: the characters of the longest piece
    """

    processor: Any
    spelling: PieceFormat
    symbol_of: Ints
    steps: NDArray[np.uint64]
    pieces: Ints
    scores: NDArray[np.float64]
    unknown: float
    depth: int
    best: BestSampler

    @classmethod
    def of(cls, processor: Any, pieces: Sequence[Piece], spelling: PieceFormat) -> UnigramSampler:
        """Return the sampler of a model."""
        scores = _path_scores(pieces)
        spelled = {
            piece.text: number for number, piece in enumerate(pieces) if piece.text in scores and piece.kind != BYTE
        }
        trie = trie_of(spelled)
        values = np.array([scores.get(piece.text, 0.0) for piece in pieces])
        depth = max(map(len, spelled), default=1)
        output = *trie, values, unknown_score(pieces), depth
        return cls(processor, spelling, *output, BestSampler.of(processor, pieces, spelling))

    def __call__(self, values: Sequence[str], words: Words, how: Drawing) -> Column:
        """Return a column of encodings. words: (n,) 64 random bits for each value"""
        if how.nbest > 1:
            return self.best(values, words, how)
        from volt.kernels.apply_bpe import longest
        from volt.kernels.lattice import Lattice, Trie, draw_paths

        codes, ends = codes_of(self.processor.normalize(list(values)))
        n, n_nodes = longest(ends), longest(ends) * (self.depth + 1)
        trie = Trie(self.steps, self.pieces, how.alpha * self.scores, how.alpha * self.unknown)
        nodes = np.empty((3, n_nodes), np.int32)
        lattice = Lattice(np.empty(n + 1), np.empty(n + 1, np.int32), nodes[0], nodes[1], nodes[2])
        out, out_ends, states = np.empty(len(codes), np.int32), np.empty_like(ends), words.view(np.int64).copy()
        n_out = draw_paths(self.symbol_of[codes], codes, ends, trie, states, lattice, out, out_ends)
        return self.spelling.column(out[:n_out], out_ends, how.form)


@dataclass(frozen=True, slots=True, eq=False)
class BestSampler:
    """Draws with a unigram model: of the n best paths, which the library finds.

    scores: of each piece, by its text;  unknown: the score of an unknown character
    """

    processor: Any
    scores: dict[str, float]
    unknown: float
    spelling: PieceFormat
    ids: dict[str, int]

    @classmethod
    def of(cls, processor: Any, pieces: Sequence[Piece], spelling: PieceFormat) -> BestSampler:
        """Return the sampler of a model."""
        scores = _path_scores(pieces)
        ids = {piece.text: number for number, piece in enumerate(pieces) if piece.text in scores}
        return cls(processor, scores, unknown_score(pieces), spelling, ids)

    def __call__(self, values: Sequence[str], words: Words, how: Drawing) -> Column:
        """Return a column of encodings. words: (n,) 64 random bits for each value"""
        drawn = np.ldexp((words >> np.uint64(11)).astype(np.float64), -53)
        rows = [self._drawn(value, share, how) for value, share in zip(values, drawn.tolist(), strict=True)]
        if how.form == "pieces":
            return Column.of([" ".join(row) for row in rows])
        ids = np.fromiter((self.ids.get(piece, self.spelling.unknown) for piece in chain(*rows)), np.int32)
        return Column.of_ids(ids, np.concatenate([[0], np.cumsum(list(map(len, rows)))]).astype(np.int64))

    def _drawn(self, value: str, share: float, how: Drawing) -> list[str]:
        result, logarithms = self.paths(value, how.nbest)
        scores = how.alpha * np.array(logarithms)
        sums = np.cumsum(np.exp(scores - scores.max()))
        return result[min(int(np.searchsorted(sums, share * sums[-1], side="right")), len(result) - 1)]

    def paths(self, value: str, nbest: int) -> tuple[list[list[str]], list[float]]:
        """Return the best encodings of a value, and the logarithms of their probabilities."""
        result: list[list[str]] = self.processor.nbest_encode(value, nbest_size=nbest, out_type=str)
        return result, [self._score(row) for row in result]

    def _score(self, row: Iterable[str]) -> float:
        known = self.scores
        return sum(known[piece] if piece in known else self.unknown * len(piece) for piece in row)


def _path_scores(pieces: Sequence[Piece]) -> dict[str, float]:
    """Return what each piece adds to a path's score, by the library's rules. The first byte of a character counts for
    all."""
    best = max([0.0, *(piece.score for piece in pieces if piece.kind == NORMAL)])  # the library starts from 0
    unknown, scores = unknown_score(pieces), dict[str, float]()
    for piece in pieces:
        if piece.kind == NORMAL:
            scores[piece.text] = piece.score
        elif piece.kind == USER:
            scores[piece.text] = len(piece.text) * best - _USER_MALUS
        elif piece.kind == BYTE:
            scores[piece.text] = 0.0 if 0x80 <= int(piece.text[3:5], 16) < 0xC0 else unknown
    return scores


def unknown_score(pieces: Sequence[Piece]) -> float:
    """Return what an unknown character adds to a path's score.

    >>> unknown_score([Piece("a", -3.0, 1), Piece("<unk>", 0.0, 2)])
    -13.0
    """
    return min((piece.score for piece in pieces if piece.kind == NORMAL), default=0.0) - _UNKNOWN_PENALTY


Sampler = BpeSampler | UnigramSampler
