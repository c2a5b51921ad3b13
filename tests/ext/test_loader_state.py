"""The position of a loader follows from the positions of its workers."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from volt.errors import StreamError, VoltError
from volt.ext.loader_state import Position, position_of_loader


def worker_at(start, number, of, n_taken):
    """Return a worker's position after the consumer has taken `n_taken` steps since a start."""
    n_own = len(range(number, n_taken, of))
    if not n_own:
        return Position(steps={"n": start}, skip=number, worker=(number, of))
    return Position(
        steps={"n": start + number + (n_own - 1) * of + 1}, skip=of - 1, worker=(number, of)
    )


@given(
    st.integers(0, 50), st.integers(1, 5), st.integers(0, 30), st.integers(0, 30), st.integers(0, 4)
)
@example(0, 2, 3, 0, 1)
def test_the_next_step_of_a_loader_is_the_least_of_its_workers(start, of, n_taken, since, left):
    """`position_of_loader` returns the step after the last step that the loader returned.

    It is at the end if all workers are at the end.
    """
    n_steps = start + n_taken + since + left
    workers = [worker_at(start, number, of, n_taken) for number in range(of)]
    workers = [replace(worker, ended=worker.n >= n_steps) for worker in workers]
    found = position_of_loader(workers, n_since=since)
    assert (found.n, found.worker, found.ended) == (
        start + n_taken + since,
        None,
        since + left == 0,
    )
    assert found.skip == since if n_taken or start == 0 else found.skip >= since


@given(st.integers(1, 5), st.integers(0, 20), st.integers(1, 20))
def test_workers_share_an_iteration(of, start, length):
    """Workers that start at one position (`Position.for_reader`) read each step of the iteration
    once. The next iteration has as many steps."""
    begun = [
        Position(steps={"n": start}).for_reader(worker=(number, of), world=1, length=length)
        for number in range(of)
    ]
    own = [n for position in begun for n in range(position.n, position.until or 0, of)]
    assert sorted(own) == list(range(start, start + length))
    again = [
        replace(position, skip=start + length - position.n_of_state, worker=None)
        for position in begun
    ]
    assert {
        position.for_reader(worker=None, world=1, length=length).until for position in again
    } == {start + 2 * length}


@given(
    st.builds(
        Position,
        steps=st.none() | st.fixed_dictionaries({"n": st.integers(0, 9)}),
        skip=st.integers(0, 9),
        world=st.integers(1, 9),
        until=st.none() | st.integers(0, 9),
        ended=st.booleans(),
        worker=st.sampled_from([None, (0, 1), (2, 3)]),
    )
)
def test_a_position_is_json(position):
    """`Position.from_json` returns the position that `to_json` wrote."""
    assert Position.from_json(json.loads(json.dumps(position.to_json()))) == position


CHANGED = "checksum does not match its values"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "not a state of a StreamDataset of version 1"),
        ({"skip": -1}, CHANGED),
        ({"until": "x"}, CHANGED),
        ({"steps": {}}, CHANGED),
        ({"steps": {1, 2}}, "contains values that are not JSON"),
        ({"worker": 2}, CHANGED),
        ({"more": 1}, CHANGED),
        ({"_snapshot": {}}, "take StreamDataset.state_of(state)"),
    ],
)
def test_a_changed_state_is_refused(change, message):
    """The error of `Position.from_json` says what is wrong with a changed state, or what to load
    instead."""
    with pytest.raises(VoltError) as refused:
        Position.from_json({**Position().to_json(), **change})
    assert message in str(refused.value)


def test_other_values_are_refused():
    """`Position.from_json` refuses a list and an empty dict."""
    with pytest.raises(VoltError, match="state is a list; give what state_dict"):
        Position.from_json([])
    with pytest.raises(StreamError, match="version 1"):
        Position.from_json({})
