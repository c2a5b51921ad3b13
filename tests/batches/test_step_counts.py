"""What a step comes to: the counts of its arrays, from the arrays themselves."""

from __future__ import annotations

from dataclasses import astuple
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.batches import Samples, collate, collate_packed
from volt.batches.throughput import Totals, counts_of

FIELD = st.lists(st.integers(2, 9), max_size=6).map(lambda ids: [*ids, 1])
PAIRS = st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=5)


def batch(pairs: list[tuple[list[int], list[int]]]) -> dict[str, Any]:
    """All pairs as one step."""
    source, target = zip(*pairs, strict=True)
    return collate(
        Samples.of({"src": [*source], "tgt": [*target]}), [*range(len(pairs))], pad=0, eos=1
    )


@given(PAIRS)
def test_counts_are_those_of_the_samples(pairs: list[tuple[list[int], list[int]]]) -> None:
    """Sentences and tokens are those of the samples, and what is laid out is each field's rows by its longest."""
    sizes = [[len(field) for field in side] for side in zip(*pairs, strict=True)]
    widths = [max(side) for side in sizes]
    expected = Totals(1, len(pairs), sum(map(sum, sizes)), len(pairs) * sum(widths))
    assert counts_of(batch(pairs)) == (expected, max(widths))


@given(st.lists(PAIRS, max_size=4))
def test_counts_of_several_steps_are_sums(steps: list[list[tuple[list[int], list[int]]]]) -> None:
    """In any grouping; no step is nothing."""
    counts = [counts_of(batch(pairs))[0] for pairs in steps]
    total = reduce(Totals.plus, counts, Totals())
    assert total == reduce(lambda right, left: left.plus(right), reversed(counts), Totals())
    assert astuple(total)[:4] == tuple(
        sum(astuple(one)[place] for one in counts) for place in range(4)
    )


def test_rows_of_several_sentences_count_each() -> None:
    """A step of packs has as many sentences as were packed, and all of its rows are laid out."""
    packed = collate_packed(
        Samples.of({"text": [[3, 4, 1], [5, 1], [6, 1]]}), [[0, 1], [2]], length=6, pad=0, eos=1
    )
    assert counts_of(packed) == (Totals(1, 3, 7, 12), 6)
    assert counts_of(packed)[0].padding_share == pytest.approx(5 / 12)
    assert Totals().padding_share == 0.0
