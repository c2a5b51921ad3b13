"""tiktoken's ranks file ⇄ byte-level vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.formats.tiktoken.reading import GPT2_PATTERN as GPT2_PATTERN
    from volt.formats.tiktoken.reading import peer as peer
    from volt.formats.tiktoken.reading import read as read
    from volt.formats.tiktoken.reading import read_merges as read_merges
    from volt.formats.tiktoken.reading import read_with_pattern as read_with_pattern
    from volt.formats.tiktoken.reading import recognises as recognises
    from volt.formats.tiktoken.writing import CLOSING_ORDER as CLOSING_ORDER
    from volt.formats.tiktoken.writing import write as write

STORES_WHITE_SPACE = True  # in user tokens

__getattr__, __dir__, __all__ = lazy(__name__)
