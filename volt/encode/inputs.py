"""Check the arguments of `Encoder`'s methods: lines, line numbers, chunks, pieces and ids.

Each check returns the argument in the type that the encoder uses, or raises an error that names the
argument and the remedy. Iterables that may be endless are checked item by item, when an item is
requested.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from volt import arguments
from volt.array_types import Ints, Longs
from volt.encode.batch_encoder import Encoded
from volt.encode.chunks import Chunk, count_lines, is_arrow
from volt.errors import ArgumentError, ConfigError, VocabularyError
from volt.vocabulary import Vocabulary

Numbers = Longs
_INT32, _INT64 = "i", "q"  # codes of Python's arrays
_MOST_FIRST = 1 << 62  # the greatest number of a first line, so that later numbers fit into 64 bits
_GIVE_FLAT_ARRAY = "give a flat numpy array of whole numbers"
_GIVE_CHUNKS = "give chunks of volt.encode.chunks.chunks_of or file_chunks"


class HasVocabulary(Protocol):
    """An object with a vocabulary, such as the result of a search."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary."""


def load_vocabulary(vocabulary: Vocabulary | str | os.PathLike[str] | HasVocabulary) -> Vocabulary:
    """Return a vocabulary: the argument itself, or the one in a file or in an object."""
    if isinstance(vocabulary, str | os.PathLike):
        return Vocabulary.load(vocabulary)
    own = getattr(vocabulary, "vocabulary", None)
    if isinstance(own, Vocabulary):
        return own
    return arguments.instance(vocabulary, Vocabulary, "vocabulary")


def check_line(line: str, call: str) -> str:
    if isinstance(line, str):
        return line
    remedy = f"give a str; {call} takes one line, and encode_batch many"
    return arguments.text(line, "line", remedy=remedy)


def check_lines(lines: Any) -> Sequence[str]:
    """Return lines as a sequence: a list, or an array of Arrow."""
    one = "did you mean encode(line) or encode_batch([line])?"
    return lines if is_arrow(lines) else arguments.several(lines, "lines", one=one)


def check_ids(ids: Iterable[int], vocabulary: Vocabulary) -> Ints:
    """Return the ids of one line as an array, (n,) int32, which may contain ids out of range."""
    if isinstance(ids, Encoded):
        raise arguments.refusal(ids, "ids", "did you mean decode_batch(encoded)?")
    if isinstance(ids, np.ndarray) and ids.dtype == np.int32 and ids.ndim == 1 and ids.flags.carray:
        return ids
    numbers = ids if isinstance(ids, list) else arguments.wholes(ids, "ids")
    flat = array(_INT32)
    try:
        _extend(flat, numbers, "ids")
    except OverflowError:  # the first id that is out of range has an error
        list(look_up_pieces(vocabulary, arguments.wholes(numbers, "ids")))
        raise
    return np.array(flat)


def check_ids_lazily(ids: Iterable[int]) -> Iterator[int]:
    """Return an iterator that checks each id when it is requested."""
    is_single = getattr(ids, "ndim", hasattr(ids, "__iter__")) == 0
    if is_single or isinstance(ids, Encoded | str | bytes):
        raise arguments.refusal(ids, "ids", "give the ids of one line")
    return (arguments.whole(number, f"ids[{index}]") for index, number in enumerate(ids))


def look_up_pieces(
    vocabulary: Vocabulary, ids: Iterable[int], skipped: Collection[int] = ()
) -> Iterator[str]:
    """Yield the piece of each id that is not in `skipped`.

    Raises VocabularyError if an id is out of range.
    """
    pieces = vocabulary.pieces
    for index, number in enumerate(ids):
        if not 0 <= number < len(pieces):
            raise out_of_range_error(number, index, len(pieces))
        if number not in skipped:
            yield pieces[number]


def out_of_range_error(
    number: object, index: int, n_ids: int, *, where: str = ""
) -> VocabularyError:
    return VocabularyError(f"{where}id {number} at position {index}: ids go from 0 to {n_ids - 1}")


