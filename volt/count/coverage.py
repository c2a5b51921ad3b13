"""WordCounts and a share → the characters that a vocabulary spells, and the rare ones that it leaves out.

The commonest characters stay, as few as make up the share of all characters; of equally frequent ones those with the
lower code point. A space for each word is among the characters, and always stays. This is sentencepiece's
character_coverage.

>>> from volt.count.word_counts import WordCounts
>>> found = coverage_of(WordCounts.from_pairs({"low": 5, "löw": 1}), 0.9)
>>> found.left_out, found.n_left_out, found.n_characters  # 6 spaces among them
('ö', 1, 24)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError, CorpusError
from volt.text.markers import SPACE
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a share of all characters leaves out.

    share: the share that was asked for
    left_out: the distinct characters that are left out, the commonest first
    n_left_out: their occurrences
    n_characters: those of all characters, spaces included
    """

    share: float
    left_out: str
    n_left_out: int
    n_characters: int

    @property
    def codes(self) -> NDArray[np.int64]:
        """The code points of what is left out, (n,).

        >>> Coverage(0.9, "ö", 1, 24).codes
        array([246])
        """
        return np.fromiter(map(ord, self.left_out), np.int64, len(self.left_out))


def checked_share(share: float, *, is_bytes: bool = False) -> float:
    """A share above 0 and at most 1, which must be 1 where words are spelled by bytes.

    >>> checked_share(0.9995)
    0.9995
    """
    share = arguments.number(share, "coverage")
    if not 0 < share <= 1:
        raise ConfigError(f"coverage is {share:g}; give a share of all characters, above 0 and at most 1")
    if is_bytes and share < 1:
        raise ConfigError(f"coverage is {share:g}, but 256 bytes spell every character; leave it out")
    return share


def coverage_of(counts: WordCounts, share: float) -> Coverage | None:
    """What a share of all characters leaves out, None for the share 1.

    counts: what `count_words` returns
    share: above 0, at most 1
    Raises ConfigError if the share is out of range, or below 1 where words are spelled by bytes.
    Raises CorpusError if no character but the space stays.

    >>> from volt.count.word_counts import WordCounts
    >>> coverage_of(WordCounts.from_pairs({"low": 5, "löw": 1}), 1)
    """
    if checked_share(share, is_bytes=counts.pretokenizer.is_bytes) == 1:
        return None
    codes, found = _character_counts(counts)
    order = np.lexsort((codes, -found))
    codes, found = codes[order], found[order]
    before = np.cumsum(found) - found
    total = int(found.sum())
    left_out = (before / total >= share) & (codes != ord(SPACE))
    if left_out.sum() == (codes != ord(SPACE)).sum():
        raise CorpusError(f"coverage {share:g} leaves no character but the space; raise it, to 0.9995, say")
    return Coverage(share, "".join(map(chr, codes[left_out].tolist())), int(found[left_out].sum()), total)


def _character_counts(counts: WordCounts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Code points and how often each occurs, a space for each word included where the words hold none."""
    words = counts.words
    codes = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32).astype(np.int64)
    found = np.zeros(LAST_HIDDEN + 3, np.int64)
    np.add.at(found, codes, np.repeat(counts.counts, np.fromiter(map(len, words), np.int64, len(words))))
    found[FIRST_HIDDEN : LAST_HIDDEN + 1] = 0  # user tokens are no characters
    if not counts.pretokenizer.keeps_spaces:
        found[ord(SPACE)] += counts.total
    occurring = np.flatnonzero(found)
    return occurring, found[occurring]
