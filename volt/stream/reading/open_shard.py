"""A path, a table with its columns, or a pair of paths → a shard: text, ids, a table, or parallel files.

Parallel files are split at the same line numbers; line i of the shard has a field from line i of each file.
Indexed ids (.bin and .idx) become one column of ids; the file's number type does not affect columns or digests.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.arguments import MAX_LINE
from volt.display import counted
from volt.errors import ConfigError, CorpusError, StreamError, shown_path
from volt.files.indexed_dataset import BIN, HEAD, IDX, IndexedIds, dtype_of, open_ids, prefix_of
from volt.files.paths import exists
from volt.files.remote_files import local_copy
from volt.files.text_checks import LongLineError, long_line_error
from volt.stream.reading.index_cache import Index, cached_index
from volt.stream.reading.segments import noted
from volt.stream.reading.shard import Facts, Shard, as_stream_errors, check_is_file
from volt.stream.reading.text_shard import open_text
from volt.stream.transforms.column import Column

_ID_BYTES = 4  # of an id in a column
_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class PairShard(Shard):
    """Indexed files with equal numbers of lines."""

    sides: tuple[Shard, ...] = ()

    def digests_of(self, n_lines: int) -> tuple[str, ...]:
        digests = product(*(side.digests_of(n_lines) for side in self.sides))
        return tuple(_digest(self.names, sides) for sides in digests)

    def read(self, segment: int) -> tuple[Column, ...]:
        return tuple(column for side in self.sides for column in side.read(segment))


def _digest(*parts: str | Sequence[str]) -> str:
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def are_ids(path: str) -> bool:
    return path.endswith((BIN, IDX))


def bin_of(path: str) -> str:
    """Return the .bin file of an .idx file, or of a prefix that is not itself a file; else the path itself."""
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


def open_one(path: str, **options: Any) -> Shard:
    open_file = open_id_shard if are_ids(path) else open_text
    return open_file(path, **options)


def open_pair(pair: Mapping[str, str], **options: Any) -> PairShard:
    """Index two or more line-aligned files. pair: field name → file; other options as for `open_shard`."""
    if len(pair) < 2:
        raise ConfigError(
            f"pair: {counted(len(pair), 'file')}; name two or more, such as {{src: a.de, tgt: a.en}}"
        )
    for name, path in pair.items():
        arguments.text(name, "the name of a field")
        arguments.path(path, f"pair[{name!r}]")
    sides = [open_one(path, **options) for path in pair.values()]
    first = sides[0]
    for side in sides:
        if side.n_lines != first.n_lines:
            counts = [
                f"{shown_path(one.paths[0])} has {counted(one.n_lines, 'line')}"
                for one in (first, side)
            ]
            raise StreamError(
                f"{', '.join(counts)}; files of a pair must have the same number of lines; align them"
            )
    names = tuple(pair)
    facts = [side.facts for side in sides]
    merged = Facts(
        n_bytes=sum(one.n_bytes for one in facts),
        longest=max(one.longest for one in facts),
        first_tab=max(one.first_tab for one in facts),
        digest=_digest(names, [one.digest for one in facts]),
        is_utf8=all(one.is_utf8 for one in facts),
    )
    files = tuple(file for side in sides for file in side.files)
    return PairShard(files, merged, names, tuple(sides))


@dataclass(frozen=True, slots=True)
class IdShard(Shard):
    """Indexed sentences of ids. files: the ids in .bin, and the sizes of each segment's sentences in .idx"""

    def read(self, segment: int) -> tuple[Column, ...]:
        data, index = self.files
        sizes = np.frombuffer(index.read(segment)[-4 * self.counts[segment] :], "<i4")
        sizes = sizes.astype(np.int64)
        ids = np.frombuffer(data.read(segment), dtype_of(self.facts.dtype))
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
    data, index = (prefix_of(path) + ending for ending in (BIN, IDX))
    with as_stream_errors(data):
        if not exists(index):
            remedy = "restore it, or write both with `volt binarize`"
            raise StreamError(
                f"{shown_path(data)}: its index {shown_path(index)} is missing; {remedy}"
            )
        check_is_file(index)
        make = partial(_indexed, data, index, split_lines, max_line)
        key = ["ids", split_lines]
        paths = [data, index]
        return IdShard(*cached_index(paths, make, cache=cache, max_line=max_line, key=key))


