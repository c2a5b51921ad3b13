"""Shards get equal parts of all lines and of each input, in which the inputs stand evenly mixed."""

from __future__ import annotations

from itertools import chain

import numpy as np
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.stream.tasks.shard_writing import (
    dealt,
    in_a_row,
    mixed_chunks,
    mixed_order,
    number_of_shards,
)

few = st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32))
def test_every_shard_gets_its_part_of_every_input(seed: int) -> None:
    """10,000 cases, 100 for each seed: of all lines and of each input a shard gets the whole part or one more, and
    nothing is lost."""
    draw = np.random.default_rng(seed)
    for _ in range(100):
        n_shards, most = int(draw.integers(1, 60)), int(10 ** draw.uniform(0, 7))
        lines = np.where(
            draw.random(n := int(draw.integers(1, 7))) < 0.3, 1, draw.integers(1, most + 1, n)
        )
        counts = dealt(lines, n_shards)
        assert (counts.sum(axis=0) == lines).all()
        for got, whole in ((counts, lines), (counts.sum(axis=1), lines.sum())):
            assert got.min(axis=0).tolist() == (whole // n_shards).tolist()
            assert got.max(axis=0).tolist() == (-(-whole // n_shards)).tolist()


@given(few, st.integers(1, 9))
def test_line_j_is_dealt_to_shard_j_modulo_their_number(lines: list[int], n_shards: int) -> None:
    """So say the numbers, counted one by one."""
    owner = list(chain.from_iterable([place] * n for place, n in enumerate(lines)))
    counts = np.zeros((n_shards, len(lines)), int)
    for number, place in enumerate(owner):
        counts[number % n_shards, place] += 1
    assert dealt(lines, n_shards).tolist() == counts.tolist()


@given(few, st.integers(1, 9))
def test_lines_that_keep_their_order_are_cut_in_a_row(lines: list[int], n_parts: int) -> None:
    """Each part holds the lines that follow those of the part before, and as many as the others within one."""
    owner = list(chain.from_iterable([place] * n for place, n in enumerate(lines)))
    counts = in_a_row(lines, n_parts)
    assert (
        list(chain.from_iterable([place] * n for part in counts for place, n in enumerate(part)))
        == owner
    )
    assert {*counts.sum(axis=1).tolist()} <= {len(owner) // n_parts, -(-len(owner) // n_parts)}


@given(few, st.integers(1, 9))
def test_chunks_together_are_mixed_as_the_whole(lines: list[int], n_chunks: int) -> None:
    """However a shard is cut into chunks, its lines stand in the same order, and those of each input in theirs."""
    counts = np.array(lines)
    whole = _mixed(counts, 1)
    assert _mixed(counts, n_chunks) == whole
    for place, n in enumerate(lines):
        assert [line for owner, line in whole if owner == place] == list(range(n))


@given(few)
def test_inputs_are_spread_from_the_first_line_to_the_last(lines: list[int]) -> None:
    """In the first p lines of a shard an input has its part of them, but for as much as half a line of each input."""
    whole = _mixed(np.array(lines), 1)
    for p in range(len(whole) + 1):
        for place, n in enumerate(lines):
            got = sum(owner == place for owner, _ in whole[:p])
            assert abs(got - n * p / len(whole)) <= (len(lines) + 1) / 2


def _mixed(counts: np.ndarray, n_chunks: int) -> list[tuple[int, int]]:
    """(input, number of its line) of each line of a shard, chunk by chunk."""
    found, first = list[tuple[int, int]](), np.zeros_like(counts)
    for n in mixed_chunks(counts, n_chunks):
        lines = [
            (place, int(first[place]) + line)
            for place, of in enumerate(n.tolist())
            for line in range(of)
        ]
        found += [lines[index] for index in mixed_order(first, n, counts)]
        first = first + n
    return found


@given(st.integers(0, 10**9), st.none() | st.integers(1, 50), st.integers(1, 10**6))
def test_there_are_never_more_shards_than_lines(
    n_lines: int, asked: int | None, lines: int
) -> None:
    """As many as are asked for, or so many that none has more lines than it may."""
    n_shards = number_of_shards(n_lines, requested=asked, lines=lines)
    assert n_shards <= n_lines
    assert (
        n_shards in (n_lines, asked)
        if asked
        else lines * (n_shards - 1) < n_lines <= lines * n_shards or not n_lines
    )


def test_one_line_beside_a_million() -> None:
    """It is in one of ten shards, and that has no more lines than the others but for one."""
    counts = dealt([10**6, 1], 10)
    assert (counts[:, 1].tolist(), counts.sum(axis=1).tolist()) == (
        [1] + [0] * 9,
        [100_001] + [100_000] * 9,
    )
