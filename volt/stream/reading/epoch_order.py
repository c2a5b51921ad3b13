"""The order of a source's lines in an epoch: permuted segments, laid end to end.

>>> order = SegmentOrder.of(np.array([2, 3]), np.array([1, 0]))
>>> order.lines(1, 3)
(SegmentLines(segment=1, first=1, n_lines=2), SegmentLines(segment=0, first=0, n_lines=1))
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from volt.stream.transforms.column import Longs
from volt.stream.transforms.line_batch import Place, key


def permutation(n: int, *place: Place) -> Longs:
    """Return a random order of 0 … n−1, (n,) int64. It uses raw random bits, which are equal in all NumPy versions."""
    from volt.kernels.columns import shuffle

    order = np.arange(n)
    if n > 1:
        shuffle(np.random.Philox(key=key(*place)).random_raw(n), order)
    return order


class SegmentLines(NamedTuple):
    """`n_lines` lines of a segment, from line `first` on."""

    segment: int
    first: int
    n_lines: int


class SegmentOrder(NamedTuple):
    """The segments of an epoch, in order. firsts: each segment's first line to read; ends: its end in the epoch."""

    segments: Longs
    firsts: Longs
    ends: Longs

    @classmethod
    def of(cls, sizes: Longs, order: Longs, n_lines: int | None = None) -> Self:
        """Return the order of an epoch.

        sizes: (n_segments,) lines of each segment; order: the segments that precede appended lines, permuted
        n_lines: the lines before some were appended, which may end inside a segment; by default all
        """
        n_segments = len(order)
        n_cut = 0
        if n_lines is not None:
            n_cut = int(sizes[:n_segments].sum()) - n_lines
        n_before = sizes[:n_segments].copy()
        n_before[n_segments - 1] -= n_cut

        appended = np.arange(n_segments - 1, len(sizes))
        n_appended = np.concatenate([[n_cut], sizes[n_segments:]])
        firsts = np.zeros(n_segments + len(appended), np.int64)
        firsts[n_segments] = n_before[-1]
        ends = np.cumsum(np.concatenate([n_before[order], n_appended]))
        return cls(np.concatenate([order, appended]), firsts, ends)

    def lines(self, start: int, n_lines: int) -> tuple[SegmentLines, ...]:
        """Return the lines `start` … `start` + `n_lines` − 1 of the epoch, by segment."""
        end = start + n_lines
        first_place, last_place = np.searchsorted(
            self.ends, [start, end - 1], side="right"
        ).tolist()
        result = list[SegmentLines]()
        begin = int(self.ends[first_place - 1]) if first_place else 0
        for place in range(first_place, last_place + 1):
            until = int(self.ends[place])
            low = max(start, begin)
            n_own = min(end, until) - low
            if n_own > 0:
                first = int(self.firsts[place]) + low - begin
                result.append(SegmentLines(int(self.segments[place]), first, n_own))
            begin = until
        return tuple(result)
