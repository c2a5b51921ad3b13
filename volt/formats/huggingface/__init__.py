"""tokenizer.json of Hugging Face tokenizers, and the folder that transformers load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.formats.huggingface.reading import files_read as files_read
    from volt.formats.huggingface.reading import read as read
    from volt.formats.huggingface.reading import recognises as recognises
    from volt.formats.huggingface.reference_tokenizer import peer as peer
    from volt.formats.huggingface.writing import files_written as files_written
    from volt.formats.huggingface.writing import write as write

STORES_WHITE_SPACE = True  # in user tokens
STORES_TEMPLATES = True

__getattr__, __dir__, __all__ = lazy(__name__)
