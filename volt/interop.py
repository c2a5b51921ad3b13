"""`Vocabulary.to_x` and `from_x`: the foreign formats, as methods.

The formats know vocabularies and not the other way round, so they are looked up by name when a method is called. Every
`to_x` writes a file or folder and returns what the format cannot carry, a sentence each; every `from_x` reads one.

>>> import tempfile, pathlib
>>> from volt.vocabulary import Vocabulary
>>> vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"), counts=(1, 1, 2))
>>> with tempfile.TemporaryDirectory() as folder:
...     notes = vocabulary.to_tokens(pathlib.Path(folder, "tokens.txt"))
...     pathlib.Path(folder, "tokens.txt").read_text().split()
['l', 'o', 'lo']
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Self


class Interop:
    """Methods that a Vocabulary has for every format."""

    def export(self, path: str | Path, *, to: str) -> list[str]:
        """Write in the format of this name. Raises VocabularyError if the format cannot hold this vocabulary."""
        notes: list[str] = import_module("volt.formats").write_vocabulary(self, Path(path), format=to)
        return notes

    @classmethod
    def read_as(cls, path: str | Path, *, format: str | None = None, merges: str | Path | None = None) -> Self:
        """Read a file in the format of this name, or in whichever it is. merges: for formats that hold only tokens.

        Raises VocabularyError, with file and line, if it cannot be read.
        """
        merges = None if merges is None else Path(merges)
        found: Any = import_module("volt.formats").read_vocabulary(Path(path), format=format, merges=merges)
        return found  # type: ignore[no-any-return]

    def to_subword_nmt(self, path: str | Path) -> list[str]:
        """Codes at `path`, and the vocabulary with counts at `path`.vocab."""
        return self.export(path, to="subword-nmt")

    def to_sentencepiece(self, path: str | Path) -> list[str]:
        """A BPE .model, and its .vocab beside it."""
        return self.export(path, to="sentencepiece")

    def to_huggingface(self, path: str | Path) -> list[str]:
        """A folder that tokenizers and transformers.AutoTokenizer load."""
        return self.export(path, to="huggingface")

    def to_tiktoken(self, path: str | Path) -> list[str]:
        """A ranks file; byte level only."""
        return self.export(path, to="tiktoken")

    def to_fairseq(self, path: str | Path) -> list[str]:
        """A dict.txt."""
        return self.export(path, to="fairseq")

    def to_marian(self, path: str | Path) -> list[str]:
        """A .yml vocabulary."""
        return self.export(path, to="marian")

    def to_opennmt(self, path: str | Path) -> list[str]:
        """Tokens and counts, a tab between them."""
        return self.export(path, to="opennmt")

    def to_tokens(self, path: str | Path) -> list[str]:
        """One token a line, in the order of ids."""
        return self.export(path, to="tokens")

    @classmethod
    def from_subword_nmt(cls, path: str | Path) -> Self:
        """From codes, and the .vocab beside them if there is one."""
        return cls.read_as(path, format="subword-nmt")

    @classmethod
    def from_sentencepiece(cls, path: str | Path) -> Self:
        """From a BPE .model."""
        return cls.read_as(path, format="sentencepiece")

    @classmethod
    def from_huggingface(cls, path: str | Path) -> Self:
        """From tokenizer.json, or the folder that holds it."""
        return cls.read_as(path, format="huggingface")

    @classmethod
    def from_tiktoken(cls, path: str | Path) -> Self:
        """From a ranks file."""
        return cls.read_as(path, format="tiktoken")

    @classmethod
    def from_fairseq(cls, path: str | Path, *, merges: str | Path) -> Self:
        """From a dict.txt and the merges that make its tokens."""
        return cls.read_as(path, format="fairseq", merges=merges)

    @classmethod
    def from_marian(cls, path: str | Path, *, merges: str | Path) -> Self:
        """From a .yml vocabulary and the merges that make its tokens."""
        return cls.read_as(path, format="marian", merges=merges)

    @classmethod
    def from_opennmt(cls, path: str | Path, *, merges: str | Path) -> Self:
        """From tokens and counts, and the merges that make the tokens."""
        return cls.read_as(path, format="opennmt", merges=merges)

    @classmethod
    def from_tokens(cls, path: str | Path, *, merges: str | Path) -> Self:
        """From one token a line, and the merges that make the tokens."""
        return cls.read_as(path, format="tokens", merges=merges)
