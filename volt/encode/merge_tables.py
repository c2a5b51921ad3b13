"""`MergeTables`: a vocabulary's merges as arrays for compiled code, and symbols → pieces.

A symbol is the number of an atom or token: atoms come first, then tokens in the order in which merges make them, then
the vocabulary's other tokens. The symbol of an unknown character, or of a private character that stands for a user
token, is `-1 - code`. Private characters of the text itself have codes from `_OWN_PRIVATE` on. If a run of unknown
characters is one piece, all but its last character have codes from `_CONTINUED` on.

With merging "ranks", any two neighbours that spell a token may join, lowest rank first; without dropout, only one pair
ever makes each token (see volt.encode.reachable).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.encode.arrays import Bytes, Flags, Ints, Longs, sizes_of
from volt.errors import CorpusError, VocabularyError, shown
from volt.text.atoms import SUFFIX, Marker, atom_code, atom_codes, atom_text, text_codes
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS, to_characters
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN, marked
from volt.vocabulary import Vocabulary

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
        return sizes_of(self.ends)

    def only(self, chosen: Flags) -> TokenAtoms:
        """Return the atoms of chosen tokens; other tokens keep their numbers, without atoms."""
        sizes = self.sizes
        symbols = self.symbols[np.repeat(chosen, sizes)]
        return TokenAtoms(symbols, np.cumsum(sizes * chosen))


def merged(atoms: TokenAtoms, merges: Merges) -> tuple[Ints, Longs]:
    """Merge each token's atoms. Return symbols, even of scaffolding, and where those of each token end."""
    from volt.kernels.apply_bpe import PieceRule, encode_words
    from volt.kernels.bpe_tables import no_spellings

    symbols = np.append(merges.results, atoms.symbols)
    n = int(symbols.max(initial=0)) + 1
    retain_all = PieceRule(np.ones(n, np.uint8), np.full(n, -1), no_spellings())
    state = np.zeros(1, np.int64)
    return encode_words(*atoms, merges, retain_all, 0.0, state)


def _ranks(results: Ints, n_tokens: int) -> Ints:
    """Return the lowest rank at which a merge makes each token; -1 for others."""
    ranks = np.full(n_tokens, -1, np.int32)
    downward = np.arange(len(results) - 1, -1, -1, dtype=np.int32)
    ranks[results[::-1]] = downward  # the lowest rank is written last
    return ranks


def _own_pairs(atoms: TokenAtoms, results: Ints) -> Merges:
    """Return the merges that occur without dropout, one for each merged token.

    results: (n_ranks,), the token of each rank
    """
    from volt.kernels.bpe_tables import fill_merges

    enter = partial(_enter_own_pairs, atoms=atoms)
    return fill_merges(len(results), results, enter, one_by_one=True)


def _enter_own_pairs(merges: Merges, atoms: TokenAtoms) -> bool:
    """Enter the pairs of all tokens into `merges`, shorter tokens first. Return False if a table is full."""
    from volt.kernels.bpe_tables import fill

    ranks = _ranks(merges.results, len(atoms.ends))
    sizes = atoms.sizes
    is_merged = (ranks >= 0) & (sizes > 1)

    for size in np.unique(sizes[is_merged]).tolist():
        tokens = np.flatnonzero(is_merged & (sizes == size))
        starts = atoms.ends[tokens] - size
        places = starts[:, None] + np.arange(size)
        ends = np.arange(1, len(tokens) + 1) * size
        chosen = TokenAtoms(atoms.symbols[places].ravel(), ends)
        symbols, ends = merged(chosen, merges)

        are_two = sizes_of(ends) == 2
        lefts = symbols[ends[are_two] - 2]
        rights = symbols[ends[are_two] - 1]
        are_known = (lefts >= 0) & (rights >= 0)
        pair_ranks = ranks[tokens[are_two][are_known]]
        if not fill(merges.pairs, lefts[are_known], rights[are_known], pair_ranks):
            return False
    return True


def _all_pairs(atoms: TokenAtoms, results: Ints) -> Merges:
    """Return all pairs of tokens that spell a token with a rank. results: see `_own_pairs`"""
    from volt.kernels.bpe_tables import cuts, ranked_merges, spellings

    lefts, rights, wholes = cuts(spellings(*atoms))
    ranks = _ranks(results, len(atoms.ends))[wholes]
    is_merged = ranks >= 0
    return ranked_merges(
        lefts[is_merged], rights[is_merged], results, ranks=ranks[is_merged], one_by_one=True
    )


def _unmerged(atoms: TokenAtoms, merges: Merges, eligible: Flags) -> Spellings:
    """Return the eligible tokens whose atoms do not merge into them; encoding must look these tokens up."""
    from volt.kernels.bpe_tables import spellings

    chosen = atoms.only(eligible & (atoms.sizes > 1))
    symbols, ends = merged(chosen, merges)
    is_merged = sizes_of(ends) == 1
    is_merged[is_merged] = symbols[ends[is_merged] - 1] == np.flatnonzero(is_merged)
    return spellings(*chosen.only(~is_merged))


