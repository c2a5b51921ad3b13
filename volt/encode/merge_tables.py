"""`MergeTables`: the merges of a vocabulary as arrays; words → atoms → symbols.

    merges (l o), (lo w</w>)    "low"  →  atoms l o w</w>, symbols 0 1 2  →  symbol 4  →  "low</w>"

In each word, the applicable merge with the lowest rank is applied until no merge applies. A token
outside the vocabulary ("scaffolding") is then split back into the two parts of the first merge that
makes it. Symbols are described in volt.encode.word_tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from volt.array_cache import Arrays
from volt.array_types import Flags, Ints, Longs
from volt.encode.arrays import ends_to_sizes
from volt.encode.segmentation_sampling import SegmentationSampling
from volt.encode.word_tables import (
    NEVER_SPLIT,
    WordTables,
    codes_of_atoms,
    join_words,
    number_atoms,
)
from volt.errors import CorpusError, VocabularyError, shown
from volt.text.atoms import SUFFIX, Marker, atom_codes, text_codes
from volt.vocabulary import Vocabulary
from volt.vocabulary.cached_vocabulary import cached_with

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts
    from volt.kernels.apply_bpe import PieceRule
    from volt.kernels.arrays import Words
    from volt.kernels.bpe_tables import Merges, Spellings


class TokenAtoms(NamedTuple):
    """The atoms of tokens.

    symbols: (n_symbols,) int32, the atoms of all tokens
    ends: (n_tokens,) int64, where the atoms of each token end
    """

    symbols: Ints
    ends: Longs

    @property
    def sizes(self) -> Longs:
        return ends_to_sizes(self.ends)

    def only(self, is_selected: Flags) -> TokenAtoms:
        """Return the atoms of the selected tokens. The other tokens remain, without atoms."""
        symbols = self.symbols[np.repeat(is_selected, self.sizes)]
        return TokenAtoms(symbols, np.cumsum(self.sizes * is_selected))


@dataclass(frozen=True)
class MergeTables(WordTables):
    """A vocabulary's merges as arrays for compiled code.

    merges: the ranked merges that occur without dropout
    words: the tokens that need a lookup of whole words
    """

    merges: Merges
    words: Spellings

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> MergeTables:
        """Return a vocabulary's tables, from the cache if it holds the vocabulary.

        Raises VocabularyError for more than two million tokens or merges.
        """
        from volt.kernels.bpe_tables import Merges, Spellings

        arrays = cached_with(vocabulary, ["merge tables"], lambda: _build_arrays(vocabulary))
        codes, retained, parts, pairs, results, rivals, slots, symbols, starts, numbers = arrays
        one_by_one, first, longest = numbers.tolist()
        return cls(
            vocabulary=vocabulary,
            symbol_of=number_atoms(codes),
            codes=codes,
            merges=Merges(pairs, results, rivals, bool(one_by_one), first),
            retained=retained,
            parts=parts,
            words=Spellings(slots, symbols, starts, longest),
        )

    @cached_property
    def token_atoms(self) -> TokenAtoms:
        """The atoms of each token."""
        return _split_into_atoms(self.tokens, self.symbol_of, self.vocabulary.marker)

    @cached_property
    def sampled_merges(self) -> Merges:
        """The merges that dropout may skip. By ranks, these are all pairs that spell a token."""
        if self.vocabulary.merging == "ranks":
            return _find_all_pairs(self.token_atoms, self.merges.results)
        return self.merges

    @property
    def rule(self) -> PieceRule:
        from volt.kernels.apply_bpe import PieceRule

        return PieceRule(self.retained, self.parts, self.words)

    @property
    def compiled(self) -> dict[str, Any]:
        return {"merges": self.merges, "rule": self.rule}

    def segment(self, text: str, lengths: Longs) -> tuple[Ints, Longs]:
        return self.encode_atoms(*self.atoms(text, lengths))

    def pieces_of_lines(
        self,
        words_of_lines: Sequence[Sequence[str]],
        sampling: SegmentationSampling | None,
        first: int = 0,
    ) -> list[list[str]]:
        if sampling:
            return [
                list(chain.from_iterable(self._sample_pieces(words, sampling, number)))
                for number, words in enumerate(words_of_lines, first)
            ]
        distinct = list(set(chain.from_iterable(words_of_lines)))
        pieces_of_word = dict(zip(distinct, self.pieces(distinct), strict=True))
        return [
            list(chain.from_iterable(map(pieces_of_word.__getitem__, words)))
            for words in words_of_lines
        ]

    def _sample_pieces(
        self, words: Sequence[str], sampling: SegmentationSampling, line_number: int
    ) -> list[tuple[str, ...]]:
        from volt.kernels.apply_bpe import line_state

        state = line_state(sampling.seed, line_number)
        atoms = self.atoms(*join_words(words))
        return self.spell_words(*self.encode_atoms(*atoms, dropout=sampling.dropout, state=state))

    def encode_atoms(
        self, atoms: Ints, ends: Longs, *, dropout: float = 0.0, state: int = 0
    ) -> tuple[Ints, Longs]:
        """Merge words of atoms. Return their symbols, and where each word ends."""
        from volt.kernels.apply_bpe import encode_words

        merges = self.sampled_merges if dropout else self.merges
        return encode_words(atoms, ends, merges, self.rule, dropout, np.array([state]))

    def atoms(self, text: str, lengths: Longs) -> tuple[Ints, Longs]:
        """Return the symbols of words' atoms, and where each word ends.

        text: the words, concatenated;  lengths: (n_words,) the characters of each word
        """
        codes, ends = text_codes(text, lengths, marker=self.vocabulary.marker)
        return self._finish(self.symbol_of[codes], codes, ends)


def _build_arrays(vocabulary: Vocabulary) -> Arrays:
    """Return the arrays that `MergeTables.of` unpacks."""
    from volt.kernels.bpe_tables import MOST, no_spellings, pairs_met, ranked_merges

    tokens, lefts, rights, results, vocabulary_symbols = vocabulary.numbering
    if max(len(tokens), len(results)) > MOST:  # for the table of pairs
        raise VocabularyError(
            f"{len(tokens):,} tokens and {len(results):,} merges: at most {MOST:,} of each; "
            "choose a smaller size"
        )

    codes = codes_of_atoms(vocabulary)
    pair_keys = lefts.astype(np.int64) << 32 | rights
    parts = np.full(len(tokens), NEVER_SPLIT)
    parts[results[::-1]] = pair_keys[::-1]  # the first merge that makes a token is written last
    retained = np.zeros(len(tokens), np.uint8)
    retained[vocabulary_symbols] = 1

    by_ranks = vocabulary.merging == "ranks"
    if by_ranks or vocabulary.whole_words:
        token_atoms = _split_into_atoms(tokens, number_atoms(codes), vocabulary.marker)
    if by_ranks:
        merges = _find_own_pairs(token_atoms, results)
    else:
        merges = ranked_merges(lefts, rights, results, one_by_one=vocabulary.merging == "steps")

    words = no_spellings()
    if vocabulary.whole_words:
        eligible = retained != 0
        if by_ranks:  # merging their own atoms makes these tokens
            eligible[merges.results[pairs_met(merges)[2]]] = False
        words = _find_unmergeable(token_atoms, merges, eligible)
    numbers = np.array([merges.one_by_one, merges.first, words.longest])
    return [codes, retained, parts, *merges[:3], *words[:3], numbers]


def _split_into_atoms(tokens: Sequence[str], symbol_of: Ints, marker: Marker) -> TokenAtoms:
    ends_word = np.zeros(len(tokens), bool)
    if marker == "suffix":
        ends_word[:] = [token.endswith(SUFFIX) and token != SUFFIX for token in tokens]
    if ends_word.any():
        tokens = [token.removesuffix(SUFFIX) for token in tokens]

    codes, ends = atom_codes(tokens, marker="none")
    codes[ends[ends_word] - 1] += 1
    return TokenAtoms(symbol_of[codes], ends)


def merge_tokens(atoms: TokenAtoms, merges: Merges) -> tuple[Ints, Longs]:
    """Merge the atoms of each token as far as possible, without splitting anything back.

    Return the resulting symbols of all tokens, and where the symbols of each token end.
    """
    from volt.kernels.apply_bpe import PieceRule, encode_words
    from volt.kernels.bpe_tables import no_spellings

    n_symbols = int(np.append(merges.results, atoms.symbols).max(initial=0)) + 1
    retain_all = PieceRule(
        retained=np.ones(n_symbols, np.uint8),
        parts=np.full(n_symbols, NEVER_SPLIT),
        words=no_spellings(),
    )
    unused_state = np.zeros(1, np.int64)
    return encode_words(*atoms, merges, retain_all, 0.0, unused_state)


# With merging "ranks", any two neighbours that spell a token may join, lowest rank first. `results`
# below is the token of each rank, (n_ranks,).


def _find_own_pairs(atoms: TokenAtoms, results: Ints) -> Merges:
    """Return the pairs that join without dropout: one for each token with a rank.

    A token's own pair is what its atoms become by the pairs of shorter tokens, if that is two
    symbols.
    """
    from volt.kernels.bpe_tables import fill_merges

    enter = partial(_enter_own_pairs, atoms=atoms)
    return fill_merges(len(results), results, enter, one_by_one=True)


def _enter_own_pairs(merges: Merges, atoms: TokenAtoms) -> bool:
    """Enter the own pairs of all tokens into `merges`, shorter tokens first.

    Return False if the table of pairs is full.
    """
    from volt.kernels.bpe_tables import fill

    rank_of = _find_lowest_ranks(merges.results, len(atoms.ends))
    sizes = atoms.sizes
    is_merged = (rank_of >= 0) & (sizes > 1)

    for size in np.unique(sizes[is_merged]).tolist():
        tokens = np.flatnonzero(is_merged & (sizes == size))
        starts = atoms.ends[tokens] - size
        indices = starts[:, None] + np.arange(size)
        ends = np.arange(1, len(tokens) + 1) * size
        same_size = TokenAtoms(atoms.symbols[indices].ravel(), ends)
        symbols, ends = merge_tokens(same_size, merges)

        is_pair = ends_to_sizes(ends) == 2
        lefts = symbols[ends[is_pair] - 2]
        rights = symbols[ends[is_pair] - 1]
        is_known = (lefts >= 0) & (rights >= 0)
        ranks = rank_of[tokens[is_pair][is_known]]
        if not fill(merges.pairs, lefts[is_known], rights[is_known], ranks):
            return False
    return True


def _find_all_pairs(atoms: TokenAtoms, results: Ints) -> Merges:
    """Return all pairs of tokens that spell a token with a rank."""
    from volt.kernels.bpe_tables import cuts, ranked_merges, spellings

    lefts, rights, wholes = cuts(spellings(*atoms))
    ranks = _find_lowest_ranks(results, len(atoms.ends))[wholes]
    is_ranked = ranks >= 0
    return ranked_merges(
        lefts[is_ranked],
        rights[is_ranked],
        results,
        ranks=ranks[is_ranked],
        one_by_one=True,
    )


def _find_lowest_ranks(results: Ints, n_tokens: int) -> Ints:
    """Return (n_tokens,) int32, the lowest rank of each token; -1 for tokens without a rank."""
    rank_of = np.full(n_tokens, -1, np.int32)
    descending = np.arange(len(results) - 1, -1, -1, dtype=np.int32)
    rank_of[results[::-1]] = descending  # the lowest rank is written last
    return rank_of


def _find_unmergeable(atoms: TokenAtoms, merges: Merges, eligible: Flags) -> Spellings:
    """Return the eligible tokens that merging their atoms does not make."""
    from volt.kernels.bpe_tables import spellings

    selected = atoms.only(eligible & (atoms.sizes > 1))
    symbols, ends = merge_tokens(selected, merges)
    is_made = ends_to_sizes(ends) == 1
    is_made[is_made] = symbols[ends[is_made] - 1] == np.flatnonzero(is_made)
    return spellings(*selected.only(~is_made))


@dataclass(frozen=True, slots=True)
class MergedWords:
    """Counted words before and after a vocabulary's merges.

    Unlike in encoding, scaffolding is not split back into its parts, so that callers can count it.

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
        from volt.kernels.arrays import Words

        check_same_words(vocabulary, counts)
        tables = MergeTables.of(vocabulary)
        atoms, atom_ends = tables.atoms(*join_words(counts.words))
        without_parts = replace(tables, parts=np.full_like(tables.parts, NEVER_SPLIT))
        symbols, ends = without_parts.encode_atoms(atoms, atom_ends)
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
