"""The merges of any file that holds some, as candidates for a search.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile() as file:
...     _ = file.write(b"#version: 0.2\\nt h\\nth e</w>\\n") and file.flush()
...     read_merges(file.name).pairs
[('t', 'h'), ('th', 'e</w>')]
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from volt import arguments
from volt.errors import CandidateError, VocabularyError
from volt.files.whole import read_bytes
from volt.formats.protocol import HEAD_SIZE, MergeList

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary

_ABLE = "a .volt vocabulary, a tokenizer.json, a .tiktoken file, subword-nmt or fastBPE codes, or a sentencepiece model"


def read_merges(path: str | Path) -> MergeList:
    """The merges of a file, whatever format holds them.

    path: of the file, or of a folder that a format is read from

    Raises CandidateError, with file and line, if the file holds no merges, or is damaged.

    >>> read_merges("/nowhere/codes")
    Traceback (most recent call last):
        ...
    volt.errors.CandidateError: /nowhere/codes: cannot be read: no such file or directory; check the path
    """
    from volt.formats import subword_nmt
    from volt.formats.registry import guess_format, is_own
    from volt.formats.sentencepiece import model_file as sentencepiece

    place = Path(arguments.path(path))
    data = b"" if place.is_dir() else read_bytes(place, kind=CandidateError)
    if not data and not place.is_dir():
        raise CandidateError(f"{path}: empty; give {_ABLE}")
    if data.startswith(sentencepiece.FIRST_BYTE):
        return sentencepiece.read_merges(path, data)
    try:
        name = "volt" if data and is_own(place) else guess_format(place, data[:HEAD_SIZE])
    except VocabularyError as error:
        if data.lstrip()[:1] == b"{" or not data:  # no codes in any case
            raise CandidateError(str(error)) from None
        name = "subword-nmt"
    return subword_nmt.read_merges(path, data) if name == "subword-nmt" else _merges_of(place, name)


def _merges_of(path: Path, name: str) -> MergeList:
    """The merges of a vocabulary in the format of this name."""
    from volt.formats.registry import FORMATS, format_module, read_vocabulary
    from volt.formats.tiktoken import reading as ranks

    if name in FORMATS and hasattr(format_module(name), "rows"):
        raise CandidateError(f"{path}: a list of tokens ({name}), which holds no merges; give {_ABLE}")
    try:
        if name == "tiktoken":
            return ranks.read_merges(path)
        vocabulary = read_vocabulary(path)
    except VocabularyError as error:
        raise CandidateError(str(error)) from None
    if not vocabulary.merges:
        raise CandidateError(f"{path}: the vocabulary has no merges; give {_ABLE}")
    return MergeList(_pairs(vocabulary), vocabulary.marker, vocabulary.pretokenizer.is_bytes, tuple(_notes(vocabulary)))


def _pairs(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """The merges by rank; where any pair may make a token, those whose parts are made before it."""
    from volt.formats.huggingface.ranked import merges_of
    from volt.formats.tiktoken.joins import merges_of as merges_of_ranks
    from volt.text.byte_alphabet import to_bytes

    if vocabulary.merging != "ranks":
        return list(vocabulary.merges)
    if vocabulary.pretokenizer.is_bytes:
        made = dict.fromkeys(map("".join, vocabulary.merges))
        return merges_of_ranks([*map(to_bytes, vocabulary.atoms), *map(to_bytes, made)])
    known, pairs = set(vocabulary.atoms), list[tuple[str, str]]()
    for pair in merges_of(vocabulary):
        if known.issuperset(pair):
            known.add("".join(pair))
            pairs.append(pair)
    return pairs


def _notes(vocabulary: Vocabulary) -> list[str]:
    """What becomes of a vocabulary of which the merges alone are taken."""
    cut = arguments.shortened(vocabulary.pretokenizer.name)
    notes = [f"its merges are taken, which were made for words cut by {cut}; tokens and ids are not"]
    if vocabulary.unmade:
        notes.append(f"{len(vocabulary.unmade):,} of its tokens are made by no merge and left out")
    return notes
