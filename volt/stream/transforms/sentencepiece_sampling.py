"""Sample segmentations of a SentencePiece BPE model with the stream's random numbers.

The best merge comes first, and each merge is skipped with probability alpha (Provilkov 2020). The
distribution is that of the sentencepiece library, which ignores seeds since version 0.2.2, and so
draws differently in every process.

The sampler returns a column of segmentations for texts and 64 random bits of each text. Its compiled
loop writes piece numbers, and −1 − code point for an unknown character. `PieceFormat` then writes
these as text or ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from volt.array_types import Array, Ints, Longs
from volt.errors import ConfigError, VocabularyError
from volt.formats.sentencepiece.unigram import USER_BONUS
from volt.stream.transforms.column import Column, split_at
from volt.stream.transforms.line_batch import Bits
from volt.stream.transforms.nbest_segmenters import (
    check_table_size,
    join_code_points,
    map_code_points,
)
from volt.stream.transforms.word_types import Tokens, join_tokens

if TYPE_CHECKING:
    from volt.kernels.lattice import JoinTable


Form = Literal["pieces", "ids"]
NORMAL, USER, UNUSED, BYTE = 1, 4, 5, 6  # the library's kinds of pieces
UNIGRAM, BPE = 1, 2  # the library's kinds of models
_UNKNOWN_PENALTY = 10.0  # the library's kUnkPenalty
# Lone surrogates, which no text contains, replace user-defined symbols of several characters
_FIRST_PLACEHOLDER = 0xD800
_MOST_PLACEHOLDERS = 0x800


class Piece(NamedTuple):
    text: str
    score: float
    kind: int


class PieceFormat:
    """Writes piece numbers as text or ids.

    unknown_id: the id of unknown characters
    byte_ids: the id of each byte's piece; empty if the model has no byte fallback
    tables: form → (starts, values); piece p has values[starts[p]:starts[p + 1]], its id, or its
        bytes and a space
    """

    def __init__(self, pieces: Sequence[Piece], unknown_id: int, *, byte_fallback: bool) -> None:
        texts = [f"{piece.text} ".encode() for piece in pieces]
        self.n_pieces = len(pieces)
        self.tables: dict[Form, tuple[Longs, Array]] = {
            "pieces": (
                np.cumsum([0, *map(len, texts)]),
                np.frombuffer(b"".join(texts), np.uint8),
            ),
            "ids": (np.arange(self.n_pieces + 1), np.arange(self.n_pieces, dtype=np.int32)),
        }
        self.unknown_id = unknown_id
        self.byte_ids = list[int]()
        if byte_fallback:
            ids = {piece.text: n for n, piece in enumerate(pieces) if piece.kind == BYTE}
            self.byte_ids = [ids[f"<0x{byte:02X}>"] for byte in range(256)]

    def write(self, piece_numbers: Ints, line_ends: Longs, form: Form) -> Column:
        """Return lines of pieces or ids.

        piece_numbers: the pieces of all lines; −1 − code point for an unknown character
        line_ends: (n_lines,) where each line ends in `piece_numbers`
        """
        from volt.encode.batch_encoder import expand_rows

        starts, values = self.tables[form]
        unknown = np.flatnonzero(piece_numbers < 0)
        if not len(unknown):
            if form == "ids":
                return split_at(piece_numbers, line_ends)
            texts = Column(values, starts[:-1], np.diff(starts) - 1)  # without the spaces
            tokens = Tokens(texts, texts.starts, texts.sizes, line_ends)
            return join_tokens(tokens, piece_numbers.astype(np.int64), line_ends)

        # A table row for each key: 2 · code point, and 1 more if another unknown character follows
        is_unknown = np.append(piece_numbers < 0, False)
        is_unknown[line_ends] = False  # the start of the next line does not follow
        code_points = -1 - piece_numbers[unknown].astype(np.int64)
        keys, rows = np.unique(2 * code_points + is_unknown[unknown + 1], return_inverse=True)
        piece_numbers = piece_numbers.copy()
        piece_numbers[unknown] = self.n_pieces + rows
        new_values = list[Array]()
        for key in keys.tolist():
            row = self._make_unknown_row(chr(key >> 1), is_followed=bool(key & 1), form=form)
            new_values.append(row)
        new_ends = np.cumsum(list(map(len, new_values)))
        starts = np.append(starts, starts[-1] + new_ends)
        values = np.concatenate([values, *new_values])
        result = expand_rows(piece_numbers, line_ends, starts, values)
        return split_at(result.values, result.ends, gap=int(form == "pieces"))

    def _make_unknown_row(self, character: str, *, is_followed: bool, form: Form) -> Array:
        """Return the values of an unknown character: its bytes' pieces or, without byte fallback,
        its part of the one piece that adjacent unknown characters form.

        is_followed: whether another unknown character follows in the line
        """
        ids = list[int]()
        text = character
        if self.byte_ids:
            ids = [self.byte_ids[byte] for byte in character.encode()]
            text = "".join(f"<0x{byte:02X}> " for byte in character.encode())
        elif not is_followed:
            ids = [self.unknown_id]
            text += " "
        if form == "ids":
            return np.array(ids, np.int32)
        return np.frombuffer(text.encode(), np.uint8)


def write_rows(rows: Sequence[Sequence[Any]], form: Form) -> Column:
    """Return a column of pieces or ids from a list for each line."""
    if form == "pieces":
        return Column.of([" ".join(row) for row in rows])
    offsets = np.cumsum([0, *map(len, rows)])
    ids = np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1]))
    return Column.of_ids(ids, offsets)


def _read_pieces(proto: Any) -> list[Piece]:
    return [Piece(piece.piece, piece.score, piece.type) for piece in proto.pieces]


def make_sampler(processor: Any, proto: Any) -> BpeSampler:
    """Return the sampler of a BPE model.

    processor: the library's SentencePieceProcessor
    proto: the model as a protocol buffer
    """
    if proto.trainer_spec.model_type != BPE:
        raise ConfigError(
            "alpha: a model of words or characters has only one encoding of a text; remove alpha"
        )
    pieces = _read_pieces(proto)
    byte_fallback = proto.trainer_spec.byte_fallback
    piece_format = PieceFormat(pieces, processor.unk_id(), byte_fallback=byte_fallback)
    return BpeSampler(processor, pieces, piece_format)


class BpeSampler:
    """Samples with a BPE model, by skipping random merges.

    A merge may make an unused piece. `join_lines` then splits it into the two symbols that made it,
    which `parts` notes.

    A symbol is a piece's number, or a higher number for a character that occurs only inside pieces.

    symbols: code point → symbol, or −1 − code point if no piece contains the character
    inner_code_points: (n,) the code points of the symbols after the pieces
    placeholders: user-defined symbol of several characters → the character that replaces it
    """

    def __init__(self, processor: Any, pieces: Sequence[Piece], piece_format: PieceFormat) -> None:
        numbers = {
            piece.text: n for n, piece in enumerate(pieces) if piece.kind in (NORMAL, UNUSED)
        }
        user_numbers = {piece.text: n for n, piece in enumerate(pieces) if piece.kind == USER}
        characters = set(chain.from_iterable(numbers))
        inner = sorted(characters - numbers.keys() - user_numbers.keys())
        symbols = numbers | {character: len(pieces) + n for n, character in enumerate(inner)}

        long = [text for text in user_numbers if len(text) > 1]
        long.sort(key=len, reverse=True)  # so that the pattern prefers the longest symbol
        if len(long) > _MOST_PLACEHOLDERS:
            raise VocabularyError(
                f"{len(long)} user-defined symbols; sampling takes {_MOST_PLACEHOLDERS:,} at most"
            )
        self.placeholders = {text: chr(_FIRST_PLACEHOLDER + n) for n, text in enumerate(long)}
        self.long_user_symbol = re.compile("|".join(map(re.escape, long)))

        self.processor = processor
        self.piece_format = piece_format
        self.inner_code_points = np.array(list(map(ord, inner)), np.int32)
        user_symbols = {self.placeholders.get(text, text): n for text, n in user_numbers.items()}
        self.symbols = map_code_points(symbols | user_symbols)
        self.joins = _build_join_table(pieces, numbers, symbols)

    def sample(
        self, texts: Sequence[str], random_bits: Bits, *, alpha: float, form: Form
    ) -> Column:
        """Return a segmentation of each text.

        random_bits: (n_texts,) 64 bits for each text
        alpha: the probability of skipping a merge
        """
        from volt.kernels.apply_bpe import longest, room_of
        from volt.kernels.lattice import join_lines

        texts = self.processor.normalize(list(texts))
        if self.placeholders:
            texts = [
                self.long_user_symbol.sub(lambda match: self.placeholders[match[0]], text)
                for text in texts
            ]
        code_points, text_ends = join_code_points(texts)

        out = np.empty(len(code_points), np.int32)
        out_ends = np.empty_like(text_ends)
        parts = np.full(len(self.joins.retained), -1)
        states = random_bits.view(np.int64).copy()
        memory = room_of(longest(text_ends))
        symbols = self.symbols[code_points]
        n_out = join_lines(
            symbols, text_ends, self.joins, parts, alpha, states, memory, out, out_ends
        )

        piece_numbers = out[:n_out]
        is_inner = piece_numbers >= self.piece_format.n_pieces
        inner = piece_numbers[is_inner] - self.piece_format.n_pieces
        piece_numbers[is_inner] = -1 - self.inner_code_points[inner]
        return self.piece_format.write(piece_numbers, out_ends, form)


def _build_join_table(
    pieces: Sequence[Piece], numbers: Mapping[str, int], symbols: Mapping[str, int]
) -> JoinTable:
    """Return a row for each pair of symbols that spells a piece; the highest score joins first.

    numbers: normal or unused piece → its number
    symbols: piece or character → its symbol
    """
    from volt.kernels.bpe_tables import ranked_merges
    from volt.kernels.lattice import JoinTable

    costs = sorted({-pieces[number].score for number in numbers.values()})
    priority_of_cost = {cost: priority for priority, cost in enumerate(costs)}
    rows = list[tuple[int, int, int, int]]()
    for text, number in numbers.items():
        priority = priority_of_cost[-pieces[number].score]
        for cut in range(1, len(text)):
            left = symbols.get(text[:cut])
            right = symbols.get(text[cut:])
            if left is not None and right is not None:
                rows.append((left, right, number, priority))
    check_table_size(len(rows))

    lefts, rights, results, priorities = np.array(rows, np.int32).reshape(-1, 4).T
    n_symbols = max([len(pieces) - 1, *symbols.values()]) + 1
    is_retained = np.ones(n_symbols, np.uint8)
    is_retained[[n for n, piece in enumerate(pieces) if piece.kind == UNUSED]] = 0
    merges = ranked_merges(lefts, rights, results)
    return JoinTable(merges.pairs, merges.results, np.ascontiguousarray(priorities), is_retained)


class UnigramPaths:
    """Finds the best paths of a unigram model with the library.

    scores: piece → its summand in the score of a path
    unknown_score: an unknown character's summand
    """

    def __init__(self, processor: Any, proto: Any) -> None:
        self.processor = processor
        self.scores, self.unknown_score = compute_path_scores(_read_pieces(proto))

    def find_best_paths(self, text: str, n: int) -> tuple[list[list[str]], list[float]]:
        """Return the pieces of the n best paths of a text, and the paths' scores."""
        paths: list[list[str]] = self.processor.nbest_encode(text, nbest_size=n, out_type=str)
        with suppress(KeyError):  # several times as fast as a test of each piece
            return paths, [sum(map(self.scores.__getitem__, path)) for path in paths]

        path_scores = list[float]()
        for path in paths:
            scores = [self.scores.get(piece, self.unknown_score * len(piece)) for piece in path]
            path_scores.append(sum(scores))
        return paths, path_scores


def compute_path_scores(pieces: Sequence[Piece]) -> tuple[dict[str, float], float]:
    """Return each piece's summand in the score of a path, and an unknown character's summand.

    Of the bytes of a character, only the first has a summand, an unknown character's.
    """
    normal_scores = [piece.score for piece in pieces if piece.kind == NORMAL]
    unknown = min(normal_scores, default=0.0) - _UNKNOWN_PENALTY
    scores = dict[str, float]()
    for piece in pieces:
        if piece.kind == NORMAL:
            scores[piece.text] = piece.score
        elif piece.kind == USER:
            scores[piece.text] = USER_BONUS * (len(piece.text.encode()) - 1)
        elif piece.kind == BYTE:
            continues_character = 0x80 <= int(piece.text[3:5], 16) < 0xC0
            scores[piece.text] = 0.0 if continues_character else unknown
    return scores, unknown
