"""`SegmentOrder`: the lines of an epoch come from permuted segments, each line once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from volt.stream.reading.epoch_order import SegmentOrder, permutation


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 80), st.integers(0, 3))
def test_an_epoch_has_its_segments_in_order(sizes, n_lines, epoch):
    """SegmentOrder.lines, read in parts of any size, returns the lines of all segments, in the
    epoch's order."""
    order = permutation(len(sizes), 1, "a", epoch)
    segments = SegmentOrder.arrange(np.array(sizes), order, sum(sizes))
    total = sum(sizes)
    lines = []
    for start in range(0, total, n_lines):
        size = min(n_lines, total - start)
        own = segments.lines(start, size)
        assert sum(one.n_lines for one in own) == size
        for one in own:
            lines += [(one.segment, one.first + line) for line in range(one.n_lines)]
    assert lines == [
        (segment, line) for segment in order.tolist() for line in range(sizes[segment])
    ]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.data())
def test_appended_lines_come_last(sizes, data):
    """SegmentOrder.arrange puts the lines before `n_lines` in permuted order first, and later ones
    after them in file order."""
    n_before = data.draw(st.integers(1, sum(sizes)))
    starts = np.cumsum([0, *sizes])
    n_segments = int(np.searchsorted(starts, n_before))
    order = permutation(n_segments, 7)
    segments = SegmentOrder.arrange(np.array(sizes), order, n_before)
    lines = []
    for one in segments.lines(0, sum(sizes)):
        first = int(starts[one.segment]) + one.first
        lines += range(first, first + one.n_lines)
    assert sorted(lines[:n_before]) == list(range(n_before))
    assert lines[n_before:] == list(range(n_before, sum(sizes)))
