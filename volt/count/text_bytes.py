"""WordCounts → the bytes of the text that they stand for, which "tokens per byte" divides by.

The bytes follow from the words, so they are known however the corpus was read: from text, tables, JSON lines or pairs.

>>> from volt.count.word_counts import WordCounts
>>> text_bytes(WordCounts.from_pairs({"für": 2, "a": 1}))  # "für für a" and a line end
12
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from volt.forks import about_to_use_polars
from volt.text.markers import SPACE

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts

_WORD = pl.col("word")
_MORE = len(SPACE.encode()) - 1  # bytes that "▁" takes more than the space that it stands for


def text_bytes(counts: WordCounts) -> int:
    """UTF-8 bytes of all words and their spaces, repetitions included.

    counts: what `count_words` returns

    Where the pre-tokeniser drops white space, each word counts one byte more, for the white space behind it. Where it
    keeps spaces, "▁" is one byte. Of "bytes", each character is one.

    >>> from volt.count.word_counts import WordCounts
    >>> text_bytes(WordCounts.from_pairs({"▁für": 2, "▁a": 1}, pretokenizer="metaspace"))
    12
    """
    about_to_use_polars()
    table, pretokenizer = counts.table, counts.pretokenizer
    if pretokenizer.is_bytes:
        lengths = _WORD.str.len_chars()
    elif pretokenizer.keeps_spaces:
        lengths = _WORD.str.len_bytes() - _MORE * _WORD.str.count_matches(SPACE, literal=True)
    else:
        lengths = _WORD.str.len_bytes() + 1
    return int(table.select((lengths.cast(pl.Int128) * pl.col("count")).sum()).item())
