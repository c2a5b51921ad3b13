"""`open_id_shard`: indexed sentences of ids (NAME.bin and NAME.idx) → a shard with one column of ids.

    NAME.bin   the ids of all sentences, in the number type that NAME.idx states: 7 8 9 7 5 …
    NAME.idx   a head, and the number of ids of each sentence, as int32: 3 2 …

A segment is a range of sentences: a part of .bin, and the same sentences' sizes in .idx. The number
type affects neither columns nor digests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from volt.arguments import MAX_LINE
from volt.array_types import Array, Longs
from volt.errors import CorpusError, StreamError, shown_path
from volt.files.indexed_dataset import BIN, HEAD, IDX, IndexedIds, dtype_of, open_ids, prefix_of
from volt.files.paths import exists
from volt.files.remote_files import local_copy
from volt.files.text_checks import long_line_error
from volt.stream.reading.index_cache import Index, cached_index
from volt.stream.reading.segments import index_segments
from volt.stream.reading.shard import Facts, Shard, as_stream_errors, check_is_file
from volt.stream.transforms.column import Column

_ID_BYTES = 4  # of an id in a column
_INT32 = np.iinfo(np.int32)
Bounds = Sequence[tuple[int, int]]  # of each segment: its first sentence, and the end


def are_ids(path: str) -> bool:
    return path.endswith((BIN, IDX))


def bin_of(path: str) -> str:
    """Return the .bin file of an .idx file, or of a prefix that is not itself a file.

    Return any other path unchanged.
    """
    if path.endswith(IDX):
        return prefix_of(path) + BIN
    is_prefix = os.path.isfile(path + IDX) or os.path.isfile(path + BIN)
    if is_prefix and not os.path.lexists(path):
        return path + BIN
    return path


def bins_of(paths: Iterable[str]) -> list[str]:
    """Apply `bin_of` to each path; omit an .idx file whose .bin file is among the paths."""
    named = list(paths)
    bins = {path for path in named if path.endswith(BIN)}
    return [bin_of(path) for path in named if not (path.endswith(IDX) and bin_of(path) in bins)]


@dataclass(frozen=True, slots=True)
class IdShard(Shard):
    """Indexed sentences. files: the segments of .bin, and the segments of .idx"""

    def read(self, segment: int) -> tuple[Column, ...]:
        bin_file, idx_file = self.files
        # the first segment of .idx begins with the file's head
        sizes = np.frombuffer(idx_file.read(segment)[-4 * self.counts[segment] :], "<i4")
        sizes = sizes.astype(np.int64)
        ids = np.frombuffer(bin_file.read(segment), dtype_of(self.facts.dtype))
        return (Column(ids.astype(np.int32, copy=False), np.cumsum(sizes) - sizes, sizes),)


def open_id_shard(
    path: str,
    *,
    split_lines: int | None,
    cache: Path | None = None,
    max_line: int | None = MAX_LINE,
) -> IdShard:
    """Index sentences of ids, or load their index from the cache; options as for `open_shard`.

    path: the .bin or .idx file
    """
    bin_path = prefix_of(path) + BIN
    idx_path = prefix_of(path) + IDX
    with as_stream_errors(bin_path):
        if not exists(idx_path):
            problem = f"{shown_path(bin_path)}: its index {shown_path(idx_path)} is missing"
            raise StreamError(f"{problem}; restore it, or write both with `volt binarize`")
        check_is_file(idx_path)

        def make(_: Path) -> Index:
            return _index_ids(bin_path, idx_path, split_lines, max_line)

        key = ["ids", split_lines]
        return IdShard(
            *cached_index([bin_path, idx_path], make, cache=cache, max_line=max_line, key=key)
        )


def _index_ids(
    bin_path: str, idx_path: str, split_lines: int | None, max_line: int | None
) -> Index:
    def idx_of(copy: str | Path) -> str:
        return prefix_of(copy) + IDX

    with local_copy(bin_path, kind=CorpusError, beside=lambda copy: [Path(idx_of(copy))]) as copy:
        ids = open_ids(copy)
        ids.check()
        firsts = range(0, len(ids), split_lines or max(1, len(ids)))
        bounds = [(first, min(first + firsts.step, len(ids))) for first in firsts]
        scan = _IdScan(ids, bin_path, max_line)
        files = (
            index_segments(bin_path, "plain", scan.read(bounds)),
            index_segments(idx_path, "plain", _read_sizes(idx_of(copy), ids, bounds)),
        )
        return files, scan.facts()


def _read_sizes(idx_path: str, ids: IndexedIds, bounds: Bounds) -> Iterator[tuple[bytes, int]]:
    """Yield the bytes of each segment in the index file, and its number of sentences."""
    n_head_bytes = HEAD.size + 8 * (ids.documents is not None)
    with open(idx_path, "rb") as file:
        for first, end in bounds:
            yield file.read(n_head_bytes + 4 * (end - first)), end - first
            n_head_bytes = 0


class _IdScan:
    """Reads all sentences once, and collects the facts about them."""

    def __init__(self, ids: IndexedIds, path: str, max_line: int | None) -> None:
        self._ids = ids
        self._path = path
        self._max_line = max_line
        self._n_bytes = 0
        self._longest = 0
        self._ids_hash = blake2b(digest_size=16)
        self._sizes_hash = blake2b(digest_size=16)

    def read(self, bounds: Bounds) -> Iterator[tuple[bytes, int]]:
        """Yield the bytes of each segment, and its number of sentences."""
        for first, end in bounds:
            ids, offsets = self._ids.span(first, end)
            self._check(ids, offsets, first)
            self._ids_hash.update(ids.astype("<i4", copy=False).data)
            self._sizes_hash.update(np.diff(offsets).astype("<i4").data)
            self._n_bytes += _ID_BYTES * len(ids) + end - first
            yield ids.tobytes(), end - first

    def facts(self) -> Facts:
        digest = digest_of(self._ids_hash.hexdigest(), self._sizes_hash.hexdigest())
        return Facts(self._n_bytes, self._longest, 0, digest, is_utf8=True, dtype=self._ids.dtype)

    def _check(self, ids: Array, offsets: Longs, first: int) -> None:
        sizes = np.diff(offsets)
        self._longest = max(self._longest, _ID_BYTES * int(sizes.max(initial=0)))
        if self._max_line is not None and self._longest > self._max_line:
            raise long_line_error(self._path, first + int(np.argmax(sizes)) + 1, self._max_line)
        if np.can_cast(ids.dtype, np.int32):
            return
        is_wrong = (ids < _INT32.min) | (ids > _INT32.max)
        if is_wrong.any():
            index = int(np.argmax(is_wrong))
            line = first + int(np.searchsorted(offsets, index, side="right"))
            problem = f"id {int(ids[index]):,} does not fit in 32 bits"
            raise CorpusError(
                f"{shown_path(self._path)}:{line}: {problem}; name data with ids of a vocabulary"
            )


def digest_of(*parts: str | Sequence[str]) -> str:
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
