"""A run goes on with any number of ranks: every output of every epoch comes once, whatever was given before."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.errors import ArgumentError, StreamError
from volt.stream.mixing.mixture import Mixture
from volt.stream.reading.unread_lines import rank_blocks
from volt.stream.running.merging_states import _divide_counts, merge_states, take_rank_share
from volt.stream.running.resuming import adapt_state
from volt.stream.running.state import Cursor, State

Output = tuple[int, int, int]  # epoch, line, number among the outputs of the line


class Rank:
    """A rank of a stream of one source, each line of which gives as many outputs as a table says."""

    def __init__(self, table, block, epochs, rank, world):
        self._table = table
        self._block = block
        source = {"n_lines": len(table), "block_lines": block, "epochs": epochs}
        self._configuration = {"seed": 1, "rank": rank, "world": world, "sources": {"a": source}}
        self._shape: dict[str, Any] = {"rank": rank, "world": world, "epochs": epochs}
        self._cursor = Cursor()
        self._state = State(0, {"a": self._cursor}, self._configuration, 0, {"a": 0})

    def restore(self, stored):
        self._state, _ = adapt_state(State.from_json(stored), self._configuration)
        self._cursor = self._state.cursors["a"]
        return self

    @property
    def state(self):
        return replace(self._state, n=self._cursor.lines, cursors={"a": self._cursor}).to_json()

    def _outputs(self, block):
        outputs = list[Output]()
        for line in range(block.start, block.start + block.n_lines):
            outputs += [(block.epoch, line, number) for number in range(self._table[line])]
        return [outputs[index] for index in block.unread_outputs(len(outputs)).tolist()]

    def outputs(self):
        """Yield outputs from the rank's position on."""
        first = self._cursor
        unread = first.unread
        blocks = rank_blocks(
            len(self._table), self._block, unread=unread, start=first.block_address, **self._shape
        )
        for block in blocks:
            offset = first.offset if block.address == first.block_address else 0
            self._cursor = Cursor(self._cursor.lines, *block.address, offset, unread=unread)
            for output in self._outputs(block)[offset:]:
                self._cursor = self._cursor.advance(1)
                yield output


TABLES = st.lists(st.integers(0, 3), min_size=1, max_size=30)


RUNS = st.lists(
    st.tuples(st.integers(1, 7), st.lists(st.integers(0, 40), min_size=7, max_size=7)), max_size=4
)


@given(TABLES, st.integers(1, 12), st.integers(1, 3), RUNS, st.integers(1, 7))
@example([1] * 8, 2, 3, [(2, [7, 1]), (3, [1, 1, 1])], 1)  # ranks that are an epoch apart
@settings(max_examples=examples(40))
def test_every_output_comes_once_whatever_the_ranks(table, block, epochs, runs, last):
    """Runs with changing numbers of ranks deliver each output of each epoch once."""
    delivered = Counter[Output]()
    stored = None
    for world, amounts in [*runs, (last, [10**6] * 7)]:
        ranks = [Rank(table, block, epochs, rank, world) for rank in range(world)]
        for rank, amount in zip(ranks, amounts, strict=False):
            if stored is not None:
                rank.restore(stored)
            delivered.update(islice(rank.outputs(), amount))
        stored = merge_states([rank.state for rank in reversed(ranks)])
        assert stored["n"] == delivered.total()
    lines = [(line, i) for line, n in enumerate(table) for i in range(n)]
    assert delivered == Counter((epoch, *output) for epoch in range(epochs) for output in lines)


@given(TABLES, st.integers(1, 12), st.integers(1, 4), st.data())
@settings(max_examples=examples(40))
def test_a_rank_goes_on_in_its_own_world(table, block, world, data):
    """A rank's own state gives exactly the rest of its outputs, in order, also after a merge."""
    first = [Rank(table, block, 3, rank, 2) for rank in range(2)]
    for rank in first:
        list(islice(rank.outputs(), data.draw(st.integers(0, 30))))
    stored = merge_states([rank.state for rank in first])
    for number in range(world):
        whole = list(Rank(table, block, 3, number, world).restore(stored).outputs())
        rank, n = (
            Rank(table, block, 3, number, world).restore(stored),
            data.draw(st.integers(0, len(whole))),
        )
        assert list(islice(rank.outputs(), n)) == whole[:n]
        assert list(Rank(table, block, 3, number, world).restore(rank.state).outputs()) == whole[n:]


def test_new_ranks_share_what_was_counted():
    """New ranks divide the counts within one line, and the mixture continues from them."""
    weights, world = [3.0, 1.0, 0.4], 3
    names, mixture = "abc", Mixture(weights)
    mixture.turns(1001)
    lines = dict(zip(names, mixture.counts.tolist(), strict=True))
    cursors = {name: Cursor(n) for name, n in lines.items()}
    merged = State(1001, cursors, {}, 1001, lines, (), 2000, 9, {"columns": 4, "utf": 5}, merged=2)
    ranks = [take_rank_share(merged, rank, world) for rank in range(world)]
    assert [state.n for state in ranks] == [334, 334, 333]
    assert sum(state.n_read for state in ranks) == 2000
    assert sum((Counter(state.reasons) for state in ranks), Counter()) == merged.reasons
    assert all(state.n_faults == sum(state.reasons.values()) == 3 for state in ranks)
    for name in names:
        own = [state.cursors[name].lines for state in ranks]
        assert sum(own) == lines[name]
        assert max(own) - min(own) <= 1
    counts = np.array([cursor.lines for cursor in ranks[1].cursors.values()])
    after = Mixture(weights, counts, since=ranks[1].since, base=np.array([*ranks[1].base.values()]))
    turns = after.turns(4400)
    assert np.abs(np.bincount(turns) - np.array([3000, 1000, 400])).max() <= 1


