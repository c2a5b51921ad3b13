"""Laws of buckets: few widths, each of them one that was asked for, and arrays that have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.batches import Samples, collate, token_batches
from volt.errors import ConfigError

PAD, EOS = 1, 2
FEW = settings(deadline=None, max_examples=examples(60))
Pairs = list[tuple[int, int]]
pairs_of = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)
buckets_of = st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True).map(sorted)
worlds = st.integers(1, 7)


@FEW
@given(pairs_of, buckets_of, st.integers(40, 300), worlds, st.integers(0, 3))
def test_the_width_of_a_step_is_the_least_bucket_that_holds_it(
    pairs: Pairs, buckets: list[int], max_tokens: int, world: int, seed: int
) -> None:
    """So an epoch has as many widths as buckets at most; rows beyond the last bucket are too long."""
    batches = token_batches(
        pairs, max_tokens=max_tokens, buckets=buckets, world=world, seed=seed, on_long="report"
    )
    steps = [np.concatenate(list(batches)[at : at + world]) for at in range(0, len(batches), world)]
    for step, longest in zip(steps, batches.longest[::world].tolist(), strict=True):
        assert longest == min(one for one in buckets if one >= max(max(pairs[row]) for row in step))
    assert len({*batches.longest.tolist()}) <= len(buckets)
    assert batches.too_long.tolist() == [
        row for row, pair in enumerate(pairs) if max(pair) > buckets[-1]
    ]


@FEW
@given(pairs_of, st.integers(30, 300), worlds, st.sampled_from(["length", "sides"]))
def test_a_bucket_for_each_length_changes_nothing(
    pairs: Pairs, max_tokens: int, world: int, sort: Any
) -> None:
    """Every length is its own bucket."""
    plain = token_batches(pairs, max_tokens=max_tokens, world=world, sort=sort)
    each = token_batches(
        pairs, max_tokens=max_tokens, world=world, sort=sort, buckets=range(1, max_tokens + 1)
    )
    for name in ("order", "ends", "longest", "left"):
        assert getattr(plain, name).tolist() == getattr(each, name).tolist()


@FEW
@given(pairs_of, st.integers(1, 4), st.booleans(), st.sampled_from([1, 8]))
def test_arrays_have_the_width_of_their_step(
    pairs: Pairs, world: int, left: bool, multiple: int
) -> None:
    """With width=longest, both sides of all ranks are as wide; what is beyond the rows is padding."""
    ids = [[[5] * (n - 1) + [EOS] for n in side] for side in zip(*pairs, strict=True)]
    samples = Samples.of({"src": ids[0], "tgt": ids[1]})
    batches = token_batches(samples.lengths, max_tokens=200, buckets=[8, 12, 32], world=world)
    shared: dict[str, Any] = {"left_pad_source": left, "left_pad_target": left}
    for rows, width in zip(batches, batches.longest, strict=True):
        made = collate(
            samples, rows, pad=PAD, eos=EOS, width=width, pad_to_multiple=multiple, **shared
        )
        own, full = (
            collate(samples, rows, pad=PAD, eos=EOS, **shared),
            -(-int(width) // multiple) * multiple,
        )
        for name in ("src_tokens", "prev_output_tokens"):
            array, narrow = made["net_input"][name], own["net_input"][name]
            blank = np.full((len(rows), full - narrow.shape[1]), PAD)
            assert (
                array.tolist() == np.hstack([blank, narrow] if left else [narrow, blank]).tolist()
            )
        assert (
            made["target"].shape
            == made["src_mask"].shape
            == made["tgt_mask"].shape
            == (len(rows), full)
        )
        assert (made["tgt_mask"].sum(), made["src_mask"].sum()) == (
            own["tgt_mask"].sum(),
            own["src_mask"].sum(),
        )


def test_each_field_may_have_its_own_width() -> None:
    """Given by its name; a width that is too small names the line, whose ids are not cropped."""
    samples = Samples.of({"src": [[2], [5, 6, 2]], "tgt": [[2], [7, 2]]}, [30, 40])
    made = collate(samples, [1], pad=PAD, eos=EOS, width={"src": 4, "tgt": 2})
    assert (made["net_input"]["src_tokens"].shape, made["target"].shape) == ((1, 4), (1, 2))
    with pytest.raises(
        ConfigError,
        match="width is 2, but line 40 of the stream has 3 ids in field 'src'; give the step's lon",
    ):
        collate(samples, [1], pad=PAD, eos=EOS, width=2)
    with pytest.raises(ConfigError, match="width lacks field 'src'; give one number for all"):
        collate(samples, [1], pad=PAD, eos=EOS, width={"tgt": 4})
