"""`MergedWords`: counted words → the tokens that a vocabulary's merges make of them.

    counts {"lower": 2}   →   atoms l o w e r</w>   →   tokens low er</w>, twice

Unlike in encoding, tokens outside the vocabulary (scaffolding) are not split back into their parts,
so that a caller can count each merge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volt.count.word_counts import WordCounts
from volt.encode.arrays import Longs, ends_to_sizes
from volt.encode.merge_tables import NEVER_SPLIT, MergeTables
from volt.errors import CorpusError, shown
from volt.kernels.arrays import Words
from volt.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class MergedWords:
    """Counted words before and after a vocabulary's merges.

    tables: the vocabulary's symbols, see volt.encode.merge_tables
    atoms: the words as symbols of atoms
    words: the words as symbols of tokens, even tokens outside the vocabulary
    """

    tables: MergeTables
    atoms: Words
    words: Words

    @classmethod
    def of(cls, vocabulary: Vocabulary, counts: WordCounts) -> MergedWords:
        """Merge counted words.

        Raises CorpusError if they were normalised or split with other settings than the
        vocabulary's.
        """
        from volt.kernels.apply_bpe import encode_words

        check_same_words(vocabulary, counts)
        tables = MergeTables.of(vocabulary)
        atoms, atom_ends = tables.atoms_of_words(counts.words)
        rule = tables.rule._replace(parts=np.full_like(tables.parts, NEVER_SPLIT))
        unused_state = np.zeros(1, np.int64)
        symbols, ends = encode_words(atoms, atom_ends, tables.merges, rule, 0.0, unused_state)
        return cls(
            tables,
            atoms=Words(atoms, atom_ends, counts.counts),
            words=Words(symbols, ends, counts.counts),
        )

    def token_counts(self) -> Longs:
        """Return how often each token occurs in all words, (n_tokens,) int64."""
        return count_symbols(self.words, len(self.tables.tokens))


def count_symbols(words: Words, n_symbols: int) -> Longs:
    """Return how often each symbol below n_symbols occurs in counted words, (n_symbols,) int64.

    Symbols below 0, which are unknown characters, are not counted.
    """
    word_counts = np.repeat(words.counts, ends_to_sizes(words.ends))
    is_known = words.symbols >= 0
    result = np.zeros(n_symbols, np.int64)
    np.add.at(result, words.symbols[is_known], word_counts[is_known])
    return result


def check_same_words(vocabulary: Vocabulary, counts: WordCounts) -> None:
    """Raise CorpusError unless words were normalised and split with the vocabulary's settings."""
    for name in ("normalizer", "pretokenizer"):
        own = getattr(vocabulary, name)
        other = getattr(counts, name)
        if own != other:
            raise CorpusError(
                f"the words were counted with {name} {shown(other.name)!r}, and the vocabulary has "
                f"{shown(own.name)!r}; count with {name}=vocabulary.{name}"
            )
