"""Laws of packs: every token once, never beyond the size, few packs, and positions that begin anew in each segment."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from batching import fewest_packs, naive_best_fit
from hypothesis import given
from hypothesis import strategies as st

from volt.batches import Packs, pack
from volt.kernels.batching import fit_best

lengths_of = st.lists(st.integers(0, 40), max_size=50)
sizes_of = st.integers(1, 50)
seeds = st.integers(0, 3)


def spans(packs: Packs) -> dict[int, list[tuple[int, int]]]:
    """Row → where its segments begin and end in it."""
    found: dict[int, list[tuple[int, int]]] = {}
    for one in packs:
        for row, start, size in zip(
            one.rows.tolist(), one.starts.tolist(), one.sizes.tolist(), strict=True
        ):
            found.setdefault(row, []).append((start, start + size))
    return {row: sorted(pieces) for row, pieces in found.items()}


@given(lengths_of, sizes_of, seeds)
def test_each_row_is_whole_in_one_pack_or_listed(lengths: list[int], size: int, seed: int) -> None:
    """Nothing is cropped: rows are whole, or listed as too long or empty."""
    packs = pack(lengths, size, on_long="report", seed=seed)
    assert spans(packs) == {
        row: [(0, length)] for row, length in enumerate(lengths) if 0 < length <= size
    }
    assert packs.too_long.tolist() == [row for row, length in enumerate(lengths) if length > size]
    assert packs.empty.tolist() == [row for row, length in enumerate(lengths) if length == 0]


@given(lengths_of, sizes_of, seeds)
def test_rows_that_are_split_keep_all_tokens(lengths: list[int], size: int, seed: int) -> None:
    """The segments of a row follow each other from its first token to its last; all but one are full packs."""
    packs = pack(lengths, size, on_long="split", seed=seed)
    found = spans(packs)
    assert sorted(found) == [row for row, length in enumerate(lengths) if length]
    for row, pieces in found.items():
        assert pieces[0][0] == 0
        assert pieces[-1][1] == lengths[row]
        assert all(before[1] == after[0] for before, after in pairwise(pieces))
        assert all(end - start == size for start, end in pieces[:-1])
    assert len(packs.too_long) == 0


@given(lengths_of, sizes_of, seeds)
def test_no_pack_is_empty_or_beyond_its_size(lengths: list[int], size: int, seed: int) -> None:
    """And the share of padding is what they lack."""
    packs = pack(lengths, size, on_long="split", seed=seed)
    sums = [int(one.sizes.sum()) for one in packs]
    assert all(1 <= total <= size for total in sums)
    assert sum(sums) == sum(lengths)
    assert packs.padding_share == pytest.approx(1 - sum(sums) / (len(sums) * size) if sums else 0.0)


@given(st.lists(st.integers(1, 12), max_size=9), st.integers(6, 15))
def test_packs_are_few(lengths: list[int], size: int) -> None:
    """Of few rows, at most 11/9 of the fewest possible, and one."""
    packs = pack(lengths, size, on_long="report")
    fitting = [length for length in lengths if length <= size]
    assert fewest_packs(fitting, size) <= len(packs) <= 11 / 9 * fewest_packs(fitting, size) + 1


@given(st.lists(st.integers(1, 40), max_size=50), st.integers(40, 90))
def test_each_goes_where_least_space_is_left(sizes: list[int], space: int) -> None:
    """The loop does what its naive twin does, whatever the order of sizes."""
    n = len(sizes)
    tree, tops = np.zeros(2 << space.bit_length(), np.uint8), np.full(space + 1, -1, np.int64)
    packs = np.empty(n, np.int64)
    n_packs = fit_best(np.array(sizes, np.int64), space, tree, tops, np.empty(n, np.int64), packs)
    left, found = [space] * n_packs, []
    for size, one in zip(sizes, packs.tolist(), strict=True):
        left[one] -= size
        found.append(left[one])
    assert found == naive_best_fit(sizes, space)


def test_packs_are_a_function_of_what_is_given() -> None:
    """Twice the same; seed, epoch and window each change it; without shuffle, the longest come first."""
    lengths = np.arange(200) % 17 + 1
    places: list[dict[str, int]] = [{}, {"seed": 1}, {"epoch": 1}, {"window": 1}]
    rows = [pack(lengths, 20, **place).segments.rows.tolist() for place in places]
    assert rows == [pack(lengths.tolist(), 20, **place).segments.rows.tolist() for place in places]
    assert all(one != other for i, one in enumerate(rows) for other in rows[:i])
    firsts = [int(one.sizes[0]) for one in pack(lengths, 20, shuffle=False)]
    assert firsts == sorted(firsts, reverse=True)