def check_utf8(text: bytes, call: str) -> bytes:
    if isinstance(text, bytearray | memoryview):
        return bytes(text)
    remedy = f"did you mean {call}(text.encode())?" if isinstance(text, str) else "give bytes"
    return arguments.instance(text, bytes, "text", remedy=remedy)


def check_first_line(first: int) -> int:
    return arguments.whole(first, "first", low=-_MOST_FIRST, high=_MOST_FIRST)


def check_line_numbers(numbers: Numbers | None, text: bytes) -> Numbers | None:
    if numbers is None:
        return None
    is_whole = isinstance(numbers, np.ndarray) and numbers.dtype.kind in "iu"
    try:
        values = numbers if is_whole else arguments.wholes(numbers, "numbers")
        result = np.ascontiguousarray(values, np.int64)
    except OverflowError:
        raise ConfigError(
            "numbers contains a number of more than 64 bits; give smaller numbers"
        ) from None
    n_lines = count_lines(text)
    if result.shape != (n_lines,):
        raise ConfigError(
            f"numbers has shape {result.shape}; give shape ({n_lines},), one number for each line"
        )
    return result


def check_chunks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Return an iterator that checks each chunk when it is requested."""
    is_array = hasattr(chunks, "__iter__") and getattr(chunks, "ndim", 1) > 0
    if isinstance(chunks, str | bytes | bytearray | memoryview) or not is_array:
        raise arguments.refusal(chunks, "chunks", _GIVE_CHUNKS)
    return (
        arguments.instance(chunk, Chunk, f"chunks[{index}]", remedy=_GIVE_CHUNKS)
        for index, chunk in enumerate(chunks)
    )


def check_pieces(pieces: Iterable[str], call: str) -> list[str]:
    if isinstance(pieces, Encoded):
        raise arguments.refusal(pieces, "pieces", "did you mean decode_batch(encoded)?")
    one = f"did you mean {call}(text.split())?"
    remedy = "pieces are strings; for ids, call decode_ids or decode_batch"
    return arguments.texts(pieces, "pieces", one=one, remedy=remedy)


def flatten_ids(encoded: Encoded | Iterable[Iterable[int]]) -> Encoded:
    """Return the ids of lines as one array, whose type is checked, but not the range of ids."""
    if not isinstance(encoded, Encoded):
        remedy = "give the result of encode_batch, or the ids of each line"
        rows = arguments.several(encoded, "encoded", remedy=remedy)
        try:
            return _join_rows(rows, _INT32)
        except OverflowError:
            pass
        try:
            return _join_rows(rows, _INT64)
        except OverflowError:
            raise VocabularyError(
                "encoded contains an id of more than 64 bits; give ids of the vocabulary"
            ) from None

    for name in ("encoded.ids", "encoded.offsets"):
        values = getattr(encoded, name.removeprefix("encoded."))
        values = arguments.instance(values, np.ndarray, name, remedy=_GIVE_FLAT_ARRAY)
        if values.ndim != 1 or values.dtype.kind not in "iu":
            shape = "1 dimension" if values.ndim == 1 else f"{values.ndim} dimensions"
            raise ArgumentError(
                f"{name} is a ndarray of {values.dtype} and {shape}; {_GIVE_FLAT_ARRAY}"
            )
    return encoded


def _join_rows(rows: Sequence[Any], typecode: str) -> Encoded:
    """Return the ids of lines as one array. Raises OverflowError for an id with too many bits."""
    flat = array(typecode)  # converts a list in a fifth of the time of a numpy array
    ends = [0]
    for index, row in enumerate(rows):
        if isinstance(row, np.ndarray) and row.dtype == typecode and row.ndim == 1:
            flat.frombytes(row.tobytes())
        else:
            _extend(flat, row, f"encoded[{index}]")
        ends.append(len(flat))
    return Encoded(np.array(flat), np.array(ends))


def _extend(flat: array[int], ids: Any, name: str) -> None:
    """Append ids to an array. name: of the ids, for errors"""
    try:
        flat.fromlist(ids)
    except TypeError:  # not a list of whole numbers
        flat.fromlist(arguments.wholes(ids, name))
