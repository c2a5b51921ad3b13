"""Published patterns of pre-tokenisation, cut exactly: a regular expression becomes a table, and one loop cuts by it.

    parsing      pattern → tree; what is not supported is refused by name
    alphabet     the sets of characters in it → classes of characters
    automaton    tree → states, in the order in which a backtracking engine would try
    effort       whether the loop's effort is linear
    splitter     a sequence of splits, compiled; it cuts text
    parting      where a text may be parted before, so that parts met again need not be cut
    named        the splits of published tokenizers

>>> named_splitter("cl100k").split("It's 12345 o'clock")
['It', "'s", ' ', '123', '45', ' o', "'clock"]
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
