"""Sample a SentencePiece model's segmentations by the stream's random numbers.

    BPE               best merge first; a merge is skipped with probability alpha (Provilkov 2020)
    unigram, all      P(path) ∝ exp(alpha · Σ score), drawn from the lattice (Kudo 2018)
    unigram, n best   P(path) ∝ exp(alpha · Σ score) among n paths, which the library computes

The distributions are the library's.

A sampler is a function (values, random bits of each value, alpha, nbest, form) → column. Its
compiled loop writes a number for each piece, or −1 − code point for an unknown character; then
`PieceFormat` writes these as text or ids. Since version 0.2.2, the library ignores seeds: it draws
differently in every process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.errors import ConfigError, VocabularyError
from volt.stream.transforms.column import Column, Ints, Longs, from_ends
from volt.stream.transforms.line_rng import Bits, as_uniform
from volt.stream.transforms.nbest_segmenters import check_size, codes_of, symbols_of, trie_of
from volt.stream.transforms.word_types import NO_OTHERS, Tokens, written

if TYPE_CHECKING:
    from volt.kernels.lattice import JoinTable


Form = Literal["pieces", "ids"]
NORMAL, USER, UNUSED, BYTE = 1, 4, 5, 6  # kinds of pieces
UNIGRAM, BPE = 1, 2  # kinds of models
_FIRST_PLACEHOLDER, _MOST_USER = 0xD800, 0x800  # lone surrogates, which no text contains
_UNKNOWN_PENALTY = 10.0  # the library's kUnkPenalty
_USER_MALUS = 0.1  # which the library subtracts from a user-defined symbol's score


class Piece(NamedTuple):
    text: str
    score: float
    kind: int


class PieceFormat:
    """Write pieces as text or ids.

    unknown: the id of unknown characters
    bytes: the id of each byte's piece; empty without byte fallback
    tables: form → where each piece starts in the values, and the values of all pieces: bytes (with
        spaces) or ids
    """

    def __init__(self, pieces: Sequence[Piece], unknown: int, *, byte_fallback: bool) -> None:
        texts = [f"{piece.text} ".encode() for piece in pieces]
        text = np.frombuffer(b"".join(texts), np.uint8)
        ids = np.arange(len(pieces), dtype=np.int32)
        self.tables: dict[Form, tuple[Longs, NDArray[Any]]] = {
            "pieces": (np.cumsum([0, *map(len, texts)]), text),
            "ids": (np.arange(len(pieces) + 1), ids),
        }
        self.n_pieces = len(pieces)
        self.unknown = unknown
        self.bytes = list[int]()
        if byte_fallback:
            numbers = {piece.text: n for n, piece in enumerate(pieces) if piece.kind == BYTE}
            self.bytes = [numbers[f"<0x{byte:02X}>"] for byte in range(256)]

    def column(self, numbers: Ints, ends: Longs, form: Form) -> Column:
        """Return lines of pieces or ids.

        numbers: the lines' pieces; below 0 for unknown characters, which become bytes, or one piece
            if adjacent
        ends: (n_lines,) where each line ends in `numbers`
        """
        from volt.encode.batch_encoder import expand_rows

        starts, values = self.tables[form]
        unknown = np.flatnonzero(numbers < 0)
        if not len(unknown):
            return self._known(numbers, ends, form)

        continues = np.append(numbers < 0, False)
        continues[ends] = False  # at the start of a line
        codes = -1 - numbers[unknown].astype(np.int64)
        keys, entries = np.unique(2 * codes + continues[unknown + 1], return_inverse=True)

        numbers = numbers.copy()
        numbers[unknown] = self.n_pieces + entries
        rows = [self._of_unknown(key >> 1, bool(key & 1), form) for key in keys.tolist()]
        ends_of_rows = np.cumsum(list(map(len, rows)))
        starts = np.append(starts, starts[-1] + ends_of_rows)
        values = np.concatenate([values, *rows])
        part = expand_rows(numbers, ends, starts, values)
        return from_ends(part.values, part.ends, gap=int(form == "pieces"))

    def _known(self, numbers: Ints, ends: Longs, form: Form) -> Column:
        if form == "ids":
            return from_ends(numbers, ends)
        starts, text = self.tables[form]
        texts = Column(text, starts[:-1], np.diff(starts) - 1)  # without the spaces
        tokens = Tokens(texts, texts.starts, texts.sizes, ends)
        return written(tokens, numbers.astype(np.int64), ends, NO_OTHERS)

    def _of_unknown(self, code: int, is_followed: bool, form: Form) -> NDArray[Any]:
        """Return an unknown character's part of the values. is_followed: by another unknown
        character"""
        text = chr(code)
        ids = list[int]()
        if self.bytes:
            ids = [self.bytes[byte] for byte in text.encode()]
            text = "".join(f"<0x{byte:02X}> " for byte in text.encode())
        elif not is_followed:
            ids = [self.unknown]
            text += " "
        if form == "ids":
            return np.array(ids, np.int32)
        return np.frombuffer(text.encode(), np.uint8)


def column_of_rows(rows: Sequence[Sequence[Any]], form: Form) -> Column:
    if form == "pieces":
        return Column.of([" ".join(row) for row in rows])
    offsets = np.cumsum([0, *map(len, rows)])
    ids = np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1]))
    return Column.of_ids(ids, offsets)


def sampler_of(processor: Any, proto: Any) -> Sampler:
    kind = proto.trainer_spec.model_type
    if kind not in (UNIGRAM, BPE):
        raise ConfigError(
            "alpha: a model of words or characters has only one encoding of a text; remove alpha"
        )
    pieces = [Piece(piece.piece, piece.score, piece.type) for piece in proto.pieces]
    byte_fallback = proto.trainer_spec.byte_fallback
    spelling = PieceFormat(pieces, processor.unk_id(), byte_fallback=byte_fallback)
    if kind == BPE:
        return BpeSampler(processor, pieces, spelling)
    return UnigramSampler(processor, pieces, spelling)


class BpeSampler:
    """Sample with a BPE model, by skipping random merges.

    A symbol is a piece's number, or a higher number for a character that occurs only inside pieces.

    symbol_of: code point → symbol, or −1 − code point if it is unknown
    inner: (n,) the code points of the symbols after the pieces
    placeholders: user-defined symbol of several characters → the character that replaces it in
        texts
    """

    def __init__(self, processor: Any, pieces: Sequence[Piece], spelling: PieceFormat) -> None:
        numbers = {
            piece.text: n for n, piece in enumerate(pieces) if piece.kind in (NORMAL, UNUSED)
        }
        user = {piece.text: n for n, piece in enumerate(pieces) if piece.kind == USER}
        characters = set(chain.from_iterable(numbers))
        inner = sorted(characters - numbers.keys() - user.keys())
        symbols = numbers | {character: len(pieces) + n for n, character in enumerate(inner)}

        long = [text for text in user if len(text) > 1]
        long.sort(key=len, reverse=True)
        if len(long) > _MOST_USER:
            raise VocabularyError(
                f"{len(long)} user-defined symbols; sampling takes {_MOST_USER:,} at most"
            )
        self.placeholders = {text: chr(_FIRST_PLACEHOLDER + n) for n, text in enumerate(long)}
        self.long_user = re.compile("|".join(map(re.escape, long)))

        self.processor = processor
        self.spelling = spelling
        self.inner = np.array(list(map(ord, inner)), np.int32)
        replaced = {self.placeholders.get(text, text): number for text, number in user.items()}
        self.symbol_of = symbols_of(symbols | replaced)
        self.joins = _joins(pieces, numbers, symbols)

    def __call__(
        self, values: Sequence[str], words: Bits, alpha: float, nbest: int, form: Form
    ) -> Column:
        from volt.kernels.apply_bpe import longest, room_of
        from volt.kernels.lattice import join_lines

        texts = self.processor.normalize(list(values))
        if self.placeholders:
            texts = [
                self.long_user.sub(lambda match: self.placeholders[match[0]], text)
                for text in texts
            ]
        codes, ends = codes_of(texts)

        out = np.empty(len(codes), np.int32)
        out_ends = np.empty_like(ends)
        parts = np.full(len(self.joins.retained), -1)
        states = words.view(np.int64).copy()
        room = room_of(longest(ends))
        symbols = self.symbol_of[codes]
        n = join_lines(symbols, ends, self.joins, parts, alpha, states, room, out, out_ends)

        numbers = out[:n]
        is_inner = numbers >= self.spelling.n_pieces
        numbers[is_inner] = -1 - self.inner[numbers[is_inner] - self.spelling.n_pieces]
        return self.spelling.column(numbers, out_ends, form)


def _joins(
    pieces: Sequence[Piece], numbers: Mapping[str, int], symbols: Mapping[str, int]
) -> JoinTable:
    """Return a row for each pair of symbols that spells a piece; pieces of equal score are in the
    same order."""
    from volt.kernels.bpe_tables import ranked_merges
    from volt.kernels.lattice import JoinTable

    costs = sorted({-pieces[number].score for number in numbers.values()})
    orders = {cost: order for order, cost in enumerate(costs)}
    rows = list[tuple[int, int, int, int]]()
    for text, number in numbers.items():
        order = orders[-pieces[number].score]
        for cut in range(1, len(text)):
            left = symbols.get(text[:cut])
            right = symbols.get(text[cut:])
            if left is not None and right is not None:
                rows.append((left, right, number, order))
    check_size(len(rows))

    table = np.array(rows, np.int32).reshape(-1, 4)
    lefts, rights, results, ranks = table.T
    n_symbols = max([len(pieces) - 1, *symbols.values()]) + 1
    retained = np.ones(n_symbols, np.uint8)
    retained[[number for number, piece in enumerate(pieces) if piece.kind == UNUSED]] = 0
    merges = ranked_merges(lefts, rights, results)
    return JoinTable(merges.pairs, merges.results, np.ascontiguousarray(ranks), retained)


class UnigramSampler:
    """Sample from all paths through a unigram model's lattice, or from the n best paths.

    ids: piece → its id
    scores: piece → its summand in the score of a path
    unknown: the score of an unknown character
    depth: the length of the longest piece
    """

    def __init__(self, processor: Any, pieces: Sequence[Piece], spelling: PieceFormat) -> None:
        self.processor = processor
        self.spelling = spelling
        self.scores = _path_scores(pieces)
        self.unknown = unknown_score(pieces)
        self.ids = {piece.text: n for n, piece in enumerate(pieces) if piece.text in self.scores}
        spelled = {text: n for text, n in self.ids.items() if pieces[n].kind != BYTE}
        values = np.array([self.scores.get(piece.text, 0.0) for piece in pieces])
        self.symbol_of, self.trie = trie_of(spelled, values, self.unknown)
        self.depth = max(map(len, spelled), default=1)

    def __call__(
        self, values: Sequence[str], words: Bits, alpha: float, nbest: int, form: Form
    ) -> Column:
        if nbest > 1:
            return self._of_best(values, words, alpha, nbest, form)
        from volt.kernels.apply_bpe import longest
        from volt.kernels.lattice import Lattice, draw_paths

        codes, ends = codes_of(self.processor.normalize(list(values)))
        trie = self.trie._replace(scores=alpha * self.trie.scores, unknown=alpha * self.unknown)
        n = longest(ends)
        n_nodes = n * (self.depth + 1)
        nodes = np.empty((3, n_nodes), np.int32)
        heads = np.empty(n + 1, np.int32)
        lattice = Lattice(np.empty(n + 1), heads, *nodes)

        out = np.empty(len(codes), np.int32)
        out_ends = np.empty_like(ends)
        states = words.view(np.int64).copy()
        symbols = self.symbol_of[codes]
        n_out = draw_paths(symbols, codes, ends, trie, states, lattice, out, out_ends)
        return self.spelling.column(out[:n_out], out_ends, form)

    def _of_best(
        self, values: Sequence[str], words: Bits, alpha: float, nbest: int, form: Form
    ) -> Column:
        rows = list[list[Any]]()
        for value, share in zip(values, as_uniform(words).tolist(), strict=True):
            paths, path_scores = self.paths(value, nbest)
            scores = alpha * np.array(path_scores)
            sums = np.exp(scores - scores.max()).cumsum()
            number = int(sums.searchsorted(share * sums[-1], side="right"))
            rows.append(paths[min(number, len(paths) - 1)])
        if form == "ids":
            rows = [[self.ids.get(piece, self.spelling.unknown) for piece in row] for row in rows]
        return column_of_rows(rows, form)

    def paths(self, value: str, nbest: int) -> tuple[list[list[str]], list[float]]:
        """Return the n best paths of a text, and their scores."""
        known = self.scores
        paths: list[list[str]] = self.processor.nbest_encode(value, nbest_size=nbest, out_type=str)
        with suppress(KeyError):  # several times as fast as a test of each piece
            return paths, [sum(map(known.__getitem__, path)) for path in paths]

        scores = list[float]()
        for path in paths:
            scores.append(sum(known.get(piece, self.unknown * len(piece)) for piece in path))
        return paths, scores


def _path_scores(pieces: Sequence[Piece]) -> dict[str, float]:
    """Return piece → its summand in a path's score. Of a character's byte pieces, only the first
    has one."""
    best = max([0.0, *_normal_scores(pieces)])  # the library starts from 0
    unknown = unknown_score(pieces)
    scores = dict[str, float]()
    for piece in pieces:
        if piece.kind == NORMAL:
            scores[piece.text] = piece.score
        elif piece.kind == USER:
            scores[piece.text] = len(piece.text) * best - _USER_MALUS
        elif piece.kind == BYTE:
            continues = 0x80 <= int(piece.text[3:5], 16) < 0xC0
            scores[piece.text] = 0.0 if continues else unknown
    return scores


def unknown_score(pieces: Sequence[Piece]) -> float:
    return min(_normal_scores(pieces), default=0.0) - _UNKNOWN_PENALTY


def _normal_scores(pieces: Sequence[Piece]) -> list[float]:
    return [piece.score for piece in pieces if piece.kind == NORMAL]


Sampler = BpeSampler | UnigramSampler
