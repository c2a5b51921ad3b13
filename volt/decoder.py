"""Pieces → the line that they spell: markers become the spaces between words, byte tokens the characters they encode.

>>> from volt.vocabulary import Vocabulary
>>> decode(Vocabulary(merges=(), tokens=("a</w>", "b")), ["b", "a</w>", "a</w>"])
'ba a'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from volt.atoms import PREFIX, SUFFIX
from volt.bytelevel import to_bytes
from volt.errors import VocabularyError
from volt.special import BYTE_TOKENS
from volt.vocabulary import Vocabulary

_BYTES = {token: byte for byte, token in enumerate(BYTE_TOKENS)}


def decode(vocabulary: Vocabulary, pieces: Iterable[str]) -> str:
    """The line that the pieces spell. Bytes that are no UTF-8 become U+FFFD; special tokens appear as they are."""
    if vocabulary.pretokenizer.is_bytes:
        return _decode_bytes(vocabulary, pieces)
    keeps_spaces = vocabulary.pretokenizer.keeps_spaces
    text = "".join(_texts(vocabulary, pieces, "" if keeps_spaces else " "))
    if vocabulary.marker == "suffix" and not keeps_spaces:
        return text.removesuffix(" ")
    if vocabulary.marker == "prefix" or keeps_spaces:
        text = text.replace(PREFIX, " ")
    starts_with_space = vocabulary.marker == "prefix" or vocabulary.pretokenizer.dummy_prefix
    return text.removeprefix(" ") if starts_with_space else text


def decode_lines(vocabulary: Vocabulary, ids: NDArray[np.int32], offsets: NDArray[np.int64]) -> list[str]:
    """The lines that flat ids spell: line i has ids[offsets[i]:offsets[i + 1]].

    Raises VocabularyError if an id is out of range.

    >>> import numpy as np
    >>> vocabulary = Vocabulary(merges=(), tokens=("a</w>", "b"))
    >>> decode_lines(vocabulary, np.array([5, 4, 4], np.int32), np.array([0, 2, 2, 3]))
    ['ba', '', 'a']
    """
    pieces = vocabulary.pieces
    if len(ids) and not 0 <= ids.min() <= ids.max() < len(pieces):
        place = int(np.flatnonzero((ids < 0) | (ids >= len(pieces)))[0])
        raise VocabularyError(f"id {ids[place]} at position {place}: ids go from 0 to {len(pieces) - 1}")
    numbers = ids.tolist()
    return [
        decode(vocabulary, [pieces[number] for number in numbers[start:end]])
        for start, end in pairwise(offsets.tolist())
    ]


def _decode_bytes(vocabulary: Vocabulary, pieces: Iterable[str]) -> str:
    """The line that byte-level pieces spell; special tokens are text already."""
    special = set(vocabulary.special.all)
    return b"".join(piece.encode() if piece in special else to_bytes(piece) for piece in pieces).decode(
        errors="replace"
    )


def _texts(vocabulary: Vocabulary, pieces: Iterable[str], space: str) -> Iterator[str]:
    """The text of each piece; a piece that ends a word ends with `space`."""
    ends_words = vocabulary.marker == "suffix"
    for is_byte, run in groupby(pieces, key=lambda piece: vocabulary.byte_fallback and piece in _BYTES):
        if is_byte:
            yield bytes(_BYTES[piece] for piece in run).decode(errors="replace")
            continue
        for piece in run:
            yield piece.removesuffix(SUFFIX) + space if ends_words and piece.endswith(SUFFIX) else piece
