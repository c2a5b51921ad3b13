"""`MergeTables`: a vocabulary as compiled code sees it, and pieces as people see them.

Tokens are numbered with atoms first, then in the order in which merges make them. A symbol is such a number, or
−1 − code for a character that the vocabulary does not know.

>>> from volt.vocabulary import Vocabulary
>>> tables = MergeTables.of(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "w</w>", "lo")))
>>> symbols, ends = tables.encode(["low", "lot"])
>>> [tables.spell(symbol) for symbol in symbols.tolist()], ends.tolist()
([('lo',), ('w</w>',), ('lo',), ('t</w>',)], [2, 4])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.errors import VocabularyError
from volt.text.atoms import atom_code, atom_codes, atom_text, text_codes
from volt.text.byte_alphabet import to_characters
from volt.text.markers import BYTE_TOKENS, SUFFIX
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.pair_table import Merges

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
NO_STATE = 0  # of a generator that nothing draws from


@dataclass(frozen=True, slots=True)
class MergeTables:
    """A vocabulary as compiled code sees it.

    symbol_of: (2 · 0x110000,) int32, the atom of each code, or −1 − code if there is none
    codes: the code of each atom
    merges: the ranked merges
    kept: (n_tokens,) uint8, whether each token belongs to the vocabulary
    parts: (n_tokens,) int64, the pair key of each token's parts, −1 for atoms
    tokens: the string of each token
    """

    vocabulary: Vocabulary
    symbol_of: Ints
    codes: list[int]
    merges: Merges
    kept: NDArray[np.uint8]
    parts: Longs
    tokens: tuple[str, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> MergeTables:
        """The tables of a vocabulary. Raises VocabularyError if it has more than two million tokens or merges."""
        from volt.kernels.pair_table import MOST, ranked_merges

        codes = [atom_code(atom, marker=vocabulary.marker) or 0 for atom in vocabulary.atoms]
        numbers = {token: number for number, token in enumerate(vocabulary.atoms)}
        rows, parts = [], [-1] * len(numbers)
        for left, right in vocabulary.merges:
            row = numbers[left], numbers[right], numbers.setdefault(left + right, len(numbers))
            if row[2] == len(parts):
                parts.append((row[0] << 32) | row[1])
            rows.append(row)
        if max(len(numbers), len(rows)) > MOST:
            raise VocabularyError(
                f"{len(numbers):,} tokens and {len(rows):,} merges: at most {MOST:,} of each; choose a smaller size"
            )
        table = np.array(rows, np.int32).reshape(-1, 3)
        kept = set(vocabulary.tokens)
        return cls(
            vocabulary=vocabulary,
            symbol_of=_symbols(codes),
            codes=codes,
            merges=ranked_merges(table[:, 0], table[:, 1], table[:, 2]),
            kept=np.array([token in kept for token in numbers], np.uint8),
            parts=np.array(parts, np.int64),
            tokens=tuple(numbers),
        )

    def atoms(self, text: str, lengths: Longs) -> tuple[Ints, Longs]:
        """The atoms of words as symbols, and where each word's end. The words are one text, cut by their lengths."""
        codes, ends = text_codes(text, lengths, marker=self.vocabulary.marker)
        return self.symbol_of[codes], ends

    def encode(self, words: Sequence[str], *, dropout: float = 0.0, state: int = NO_STATE) -> tuple[Ints, Longs]:
        """The pieces of words as symbols, and where each word's end. state: where dropout's generator starts."""
        codes, ends = atom_codes(words, marker=self.vocabulary.marker)
        return self.encode_atoms(self.symbol_of[codes], ends, dropout=dropout, state=state)

    def encode_atoms(
        self, atoms: Ints, ends: Longs, *, dropout: float = 0.0, state: int = NO_STATE
    ) -> tuple[Ints, Longs]:
        """The same for words that are given as their atoms."""
        from volt.kernels.words import encode_words

        return encode_words(atoms, ends, self.merges, self.kept, self.parts, dropout, np.array([state]))

    def spell(self, symbol: int) -> tuple[str, ...]:
        """The pieces that a symbol stands for: one, but for user tokens at the end of a word, and bytes."""
        if symbol >= 0 and (self.kept[symbol] or not self.vocabulary.byte_fallback):
            return (self.tokens[symbol],)
        code = -1 - symbol if symbol < 0 else self.codes[symbol]
        character, final = chr(code >> 1), code & 1
        user = self.vocabulary.special.revealed(ord(character))
        if user is not None:
            return (user, SUFFIX)[: 1 + final]
        if self.vocabulary.pretokenizer.is_bytes:  # a private character, which stands apart from the bytes around it
            return tuple(to_characters(character.encode()))
        if self.vocabulary.byte_fallback:
            return (*(BYTE_TOKENS[byte] for byte in character.encode()), SUFFIX)[: len(character.encode()) + final]
        return (atom_text(code),)


def _symbols(codes: Sequence[int]) -> Ints:
    """The symbol of every possible atom code, of which these are the known ones."""
    symbols = -1 - np.arange(2 * 0x110000, dtype=np.int32)
    symbols[codes] = np.arange(len(codes), dtype=np.int32)
    return symbols
