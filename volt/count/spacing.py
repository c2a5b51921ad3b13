"""WordCounts → whether white space cuts this text into words at all.

Some scripts are written without spaces between words. What white space cuts there are clauses and sentences, which
hardly ever repeat, so they make poor words.

>>> from volt.count.word_counts import WordCounts
>>> unspaced(WordCounts.from_pairs({"係呢個講座同係睇轉播嘅女性": 1, "TED": 1}))
Unspaced(script='Han', share=0.8125, length=13.0)
>>> unspaced(WordCounts.from_pairs({"講座": 1, "女性": 1})) is None  # words, with spaces put between them
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from volt.forks import about_to_use_polars

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
    """Text in scripts that have no spaces between words.

    script: the commonest of them, as Unicode names it
    share: of all characters of the text, those of words in such scripts
    length: mean letters of such scripts in a word that holds any
    """

    script: str
    share: float
    length: float


def unspaced(counts: WordCounts) -> Unspaced | None:
    """What is known of text without spaces, or None if white space cuts this text, or does not do the cutting.

    counts: what `count_words` returns
    """
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


def warning(found: Unspaced) -> str:
    """A sentence on what to do about such text.

    >>> warning(Unspaced("Thai", 0.987, 14.25))
    "98.7 % of this text is written without spaces between words (mostly Thai), so what white space cuts are clauses, of
    14.2 letters on average: count with pretokenizer='unicode', which cuts at punctuation as well, or with
    pretokenizer='metaspace'"
    """
    return (
        f"{100 * found.share:.1f} % of this text is written without spaces between words "
        f"(mostly {found.script.replace('_', ' ')}), so what white space cuts are clauses, of {found.length:.1f} "
        "letters on average: count with pretokenizer='unicode', which cuts at punctuation as well, or with "
        "pretokenizer='metaspace'"
    )


def _letters(*scripts: str) -> str:
    """What matches one letter of these scripts; vowel signs and tone marks are none.

    >>> print(_letters("Thai", "Lao"))
    [\\p{L}&&[\\p{Thai}\\p{Lao}]]
    """
    names = "".join(rf"\p{{{script}}}" for script in scripts)
    return rf"[\p{{L}}&&[{names}]]"


def _sum(table: pl.DataFrame, numbers: pl.Expr) -> float:
    """A number of each word, times its count, summed."""
    return float(table.select((numbers * _COUNT).sum()).item())
