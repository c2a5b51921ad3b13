r"""Read and write sentences of ids as fairseq and Megatron store them: ids in NAME.bin, positions in NAME.idx.

    NAME.idx      magic "MMIDIDX\0\0", version 1 (u64), code of the dtype (u8), count of sentences (u64),
                  [Megatron: count of document bounds (u64)], sizes int32[count], byte offsets int64[count],
                  [Megatron: document bounds int64[], as indices of sentences]
    NAME.bin      the ids, sentence after sentence

All numbers are little-endian. Both files are memory-mapped; a sentence is checked when it is read.
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
from numpy.typing import NDArray

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, CorpusError, shown_path, unreadable
from volt.files.atomic import retire, write_atomic

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
BIN, IDX = ".bin", ".idx"
CODES = {"u8": 1, "i8": 2, "i16": 3, "i32": 4, "i64": 5, "u16": 8, "u32": 9, "u64": 10}
HEAD = struct.Struct("<9sQBQ")  # magic, version, code, count
_FLOATS = (6, 7)
_OLD_MAGIC = b"TNTIDX\x00\x00"
_COUNT = struct.Struct("<Q")
_SPAN = 1 << 18  # sentences that are checked or written together
_AGAIN = "copy both files again, or binarize the text again"

Ids = NDArray[Any]
Longs = NDArray[np.int64]


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(f"<{name[0]}{int(name[1:]) // 8}")


def prefix_of(path: str | os.PathLike[str]) -> str:
    """Return the common prefix NAME from NAME, NAME.bin or NAME.idx."""
    return os.fspath(path).removesuffix(BIN).removesuffix(IDX)


@dataclass(frozen=True, slots=True, eq=False)
class IndexedIds:
    """Sentences of ids, mapped into memory.

    prefix: path without .bin and .idx
    dtype: u8, i8, i16, i32, i64, u16, u32 or u64
    sizes: (n,) int32, ids per sentence
    pointers: (n,) int64, the byte in .bin at which each sentence starts
    data: (n_ids,) all ids
    documents: (n_documents + 1,) int64, the first sentence of each document, then `n`; None for fairseq
    """

    prefix: str
    dtype: str
    sizes: NDArray[np.int32]
    pointers: Longs
    data: Ids
    documents: Longs | None = None

    def __repr__(self) -> str:
        return f"<IndexedIds: {counted(len(self), 'sentence')}, {counted(len(self.data), 'id')} as {self.dtype}>"

    def __len__(self) -> int:
        return len(self.sizes)

    def ids(self, sentence: int) -> Ids:
        """Return a view of the ids of a sentence, counted from 0. Raises CorpusError if the sentence is damaged."""
        if not 0 <= sentence < len(self):
            raise IndexError(f"sentence {sentence} of {len(self):,}")
        return self.span(sentence, sentence + 1)[0]

    def span(self, first: int, last: int) -> tuple[Ids, Longs]:
        """Return a view of the ids of sentences `first` to `last - 1`, and the sentences' (n + 1,) bounds in this view.

        Raises CorpusError.
        """
        sizes = self.sizes[first:last]
        starts = self.pointers[first:last]
        before = self._end(first - 1) if first else 0
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        bounds = before + offsets * self.data.itemsize
        for place in np.flatnonzero(sizes < 0)[:1]:
            raise self._damaged(first + place, f"has {sizes[place]} ids")
        for place in np.flatnonzero(starts != bounds[:-1])[:1]:
            raise self._damaged(
                first + place,
                f"starts at byte {starts[place]:,}, but the previous one ends at {bounds[place]:,}",
            )
        if bounds[-1] > self.data.nbytes:
            raise self._damaged(last - 1, f"ends after the end of {shown_path(self.prefix + BIN)}")
        start = before // self.data.itemsize
        return self.data[start : start + int(offsets[-1])], offsets

    def check(self) -> None:
        """Check all sentences. Raises CorpusError if the index is damaged."""
        for first in range(0, len(self), _SPAN):
            self.span(first, min(first + _SPAN, len(self)))
        if self.documents is not None and (np.diff(self.documents) < 0).any():
            raise _bad_index(self.prefix, "bounds of documents do not increase")

    def _end(self, sentence: int) -> int:
        return int(self.pointers[sentence]) + int(self.sizes[sentence]) * self.data.itemsize

    def _damaged(self, sentence: int, fault: str) -> CorpusError:
        return _bad_index(self.prefix, f"sentence {sentence + 1:,} {fault}")


def _bad_index(prefix: str, fault: str, remedy: str = _AGAIN) -> CorpusError:
    return CorpusError(f"{shown_path(prefix + IDX)}: {fault}; {remedy}")


def open_ids(path: str | os.PathLike[str]) -> IndexedIds:
    """Map NAME.bin and NAME.idx into memory. Raises CorpusError if one is missing or damaged, or contains floats."""
    prefix = prefix_of(path)
    index = _mapped(prefix + IDX)
    data = _mapped(prefix + BIN)
    dtype, n, start, n_bounds = _layout(prefix, index)
    sizes = np.frombuffer(index, "<i4", n, start)
    pointers = np.frombuffer(index, "<i8", n, start + 4 * n)
    bounds = None
    if n_bounds is not None:
        bounds = np.frombuffer(index, "<i8", n_bounds, start + 12 * n)
        if not n_bounds or bounds[0] != 0 or bounds[-1] != n:
            raise _bad_index(prefix, "bounds of documents do not span all sentences")

    kind = dtype_of(dtype)
    ids = np.frombuffer(data, kind, len(data) // kind.itemsize)
    result = IndexedIds(prefix, dtype, sizes, pointers, ids, bounds)
    expected = 0
    if n:
        if sizes[-1] < 0:
            raise result._damaged(n - 1, f"has {sizes[-1]} ids")
        expected = result._end(-1)
    if len(data) != expected:
        raise CorpusError(
            f"{shown_path(prefix + BIN)}: has {len(data):,} bytes, "
            f"but {shown_path(prefix + IDX)} requires {expected:,}; {_AGAIN}"
        )
    return result


def _layout(prefix: str, index: bytes | mmap.mmap) -> tuple[str, int, int, int | None]:
    """Return an index's dtype, number of sentences, first byte of sizes, and number of bounds (None for fairseq)."""
    if index[: len(_OLD_MAGIC)] == _OLD_MAGIC:
        raise _bad_index(
            prefix,
            "is in fairseq's older index format",
            "binarize the text again as mmap",
        )
    if not MAGIC.startswith(index[: len(MAGIC)]):
        raise _bad_index(
            prefix,
            "is not an index of fairseq or Megatron, which starts with MMIDIDX",
            "check the path",
        )
    if len(index) < HEAD.size:
        raise _bad_index(
            prefix, f"has {counted(len(index), 'byte')}, but a header needs {HEAD.size}"
        )
    _, version, code, count = HEAD.unpack_from(index)
    if version != VERSION:
        raise _bad_index(prefix, f"the format version is {version}, but VOLT reads only {VERSION}")
    if code in _FLOATS:
        raise _bad_index(
            prefix,
            "contains floating-point numbers, which are not ids",
            "give another file",
        )
    names = {code: name for name, code in CODES.items()}
    if code not in names:
        raise _bad_index(prefix, f"the code {code} stands for no dtype")
    dtype = names[code]

    size = HEAD.size + 12 * count
    if len(index) == size:
        return dtype, count, HEAD.size, None
    start = HEAD.size + _COUNT.size
    if len(index) >= start:
        (n_bounds,) = _COUNT.unpack_from(index, HEAD.size)
        more = len(index) - size - _COUNT.size - 8 * n_bounds
        if not more:
            return dtype, count, start, n_bounds
        if more == count:
            raise _bad_index(
                prefix,
                "is a multimodal index of Megatron",
                "give an index of text",
            )
    raise _bad_index(
        prefix,
        f"has {len(index):,} bytes, but {counted(count, 'sentence')} need {size:,}, "
        "or more with Megatron's bounds of documents",
    )


