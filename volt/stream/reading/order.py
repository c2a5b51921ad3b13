"""(seed, source, epoch, part) → which lines of which pieces are read, in which order: all that is random in reading.

A source is a list of pieces of known length. An epoch permutes the pieces and lays their lines end to end; a part is
some consecutive lines of these (volt.stream.reading.shares), and permutes them. Nothing is drawn from a running
generator: each permutation follows from random words of a Philox generator whose key is a hash of its place, so any
process can compute any part.

>>> layout = Layout(pieces=np.array([1, 0]), firsts=np.array([0, 0]), ends=np.array([2, 5]))
>>> [read_order(layout, start=start, n_lines=n) for start, n in ((0, 4), (4, 1))]
[(Slice(piece=1, first=0, n_lines=2), Slice(piece=0, first=0, n_lines=2)), (Slice(piece=0, first=2, n_lines=1),)]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.stream.transforms.chance import Place, key


class Slice(NamedTuple):
    """`n_lines` lines of a piece, from line `first` (from 0) on."""

    piece: int
    first: int
    n_lines: int


def permutation(n: int, *place: Place) -> NDArray[np.int64]:
    """A random order of 0 … n−1, (n,) int64.

    It uses raw words, which NumPy promises to keep, rather than `Generator.permutation`, which it may change.

    >>> sorted(permutation(5, 1, "wmt").tolist())
    [0, 1, 2, 3, 4]
    """
    from volt.kernels.columns import shuffle

    order = np.arange(n)
    if n < 2:
        return order
    shuffle(np.random.Philox(key=key(*place)).random_raw(n), order)
    return order


class Layout(NamedTuple):
    """The order in which an epoch reads a source: some lines of one piece after the other.

    pieces: (n,) int64, which piece.
    firsts: (n,) int64, from which of its lines on, counted from 0.
    ends: (n,) int64, where these lines end in the epoch.
    """

    pieces: NDArray[np.int64]
    firsts: NDArray[np.int64]
    ends: NDArray[np.int64]


def read_order(layout: Layout, *, start: int, n_lines: int) -> tuple[Slice, ...]:
    """Return the slices that make up lines of an epoch.

    start, n_lines: at least one line of the epoch
    """
    first, last = np.searchsorted(layout.ends, [start, start + n_lines - 1], side="right").tolist()
    slices = list[Slice]()
    for place in range(first, last + 1):
        begin, end = int(layout.ends[place - 1]) if place else 0, int(layout.ends[place])
        low, high = max(start, begin), min(start + n_lines, end)
        if low < high:
            slices.append(Slice(int(layout.pieces[place]), int(layout.firsts[place]) + low - begin, high - low))
    return tuple(slices)
