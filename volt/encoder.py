"""`Encoder`: text ⇄ pieces and ids, by the merges of a vocabulary.

A word starts as atoms; the applicable merge of the lowest rank is applied, from left to right, until none is left; then
every piece that is no kept token is split back into the two parts of its first merge. What the vocabulary cannot spell
stays as it is among pieces, and becomes bytes or `<unk>` among ids.

>>> from volt.vocabulary import Vocabulary
>>> encoder = Encoder(Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "low</w>", "t")))
>>> encoder.encode("low lot"), encoder.encode_ids("low lot")
(['low</w>', 'l', 'o', 't</w>'], array([7, 4, 5, 0], dtype=int32))
>>> encoder.decode(encoder.encode("low lot"))
'low lot'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.atoms import SUFFIX, atom_code, atom_codes, atom_text
from volt.bytelevel import to_characters
from volt.decoder import decode
from volt.errors import ConfigError, VocabularyError
from volt.offsets import encode_offsets, split_lines
from volt.special import BYTE_TOKENS
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.encode import Merges

CACHE_WORDS = 1 << 20  # the cache of encoded words is emptied when it holds more
Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Tables:
    """What the kernel needs: tokens numbered with atoms first, then in the order in which merges make them.

    symbol_of: (n_codes,) int32 atom of each code, −1 − code where there is none;  codes: the code of each atom
    """

    symbol_of: NDArray[np.int32]
    codes: list[int]
    merges: Merges
    kept: NDArray[np.uint8]
    parts: NDArray[np.int64]
    tokens: tuple[str, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> _Tables:
        from volt.kernels.encode import ranked_merges

        codes = [atom_code(atom, marker=vocabulary.marker) or 0 for atom in vocabulary.atoms]
        numbers = {token: number for number, token in enumerate(vocabulary.atoms)}
        rows, parts = [], [-1] * len(numbers)
        for left, right in vocabulary.merges:
            row = numbers[left], numbers[right], numbers.setdefault(left + right, len(numbers))
            if row[2] == len(parts):
                parts.append((row[0] << 32) | row[1])
            rows.append(row)
        table = np.array(rows, np.int32).reshape(-1, 3)
        kept = set(vocabulary.tokens)
        return cls(
            symbol_of=_symbols(codes),
            codes=codes,
            merges=ranked_merges(table[:, 0], table[:, 1], table[:, 2]),
            kept=np.array([token in kept for token in numbers], np.uint8),
            parts=np.array(parts, np.int64),
            tokens=tuple(numbers),
        )


def _symbols(codes: Sequence[int]) -> NDArray[np.int32]:
    """The symbol of every possible atom code, of which these are the known ones."""
    symbols = -1 - np.arange(2 * 0x110000, dtype=np.int32)
    symbols[codes] = np.arange(len(codes), dtype=np.int32)
    return symbols


class Encoder:
    """Applies one vocabulary. Safe to share between threads and to pickle."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._tables = _Tables.of(vocabulary)
        self._cache: dict[str, tuple[str, ...]] = {}

    def __reduce__(self) -> tuple[type[Encoder], tuple[Vocabulary]]:
        return Encoder, (self.vocabulary,)

    def encode(self, line: str, *, dropout: float = 0.0, seed: int | None = None) -> list[str]:
        """The pieces of one line. With dropout, each merge is passed over with that probability; give a seed then.

        Raises CorpusError if the line holds a lone surrogate, ConfigError if dropout is not in [0, 1] or has no seed.
        """
        return self.encode_lines([line], dropout=dropout, seed=seed)[0]

    def encode_ids(self, line: str, *, dropout: float = 0.0, seed: int | None = None) -> Ids:
        """The ids of one line, (n_pieces,) int32; see `encode`. No bos or eos is added."""
        return self.ids(self.encode(line, dropout=dropout, seed=seed))

    def encode_lines(
        self, lines: Sequence[str], *, dropout: float = 0.0, seed: int | None = None, first: int = 0
    ) -> list[list[str]]:
        """The pieces of each line. Line i draws its dropout from (seed, first + i), however lines are grouped."""
        if not 0.0 <= dropout <= 1.0:
            raise ConfigError(f"dropout is {dropout}; give a probability from 0 to 1")
        if dropout and (seed is None or seed < 0):
            raise ConfigError(f"dropout draws at random: give a seed, a whole number from 0 up (it is {seed})")
        split = split_lines(self.vocabulary, lines)
        if dropout and seed is not None:
            return [self._sampled(words, dropout, (seed, first + number)) for number, words in enumerate(split)]
        known = self._known(set(chain.from_iterable(split)))
        return [list(chain.from_iterable(known[word] for word in words)) for words in split]

    def encode_words(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """The pieces of each pre-token, taken as it stands: not normalised, not cut."""
        return self._run(words, 0.0, np.zeros(1, np.int64))

    def encode_offsets(self, line: str) -> list[tuple[str, int, int]]:
        """Each piece with the span of the original line that it came from, in characters; a marker has no width.

        >>> from volt.vocabulary import Vocabulary
        >>> encoder = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")))
        >>> encoder.encode_offsets(" low")
        [('lo', 1, 3), ('w</w>', 3, 4)]
        """
        return list(encode_offsets(self.vocabulary, line, encode_words=self.encode_words))

    def ids(self, pieces: Iterable[str]) -> Ids:
        """The ids of pieces, (n_pieces,) int32; that of `unk` for what is no piece of the vocabulary."""
        numbers = self.vocabulary.ids
        return np.array([numbers.get(piece, 0) for piece in pieces], np.int32)

    def decode(self, pieces: Iterable[str]) -> str:
        """The line that these pieces spell: its normalised form, with single spaces, if they came from `encode`."""
        return decode(self.vocabulary, pieces)

    def decode_ids(self, ids: Iterable[int]) -> str:
        """The line that these ids spell. Raises VocabularyError if an id is out of range."""
        pieces, numbers = self.vocabulary.pieces, [int(number) for number in ids]
        for place, number in enumerate(numbers):
            if not 0 <= number < len(pieces):
                raise VocabularyError(f"id {number} at position {place}: ids go from 0 to {len(pieces) - 1}")
        return self.decode(pieces[number] for number in numbers)

    def _known(self, words: set[str]) -> dict[str, tuple[str, ...]]:
        """The pieces of these words, from the cache where it has them."""
        cache = self._cache
        known = {word: cache[word] for word in words if word in cache}
        missing = list(words.difference(known))
        new = dict(zip(missing, self.encode_words(missing), strict=True))
        if len(cache) + len(new) > CACHE_WORDS:
            self._cache = new
        else:
            cache.update(new)
        return known | new

    def _sampled(self, words: Sequence[str], dropout: float, key: tuple[int, int]) -> list[str]:
        """The pieces of one line's words, with dropout drawn from a generator that starts from the key."""
        state = np.random.SeedSequence(key).generate_state(1, np.uint64).view(np.int64)
        return list(chain.from_iterable(self._run(words, dropout, state)))

    def _run(self, words: Sequence[str], dropout: float, state: NDArray[np.int64]) -> list[tuple[str, ...]]:
        """Have the kernel encode each word."""
        from volt.kernels.encode import encode_words

        if not words:
            return []
        tables = self._tables
        codes, ends = atom_codes(words, marker=self.vocabulary.marker)
        numbers, piece_ends = encode_words(
            tables.symbol_of[codes], ends, tables.merges, tables.kept, tables.parts, dropout, state
        )
        spelled = [self._spell(number) for number in numbers.tolist()]
        bounds = [0, *piece_ends.tolist()]
        return [tuple(chain.from_iterable(spelled[start:end])) for start, end in pairwise(bounds)]

    def _spell(self, number: int) -> tuple[str, ...]:
        """The pieces that a token number stands for; one below 0 is an atom that the vocabulary does not know."""
        if number >= 0 and (self._tables.kept[number] or not self.vocabulary.byte_fallback):
            return (self._tables.tokens[number],)
        code = -1 - number if number < 0 else self._tables.codes[number]
        character, final = chr(code >> 1), code & 1
        user = self.vocabulary.special.revealed(ord(character))
        if user is not None:
            return (user, SUFFIX)[: 1 + final]
        if self.vocabulary.pretokenizer.is_bytes:  # a private character, which stands apart from the bytes around it
            return tuple(to_characters(character.encode()))
        if self.vocabulary.byte_fallback:
            return (*(BYTE_TOKENS[byte] for byte in character.encode()), SUFFIX)[: len(character.encode()) + final]
        return (atom_text(code),)
