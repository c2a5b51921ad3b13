"""`MergeTables`: a vocabulary as compiled code sees it, and pieces as people see them.

Tokens are numbered with atoms first, then in the order in which merges make them. A symbol is such a number, or
−1 − code for a character that the vocabulary does not know, or that a user token is hidden behind. A private character
of the text itself, which is marked where there are user tokens, counts as one beyond Unicode where it is not known.

>>> from volt.vocabulary import Vocabulary
>>> tables = MergeTables.of(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "w</w>", "lo")))
>>> symbols, ends = tables.encode(["low", "lot"])
>>> [tables.spell(symbol) for symbol in symbols.tolist()], ends.tolist()
([('lo',), ('w</w>',), ('lo',), ('t</w>',)], [2, 4])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.encode.rank_pairs import NOTHING, Spelled, all_pairs, own_pairs, own_tokens, unmerged
from volt.errors import VocabularyError
from volt.text.atoms import atom_code, atom_codes, atom_text, text_codes
from volt.text.byte_alphabet import ALPHABET, to_characters
from volt.text.markers import BYTE_TOKENS, SUFFIX, Marker
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN
from volt.text.stand_ins import marked
from volt.vocabulary import Vocabulary
from volt.vocabulary.vocabulary import Merging

if TYPE_CHECKING:
    from volt.kernels.pair_table import Merges
    from volt.kernels.spellings import Spellings
    from volt.kernels.words import PieceRule

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
_BEYOND = 2 * 0x110000  # codes from here on are those of private characters of the text itself
NO_STATE = 0  # of a generator that nothing draws from


@dataclass(frozen=True)
class MergeTables:
    """A vocabulary as compiled code sees it.

    symbol_of: (2 · 0x110000,) int32, the atom of each code, or −1 − code if there is none
    codes: the code of each atom
    merges: the ranked merges, those that are met where dropout passes over none
    kept: (n_tokens,) uint8, whether each token belongs to the vocabulary
    parts: (n_tokens,) int64, the pair key of each token's parts, −1 for what no merge makes
    words: the tokens that words are looked up for, as merging does not make them; empty where no words are looked up
    tokens: the string of each token: atoms, what merges make, then what only whole words are
    spelled: the symbols that each token is made of, where that matters
    """

    vocabulary: Vocabulary
    symbol_of: Ints
    codes: list[int]
    merges: Merges
    kept: NDArray[np.uint8]
    parts: Longs
    words: Spellings
    tokens: tuple[str, ...]
    spelled: Spelled

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> MergeTables:
        """The tables of a vocabulary. Raises VocabularyError if it has more than two million tokens or merges."""
        codes = [atom_code(atom, marker=vocabulary.marker) or 0 for atom in vocabulary.atoms]
        made, symbol_of = vocabulary.made, _symbols(codes)
        tokens = tuple(dict.fromkeys(chain(vocabulary.atoms, made, vocabulary.tokens)))
        _check_size(len(tokens), len(made))
        numbers = dict(zip(tokens, count()))
        lefts, rights = (_numbered(numbers, [pair[side] for pair in vocabulary.merges]) for side in (0, 1))
        results, keys = _numbered(numbers, made), lefts.astype(np.int64) << 32 | rights
        parts, kept = np.full(len(tokens), -1), np.zeros(len(tokens), np.uint8)
        parts[results[::-1]] = keys[::-1]  # of several merges that make a token, the first is written last
        kept[_numbered(numbers, vocabulary.tokens)] = 1
        is_spelled = vocabulary.merging == "ranks" or vocabulary.whole_words
        spelled = _spelled(tokens, symbol_of, vocabulary.marker) if is_spelled else NOTHING
        merges = _merges(vocabulary.merging, lefts, rights, results, spelled)
        return cls(
            vocabulary=vocabulary,
            symbol_of=symbol_of,
            codes=codes,
            merges=merges,
            kept=kept,
            parts=parts,
            words=_words(vocabulary, spelled, merges, kept),
            spelled=spelled,
            tokens=tokens,
        )

    @cached_property
    def sampled_merges(self) -> Merges:
        """The merges that dropout draws from: where tokens join by rank, all ways to make each."""
        is_ranked = self.vocabulary.merging == "ranks"
        return all_pairs(self.spelled, self.merges.results) if is_ranked else self.merges

    @property
    def rule(self) -> PieceRule:
        """What becomes of merged tokens."""
        from volt.kernels.words import PieceRule

        return PieceRule(self.kept, self.parts, self.words)

    def atoms(self, text: str, lengths: Longs) -> tuple[Ints, Longs]:
        """The atoms of words as symbols, and where each word's end. The words are one text, cut by their lengths."""
        return self._symbols(*text_codes(text, lengths, marker=self.vocabulary.marker))

    def encode(self, words: Sequence[str], *, dropout: float = 0.0, state: int = NO_STATE) -> tuple[Ints, Longs]:
        """The pieces of words as symbols, and where each word's end. state: where dropout's generator starts."""
        symbols, ends = self._symbols(*atom_codes(words, marker=self.vocabulary.marker))
        return self.encode_atoms(symbols, ends, dropout=dropout, state=state)

    def _symbols(self, codes: Longs, ends: Longs) -> tuple[Ints, Longs]:
        """The symbols of atoms, less the marks in front of private characters, and where each word's end."""
        symbols, characters = self.symbol_of[codes], codes >> 1
        if not self.vocabulary.special.user or characters.max(initial=0) < FIRST_HIDDEN:
            return symbols, ends
        marks, hidden = marked(characters), (characters >= FIRST_HIDDEN) & (characters <= LAST_HIDDEN)
        own = symbols[marks + 1]
        symbols[hidden] = -1 - codes[hidden]
        symbols[marks + 1] = np.where(own < 0, own - _BEYOND, own)
        return np.delete(symbols, marks), ends - np.searchsorted(marks, ends)

    def encode_atoms(
        self, atoms: Ints, ends: Longs, *, dropout: float = 0.0, state: int = NO_STATE
    ) -> tuple[Ints, Longs]:
        """The same for words that are given as their atoms."""
        from volt.kernels.words import encode_words

        merges = self.sampled_merges if dropout else self.merges
        return encode_words(atoms, ends, merges, self.rule, dropout, np.array([state]))

    def spell(self, symbol: int) -> tuple[str, ...]:
        """The pieces that a symbol stands for: one, but for user tokens at the end of a word, and bytes."""
        if symbol >= 0 and (self.kept[symbol] or not self.vocabulary.byte_fallback):
            return (self.tokens[symbol],)
        code = -1 - symbol if symbol < 0 else self.codes[symbol]
        user = self.vocabulary.special.revealed(code >> 1) if symbol < 0 else None
        if user is not None:
            return (user, SUFFIX)[: 1 + (code & 1 and not self.vocabulary.pretokenizer.isolates_users)]
        code %= _BEYOND
        character, final = chr(code >> 1), code & 1
        if self.vocabulary.pretokenizer.is_bytes and character not in ALPHABET:  # only a word given as it stands
            return tuple(to_characters(character.encode()))
        if self.vocabulary.byte_fallback and not self.vocabulary.pretokenizer.is_bytes:
            return (*(BYTE_TOKENS[byte] for byte in character.encode()), SUFFIX)[: len(character.encode()) + final]
        return (atom_text(code),)


