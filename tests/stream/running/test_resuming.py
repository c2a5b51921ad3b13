"""A stream that was stopped anywhere goes on where it was, with any workers, ranks or accepted weights."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import some
from streams import Drop, Make, Pair, Repeat, deadline, numbered

from volt.errors import ConfigError, StreamError
from volt.stream import Schedule, Source
from volt.stream.running.checkpoint import load_state, save_state
from volt.stream.running.merging_states import merge_states


def test_a_stream_goes_on_from_every_place(make: Make) -> None:
    """Stopped after any of the first 120 lines and restored elsewhere, the lines are those of the whole stream."""
    whole = list(islice(make(), 150))
    for stop in some(range(120)):
        first = make()
        assert list(islice(first, stop)) == whole[:stop]
        state = json.loads(json.dumps(first.state()))
        second = make()
        second.restore(state)
        assert list(islice(second, 20)) == whole[stop : stop + 20]
        assert second.state()["n"] == stop + 20


def test_a_state_within_the_lines_given(make: Make) -> None:
    """The state at any earlier line is the one that was there then; what was forgotten or is to come is reported."""
    stream, states = make(recall=1000), list[dict[str, Any]]()
    for _ in range(200):
        states.append(stream.state())
        next(iter(stream))
    for size in (1, 7, 50):
        other = make(recall=1000)
        while other.n < 200:
            list(islice(other.blocks(limit=size), None))
        for n in some(range(200)):
            fresh = make()
            fresh.restore(other.state(at=n))
            assert fresh.state()["n"] == n
            if n % 20 == 0:
                again = make()
                again.restore(states[n])
                assert list(islice(fresh, 5)) == list(islice(again, 5))
    with pytest.raises(ConfigError, match="at is -1; give 0 or more"):
        stream.state(at=-1)
    with pytest.raises(
        StreamError, match="line 201 is ahead of the stream, which has given 200 lines"
    ):
        stream.state(at=201)
    short = make(recall=10)
    for _ in range(10):
        list(short.blocks(limit=10))
    with pytest.raises(StreamError, match="line 3 cannot be recalled"):
        short.state(at=3)


def test_a_state_within_a_loop_does_not_disturb_it(make: Make) -> None:
    """Asking for states, summaries and positions while iterating changes nothing."""
    whole, stream, lines = list(islice(make(), 100)), make(), list[str]()
    for line in islice(stream, 100):
        lines.append(line)
        assert (stream.n, stream.state()["n"], stream.summary().n) == (len(lines),) * 3
    assert lines == whole


@pytest.mark.slow
@pytest.mark.campaign
def test_many_epochs_are_the_same_for_any_number_of_workers(make: Make, tmp_path: Path) -> None:
    """Byte for byte, with mixing, filters, one-to-many and many-to-one transforms; resumed at random places too."""
    sources = [
        Source(
            "a", numbered(tmp_path, "a", 15_000, n_shards=5), 2.0, (Drop(0.1),), block_lines=2_000
        ),
        Source(
            "b",
            numbered(tmp_path, "b", 4_000),
            Schedule(((0, 1.0), (60_000, 3.0)), "linear"),
            (Repeat(),),
            block_lines=900,
        ),
        Source(
            "c", numbered(tmp_path, "c", 9_000), 0.5, (Pair(),), block_lines=700, shuffle="outputs"
        ),
    ]
    whole = b"".join(make(sources).blocks(limit=100_000))
    for start_method, n_workers in (
        ("fork", 1),
        ("fork", 2),
        ("fork", 3),
        ("fork", 8),
        ("spawn", 3),
    ):
        with deadline(300), make(sources, n_workers=n_workers, start_method=start_method) as stream:
            assert b"".join(stream.blocks(limit=100_000)) == whole
    lines, random = whole.decode().split("\n"), np.random.default_rng(1)
    stream, states = make(sources), list[dict[str, Any]]()
    for n in np.diff(np.sort(random.integers(0, 99_000, 50)), prepend=0).tolist():
        list(stream.blocks(limit=n))
        states.append(stream.state())
    for start_method, state in (
        *(("fork", state) for state in states),
        *(("spawn", state) for state in states[::10]),
    ):
        with deadline(60), make(sources, n_workers=2, start_method=start_method) as stream:
            stream.restore(state)
            assert list(islice(stream, 100)) == lines[state["n"] : state["n"] + 100]


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
    with pytest.raises(
        StreamError, match=r"another rank: world: 1 in the state, 2 here; .* merge the states"
    ):
        make(sources, ends="drop", world=2).restore(states[0])


def test_other_weights_are_accepted_from_where_a_stream_stands(make: Make, tmp_path: Path) -> None:
    """The mixture goes on from its counts, each source keeps its place, and the state remembers what was accepted."""
    paths = numbered(tmp_path, "d", 300), numbered(tmp_path, "e", 300)
    old, new = (
        [Source(n, p, w) for n, p, w in zip("de", paths, weights, strict=True)]
        for weights in ((1, 1), (1, 4))
    )
    stream, alone = (
        make(old),
        {name: iter(make([one])) for name, one in zip("de", old, strict=True)},
    )
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


def test_a_state_is_saved_whole(make: Make, tmp_path: Path) -> None:
    """What is saved is what is loaded, and small."""
    stream = make()
    list(stream.blocks(limit=50))
    save_state(stream.state(), tmp_path / "state.json")
    assert load_state(tmp_path / "state.json") == json.loads(json.dumps(stream.state()))
    assert (tmp_path / "state.json").stat().st_size < 4000
