"""However unevenly ranks advance, skip and change in number, they read every line of an epoch once,
and share what is left of it evenly."""

import json
from itertools import chain, islice

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.streams import write_lines

from volt.stream import Source, Stream, merge_states
from volt.stream.running.state import State

N = 240  # lines of an epoch
MOST_RANKS = 4
ADVANCES = st.lists(
    st.tuples(st.integers(0, 25), st.integers(0, 10)), min_size=MOST_RANKS, max_size=MOST_RANKS
)
UNEVEN = [(3, 0), (11, 2), (7, 0), (20, 5)]
HISTORIES = st.lists(st.tuples(st.integers(1, MOST_RANKS), ADVANCES), max_size=6)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return a file of N different lines, which a rank reads as one block."""
    lines = map(str, range(N))
    return write_lines(tmp_path_factory.mktemp("corpora") / "lines.txt", lines)


def next_epoch(stream):
    """Return the epoch of the next line; None at the end of the stream."""
    place = stream.place()
    return None if place is None else place[1].block.epoch


def take_epoch(stream, most=None):
    """Return the next lines of epoch 0, at most `most`."""
    lines = []
    while len(lines) != most and next_epoch(stream) == 0:
        lines += islice(stream, 1)
    return lines


@settings(deadline=None, max_examples=examples(60))
@example([(1, UNEVEN), (4, UNEVEN), (4, UNEVEN)], 2, None)
@example([(1, UNEVEN), (3, UNEVEN), (4, UNEVEN), (2, UNEVEN), (4, UNEVEN)], 3, 1)
@given(HISTORIES, st.integers(1, MOST_RANKS), st.sampled_from([1, None]))
def test_uneven_ranks_share_an_epoch_evenly(path, history, world, epochs):
    """Ranks read and skip different numbers of lines, and their merged states continue with other
    ranks: every line of the epoch comes once, and the ranks' shares of the rest differ by at most
    one line, and one for each block in which lines were read."""
    state = None
    read = []

    def rank_stream(rank, world, state):
        stream = Stream([Source("lines", (path,), epochs=epochs)], rank=rank, world=world)
        if state is not None:
            stream.restore(state)
        return stream

    for old_world, advances in history:
        streams = [rank_stream(rank, old_world, state) for rank in range(old_world)]
        for stream, (n_read, n_skipped) in zip(streams, advances, strict=False):
            read += take_epoch(stream, n_read)
            twin = rank_stream(stream.rank, old_world, stream.state())
            if skipped := take_epoch(twin, n_skipped):
                stream.skip_range(stream.n, stream.n + len(skipped))
                read += skipped
        state = json.loads(json.dumps(merge_states([stream.state() for stream in streams])))
    rest = [take_epoch(rank_stream(rank, world, state)) for rank in range(world)]
    assert sorted(chain(read, *rest)) == sorted(map(str, range(N)))
    n_begun = 0
    if state is not None:
        unread = State.from_json(state).cursors["lines"].unread
        n_begun = sum(len(lines.begun) for lines in unread if lines.epoch == 0)
    sizes = [len(lines) for lines in rest]
    assert max(sizes) - min(sizes) <= 1 + n_begun