_OWN_PRIVATE = 2 * 0x110000
_CONTINUED = 2 * _OWN_PRIVATE
NO_STATE = 0  # state of a generator that is not used


@dataclass(frozen=True)
class MergeTables:
    """A vocabulary as arrays for compiled code.

    symbol_of: (2 · 0x110000,) int32, the atom of each code, or `-1 - code` for a code without an atom
    codes: the code of each atom
    merges: the ranked merges that occur without dropout
    retained: (n_tokens,) uint8, 1 for tokens of the vocabulary
    parts: (n_tokens,) int64, the key of the pair that each token is split back into; -1 if no merge makes the token
    words: the tokens that need a lookup of whole words
    tokens: the string of each symbol of 0 or more
    token_atoms: the atoms of each token, needed to merge by ranks or look up whole words
    """

    vocabulary: Vocabulary
    symbol_of: Ints
    codes: list[int]
    merges: Merges
    retained: Bytes
    parts: Longs
    words: Spellings
    tokens: tuple[str, ...]
    token_atoms: TokenAtoms

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> MergeTables:
        """Return a vocabulary's tables. Raises VocabularyError for more than two million tokens or merges."""
        from volt.kernels.bpe_tables import MOST, no_spellings, pairs_met, ranked_merges

        tokens, lefts, rights, results, own = vocabulary.numbering
        if max(len(tokens), len(results)) > MOST:  # for the table of pairs
            raise VocabularyError(
                f"{len(tokens):,} tokens and {len(results):,} merges: at most {MOST:,} of each; choose a smaller size"
            )

        codes = [atom_code(atom, marker=vocabulary.marker) or 0 for atom in vocabulary.atoms]
        # eight times as fast as -1 - np.arange(…)
        symbol_of = np.arange(-1, -1 - _OWN_PRIVATE, -1, dtype=np.int32)
        symbol_of[codes] = np.arange(len(codes), dtype=np.int32)

        keys = lefts.astype(np.int64) << 32 | rights
        parts = np.full(len(tokens), -1)
        parts[results[::-1]] = keys[::-1]  # the first merge that makes a token is written last
        retained = np.zeros(len(tokens), np.uint8)
        retained[own] = 1

        is_ranked = vocabulary.merging == "ranks"
        token_atoms = TokenAtoms(np.zeros(0, np.int32), np.zeros(0, np.int64))
        if is_ranked or vocabulary.whole_words:
            token_atoms = _atoms_of(tokens, symbol_of, vocabulary.marker)
        if is_ranked:
            merges = _own_pairs(token_atoms, results)
        else:
            merges = ranked_merges(lefts, rights, results, one_by_one=vocabulary.merging == "steps")

        words = no_spellings()
        if vocabulary.whole_words:
            eligible = retained != 0
            if is_ranked:  # merging their own atoms makes these tokens
                eligible[merges.results[pairs_met(merges)[2]]] = False
            words = _unmerged(token_atoms, merges, eligible)
        return cls(
            vocabulary, symbol_of, codes, merges, retained, parts, words, tokens, token_atoms
        )

    @cached_property
    def sampled_merges(self) -> Merges:
        """The merges that dropout may skip; if tokens merge by ranks, all pairs that spell a token."""
        if self.vocabulary.merging == "ranks":
            return _all_pairs(self.token_atoms, self.merges.results)
        return self.merges

    @property
    def rule(self) -> PieceRule:
        from volt.kernels.apply_bpe import PieceRule

        return PieceRule(self.retained, self.parts, self.words)

    def pieces(
        self, words: Sequence[str], *, dropout: float = 0.0, state: int = NO_STATE
    ) -> list[tuple[str, ...]]:
        """Return the pieces of each word. state: dropout's generator"""
        if not words:
            return []
        atoms, ends = self.atoms_of_words(words)
        symbols, ends = self.encode_atoms(atoms, ends, dropout=dropout, state=state)
        numbers = symbols.tolist()
        spelled = list(map(self.spell, numbers))
        if self.vocabulary.fuse_unk:
            for place in reversed(range(len(numbers))):
                if self.is_continued(numbers[place]):
                    spelled[place] = (spelled[place][0] + spelled[place + 1][0],)
                    spelled[place + 1] = ()
        return [
            tuple(chain.from_iterable(spelled[start:end]))
            for start, end in pairwise([0, *ends.tolist()])
        ]

    def encode_atoms(
        self, atoms: Ints, ends: Longs, *, dropout: float = 0.0, state: int = NO_STATE
    ) -> tuple[Ints, Longs]:
        from volt.kernels.apply_bpe import encode_words

        merges = self.sampled_merges if dropout else self.merges
        return encode_words(atoms, ends, merges, self.rule, dropout, np.array([state]))

    def atoms_of_words(self, words: Sequence[str]) -> tuple[Ints, Longs]:
        """Return the atoms of words as symbols, and where each word ends."""
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        return self.atoms("".join(words), lengths)

    def atoms(self, text: str, lengths: Longs) -> tuple[Ints, Longs]:
        """Return the atoms of words as symbols, and where each word ends. text: the words, concatenated."""
        codes, ends = text_codes(text, lengths, marker=self.vocabulary.marker)
        symbols = self.symbol_of[codes]
        has_users = bool(self.vocabulary.special.user)
        if has_users and (codes >> 1).max(initial=0) >= FIRST_HIDDEN:
            symbols, ends = self._with_users(symbols, codes, ends)

        if self.vocabulary.fuse_unk and not self.vocabulary.byte_fallback:
            is_unknown = symbols < 0
            if has_users:
                is_unknown &= ~_are_hidden(-1 - symbols >> 1)
            is_continued = is_unknown[:-1] & is_unknown[1:]
            is_continued[ends[:-1] - 1] = False
            symbols[:-1][is_continued] -= _CONTINUED
        return symbols, ends

    def _with_users(self, symbols: Ints, codes: Longs, ends: Longs) -> tuple[Ints, Longs]:
        """Give user tokens and the text's own private characters their symbols; remove marks."""
        characters = codes >> 1
        marks = marked(characters)
        own = marks + 1
        hidden = _are_hidden(characters)
        hidden[marks] = False
        hidden[own] = False
        symbols[hidden] = -1 - codes[hidden]
        symbols[own[symbols[own] < 0]] -= _OWN_PRIVATE

        removed = marks
        if self.vocabulary.marker == "prefix" and self.vocabulary.pretokenizer.isolates_users:
            removed = np.union1d(marks, np.flatnonzero(hidden) - 1)  # "▁" before each user token
        return np.delete(symbols, removed), ends - np.searchsorted(removed, ends)

    @staticmethod
    def is_continued(symbol: int) -> bool:
        """Check whether the next unknown character belongs to the same piece."""
        return symbol < -_CONTINUED

    def spell(self, symbol: int) -> tuple[str, ...]:
        """Return the pieces of a symbol. Byte tokens, or a user token at the end of a word, are several pieces.

        The character of a symbol that `is_continued` is the start of a piece.
        """
        vocabulary = self.vocabulary
        pretokenizer = vocabulary.pretokenizer
        if symbol >= 0 and (self.retained[symbol] or not vocabulary.byte_fallback):
            return (self.tokens[symbol],)

        code = -1 - symbol if symbol < 0 else self.codes[symbol]
        ends_word = code & 1
        user = vocabulary.special.revealed(code >> 1) if symbol < 0 else None
        if user is not None:
            if ends_word and not pretokenizer.isolates_users:
                return (user, SUFFIX)
            return (user,)

        code %= _OWN_PRIVATE
        data = chr(code >> 1).encode()
        if pretokenizer.is_bytes and chr(code >> 1) not in ALPHABET:  # from words of callers
            return tuple(to_characters(data))
        if vocabulary.byte_fallback and not pretokenizer.is_bytes:
            pieces = tuple(BYTE_TOKENS[byte] for byte in data)
            if ends_word:
                return (*pieces, SUFFIX)
            return pieces
        return (atom_text(code),)


