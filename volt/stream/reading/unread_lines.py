"""The unread lines of an epoch: shared between ranks, taken block by block, and merged when the ranks change.

    segments |     0     |        1       |     2     |     3     |   lines of a shard
    epoch    |     2     |     0     |     3     |        1       |   the segments of a source, permuted
    shares   |         rank 0          |         rank 1          |   one contiguous share for each rank
    blocks   | block | block | block |b| block | block | block |b|   up to `block_lines` lines each, permuted
    chunks   |1|2| 3 |                                               rows of a block, transformed together

    unread lines of rank 0, after 3 outputs of its second block:   begun = its second block, from output 3 on
                                                                   ranges = the lines of all later blocks

A line may give any number of outputs: transforms drop and repeat lines. So a begun block is kept whole, together with
the numbers of its unread outputs, and each of the ranks that share it computes it and delivers some of these outputs.

>>> epoch = UnreadLines(0, (range(10),))
>>> [[(block.start, block.n_lines) for block in epoch.share(rank, 2).blocks(3)] for rank in (0, 1)]
[[(0, 3), (3, 2)], [(5, 3), (8, 2)]]
>>> left = UnreadLines.merge(0, [epoch.share(0, 2).take(3, 0, block_lines=3), epoch.share(1, 2)])
>>> left.ranges, left.n_lines
((range(3, 10),), 7)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain, count
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np

from volt.errors import StreamError
from volt.stream.transforms.column import Longs

# The end of a range of outputs: their number is unknown before the transforms run
FOREVER = 1 << 62
ALL = (range(FOREVER),)
_MOST_SPLIT = (
    64  # begun blocks whose outputs are split between ranks: each rank computes all these blocks
)
_MOST_RANGES = 8  # ranges of outputs in a block that is split; each split may multiply them


class LineBlock(NamedTuple):
    """A block: consecutive lines of an epoch that are read and permuted together.

    outputs: the numbers of the unread outputs, as disjoint ranges up to `FOREVER`.
    """

    epoch: int
    start: int
    n_lines: int
    outputs: tuple[range, ...] = ALL

    @property
    def address(self) -> tuple[int, int]:
        return self.epoch, self.start

    @property
    def is_begun(self) -> bool:
        """True if some of its outputs were delivered before the number of ranks changed."""
        return self.outputs != ALL

    def unread_outputs(self, n: int) -> Longs:
        """Return the numbers of the unread ones among the block's n outputs, rising."""
        return np.sort(np.concatenate([np.arange(own.start, n, own.step) for own in self.outputs]))

    def after(self, n: int) -> LineBlock:
        """Return the block without its first n unread outputs."""

        def n_before(output: int) -> int:
            return sum(len(range(own.start, output, own.step)) for own in self.outputs)

        high = min(own[n] for own in self.outputs)
        first = bisect_left(range(high), n, key=n_before)
        unread = (own[len(range(own.start, first, own.step)) :] for own in self.outputs)
        return self._replace(outputs=tuple(unread))


class UnreadLines(NamedTuple):
    """The unread lines of an epoch, of all ranks or of one rank.

    ranges: the lines of which no output was delivered; rising, disjoint.
    begun: the blocks of which some outputs were delivered, by `start`.
    """

    epoch: int
    ranges: tuple[range, ...] = ()
    begun: tuple[LineBlock, ...] = ()

    @property
    def n_lines(self) -> int:
        return sum(map(len, self.ranges))

    @property
    def end(self) -> int:
        """The end of the last line."""
        ends = [lines.stop for lines in self.ranges]
        ends += [block.start + block.n_lines for block in self.begun]
        return max(ends, default=0)

    def share(self, rank: int, world: int) -> UnreadLines:
        """Return a rank's share. The shares are disjoint and complete, and their `n_lines` differ by at most 1."""
        number = (rank + self.epoch) % world
        low = number * self.n_lines // world
        high = (number + 1) * self.n_lines // world
        ranges = tuple(_between(self.ranges, low, high))
        return UnreadLines(self.epoch, ranges, tuple(_split(self.begun, number, world)))

    def take(self, start: int, n_outputs: int, *, block_lines: int) -> UnreadLines:
        """Return a rank's share without the blocks before line `start`, and without outputs of the block there.

        Raises StreamError if no block starts at the line.
        """
        for place, block in enumerate(self.begun):
            if block.start == start:
                return self._replace(begun=(block.after(n_outputs), *self.begun[place + 1 :]))
        for place, lines in enumerate(self.ranges):
            if start not in lines[::block_lines]:
                continue
            unread = lines[start - lines.start :]
            later = self.ranges[place + 1 :]
            if not n_outputs:
                return UnreadLines(self.epoch, (unread, *later))
            block = LineBlock(self.epoch, start, min(block_lines, len(unread)))
            ranges = filter(None, (unread[block_lines:], *later))
            return UnreadLines(self.epoch, tuple(ranges), (block.after(n_outputs),))
        raise StreamError(f"no block of this rank begins at line {start:,} of epoch {self.epoch:,}")

    @classmethod
    def merge(cls, epoch: int, shares: Iterable[UnreadLines]) -> Self:
        """Return the lines of disjoint shares of an epoch."""
        shares = list(shares)
        ranges = list[range]()
        for lines in sorted(chain.from_iterable(share.ranges for share in shares), key=_start):
            if ranges and ranges[-1].stop == lines.start:
                ranges[-1] = range(ranges[-1].start, lines.stop)
            else:
                ranges.append(lines)

        outputs = dict[LineBlock, list[range]]()
        for block in chain.from_iterable(share.begun for share in shares):
            outputs.setdefault(block._replace(outputs=()), []).extend(block.outputs)
        begun = [
            block._replace(outputs=joined(outputs[block])) for block in sorted(outputs, key=_start)
        ]
        return cls(epoch, tuple(ranges), tuple(begun))

    def blocks(self, block_lines: int) -> Iterator[LineBlock]:
        """Yield a rank's share: begun blocks, then new blocks of up to `block_lines` lines."""
        yield from self.begun
        for lines in self.ranges:
            for start in lines[::block_lines]:
                yield LineBlock(self.epoch, start, min(block_lines, lines.stop - start))


