"""The formats by name: read and write a vocabulary in the format that is asked for, or recognised.

>>> format_module("tokens").__name__, sorted(FORMATS)[:3]
('volt.formats.lists.tokens', ['fairseq', 'huggingface', 'marian'])
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.errors import ConfigError, VocabularyError, unreadable
from volt.formats.peer import HEAD_SIZE

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary


FORMATS = {
    "subword-nmt": "volt.formats.subword_nmt",
    "sentencepiece": "volt.formats.sentencepiece.model_file",
    "huggingface": "volt.formats.huggingface.writing",
    "tiktoken": "volt.formats.tiktoken",
    "fairseq": "volt.formats.lists.fairseq",
    "marian": "volt.formats.lists.marian",
    "opennmt": "volt.formats.lists.opennmt",
    "tokens": "volt.formats.lists.tokens",
}


def format_module(name: str) -> Any:
    """The module of a format. Raises ConfigError if there is none of this name.

    >>> format_module("tokens").__name__
    'volt.formats.lists.tokens'
    """
    if name not in FORMATS:
        near = get_close_matches(name.lower(), FORMATS, n=1)
        hint = f"did you mean {near[0]}? The formats are" if near else "choose from"
        raise ConfigError(f"unknown format {name!r}; {hint} {', '.join(FORMATS)}")
    return import_module(FORMATS[name])


def write_vocabulary(vocabulary: Vocabulary, path: str | Path, *, to: str) -> list[str]:
    """Write in a foreign format. Returns a sentence for everything that it cannot carry or does differently.

    Raises ConfigError if there is no such format, VocabularyError if it cannot hold this vocabulary.
    """
    notes: list[str] = format_module(to).write(vocabulary, Path(path))
    return notes


def read_vocabulary(path: str | Path, *, format: str | None = None, merges: str | Path | None = None) -> Vocabulary:
    """Read a VOLT file, or a foreign one, guessed by its content where no format is given.

    merges: a file that holds merges, for formats that list only tokens. Raises VocabularyError, with the place where
    there is one, if the file is damaged or in no format that is known here.
    """
    from volt.vocabulary import Vocabulary

    path, merges = Path(path), None if merges is None else Path(merges)
    if format is None:
        head = _head(path)
        if head.startswith(b'{"volt"'):
            return Vocabulary.load(path)
        format = guess_format(path, head)
    found: Vocabulary = format_module(format).read(path, merges=merges)
    return found


def guess_format(path: Path, head: bytes) -> str:
    """The first format that recognises a file by its first bytes. Raises VocabularyError if none does."""
    for name in FORMATS:
        if format_module(name).recognises(path, head):
            return name
    raise VocabularyError(
        f"{path}:1: neither a VOLT vocabulary nor, by its content, {', '.join(FORMATS)}; make one with volt.search"
    )


def _head(path: Path) -> bytes:
    """The first bytes of a file, none for a folder."""
    try:
        if path.is_dir():
            return b""
        with path.open("rb") as file:
            return file.read(HEAD_SIZE)
    except OSError as error:
        raise unreadable(path, error, kind=VocabularyError) from None
