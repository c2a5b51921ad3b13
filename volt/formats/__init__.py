"""Foreign formats, one module each, named as users name them.

Each module holds some of: `write(vocabulary, path)`, which returns what the format cannot carry, a sentence each;
`read(path, merges=None)`; `recognises(path, head)`; `peer(path, special=…)`, the real library with that file loaded and
with these special tokens where it takes them from its caller.

>>> import tempfile, pathlib
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder, "codes")
...     _ = path.write_text("#version: 0.2\\nt h\\nth e</w>\\n")
...     read_merges(path).pairs
[('t', 'h'), ('th', 'e</w>')]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.atoms import Marker
from volt.errors import CandidateError, ConfigError, VocabularyError
from volt.special import SpecialTokens

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary

USUAL = SpecialTokens()
HEAD_SIZE = 4096  # bytes that `recognises` is shown

FORMATS = {
    "subword-nmt": "volt.formats.subword_nmt",
    "sentencepiece": "volt.formats.sentencepiece",
    "huggingface": "volt.formats.huggingface",
    "tiktoken": "volt.formats.tiktoken",
    "fairseq": "volt.formats.fairseq",
    "marian": "volt.formats.marian",
    "opennmt": "volt.formats.opennmt",
    "tokens": "volt.formats.tokens",
}


@dataclass(frozen=True, slots=True)
class MergeList:
    """Merges by rank, and the word marker that their strings are written with."""

    pairs: list[tuple[str, str]]
    marker: Marker


@dataclass(frozen=True, slots=True)
class Peer:
    """A real library with a file loaded: lines → pieces in VOLT's spelling, and → ids where the library has ids that a
    VOLT vocabulary exported to it shares (None: it has no ids of its own)."""

    library: str
    pieces: Callable[[Sequence[str]], list[list[str]]]
    ids: Callable[[Sequence[str]], list[list[int]]] | None = None


def read_merges(path: str | Path) -> MergeList:
    """The merges of a subword-nmt codes file or a sentencepiece BPE model.

    Raises CandidateError, with file and line, if the file is neither, or damaged.
    """
    from volt.formats import sentencepiece, subword_nmt

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CandidateError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    if not data:
        raise CandidateError(f"{path}: empty; give subword-nmt codes or a sentencepiece BPE .model")
    if data.startswith(sentencepiece.FIRST_BYTE):
        return sentencepiece.read_merges(path, data)
    return subword_nmt.read_merges(path, data)


def format_module(name: str) -> Any:
    """The module of a format. Raises ConfigError if there is none of this name.

    >>> format_module("tokens").__name__
    'volt.formats.tokens'
    """
    if name not in FORMATS:
        near = get_close_matches(name.lower(), FORMATS, n=1)
        hint = f"did you mean {near[0]}? The formats are" if near else "choose from"
        raise ConfigError(f"unknown format {name!r}; {hint} {', '.join(FORMATS)}")
    return import_module(FORMATS[name])


def write_vocabulary(vocabulary: Vocabulary, path: str | Path, *, format: str) -> list[str]:
    """Write in a foreign format. Returns a sentence for everything that it cannot carry or does differently.

    Raises ConfigError if there is no such format, VocabularyError if it cannot hold this vocabulary.
    """
    notes: list[str] = format_module(format).write(vocabulary, Path(path))
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
        raise VocabularyError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
