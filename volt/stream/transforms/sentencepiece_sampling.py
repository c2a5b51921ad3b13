"""Sample a SentencePiece model's segmentations as the library does, but with the stream's random numbers:

    BPE               best merge first; each merge is skipped with probability alpha (Provilkov et al. 2020)
    unigram, all      P(path) ∝ exp(alpha · Σ score), drawn from the lattice (Kudo 2018)
    unigram, n best   P(path) ∝ exp(alpha · Σ score) among the n best paths, which the library computes

Since version 0.2.2, the library ignores seeds: it draws differently in every process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.errors import ConfigError, VocabularyError
from volt.stream.transforms.column import Column, Ints, Longs, from_ends
from volt.stream.transforms.line_rng import as_uniform
from volt.stream.transforms.nbest_segmenters import PieceTrie, check_size, codes_of, symbols_of

if TYPE_CHECKING:
    from volt.kernels.lattice import JoinTable


Form = Literal["pieces", "ids"]
NORMAL, USER, UNUSED, BYTE = 1, 4, 5, 6  # kinds of pieces


class Piece(NamedTuple):
    text: str
    score: float
    kind: int


class PieceFormat:
    """Write pieces as text or ids.

    text: all pieces, each followed by a space
    starts: where each piece starts in `text`
    bytes: the id of each byte's piece; empty without byte fallback
    """

    def __init__(self, pieces: Sequence[Piece], unknown: int, *, byte_fallback: bool) -> None:
        texts = [f"{piece.text} ".encode() for piece in pieces]
        ids = {piece.text: number for number, piece in enumerate(pieces) if piece.kind == BYTE}
        self.text, self.unknown = np.frombuffer(b"".join(texts), np.uint8), unknown
        self.starts: Longs = np.cumsum([0, *map(len, texts)])
        self.bytes = [ids[f"<0x{byte:02X}>"] for byte in range(256 * byte_fallback)]

    def column(self, numbers: Ints, ends: Longs, form: Form) -> Column:
        """Return lines of pieces or ids. Numbers below 0 are unknown characters: bytes, or one piece if adjacent."""
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
        return from_ends(part.values, part.ends, gap=int(form == "pieces"))

    def _unknown(self, code: int, continues: bool, form: Form) -> NDArray[Any]:
        if form == "ids":
            ids = (
                [self.bytes[byte] for byte in chr(code).encode()]
                if self.bytes
                else [self.unknown] * (not continues)
            )
            return np.array(ids, np.int32)
        text = (
            "".join(f"<0x{byte:02X}> " for byte in chr(code).encode()) if self.bytes else chr(code)
        )
        return np.frombuffer((text + " " * (not self.bytes and not continues)).encode(), np.uint8)


def _unknown_apart(numbers: Ints, ends: Longs, n: int, *, glues: bool) -> tuple[Ints, Longs]:
    """Number unknown characters from n on. Return all numbers, and keys: 2 · code + (1 if an unknown one follows)."""
    places = np.flatnonzero(numbers < 0)
    followed = np.zeros(len(numbers) + 1, bool)
    followed[places] = glues
    followed[ends[ends < len(numbers)]] = False
    keys, rows = np.unique(
        2 * (-1 - numbers[places].astype(np.int64)) + followed[places + 1], return_inverse=True
    )
    numbers = numbers.copy()
    numbers[places] = n + rows
    return numbers, keys


Words = NDArray[np.uint64]
UNIGRAM, BPE = 1, 2
_FIRST_PLACEHOLDER, _MOST_USER = 0xD800, 0x800  # lone surrogates, which no text contains
_UNKNOWN_PENALTY = 10.0  # the library's kUnkPenalty
_USER_MALUS = 0.1  # which the library subtracts from a user-defined symbol's score


def column_of_rows(rows: Sequence[Sequence[Any]], form: Form) -> Column:
    if form == "pieces":
        return Column.of([" ".join(row) for row in rows])
    offsets = np.cumsum([0, *map(len, rows)])
    return Column.of_ids(
        np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets
    )


def sampler_of(processor: Any, proto: Any) -> Sampler:
    """Return the sampler of a model: a function (values, random bits, alpha, nbest, form) → column."""
    pieces = [Piece(piece.piece, piece.score, piece.type) for piece in proto.pieces]
    spelling = PieceFormat(
        pieces, processor.unk_id(), byte_fallback=proto.trainer_spec.byte_fallback
    )
    if proto.trainer_spec.model_type == BPE:
        return BpeSampler(processor, pieces, spelling)
    if proto.trainer_spec.model_type != UNIGRAM:
        raise ConfigError(
            "alpha: a model of words or characters has only one encoding of a text; remove alpha"
        )
    return UnigramSampler(processor, pieces, spelling)


class BpeSampler:
    """Sample with a BPE model, by skipping random merges.

    symbol_of: code point → symbol: a piece's number, a higher number (see `codes`), or `-1 - code` if unknown
    codes: the characters that occur only inside pieces, which have the numbers after the pieces'
    user: matches user-defined symbols of several characters, which placeholders replace
    """

    def __init__(self, processor: Any, pieces: Sequence[Piece], spelling: PieceFormat) -> None:
        ids = {
            piece.text: number
            for number, piece in enumerate(pieces)
            if piece.kind in (NORMAL, UNUSED)
        }
        user = {piece.text: number for number, piece in enumerate(pieces) if piece.kind == USER}
        extra = sorted(set(chain.from_iterable(ids)) - ids.keys() - user.keys())
        symbols = ids | {character: len(pieces) + place for place, character in enumerate(extra)}
        long = sorted((text for text in user if len(text) > 1), key=len, reverse=True)
        if len(long) > _MOST_USER:
            raise VocabularyError(
                f"{len(long)} user-defined symbols; sampling takes {_MOST_USER:,} at most"
            )
        self.processor, self.spelling, self.joins = (
            processor,
            spelling,
            _joins(pieces, ids, symbols),
        )
        self.placeholders = {
            text: chr(_FIRST_PLACEHOLDER + place) for place, text in enumerate(long)
        }
        single = {
            self.placeholders.get(text, text): number for text, number in (symbols | user).items()
        }
        self.symbol_of, self.codes = (
            symbols_of(single),
            np.fromiter(map(ord, extra), np.int32, len(extra)),
        )
        self.user = re.compile("|".join(map(re.escape, long))) if long else None

    def __call__(
        self, values: Sequence[str], words: Words, alpha: float, nbest: int, form: Form
    ) -> Column:
        from volt.kernels.apply_bpe import longest, room_of
        from volt.kernels.lattice import join_lines

        texts = self.processor.normalize(list(values))
        if self.user:
            texts = [
                self.user.sub(lambda match: self.placeholders[match[0]], text) for text in texts
            ]
        codes, ends = codes_of(texts)
        out, out_ends = np.empty(len(codes), np.int32), np.empty_like(ends)
        parts = np.full(len(self.joins.retained), -1)
        states, room = words.view(np.int64).copy(), room_of(longest(ends))
        n = join_lines(
            self.symbol_of[codes], ends, self.joins, parts, alpha, states, room, out, out_ends
        )
        numbers, n_pieces = out[:n], len(self.spelling.starts) - 1
        extra = numbers >= n_pieces  # characters that only occur inside pieces
        numbers[extra] = -1 - self.codes[numbers[extra] - n_pieces]
        return self.spelling.column(numbers, out_ends, form)


def _joins(pieces: Sequence[Piece], ids: dict[str, int], symbols: dict[str, int]) -> JoinTable:
    from volt.kernels.bpe_tables import ranked_merges
    from volt.kernels.lattice import JoinTable

    orders = {
        score: order for order, score in enumerate(sorted({-pieces[i].score for i in ids.values()}))
    }
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


class UnigramSampler:
    """Sample from all paths through a unigram model's lattice, or from the n best paths.

    ids: piece → its id
    scores: piece → its summand in the score of a path
    values: (n_pieces,) `scores` by id
    depth: the length of the longest piece
    """

    def __init__(self, processor: Any, pieces: Sequence[Piece], spelling: PieceFormat) -> None:
        self.processor, self.spelling = processor, spelling
        self.scores, self.unknown = _path_scores(pieces), unknown_score(pieces)
        self.values = np.array([self.scores.get(piece.text, 0.0) for piece in pieces])
        self.ids = {
            piece.text: number for number, piece in enumerate(pieces) if piece.text in self.scores
        }
        spelled = {text: number for text, number in self.ids.items() if pieces[number].kind != BYTE}
        self.trie, self.depth = PieceTrie(spelled), max(map(len, spelled), default=1)

    def __call__(
        self, values: Sequence[str], words: Words, alpha: float, nbest: int, form: Form
    ) -> Column:
        if nbest > 1:
            return self._of_best(values, words, alpha, nbest, form)
        from volt.kernels.apply_bpe import longest
        from volt.kernels.lattice import Lattice, Trie, draw_paths

        codes, ends = codes_of(self.processor.normalize(list(values)))
        n, n_nodes = longest(ends), longest(ends) * (self.depth + 1)
        trie = Trie(self.trie.steps, self.trie.pieces, alpha * self.values, alpha * self.unknown)
        lattice = Lattice(
            np.empty(n + 1), np.empty(n + 1, np.int32), *np.empty((3, n_nodes), np.int32)
        )
        out, out_ends, states = (
            np.empty(len(codes), np.int32),
            np.empty_like(ends),
            words.view(np.int64).copy(),
        )
        n_out = draw_paths(
            self.trie.symbol_of[codes], codes, ends, trie, states, lattice, out, out_ends
        )
        return self.spelling.column(out[:n_out], out_ends, form)

    def _of_best(
        self, values: Sequence[str], words: Words, alpha: float, nbest: int, form: Form
    ) -> Column:
        rows = list[list[str]]()
        for value, share in zip(values, as_uniform(words).tolist(), strict=True):
            paths, logarithms = self.paths(value, nbest)
            scores = alpha * np.array(logarithms)
            sums = np.exp(scores - scores.max()).cumsum()
            rows.append(
                paths[min(int(sums.searchsorted(share * sums[-1], side="right")), len(paths) - 1)]
            )
        if form == "pieces":
            return column_of_rows(rows, "pieces")
        return column_of_rows(
            [[self.ids.get(piece, self.spelling.unknown) for piece in row] for row in rows], "ids"
        )

    def paths(self, value: str, nbest: int) -> tuple[list[list[str]], list[float]]:
        known, unknown = self.scores, self.unknown
        paths: list[list[str]] = self.processor.nbest_encode(value, nbest_size=nbest, out_type=str)
        with suppress(KeyError):  # several times as fast as a test of each piece
            return paths, [sum(map(known.__getitem__, row)) for row in paths]
        return paths, [
            sum(known[piece] if piece in known else unknown * len(piece) for piece in row)
            for row in paths
        ]


def _path_scores(pieces: Sequence[Piece]) -> dict[str, float]:
    """Return piece → its summand in a path's score. Of a character's byte pieces, only the first has one."""
    best = max(
        [0.0, *(piece.score for piece in pieces if piece.kind == NORMAL)]
    )  # the library starts from 0
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
    return (
        min((piece.score for piece in pieces if piece.kind == NORMAL), default=0.0)
        - _UNKNOWN_PENALTY
    )


Sampler = BpeSampler | UnigramSampler
