"""Word counts → the size of their text, and whether it is written without spaces between words.

In scripts such as Han and Thai, white space separates clauses, not words. Clauses hardly ever
repeat, so nothing can be learned from their counts. `unspaced` detects such text.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET, readable

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts


# Unicode's names of the scripts that are written without spaces between words.
SCRIPTS = (
    "Han",
    "Hiragana",
    "Katakana",
    "Bopomofo",
    "Thai",
    "Lao",
    "Khmer",
    "Myanmar",
    "Tibetan",
    "Tai_Tham",
    "New_Tai_Lue",
    "Javanese",
    "Balinese",
)
# The least share of all characters; a few names in such a script say nothing about a text.
LEAST_SHARE = 0.1
# The least letters in a word; words in these scripts have 1.5 (Chinese) to 4 (Thai), clauses > 8.
LEAST_LENGTH = 6
N_COMMON = 2_000  # words whose letters tell the scripts of a text
_WORD = pl.col("word")
_COUNT = pl.col("count").cast(pl.Float64)
_SPACE_SURPLUS = len(SPACE.encode()) - 1  # bytes that "▁" has more than the space it stands for
_FURTHER_BYTES = f"[{''.join(ALPHABET[0x80:0xC0])}]"  # all bytes of a character but its first


@dataclass(frozen=True, slots=True)
class Unspaced:
    """Facts about a text in scripts without spaces between words.

    script: the commonest of these scripts
    share: the share of all characters that are in words with letters of these scripts, 0 to 1
    length: the mean number of letters of these scripts in a word that contains any
    """

    script: str
    share: float
    length: float


def unspaced(counts: WordCounts) -> Unspaced | None:
    """Return facts about a text without spaces between words.

    Return None for other text, and if another pre-tokenizer than "whitespace" made the words.
    """
    if counts.pretokenizer.name != "whitespace":
        return None
    about_to_use_polars()
    table = counts.table.filter(_WORD.str.contains(_letter_pattern(*SCRIPTS)))
    if not table.height:
        return None
    n_letters = {
        script: _sum_over_words(table, _WORD.str.count_matches(_letter_pattern(script)))
        for script in SCRIPTS
    }
    n_characters = _WORD.str.len_chars()
    share = _sum_over_words(table, n_characters) / _sum_over_words(counts.table, n_characters)
    length = sum(n_letters.values()) / _sum_over_words(table, pl.lit(1))
    if share < LEAST_SHARE or length < LEAST_LENGTH:
        return None
    return Unspaced(max(n_letters, key=lambda script: n_letters[script]), share, length)


def count_scripts(counts: WordCounts) -> Counter[str]:
    """Count the letters of the commonest words by script, such as "LATIN" or "HAN"."""
    scripts = Counter[str]()
    for word, count in counts.table.top_k(N_COMMON, by="count").iter_rows():
        text = readable(word) if counts.pretokenizer.is_bytes else word
        for letter in filter(str.isalpha, text):
            name = unicodedata.name(letter, "UNKNOWN").replace("CJK", "HAN")
            scripts[name.split()[0]] += count
    return scripts


def warning(text: Unspaced) -> str:
    """Return a sentence that warns of text without spaces, and proposes other pre-tokenizers."""
    return (
        f"{100 * text.share:.1f} % of this text is written without spaces between words "
        f"(mostly {text.script.replace('_', ' ')}), so splitting at white space gives clauses, "
        f"of {text.length:.1f} letters on average; better search with pretokenizer='unicode', which "
        "also splits at punctuation"
    )


def _letter_pattern(*scripts: str) -> str:
    """Return a pattern for one letter of these scripts, without vowel signs and tone marks."""
    names = "".join(rf"\p{{{script}}}" for script in scripts)
    return rf"[\p{{L}}&&[{names}]]"


def _sum_over_words(table: pl.DataFrame, number: pl.Expr) -> float:
    """Return the sum of a number of each word over all occurrences of the words."""
    return float(table.select((number * _COUNT).sum()).item())


def text_bytes(counts: WordCounts) -> int:
    """Return the number of UTF-8 bytes of all words and their spaces, repetitions included."""
    if counts.pretokenizer.is_bytes:
        return _exact_sum(counts, _WORD.str.len_chars())
    n_bytes = _WORD.str.len_bytes()
    if counts.pretokenizer.keeps_spaces:
        n_spaces = _WORD.str.count_matches(SPACE, literal=True)
        return _exact_sum(counts, n_bytes - _SPACE_SURPLUS * n_spaces)
    return _exact_sum(counts, n_bytes + 1)


def text_characters(counts: WordCounts) -> int:
    """Return the number of characters of all words and their spaces, repetitions included."""
    if counts.pretokenizer.is_bytes:
        return _exact_sum(counts, _WORD.str.len_chars() - _WORD.str.count_matches(_FURTHER_BYTES))
    return _exact_sum(counts, _WORD.str.len_chars() + (not counts.pretokenizer.keeps_spaces))


def _exact_sum(counts: WordCounts, numbers: pl.Expr) -> int:
    """Return the sum of a number of each word over all occurrences, without rounding."""
    about_to_use_polars()
    return int(counts.table.select((numbers.cast(pl.Int128) * pl.col("count")).sum()).item())
