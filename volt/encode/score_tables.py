"""`ScoreTables`: the scores of a unigram model as arrays; words → symbols.

    scores ▁l −3, ow −2, low −4, …    "▁low"  →  ▁l ow, with the sum −5, or ▁ low …

A word becomes the tokens and unknown characters whose scores have the greatest sum, see
volt.kernels.trie. Symbols are described in volt.encode.word_tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.array_cache import Arrays
from volt.encode.arrays import Ints, Longs, ends_to_sizes
from volt.encode.merge_tables import MergeTables
from volt.encode.word_tables import (
    NEVER_SPLIT,
    NO_STATE,
    WordTables,
    codes_of_atoms,
    number_atoms,
)
from volt.errors import ConfigError, VocabularyError
from volt.text.atoms import SPACE
from volt.vocabulary import Vocabulary
from volt.vocabulary.cached_vocabulary import cached_with

if TYPE_CHECKING:
    from volt.kernels.trie import Trie

_UNKNOWN_PENALTY = 10.0  # below the worst score; kUnkPenalty of sentencepiece


@dataclass(frozen=True)
class ScoreTables(WordTables):
    """A unigram model's scores as arrays for compiled code.

    trie: the tokens and their scores
    """

    trie: Trie

    @property
    def tokens(self) -> tuple[str, ...]:
        special = self.vocabulary.special_scores
        return super().tokens + tuple(token for token, _ in special)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> ScoreTables:
        """Return a vocabulary's tables, from the cache if it holds the vocabulary."""
        from volt.kernels.trie import Trie

        arrays = cached_with(vocabulary, ["score tables"], lambda: _build_arrays(vocabulary))
        codes, units, scores = arrays
        unknown = float(scores.min()) - _UNKNOWN_PENALTY
        if vocabulary.score_sums == "lines":
            unknown = float(np.float32(unknown))
        return cls(
            vocabulary=vocabulary,
            symbol_of=number_atoms(codes),
            codes=codes,
            retained=np.ones(len(scores), np.uint8),
            parts=np.full(len(scores), NEVER_SPLIT),
            trie=Trie(units, scores, unknown),
        )

    @property
    def compiled(self) -> dict[str, Any]:
        return {"trie": self.trie}

    def segment(
        self, text: str, lengths: Longs, *, dropout: float = 0.0, state: int = NO_STATE
    ) -> tuple[Ints, Longs]:
        if dropout:
            raise ConfigError("dropout skips merges, and a unigram model has none; remove dropout")
        return self.segment_lines(text, lengths, np.zeros(0, np.int64))

    def segment_lines(self, text: str, lengths: Longs, n_words: Longs) -> tuple[Ints, Longs]:
        """Return the symbols of the words of lines, and where each word's symbols end.

        text, lengths: see `segment`
        n_words: (n_lines,) the number of words of each line, along which scores are added in single
            precision; (0,) to add them from the start of each word
        """
        from volt.kernels.trie import path_room, segment_words

        data = np.frombuffer(text.encode(), np.uint8)
        starts_character = (data & 0xC0) != 0x80
        byte_ends = np.append(np.flatnonzero(starts_character), len(data))[np.cumsum(lengths)]
        room = path_room(int(ends_to_sizes(byte_ends).max(initial=0)))
        out = np.empty(len(text), np.int32)
        ends = np.empty(len(lengths), np.int64)
        n_out = segment_words(data, byte_ends, n_words, self.trie, room, out, ends)
        symbols = out[:n_out]
        codes = np.where(symbols < 0, -1 - symbols, 0).astype(np.int64)
        return self._finish(symbols, codes, ends)


def _build_arrays(vocabulary: Vocabulary) -> Arrays:
    """Return the arrays that `ScoreTables.of` unpacks."""
    from volt.kernels.trie import MOST_PIECES, build_trie

    numbering = vocabulary.numbering
    if len(numbering.strings) > MOST_PIECES:
        raise VocabularyError(f"at most {MOST_PIECES:,} tokens; choose a smaller size")
    special = vocabulary.special_scores
    strings = (*numbering.strings, *(token for token, _ in special))
    spelled = [token.replace(SPACE, " ").encode() for token in strings]
    order = sorted(range(len(spelled)), key=spelled.__getitem__)
    units = build_trie([spelled[symbol] for symbol in order], np.array(order, np.int64))
    scores = np.empty(len(spelled))
    scores[numbering.tokens] = vocabulary.scores
    scores[len(numbering.strings) :] = [score for _, score in special]
    return [codes_of_atoms(vocabulary), units, scores]


def tables_of(vocabulary: Vocabulary) -> MergeTables | ScoreTables:
    """Return the tables of a vocabulary's model: its merges, or its scores.

    >>> vocabulary = Vocabulary((), ("a", "b", "ab"), scores=(-1.0, -1.0, -1.5), marker="none")
    >>> tables_of(vocabulary).pieces(["abb"])
    [('ab', 'b')]
    """
    if vocabulary.is_unigram:
        return ScoreTables.of(vocabulary)
    return MergeTables.of(vocabulary)