def _mapped(path: str) -> bytes | mmap.mmap:
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:  # an empty file cannot be mapped
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        remedy = f"{IDX} and {BIN} belong together: check the path"
        raise unreadable(path, error, kind=CorpusError, remedy=remedy) from error


_MOST_SMALL = 65_500  # ids that get u16, which leaves room for added tokens, as in fairseq


def dtype_for(n_ids: int) -> str:
    return "u16" if n_ids < _MOST_SMALL else "i32"


def check_dtype(dtype: str, n_ids: int) -> None:
    """Raise ConfigError if a dtype cannot store all ids below `n_ids`."""
    most = int(np.iinfo(dtype_of(arguments.choice(dtype, "dtype", tuple(CODES)))).max)
    if n_ids - 1 > most:
        raise ConfigError(
            f"dtype {dtype!r} allows ids up to {most:,}, but the largest id is {n_ids - 1:,}; pass",
            hint={"dtype": dtype_for(n_ids)},
        )


class IdsWriter:
    """A writer of sentences. Until the end, it keeps 4 bytes per sentence in memory, or 5 with documents."""

    def __init__(self, data: BinaryIO, dtype: str, *, has_documents: bool = False) -> None:
        self.dtype = dtype
        self._data = data
        self._has_documents = has_documents
        self._file_dtype = dtype_of(dtype)
        self._sizes = [np.zeros(0, "<i4")]
        self._starts = [np.zeros(0, np.bool_)]

    def add(
        self, ids: NDArray[Any], sizes: NDArray[Any], *, starts: NDArray[np.bool_] | None = None
    ) -> None:
        """Write sentences. Raises ConfigError if the arguments are invalid.

        ids: (n_ids,) the ids of all sentences
        sizes: (n,) ids per sentence
        starts: (n,) whether a sentence is the first of a document; by default, each sentence is a document. The first
            sentence of all is always the first of a document.
        """
        if len(sizes) and (int(sizes.min()) < 0 or int(sizes.max()) > np.iinfo(np.int32).max):
            raise ConfigError(
                f"sentences have {sizes.min():,} to {sizes.max():,} ids; the limits are 0 and 2^31 − 1"
            )
        if int(sizes.sum()) != len(ids):
            raise ConfigError(
                f"the sum of sizes is {sizes.sum():,}, but there are {len(ids):,} ids; give all sizes"
            )
        limits = np.iinfo(self._file_dtype)
        for id_ in map(int, (ids.min(initial=0), ids.max(initial=0))):
            if not limits.min <= id_ <= limits.max:
                raise ConfigError(
                    f"id {id_:,} does not fit: {self.dtype} allows {limits.min:,} "
                    f"to {limits.max:,}; choose another dtype"
                )
        self._data.write(ids.astype(self._file_dtype, copy=False).tobytes())
        self._sizes.append(sizes.astype("<i4"))
        if starts is None:
            starts = np.ones(len(sizes), np.bool_)
        if self._has_documents:
            self._starts.append(starts)

    def write_index(self, file: BinaryIO) -> None:
        sizes = np.concatenate(self._sizes)
        starts = np.concatenate(self._starts)
        starts[:1] = True
        file.write(HEAD.pack(MAGIC, VERSION, CODES[self.dtype], len(sizes)))
        if self._has_documents:
            file.write(_COUNT.pack(np.count_nonzero(starts) + 1))
        file.write(sizes.tobytes())
        end = 0
        for first in range(0, len(sizes), _SPAN):
            n_bytes = self._file_dtype.itemsize * sizes[first : first + _SPAN].astype("<i8")
            ends = end + np.cumsum(n_bytes)
            file.write((ends - n_bytes).tobytes())
            end = ends[-1]
        if self._has_documents:
            for first in range(0, len(starts), _SPAN):
                bounds = first + np.flatnonzero(starts[first : first + _SPAN])
                file.write(bounds.astype("<i8").tobytes())
            file.write(_COUNT.pack(len(sizes)))


@contextmanager
def write_ids(
    path: str | os.PathLike[str], *, dtype: str, has_documents: bool = False
) -> Iterator[IdsWriter]:
    """Open a writer of NAME.bin and NAME.idx, which appear only if the block ends without an error.

    has_documents: whether to write Megatron's index, with the bounds of documents, instead of fairseq's
    A killed process leaves the old pair, the new pair, or a .bin without .idx, which cannot be read.
    Raises OutputError if a file cannot be written, ConfigError if a path is a pipe or a device.
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
