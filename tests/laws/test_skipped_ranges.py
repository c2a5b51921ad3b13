"""After `skip_range`, a run resumes with the uninterrupted run minus exactly the skipped lines, with any
ranks, and its states record these lines."""

import json
from itertools import chain, islice

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from support.drawn import examples
from support.steps_of_streams import bits, given, steps_of, stream_of

from volt.batches.steps_state import StepsState
from volt.errors import ConfigError, StreamError
from volt.stream import merge_states
from volt.stream.running.state import State

FEW = settings(deadline=None, max_examples=examples(20))
N = 240  # lines of an epoch
worlds = st.integers(1, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of the corpora."""
    return tmp_path_factory.mktemp("corpora")


def saved(state):
    """Return a state after a save to a file."""
    return json.loads(json.dumps(state))


@FEW
@for_all(st.booleans(), worlds, worlds, st.integers(0, 6), st.integers(1, 6), st.integers(0, 3))
def test_steps_without_two_skipped_ranges(folder, packed, world, new_world, start, n, gap):
    """Two ranges of steps are skipped.

    With as many ranks as before, the other steps are the same bit for bit. With other ranks, every
    other line of the epoch follows once, and no skipped line.
    """

    def ranks(world):
        return [steps_of(folder, N, packed=packed, rank=r, world=world) for r in range(world)]

    def restored(world, state):
        for steps in (resumed := ranks(world)):
            steps.restore(state)
        return resumed

    whole = [given(steps) for steps in ranks(world)]
    second = start + n + gap
    if second + n > len(whole[0]):
        return
    [first] = restored(world, steps_of(folder, N, packed=packed, world=world).state())[:1]
    first.skip(start)
    first.skip_range(start, start + n)
    expected = bits(steps_of(folder, N, packed=packed, world=world))
    assert bits(first, gap) == expected[start + n : second]
    [steps] = restored(world, saved(first.state()))[:1]
    steps.skip_range(second, second + n)
    state = saved(steps.state())
    assert bits(steps) == expected[second + n :]

    after = chain.from_iterable(chain.from_iterable(lines[second + n :] for lines in whole))
    resumed = restored(new_world, state)
    assert sorted(chain.from_iterable(chain.from_iterable(map(given, resumed)))) == sorted(after)
    for later in (state, resumed[0].state()):
        lines = StepsState.from_json(later).lines
        found = {line for line in range(N) if lines.has_skipped(line, rank=0, world=1)}
        skipped = (
            range_
            for lines in whole
            for range_ in (lines[start : start + n], lines[second : second + n])
        )
        assert found == set(chain.from_iterable(chain.from_iterable(skipped)))


@FEW
@for_all(worlds, worlds, st.integers(0, 30), st.integers(1, 40))
def test_lines_without_a_skipped_range(folder, world, new_world, start, n):
    """One rank skips a range of its lines; it continues with the line after it.

    Other ranks continue from the merged states with all lines that no rank has read or skipped.
    """
    streams = [stream_of(folder, N, rank=rank, world=world) for rank in range(world)]
    whole = [[*stream_of(folder, N, rank=rank, world=world)] for rank in range(world)]
    for stream in streams:
        stream.skip(start)
    streams[-1].skip_range(start, start + n)
    assert [*islice(streams[-1], 3)] == whole[-1][start + n :][:3]
    assert streams[-1].state(at=start + n)["skipped"]
    merged = saved(merge_states([stream.state() for stream in streams]))
    new_streams = [stream_of(folder, N, rank=rank, world=new_world) for rank in range(new_world)]
    for stream in new_streams:
        stream.restore(merged)
    rest = [line for lines in whole[:-1] for line in lines[start:]] + whole[-1][start + n + 3 :]
    assert sorted(chain.from_iterable(new_streams)) == sorted(rest)
    state = State.from_json(merged)
    assert [
        (rank, line)
        for rank in range(world)
        for line in range(N)
        if state.has_skipped(line, rank=rank, world=world)
    ] == [(world - 1, line) for line in range(start, start + n)]


@pytest.mark.parametrize("make", [stream_of, steps_of])
def test_only_the_next_lines_are_skipped(folder, make):
    """A range that starts in the past or in the future, is empty, or goes beyond the end is refused."""
    reader = make(folder, N)
    reader.skip(5)
    for start in (4, 6):
        with pytest.raises(
            StreamError, match=rf"at \w+ 5, not \w+ {start}; skip from \w+ 5 on, or"
        ):
            reader.skip_range(start, 9)
    with pytest.raises(ConfigError, match="stop is 5; give 6 or more"):
        reader.skip_range(5, 5)
    assert reader.n == 5
    with pytest.raises(StreamError, match=r"after \w+ \d+; skip fewer"):
        reader.skip_range(5, 5000)
