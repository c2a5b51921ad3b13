"""A stream gives the same lines for any number of workers, from any place where it was stopped, and loses none."""

from __future__ import annotations

import json
import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streams import Drop, Pair, Repeat, deadline, numbered, write_lines

from volt.errors import ConfigError, StreamError
from volt.stream import Schedule, Source, Stream
from volt.stream.running.merging import merge_states
from volt.stream.running.state import checksum
from volt.stream.running.state_file import load_state, save_state

Make = Callable[..., Stream]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A small stream with everything: mixed, filtered, one to many, many to one, shuffles, a schedule."""
    sources = (
        Source("a", numbered(tmp_path, "a", 23, n_shards=2), 2.0, (Drop(0.3),), block_lines=5, split_lines=3),
        Source("b", numbered(tmp_path, "b", 11), Schedule(((0, 1.0), (40, 3.0)), "linear"), (Repeat(),), block_lines=4),
        Source("c", numbered(tmp_path, "c", 12), 0.5, (Pair(), Drop(0.2)), block_lines=7, shuffle="outputs"),
    )

    def stream(sources: Sequence[Source] = sources, **options: Any) -> Stream:
        return Stream(sources, **{"seed": 7, "cache": tmp_path / "cache", **options})

    return stream


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
@pytest.mark.parametrize("n_workers", [1, 2, 3, 8])
def test_lines_are_the_same_for_any_number_of_workers(make: Make, n_workers: int, start_method: str) -> None:
    """Processes, however started, give byte for byte what one process gives by itself."""
    with deadline(120), make(n_workers=n_workers, start_method=start_method) as stream:
        assert list(islice(stream, 500)) == list(islice(make(), 500))


def test_the_two_ways_to_read_give_the_same_lines(make: Make) -> None:
    """Lines one by one and blocks of bytes, whatever the limits of the blocks, are the same text."""
    lines = list(islice(make(), 300))
    stream, data = make(), b""
    for limit in [1, 2, 3, 50, 244]:
        data += b"".join(stream.blocks(limit=limit))
    assert data.decode().split("\n") == [*lines, ""]
    assert stream.n == 300


def test_a_stream_goes_on_from_every_place(make: Make) -> None:
    """Stopped after each of the first 120 lines and restored elsewhere, the lines are those of the whole stream."""
    whole = list(islice(make(), 150))
    for stop in range(120):
        first = make()
        assert list(islice(first, stop)) == whole[:stop]
        state = json.loads(json.dumps(first.state()))
        second = make()
        second.restore(state)
        assert list(islice(second, 20)) == whole[stop : stop + 20]
        assert second.state()["n"] == stop + 20


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (3, 1), (1, 3)])
def test_a_stream_goes_on_with_another_number_of_workers(make: Make, before: int, after: int) -> None:
    """Any number of workers stops, any other goes on: the lines join without a seam."""
    whole = list(islice(make(), 400))
    with deadline(60), make(n_workers=before, start_method="fork") as first:
        assert list(islice(first, 217)) == whole[:217]
        state = first.state()
    with deadline(60), make(n_workers=after, start_method="fork") as second:
        second.restore(state)
        assert list(islice(second, 183)) == whole[217:]


def test_a_state_within_the_lines_given(make: Make) -> None:
    """The state at any earlier line is the one that was there then; what was forgotten or is to come is told."""
    stream, states = make(recall=1000), list[dict[str, Any]]()
    for _ in range(200):
        states.append(stream.state())
        next(iter(stream))
    for size in (1, 7, 50):
        other = make(recall=1000)
        while other.n < 200:
            list(islice(other.blocks(limit=size), None))
        for n in range(200):
            fresh = make()
            fresh.restore(other.state(at=n))
            assert fresh.state()["n"] == n
            if n % 20 == 0:
                again = make()
                again.restore(states[n])
                assert list(islice(fresh, 5)) == list(islice(again, 5))
    with pytest.raises(StreamError, match="line 201 is ahead of the stream, which has given 200"):
        stream.state(at=201)
    short = make(recall=10)
    list(short.blocks(limit=100))
    with pytest.raises(StreamError, match="line 3 is not within"):
        short.state(at=3)


def test_a_state_within_a_loop_does_not_disturb_it(make: Make) -> None:
    """Asking for states, summaries and positions while iterating changes nothing."""
    whole, stream, lines = list(islice(make(), 100)), make(), list[str]()
    for line in islice(stream, 100):
        lines.append(line)
        assert (stream.n, stream.state()["n"], stream.summary().n) == (len(lines),) * 3
    assert lines == whole


def test_an_iterator_that_was_overtaken_says_so(make: Make) -> None:
    """Two iterators cannot read one stream in turns: the older one would give lines twice."""
    stream = make()
    older, newer = iter(stream), iter(stream)
    next(older)
    next(newer)
    with pytest.raises(StreamError, match="make a new iterator"):
        next(older)


@pytest.mark.parametrize("n_workers", [0, 2])
def test_two_threads_get_no_line_twice(make: Make, tmp_path: Path, n_workers: int) -> None:
    """Of two threads that read one stream, each line goes to one of them, and the slower one is told."""
    source = Source("d", numbered(tmp_path, "d", 3000), epochs=1, block_lines=100)
    lines, told = [list[str](), list[str]()], list[str]()

    def read(own: list[str]) -> None:
        try:
            for line in stream:
                own.append(line)
        except StreamError as error:
            told.append(str(error))

    with deadline(60), make([source], n_workers=n_workers) as stream:
        threads = [threading.Thread(target=read, args=(own,)) for own in lines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert Counter([*lines[0], *lines[1]]).most_common(1)[0][1] == 1
    assert len(lines[0]) + len(lines[1]) == 3000 or len(told) == 2


def test_a_fork_reads_on_with_workers_of_its_own(make: Make, tmp_path: Path) -> None:
    """Threads do not come along into a fork; it starts new ones, and both processes give the same lines."""
    source = Source("d", numbered(tmp_path, "d", 300), epochs=1, block_lines=10)
    with deadline(60), make([source], n_workers=1) as stream:
        first = next(iter(stream))
        if (child := os.fork()) == 0:
            rest = list(stream)
            os._exit(0 if len(rest) == 299 and first not in rest else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(list(stream)) == 299


def test_a_stream_stays_in_its_process(make: Make) -> None:
    """It cannot be pickled, before or after it was read; the error says what can be sent instead."""
    with pytest.raises(TypeError, match=r"cannot be sent to another process; open it there, and restore its state"):
        pickle.dumps(make())


@pytest.mark.parametrize("world", [1, 2, 5])
@pytest.mark.parametrize("block_lines", [1, 7, 100])
def test_ranks_together_give_every_line_once(make: Make, tmp_path: Path, world: int, block_lines: int) -> None:
    """Over all ranks, two epochs of a source give every line twice."""
    source = Source("d", numbered(tmp_path, "d", 30, n_shards=3), block_lines=block_lines, split_lines=4, epochs=2)
    lines = [line for rank in range(world) for line in make([source], rank=rank, world=world)]
    assert Counter(lines) == Counter([f"d-{i}\tD {i}" for i in range(30)] * 2)


def test_the_stream_stops_with_the_first_source_that_ends(make: Make, tmp_path: Path) -> None:
    """ends="stop": the stream ends before the first sample that an ended source owes, and stays ended."""
    sources = [
        Source("d", numbered(tmp_path, "d", 10), epochs=1),
        Source("e", numbered(tmp_path, "e", 9), 0.5, epochs=3),
    ]
    stream = make(sources)
    lines = list(stream)
    assert Counter(line[0] for line in lines) == {"d": 10, "e": 5}
    assert list(stream) == []
    again = make(sources)
    again.restore(stream.state())
    assert list(again) == []


@pytest.mark.parametrize("n", [0, 1, 7, 10, 11])
def test_skipping_passes_over_lines_and_tells_how_many_there_were(make: Make, tmp_path: Path, n: int) -> None:
    """Behind n skipped lines come those that come behind n read ones; past the end, the lines up to it are counted."""
    source = Source("d", numbered(tmp_path, "d", 10), epochs=1, block_lines=4)
    stream = make([source])
    assert stream.skip(n) == min(n, 10)
    assert list(stream) == list(make([source]))[n:]


def test_an_ended_source_can_be_dropped(make: Make, tmp_path: Path) -> None:
    """ends="drop": all lines of all epochs are given, the rest in their proportion, and resuming works throughout."""
    sources = [
        Source("d", numbered(tmp_path, "d", 6), 3.0, epochs=1),
        Source("e", numbered(tmp_path, "e", 9), 1.0, epochs=2),
        Source("f", numbered(tmp_path, "f", 5), 1.0, epochs=4, block_lines=2),
    ]
    whole = list(make(sources, ends="drop"))
    assert Counter(line[0] for line in whole) == {"d": 6, "e": 18, "f": 20}
    turns = [line[0] for line in whole[10:40]]
    assert all(abs(turns[:k].count("e") - turns[:k].count("f")) <= 2 for k in range(30))
    for stop in range(len(whole) + 1):
        first, second = make(sources, ends="drop"), make(sources, ends="drop")
        list(first.blocks(limit=stop))
        second.restore(first.state())
        assert list(second) == whole[stop:]


def test_shares_are_kept_and_reported(make: Make) -> None:
    """At any place each source's lines are within one of those requested, as the summary says."""
    stream = make()
    for _ in range(100):
        list(stream.blocks(limit=7))
        parts = stream.summary().sources.values()
        assert all(abs(part.lines - part.requested) <= 1.02 for part in parts)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 8}, "seed: 7 in the state, 8 here"),
        ({"world": 2}, "world: 1 in the state, 2 here"),
        ({"ends": "drop"}, "ends: stop in the state, drop here"),
    ],
)
def test_a_state_of_another_configuration_is_refused(make: Make, change: dict[str, Any], told: str) -> None:
    """What differs is named."""
    with pytest.raises(StreamError, match=told):
        make(**change).restore(make().state())


