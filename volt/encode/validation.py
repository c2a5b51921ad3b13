"""Arguments of `Encoder`'s methods → valid values, or an `ArgumentError` that names the method to call.

>>> line(b"low", "encode")
Traceback (most recent call last):
    ...
volt.errors.ArgumentError: line is b'low' (bytes); did you mean line.decode()?
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.encode.batch_encoder import Encoded
from volt.encode.chunks import Chunk
from volt.errors import ArgumentError, ConfigError, VocabularyError, quoted
from volt.text.normalizer import check_text
from volt.vocabulary import Vocabulary

_LAST = 1 << 62  # the greatest number of a first line, so that the numbers of later lines fit into 64 bits
_FLAT = "give a flat numpy array of whole numbers"
_CHUNKS = "give chunks of volt.encode.chunks.chunks_of or file_chunks"


class HasVocabulary(Protocol):
    """An object with a vocabulary, such as the result of a search."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary."""


def vocabulary(source: Vocabulary | str | os.PathLike[str] | HasVocabulary) -> Vocabulary:
    """Return a vocabulary: the argument itself, read from a file, or an object's attribute.

    >>> vocabulary(Vocabulary(merges=(), tokens=("l", "o")))
    <Vocabulary: 2 tokens, 0 merges, suffix, whitespace>
    """
    if isinstance(source, str | os.PathLike):
        return Vocabulary.load(source)
    if isinstance(result := getattr(source, "vocabulary", None), Vocabulary):
        return result
    return arguments.instance(source, Vocabulary, "vocabulary", call="volt.Encoder({})")


def line(line: str, call: str) -> str:
    """Check that this is one line. An error says how to encode many.

    >>> line("low", "encode")
    'low'
    """
    if isinstance(line, str):
        return line
    return arguments.text(line, "line", remedy=f"give a str; {call} takes one line, and encode_batch many")


def utf8(text: bytes, call: str) -> bytes:
    """Return UTF-8 text as bytes. An error says how to encode a str.

    >>> utf8(memoryview(b"low"), "encode_bytes")
    b'low'
    """
    if isinstance(text, bytearray | memoryview):
        return bytes(text)
    remedy = f"did you mean {call}(text.encode())?" if isinstance(text, str) else "give bytes"
    return arguments.instance(text, bytes, "text", remedy=remedy)


