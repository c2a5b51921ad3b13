"""Character coverage, as in sentencepiece: leave out the rarest characters of a corpus.

Characters are sorted by count. The commonest ones are retained until they make up a share of all
occurrences; the others are left out. The space is always retained.

    share 0.8, a: 4, b: 4, c: 2   →   a and b make up 0.8, so c is left out
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from volt import arguments
from volt.array_types import Longs
from volt.errors import ConfigError, CorpusError
from volt.text.atoms import SPACE, atom_codes
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts


@dataclass(frozen=True, slots=True)
class Coverage:
    """The characters that a coverage leaves out.

    share: the share of all characters that is retained, at least
    left_out: the distinct characters that are left out, the commonest first
    n_left_out: the number of their occurrences
    n_characters: the number of occurrences of all characters
    """

    share: float
    left_out: str
    n_left_out: int
    n_characters: int

    @property
    def codes(self) -> Longs:
        """(n,) int64: the code points of the characters that are left out."""
        return np.fromiter(map(ord, self.left_out), np.int64, len(self.left_out))


def checked_share(share: float, *, is_bytes: bool = False) -> float:
    """Return the share. Raises ConfigError if it is not above 0 and at most 1.

    is_bytes: whether words are spelled by bytes, so that only the share 1 makes sense
    """
    share = arguments.number(share, "coverage")
    if not 0 < share <= 1:
        raise ConfigError(
            f"coverage is {share:g}; give a share of all characters, above 0 and at most 1"
        )
    if is_bytes and share < 1:
        raise ConfigError(f"coverage is {share:g}, but 256 bytes spell every character; remove it")
    return share


def coverage_of(counts: WordCounts, share: float) -> Coverage | None:
    """Return the characters that a coverage of `share` leaves out; None for the share 1.

    Raises CorpusError if it leaves out all characters but the space.
    """
    if checked_share(share, is_bytes=counts.pretokenizer.is_bytes) == 1:
        return None
    atoms, word_ends = atom_codes(counts.words, marker="none")
    count_of = np.zeros(LAST_HIDDEN + 3, np.int64)  # code point → count
    np.add.at(count_of, atoms >> 1, np.repeat(counts.counts, np.diff(word_ends, prepend=0)))
    count_of[FIRST_HIDDEN : LAST_HIDDEN + 1] = 0  # user tokens are not characters
    if not counts.pretokenizer.keeps_spaces:
        count_of[ord(SPACE)] += counts.total
    codes = np.argsort(-count_of, kind="stable")[: np.count_nonzero(count_of)]
    sorted_counts = count_of[codes]
    n_commoner = np.cumsum(sorted_counts) - sorted_counts
    total = int(sorted_counts.sum())
    is_space = codes == ord(SPACE)
    left_out = (n_commoner / total >= share) & ~is_space
    if (left_out | is_space).all():
        raise CorpusError(
            f"coverage {share:g} leaves no character but the space; raise it, for example to 0.9995"
        )
    characters = "".join(map(chr, codes[left_out].tolist()))
    return Coverage(share, characters, int(sorted_counts[left_out].sum()), total)
