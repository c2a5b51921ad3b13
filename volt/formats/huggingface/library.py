"""The tokenizers library with a tokenizer.json loaded: lines → its pieces, in VOLT's spelling, and its ids.

>>> import tempfile
>>> from volt.formats.huggingface.writing import write
>>> from volt.vocabulary import Vocabulary
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = write(Vocabulary(merges=(("l", "o</w>"),), tokens=("l", "o</w>", "lo</w>")), Path(folder, "model"))
...     peer(Path(folder, "model")).pieces(["lo x"])
[['lo</w>', 'x</w>']]
"""

from __future__ import annotations

from pathlib import Path

from volt.errors import VocabularyError
from volt.formats.byte_merges import merges_in
from volt.formats.huggingface.loaded import loaded, peer_of, peer_of_merges, told
from volt.formats.huggingface.model import FILE
from volt.formats.huggingface.reading import read
from volt.formats.named import named_tokens
from volt.formats.protocol import USUAL, Peer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """tokenizers with the file loaded; it has ids in common with VOLT if VOLT wrote the file.

    Raises MissingLibraryError if tokenizers is not installed, VocabularyError if it refuses the file.
    """
    merges = _merges(path)
    if merges is not None:
        return peer_of_merges(merges, read(path))
    try:
        ids = read(path).ids
    except VocabularyError:
        ids = None
    return peer_of(loaded(_file(path)), ids)


def original(path: Path, vocabulary: Vocabulary, *, pattern: str | None = None) -> Peer:
    """tokenizers with a foreign file, told of the user tokens that the file does not name.

    vocabulary: what was read from the file
    pattern: none, as the file says it itself
    Raises as `peer` does.
    """
    merges = _merges(path)
    if merges is not None:
        return peer_of_merges(merges, vocabulary)
    return peer_of(told(loaded(_file(path)), named_tokens(vocabulary)), vocabulary.ids)


def _merges(path: Path) -> Path | None:
    """The merges of a folder without a tokenizer.json."""
    return merges_in(path) if path.is_dir() and not (path / FILE).exists() else None


def _file(path: Path) -> Path:
    return path / FILE if path.is_dir() else path
