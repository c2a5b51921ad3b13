"""`SourceBuffer` and `mix_lines`: chunks are loaded and drained, and their lines mixed."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.errors import StreamError
from volt.stream.reading.unread_lines import FOREVER, LineBlock
from volt.stream.running.chunk_computation import (
    Address,
    ComputedChunk,
)
from volt.stream.running.openings import Opening, ReadCounts
from volt.stream.running.source_buffer import SourceBuffer, mix_lines, sort_turns
from volt.stream.running.state import Cursor


def make_chunk(*lines, n_read=0, faults=()):
    """Return a chunk of these lines."""
    data = "".join(f"{line}\n" for line in lines).encode()
    ends = np.cumsum([len(line) + 1 for line in lines], dtype=np.int64)
    return ComputedChunk(np.frombuffer(data, np.uint8), ends, n_read or len(lines), tuple(faults))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(0, 4), max_size=5), min_size=1, max_size=3), st.data())
def test_lines_are_mixed_in_the_order_of_turns(sizes, data):
    """mix_lines returns the next lines of the buffers in the order of the turns, for chunks of any
    sizes, including empty ones."""
    buffers, lines, openings = [], list[deque[str]](), list[Opening]()
    for source, own in enumerate(sizes):
        buffers.append(SourceBuffer("a", Cursor()))
        lines.append(
            deque(
                f"{source}.{computed}.{i}" * (i + 1)
                for computed, n in enumerate(own)
                for i in range(n)
            )
        )
        for number, n in enumerate(own):
            computed = make_chunk(*(f"{source}.{number}.{i}" * (i + 1) for i in range(n)), n_read=5)
            block = LineBlock(number, 0, 5)
            opening = buffers[-1].load(Address(block, 0), computed, source=source, n=number)
            assert opening == Opening(
                number, source, Cursor(sum(own[:number]), number, 0), block, n, ReadCounts(5)
            )
            openings.append(opening)
        assert buffers[-1].n_lines == len(lines[-1]) == sum(own)
        assert buffers[-1].n_read_in_vain == 5 * next(
            (k for k, n in enumerate(reversed(own)) if n), len(own)
        )
    while turns := [source for source, own in enumerate(lines) for _ in own]:
        taken = np.array(data.draw(st.permutations(turns)))[: data.draw(st.integers(1, len(turns)))]
        expected = "".join(f"{lines[source].popleft()}\n" for source in taken.tolist())
        assert mix_lines(buffers, taken).decode() == expected
        assert sort_turns(taken, len(buffers)).tolist() == sorted(
            range(len(taken)), key=lambda i: (taken[i], i)
        )
        for source, n in Counter(taken.tolist()).items():
            buffers[source].drain(n)
    assert all(buffer.next_place is None and buffer.n_lines == 0 for buffer in buffers)


def test_a_restored_cursor_inside_a_chunk_is_not_counted_again():
    """SourceBuffer.load skips the lines before a restored cursor and counts no line read; a cursor
    beyond the chunk is refused."""
    block, computed = LineBlock(2, 8, 4), make_chunk("x", "y", "z", n_read=4)
    end = Cursor(50, 2, 8, 11, 1, 9)
    for inside, left in ((1, 2), (2, 1), (3, 0)):
        buffer = SourceBuffer("a", replace(end, offset=9 + inside))
        opening = buffer.load(Address(block, 1), computed, source=0, n=70)
        assert opening == Opening(70, 0, replace(end, offset=9 + inside), block, 3, ReadCounts())
        assert (buffer.n_lines, buffer.end) == (left, Cursor(50 + left, 2, 8, 12, 1, 9))
        assert buffer.next_place == ((Address(block, 1), inside) if left else None)
    for offset, chunk, counted in ((9, 1, 4), (10, 0, 4), (10, 2, 4)):
        buffer = SourceBuffer("a", replace(end, offset=offset))
        assert (
            buffer.load(Address(block, chunk), computed, source=0, n=1).counts.n_read == counted
            or offset == 9
        )
    with pytest.raises(
        StreamError, match=r"the state's sources\.a\.offset 13 exceeds 3 lines; use a state that"
    ):
        SourceBuffer("a", replace(end, offset=13)).load(Address(block, 1), computed, source=0, n=1)
    begun = LineBlock(2, 8, 4, (range(1, FOREVER, 2),))
    assert (
        SourceBuffer("a", Cursor()).load(Address(begun, 0), computed, source=0, n=1).counts
        == ReadCounts()
    )
