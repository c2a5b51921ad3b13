"""Derive from the seed which lines a rank reads in an epoch, and in which order.

In each epoch, the pieces of a source are permuted and laid end to end. Their lines are divided into one contiguous
share per rank; rank r reads share (r + epoch) mod world. A share is split into parts of `block_lines` lines, and the
lines of each part are permuted. If the number of ranks changes, the new ranks divide the unread lines: the deal.

>>> [[(part.start, part.n_lines) for part in parts(10, 3, rank=rank, world=2, epochs=1)] for rank in (0, 1)]
[[(0, 3), (3, 2)], [(5, 3), (8, 2)]]
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError, StreamError
from volt.stream.transforms.line_rng import Place, key


class Slice(NamedTuple):
    """`n_lines` lines of a piece, starting at line `first` (counted from 0)."""

    piece: int
    first: int
    n_lines: int


def permutation(n: int, *place: Place) -> NDArray[np.int64]:
    """Return a random order of 0 … n−1, (n,) int64. It uses raw random bits, which are equal in all NumPy versions."""
    from volt.kernels.columns import shuffle

    order = np.arange(n)
    if n < 2:
        return order
    shuffle(np.random.Philox(key=key(*place)).random_raw(n), order)
    return order


class EpochLayout(NamedTuple):
    """The pieces of an epoch, in order. firsts: each piece's first line to read; ends: where it ends in the epoch."""

    pieces: NDArray[np.int64]
    firsts: NDArray[np.int64]
    ends: NDArray[np.int64]


def read_order(layout: EpochLayout, *, start: int, n_lines: int) -> tuple[Slice, ...]:
    first, last = np.searchsorted(layout.ends, [start, start + n_lines - 1], side="right").tolist()
    slices = list[Slice]()
    for place in range(first, last + 1):
        begin, end = int(layout.ends[place - 1]) if place else 0, int(layout.ends[place])
        low, high = max(start, begin), min(start + n_lines, end)
        if low < high:
            slices.append(
                Slice(
                    int(layout.pieces[place]), int(layout.firsts[place]) + low - begin, high - low
                )
            )
    return tuple(slices)


Pick = tuple[int, int]  # outputs first, first + step, first + 2 · step, … of a part
Span = tuple[int, int]  # lines start … end − 1 of an epoch
ALL: tuple[Pick, ...] = ((0, 1),)
_MOST_SHARED = 64  # maximum begun parts whose outputs are split between ranks: each rank computes all these parts
_MOST_PICKS = 8  # maximum picks of a part whose outputs are split; each split may multiply picks


class BlockRange(NamedTuple):
    """A part: consecutive lines of an epoch that are read and permuted together.

    picks: the outputs to deliver: (first, step) means outputs first, first + step, first + 2 · step, …
    """

    epoch: int
    start: int
    n_lines: int
    picks: tuple[Pick, ...] = ALL

    @property
    def address(self) -> tuple[int, int]:
        return self.epoch, self.start

    @property
    def is_begun(self) -> bool:
        """True if some of its outputs were delivered before the number of ranks changed."""
        return self.picks != ALL

    def chosen(self, n: int) -> NDArray[np.int64]:
        """Return the indices of the outputs to deliver among n outputs."""
        return np.sort(np.concatenate([np.arange(first, n, step) for first, step in self.picks]))

    def left(self, offset: int) -> BlockRange:
        """Return the part without the first `offset` chosen outputs."""
        high = min(first + step * offset for first, step in self.picks)
        low = bisect_left(
            range(high),
            offset,
            key=lambda output: sum(_before(pick, output) for pick in self.picks),
        )
        picks = ((first + step * _before((first, step), low), step) for first, step in self.picks)
        return self._replace(picks=tuple(picks))


