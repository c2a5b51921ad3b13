"""`MergeTables`: a vocabulary's merges as arrays for compiled code, and symbols → pieces.

Atoms are numbered first, then tokens in the order in which merges make them. A symbol is such a number, or `-1 - code`
for an unknown character or a private character that stands for a user token. If a text itself contains such private
characters, these have codes beyond Unicode. If a run of unknown characters is one piece, all but its last have codes
from `_INSIDE` on.

With merging "ranks", any two neighbours that spell a token may join, lowest rank first; without dropout, only one pair
ever makes each token (see volt.encode.reachable).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


class Spelled(NamedTuple):
    """The symbols of tokens: symbols, (n_symbols,) int32; ends, (n_tokens,) int64, where each token ends."""

    symbols: Ints
    ends: Longs

    @property
    def sizes(self) -> Longs:
        return np.diff(self.ends, prepend=0)

    def only(self, chosen: NDArray[np.bool_]) -> Spelled:
        """Return only the chosen tokens' symbols; other tokens keep their numbers, without symbols."""
        return Spelled(
            self.symbols[np.repeat(chosen, self.sizes)], np.cumsum(np.where(chosen, self.sizes, 0))
        )


NOTHING = Spelled(np.zeros(0, np.int32), np.zeros(0, np.int64))


def own_pairs(spelled: Spelled, results: Ints) -> Merges:
    """Return the merges that occur without dropout, one for each merged token.

    results: (n_ranks,), the token of each rank
    """
    from volt.kernels.bpe_tables import filled

    return filled(len(results), results, partial(_entered, spelled=spelled), one_by_one=True)


def _entered(merges: Merges, spelled: Spelled) -> bool:
    """Enter the pairs of all tokens into `merges`, shorter tokens first. Return False if a table is full."""
    from volt.kernels.bpe_tables import fill

    ranks, sizes = _ranks(merges.results, len(spelled.ends)), spelled.sizes
    for size in np.unique(sizes[(ranks >= 0) & (sizes > 1)]).tolist():
        tokens = np.flatnonzero((sizes == size) & (ranks >= 0))
        symbols = spelled.symbols[(spelled.ends[tokens] - size)[:, None] + np.arange(size)]
        alike = Spelled(symbols.ravel(), np.arange(1, len(tokens) + 1) * size)
        pieces, ends = merged(alike, merges)
        are_two = np.diff(ends, prepend=0) == 2
        lefts, rights = (pieces[ends[are_two] - place] for place in (2, 1))
        are_known = (lefts >= 0) & (rights >= 0)
        result = lefts[are_known], rights[are_known], ranks[tokens[are_two][are_known]]
        if not fill(merges.pairs, *result):
            return False
    return True


def merged(spelled: Spelled, merges: Merges) -> tuple[Ints, Longs]:
    """Return the tokens, kept or not, that the symbols of each text merge into, and where each text's tokens end."""
    from volt.kernels.apply_bpe import PieceRule, encode_words
    from volt.kernels.bpe_tables import no_spellings

    n = int(max(merges.results.max(initial=0), spelled.symbols.max(initial=0))) + 1
    keep = PieceRule(np.ones(n, np.uint8), np.full(n, -1), no_spellings())
    return encode_words(*spelled, merges, keep, 0.0, np.zeros(1, np.int64))


def all_pairs(spelled: Spelled, results: Ints) -> Merges:
    """Return all pairs of tokens that spell a token with a rank. results: see `own_pairs`"""
    from volt.kernels.bpe_tables import cuts, ranked_merges, spellings

    ranks = _ranks(results, len(spelled.ends))
    lefts, rights, wholes = cuts(spellings(*spelled))
    is_made = ranks[wholes] >= 0
    return ranked_merges(
        lefts[is_made], rights[is_made], results, ranks=ranks[wholes[is_made]], one_by_one=True
    )


def unmerged(spelled: Spelled, merges: Merges, eligible: NDArray[np.bool_]) -> Spellings:
    """Return the eligible tokens whose symbols do not merge into them; encoding must look these tokens up."""
    from volt.kernels.bpe_tables import spellings

    chosen = spelled.only(eligible & (spelled.sizes > 1))
    pieces, ends = merged(chosen, merges)
    is_made, numbers = np.diff(ends, prepend=0) == 1, np.arange(len(ends))
    is_made[is_made] = pieces[ends[is_made] - 1] == numbers[is_made]
    return spellings(*chosen.only(~is_made))


def _ranks(results: Ints, n: int) -> Ints:
    ranks = np.full(n, -1, np.int32)
    ranks[results[::-1]] = np.arange(len(results), dtype=np.int32)[::-1]
    return ranks