def _indexed(
    data: str, index: str, split_lines: int | None, max_line: int | None, _: Path
) -> Index:
    def index_of(copy: str | Path) -> str:
        return prefix_of(copy) + IDX

    with local_copy(data, kind=CorpusError, beside=lambda copy: [Path(index_of(copy))]) as copy:
        ids = open_ids(copy)
        ids.check()
        scan = _Scan(ids, data, max_line)
        firsts = range(0, len(ids), split_lines or max(1, len(ids)))
        bounds = [(first, min(first + firsts.step, len(ids))) for first in firsts]
        files = (
            noted(data, "plain", scan.at(bounds)),
            noted(index, "plain", _sizes(index_of(copy), ids, bounds)),
        )
        return files, scan.facts()


def _sizes(
    index: str, ids: IndexedIds, bounds: list[tuple[int, int]]
) -> Iterator[tuple[bytes, int]]:
    n_bytes = HEAD.size + 8 * (ids.documents is not None)
    with open(index, "rb") as file:
        for first, last in bounds:
            yield file.read(n_bytes + 4 * (last - first)), last - first
            n_bytes = 0


class _Scan:
    def __init__(self, ids: IndexedIds, path: str, max_line: int | None) -> None:
        self.ids = ids
        self.path = path
        self.max_line = max_line
        self.n_bytes = self.longest = 0
        self.values = blake2b(digest_size=16)
        self.sizes = blake2b(digest_size=16)

    def at(self, bounds: list[tuple[int, int]]) -> Iterator[tuple[bytes, int]]:
        for first, last in bounds:
            ids, offsets = self.ids.span(first, last)
            self._check(ids, offsets, first)
            self.values.update(ids.astype("<i4", copy=False).data)
            self.sizes.update(np.diff(offsets).astype("<i4").data)
            self.n_bytes += _ID_BYTES * len(ids) + last - first
            yield ids.tobytes(), last - first

    def facts(self) -> Facts:
        digest = _digest(self.values.hexdigest(), self.sizes.hexdigest())
        return Facts(self.n_bytes, self.longest, 0, digest, is_utf8=True, dtype=self.ids.dtype)

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
            problem = f"id {int(ids[place]):,} does not fit in 32 bits; name data with ids of a vocabulary"
            raise CorpusError(f"{shown_path(self.path)}:{line}: {problem}")


_SHARDED = re.compile(r"\d{5,}\.(src|tgt|mono)(\.zst|\.gz)?")


def open_shard(
    path: str,
    *,
    split_lines: int | None,
    fields: Mapping[str, str] | None = None,
    cache: Path | None = None,
    max_line: int | None = MAX_LINE,
) -> Shard:
    """Index a file, or load its index from the cache. Raises StreamError if that fails.

    split_lines: lines per segment, or None to leave files whole.
    fields: for a table (JSON lines or Parquet), field name → JSON key or column name.
    max_line: the maximum number of bytes of a line; None for no limit.
    """
    if fields is None:
        return open_one(path, split_lines=split_lines, cache=cache, max_line=max_line)
    if are_ids(path):
        raise StreamError(
            f"{shown_path(path)}: contains indexed ids, which have no columns; remove `columns`"
        )
    from volt.stream.reading.tables import open_table

    return open_table(path, fields, split_lines=split_lines, cache=cache, max_line=max_line)


def remedy_of(path: str, error: StreamError) -> str:
    """Return the remedy for a damaged file written by `volt shard`; empty for other files and errors."""
    folder, name = os.path.split(path)
    cause = error.__cause__
    if (
        isinstance(cause, LongLineError)
        or not isinstance(cause, CorpusError)
        or not _SHARDED.fullmatch(name)
        or not os.path.isfile(os.path.join(folder, "manifest.json"))
    ):
        return ""
    output = shown_path(os.path.dirname(folder) or ".")
    return f"; make the shards again: volt shard CONFIG -o {output}"
