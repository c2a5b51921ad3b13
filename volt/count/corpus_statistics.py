"""WordCounts → facts about the text: which characters a coverage leaves out, whether it has spaces, its bytes.

Coverage is sentencepiece's character_coverage: the commonest characters stay, the space always. Without spaces
between words, splitting at white space gives clauses, which hardly ever repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError, CorpusError
from volt.forks import about_to_use_polars
from volt.text.characters import SPACE, atom_codes
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts


# Unicode's names of the scripts that are written without spaces between words.
SCRIPTS = (
    "Han", "Hiragana", "Katakana", "Bopomofo", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "Tai_Tham", "New_Tai_Lue",
    "Javanese", "Balinese",
)  # fmt: skip
LEAST_SHARE = 0.1  # of a text's characters; a few names in another script say nothing about the text
LEAST_LENGTH = 6  # letters; words in these scripts have 1.5 (Chinese) to 4 (Thai), clauses more than 8
_WORD, _COUNT = pl.col("word"), pl.col("count").cast(pl.Float64)


@dataclass(frozen=True, slots=True)
class Unspaced:
    """Text in scripts that have no spaces between words: the commonest script, and their share of the characters.

    length: the mean number of letters of such scripts in a word that contains any
    """

    script: str
    share: float
    length: float


def unspaced(counts: WordCounts) -> Unspaced | None:
    """Detect text without spaces between words; None for other text and for other pre-tokenizers than whitespace."""
    if counts.pretokenizer.name != "whitespace":
        return None
    about_to_use_polars()
    held = counts.table.filter(_WORD.str.contains(_letters(*SCRIPTS)))
    if not held.height:
        return None
    letters = {script: _sum(held, _WORD.str.count_matches(_letters(script))) for script in SCRIPTS}
    share = _sum(held, _WORD.str.len_chars()) / _sum(counts.table, _WORD.str.len_chars())
    length = sum(letters.values()) / float(held["count"].cast(pl.Float64).sum())
    if share < LEAST_SHARE or length < LEAST_LENGTH:
        return None
    return Unspaced(max(letters, key=lambda script: letters[script]), share, length)


def warning(text: Unspaced) -> str:
    """Return a sentence that warns of such text and proposes other pre-tokenizers."""
    return (
        f"{100 * text.share:.1f} % of this text is written without spaces between words "
        f"(mostly {text.script.replace('_', ' ')}), so splitting at white space gives clauses, of {text.length:.1f} "
        "letters on average: count with the pretokenizer unicode, which also splits at punctuation, or with "
        "metaspace"
    )


def _letters(*scripts: str) -> str:
    """Return a pattern for one letter of these scripts, without vowel signs and tone marks."""
    names = "".join(rf"\p{{{script}}}" for script in scripts)
    return rf"[\p{{L}}&&[{names}]]"


def _sum(table: pl.DataFrame, numbers: pl.Expr) -> float:
    return float(table.select((numbers * _COUNT).sum()).item())


_MORE = len(SPACE.encode()) - 1  # bytes that "▁" takes more than the space that it stands for


def text_bytes(counts: WordCounts) -> int:
    """Return the number of UTF-8 bytes of all words and their spaces, repetitions included."""
    about_to_use_polars()
    table, pretokenizer = counts.table, counts.pretokenizer
    if pretokenizer.is_bytes:
        lengths = _WORD.str.len_chars()
    elif pretokenizer.keeps_spaces:
        lengths = _WORD.str.len_bytes() - _MORE * _WORD.str.count_matches(SPACE, literal=True)
    else:
        lengths = _WORD.str.len_bytes() + 1
    return int(table.select((lengths.cast(pl.Int128) * pl.col("count")).sum()).item())


@dataclass(frozen=True, slots=True)
class Coverage:
    """The distinct characters beyond a share of all, the commonest first, and their occurrences."""

    share: float
    left_out: str
    n_left_out: int
    n_characters: int

    @property
    def codes(self) -> NDArray[np.int64]:
        """(n,) int64: the code points of the characters that are left out."""
        return np.fromiter(map(ord, self.left_out), np.int64, len(self.left_out))


def checked_share(share: float, *, is_bytes: bool = False) -> float:
    """Check a share: above 0 and at most 1, and 1 where words are spelled by bytes."""
    share = arguments.number(share, "coverage")
    if not 0 < share <= 1:
        raise ConfigError(f"coverage is {share:g}; give a share of all characters, above 0 and at most 1")
    if is_bytes and share < 1:
        raise ConfigError(f"coverage is {share:g}, but 256 bytes spell every character; remove it")
    return share


def coverage_of(counts: WordCounts, share: float) -> Coverage | None:
    """Return the characters beyond a share of all characters; None for the share 1."""
    if checked_share(share, is_bytes=counts.pretokenizer.is_bytes) == 1:
        return None
    codes, ends = atom_codes(counts.words, marker="none")
    occurrences = np.zeros(LAST_HIDDEN + 3, np.int64)
    np.add.at(occurrences, codes >> 1, np.repeat(counts.counts, np.diff(ends, prepend=0)))
    occurrences[FIRST_HIDDEN : LAST_HIDDEN + 1] = 0  # user tokens are no characters
    if not counts.pretokenizer.keeps_spaces:
        occurrences[ord(SPACE)] += counts.total
    codes = np.argsort(-occurrences, kind="stable")[: np.count_nonzero(occurrences)]
    result = occurrences[codes]
    before = np.cumsum(result) - result
    total = int(result.sum())
    left_out = (before / total >= share) & (codes != ord(SPACE))
    if left_out.sum() == (codes != ord(SPACE)).sum():
        raise CorpusError(f"coverage {share:g} leaves no character but the space; raise it, to 0.9995, say")
    return Coverage(share, "".join(map(chr, codes[left_out].tolist())), int(result[left_out].sum()), total)
