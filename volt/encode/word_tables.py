"""`WordTables`: a vocabulary as arrays for compiled code; words → symbols → pieces.

    "low"  →  symbol 4  →  "low</w>"

A *symbol* is the number of an atom or token. Symbols of 0 or more are indices of
`WordTables.tokens`: atoms come first, then tokens in the order in which merges make them, then the
vocabulary's other tokens. A symbol below 0 is -1 - code, and stands for

    an unknown character               code = 2 · code point + (1 at the end of a word)
    a user token                       code of its private character (volt.text.special_tokens)
    a private character of the text    its code + OWN_PRIVATE
    an unknown character whose piece continues (`fuse_unk`)    its code + CONTINUED

How a word becomes symbols depends on the model: see volt.encode.merge_tables and
volt.encode.score_tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.array_types import Bytes, Flags, Ints, Longs
from volt.encode.segmentation_sampling import SegmentationSampling
from volt.text.atoms import SUFFIX, atom_code, atom_text
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS, to_characters
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN, marked
from volt.vocabulary import Vocabulary

NEVER_SPLIT = -1  # in `WordTables.parts`
OWN_PRIVATE = 2 * 0x110000
CONTINUED = 2 * OWN_PRIVATE


@dataclass(frozen=True)
class WordTables:
    """A vocabulary's symbols, and how they are spelled.

    symbol_of: (2 · 0x110000,) int32, the symbol of the atom with each code; -1 - code if there is
        none
    codes: (n_atoms,) int64, the code of each atom
    retained: (n_tokens,) uint8, 1 for tokens of the vocabulary, 0 for scaffolding
    parts: (n_tokens,) int64, the two symbols that scaffolding is split back into, left << 32 |
        right; NEVER_SPLIT if no merge makes the token
    """

    vocabulary: Vocabulary
    symbol_of: Ints
    codes: Longs
    retained: Bytes
    parts: Longs

    @property
    def tokens(self) -> tuple[str, ...]:
        """The string of each symbol of 0 or more."""
        return self.vocabulary.numbering.strings

    @property
    def compiled(self) -> dict[str, Any]:
        """The fields of `UnitEncoder` (volt.kernels.encode_new_unit) with which it segments words."""
        raise NotImplementedError

    def segment(self, text: str, lengths: Longs) -> tuple[Ints, Longs]:
        """Return the symbols of words, and where each word's symbols end.

        text: the words, concatenated;  lengths: (n_words,) the characters of each word
        """
        raise NotImplementedError

    def pieces_of_lines(
        self,
        words_of_lines: Sequence[Sequence[str]],
        sampling: SegmentationSampling | None,
        first: int = 0,
    ) -> list[list[str]]:
        """Return the pieces of each line. first: the number of the first line, for sampling"""
        raise NotImplementedError

    def pieces(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the pieces of each word."""
        return self.spell_words(*self.segment(*join_words(words)))

    def spell_words(self, symbols: Ints, ends: Longs) -> list[tuple[str, ...]]:
        """Return the pieces of each word of symbols. ends: where each word's symbols end"""
        numbers = symbols.tolist()
        pieces_of_symbols = list(map(self.spell, numbers))
        if self.vocabulary.fuse_unk:  # join the characters of a run, from its end
            for index in reversed(range(len(numbers))):
                if self.is_continued(numbers[index]):
                    joined = pieces_of_symbols[index][0] + pieces_of_symbols[index + 1][0]
                    pieces_of_symbols[index] = (joined,)
                    pieces_of_symbols[index + 1] = ()
        return [
            tuple(chain.from_iterable(pieces_of_symbols[start:end]))
            for start, end in pairwise([0, *ends.tolist()])
        ]

    def _finish(self, symbols: Ints, codes: Longs, ends: Longs) -> tuple[Ints, Longs]:
        """Replace private characters, and mark unknown ones whose piece continues.

        codes: (n_symbols,) the code of each symbol; 0 for a symbol of several characters
        """
        has_users = bool(self.vocabulary.special.user)
        if has_users and (codes >> 1).max(initial=0) >= FIRST_HIDDEN:
            symbols, ends = self._replace_private(symbols, codes, ends)

        if fuses_unknown(self.vocabulary):
            is_unknown = symbols < 0
            if has_users:
                is_unknown &= ~_are_hidden(-1 - symbols >> 1)
            is_continued = is_unknown[:-1] & is_unknown[1:]
            is_continued[ends[(ends > 0) & (ends < len(symbols))] - 1] = False
            symbols[:-1][is_continued] -= CONTINUED
        return symbols, ends

    def _replace_private(self, symbols: Ints, codes: Longs, ends: Longs) -> tuple[Ints, Longs]:
        """Return the symbols with those of private characters, without the marks before them.

        A private character is one of the text itself after a mark, and otherwise a user token.
        """
        characters = codes >> 1
        marks = marked(characters)
        own = marks + 1
        is_user = _are_hidden(characters)
        is_user[marks] = False
        is_user[own] = False
        symbols[is_user] = -1 - codes[is_user]
        symbols[own[symbols[own] < 0]] -= OWN_PRIVATE

        removed = marks
        if self.vocabulary.marker == "prefix" and self.vocabulary.pretokenizer.isolates_users:
            removed = np.union1d(marks, np.flatnonzero(is_user) - 1)  # "▁" before each user token
        return np.delete(symbols, removed), ends - np.searchsorted(removed, ends)

    @staticmethod
    def is_continued(symbol: int) -> bool:
        """Check whether an unknown character's piece continues with the next symbol."""
        return symbol < -CONTINUED

    def spell(self, symbol: int) -> tuple[str, ...]:
        """Return the pieces of a symbol.

        A symbol has several pieces if it is spelled by byte tokens, or a user token at the end of a
        word. For a symbol that `is_continued`, return its character, which is only part of a piece.
        """
        vocabulary = self.vocabulary
        pretokenizer = vocabulary.pretokenizer
        if symbol >= 0 and (self.retained[symbol] or not vocabulary.byte_fallback):
            return (self.tokens[symbol],)

        code = -1 - symbol if symbol < 0 else int(self.codes[symbol])
        ends_word = code & 1
        user = vocabulary.special.revealed(code >> 1) if symbol < 0 else None
        if user is not None:
            if ends_word and not pretokenizer.isolates_users:
                return (user, SUFFIX)
            return (user,)

        code %= OWN_PRIVATE
        data = chr(code >> 1).encode()
        if pretokenizer.is_bytes and chr(code >> 1) not in ALPHABET:  # from words of callers
            return tuple(to_characters(data))
        if vocabulary.byte_fallback and not pretokenizer.is_bytes:
            pieces = tuple(BYTE_TOKENS[byte] for byte in data)
            if ends_word:
                return (*pieces, SUFFIX)
            return pieces
        return (atom_text(code),)


