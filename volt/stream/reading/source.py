"""A declared source of lines → its indexed pieces, and the blocks that each epoch deals out.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"1\\n2\\n3\\n4\\n5\\n") and file.flush()
...     source = open_source(Source("digits", (file.name,), block_lines=2), seed=1)
...     [[line.decode() for line in read_block(source, 0, block).lines] for block in range(source.n_blocks)]
[['2', '1'], ['4', '3'], ['5']]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from volt.errors import ConfigError, CorpusError, StreamError
from volt.files.paths import expand
from volt.stream.mixing.schedule import Schedule, check_weight
from volt.stream.reading.checks import Checks
from volt.stream.reading.faults import Fault, Policy
from volt.stream.reading.order import Slice, n_blocks, permutation, read_order
from volt.stream.reading.shards import Shard, Stamp, check_unchanged, open_shard, read_piece, stamp_of
from volt.stream.transforms.batch import Transform, files, signature

BLOCK_LINES = 1 << 17
BLOCK_BYTES = 64 << 20
SPLIT_LINES = 1 << 13

Shuffle = Literal["lines", "outputs", "none"]


@dataclass(frozen=True, slots=True)
class Source:
    """What a stream reads under one name.

    paths: files (.tsv or text, plain or compressed), folders, globs;  weight: its share of the mixture, a number or a
    `Schedule`;  transforms: applied to each block, in this order;  block_lines, block_bytes: a block holds so many
    lines, or as many as have about so many bytes, whichever is less;  split_lines: lines per piece, the unit that an
    epoch permutes; None keeps files whole;  shuffle: "lines" permutes a block's lines before its transforms, "outputs"
    what comes out of them (for transforms that join consecutive lines), "none" nothing, so that files are read in
    order;  epochs: how often it is read before it ends, None for ever;  checks: what makes a line unfit.

    >>> Source("wmt", ("train.tsv.gz",), epochs=0)
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: source 'wmt': epochs=0 must be at least 1
    """

    name: str
    paths: tuple[str, ...]
    weight: float | Schedule = 1.0
    transforms: tuple[Transform, ...] = ()
    block_lines: int = BLOCK_LINES
    block_bytes: int = BLOCK_BYTES
    split_lines: int | None = SPLIT_LINES
    shuffle: Shuffle = "lines"
    epochs: int | None = None
    checks: Checks = field(default_factory=Checks)

    def __post_init__(self) -> None:
        for name in ("block_lines", "block_bytes", "split_lines", "epochs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"source {self.name!r}: {name}={value} must be at least 1")
        if self.shuffle not in ("lines", "outputs", "none"):
            raise ConfigError(f"source {self.name!r}: shuffle={self.shuffle!r}: choose lines, outputs or none")
        if isinstance(self.paths, str) or not self.paths:
            raise ConfigError(f"source {self.name!r}: paths must be a tuple of one path or more")
        check_weight(self.weight, self.name)


@dataclass(frozen=True, eq=False)
class OpenSource:
    """A source whose files are indexed. seed: the stream's;  faults: shards that the policy left out;  stamps: of the
    files that its transforms use.
    """

    source: Source
    shards: tuple[Shard, ...]
    seed: int
    faults: tuple[Fault, ...] = ()
    stamps: tuple[tuple[str, Stamp], ...] = ()

    def __post_init__(self) -> None:
        sizes = [shard.sizes for shard in self.shards]
        starts = np.cumsum([0, *map(len, sizes)])
        object.__setattr__(self, "sizes", np.concatenate(sizes))
        object.__setattr__(self, "shard_starts", starts)

    sizes: NDArray[np.int64] = field(init=False)  # (n_pieces,) lines
    shard_starts: NDArray[np.int64] = field(init=False)  # (n_shards + 1,) numbers of first pieces

    @property
    def name(self) -> str:
        """The source's name."""
        return self.source.name

    @property
    def n_lines(self) -> int:
        """Lines in an epoch."""
        return int(self.sizes.sum())

    @property
    def n_bytes(self) -> int:
        """Bytes of text in an epoch."""
        return sum(shard.n_bytes for shard in self.shards)

    @property
    def block_lines(self) -> int:
        """Lines in every block of an epoch but the last."""
        by_memory = max(1, self.source.block_bytes * self.n_lines // max(1, self.n_bytes))
        return min(self.source.block_lines, by_memory)

    @property
    def n_blocks(self) -> int:
        """Blocks in an epoch."""
        return n_blocks(self.n_lines, self.block_lines)

    @property
    def signature(self) -> dict[str, object]:
        """What the source's lines depend on, JSON-able: contents, not paths."""
        source = self.source
        return {
            "lines": [[shard.digest, shard.n_lines] for shard in self.shards],
            "block_lines": self.block_lines,
            "split_lines": source.split_lines,
            "shuffle": source.shuffle,
            "epochs": source.epochs,
            "weight": signature(source.weight),
            "checks": signature(source.checks),
            "transforms": signature(source.transforms),
        }

    def check_files(self) -> None:
        """Raise StreamError if a file that a transform uses is not what it was; whoever loads it now gets another."""
        for path, stamp in self.stamps:
            if stamp_of(path) != stamp:
                raise StreamError(f"{path}: changed while the stream was running; start the stream anew")

    def piece_place(self, piece: int) -> tuple[Shard, int]:
        """The shard that a piece lies in, and its number there."""
        shard = int(np.searchsorted(self.shard_starts, piece, side="right")) - 1
        return self.shards[shard], piece - int(self.shard_starts[shard])


def open_source(source: Source, *, seed: int, cache: Path | None = None, policy: Policy | None = None) -> OpenSource:
    """Find and index a source's files.

    Raises StreamError if there are none, or no lines in them, or one cannot be read and the policy is to raise.
    """
    try:
        paths = expand(source.paths)
    except CorpusError as error:
        raise StreamError(f"source {source.name!r}: {error}") from error
    shards, faults = list[Shard](), list[Fault]()
    for path in paths:
        try:
            shards.append(open_shard(path, split_lines=source.split_lines, cache=cache))
        except StreamError as error:
            if policy is None or policy.on_fault == "raise":
                raise StreamError(f"source {source.name!r}: {error}") from error
            faults.append(Fault(path, 0, f"unreadable shard: {error}"))
    filled = tuple(shard for shard in shards if shard.n_lines)
    if not filled:
        why = f"; {faults[0].reason}" if faults else ""
        raise StreamError(f"source {source.name!r}: no line in {len(paths)} files ({paths[0]} …){why}; name others")
    stamps = tuple((str(path), stamp_of(str(path))) for path in files(source.transforms))
    return OpenSource(source, filled, seed, tuple(faults), stamps)


@dataclass(frozen=True, slots=True)
class RawBlock:
    """The lines of a block in reading order. slices: where they come from;  order: (n_lines,) how to permute them."""

    lines: list[bytes]
    slices: tuple[Slice, ...]
    order: NDArray[np.int64] | None


def block_slices(source: OpenSource, epoch: int, block: int) -> tuple[Slice, ...]:
    """The slices of pieces that make up a block."""
    order = _piece_order(source, epoch)
    return read_order(source.sizes, block_lines=source.block_lines, block=block, order=order)


@lru_cache(maxsize=64)
def _piece_order(source: OpenSource, epoch: int) -> NDArray[np.int64]:
    n_pieces = len(source.sizes)
    if source.source.shuffle == "none":
        return np.arange(n_pieces)
    return permutation(n_pieces, source.seed, source.name, epoch)


def line_order(source: OpenSource, epoch: int, block: int, n: int) -> NDArray[np.int64] | None:
    """The order of a block's n lines (or outputs), or None if they stay as they are."""
    if source.source.shuffle == "none":
        return None
    return permutation(n, source.seed, source.name, epoch, block)


def read_block(source: OpenSource, epoch: int, block: int) -> RawBlock:
    """The lines of a block, permuted if the source shuffles lines. Raises StreamError if a file has changed."""
    slices = block_slices(source, epoch, block)
    lines = [line for part in slices for line in _lines(source, part)]
    order = line_order(source, epoch, block, len(lines)) if source.source.shuffle == "lines" else None
    if order is not None:
        lines = list(map(lines.__getitem__, order.tolist()))
    return RawBlock(lines, slices, order)


def _lines(source: OpenSource, part: Slice) -> list[bytes]:
    if part.n_lines == source.sizes[part.piece]:
        return read_piece(*source.piece_place(part.piece))
    check_unchanged(source.piece_place(part.piece)[0])
    return _kept_piece(source, part.piece)[part.first : part.first + part.n_lines]


@lru_cache(maxsize=2)
def _kept_piece(source: OpenSource, piece: int) -> list[bytes]:
    """A piece that blocks share is kept for the next block."""
    return read_piece(*source.piece_place(piece))


def place_of(source: OpenSource, slices: tuple[Slice, ...], index: int) -> tuple[str, int]:
    """Path and line number, from 1, of the line at an index of a block in reading order, before it is permuted."""
    for part in slices:
        if index < part.n_lines:
            shard, piece = source.piece_place(part.piece)
            return shard.path, sum(shard.counts[:piece]) + part.first + index + 1
        index -= part.n_lines
    raise IndexError(index)


def addresses(
    source: OpenSource, *, rank: int = 0, world: int = 1, start: tuple[int, int] = (0, 0)
) -> Iterator[tuple[int, int]]:
    """(epoch, block) of every block that is a rank's, from `start` on.

    Block b of epoch e goes to rank (b + e) mod world: over the ranks every block comes once, and what is left over
    by a world that does not divide the blocks goes round.
    """
    epoch, first = start
    while source.source.epochs is None or epoch < source.source.epochs:
        for block in range(first, source.n_blocks):
            if (block + epoch) % world == rank:
                yield epoch, block
        epoch, first = epoch + 1, 0
