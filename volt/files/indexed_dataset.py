r"""Read and write sentences of ids as fairseq and Megatron store them: ids in NAME.bin, positions
in NAME.idx.

    NAME.bin      the ids, sentence after sentence
    NAME.idx      magic "MMIDIDX\0\0", version 1 (u64), code of the dtype (u8), number of sentences (u64),
                  [Megatron: number of document bounds (u64)],
                  sizes: int32 per sentence, its number of ids,
                  pointers: int64 per sentence, the byte in NAME.bin at which it starts,
                  [Megatron: document bounds: int64, the first sentence of each document, then the number of sentences]

All numbers are little-endian. For the sentences [5, 6, 2] and [2] as u16, the sizes are [3, 1], and
the pointers [0, 6]. Both files are memory-mapped; a sentence is checked when it is read.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from volt import arguments
from volt.array_types import Array, Flags, Ints, Longs
from volt.display import counted
from volt.errors import ConfigError, CorpusError, shown_path, unreadable
from volt.files.atomic import retire, write_atomic

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
BIN, IDX = ".bin", ".idx"
CODES = {"u8": 1, "i8": 2, "i16": 3, "i32": 4, "i64": 5, "u16": 8, "u32": 9, "u64": 10}
HEAD = struct.Struct("<9sQBQ")  # magic, version, code of the dtype, number of sentences
_COUNT = struct.Struct("<Q")
_SENTENCE_SIZE = 4 + 8  # bytes of a size and a pointer
_BOUND_SIZE = 8  # bytes
_FLOAT_CODES = (6, 7)
_OLD_MAGIC = b"TNTIDX\x00\x00"  # of fairseq's first format
_SPAN = 1 << 18  # sentences that are checked or written together
_MAX_U16_IDS = 65_500  # more ids get i32, so that u16 has room for added tokens, as in fairseq
_COPY_AGAIN = "copy both files again, or binarize the text again"

Ids = Array


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(f"<{name[0]}{int(name[1:]) // 8}")


def prefix_of(path: str | os.PathLike[str]) -> str:
    """Return the common prefix NAME from NAME, NAME.bin or NAME.idx."""
    return os.fspath(path).removesuffix(BIN).removesuffix(IDX)


def dtype_for(n_ids: int) -> str:
    """Return the default dtype for ids below `n_ids`."""
    return "u16" if n_ids < _MAX_U16_IDS else "i32"


def check_dtype(dtype: str, n_ids: int) -> None:
    """Raise ConfigError if a dtype cannot store all ids below `n_ids`."""
    max_id = int(np.iinfo(dtype_of(arguments.choice(dtype, "dtype", tuple(CODES)))).max)
    if n_ids - 1 > max_id:
        raise ConfigError(
            f"dtype {dtype!r} allows ids up to {max_id:,}, but the largest id is {n_ids - 1:,}; pass",
            hint={"dtype": dtype_for(n_ids)},
        )


# reading


@dataclass(frozen=True, slots=True, eq=False)
class IndexedIds:
    """Sentences of ids, mapped into memory.

    prefix: path without .bin and .idx
    dtype: u8, i8, i16, i32, i64, u16, u32 or u64
    sizes: (n,) int32, ids per sentence
    pointers: (n,) int64, the byte in .bin at which each sentence starts
    data: (n_ids,) all ids
    documents: (n_documents + 1,) int64, the first sentence of each document, then `n`; None for
        fairseq
    """

    prefix: str
    dtype: str
    sizes: Ints
    pointers: Longs
    data: Ids
    documents: Longs | None = None

    def __repr__(self) -> str:
        return f"<IndexedIds: {counted(len(self), 'sentence')}, {counted(len(self.data), 'id')} as {self.dtype}>"

    def __len__(self) -> int:
        return len(self.sizes)

    def ids(self, sentence: int) -> Ids:
        """Return a view of the ids of a sentence, counted from 0.

        Raises CorpusError if the sentence is damaged.
        """
        if not 0 <= sentence < len(self):
            raise IndexError(f"sentence {sentence} of {len(self):,}")
        return self.span(sentence, sentence + 1)[0]

    def span(self, first: int, last: int) -> tuple[Ids, Longs]:
        """Return a view of the ids of sentences `first` to `last - 1`, and where these sentences
        start in the view.

        The starts are (n + 1,) int64; the last is the length of the view. Raises CorpusError if one
        of the sentences is damaged: each must start where the sentence before it ends.
        """
        sizes = self.sizes[first:last]
        pointers = self.pointers[first:last]
        start = self._end(first - 1) if first else 0
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        expected = start + offsets * self.data.itemsize
        for index in np.flatnonzero(sizes < 0)[:1]:
            raise self._damaged(first + index, f"has {sizes[index]} ids")
        for index in np.flatnonzero(pointers != expected[:-1])[:1]:
            raise self._damaged(
                first + index,
                f"starts at byte {pointers[index]:,}, but the previous one ends at {expected[index]:,}",
            )
        if expected[-1] > self.data.nbytes:
            raise self._damaged(last - 1, f"ends after the end of {shown_path(self.prefix + BIN)}")
        first_id = start // self.data.itemsize
        return self.data[first_id : first_id + int(offsets[-1])], offsets

    def check(self) -> None:
        """Check all sentences. Raises CorpusError if the index is damaged."""
        for first in range(0, len(self), _SPAN):
            self.span(first, min(first + _SPAN, len(self)))
        if self.documents is not None and (np.diff(self.documents) < 0).any():
            raise _index_error(self.prefix, "bounds of documents do not increase")

    def _end(self, sentence: int) -> int:
        return int(self.pointers[sentence]) + int(self.sizes[sentence]) * self.data.itemsize

    def _damaged(self, sentence: int, fault: str) -> CorpusError:
        return _index_error(self.prefix, f"sentence {sentence + 1:,} {fault}")


def open_ids(path: str | os.PathLike[str]) -> IndexedIds:
    """Map NAME.bin and NAME.idx into memory.

    Raises CorpusError if one is missing or damaged, or contains floats.
    """
    prefix = prefix_of(path)
    index = _map_file(prefix + IDX)
    data = _map_file(prefix + BIN)
    dtype, n_sentences = _read_head(prefix, index)
    n_bounds = _read_n_bounds(prefix, index, n_sentences)
    start = HEAD.size
    if n_bounds is not None:
        start += _COUNT.size
    sizes = np.frombuffer(index, "<i4", n_sentences, start)
    pointers = np.frombuffer(index, "<i8", n_sentences, start + sizes.nbytes)
    documents = None
    if n_bounds is not None:
        documents = np.frombuffer(index, "<i8", n_bounds, start + sizes.nbytes + pointers.nbytes)
        if not n_bounds or documents[0] != 0 or documents[-1] != n_sentences:
            raise _index_error(prefix, "bounds of documents do not span all sentences")

    id_dtype = dtype_of(dtype)
    ids = np.frombuffer(data, id_dtype, len(data) // id_dtype.itemsize)
    result = IndexedIds(prefix, dtype, sizes, pointers, ids, documents)
    n_bytes = 0
    if n_sentences:
        if sizes[-1] < 0:
            raise result._damaged(n_sentences - 1, f"has {sizes[-1]} ids")
        n_bytes = result._end(-1)
    if len(data) != n_bytes:
        raise CorpusError(
            f"{shown_path(prefix + BIN)}: has {len(data):,} bytes, "
            f"but {shown_path(prefix + IDX)} requires {n_bytes:,}; {_COPY_AGAIN}"
        )
    return result


def _map_file(path: str) -> bytes | mmap.mmap:
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:  # an empty file cannot be mapped
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        remedy = f"{IDX} and {BIN} belong together: check the path"
        raise unreadable(path, error, kind=CorpusError, remedy=remedy) from error


def _read_head(prefix: str, index: bytes | mmap.mmap) -> tuple[str, int]:
    """Return an index's dtype and number of sentences."""
    if index[: len(_OLD_MAGIC)] == _OLD_MAGIC:
        fault = "is in fairseq's older index format"
        raise _index_error(prefix, fault, "binarize the text again as mmap")
    if not MAGIC.startswith(index[: len(MAGIC)]):
        fault = "is not an index of fairseq or Megatron, which starts with MMIDIDX"
        raise _index_error(prefix, fault, "check the path")
    if len(index) < HEAD.size:
        n_bytes = counted(len(index), "byte")
        raise _index_error(prefix, f"has {n_bytes}, but a header needs {HEAD.size}")
    _, version, code, n_sentences = HEAD.unpack_from(index)
    if version != VERSION:
        fault = f"the format version is {version}, but VOLT reads only {VERSION}"
        raise _index_error(prefix, fault)
    if code in _FLOAT_CODES:
        fault = "contains floating-point numbers, which are not ids"
        raise _index_error(prefix, fault, "give another file")
    for dtype, dtype_code in CODES.items():
        if dtype_code == code:
            return dtype, n_sentences
    raise _index_error(prefix, f"the code {code} stands for no dtype")