def fuses_unknown(vocabulary: Vocabulary) -> bool:
    """Check whether a run of unknown characters is one piece."""
    return vocabulary.fuse_unk and not vocabulary.byte_fallback


def join_words(words: Sequence[str]) -> tuple[str, Longs]:
    """Return words, concatenated, and the characters of each."""
    return "".join(words), np.fromiter(map(len, words), np.int64, len(words))


def join_words_of_lines(words_of_lines: Sequence[Sequence[str]]) -> tuple[str, Longs, Longs]:
    """Return words, concatenated, the characters of each, and the number of words of each line."""
    text, lengths = join_words(list(chain.from_iterable(words_of_lines)))
    return text, lengths, np.fromiter(map(len, words_of_lines), np.int64, len(words_of_lines))


def number_atoms(codes: Longs) -> Ints:
    """Return `WordTables.symbol_of` for the codes of the atoms."""
    # eight times as fast as -1 - np.arange(…)
    symbol_of = np.arange(-1, -1 - OWN_PRIVATE, -1, dtype=np.int32)
    symbol_of[codes] = np.arange(len(codes), dtype=np.int32)
    return symbol_of


def codes_of_atoms(vocabulary: Vocabulary) -> Longs:
    """Return the code of each atom of a vocabulary, (n_atoms,); 0 for an atom without one."""
    codes = (atom_code(atom, marker=vocabulary.marker) for atom in vocabulary.atoms)
    return np.fromiter((code or 0 for code in codes), np.int64)


def _are_hidden(characters: NDArray[np.integer]) -> Flags:
    return (characters >= FIRST_HIDDEN) & (characters <= LAST_HIDDEN)
