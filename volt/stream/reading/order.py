"""(seed, source, epoch, part) → which lines of which pieces are read, in which order: all that is random in reading.

A source is a list of pieces of known length. An epoch permutes the pieces and lays their lines end to end; a part is
some consecutive lines of these (volt.stream.reading.shares), and permutes them. Nothing is drawn from a running
generator: each permutation follows from random words of a Philox generator whose key is a hash of its place, so any
process can compute any part.

>>> sizes = np.array([3, 2])
>>> [read_order(sizes, start=start, n_lines=n, order=np.array([1, 0])) for start, n in ((0, 4), (4, 1))]
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
    shuffle(np.random.Philox(key=key(*place)).random_raw(n), order)
    return order


def read_order(sizes: NDArray[np.int64], *, start: int, n_lines: int, order: NDArray[np.int64]) -> tuple[Slice, ...]:
    """The slices that make up lines of an epoch.

    sizes: (n_pieces,) lines per piece.
    start, n_lines: at least one line, of those of all pieces laid end to end in the epoch's order.
    order: (n_pieces,) the epoch's order of the pieces.
    """
    ends = np.cumsum(sizes[order])
    end = start + n_lines
    first, last = np.searchsorted(ends, [start, end - 1], side="right").tolist()
    return tuple(_slice(order, sizes, ends, position, start, end) for position in range(first, last + 1))


def _slice(
    order: NDArray[np.int64], sizes: NDArray[np.int64], ends: NDArray[np.int64], position: int, start: int, end: int
) -> Slice:
    """The part of the piece at a position of the epoch's order that lies between lines start and end."""
    piece = int(order[position])
    piece_end = int(ends[position])
    piece_start = piece_end - int(sizes[piece])
    low, high = max(start, piece_start), min(end, piece_end)
    return Slice(piece, low - piece_start, high - low)
