"""Character coverage, as in sentencepiece: retain the commonest characters of a corpus, and always the space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError, CorpusError
from volt.text.atoms import SPACE, atom_codes
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts


@dataclass(frozen=True, slots=True)
class Coverage:
    """The distinct characters that a coverage of `share` leaves out, the commonest first, and how often they occur."""

    share: float
    left_out: str
    n_left_out: int
    n_characters: int

    @property
    def codes(self) -> NDArray[np.int64]:
        """(n,) int64: the code points of the characters that are left out."""
        return np.fromiter(map(ord, self.left_out), np.int64, len(self.left_out))


def checked_share(share: float, *, is_bytes: bool = False) -> float:
    """Check a share: above 0 and at most 1, but exactly 1 if words are spelled by bytes."""
    share = arguments.number(share, "coverage")
    if not 0 < share <= 1:
        raise ConfigError(
            f"coverage is {share:g}; give a share of all characters, above 0 and at most 1"
        )
    if is_bytes and share < 1:
        raise ConfigError(f"coverage is {share:g}, but 256 bytes spell every character; remove it")
    return share


def coverage_of(counts: WordCounts, share: float) -> Coverage | None:
    """Return the characters that a share of all characters leaves out; None for the share 1."""
    if checked_share(share, is_bytes=counts.pretokenizer.is_bytes) == 1:
        return None
    codes, ends = atom_codes(counts.words, marker="none")
    occurrences = np.zeros(LAST_HIDDEN + 3, np.int64)
    np.add.at(occurrences, codes >> 1, np.repeat(counts.counts, np.diff(ends, prepend=0)))
    occurrences[FIRST_HIDDEN : LAST_HIDDEN + 1] = 0  # user tokens are not characters
    if not counts.pretokenizer.keeps_spaces:
        occurrences[ord(SPACE)] += counts.total
    codes = np.argsort(-occurrences, kind="stable")[: np.count_nonzero(occurrences)]
    result = occurrences[codes]
    before = np.cumsum(result) - result
    total = int(result.sum())
    left_out = (before / total >= share) & (codes != ord(SPACE))
    if left_out.sum() == (codes != ord(SPACE)).sum():
        raise CorpusError(
            f"coverage {share:g} leaves no character but the space; raise it, for example to 0.9995"
        )
    characters = "".join(map(chr, codes[left_out].tolist()))
    return Coverage(share, characters, int(result[left_out].sum()), total)
