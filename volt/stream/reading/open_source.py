"""`open_source`: a declared source → `OpenSource`, whose files are indexed and split into segments.

`read_block`: a block of an epoch → its lines, in order:

    block: lines 0–4 of epoch 3   →   line_order of the block: 2, 0, 4, 1, 3
           ↓ `segment_lines`                            ↓
    segment 7, lines 0–2; segment 1, lines 0–1   →   the lines as columns, permuted

A line's origin is its number in the source, from 0, in file order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from volt.array_types import Longs
from volt.display import counted
from volt.errors import CorpusError, StreamError
from volt.files.paths import expand, size_of
from volt.files.threads import available_cores, in_order
from volt.stream.reading.epoch_order import SegmentLines, SegmentOrder, permutation
from volt.stream.reading.error_policy import ErrorPolicy, Fault
from volt.stream.reading.id_shard import bin_of, bins_of
from volt.stream.reading.open_shard import open_pair, open_shard, remedy_of
from volt.stream.reading.segments import Stamp, stamp_of
from volt.stream.reading.shard import Shard
from volt.stream.reading.source_definition import Source
from volt.stream.reading.text_shard import SMALL
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.transforms.line_batch import Batch, concatenate_batches
from volt.stream.transforms.ordering import check_order
from volt.stream.transforms.transform import (
    LoadedFiles,
    SharedCache,
    Transform,
    exclude_tokens,
    find_files,
    is_compiled,
    joins_lines,
    open_transform,
    signature,
    special_tokens,
)
from volt.urls import bare, url_of

CHUNK_LINES = 1 << 10  # maximum lines per call of Python code
_MOST_THREADS = 8  # threads that index the files of a source, if the files are large or URLs

Growth = tuple[tuple[int, int], ...]  # (epoch, n_lines) pairs; see `OpenSource.grown`


def fingerprint(value: object) -> str:
    """Return a digest of JSON values: 16 hexadecimal digits."""
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


@dataclass(eq=False, repr=False)
class OpenSource:
    """A source whose files are indexed; no file stays open between two reads.

    faults: files skipped by the error policy.
    stamps: the path, and the size and modification time, of each file of the transforms.
    files: the loaded files of the transforms, which the sources of a stream share.
    grown: for each time that lines were appended, the epoch, and the source's lines before.

    The attributes from `blocks` on are caches; a copy in another process starts with empty ones.
    """

    source: Source
    shards: tuple[Shard, ...]
    seed: int
    faults: tuple[Fault, ...] = ()
    stamps: tuple[tuple[str, Stamp], ...] = ()
    files: LoadedFiles = field(default_factory=LoadedFiles)
    grown: Growth = ()

    def __post_init__(self) -> None:
        counts = [shard.counts for shard in self.shards]
        # (n_segments,) lines of each segment
        self.sizes: Longs = np.concatenate(counts, dtype=np.int64)
        # (n_shards + 1,) the first segment of each shard, and the number of segments
        self.shard_starts: Longs = np.cumsum([0, *map(len, counts)])
        # (n_segments + 1,) the first line of each segment, and the number of lines
        self.line_starts: Longs = np.cumsum([0, *self.sizes])
        self.n_lines = int(self.line_starts[-1])  # in an epoch
        self.n_bytes = sum(shard.facts.n_bytes for shard in self.shards)
        self.is_utf8 = all(shard.facts.is_utf8 for shard in self.shards)
        self.is_clean = all(shard.is_clean for shard in self.shards)
        self.blocks = SharedCache(most=1)  # lines of blocks with several chunks
        self.epochs = SharedCache(most=2)  # transformed lines of a small source
        self.orders = SharedCache(most=4)  # the order of the segments in an epoch
        self._segments = SharedCache(most=1)  # columns of a segment that is read in parts

    def __reduce__(self) -> tuple[type[OpenSource], tuple[object, ...]]:
        return OpenSource, tuple(getattr(self, field.name) for field in fields(self))

    @cached_property
    def transforms(self) -> tuple[Transform, ...]:
        """The transforms with their files loaded. Raises VoltError if one cannot be loaded."""
        added = special_tokens(self.source.transforms)
        steps = [exclude_tokens(transform, added) for transform in self.source.transforms]
        return tuple(open_transform(step, self.files) for step in steps)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of the lines, also unreadable files, and the files of the transforms."""
        shards = (path for shard in self.shards for path in shard.paths)
        return (*shards, *(fault.path for fault in self.faults), *(path for path, _ in self.stamps))

    @property
    def block_lines(self) -> int:
        """The lines in each block; an epoch's last block may have fewer."""
        by_memory = max(1, self.source.block_bytes * self.n_lines // max(1, self.n_bytes))
        return min(self.source.block_lines, by_memory)

    @cached_property
    def is_compiled(self) -> bool:
        return all(map(is_compiled, self.transforms))

    @cached_property
    def joins_lines(self) -> bool:
        return any(map(joins_lines, self.transforms))

    @cached_property
    def permutes_late(self) -> bool:
        """True if a block is permuted after its transforms instead of before, with the same result.

        This holds if each line is transformed by itself. It lets the segments' lines be views of
        the files' bytes, and a small source's transformed lines be cached for all epochs.
        """
        return self.source.shuffle == "lines" and self.is_compiled and not self.joins_lines

    @cached_property
    def chunk_lines(self) -> int:
        """The maximum lines of a chunk: of a whole block, unless the chunk is for Python code."""
        is_whole = self.is_compiled or self.source.shuffle == "outputs" or self.joins_lines
        if is_whole:
            return self.block_lines
        return min(CHUNK_LINES, self.block_lines)

    @property
    def fingerprints(self) -> dict[str, object]:
        """Values and digests of everything that the source's lines depend on."""
        source = self.source
        result = {
            "lines": fingerprint([[shard.facts.digest, shard.n_lines] for shard in self.shards]),
            "names": list(source.names),
            "block_lines": self.block_lines,
            "split_lines": source.split_lines,
            "shuffle": source.shuffle,
            "epochs": source.epochs,
            "weight": signature(source.weight),
            "checks": signature(source.checks),
            "n_lines": self.n_lines,
            "transforms": [
                f"{declared.name} {fingerprint(signature(transform))}"
                for declared, transform in zip(source.transforms, self.transforms, strict=True)
            ],
        }
        if self.chunk_lines < self.block_lines:
            result["chunk_lines"] = self.chunk_lines
        return result

    def growing(self, grown: Growth) -> OpenSource:
        """Return the source with `grown`, the record of appended lines."""
        return self if grown == self.grown else replace(self, grown=grown)

    def check_files(self) -> None:
        for path, stamp in self.stamps:
            if stamp_of(path) != stamp:
                raise StreamError(
                    f"{path}: changed while the stream was running; start the stream anew"
                )

    def segment_place(self, segment: int) -> tuple[Shard, int]:
        """Return the shard of a segment, and the segment's index in the shard."""
        shard = int(np.searchsorted(self.shard_starts, segment, side="right")) - 1
        return self.shards[shard], segment - int(self.shard_starts[shard])

    def segment_order(self, epoch: int) -> SegmentOrder:
        n_lines_before = [n_lines for last_epoch, n_lines in self.grown if epoch <= last_epoch]
        n_lines = min(n_lines_before, default=self.n_lines)
        n_segments = int(np.searchsorted(self.line_starts, n_lines))
        order = np.arange(n_segments)
        if self.source.shuffle != "none":
            order = permutation(n_segments, self.seed, self.name, epoch)
        return SegmentOrder.arrange(self.sizes, order, n_lines)

    def place_of(self, origin: int) -> tuple[str, int]:
        """Return the file of a line, and the line's number in the file, from 1, after a header."""
        segment = int(np.searchsorted(self.line_starts, origin, side="right")) - 1
        shard, index = self.segment_place(segment)
        line = origin - int(self.line_starts[segment - index]) + 1
        return bare(shard.paths[0]), line + shard.n_header_lines

    def read(self, lines: SegmentLines) -> Batch:
        """Return lines of a segment. If these are only a part of it, the segment stays cached."""
        shard, segment = self.segment_place(lines.segment)
        if lines.n_lines == self.sizes[lines.segment]:
            columns = shard.read(segment)
        else:
            shard.check_unchanged()
            whole = self._segments.get(lines.segment, lambda: shard.read(segment))
            chosen = np.arange(lines.first, lines.first + lines.n_lines)
            columns = tuple(column.take(chosen) for column in whole)
        first = int(self.line_starts[lines.segment]) + lines.first
        origins = np.arange(first, first + lines.n_lines)
        if shard.names or columns[0].is_ids:
            return Batch(columns, None, origins)
        return Batch((), columns[0], origins)


def open_source(
    source: Source,
    *,
    seed: int,
    cache: Path | None = None,
    policy: ErrorPolicy | None = None,
    files: LoadedFiles | None = None,
) -> OpenSource:
    """Find and index the files of a source.

    seed: the seed of the order of lines
    cache: the folder for indices
    policy: what to do with a file that cannot be read; by default raise
    files: the files of the transforms that are already loaded

    Raises StreamError if the source has no lines, or if a file cannot be read.
    """
    groups = group_paths(source)
    n_threads = 1
    if any(url_of(path) or (size_of(path) or 0) >= SMALL for path in groups[0]):
        n_threads = min(_MOST_THREADS, available_cores(), len(groups))
    results = in_order(partial(_open_group, source, cache=cache), groups, n_threads=n_threads)
    shards = list[Shard]()
    faults = list[Fault]()
    for paths, result in zip(groups, results, strict=True):
        if isinstance(result, Shard):
            if result.n_lines:
                shards.append(result)
            continue
        if policy is None or policy.on_fault == "raise":
            problem = f"source {source.name!r}: {result}{remedy_of(paths[0], result)}"
            raise StreamError(problem) from result
        faults.append(Fault(bare(paths[0]), 0, f"unreadable shard: {result}"))
    if not shards:
        problem = f"no line in {groups[0][0]}"
        if len(groups) > 1:
            problem += f" and {counted(len(groups) - 1, 'other file')}"
        if faults:
            problem += f"; {faults[0].reason}"
        raise StreamError(f"source {source.name!r}: {problem}; name other files")
    files = files or LoadedFiles()
    check_order(source.transforms, files)
    stamps = tuple((str(path), stamp_of(str(path))) for path in find_files(source.transforms))
    return OpenSource(source, tuple(shards), seed, tuple(faults), stamps, files)


def group_paths(source: Source) -> list[tuple[str, ...]]:
    """Return the paths of each shard: one path, or those of line-aligned files."""
    if source.names and not source.keys:
        paths = map(bin_of, source.paths)
        return list(zip(*[paths] * len(source.names), strict=True))
    try:
        return [(path,) for path in bins_of(expand(map(bin_of, source.paths)))]
    except CorpusError as error:
        raise StreamError(f"source {source.name!r}: {error}") from error


def _open_group(
    source: Source, paths: tuple[str, ...], *, cache: Path | None
) -> Shard | StreamError:
    """Return the shard of these paths, or the error that prevents reading it."""
    options: dict[str, Any] = {
        "split_lines": source.split_lines,
        "cache": cache,
        "max_line": source.max_line or None,
    }
    try:
        if source.keys:
            options["fields"] = dict(zip(source.names, source.keys, strict=True))
        elif source.names:
            return open_pair(dict(zip(source.names, paths, strict=True)), **options)
        return open_shard(paths[0], **options)
    except StreamError as error:
        return error


def segment_lines(source: OpenSource, block: LineBlock) -> tuple[SegmentLines, ...]:
    """Return the lines of a block, by segment."""
    order = source.orders.get(block.epoch, lambda: source.segment_order(block.epoch))
    return order.lines(block.start, block.n_lines)


def line_order(source: OpenSource, block: LineBlock, n: int) -> Longs:
    """Return a random order of the n lines (or outputs) of a block, (n,) int64."""
    return permutation(n, source.seed, source.name, block.epoch, block.start, block.n_lines)


def read_block(source: OpenSource, block: LineBlock) -> Batch:
    """Return the lines of a block; permute them if the source permutes lines before its
    transforms."""
    batch = concatenate_batches([source.read(lines) for lines in segment_lines(source, block)])
    if source.source.shuffle != "lines" or source.permutes_late:
        return batch
    return batch.take(line_order(source, block, len(batch)))


def permuted_late(source: OpenSource, block: LineBlock, origins_read: Longs, batch: Batch) -> Batch:
    """Return the transformed lines of a block, permuted like the lines that they come from.

    origins_read: (n_lines,) the origins of the block's lines before the transforms
    """
    from volt.kernels.columns import permuted

    order = line_order(source, block, len(origins_read))
    indices = np.empty(len(batch), np.int64)
    firsts = np.empty(len(origins_read) + 1, np.int64)
    if permuted(origins_read, batch.origins, order, firsts, indices) != len(batch):
        problem = "a transform has changed the order of lines; set joins_lines in it"
        raise StreamError(f"source {source.name!r}: {problem}")
    return batch.take(indices)
