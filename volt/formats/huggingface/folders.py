"""Folders without a tokenizer.json: merges over bytes beside their ids, as GPT-2's and RoBERTa's were published.

>>> from volt.formats.byte_merges import merges_in
>>> merges_in(Path("/nowhere")) is None
True
"""

from __future__ import annotations

from pathlib import Path

from volt.errors import VocabularyError
from volt.formats import subword_nmt
from volt.formats.byte_merges import BESIDE, MERGES, merges_in
from volt.vocabulary import Vocabulary


def read_folder(folder: Path) -> Vocabulary:
    """The vocabulary of merges over bytes in a folder. Raises VocabularyError if it holds others."""
    path = merges_in(folder)
    if path is None:
        raise VocabularyError(f"{folder}: neither a tokenizer.json nor {MERGES[0]} with {BESIDE[0]}; give a tokenizer")
    found = subword_nmt.read(path)
    if not found.pretokenizer.is_bytes:
        raise VocabularyError(
            f"{path}: its merges are over characters, and the folder does not tell how its tokenizer cuts words; give "
            "its tokenizer.json"
        )
    return found