def test_a_state_of_other_sources_is_refused(make: Make, tmp_path: Path) -> None:
    """Other lines, block sizes, weights or transforms are told, by source; another path to the same lines is not."""
    source = Source("d", numbered(tmp_path, "d", 9), block_lines=4)
    state = make([source]).state()
    moved = Source("d", (write_lines(tmp_path / "moved", [f"d-{i}\tD {i}" for i in range(9)]),), block_lines=4)
    make([moved]).restore(state)
    changes: dict[str, Source] = {
        "sources.d.lines": replace(source, paths=numbered(tmp_path, "e", 9)),
        "sources.d.block_lines: 4 in the state, 3 here": replace(source, block_lines=3),
        "sources.d.weight": replace(source, weight=2.0),
        "sources.d.transforms: .*drop": replace(source, transforms=(Drop(0.1),)),
        "sources.e": replace(source, name="e"),
    }
    for told, other in changes.items():
        with pytest.raises(StreamError, match=told):
            make([other]).restore(state)


@pytest.mark.parametrize("text", ["{", "[" * 99_999, "[]", '{"format": "other", "version": 1}', '{"n": 3}'])
def test_what_is_no_state_is_refused(make: Make, tmp_path: Path, text: str) -> None:
    """A file with anything else is told as such."""
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(StreamError, match=r"state|JSON"):
        make().restore(load_state(path))


