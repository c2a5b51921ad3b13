"""A plan of shards → chunks of lines, mixed as they stand in a shard; a chunk → its bytes on disk, and its words.

A chunk is packed by itself: files of zstd and gzip may have several frames or members. So chunks of one shard can be
packed at the same time, and their number and their bytes depend on nothing but the plan.

>>> chunk = Chunk(0, True, 2, ((b"low\\n", b"new\\n"),), np.array([1, 0]))
>>> packed(chunk, compress="none").data
(b'new\\nlow\\n',)
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from volt.count.counting import count_block
from volt.count.summing import CountedPart
from volt.files.blocks import Block, checked_block
from volt.files.long_lines import BYTE_ORDER_MARK
from volt.stream.tasks.apportioning import Longs, in_a_row, mixed_chunks, mixed_order
from volt.stream.tasks.input_files import Lines, ReadInput
from volt.stream.tasks.shard_folder import Compression, Layout
from volt.stream.tasks.task import Task
from volt.stream.transforms.column import Column, concatenated

_ZSTD_LEVEL, _GZIP_LEVEL = 3, 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written for a task.

    counts: (n_shards, n_inputs) how many lines of each input each shard gets
    chunk_lines: about how many lines of a shard are packed together
    """

    task: Task
    inputs: tuple[ReadInput, ...]
    layout: Layout
    counts: Longs
    chunk_lines: int

    @property
    def n_lines(self) -> int:
        """Lines of all shards."""
        return int(self.counts.sum())

    @property
    def is_mixed(self) -> bool:
        """Whether inputs are spread evenly."""
        return self.layout.order == "mixed"


class Chunk(NamedTuple):
    """Lines of a shard: for each side those of each input, and the order in which they are to stand."""

    shard: int
    is_first: bool
    n_lines: int
    sides: tuple[tuple[bytes, ...], ...]
    order: Longs | None


class Packed(NamedTuple):
    """A chunk as it is written, and its words, side by side."""

    shard: int
    n_lines: int
    data: tuple[bytes, ...]
    words: tuple[CountedPart, ...]


def chunks_of(plan: Plan, *, without: Container[int] = (), ahead: bool = False) -> Iterator[Chunk]:
    """The lines of all shards but some, in the order in which they are written.

    ahead: whether files are read in threads
    """
    n_open = len(plan.inputs) * len(plan.task.sides)
    readers = [
        [Lines([file.path for file in files], n_open=n_open, ahead=ahead) for files in read.sides]
        for read in plan.inputs
    ]
    wanted = [number for number in range(len(plan.counts)) if number not in without]
    for number, counts in enumerate(plan.counts[: wanted[-1] + 1 if wanted else 0]):
        if number in without:
            for sides, n in zip(readers, counts.tolist(), strict=True):
                for reader in sides:
                    reader.skip(n)
        else:
            yield from _shard_chunks(plan, number, counts, readers)


def _shard_chunks(plan: Plan, number: int, counts: Longs, readers: list[list[Lines]]) -> Iterator[Chunk]:
    n_chunks = -(-int(counts.sum()) // plan.chunk_lines)
    cut = mixed_chunks if plan.is_mixed else in_a_row
    first = np.zeros_like(counts)
    for n_lines in cut(counts, n_chunks):
        order = mixed_order(first, n_lines, counts) if plan.is_mixed and len(counts) > 1 else None
        taken = [[reader.take(n) for reader in sides] for sides, n in zip(readers, n_lines.tolist(), strict=True)]
        if n_lines.any():
            yield Chunk(number, not first.any(), int(n_lines.sum()), tuple(zip(*taken, strict=True)), order)
        first = first + n_lines


def packed(chunk: Chunk, *, compress: Compression) -> Packed:
    """Mix the lines of a chunk, pack them, and count their words."""
    texts = [_mixed(parts, chunk.order) for parts in chunk.sides]
    if chunk.is_first:  # the reader of a file leaves out one byte order mark, which is no part of its first line
        texts = [BYTE_ORDER_MARK * text.startswith(BYTE_ORDER_MARK) + text for text in texts]
    words = tuple(_words(text, chunk.n_lines) for text in texts)
    return Packed(chunk.shard, chunk.n_lines, tuple(_compressed(text, compress) for text in texts), words)


def _mixed(parts: tuple[bytes, ...], order: Longs | None) -> bytes:
    """The lines of several inputs in an order, or one input behind the other."""
    if order is None:
        return b"".join(parts)
    return concatenated([Column.cut(part) for part in parts]).take(order).text().tobytes()


def _words(text: bytes, n_lines: int) -> CountedPart:
    """The words of the lines that are UTF-8, and how many are not."""
    block = checked_block(Block("", 1, n_lines, text, len(text)), "skip")
    return count_block(block)._replace(n_bad_lines=block.n_bad_lines)


def _compressed(text: bytes, compress: Compression) -> bytes:
    """A text packed by itself, the same at any time: what follows it in a file is packed by itself, too.

    >>> [_compressed(b"low\\n", kind)[:4] for kind in ("zstd", "gz", "none")]
    [b'(\\xb5/\\xfd', b'\\x1f\\x8b\\x08\\x00', b'low\\n']
    """
    if compress == "none":
        return text
    if compress == "gz":
        from isal import igzip_lib

        return bytes(igzip_lib.compress(text, _GZIP_LEVEL, igzip_lib.COMP_GZIP))
    import zstandard

    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(text)
