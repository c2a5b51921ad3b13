"""`merge_states`: runs resume with any number of ranks, and every output of every epoch comes
once."""

from collections import Counter
from dataclasses import replace
from itertools import islice

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
    """A simulated rank of a stream of one source; a table has the number of outputs of each
    line."""

    def __init__(self, table, block, epochs, rank, world):
        self._table = table
        self._block = block
        source = {"n_lines": len(table), "block_lines": block, "epochs": epochs}
        self._configuration = {"seed": 1, "rank": rank, "world": world, "sources": {"a": source}}
        self._shape = {"rank": rank, "world": world, "epochs": epochs}
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
        outputs = []
        for line in range(block.start, block.start + block.n_lines):
            outputs += [(block.epoch, line, number) for number in range(self._table[line])]
        return [outputs[index] for index in block.unread_outputs(len(outputs)).tolist()]

    def outputs(self):
        """Yield outputs from the rank's cursor on."""
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
def test_every_output_comes_once_for_any_numbers_of_ranks(table, block, epochs, runs, last):
    """Runs with changing numbers of ranks, merged in between, deliver each output of each epoch
    once."""
    delivered = Counter()
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
def test_a_rank_resumes_from_its_own_state(table, block, world, data):
    """A rank that restores its own state delivers exactly the rest of its outputs, in order, also
    after a merge."""
    first = [Rank(table, block, 3, rank, 2) for rank in range(2)]
    for rank in first:
        list(islice(rank.outputs(), data.draw(st.integers(0, 30))))
    stored = merge_states([rank.state for rank in first])
    for number in range(world):
        whole = list(Rank(table, block, 3, number, world).restore(stored).outputs())
        rank = Rank(table, block, 3, number, world).restore(stored)
        n = data.draw(st.integers(0, len(whole)))
        assert list(islice(rank.outputs(), n)) == whole[:n]
        assert list(Rank(table, block, 3, number, world).restore(rank.state).outputs()) == whole[n:]


def test_new_ranks_share_the_counts():
    """take_rank_share divides the counts of a merged state within one, and the mixture continues
    from them."""
    weights = [3.0, 1.0, 0.4]
    world = 3
    names = "abc"
    mixture = Mixture(weights)
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


def two_states(**change):
    """Return the states of two ranks. change: of the second rank's configuration"""
    ranks = [Rank([1] * 10, 4, 2, rank, 2) for rank in (0, 1)]
    for rank in ranks:
        list(islice(rank.outputs(), 3))
    second = State.from_json(ranks[1].state)
    second = replace(second, configuration={**second.configuration, **change})
    return [ranks[0].state, second.to_json()]


def test_only_states_of_one_run_are_merged():
    """merge_states refuses missing or repeated ranks, other configurations, and merged states, with
    the reason."""
    states = two_states()
    merged = merge_states(states)
    assert merged["merged"] == 2
    alone = Rank([1] * 10, 4, 2, 0, 1).restore(merged).state
    other = Rank([1] * 10, 4, 2, 1, 2).restore(merged).state
    refused = {
        "of ranks 0 of 2; give one state per rank": states[:1],
        "of ranks 0 of 2, 0 of 2; give one state per": [states[0], states[0]],
        "of ranks 1 of 2, 1 of 3; give": [states[1], two_states(world=3)[1]],
        "seed: 1 in the state, 2 here": two_states(seed=2),
        "configuration.rank is '1', not a whole": two_states(rank="1"),
        "configuration.world is None, not a whole": two_states(world=None),
        "one of the states is already merged": [merged, alone],
        "one of the states is already merged; give": [alone, merged],
        "they began with different sources, or from different states": [states[0], other],
    }
    for message, wrong in refused.items():
        with pytest.raises(StreamError, match=message):
            merge_states(wrong)


def test_ranks_many_epochs_apart_are_refused():
    """merge_states refuses states whose epochs are more than 65,536 apart."""
    states = [State.from_json(state) for state in two_states()]
    source = states[0].configuration["sources"]["a"] | {"epochs": None}
    for number, state in enumerate(states):
        configuration = state.configuration | {"sources": {"a": source}}
        states[number] = replace(state, configuration=configuration)
    lines = states[0].cursors["a"].lines
    states[0] = replace(states[0], cursors={"a": Cursor(lines, 1 << 40, 0, 1)})
    with pytest.raises(StreamError, match="epochs apart in source 'a'"):
        merge_states([state.to_json() for state in states])


def test_a_state_of_another_rank_is_refused():
    """adapt_state refuses the state of another rank and recommends merging; any rank accepts a
    merged state."""
    states = two_states()
    message = r"belongs to another rank: rank: 0 in the state, 1 here; .* merge the states"
    with pytest.raises(StreamError, match=message):
        Rank([1] * 10, 4, 2, 1, 2).restore(states[0])
    message = "rank: 1 in the state, 0 here; world: 2 in the state, 1 here"
    with pytest.raises(StreamError, match=message):
        Rank([1] * 10, 4, 2, 0, 1).restore(states[1])
    merged = merge_states(states)
    for rank in range(3):
        assert Rank([1] * 10, 4, 2, rank, 3).restore(merged).state["n"] == 2
    with pytest.raises(StreamError, match="n_lines: 10 in the state, 11 here"):
        Rank([1] * 11, 4, 2, 0, 3).restore(merged)


def test_a_source_has_ended_if_it_has_ended_in_all_ranks():
    """A merged state lists a source as ended only if the states of all ranks do."""
    states = two_states()
    ended = [replace(State.from_json(state), ended=("a",)).to_json() for state in states]
    assert merge_states(ended)["ended"] == ["a"]
    assert merge_states([ended[0], states[1]])["ended"] == []


def test_merged_states_omit_epochs_that_all_ranks_have_read():
    """A merged state has no unread lines of epochs that all ranks have read, except for the last
    epoch."""
    ranks = [Rank([1] * 4, 9, 3, rank, 2) for rank in (0, 1)]
    for rank in ranks:
        assert len(list(rank.outputs())) == 6
    unread = merge_states([rank.state for rank in ranks])["sources"]["a"]["unread"]
    assert [lines["epoch"] for lines in unread] == [2]
    assert unread[0]["ranges"] == []


def test_states_to_merge_are_a_list():
    """merge_states refuses a text instead of a list of states."""
    with pytest.raises(ArgumentError, match="give a list of the states of all ranks"):
        merge_states("x")


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 20)), st.integers(1, 6))
def test_counts_are_divided_within_one(totals, world):
    """_divide_counts gives each rank its share of each total, and of their sum, within one; the
    shares add up."""
    shares = [_divide_counts(totals, rank, world) for rank in range(world)]
    for name, total in totals.items():
        counts = [share[name] for share in shares]
        assert sum(counts) == total
        assert max(counts) - min(counts) <= 1
    sums = [sum(share.values()) for share in shares]
    assert max(sums) - min(sums) <= 1
    assert sums == sorted(sums, reverse=True)