def _read_n_bounds(prefix: str, index: bytes | mmap.mmap, n_sentences: int) -> int | None:
    """Return an index's number of document bounds; None for fairseq.

    The index's length tells the formats apart.
    """
    n_bytes = HEAD.size + _SENTENCE_SIZE * n_sentences
    if len(index) == n_bytes:
        return None
    if len(index) >= HEAD.size + _COUNT.size:
        (n_bounds,) = _COUNT.unpack_from(index, HEAD.size)
        n_more = len(index) - n_bytes - _COUNT.size - _BOUND_SIZE * n_bounds
        if not n_more:
            return int(n_bounds)
        if n_more == n_sentences:  # a byte for each sentence, its modality
            fault = "is a multimodal index of Megatron"
            raise _index_error(prefix, fault, "give an index of text")
    raise _index_error(
        prefix,
        f"has {len(index):,} bytes, but {counted(n_sentences, 'sentence')} need {n_bytes:,}, "
        "or more with Megatron's bounds of documents",
    )


def _index_error(prefix: str, fault: str, remedy: str = _COPY_AGAIN) -> CorpusError:
    return CorpusError(f"{shown_path(prefix + IDX)}: {fault}; {remedy}")


# writing


@contextmanager
def write_ids(
    path: str | os.PathLike[str], *, dtype: str, has_documents: bool = False
) -> Iterator[IdsWriter]:
    """Open a writer of NAME.bin and NAME.idx, which appear only if the block ends without an error.

    has_documents: whether to write Megatron's index, with the bounds of documents, instead of
        fairseq's
    A killed process leaves the old pair, the new pair, or a .bin without .idx, which cannot be
    read. Raises OutputError if a file cannot be written, ConfigError if a path is a pipe or a
    device.
    """
    arguments.choice(dtype, "dtype", tuple(CODES))
    prefix = prefix_of(path)
    with (
        write_atomic(prefix + IDX, only_file=True) as index,
        write_atomic(prefix + BIN, only_file=True) as data,
    ):
        writer = IdsWriter(data, dtype, has_documents=has_documents)
        yield writer
        writer.write_index(index)
        retire(prefix + IDX, data, index)


