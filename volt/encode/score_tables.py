"""`ScoreTables`: the scores of a unigram model as arrays; words → symbols.

    scores ▁l −3, ow −2, low −4, …    "▁low"  →  ▁l ow, with the sum −5, or ▁ low …

A word becomes the tokens and unknown characters whose scores have the greatest sum, see
volt.kernels.trie. Symbols are described in volt.encode.word_tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.array_cache import Arrays
from volt.array_types import Bytes, Floats, Ints, Longs
from volt.encode.arrays import ends_to_sizes
from volt.encode.merge_tables import MergeTables
from volt.encode.segmentation_sampling import SegmentationSampling
from volt.encode.word_tables import (
    NEVER_SPLIT,
    WordTables,
    codes_of_atoms,
    join_words,
    join_words_of_lines,
    number_atoms,
)
from volt.errors import VocabularyError
from volt.text.atoms import SPACE
from volt.vocabulary import Vocabulary
from volt.vocabulary.cached_vocabulary import cached_with

if TYPE_CHECKING:
    from volt.kernels.trie import Trie

UNKNOWN_PENALTY = 10.0  # below the worst score; kUnkPenalty of sentencepiece


@dataclass(frozen=True)
class ScoreTables(WordTables):
    """A unigram model's scores as arrays for compiled code.

    trie: the tokens and their scores
    longest: the characters of the longest token
    cuts_words: whether "▁" after another character always starts a token
    """

    trie: Trie
    longest: int
    cuts_words: bool

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        special = self.vocabulary.special_scores
        return super().tokens + tuple(token for token, _ in special)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> ScoreTables:
        """Return a vocabulary's tables, from the cache if it holds the vocabulary."""
        from volt.kernels.trie import Trie

        arrays = cached_with(vocabulary, ["trie"], lambda: _build_arrays(vocabulary))
        codes, units, scores, sizes, shapes = arrays
        longest, cuts_words = shapes.tolist()
        unknown = float(scores.min()) - UNKNOWN_PENALTY
        if vocabulary.score_sums == "lines":
            unknown = float(np.float32(unknown))
        return cls(
            vocabulary=vocabulary,
            symbol_of=number_atoms(codes),
            codes=codes,
            retained=np.ones(len(scores), np.uint8),
            parts=np.full(len(scores), NEVER_SPLIT),
            trie=Trie(units, scores, sizes, unknown),
            longest=longest,
            cuts_words=bool(cuts_words),
        )

    @property
    def compiled(self) -> dict[str, Any]:
        largest = max(-self.trie.unknown, float(np.abs(self.trie.scores).max()))
        return {"trie": self.trie, "largest": largest}

    def segment(self, text: str, lengths: Longs) -> tuple[Ints, Longs]:
        return self.segment_lines(text, lengths, np.zeros(0, np.int64))

    def pieces_of_lines(
        self,
        words_of_lines: Sequence[Sequence[str]],
        sampling: SegmentationSampling | None,
        first: int = 0,
    ) -> list[list[str]]:
        if sampling:
            lines = join_words(list(map("".join, words_of_lines)))
            numbers = np.arange(first, first + len(words_of_lines))
            return list(map(list, self.spell_words(*self.draw(*lines, sampling, numbers))))
        text, lengths, n_words = join_words_of_lines(words_of_lines)
        if self.vocabulary.score_sums == "lines":
            symbols, ends = self.segment_lines(text, lengths, n_words)
        else:
            symbols, ends = self.segment(text, lengths)
        line_ends = np.append(0, ends)[np.cumsum(n_words)]
        return list(map(list, self.spell_words(symbols, line_ends)))

    def segment_lines(self, text: str, lengths: Longs, n_words: Longs) -> tuple[Ints, Longs]:
        """Return the symbols of the words of lines, and where each word's symbols end.

        text, lengths: see `segment`
        n_words: (n_lines,) the number of words of each line, along which scores are added in single
            precision; (0,) to add them from the start of each word
        """
        from volt.kernels.trie import path_room, segment_words

        data, byte_ends = _encode_lines(text, lengths)
        room = path_room(int(ends_to_sizes(byte_ends).max(initial=0)))
        out = np.empty(len(text), np.int32)
        ends = np.empty(len(lengths), np.int64)
        n_out = segment_words(data, byte_ends, n_words, self.trie, room, out, ends)
        return self._finish_paths(out[:n_out], ends)

    def draw(
        self, text: str, lengths: Longs, sampling: SegmentationSampling, line_numbers: Longs
    ) -> tuple[Ints, Longs]:
        """Return the symbols of a random path of each line, and where each line's symbols end.

        text: the lines, with "▁" for spaces, concatenated;  lengths: the characters of each line
        line_numbers: with the seed, they decide what is drawn
        """
        data, ends = _encode_lines(text, lengths)
        return self.draw_bytes(
            data, ends - ends_to_sizes(ends), ends, False, sampling, line_numbers
        )

    def draw_bytes(
        self,
        data: Bytes,
        starts: Longs,
        ends: Longs,
        is_marked: bool,
        sampling: SegmentationSampling,
        line_numbers: Longs,
    ) -> tuple[Ints, Longs]:
        """Return the symbols of a random path of each line of UTF-8, and where each line's symbols end.

        starts, ends: (n_lines,) of each line in the data
        is_marked: whether a "▁" is put before each line that is not empty
        line_numbers: see `draw`
        """
        from volt.kernels.apply_bpe import start_lines
        from volt.kernels.best_paths import draw_best_paths, ranking_of
        from volt.kernels.lattice import draw_paths, lattice_of

        sizes = ends - starts
        longest = int(sizes.max(initial=0)) + 1
        states = np.empty(len(ends), np.int64)
        start_lines(states, sampling.seed, line_numbers)
        lines = (data, starts, ends, is_marked)
        room = (np.zeros(longest + 8, np.uint8), lattice_of(longest, self.longest))
        out = np.empty(int(sizes.sum()) + len(ends), np.int32)
        out_ends = np.empty(len(ends), np.int64)
        trie = self.trie
        if sampling.nbest > 0:
            ranking = ranking_of(sampling.nbest)
            n_out = draw_best_paths(
                *lines, sampling.alpha, trie, states, *room, ranking, out, out_ends
            )
        else:
            weights = self._weights_of(sampling.alpha)
            n_out = draw_paths(*lines, self.cuts_words, trie, weights, states, *room, out, out_ends)
        return self._finish_paths(out[:n_out], out_ends)

    @cached_property
    def _weights_of(self) -> Callable[[float], Floats]:
        """Return a function that returns the weights for an alpha."""
        from volt.kernels.lattice import weights_of

        scores = np.append(self.trie.scores, self.trie.unknown)
        return lru_cache(maxsize=4)(lambda alpha: weights_of(alpha * scores))

    def _finish_paths(self, symbols: Ints, ends: Longs) -> tuple[Ints, Longs]:
        return self._finish(symbols, -1 - symbols.astype(np.int64), ends)


