"""`UnreadLines`: the unread lines of an epoch, which ranks share, read in blocks, and merge.

    segments |     0     |        1       |     2     |     3     |   lines of a shard
    epoch    |     2     |     0     |     3     |        1       |   the segments of a source, permuted
    shares   |         rank 0          |         rank 1          |   one contiguous share for each rank
    blocks   | block | block | block |b| block | block | block |b|   up to `block_lines` lines each
    chunks   |1|2| 3 |                                               rows of a block, transformed together

A line is numbered by its place in the epoch. An output is a line after all transforms; a line may
give any number of outputs, because transforms drop and repeat lines. So the unread lines of a rank
that has delivered 3 outputs of its second block are

    begun     its second block as a whole, and the numbers of the unread outputs: 3, 4, 5 …
    ranges    the lines of all later blocks

If the number of ranks changes now, the unread lines of the old ranks are merged and shared anew.
Each new rank computes the whole begun block, and delivers every `world`-th of its unread outputs.
If the old ranks have advanced unevenly, the unread outputs are several ranges, such as 3, 5, 7 …
and 8, 10, 12 …; then they are numbered anew, in order, before they are shared (`earlier`).

>>> epoch = UnreadLines(0, (range(10),))
>>> [[(block.start, block.n_lines) for block in epoch.share(rank, 2).blocks(3)] for rank in (0, 1)]
[[(0, 3), (3, 2)], [(5, 3), (8, 2)]]
>>> merged = UnreadLines.merge(0, [epoch.share(0, 2).skip_to(3, 0, block_lines=3), epoch.share(1, 2)])
>>> merged.ranges, merged.n_lines
((range(3, 10),), 7)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np

from volt.array_types import Longs
from volt.errors import StreamError

# The end of a range of outputs: their number is unknown before the transforms run
FOREVER = 1 << 62
ALL = range(FOREVER)
_MOST_SPLIT = 64  # begun blocks whose outputs are split: each rank computes all these blocks
_by_start = attrgetter("start")


class LineBlock(NamedTuple):
    """A block: consecutive lines of an epoch that are read and permuted together.

    start: the first line.
    outputs: the numbers of the unread outputs, up to `FOREVER`.
    earlier: what was unread after earlier changes of ranks: disjoint ranges, which select from the
        outputs that the ranges before them have left; `outputs` select from the last ones.
    """

    epoch: int
    start: int
    n_lines: int
    outputs: range = ALL
    earlier: tuple[tuple[range, ...], ...] = ()

    @property
    def address(self) -> tuple[int, int]:
        return self.epoch, self.start

    @property
    def is_begun(self) -> bool:
        """True if some of its outputs were delivered before the number of ranks changed."""
        return self.outputs != ALL or bool(self.earlier)

    def unread_outputs(self, n_outputs: int) -> Longs:
        """Return the numbers of the unread outputs below `n_outputs`, rising."""
        result = np.arange(n_outputs)
        for ranges in self.earlier:
            parts = [result[range_.start :: range_.step] for range_ in ranges]
            result = np.sort(np.concatenate(parts))
        return result[self.outputs.start :: self.outputs.step]

    def skip_outputs(self, n: int) -> LineBlock:
        """Return the block without its first n unread outputs."""
        return self._replace(outputs=self.outputs[n:])


class UnreadLines(NamedTuple):
    """The unread lines of an epoch, of all ranks or of one rank.

    ranges: the lines without a delivered output; rising, disjoint.
    begun: the blocks with some delivered outputs, by `start`.
    """

    epoch: int
    ranges: tuple[range, ...] = ()
    begun: tuple[LineBlock, ...] = ()

    @property
    def n_lines(self) -> int:
        return sum(map(len, self.ranges))

    @property
    def end(self) -> int:
        """The line after the last unread line; 0 if all lines are read."""
        ends = [lines.stop for lines in self.ranges]
        ends += [block.start + block.n_lines for block in self.begun]
        return max(ends, default=0)

    def share(self, rank: int, world: int) -> UnreadLines:
        """Return a rank's share. Shares are disjoint and complete, and differ by at most 1 line.

        Ranks take turns with the longer shares: slot s of an epoch has lines ⌊s · n / world⌋ to
        ⌊(s + 1) · n / world⌋ − 1, and rank r has slot r + epoch, modulo world.
        """
        slot = (rank + self.epoch) % world
        low = slot * self.n_lines // world
        high = (slot + 1) * self.n_lines // world
        begun = tuple(_share_begun(self.begun, slot, world))
        return UnreadLines(self.epoch, tuple(_slice_ranges(self.ranges, low, high)), begun)

    def skip_to(self, start: int, n_outputs: int, *, block_lines: int) -> UnreadLines:
        """Return a rank's share without the blocks before line `start`, and without the first
        `n_outputs` unread outputs of the block that starts at this line.

        Raises StreamError if no block starts at the line.
        """
        for index, block in enumerate(self.begun):
            if block.start == start:
                begun = (block.skip_outputs(n_outputs), *self.begun[index + 1 :])
                return self._replace(begun=begun)
        for index, lines in enumerate(self.ranges):
            if start not in lines[::block_lines]:
                continue
            unread = lines[start - lines.start :]
            later = self.ranges[index + 1 :]
            if not n_outputs:
                return UnreadLines(self.epoch, (unread, *later))
            block = LineBlock(self.epoch, start, min(block_lines, len(unread)))
            ranges = tuple(filter(None, (unread[block_lines:], *later)))
            return UnreadLines(self.epoch, ranges, (block.skip_outputs(n_outputs),))
        raise StreamError(f"no block of this rank begins at line {start:,} of epoch {self.epoch:,}")

    @classmethod
    def merge(cls, epoch: int, shares: Iterable[UnreadLines]) -> Self:
        """Return the lines of disjoint shares of an epoch."""
        shares = list(shares)
        ranges = list[range]()
        for lines in sorted(chain.from_iterable(share.ranges for share in shares), key=_by_start):
            if ranges and ranges[-1].stop == lines.start:
                ranges[-1] = range(ranges[-1].start, lines.stop)
            else:
                ranges.append(lines)

        outputs = dict[LineBlock, list[range]]()
        for block in chain.from_iterable(share.begun for share in shares):
            outputs.setdefault(block._replace(outputs=ALL), []).append(block.outputs)
        begun = list[LineBlock]()
        for block in sorted(outputs, key=_by_start):
            joined = join_ranges(outputs[block])
            if len(joined) > 1:  # parts of each would be uneven, and ever more
                block = block._replace(earlier=(*block.earlier, joined))
            else:
                block = block._replace(outputs=joined[0])
            begun.append(block)
        return cls(epoch, tuple(ranges), tuple(begun))

    def blocks(self, block_lines: int) -> Iterator[LineBlock]:
        """Yield a rank's share: begun blocks, then new blocks of up to `block_lines` lines."""
        yield from self.begun
        for lines in self.ranges:
            for start in lines[::block_lines]:
                yield LineBlock(self.epoch, start, min(block_lines, lines.stop - start))