_BEYOND = 2 * 0x110000  # where the codes of the text's own private characters start
_INSIDE = (
    2 * _BEYOND
)  # where the codes of unknown characters start that the next unknown character continues
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
    tokens: the strings of atoms, then of merged tokens, then of the vocabulary's other tokens
    spelled: the symbols of each token, needed to merge by ranks or look up whole words
    """

    vocabulary: Vocabulary
    symbol_of: Ints
    codes: list[int]
    merges: Merges
    retained: NDArray[np.uint8]
    parts: Longs
    words: Spellings
    tokens: tuple[str, ...]
    spelled: Spelled

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> MergeTables:
        """Return a vocabulary's tables. Raises VocabularyError for more than two million tokens or merges."""
        from volt.kernels.bpe_tables import MOST, no_spellings, pairs_met, ranked_merges

        codes = [atom_code(atom, marker=vocabulary.marker) or 0 for atom in vocabulary.atoms]
        symbol_of = np.arange(
            -1, -1 - 2 * 0x110000, -1, dtype=np.int32
        )  # eight times as fast as -1 - np.arange(…)
        symbol_of[codes] = np.arange(len(codes), dtype=np.int32)
        tokens, (lefts, rights, results, own) = vocabulary.numbering
        if max(len(tokens), len(results)) > MOST:  # for the table of pairs
            raise VocabularyError(
                f"{len(tokens):,} tokens and {len(results):,} merges: at most {MOST:,} of each; choose a smaller size"
            )
        keys = lefts.astype(np.int64) << 32 | rights
        parts, retained = np.full(len(tokens), -1), np.zeros(len(tokens), np.uint8)
        parts[results[::-1]] = keys[
            ::-1
        ]  # if several merges make a token, the first merge is written last
        retained[own] = 1
        spelled, words, is_ranked = NOTHING, no_spellings(), vocabulary.merging == "ranks"
        if is_ranked or vocabulary.whole_words:
            spelled = _spelled(tokens, symbol_of, vocabulary.marker)
        if is_ranked:
            merges = own_pairs(spelled, results)
        else:
            merges = ranked_merges(lefts, rights, results, one_by_one=vocabulary.merging == "steps")
        if vocabulary.whole_words:
            eligible = retained != 0
            if is_ranked:  # merging their own symbols makes these tokens
                eligible[merges.results[pairs_met(merges)[2]]] = False
            words = unmerged(spelled, merges, eligible)
        return cls(vocabulary, symbol_of, codes, merges, retained, parts, words, tokens, spelled)

    @cached_property
    def sampled_merges(self) -> Merges:
        """The merges that dropout may skip; if tokens merge by ranks, all pairs that spell a token."""
        is_ranked = self.vocabulary.merging == "ranks"
        return all_pairs(self.spelled, self.merges.results) if is_ranked else self.merges

    @staticmethod
    def is_continued(symbol: int) -> bool:
        """Check whether the next unknown character belongs to the same piece."""
        return symbol < -_INSIDE

    @property
    def rule(self) -> PieceRule:
        from volt.kernels.apply_bpe import PieceRule

        return PieceRule(self.retained, self.parts, self.words)

    def atoms(self, text: str, lengths: Longs) -> tuple[Ints, Longs]:
        """Return the atoms of words as symbols, and where each word ends. text: the words, concatenated."""
        return self._symbols(*text_codes(text, lengths, marker=self.vocabulary.marker))

    def encode(
        self, words: Sequence[str], *, dropout: float = 0.0, state: int = NO_STATE
    ) -> tuple[Ints, Longs]:
        """Return the pieces of words as symbols, and where each word ends. state: dropout's generator"""
        symbols, ends = self._symbols(*atom_codes(words, marker=self.vocabulary.marker))
        return self.encode_atoms(symbols, ends, dropout=dropout, state=state)

    def _symbols(self, codes: Longs, ends: Longs) -> tuple[Ints, Longs]:
        symbols, ends = self._unfused(codes, ends)
        if self.vocabulary.fuse_unk and not self.vocabulary.byte_fallback:
            unknown = (symbols < 0) & ~self._are_users(symbols)
            continued = unknown[:-1] & unknown[1:]
            continued[ends[:-1] - 1] = False
            symbols[:-1][continued] -= _INSIDE
        return symbols, ends

    def _are_users(self, symbols: Ints) -> NDArray[np.bool_]:
        characters = -1 - symbols >> 1
        in_range = (characters >= FIRST_HIDDEN) & (characters <= LAST_HIDDEN)
        return in_range if self.vocabulary.special.user else np.zeros(len(symbols), bool)

    def _unfused(self, codes: Longs, ends: Longs) -> tuple[Ints, Longs]:
        symbols, characters = self.symbol_of[codes], codes >> 1
        if not self.vocabulary.special.user or characters.max(initial=0) < FIRST_HIDDEN:
            return symbols, ends
        marks, hidden = (
            marked(characters),
            (characters >= FIRST_HIDDEN) & (characters <= LAST_HIDDEN),
        )
        own = symbols[marks + 1]
        symbols[hidden] = -1 - codes[hidden]
        symbols[marks + 1] = np.where(own < 0, own - _BEYOND, own)
        dropped = marks
        if self.vocabulary.marker == "prefix" and self.vocabulary.pretokenizer.isolates_users:
            hidden[[*marks, *(marks + 1)]] = False
            dropped = np.union1d(
                marks, np.flatnonzero(hidden) - 1
            )  # the "▁" before each user token
        return np.delete(symbols, dropped), ends - np.searchsorted(dropped, ends)

    def encode_atoms(
        self, atoms: Ints, ends: Longs, *, dropout: float = 0.0, state: int = NO_STATE
    ) -> tuple[Ints, Longs]:
        from volt.kernels.apply_bpe import encode_words

        merges = self.sampled_merges if dropout else self.merges
        return encode_words(atoms, ends, merges, self.rule, dropout, np.array([state]))

    def spell(self, symbol: int) -> tuple[str, ...]:
        """Return the pieces of a symbol. Byte tokens, or a user token at the end of a word, are several pieces.

        The character of a symbol that `is_continued` is the start of a piece.
        """
        if symbol >= 0 and (self.retained[symbol] or not self.vocabulary.byte_fallback):
            return (self.tokens[symbol],)
        code = -1 - symbol if symbol < 0 else self.codes[symbol]
        user = self.vocabulary.special.revealed(code >> 1) if symbol < 0 else None
        if user is not None:
            return (user, SUFFIX)[
                : 1 + (code & 1 and not self.vocabulary.pretokenizer.isolates_users)
            ]
        code %= _BEYOND
        character, final = chr(code >> 1), code & 1
        if (
            self.vocabulary.pretokenizer.is_bytes and character not in ALPHABET
        ):  # only in words passed by callers
            return tuple(to_characters(character.encode()))
        if self.vocabulary.byte_fallback and not self.vocabulary.pretokenizer.is_bytes:
            return (*(BYTE_TOKENS[byte] for byte in character.encode()), SUFFIX)[
                : len(character.encode()) + final
            ]
        return (atom_text(code),)