def _are_hidden(characters: NDArray[np.integer]) -> Flags:
    return (characters >= FIRST_HIDDEN) & (characters <= LAST_HIDDEN)


def _atoms_of(tokens: Sequence[str], symbol_of: Ints, marker: Marker) -> TokenAtoms:
    has_marker = np.zeros(len(tokens), bool)
    if marker == "suffix":
        has_marker[:] = [token.endswith(SUFFIX) and token != SUFFIX for token in tokens]
    if has_marker.any():
        tokens = [token.removesuffix(SUFFIX) for token in tokens]

    codes, ends = atom_codes(tokens, marker="none")
    codes[ends[has_marker] - 1] += 1
    return TokenAtoms(symbol_of[codes], ends)


@dataclass(frozen=True, slots=True)
class MergedWords:
    """Words after a vocabulary's merges, before tokens are split back.

    atoms: the words as atoms
    words: the words as tokens, even tokens outside the vocabulary; `-1 - code` for an unknown character
    """

    tables: MergeTables
    atoms: Words
    words: Words

    @classmethod
    def of(cls, vocabulary: Vocabulary, counts: WordCounts) -> MergedWords:
        """Merge counted words. Raises CorpusError if they were normalised or split with other settings."""
        from volt.kernels.apply_bpe import encode_words
        from volt.kernels.arrays import Words

        check_same_words(vocabulary, counts)
        tables = MergeTables.of(vocabulary)
        atoms, ends = tables.atoms_of_words(counts.words)
        whole = tables.rule._replace(parts=np.full_like(tables.parts, -1))
        state = np.zeros(1, np.int64)
        symbols, merged_ends = encode_words(atoms, ends, tables.merges, whole, 0.0, state)
        n_words = counts.counts
        return cls(tables, Words(atoms, ends, n_words), Words(symbols, merged_ends, n_words))

    def token_counts(self) -> Longs:
        return occurrences(self.words, len(self.tables.tokens))


def occurrences(words: Words, n_symbols: int) -> Longs:
    """Count the occurrences of each symbol that is not negative, (n_symbols,) int64."""
    word_counts = np.repeat(words.counts, sizes_of(words.ends))
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
