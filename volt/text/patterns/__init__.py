"""Published patterns of pre-tokenization, cut exactly: a regular expression becomes a table, and one loop cuts by it.

regex_parser   pattern → tree
regex_tree     sets of characters → classes of characters
automaton      tree → states; proof of linear time
splitter       a sequence of splits, compiled
split_points   where to part a text, so that repeated parts are cut once
published      the splits of published tokenizers
cut_tokens     which tokens a pattern always cuts
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.text.patterns.published import NAMED as NAMED
    from volt.text.patterns.published import named_splitter as named_splitter
    from volt.text.patterns.splitter import Split as Split
    from volt.text.patterns.splitter import Splitter as Splitter

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "published": ("NAMED", "named_splitter"),
        "splitter": ("Split", "Splitter"),
    },
)
