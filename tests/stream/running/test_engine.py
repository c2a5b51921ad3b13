"""Many sources: what a line costs does not grow with their number, and ranks agree on when weights change."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.streams import Same, numbered, write_lines

from volt.stream import Schedule, Source, Stream
from volt.stream.reading.open_source import open_source
from volt.stream.running import engine
from volt.stream.running.engine import chunk_addresses
from volt.stream.running.state import Cursor
from volt.stream.transforms.case import Upper
from volt.stream.transforms.filters import Length


def calls(stream, n):
    """How many Python functions are called for n lines."""
    counts = [0]

    def count(frame, event, argument):
        counts[0] += event == "call"

    sys.setprofile(count)
    try:
        for _ in stream.blocks(limit=n):
            pass
    finally:
        sys.setprofile(None)
    return counts[0]


@pytest.mark.parametrize("n_lines", [[3, 5, 8], [1, 2, 400]])
def test_a_line_costs_the_same_among_many_sources(tmp_path, n_lines, monkeypatch):
    """With five times as many sources, each line costs the same number of function calls."""
    monkeypatch.setattr(
        engine, "_PATIENCE", 60.0
    )  # windows end where they are full, not where time is up
    per_line = []
    for factor in (4, 20):
        sources = [
            Source(
                f"s{i}",
                numbered(tmp_path, f"s{i}", n_lines[i % len(n_lines)]),
                transforms=(Upper(),),
            )
            for i in range(factor * len(n_lines))
        ]
        with Stream(sources) as stream:
            list(stream.blocks(limit=examples(5000)))
            n = examples(20_000)
            per_line.append(calls(stream, n) / n)
    assert per_line[1] < 1.5 * per_line[0]


@settings(deadline=None, max_examples=examples(40))
@given(
    points=st.lists(st.integers(1, 90), min_size=1, max_size=4, unique=True),
    weights=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    world=st.integers(1, 5),
)
def test_ranks_change_weights_at_the_same_sample(points, weights, world):
    """Points count the lines of all ranks: at each sample of a rank, shares are those of that sample of the stream."""
    schedule = Schedule(tuple(zip([0, *sorted(points)], map(float, weights), strict=False)))
    whole = [schedule.at(sample) for sample in range(120)]
    for rank in range(world):
        own = schedule.of_rank(rank, world)
        assert [own.at(sample) for sample in range(len(whole[rank::world]))] == whole[rank::world]


@settings(deadline=None, max_examples=examples(30))
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 40), max_size=6),
)
def test_windows_are_no_part_of_the_stream(sizes, cuts):
    """For any window size, the lines are the same, and states lead to the same lines."""
    with TemporaryDirectory() as folder:
        sources = [Source(f"s{i}", numbered(Path(folder), f"s{i}", n)) for i, n in enumerate(sizes)]
        with Stream(sources, seed=2) as whole, Stream(sources, seed=2) as pieces:
            expected = list(islice(whole, sum(cuts)))
            found = list[str]()
            for cut in cuts:
                for block in pieces.blocks(limit=cut):
                    found += block.decode().splitlines()
                assert whole.state(at=len(found))["n"] == pieces.state()["n"] == len(found)
                with Stream(sources, seed=2) as one, Stream(sources, seed=2) as two:
                    one.restore(whole.state(at=len(found)))
                    two.restore(pieces.state())
                    assert list(islice(one, 20)) == list(islice(two, 20))
            assert found == expected


def opened(folder, *steps, n=9, **options):
    """A source of numbered lines in file order."""
    return open_source(
        Source("a", numbered(folder, "a", n), 1.0, steps, **{"shuffle": "none", **options}), seed=5
    )


def test_addresses_of_chunks(tmp_path):
    """Addresses start at a chunk of a block, and continue with all chunks of later blocks to the last epoch."""
    source = opened(tmp_path, Same(), n=70, block_lines=60, epochs=2)
    source.chunk_lines = 33
    whole = list(chunk_addresses(source, Cursor(), rank=0, world=1))
    assert [(one.block.address, one.chunk) for one in whole] == [
        ((epoch, start), chunk)
        for epoch in (0, 1)
        for start, n in ((0, 3), (60, 1))
        for chunk in range(n)
    ]
    for place, one in enumerate(whole):
        assert (
            list(
                chunk_addresses(
                    source, Cursor(0, *one.block.address, chunk=one.chunk), rank=0, world=1
                )
            )
            == whole[place:]
        )


def test_workers_stay_while_a_stream_is_read(tmp_path):
    """Chunks computed ahead are used; a change of form or a restored state starts new workers."""
    with Stream([Source("a", numbered(tmp_path, "a", 30), block_lines=4)]) as stream:
        assert stream._prefetcher is None
        whole = list(islice(stream.rehearsal(), 12))
        first, lines = stream._start_workers(), list(islice(stream, 5))
        lines += b"".join(stream.blocks(limit=2)).decode().split("\n")[:-1]
        assert stream._prefetcher is first
        lines += [line for batch in stream.batches(limit=2) for line in batch.lines.lines]
        second = stream._prefetcher
        assert second is not first
        stream.restore(stream.state())
        assert stream._prefetcher is None
        lines += list(islice(stream, 3))
        assert (lines, stream.summary().n_lines, stream.n) == (whole, 3, 12)


@pytest.mark.parametrize(("weight", "n"), [(0.0, 40), (Schedule(((0, 1.0), (130, 0.0))), 130)])
def test_a_stream_ends_where_no_weight_is_left(weight, n, tmp_path):
    """`ends: drop` goes on while a source with a weight is left; then it ends, restored too."""
    sources = [
        Source("a", numbered(tmp_path, "a", 40), epochs=1),
        Source("b", numbered(tmp_path, "b", 30), weight=weight),
    ]
    with Stream(sources, ends="drop") as stream:
        lines = list(stream)
        state = stream.state()
    assert len(lines) == n
    assert len({line for line in lines if line.startswith("a")}) == 40
    with Stream(sources, ends="drop") as stream:
        stream.restore(state)
        assert list(stream) == []


def test_a_weight_that_is_yet_to_come_counts_where_no_other_is_left(tmp_path):
    """`ends: drop`: when all others have ended, a source whose weight is 0 until later is read at once, to its end."""
    late = Schedule(((0, 0.0), (50, 1.0)))
    sources = [
        Source("a", numbered(tmp_path, "a", 5), epochs=1),
        Source("b", numbered(tmp_path, "b", 30), epochs=1, weight=late),
    ]
    for world in (1, 3):
        lines = [
            line
            for rank in range(world)
            for line in Stream(sources, ends="drop", rank=rank, world=world)
        ]
        assert len(lines) == len(set(lines)) == 35


@pytest.mark.parametrize("seed", range(4))
def test_one_good_line_of_many_is_enough(seed, tmp_path):
    """A stream waits nearly two epochs for a line that passes: it may be first in one epoch and last in the next."""
    path = write_lines(tmp_path / "a.tsv", ["good", *(f"bad {n}" for n in range(9))])
    few = Source("a", (path,), 1.0, (Length(max=1),), block_lines=1, split_lines=1, epochs=3)
    assert list(Stream([few], seed=seed)) == ["good"] * 3
