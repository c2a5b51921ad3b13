"""Counted words → their symbols after a vocabulary's merges, scaffolding not yet split back.

>>> from volt.count.word_counts import WordCounts
>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "low</w>"))
>>> merged = MergedWords.of(vocabulary, WordCounts.from_pairs({"low": 2, "lo": 1}))
>>> [merged.tables.tokens[symbol] for symbol in merged.words.symbols if symbol >= 0], merged.token_counts().tolist()
(['l', 'low</w>'], [1, 0, 0, 0, 2])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from volt.encode.merge_tables import Longs, MergeTables
from volt.errors import CorpusError, shown
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts
    from volt.kernels.arrays import Words


@dataclass(frozen=True, slots=True)
class MergedWords:
    """Words as a vocabulary merges them.

    tables: of the vocabulary, which number its tokens
    atoms: the words as atoms
    words: the words as tokens, those that are split back included; −1 − code stands for an unknown character
    """

    tables: MergeTables
    atoms: Words
    words: Words

    @classmethod
    def of(cls, vocabulary: Vocabulary, counts: WordCounts) -> MergedWords:
        """The words of counts that were made as the vocabulary makes words. Raises CorpusError if they were not."""
        from volt.kernels.arrays import Words
        from volt.kernels.words import PieceRule, encode_words

        check_same_words(vocabulary, counts)
        tables, found = MergeTables.of(vocabulary), counts.words
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        atoms, ends = tables.atoms("".join(found), lengths)
        whole = PieceRule(tables.kept, np.full_like(tables.parts, -1), tables.words)
        symbols, merged_ends = encode_words(atoms, ends, tables.merges, whole, 0.0, np.zeros(1, np.int64))
        return cls(tables, Words(atoms, ends, counts.counts), Words(symbols, merged_ends, counts.counts))

    def token_counts(self) -> Longs:
        """(n_tokens,) int64: how often each token of the tables occurs."""
        return occurrences(self.words, len(self.tables.tokens))


def occurrences(words: Words, n_symbols: int) -> Longs:
    """How often each symbol from 0 up to n_symbols occurs, (n_symbols,) int64; others are not counted.

    >>> from volt.kernels.arrays import Words
    >>> occurrences(Words(np.array([0, -3, 1, 0]), np.array([3, 4]), np.array([2, 5])), 2)
    array([7, 2])
    """
    found, known = np.zeros(n_symbols, np.int64), words.symbols >= 0
    np.add.at(found, words.symbols[known], np.repeat(words.counts, np.diff(words.ends, prepend=0))[known])
    return found


def check_same_words(vocabulary: Vocabulary, counts: WordCounts) -> None:
    """Raise CorpusError if words were cut or normalised in another way than the vocabulary's.

    >>> from volt.count.word_counts import WordCounts
    >>> check_same_words(Vocabulary((), ("a",)), WordCounts.from_pairs({"a": 1}))
    """
    for name in ("normalizer", "pretokenizer"):
        ours, theirs = getattr(vocabulary, name), getattr(counts, name)
        if ours != theirs:
            raise CorpusError(
                f"the words were counted with {name} {shown(theirs.name)!r}, and the vocabulary has "
                f"{shown(ours.name)!r}; count with {name}=vocabulary.{name}"
            )
