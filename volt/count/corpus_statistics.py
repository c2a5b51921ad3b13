"""Measure the text of word counts: its bytes and characters, and the share in scripts without spaces between words.

In such scripts, splitting at white space gives clauses, which hardly ever repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET

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
# A share of the text's characters; a few names in another script say nothing about the text.
LEAST_SHARE = 0.1
# Letters; words in these scripts have 1.5 (Chinese) to 4 (Thai), clauses more than 8.
LEAST_LENGTH = 6
_WORD = pl.col("word")
_COUNT = pl.col("count").cast(pl.Float64)


@dataclass(frozen=True, slots=True)
class Unspaced:
    """Text in scripts without spaces between words: the commonest of them, and their share of all characters.

    length: the mean number of letters of such scripts in a word that contains any
    """

    script: str
    share: float
    length: float


def unspaced(counts: WordCounts) -> Unspaced | None:
    """Detect text without spaces between words; None for other text, and for every pre-tokenizer but whitespace."""
    if counts.pretokenizer.name != "whitespace":
        return None
    about_to_use_polars()
    held = counts.table.filter(_WORD.str.contains(_letters(*SCRIPTS)))
    if not held.height:
        return None
    letters = {script: _sum(held, _WORD.str.count_matches(_letters(script))) for script in SCRIPTS}
    lengths = _WORD.str.len_chars()
    share = _sum(held, lengths) / _sum(counts.table, lengths)
    length = sum(letters.values()) / float(held["count"].cast(pl.Float64).sum())
    if share < LEAST_SHARE or length < LEAST_LENGTH:
        return None
    return Unspaced(max(letters, key=lambda script: letters[script]), share, length)


def warning(text: Unspaced) -> str:
    """Return a sentence that warns of text without spaces and proposes other pre-tokenizers."""
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


_MORE = len(SPACE.encode()) - 1  # extra bytes of a "▁" over the space that it stands for
_FURTHER_BYTES = f"[{''.join(ALPHABET[0x80:0xC0])}]"  # bytes of a character after its first


def text_bytes(counts: WordCounts) -> int:
    """Return the number of UTF-8 bytes of all words and their spaces, repetitions included."""
    if counts.pretokenizer.is_bytes:
        return _total(counts, _WORD.str.len_chars())
    n_bytes = _WORD.str.len_bytes()
    if counts.pretokenizer.keeps_spaces:
        n_spaces = _WORD.str.count_matches(SPACE, literal=True)
        return _total(counts, n_bytes - _MORE * n_spaces)
    return _total(counts, n_bytes + 1)


def text_characters(counts: WordCounts) -> int:
    """Return the number of characters of all words and their spaces, repetitions included."""
    if counts.pretokenizer.is_bytes:
        return _total(counts, _WORD.str.len_chars() - _WORD.str.count_matches(_FURTHER_BYTES))
    return _total(counts, _WORD.str.len_chars() + (not counts.pretokenizer.keeps_spaces))


def _total(counts: WordCounts, numbers: pl.Expr) -> int:
    about_to_use_polars()
    return int(counts.table.select((numbers.cast(pl.Int128) * pl.col("count")).sum()).item())
