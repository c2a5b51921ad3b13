"""The BPE .model of sentencepiece, and its .vocab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.formats.sentencepiece.model_file import files_written as files_written
    from volt.formats.sentencepiece.model_file import peer as peer
    from volt.formats.sentencepiece.model_file import read as read
    from volt.formats.sentencepiece.model_file import recognises as recognises
    from volt.formats.sentencepiece.model_file import write as write

__getattr__, __dir__, __all__ = lazy(__name__, {"model_file": ("files_written", "peer", "read", "recognises", "write")})