def _before(pick: Pick, output: int) -> int:
    first, step = pick
    return max(0, -((first - output) // step))


class Remains(NamedTuple):
    """The unread rest of an epoch, of all ranks or of one rank.

    spans: (start, end) lines of which no output was delivered; rising, disjoint.
    begun: parts of which some outputs were delivered, sorted by start; their `picks` are the other outputs.
    """

    epoch: int
    spans: tuple[Span, ...] = ()
    begun: tuple[BlockRange, ...] = ()

    @property
    def n_lines(self) -> int:
        return sum(end - start for start, end in self.spans)

    def share(self, rank: int, world: int) -> Remains:
        """Return a rank's share. The shares are disjoint and complete, and their `n_lines` differ by at most 1."""
        number = (rank + self.epoch) % world
        low, high = number * self.n_lines // world, (number + 1) * self.n_lines // world
        return Remains(
            self.epoch,
            tuple(_between(self.spans, low, high)),
            tuple(_dealt(self.begun, number, world)),
        )

    def parts(self, block_lines: int) -> Iterator[BlockRange]:
        """Yield a rank's share: the rest of the parts already begun, then new parts of up to `block_lines` lines."""
        yield from self.begun
        for start, end in self.spans:
            for first in range(start, end, block_lines):
                yield BlockRange(self.epoch, first, min(block_lines, end - first))

    def since(self, start: int, block_lines: int) -> Remains:
        """Return a rank's share without the parts before line `start`. Raises StreamError if no part starts there."""
        for place in (place for place, part in enumerate(self.begun) if part.start == start):
            return self._replace(begun=self.begun[place:])
        for place, (first, end) in enumerate(self.spans):
            if first <= start < end and (start - first) % block_lines == 0:
                return Remains(self.epoch, ((start, end), *self.spans[place + 1 :]))
        raise StreamError(f"no part of this rank begins at line {start:,} of epoch {self.epoch:,}")

    def after(self, start: int, offset: int, block_lines: int) -> Remains:
        """Return the rest of a rank's share after `offset` outputs of the part at `start`."""
        rest = self.since(start, block_lines)
        if not offset:
            return rest
        part = next(rest.parts(block_lines))
        if rest.begun:
            return rest._replace(begun=(part.left(offset), *rest.begun[1:]))
        first, end = start + part.n_lines, rest.spans[0][1]
        return Remains(
            self.epoch,
            (*(((first, end),) if first < end else ()), *rest.spans[1:]),
            (part.left(offset),),
        )


Deal = tuple[Remains, ...]  # the rest of each epoch in progress, in order


def _between(spans: Iterable[Span], low: int, high: int) -> Iterator[Span]:
    """Cut the spans to lines `low` … `high` − 1, counted over all spans in sequence."""
    for start, end in spans:
        first, last = max(low, 0), min(high, end - start)
        if first < last:
            yield start + first, start + last
        low, high = low - (end - start), high - (end - start)


def _dealt(begun: tuple[BlockRange, ...], number: int, world: int) -> Iterator[BlockRange]:
    """Yield a rank's share of the begun parts: some outputs of each, but whole parts if there are many."""
    n_whole = -(-max(0, len(begun) - _MOST_SHARED) // world) * world
    for place, part in enumerate(begun):
        if place >= n_whole and len(part.picks) <= _MOST_PICKS:
            yield part._replace(picks=_every(part.picks, number + place, world))
        elif place % world == number:
            yield part


def _every(picks: tuple[Pick, ...], number: int, world: int) -> tuple[Pick, ...]:
    """Return every `world`-th output of each pick, starting from a different output in each pick."""
    return tuple(
        sorted(
            (at + step * ((number + i) % world), step * world) for i, (at, step) in enumerate(picks)
        )
    )


def joined(picks: Iterable[Pick]) -> tuple[Pick, ...]:
    """Merge disjoint picks that together form one pick: (3, 2), (4, 4), (6, 4) → (3, 1)."""
    result = set(picks)
    while (more := next(_families(result), None)) is not None:
        result = result - more | {(min(more)[0], min(more)[1] // len(more))}
    return tuple(sorted(result))


def _families(picks: set[Pick]) -> Iterator[set[Pick]]:
    """Yield sets of picks that form one pick, largest step first: m picks of step m · d whose firsts are d apart."""
    for step in sorted({step for _, step in picks}, reverse=True):
        firsts = sorted(first for first, other in picks if other == step)
        for m in (m for m in range(len(firsts), 1, -1) if step % m == 0):
            classes = dict[int, list[int]]()
            for first in firsts:
                classes.setdefault(first % (step // m), []).append(first)
            for members in classes.values():
                if len(members) == m and members[-1] - members[0] == step - step // m:
                    yield {(first, step) for first in members}


def parts(
    n_lines: int,
    block_lines: int,
    *,
    rank: int = 0,
    world: int = 1,
    deal: Deal = (),
    epochs: int | None = None,
    start: tuple[int, int] | None = None,
) -> Iterator[BlockRange]:
    """Yield a rank's parts of a source, epoch after epoch.

    deal: the unread lines of epochs in progress; later epochs are read whole.
    start: (epoch, first line) of the first part. Raises StreamError if the rank has no part there.
    """
    first = 0 if start is None else start[0]
    for epoch in count(first) if epochs is None else range(first, epochs):
        share = remains_of(n_lines, deal, epoch).share(rank, world)
        if start is not None and epoch == first:
            share = share.since(start[1], block_lines)
        yield from share.parts(block_lines)


def remains_of(n_lines: int, deal: Deal, epoch: int) -> Remains:
    if not deal or epoch > deal[-1].epoch:
        return Remains(epoch, ((0, n_lines),))
    remains = deal[bisect_left(deal, epoch, key=attrgetter("epoch"))]
    return remains if remains.epoch == epoch else Remains(epoch)


def check_rank(rank: int, world: int) -> tuple[int, int]:
    rank, world = arguments.whole(rank, "rank"), arguments.whole(world, "world")
    if not 0 <= rank < world:
        raise ConfigError(
            f"rank {rank} of world {world}: give a rank of 0 or more, and a world above it"
        )
    return rank, world


_NAMES = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def from_environment(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Return (rank, world) from the environment variables of torchrun, MPI or Slurm; (0, 1) if none is set.

    environment: the variables; by default `os.environ`

    Raises ConfigError if only the rank or only the world is set. SLURM_NTASKS or SLURM_PROCID=0 alone is ignored,
    because Slurm sets it in all scripts.

    >>> from_environment({}), from_environment({"RANK": "1", "WORLD_SIZE": "2"})
    ((0, 1), (1, 2))
    """
    variables = os.environ if environment is None else arguments.mapping(environment, "environment")
    for rank, world in _NAMES:
        if rank in variables and world in variables:
            try:
                return check_rank(int(variables[rank]), int(variables[world]))
            except (ValueError, TypeError, ConfigError) as error:
                pair = f"{rank}={variables[rank]!r}, {world}={variables[world]!r}"
                raise ConfigError(f"{pair}: {error}; unset them") from None
        for one, other in ((rank, world), (world, rank)):
            is_ignored = one == "SLURM_NTASKS" or (
                one == "SLURM_PROCID" and variables.get(one) == "0"
            )
            if one in variables and not is_ignored:
                raise ConfigError(
                    f"{one}={variables[one]!r} is set, but {other} is not; set both, or neither"
                )
    return 0, 1