def _symbols(codes: Sequence[int]) -> Ints:
    """The symbol of every possible atom code, of which these are the known ones."""
    symbols = np.arange(-1, -1 - 2 * 0x110000, -1, dtype=np.int32)  # in an eighth of the time of -1 - np.arange(…)
    symbols[codes] = np.arange(len(codes), dtype=np.int32)
    return symbols


def _merges(merging: Merging, lefts: Ints, rights: Ints, results: Ints, spelled: Spelled) -> Merges:
    """The ranked merges of pairs, or of all neighbours that spell a token."""
    from volt.kernels.pair_table import ranked_merges

    if merging == "ranks":
        return own_pairs(spelled, results)
    return ranked_merges(lefts, rights, results, one_by_one=merging == "steps")


def _words(vocabulary: Vocabulary, spelled: Spelled, merges: Merges, kept: NDArray[np.uint8]) -> Spellings:
    """The tokens that words are looked up for."""
    from volt.kernels.spellings import no_spellings

    if not vocabulary.whole_words:
        return no_spellings()
    asked = kept != 0
    if vocabulary.merging == "ranks":
        asked[own_tokens(merges)] = False
    return unmerged(spelled, merges, asked)


def _check_size(n_tokens: int, n_merges: int) -> None:
    """Raise VocabularyError if there are too many for the table of pairs."""
    from volt.kernels.pair_table import MOST

    if max(n_tokens, n_merges) > MOST:
        raise VocabularyError(
            f"{n_tokens:,} tokens and {n_merges:,} merges: at most {MOST:,} of each; choose a smaller size"
        )


def _numbered(numbers: Mapping[str, int], tokens: Sequence[str]) -> Ints:
    """The numbers of tokens."""
    return np.fromiter(map(numbers.__getitem__, tokens), np.int32, len(tokens))


def _spelled(tokens: Sequence[str], symbol_of: Ints, marker: Marker) -> Spelled:
    """The symbols that tokens are made of."""
    final = np.array([marker == "suffix" and token.endswith(SUFFIX) and token != SUFFIX for token in tokens], bool)
    bare = [token.removesuffix(SUFFIX) for token in tokens] if final.any() else tokens
    codes, ends = atom_codes(bare, marker="none")
    codes[ends[final] - 1] += 1
    return Spelled(symbol_of[codes], ends)