class IdsWriter:
    """A writer of sentences.

    Until the end, it stores 4 bytes per sentence in memory, or 5 with documents.
    """

    def __init__(self, data: BinaryIO, dtype: str, *, has_documents: bool = False) -> None:
        self.dtype = dtype
        self._data = data
        self._has_documents = has_documents
        self._id_dtype = dtype_of(dtype)
        self._sizes = [np.zeros(0, "<i4")]
        self._starts_document = [np.zeros(0, np.bool_)]

    def add(
        self,
        ids: Array,
        sizes: Array,
        *,
        starts_document: Flags | None = None,
    ) -> None:
        """Write sentences. Raises ConfigError if a sentence has 2³¹ ids or more.

        ids: (n_ids,) the ids of all sentences, which the dtype can store (`check_dtype`)
        sizes: (n,) ids per sentence
        starts_document: (n,) whether a sentence is the first of a document; by default, each is.
            The first sentence of all always is.
        """
        if len(sizes) and int(sizes.max()) > np.iinfo(np.int32).max:
            raise ConfigError(f"a sentence has {sizes.max():,} ids; the limit is 2^31 − 1")
        self._data.write(ids.astype(self._id_dtype, copy=False).tobytes())
        self._sizes.append(sizes.astype("<i4"))
        if starts_document is None:
            starts_document = np.ones(len(sizes), np.bool_)
        if self._has_documents:
            self._starts_document.append(starts_document)

    def write_index(self, file: BinaryIO) -> None:
        sizes = np.concatenate(self._sizes)
        starts_document = np.concatenate(self._starts_document)
        starts_document[:1] = True
        file.write(HEAD.pack(MAGIC, VERSION, CODES[self.dtype], len(sizes)))
        if self._has_documents:
            file.write(_COUNT.pack(np.count_nonzero(starts_document) + 1))
        file.write(sizes.tobytes())
        n_bytes = 0
        for first in range(0, len(sizes), _SPAN):
            span_sizes = self._id_dtype.itemsize * sizes[first : first + _SPAN].astype("<i8")
            ends = n_bytes + np.cumsum(span_sizes)
            file.write((ends - span_sizes).tobytes())
            n_bytes = ends[-1]
        if self._has_documents:
            for first in range(0, len(sizes), _SPAN):
                bounds = first + np.flatnonzero(starts_document[first : first + _SPAN])
                file.write(bounds.astype("<i8").tobytes())
            file.write(_COUNT.pack(len(sizes)))