def two(**change):
    """The states of two ranks; change: of the second one's configuration."""
    ranks = [Rank([1] * 10, 4, 2, rank, 2) for rank in (0, 1)]
    for rank in ranks:
        list(islice(rank.outputs(), 3))
    message = State.from_json(ranks[1].state)
    return [
        ranks[0].state,
        replace(message, configuration={**message.configuration, **change}).to_json(),
    ]


def test_only_states_of_one_run_are_merged():
    """Missing or repeated ranks, other configurations, and merged states are refused with the reason."""
    states = two()
    merged = merge_states(states)
    assert merged["merged"] == 2
    alone = Rank([1] * 10, 4, 2, 0, 1).restore(merged).state
    other = Rank([1] * 10, 4, 2, 1, 2).restore(merged).state
    refused = {
        "of ranks 0 of 2; give one state per rank": states[:1],
        "of ranks 0 of 2, 0 of 2; give one state per": [states[0], states[0]],
        "of ranks 1 of 2, 1 of 3; give": [states[1], two(world=3)[1]],
        "seed: 1 in the state, 2 here": two(seed=2),
        "configuration.rank is '1', not a whole": two(rank="1"),
        "configuration.world is None, not a whole": two(world=None),
        "one of the states is already merged": [merged, alone],
        "one of the states is already merged; give": [alone, merged],
        "they began with different sources, or from different states": [states[0], other],
    }
    for message, wrong in refused.items():
        with pytest.raises(StreamError, match=message):
            merge_states(wrong)


def test_ranks_far_apart_are_refused():
    """States whose epochs are very far apart are refused."""
    states = [State.from_json(state) for state in two()]
    source = states[0].configuration["sources"]["a"] | {"epochs": None}
    for number, state in enumerate(states):
        configuration = state.configuration | {"sources": {"a": source}}
        states[number] = replace(state, configuration=configuration)
    lines = states[0].cursors["a"].lines
    states[0] = replace(states[0], cursors={"a": Cursor(lines, 1 << 40, 0, 1)})
    with pytest.raises(StreamError, match="epochs apart in source 'a'"):
        merge_states([state.to_json() for state in states])


def test_a_state_of_another_rank_is_refused():
    """The error advises to merge; a merged state is accepted by any rank."""
    states = two()
    with pytest.raises(
        StreamError,
        match=r"belongs to another rank: rank: 0 in the state, 1 here; .* merge the states",
    ):
        Rank([1] * 10, 4, 2, 1, 2).restore(states[0])
    with pytest.raises(
        StreamError, match="rank: 1 in the state, 0 here; world: 2 in the state, 1 here"
    ):
        Rank([1] * 10, 4, 2, 0, 1).restore(states[1])
    merged = merge_states(states)
    assert [Rank([1] * 10, 4, 2, rank, 3).restore(merged).state["n"] for rank in range(3)] == [
        2,
        2,
        2,
    ]
    with pytest.raises(StreamError, match="n_lines: 10 in the state, 11 here"):
        Rank([1] * 11, 4, 2, 0, 3).restore(merged)


def test_ended_sources_end_when_all_ranks_have_ended_them():
    """A source that ended in one rank only continues in the others."""
    ended = [State.from_json(state) for state in two()]
    assert merge_states([replace(state, ended=("a",)).to_json() for state in ended])["ended"] == [
        "a"
    ]
    assert (
        merge_states([replace(ended[0], ended=("a",)).to_json(), ended[1].to_json()])["ended"] == []
    )


def test_unread_lines_begin_with_the_first_epoch_that_is_left():
    """Epochs that all ranks finished are omitted from a merged state, except for the last one."""
    ranks = [Rank([1] * 4, 9, 3, rank, 2) for rank in (0, 1)]
    for rank in ranks:
        assert len(list(rank.outputs())) == 6
    unread = merge_states([rank.state for rank in ranks])["sources"]["a"]["unread"]
    assert [lines["epoch"] for lines in unread] == [2]
    assert unread[0]["ranges"] == []


def test_states_to_merge_are_a_list():
    """A text is refused."""
    with pytest.raises(ArgumentError, match="give a list of the states of all ranks"):
        merge_states("x")  # type: ignore[arg-type]


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 20)), st.integers(1, 6))
def test_counts_are_divided(totals, world):
    """Ranks divide totals, and their sum, within one; nothing is lost."""
    shares = [_divide_counts(totals, rank, world) for rank in range(world)]
    for name, total in totals.items():
        assert sorted(share[name] for share in shares) == sorted(
            (total + rank) // world for rank in range(world)
        )
    sums = [sum(share.values()) for share in shares]
    assert max(sums) - min(sums) <= 1
    assert sums == sorted(sums, reverse=True)
