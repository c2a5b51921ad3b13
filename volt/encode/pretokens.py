"""Lines → pre-tokens: user tokens hidden, normalised, cut.

>>> split_lines(Vocabulary(merges=(), tokens=("a",)), ["a  b", ""])
[['a', 'b'], []]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volt.forks import about_to_use_polars
from volt.text.normalizer import check_text
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl


def split_lines(vocabulary: Vocabulary, lines: Sequence[str]) -> list[list[str]]:
    """The pre-tokens of each line. Raises CorpusError if a line holds a lone surrogate."""
    return _pretokens(vocabulary, [check_text(line) for line in lines]).to_list()


def joined_words(vocabulary: Vocabulary, lines: Sequence[str]) -> list[str]:
    """The pre-tokens of each line with a space between two. No pre-token holds a space.

    >>> joined_words(Vocabulary(merges=(), tokens=("a",)), ["a  b", ""])
    ['a b', '']
    """
    return _pretokens(vocabulary, lines).list.join(" ").to_list()


def _pretokens(vocabulary: Vocabulary, lines: Sequence[str]) -> pl.Series:
    import polars as pl

    about_to_use_polars()
    texts = pl.DataFrame({"text": lines}, schema={"text": pl.String})
    normal = vocabulary.normalizer.apply(vocabulary.special.hide(pl.col("text")))
    return texts.select(vocabulary.pretokenizer.extract(normal)).to_series()
