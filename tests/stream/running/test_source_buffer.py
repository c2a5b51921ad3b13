"""`SourceBuffer` and `mix_lines`: chunks are loaded and drained, and their lines mixed."""

from collections import Counter, deque
from dataclasses import replace
from itertools import takewhile

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
    buffers = []
    lines = []
    for source, chunk_sizes in enumerate(sizes):
        buffer = SourceBuffer("a", Cursor())
        lines.append(deque())
        for number, n in enumerate(chunk_sizes):
            texts = [f"{source}.{number}.{i}" * (i + 1) for i in range(n)]
            block = LineBlock(number, 0, 5)
            chunk = make_chunk(*texts, n_read=5)
            opening = buffer.load(Address(block, 0), chunk, source=source, n=number)
            cursor = Cursor(len(lines[-1]), number, 0)
            assert opening == Opening(number, source, cursor, block, n, ReadCounts(5))
            lines[-1] += texts
        assert buffer.n_lines == len(lines[-1])
        n_empty = len(list(takewhile(lambda n: not n, reversed(chunk_sizes))))
        assert buffer.n_read_in_vain == 5 * n_empty
        buffers.append(buffer)
    while turns := [source for source, texts in enumerate(lines) for _ in texts]:
        n_turns = data.draw(st.integers(1, len(turns)))
        taken = np.array(data.draw(st.permutations(turns)))[:n_turns]
        expected = "".join(f"{lines[source].popleft()}\n" for source in taken.tolist())
        assert mix_lines(buffers, taken).decode() == expected
        by_source = sorted(range(len(taken)), key=lambda i: (taken[i], i))
        assert sort_turns(taken, len(buffers)).tolist() == by_source
        for source, n in Counter(taken.tolist()).items():
            buffers[source].drain(n)
    assert all(buffer.next_place is None and buffer.n_lines == 0 for buffer in buffers)


BLOCK = LineBlock(2, 8, 4)


def load(buffer, chunk, *, block=BLOCK, number=1):
    return buffer.load(Address(block, number), chunk, source=0, n=70)


def test_a_restored_cursor_inside_a_chunk_is_not_counted_again():
    """SourceBuffer.load skips the lines before a restored cursor and counts no line read; a cursor
    beyond the chunk is refused."""
    chunk = make_chunk("x", "y", "z", n_read=4)
    block = BLOCK
    end = Cursor(50, 2, 8, 11, 1, 9)
    for inside, n_lines in ((1, 2), (2, 1), (3, 0)):
        cursor = replace(end, offset=9 + inside)
        buffer = SourceBuffer("a", cursor)
        assert load(buffer, chunk) == Opening(70, 0, cursor, block, 3, ReadCounts())
        assert (buffer.n_lines, buffer.end) == (n_lines, Cursor(50 + n_lines, 2, 8, 12, 1, 9))
        assert buffer.next_place == ((Address(block, 1), inside) if n_lines else None)
    for number in (0, 2):  # the cursor is in another chunk
        buffer = SourceBuffer("a", replace(end, offset=10))
        assert load(buffer, chunk, number=number).counts.n_read == 4
    message = r"the state's sources\.a\.offset 13 exceeds 3 lines; use a state that"
    with pytest.raises(StreamError, match=message):
        load(SourceBuffer("a", replace(end, offset=13)), chunk)
    begun = block._replace(outputs=range(1, FOREVER, 2))
    assert load(SourceBuffer("a", Cursor()), chunk, block=begun).counts == ReadCounts()
