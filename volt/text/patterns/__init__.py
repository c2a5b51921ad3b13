"""Compile the regular expressions of pre-tokenization to tables, with which a loop splits text.

regex_parser   pattern → tree
regex_tree     sets of characters → classes of characters
automaton      tree → states; proof of linear time
splitter       a sequence of splits, compiled
split_points   where to divide a text into units, so that a repeated unit is split once
published      the splits of published tokenizers
cut_tokens     which tokens a pattern always splits
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.text.patterns.published import NAMED as NAMED
    from volt.text.patterns.published import named_splitter as named_splitter
    from volt.text.patterns.splitter import Split as Split
    from volt.text.patterns.splitter import Splitter as Splitter

__getattr__, __dir__, __all__ = lazy(__name__)
