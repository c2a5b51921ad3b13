"""Pieces → the places in the original line that they came from.

A line passes through three forms: the original, the one with user tokens hidden, and the normalised one that is cut
into pre-tokens. A piece's span in the last is mapped back to the first.

>>> from volt.vocabulary import Vocabulary
>>> vocabulary = Vocabulary(merges=(), tokens=("a",))
>>> list(encode_offsets(vocabulary, " a", encode_words=lambda words: [[f"{word}</w>"] for word in words]))
[('a</w>', 1, 2)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from volt.encode.pretokens import own_characters
from volt.text.alignment import align, pretoken_spans
from volt.text.byte_alphabet import to_bytes
from volt.text.markers import BYTE_TOKENS, SUFFIX
from volt.text.normalizer import check_text
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

EncodeWords = Callable[[Sequence[str]], Sequence[Sequence[str]]]


def encode_offsets(vocabulary: Vocabulary, line: str, *, encode_words: EncodeWords) -> Iterator[tuple[str, int, int]]:
    """Each piece with its start and end in the original line."""
    spans = _hidden_spans(vocabulary.special, check_text(line))
    own = own_characters(vocabulary, [line])
    [stood_in] = own.put([line])
    normal, from_hidden = align(vocabulary.normalizer, vocabulary.special.hide_text(stood_in))
    starts = np.append(spans[from_hidden[:, 0], 0], len(line)).tolist()
    ends = np.append(0, spans[from_hidden[:, 1] - 1, 1]).tolist()
    cut = pretoken_spans(vocabulary.pretokenizer, normal, hidden=bool(vocabulary.special.user))
    [words] = own.restored([[word for word, *_ in cut]], is_bytes=vocabulary.pretokenizer.is_bytes)
    encoded = encode_words(words)
    for (word, start, end), pieces in zip(cut, encoded, strict=True):
        is_bytes = vocabulary.pretokenizer.is_bytes
        unseen = 0 if is_bytes else len(word) + (vocabulary.marker == "prefix") - (end - start)
        for piece, first, last in _within_word(vocabulary, pieces):
            i, j = start + max(0, first - unseen), start + max(0, last - unseen)
            yield piece, starts[i], ends[j] if j > i else starts[i]


def _within_word(vocabulary: Vocabulary, pieces: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Each piece with the characters of its word that it covers. A user token covers one, a byte the one it is of."""
    if vocabulary.pretokenizer.is_bytes:
        ending = SUFFIX if vocabulary.marker == "suffix" else ""
        spelled = [piece.removesuffix(ending) for piece in pieces]
        spans = _within_bytes(spelled, set(vocabulary.special.user))
        yield from ((piece, first, last) for piece, (_, first, last) in zip(pieces, spans, strict=True))
        return
    position, n_bytes = 0, 0
    for piece in pieces:
        width = len(piece)
        if piece in vocabulary.special.user:
            width = 1
        elif vocabulary.byte_fallback and piece in BYTE_TOKENS:
            n_bytes = n_bytes or _n_bytes(int(piece[3:5], 16))
            n_bytes -= 1
            yield piece, position, position + 1
            position += n_bytes == 0
            continue
        elif vocabulary.marker == "suffix" and piece.endswith(SUFFIX):
            width -= len(SUFFIX)
        yield piece, position, position + width
        position += width


def _within_bytes(pieces: Sequence[str], user: set[str]) -> Iterator[tuple[str, int, int]]:
    """Each byte-level piece with the characters that it touches."""
    if len(pieces) == 1 and pieces[0] in user:
        yield pieces[0], 0, 1
        return
    data = to_bytes("".join(pieces))
    starts = np.cumsum(
        [byte & 0xC0 != 0x80 for byte in data]
    ).tolist()  # the number of the character of each byte, from 1
    done = 0
    for piece in pieces:
        yield piece, starts[done] - 1, starts[done + len(piece) - 1]
        done += len(piece)


def _n_bytes(lead: int) -> int:
    """The length of the UTF-8 sequence that starts with this byte."""
    return 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def _hidden_spans(special: SpecialTokens, line: str) -> NDArray[np.int64]:
    """The span in the line of each character of the line with user tokens hidden, (n, 2)."""
    starts = np.ones(len(line) + 1, bool)
    for start, end in special.spans(line):
        starts[start + 1 : end] = False
    edges = np.flatnonzero(starts)
    return np.stack([edges[:-1], edges[1:]], axis=1)
