"""`advance_state` and `StateHistory`: the state at each recent line is computed from turns and
openings."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import StreamError
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running import openings as recalling
from volt.stream.running.openings import (
    Opening,
    ReadCounts,
    StateHistory,
    advance_state,
    select_reached,
)
from volt.stream.running.state import Cursor, State

N_LINES = 1 << 23
NONE = State(0, {"a": Cursor(), "b": Cursor()}, {})


def make_opening(n, source, lines, *, size, number):
    """Return the opening of a block of a source that has delivered `lines` lines before it."""
    block = LineBlock(number, 0, size + 1)
    return Opening(
        n, source, Cursor(lines, number, 0), block, size, ReadCounts(size + 1, {"blank": 1})
    )


def simulate_run(sizes, turns):
    """Return the state after each turn, and the openings of chunks, computed line by line. sizes:
    lines of the blocks of both sources, which are used over and over"""
    states = [NONE]
    openings = []
    left = [0, 0]
    counts = [0, 0]
    for n, source in enumerate(turns):
        skipped = []
        while not left[source]:
            number = sum(opening.source == source for opening in openings)
            left[source] = sizes[number % len(sizes)]
            openings.append(
                make_opening(n, source, counts[source], size=left[source], number=number)
            )
            skipped.append(openings[-1])
        state = states[-1]
        name = "ab"[source]
        for opening in skipped:
            state = opening.counts.add_to(state)
        cursor = skipped[-1].cursor if skipped else state.cursors[name]
        states.append(replace(state, n=n + 1, cursors={**state.cursors, name: cursor.advance(1)}))
        left[source], counts[source] = left[source] - 1, counts[source] + 1
    return states, openings


@given(
    sizes=st.lists(st.integers(0, 3), min_size=1, max_size=5).filter(any),
    turns=st.lists(st.integers(0, 1), min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=5),
)
def test_the_history_has_the_state_at_each_line(sizes, turns, cuts):
    """StateHistory.state_at returns the state at each earlier line, for any sizes of the steps that
    were added."""
    states, openings = simulate_run(sizes, turns)
    recall = StateHistory(N_LINES, n_sources=2)
    bounds = sorted({0, len(turns), *(cut for cut in cuts if cut < len(turns))})
    for low, high in pairwise(bounds):
        own = [opening for opening in openings if low <= opening.n < high]
        assert advance_state(states[low], np.array(turns[low:high]), own) == states[high]
        recall.add(states[low], np.array(turns[low:high]), own)
    assert [recall.state_at(n, n=len(turns)) for n in range(len(turns) + 1)] == states


def test_the_history_limits_its_openings(monkeypatch):
    """StateHistory drops its oldest openings beyond a limit; the error for a dropped line names the
    oldest line."""
    monkeypatch.setattr(recalling, "_MOST_OPENINGS", 100)
    monkeypatch.setattr(recalling, "_MOST_OPENINGS_AFTER", 10)
    turns = [0, 1] * 500
    states, openings = simulate_run([1], turns)
    recall = StateHistory(N_LINES, n_sources=2)
    for n in range(0, 1000, 4):
        recall.add(states[n], np.array(turns[n : n + 4]), openings[n : n + 4])
    held = sum(len(saved.openings) for saved in recall._saved)
    assert 90 <= held <= 100
    assert recall.state_at(1000 - held, n=1000) == states[1000 - held]
    with pytest.raises(
        StreamError, match=f"line 3 cannot be recalled; give a line from {1000 - held} to 1000, "
    ):
        recall.state_at(3, n=1000)


def test_the_history_limits_its_saved_states(monkeypatch):
    """StateHistory drops its oldest states beyond a limit, if a state is saved for every line
    because sources end."""
    monkeypatch.setattr(recalling, "_MOST_CURSORS", 20)
    recall = StateHistory(N_LINES, n_sources=2)
    for n in range(100):
        cursors = {"a": Cursor(n), "b": Cursor()}
        recall.add(State(n, cursors, {}, since=n), np.array([0]), [])
    assert len(recall._saved) == 10
    assert recall.state_at(90, n=100).n == 90


def test_the_history_has_as_many_lines_as_requested():
    """StateHistory(10) has the states at the last ten lines, and refuses the line before them."""
    recall = StateHistory(10, n_sources=2)
    states = simulate_run([100], [0, 1] * 50)[0]
    for n in range(0, 100, 2):
        recall.add(states[n], np.array([0, 1]), [])
    assert recall.state_at(90, n=100).n == 90
    with pytest.raises(
        StreamError, match="line 89 cannot be recalled; give a line from 90 to 100, or raise rec"
    ):
        recall.state_at(89, n=100)


def test_states_advance_over_reached_chunks():
    """advance_state counts openings up to each source's last chunk with outputs that was opened before the line."""
    block = LineBlock(0, 0, 4)

    def at(n, source, size, lines=0):
        counts = ReadCounts(4, {"utf": 1, "blank": n})
        return Opening(n, source, Cursor(lines, n, 0), block, size, counts)

    openings = [at(3, 0, 0), at(3, 0, 2), at(4, 1, 1), at(5, 0, 0), at(6, 0, 1, 2), at(6, 1, 0)]
    for n, indices in (
        (3, []),
        (4, [0, 1]),
        (5, [0, 1, 2]),
        (6, [0, 1, 2]),
        (7, [0, 1, 2, 3, 4]),
        (99, [0, 1, 2, 3, 4]),
    ):
        assert select_reached(openings, n) == [openings[index] for index in indices]
    state = State(3, {"a": Cursor(), "b": Cursor()}, {}, n_read=1, n_faults=2, reasons={"utf": 2})
    after = advance_state(state, np.array([0, 1, 0]), openings)
    assert after == State(
        6,
        {"a": Cursor(2, 3, 0, 2), "b": Cursor(1, 4, 0, 1)},
        {},
        n_read=13,
        n_faults=15,
        reasons={"utf": 5, "blank": 10},
    )
    assert advance_state(state, np.array([], np.int64), openings) == state
