"""`SegmentOrder`: the order of a source's lines in an epoch: permuted segments, laid end to end.

Segments of 2 and 3 lines, permuted to 1, 0: lines 1 to 3 of the epoch are the last two lines of
segment 1 and the first line of segment 0.

>>> order = SegmentOrder.arrange(np.array([2, 3]), np.array([1, 0]), n_lines=5)
>>> order.lines(1, 3)
(SegmentLines(segment=1, first=1, n_lines=2), SegmentLines(segment=0, first=0, n_lines=1))
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from volt.array_types import Longs
from volt.stream.transforms.line_batch import Place, key


def permutation(n: int, *place: Place) -> Longs:
    """Return a random order of 0 … n−1, (n,) int64.

    place: the values that determine the order, such as the seed and the epoch

    The function uses raw random bits, which are equal in all NumPy versions.
    """
    from volt.kernels.columns import shuffle

    order = np.arange(n)
    if n > 1:
        shuffle(np.random.Philox(key=key(*place)).random_raw(n), order)
    return order


class SegmentLines(NamedTuple):
    """`n_lines` lines of a segment, from its line `first` on."""

    segment: int
    first: int
    n_lines: int


class SegmentOrder(NamedTuple):
    """The segments of an epoch, in order, (n,) each.

    segments: the index of each segment in the source.
    firsts: the segment's first line to read.
    ends: where the segment's lines end in the epoch.
    """

    segments: Longs
    firsts: Longs
    ends: Longs

    @classmethod
    def arrange(cls, sizes: Longs, order: Longs, n_lines: int) -> Self:
        """Return the order of an epoch that began when the source had `n_lines` lines.

        Lines that were appended later follow in file order: first the rest of the segment in which
        the source ended then, and after it the new segments. For sizes 2, 3, 4, `n_lines` 4 and
        order 1, 0, the epoch has lines 0–1 of segment 1, segment 0, line 2 of segment 1, segment 2.

        sizes: (n_segments,) lines of each segment, with appended lines
        order: the segments of the first `n_lines` lines, permuted
        """
        n_old = len(order)
        old_sizes = sizes[:n_old].copy()
        n_appended_to_last = int(old_sizes.sum()) - n_lines
        old_sizes[-1] -= n_appended_to_last

        late_segments = np.arange(n_old - 1, len(sizes))
        late_sizes = np.concatenate([[n_appended_to_last], sizes[n_old:]])
        firsts = np.zeros(n_old + len(late_segments), np.int64)
        firsts[n_old] = old_sizes[-1]
        ends = np.cumsum(np.concatenate([old_sizes[order], late_sizes]))
        return cls(np.concatenate([order, late_segments]), firsts, ends)

    def lines(self, start: int, n_lines: int) -> tuple[SegmentLines, ...]:
        """Return the lines `start` … `start` + `n_lines` − 1 of the epoch, by segment."""
        end = start + n_lines
        first_index = int(np.searchsorted(self.ends, start, side="right"))
        segment_start = int(self.ends[first_index - 1]) if first_index else 0
        result = list[SegmentLines]()
        for index in range(first_index, len(self.ends)):
            if segment_start >= end:
                break
            segment_end = int(self.ends[index])
            low = max(start, segment_start)
            n_of_segment = min(end, segment_end) - low
            if n_of_segment > 0:
                first = int(self.firsts[index]) + low - segment_start
                result.append(SegmentLines(int(self.segments[index]), first, n_of_segment))
            segment_start = segment_end
        return tuple(result)
