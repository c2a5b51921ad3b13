"""Normalise text, split it into pre-tokens, and spell these as atoms with markers of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.text.normalizer import Normalizer as Normalizer
    from volt.text.pretokenizer import PreTokenizer as PreTokenizer
    from volt.text.special_tokens import SpecialTokens as SpecialTokens

__getattr__, __dir__, __all__ = lazy(__name__)
