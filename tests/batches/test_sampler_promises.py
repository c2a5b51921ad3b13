"""What a max-token sampler is to keep: numbers of rows, all lengths from 1 on, and an order that is new each epoch."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.batches import token_batches
from volt.errors import StreamError

lengths_of = st.lists(st.integers(0, 40), max_size=60)
bounds_of = st.tuples(st.integers(1, 20), st.integers(20, 40))
epochs = st.integers(0, 3)
MANY = np.random.default_rng(1).permutation(np.arange(1, 401))


@given(lengths_of, bounds_of)
def test_rows_keep_their_numbers_through_the_filter(
    lengths: list[int], bounds: tuple[int, int]
) -> None:
    """A row in a batch is one of those that were given, of a length that is allowed; batches of them alone say so."""
    options: dict[str, Any] = {"max_tokens": 80, "multiple": 2, "shuffle": False}
    batches = token_batches(
        lengths, min_length=bounds[0], max_length=bounds[1], on_long="report", **options
    )
    kept = [row for row, length in enumerate(lengths) if bounds[0] <= length <= bounds[1]]
    assert sorted(batches.order.tolist()) == kept
    alone = token_batches([lengths[row] for row in kept], **options)
    assert batches.order.tolist() == [kept[row] for row in alone.order]
    assert batches.ends.tolist() == alone.ends.tolist()


@given(lengths_of, epochs)
def test_rows_that_are_too_long_are_reported(lengths: list[int], epoch: int) -> None:
    """Or refused, by the number and the length of the first."""
    long = [row for row, length in enumerate(lengths) if length > 20]
    batches = token_batches(lengths, max_tokens=99, max_length=20, on_long="report", epoch=epoch)
    assert batches.too_long.tolist() == long
    if long:
        with pytest.raises(
            StreamError, match=rf"^row {long[0]} of {len(lengths)} has {lengths[long[0]]} tokens"
        ):
            token_batches(lengths, max_tokens=99, max_length=20, epoch=epoch)


def test_a_row_without_tokens_is_too_short() -> None:
    """The least length is 1, unless another one is given."""
    batches = token_batches([0, 1, 2], max_tokens=9)
    assert (batches.too_short.tolist(), sorted(batches.order.tolist())) == ([0], [1, 2])
    assert token_batches([0, 1, 2], max_tokens=9, min_length=2).too_short.tolist() == [0, 1]


def test_the_order_of_batches_is_shuffled_anew_in_each_epoch() -> None:
    """The same batches, as no two rows are equally long, in an order that no two of these epochs share."""
    found = [
        [rows.tolist() for rows in token_batches(MANY, max_tokens=900, epoch=epoch)]
        for epoch in range(4)
    ]
    assert all(sorted(one) == sorted(found[0]) for one in found)
    assert len({str(one) for one in found}) == 4
    tops = [max(MANY[rows]) for rows in found[0]]
    assert tops not in (sorted(tops), sorted(tops, reverse=True))


def test_noise_is_fresh_in_each_epoch() -> None:
    """Other rows stand together, though no two are equally long; with none, they are the same."""
    noisy, plain = (
        {
            frozenset(
                frozenset(rows.tolist())
                for rows in token_batches(MANY, max_tokens=900, noise=noise, epoch=epoch)
            )
            for epoch in range(4)
        }
        for noise in (0.1, 0.0)
    )
    assert (len(noisy), len(plain)) == (4, 1)


@given(lengths_of, st.integers(1, 7), st.sampled_from([0.0, 0.2]), epochs, epochs)
def test_nothing_but_what_is_given_counts(
    lengths: list[int], world: int, noise: float, epoch: int, window: int
) -> None:
    """Global generators, and what was asked for before, change nothing; lengths stay as they are."""
    given, options = (
        np.array(lengths, np.int64),
        dict[str, Any](max_tokens=99, world=world, noise=noise, seed=3),
    )
    first = token_batches(given, epoch=epoch, window=window, **options)
    np.random.seed(epoch)  # noqa: NPY002
    random.seed(window)
    token_batches(given[::-1], epoch=epoch + 1, window=window, **options)
    again = token_batches(given, epoch=epoch, window=window, **options)
    for name in ("order", "ends", "longest", "left", "too_short"):
        assert getattr(first, name).tolist() == getattr(again, name).tolist()
    assert given.tolist() == lengths


@given(lengths_of, st.integers(1, 7), epochs)
def test_every_epoch_has_each_row_once_in_as_many_batches_for_each_rank(
    lengths: list[int], world: int, epoch: int
) -> None:
    """But for the fewer than `world` rows that are left, and those that are listed, whatever the epoch is."""
    batches = token_batches(lengths, max_tokens=60, world=world, epoch=epoch, noise=0.1)
    ranks = [batches.of_rank(rank) for rank in range(world)]
    assert len({len(mine) for mine in ranks}) == 1
    seen = [row for mine in ranks for rows in mine for row in rows.tolist()]
    assert sorted([*seen, *batches.left, *batches.too_short]) == list(range(len(lengths)))
    costs = [
        sum(len(rows) * longest for rows, longest in zip(mine, mine.longest, strict=True))
        for mine in ranks
    ]
    assert max(costs) - min(costs) <= max(lengths, default=0)
