"""The vocabulary: ordered merges, tokens and settings, and its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.vocabulary.vocabulary import Vocabulary as Vocabulary

__getattr__, __dir__, __all__ = lazy(__name__)
