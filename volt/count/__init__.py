"""Corpora → word counts, whatever the files are: text, tables, JSON lines, Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.count.corpus import count_words as count_words
    from volt.count.word_counts import WordCounts as WordCounts
    from volt.count.word_counts import mix as mix

__getattr__, __dir__, __all__ = lazy(__name__)