Unread = tuple[UnreadLines, ...]  # of each epoch in progress, in order; later epochs are unread
_start = attrgetter("start")


def _between(ranges: Iterable[range], low: int, high: int) -> Iterator[range]:
    """Cut the ranges to lines `low` … `high` − 1, counted over all ranges in sequence."""
    for lines in ranges:
        if own := lines[max(low, 0) : max(high, 0)]:
            yield own
        low -= len(lines)
        high -= len(lines)


def _split(begun: tuple[LineBlock, ...], number: int, world: int) -> Iterator[LineBlock]:
    """Yield a rank's share of begun blocks: some outputs of each, but whole blocks if there are many."""
    n_whole = -(-max(0, len(begun) - _MOST_SPLIT) // world) * world
    for place, block in enumerate(begun):
        if place >= n_whole and len(block.outputs) <= _MOST_RANGES:
            # each range is split from another rank on, so that no rank always gets more
            own = [
                outputs[(number + place + shift) % world :: world]
                for shift, outputs in enumerate(block.outputs)
            ]
            yield block._replace(outputs=tuple(sorted(own, key=_start)))
        elif place % world == number:
            yield block


def joined(outputs: Iterable[range]) -> tuple[range, ...]:
    """Join disjoint ranges that together form one range: 3, 5, 7 … and 4, 8 … and 6, 10 … → 3, 4, 5 …"""
    result = set(outputs)
    while family := next(_families(result), None):
        result.difference_update(family)
        result.add(range(family[0].start, FOREVER, family[1].start - family[0].start))
    return tuple(sorted(result, key=_start))


def _families(outputs: set[range]) -> Iterator[list[range]]:
    """Yield ranges that form one, largest step first: m ranges of step m · d whose starts are d apart."""
    for step in sorted({own.step for own in outputs}, reverse=True):
        starts = sorted(own.start for own in outputs if own.step == step)
        for m in range(len(starts), 1, -1):
            if step % m:
                continue
            for start in starts:
                firsts = range(start, start + step, step // m)
                family = [range(first, FOREVER, step) for first in firsts]
                if outputs.issuperset(family):
                    yield family


def unread_in(epoch: int, n_lines: int, unread: Unread) -> UnreadLines:
    """Return the unread lines of an epoch of a source, of all ranks."""
    if not unread or epoch > unread[-1].epoch:
        return UnreadLines(epoch, (range(n_lines),))
    lines = unread[bisect_left(unread, epoch, key=attrgetter("epoch"))]
    if lines.epoch != epoch:
        return UnreadLines(epoch)  # all its lines are read
    return lines


def rank_blocks(
    n_lines: int,
    block_lines: int,
    *,
    rank: int = 0,
    world: int = 1,
    unread: Unread = (),
    epochs: int | None = None,
    start: tuple[int, int] | None = None,
) -> Iterator[LineBlock]:
    """Yield a rank's blocks of a source, epoch after epoch.

    unread: the unread lines of epochs in progress
    start: (epoch, first line) of the first block. Raises StreamError if the rank has no block there.
    """
    first = 0 if start is None else start[0]
    for epoch in count(first) if epochs is None else range(first, epochs):
        share = unread_in(epoch, n_lines, unread).share(rank, world)
        if start is not None and epoch == first:
            share = share.take(start[1], 0, block_lines=block_lines)
        yield from share.blocks(block_lines)