@pytest.mark.parametrize("name", ["n", "sources", "configuration", "format"])
def test_a_state_that_lacks_something_is_refused(make: Make, name: str) -> None:
    """What it lacks is named, and what to do."""
    state = {key: value for key, value in make().state().items() if key != name}
    with pytest.raises(StreamError, match=f"the state has no '{name}'; take one that a stream has written, or start"):
        make().restore(state)


@pytest.mark.parametrize("place", [{"offset": 50_000}, {"start": 99, "offset": 0}, {"start": 1, "offset": 0}])
def test_a_state_stands_within_its_sources(make: Make, place: dict[str, int]) -> None:
    """A place that a source does not have is refused, when a stream is restored or when the block is read."""
    stream = make()
    list(islice(stream, 1))
    state = stream.state()
    source = next(name for name, cursor in state["sources"].items() if cursor["lines"])
    other = make()
    damaged = state | {"sources": {**state["sources"], source: state["sources"][source] | place}}
    damaged["checksum"] = checksum(damaged)
    with pytest.raises(StreamError, match=f"the state's sources.{source}.* take one that a stream has written"):
        other.restore(damaged) or list(islice(other, 1000))


@pytest.mark.parametrize("value", [-5, 1.5, "3", None, True, 1 << 62])
def test_a_state_counts_from_0_up(make: Make, value: object) -> None:
    """A number that no stream would write is refused by its name, the stream's as a source's."""
    state = make().state()
    with pytest.raises(StreamError, match=f"the state's n is {value!r}, no whole number from 0 up; take one"):
        make().restore(state | {"n": value})
    with pytest.raises(StreamError, match=r"the state's n, 7, is not the sum of its sources' lines; take one"):
        make().restore(state | {"n": 7})
    source, cursor = next(iter(state["sources"].items()))
    for counted in ("base", "reasons"):
        with pytest.raises(StreamError, match=f"the state's {counted}.{source} is {value!r}, no whole number"):
            make().restore(state | {counted: {source: value}})
    with pytest.raises(StreamError, match=f"the state's sources.{source}.lines is {value!r}, no whole number"):
        make().restore(state | {"sources": {**state["sources"], source: cursor | {"lines": value}}})