def _spelled(tokens: Sequence[str], symbol_of: Ints, marker: Marker) -> Spelled:
    final = np.array(
        [marker == "suffix" and token.endswith(SUFFIX) and token != SUFFIX for token in tokens],
        bool,
    )
    bare = [token.removesuffix(SUFFIX) for token in tokens] if final.any() else tokens
    codes, ends = atom_codes(bare, marker="none")
    codes[ends[final] - 1] += 1
    return Spelled(symbol_of[codes], ends)


@dataclass(frozen=True, slots=True)
class MergedWords:
    """Words after a vocabulary's merges, before tokens are split back.

    atoms: the atoms of the words
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
        atoms, ends = tables._symbols(*atom_codes(counts.words, marker=vocabulary.marker))
        whole = tables.rule._replace(parts=np.full_like(tables.parts, -1))
        symbols, merged_ends = encode_words(
            atoms, ends, tables.merges, whole, 0.0, np.zeros(1, np.int64)
        )
        return cls(
            tables, Words(atoms, ends, counts.counts), Words(symbols, merged_ends, counts.counts)
        )

    def token_counts(self) -> Longs:
        return occurrences(self.words, len(self.tables.tokens))


def occurrences(words: Words, n_symbols: int) -> Longs:
    """Count the occurrences of each symbol that is not negative, (n_symbols,) int64."""
    result, known = np.zeros(n_symbols, np.int64), words.symbols >= 0
    np.add.at(
        result, words.symbols[known], np.repeat(words.counts, np.diff(words.ends, prepend=0))[known]
    )
    return result


def check_same_words(vocabulary: Vocabulary, counts: WordCounts) -> None:
    """Raise CorpusError unless words were normalised and split with the vocabulary's settings."""
    for name in ("normalizer", "pretokenizer"):
        ours, theirs = getattr(vocabulary, name), getattr(counts, name)
        if ours != theirs:
            raise CorpusError(
                f"the words were counted with {name} {shown(theirs.name)!r}, and the vocabulary has "
                f"{shown(ours.name)!r}; count with {name}=vocabulary.{name}"
            )