Unread = tuple[UnreadLines, ...]  # of each epoch in progress, in order; later epochs are unread


def _slice_ranges(ranges: Iterable[range], low: int, high: int) -> Iterator[range]:
    """Yield elements low … high − 1 of the ranges laid end to end: (4–6, 9–12), 2, 5 → 6, 9–10."""
    for lines in ranges:
        if part := lines[max(low, 0) : max(high, 0)]:
            yield part
        low -= len(lines)
        high -= len(lines)


def _share_begun(begun: tuple[LineBlock, ...], slot: int, world: int) -> Iterator[LineBlock]:
    """Yield a slot's share of begun blocks: every `world`-th unread output of each block.

    If there are many blocks, the first of them go as a whole to one slot each. The number of these
    blocks is a multiple of `world`, so that each slot gets equally many.
    """
    n_whole = -(-max(0, len(begun) - _MOST_SPLIT) // world) * world
    for index, block in enumerate(begun):
        if index >= n_whole:
            # the first output of each next block goes to another slot, so that no slot gets most
            yield block._replace(outputs=block.outputs[(slot + index) % world :: world])
        elif index % world == slot:
            yield block


def join_ranges(outputs: Iterable[range]) -> tuple[range, ...]:
    """Undo the split of outputs between ranks, as far as all parts are present.

    m ranges of step m · d whose starts are d apart are one range of step d. For m = 3 and d = 2:
    3, 9, 15 … and 5, 11, 17 … and 7, 13, 19 … are 3, 5, 7 …
    """
    result = set(outputs)
    while parts := _find_joinable(result):
        result.difference_update(parts)
        result.add(range(parts[0].start, FOREVER, parts[1].start - parts[0].start))
    return tuple(sorted(result, key=_by_start))


def _find_joinable(outputs: set[range]) -> list[range]:
    """Return ranges that form one range, largest step and most ranges first; [] if there are
    none."""
    for step in sorted({range_.step for range_ in outputs}, reverse=True):
        starts = sorted(range_.start for range_ in outputs if range_.step == step)
        for m in range(len(starts), 1, -1):
            if step % m:
                continue
            for start in starts:
                part_starts = range(start, start + step, step // m)
                parts = [range(part_start, FOREVER, step) for part_start in part_starts]
                if outputs.issuperset(parts):
                    return parts
    return []


def find_unread(epoch: int, n_lines: int, unread: Unread) -> UnreadLines:
    """Return the unread lines of an epoch of a source of `n_lines` lines, of all ranks."""
    if not unread or epoch > unread[-1].epoch:
        return UnreadLines(epoch, (range(n_lines),))
    for lines in unread:
        if lines.epoch == epoch:
            return lines
    return UnreadLines(epoch)  # all its lines are read


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

    n_lines: the source's number of lines
    unread: the unread lines of epochs in progress
    epochs: the number of epochs; None for no end
    start: (epoch, first line) of the first block

    Raises StreamError if the rank has no block at `start`.
    """
    first = 0 if start is None else start[0]
    for epoch in count(first) if epochs is None else range(first, epochs):
        share = find_unread(epoch, n_lines, unread).share(rank, world)
        if start is not None and epoch == first:
            share = share.skip_to(start[1], 0, block_lines=block_lines)
        yield from share.blocks(block_lines)
