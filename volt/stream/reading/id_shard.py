"""NAME.bin and NAME.idx of fairseq or Megatron → pieces of sentences, read as a column of ids.

Ids stay as they are in the file, with eos. Files of any kind of number give the same columns and digests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.errors import CorpusError, StreamError, shown_path
from volt.files.indexed_dataset import BIN, HEAD, IDX, IndexedIds, dtype_of, open_ids, prefix_of
from volt.files.limits import MAX_LINE, long_line_error
from volt.files.paths import exists
from volt.files.remote_files import local_copy
from volt.stream.reading.shard import Facts, FileShard, Segments, as_stream_errors, check_is_file, identity_of, noted
from volt.stream.reading.shard_cache import CacheEntry, Record, default_cache
from volt.stream.transforms.column import Column

_ID_BYTES = 4  # of an id in a column
_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class IdShard(FileShard):
    """Indexed sentences of ids. index: the sizes of each piece in .idx; dtype: of the ids in .bin."""

    index: Segments
    dtype: str

    def read(self, piece: int) -> tuple[Column, ...]:
        n = self.counts[piece]
        sizes = np.frombuffer(self.index.read(piece)[-4 * n :], "<i4").astype(np.int64)
        ids = np.frombuffer(self.pieces.read(piece), dtype_of(self.dtype)).astype(np.int32, copy=False)
        return (Column(ids, np.cumsum(sizes) - sizes, sizes),)

    def check_unchanged(self) -> None:
        self.pieces.check_unchanged()
        self.index.check_unchanged()


def open_id_shard(
    path: str, *, split_lines: int | None, cache: Path | None = None, max_line: int | None = MAX_LINE
) -> IdShard:
    """Index sentences of ids, or load their index from the cache; options as for `open_shard`.

    path: of .bin or .idx
    """
    data, index = (prefix_of(path) + ending for ending in (BIN, IDX))
    with as_stream_errors(data):
        check_is_file(data)
        if not exists(index):
            remedy = "restore it, or write both with `volt binarize`"
            raise StreamError(f"{shown_path(data)}: no {shown_path(index)} says where its sentences are; {remedy}")
        check_is_file(index)
        entry = CacheEntry.of(cache or default_cache(), identity_of(data), "ids", split_lines, identity_of(index))

        def load(record: Record) -> IdShard | None:
            pieces, facts = Segments.of_record(record["pieces"], data), Facts(**record["facts"])
            sizes = Segments.of_record(record["index"], index)
            if pieces is None or sizes is None or (max_line is not None and facts.longest > max_line):
                return None
            return _shard(pieces, facts, sizes, record["dtype"])

        def build() -> tuple[IdShard, Record]:
            shard = _indexed(data, index, split_lines, max_line)
            records = {"pieces": shard.pieces.record(), "index": shard.index.record()}
            return shard, {**records, "facts": shard.facts._asdict(), "dtype": shard.dtype}

        return entry.cached(load, build)


def _shard(pieces: Segments, facts: Facts, index: Segments, dtype: str) -> IdShard:
    paths, numbers = (pieces.path, index.path), (pieces.counts, facts.n_bytes, facts.digest)
    return IdShard(paths, (), *numbers, True, True, pieces, facts, index, dtype)


def _indexed(data: str, index: str, split_lines: int | None, max_line: int | None) -> IdShard:
    with local_copy(data, kind=CorpusError, beside=lambda copy: [Path(prefix_of(copy) + IDX)]) as copy:
        result = open_ids(copy)
        result.check()
        look = _Look(result, data, max_line)
        firsts = range(0, len(result), split_lines or max(1, len(result)))
        spans = [(first, min(first + firsts.step, len(result))) for first in firsts]
        pieces = noted(data, "plain", look.at(spans))
        sizes = noted(index, "plain", _sizes(prefix_of(copy) + IDX, result, spans))
        return _shard(pieces, look.facts(), sizes, result.dtype)


def _sizes(index: str, result: IndexedIds, spans: list[tuple[int, int]]) -> Iterator[tuple[bytes, int]]:
    head = HEAD.size + 8 * (result.documents is not None)
    with open(index, "rb") as file:
        for first, last in spans:
            yield file.read((head if first == 0 else 0) + 4 * (last - first)), last - first


class _Look:
    def __init__(self, result: IndexedIds, path: str, max_line: int | None) -> None:
        self.ids, self.path, self.max_line = result, path, max_line
        self.n_bytes = self.longest = 0
        self.values, self.sizes = blake2b(digest_size=16), blake2b(digest_size=16)

    def at(self, spans: list[tuple[int, int]]) -> Iterator[tuple[bytes, int]]:
        """Yield the bytes of each piece, with how many sentences it holds."""
        for first, last in spans:
            ids, offsets = self.ids.span(first, last)
            self._check(ids, offsets, first)
            self.values.update(ids.astype("<i4", copy=False).data)
            self.sizes.update(np.diff(offsets).astype("<i4").data)
            self.n_bytes += _ID_BYTES * len(ids) + last - first
            yield ids.tobytes(), last - first

    def facts(self) -> Facts:
        message = json.dumps([self.values.hexdigest(), self.sizes.hexdigest()])
        digest = blake2b(message.encode(), digest_size=16).hexdigest()
        return Facts(self.n_bytes, self.longest, 0, digest, is_utf8=True)

    def _check(self, ids: NDArray[Any], offsets: NDArray[np.int64], first: int) -> None:
        sizes = np.diff(offsets)
        self.longest = max(self.longest, _ID_BYTES * int(sizes.max(initial=0)))
        if self.max_line is not None and self.longest > self.max_line:
            raise long_line_error(self.path, first + int(np.argmax(sizes)) + 1, self.max_line)
        if np.can_cast(ids.dtype, np.int32) or not len(ids):
            return
        wrong = (ids < _INT32.min) | (ids > _INT32.max)
        if wrong.any():
            place = int(np.argmax(wrong))
            line = first + int(np.searchsorted(offsets, place, side="right"))
            result = f"id {int(ids[place]):,} is beyond 32 bits"
            raise CorpusError(f"{shown_path(self.path)}:{line}: {result}; name data of a vocabulary")