def _encode_lines(text: str, lengths: Longs) -> tuple[Bytes, Longs]:
    """Return concatenated texts as UTF-8, and where each ends. lengths: the characters of each"""
    data = np.frombuffer(text.encode(), np.uint8)
    starts_character = (data & 0xC0) != 0x80
    return data, np.append(np.flatnonzero(starts_character), len(data))[np.cumsum(lengths)]


def _build_arrays(vocabulary: Vocabulary) -> Arrays:
    """Return the arrays that `ScoreTables.of` unpacks."""
    from volt.kernels.trie import MOST_PIECES, trie_of

    numbering = vocabulary.numbering
    if len(numbering.strings) > MOST_PIECES:
        raise VocabularyError(f"at most {MOST_PIECES:,} tokens; choose a smaller size")
    special = vocabulary.special_scores
    strings = (*numbering.strings, *(token for token, _ in special))
    scores = np.empty(len(strings))
    scores[numbering.tokens] = vocabulary.scores
    scores[len(numbering.strings) :] = [score for _, score in special]
    trie = trie_of(strings, scores, 0.0)
    longest = max(map(len, strings))
    cuts_words = SPACE in strings and not any(SPACE in token.lstrip(SPACE) for token in strings)
    shapes = np.array([longest, cuts_words])
    return [codes_of_atoms(vocabulary), trie.units, scores, trie.sizes, shapes]


Tables = MergeTables | ScoreTables


def tables_of(vocabulary: Vocabulary) -> Tables:
    """Return the tables of a vocabulary's model: its merges, or its scores.

    >>> vocabulary = Vocabulary((), ("a", "b", "ab"), scores=(-1.0, -1.0, -1.5), marker="none")
    >>> tables_of(vocabulary).pieces(["abb"])
    [('ab', 'b')]
    """
    if vocabulary.is_unigram:
        return ScoreTables.of(vocabulary)
    return MergeTables.of(vocabulary)
