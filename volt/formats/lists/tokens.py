"""Token list ⇄ vocabulary: one token a line, in the order of ids; the four tokens with roles are left out.

A list holds no merges: `read` takes them from elsewhere, and what is not listed becomes scaffolding. Dictionaries of
fairseq, Marian and OpenNMT are token lists too, and share what is here. They go with text that subword-nmt cut, so
tokens that end no word are spelled with its "@@" there, and no token with "</w>".

>>> recognises(Path("tokens.txt"), b"l\\no\\nlo\\n"), recognises(Path("a.txt"), b"two words\\n")
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volt.formats.lists.shared import (
    Row,
    all_lines,
    id_note,
    lines_of,
    listed,
    not_listed,
    refuse_characters,
    vocabulary_of,
    write_lines,
)
from volt.vocabulary import Vocabulary

_LINE_ENDS = "\n\r"


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the list. Raises VocabularyError if a token holds a line end."""
    pieces = listed(vocabulary)
    refuse_characters(pieces, _LINE_ENDS, path, "a line of a token list")
    write_lines(path, pieces)
    return [
        id_note(vocabulary, "ids are line numbers + 3: the four tokens with roles are not listed", "a list"),
        *not_listed(vocabulary, counts=bool(vocabulary.counts)),
    ]


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """The listed tokens, with these merges. Raises VocabularyError, with file and line, for a list they do not fit."""
    return vocabulary_of(path, rows(path), merges=merges)


def rows(path: Path) -> Iterator[Row]:
    """The listed tokens. Raises VocabularyError if the file cannot be read."""
    return (Row(*numbered) for numbered in lines_of(path))


def recognises(path: Path, head: bytes) -> bool:
    """Whether every line holds one word and nothing else; the last resort."""
    return not head.startswith((b'{"', b"{\n", b"#version")) and all_lines(head, lambda line: line.split() == [line])