def test_a_state_from_when_fields_counted_from_0_is_refused(make: Make) -> None:
    """Version 1 of a state may name other fields by the same numbers, so it is refused, and why is told."""
    stream = make()
    state = stream.state() | {"version": 1}
    with pytest.raises(StreamError, match=r"configuration differs: .*fields counted from 0"):
        stream.restore(state)


def test_a_state_of_another_version_is_refused(make: Make) -> None:
    """A state of a format that is to come is told as such, and not read as if it were ours."""
    state = make().state()
    for version in (state["version"] + 1, None):
        with pytest.raises(StreamError, match=f"a state of 'volt.stream', version {version}, cannot be continued"):
            make().restore({**state, "version": version})


def test_a_state_is_saved_whole(make: Make, tmp_path: Path) -> None:
    """What is saved is what is loaded, and small."""
    stream = make()
    list(stream.blocks(limit=50))
    save_state(stream.state(), tmp_path / "state.json")
    assert load_state(tmp_path / "state.json") == json.loads(json.dumps(stream.state()))
    assert (tmp_path / "state.json").stat().st_size < 4000


@pytest.mark.slow
def test_many_epochs_are_the_same_for_any_number_of_workers(make: Make, tmp_path: Path) -> None:
    """Byte for byte, with mixing, filters, one-to-many and many-to-one transforms; resumed at random places too."""
    sources = [
        Source("a", numbered(tmp_path, "a", 15_000, n_shards=5), 2.0, (Drop(0.1),), block_lines=2_000),
        Source(
            "b",
            numbered(tmp_path, "b", 4_000),
            Schedule(((0, 1.0), (60_000, 3.0)), "linear"),
            (Repeat(),),
            block_lines=900,
        ),
        Source("c", numbered(tmp_path, "c", 9_000), 0.5, (Pair(),), block_lines=700, shuffle="outputs"),
    ]
    whole = b"".join(make(sources).blocks(limit=100_000))
    for start_method, n_workers in (("fork", 1), ("fork", 2), ("fork", 3), ("fork", 8), ("spawn", 3)):
        with deadline(300), make(sources, n_workers=n_workers, start_method=start_method) as stream:
            assert b"".join(stream.blocks(limit=100_000)) == whole
    lines, random = whole.decode().split("\n"), np.random.default_rng(1)
    stream, states = make(sources), list[dict[str, Any]]()
    for n in np.diff(np.sort(random.integers(0, 99_000, 50)), prepend=0).tolist():
        list(stream.blocks(limit=n))
        states.append(stream.state())
    for start_method, state in (*(("fork", state) for state in states), *(("spawn", state) for state in states[::10])):
        with deadline(60), make(sources, n_workers=2, start_method=start_method) as stream:
            stream.restore(state)
            assert list(islice(stream, 100)) == lines[state["n"] : state["n"] + 100]