def chunks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield chunks, each checked when it is requested: the iterable may be endless.

    >>> list(chunks([Chunk(b"low"), "lower"]))
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: chunks[1] is 'lower' (str); give chunks of volt.encode.chunks.chunks_of or file_chunks
    """
    if isinstance(chunks, str | bytes | bytearray | memoryview):
        raise arguments.refusal(chunks, "chunks", _CHUNKS)
    try:
        result = enumerate(chunks)
    except TypeError:
        raise arguments.refusal(chunks, "chunks", _CHUNKS) from None
    return (arguments.instance(chunk, Chunk, f"chunks[{place}]", remedy=_CHUNKS) for place, chunk in result)


def first(first: int) -> int:
    """Return the number of a first line.

    >>> first(7.0)
    7
    """
    return arguments.whole(first, "first", low=-_LAST, high=_LAST)


def numbers(numbers: NDArray[np.int64] | None, text: bytes) -> NDArray[np.int64] | None:
    """Return a number for each line of a text.

    >>> numbers([7, 5], b"lo\\nlow\\n"), numbers(None, b"lo\\n")
    (array([7, 5]), None)
    """
    if numbers is None:
        return None
    try:
        is_whole = isinstance(numbers, np.ndarray) and numbers.dtype.kind in "iu"
        result = np.ascontiguousarray(numbers if is_whole else arguments.wholes(numbers, "numbers"), np.int64)
    except OverflowError:
        raise ConfigError("numbers holds one of more than 64 bits; give smaller ones") from None
    n_lines = text.count(b"\n") + (text[-1:] not in (b"", b"\n"))
    if result.shape != (n_lines,):
        raise ConfigError(f"numbers has the shape {result.shape}; give {n_lines}, one for each line")
    return result


def threads(n_threads: int | None) -> int | None:
    """Check a number of threads; None stands for one for each core.

    >>> threads(2), threads(None)
    (2, None)
    """
    return None if n_threads is None else arguments.whole(n_threads, "n_threads", low=1)


def pieces(pieces: Iterable[str], call: str) -> list[str]:
    """Return the pieces of a line as a list. An error says how to decode ids.

    >>> pieces(("lo", "w</w>"), "decode")
    ['lo', 'w</w>']
    """
    if isinstance(pieces, Encoded):
        raise arguments.refusal(pieces, "pieces", "did you mean decode_batch(encoded)?")
    remedy = "pieces are strings; for ids there are decode_ids and decode_batch"
    return arguments.texts(pieces, "pieces", one=f"did you mean {call}(text.split())?", remedy=remedy)


def words(words: Iterable[str]) -> list[str]:
    """Return pre-tokens as a list, after a check that none is empty.

    >>> words(["low", ""])
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: words[1] is empty; leave it out
    """
    result = arguments.texts(words, "words", one="did you mean encode_words([word])?")
    if "" in result:
        raise ConfigError(f"words[{result.index('')}] is empty; leave it out")
    check_text("".join(result))
    return result


def separator(separator: str) -> str:
    """Check the mark of pieces that do not end a word; it may be empty.

    >>> separator(" ")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: separator ' ' is white space, holds some, or cannot be printed; give a mark such as '@@'
    """
    if arguments.storable(separator, "separator") and (separator.split() != [separator] or not separator.isprintable()):
        raise ConfigError(
            f"separator {quoted(separator)} is white space, holds some, or cannot be printed; give a mark such as '@@'"
        )
    return separator


def paths(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files to encode, at least one.

    >>> paths("a.txt")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: paths is 'a.txt' (str); did you mean [path]?
    """
    if isinstance(paths, os.PathLike):
        raise arguments.refusal(paths, "paths", "did you mean [path]?")
    result = arguments.several(paths, "paths", one="did you mean [path]?", remedy="give a list of paths")
    if not result:
        raise ConfigError("paths is empty; name the files to encode")
    return [arguments.path(path, f"paths[{place}]") for place, path in enumerate(result)]


def ids(ids: Iterable[int]) -> list[int]:
    """Return the ids of a line as a list. An error says how to decode many lines.

    >>> ids(np.array([4, 5], np.int32))
    [4, 5]
    """
    if isinstance(ids, Encoded):
        raise arguments.refusal(ids, "ids", "did you mean decode_batch(encoded)?")
    return arguments.wholes(ids, "ids")


def encoded(encoded: Encoded | Iterable[Iterable[int]]) -> Encoded:
    """Return the ids of many lines, flat.

    >>> encoded([[4, 5], [], [6]]).offsets.tolist()
    [0, 2, 2, 3]
    """
    if isinstance(encoded, Encoded):
        for name in ("ids", "offsets"):
            _flat(getattr(encoded, name), f"encoded.{name}")
        return encoded
    rows = arguments.several(encoded, "encoded", remedy="give the result of encode_batch, or the ids of each line")
    numbers = [arguments.wholes(row, f"encoded[{place}]") for place, row in enumerate(rows)]
    try:
        flat: NDArray[Any] = np.array([*chain.from_iterable(numbers)], np.int64)
    except OverflowError:
        raise VocabularyError("encoded holds an id of more than 64 bits; give ids of the vocabulary") from None
    return Encoded(flat, np.cumsum([0, *map(len, numbers)]))


def _flat(values: object, name: str) -> None:
    """Raise ArgumentError unless this is a flat array of whole numbers.

    >>> _flat(np.zeros((2, 2), np.int32), "ids")
    Traceback (most recent call last):
        ...
    volt.errors.ArgumentError: ids is a ndarray of int32 and 2 dimensions; give a flat numpy array of whole numbers
    """
    if not isinstance(values, np.ndarray):
        raise arguments.refusal(values, name, _FLAT)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        shape = "1 dimension" if values.ndim == 1 else f"{values.ndim} dimensions"
        raise ArgumentError(f"{name} is a ndarray of {values.dtype} and {shape}; {_FLAT}")
