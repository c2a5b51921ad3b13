"""`Engine`: chunks are loaded in the order of need, whatever the number of sources, sizes of reads,
and weights."""

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


def count_calls(stream, n):
    """Return the number of Python functions called for n lines of a stream."""
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
def test_the_cost_of_a_line_does_not_grow_with_the_number_of_sources(
    tmp_path, n_lines, monkeypatch
):
    """A stream of five times as many sources count_calls about as many Python functions for each
    line."""
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
            per_line.append(count_calls(stream, n) / n)
    assert per_line[1] < 1.5 * per_line[0]


@settings(deadline=None, max_examples=examples(40))
@given(
    points=st.lists(st.integers(1, 90), min_size=1, max_size=4, unique=True),
    weights=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    world=st.integers(1, 5),
)
def test_ranks_change_weights_at_the_same_line(points, weights, world):
    """Schedule.of_rank has, at each sample of a rank, the weight of this sample among all ranks'
    samples."""
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
def test_sizes_of_reads_do_not_change_a_stream(sizes, cuts):
    """Reads of any sizes yield the same lines, and their states resume with the same lines."""
    with TemporaryDirectory() as folder:
        sources = [Source(f"s{i}", numbered(Path(folder), f"s{i}", n)) for i, n in enumerate(sizes)]
        with Stream(sources, seed=2) as whole, Stream(sources, seed=2) as pieces:
            expected = list(islice(whole, sum(cuts)))
            found = []
            for cut in cuts:
                for block in pieces.blocks(limit=cut):
                    found += block.decode().splitlines()
                assert whole.state(at=len(found))["n"] == pieces.state()["n"] == len(found)
                with Stream(sources, seed=2) as one, Stream(sources, seed=2) as two:
                    one.restore(whole.state(at=len(found)))
                    two.restore(pieces.state())
                    assert list(islice(one, 20)) == list(islice(two, 20))
            assert found == expected


def open_numbered(folder, *steps, n=9, **options):
    """Open a source of numbered lines in file order."""
    return open_source(
        Source("a", numbered(folder, "a", n), 1.0, steps, **{"shuffle": "none", **options}), seed=5
    )


def test_chunk_addresses_continue_at_a_cursor(tmp_path):
    """chunk_addresses yields all chunks of all blocks of all epochs, from the cursor's chunk on."""
    source = open_numbered(tmp_path, Same(), n=70, block_lines=60, epochs=2)
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


def test_workers_stay_until_the_form_or_state_changes(tmp_path):
    """Iterating and blocks() share workers; batches() and restore() stop them and start new ones,
    without losing lines."""
    with Stream([Source("a", numbered(tmp_path, "a", 30), block_lines=4)]) as stream:
        assert stream._prefetcher is None
        whole = list(islice(stream.rehearsal(), 12))
        first = stream._start_workers()
        lines = list(islice(stream, 5))
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
def test_a_dropping_stream_ends_when_all_weights_are_0(weight, n, tmp_path):
    """A stream with ends='drop' ends when all sources have ended or have weight 0; so does a stream
    restored from its last state."""
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


def test_a_later_weight_applies_at_once_if_no_other_source_is_left(tmp_path):
    """With ends='drop', when all other sources have ended, a source whose weight rises later is
    read at once, to its end."""
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
def test_a_filter_may_pass_one_line_per_epoch(seed, tmp_path):
    """A stream whose filter passes one line per epoch yields it, though almost two epochs may lie
    between two such lines."""
    path = write_lines(tmp_path / "a.tsv", ["good", *(f"bad {n}" for n in range(9))])
    few = Source("a", (path,), 1.0, (Length(max=1),), block_lines=1, split_lines=1, epochs=3)
    assert list(Stream([few], seed=seed)) == ["good"] * 3