def test_the_summary_counts(make: Make, tmp_path: Path) -> None:
    """Lines, fields, epochs and speed are there, as JSON."""
    stream = make([Source("d", numbered(tmp_path, "d", 10), block_lines=4)])
    list(stream.blocks(limit=25))
    found = json.loads(json.dumps(stream.summary().to_json()))
    assert (found["n"], found["n_lines"], found["n_read"]) == (25, 25, 28)
    assert found["fields"] == {"2": 28}
    assert found["sources"]["d"] == {"lines": 25, "requested": 25.0, "epochs": 2.5, "ended": False}
    assert found["lines_per_second"] > 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ends": "never"}, "ends"),
        ({"n_workers": -1}, "n_workers"),
        ({"start_method": "x"}, "start_method"),
        ({"rank": 1}, "rank 1"),
    ],
)
def test_options_out_of_range_are_refused(make: Make, options: dict[str, Any], told: str) -> None:
    """Unknown words and impossible numbers are told."""
    with pytest.raises(ConfigError, match=told):
        make(**options)


def test_sources_need_distinct_names(make: Make, tmp_path: Path) -> None:
    """Two sources of one name would share their randomness and their place in the state."""
    source = Source("d", numbered(tmp_path, "d", 3))
    for sources in ([], [source, source]):
        with pytest.raises(ConfigError, match="distinct names"):
            make(sources)


def test_a_run_goes_on_with_other_ranks(make: Make, tmp_path: Path) -> None:
    """Ranks are stopped anywhere, their states merged, and others go on: each line of each epoch comes once."""
    sources = [
        Source("d", numbered(tmp_path, "d", 31), 2.0, block_lines=4, epochs=2),
        Source("e", numbered(tmp_path, "e", 9), 1.0, (Repeat(),), block_lines=3, epochs=3),
    ]
    whole, found, state = Counter(make(sources, ends="drop")), Counter[str](), None
    for world, stop in ((3, 9), (2, 7), (5, 2), (1, None)):
        states = []
        for rank in range(world):
            stream = make(sources, ends="drop", rank=rank, world=world)
            if state is not None:
                stream.restore(state)
            found.update(islice(stream, stop and stop + rank))
            states.append(json.loads(json.dumps(stream.state())))
        state = merge_states(states)
    assert found == whole
    assert state is not None
    assert state["n"] == whole.total()
    with pytest.raises(StreamError, match=r"another rank: world: 1 in the state, 2 here; .* merge-states"):
        make(sources, ends="drop", world=2).restore(states[0])


def test_other_weights_are_accepted_from_where_a_stream_stands(make: Make, tmp_path: Path) -> None:
    """The mixture goes on from its counts, each source keeps its place, and the state remembers what was accepted."""
    paths = numbered(tmp_path, "d", 300), numbered(tmp_path, "e", 300)
    old, new = ([Source(n, p, w) for n, p, w in zip("de", paths, weights, strict=True)] for weights in ((1, 1), (1, 4)))
    stream, alone = make(old), {name: iter(make([one])) for name, one in zip("de", old, strict=True)}
    before = list(islice(stream, 100))
    with pytest.raises(StreamError, match=r"sources\.e\.weight: 1 in the state, 4 here.* accept"):
        make(new).restore(stream.state())
    other = make(new)
    other.restore(stream.state(), accept=["weights"])
    after = list(islice(other, 100))
    assert Counter(line[0] for line in before) == {"d": 50, "e": 50}
    assert Counter(line[0] for line in after) == {"d": 20, "e": 80}
    assert all(next(alone[line[0]]) == line for line in before + after)
    assert other.state()["accepted"] == ["weights"]
    again = make(new)
    again.restore(other.state())
    assert list(islice(again, 20)) == list(islice(other, 20))
    assert again.state()["accepted"] == ["weights"]
