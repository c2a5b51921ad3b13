"""Rules turn the samples of a window into steps, and leave what does not fill a step."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.batches import ByPacks, Samples, pack
from volt.batches.batching_rules import WindowContext


@settings(deadline=None, max_examples=examples(100))
@given(
    st.integers(0, 10**6),
    st.integers(8, 32),
    st.integers(2, 3),
    st.integers(3, 5),
    st.integers(30, 70),
    st.booleans(),
)
def test_packs_of_an_epoch_leave_nothing(seed, length, rows, world, window, is_short):
    """If an epoch has enough packs for all ranks, `ByPacks` leaves no sample, even if the last
    window has a single sample."""
    n = 5 * window + 1
    longest = length // 3 if is_short else length
    lengths = np.random.default_rng(seed).integers(1, longest, n, endpoint=True)
    assume(len(pack(lengths, length)) >= 2 * world)
    rule = ByPacks(length=length, rows=rows)
    left = np.zeros(0, int)
    for number, start in enumerate(range(0, n, window)):
        lines = np.concatenate([left, np.arange(start, min(start + window, n))])
        samples = Samples.of({"text": [[5] * size for size in lengths[lines].tolist()]})
        is_last = start + window >= n
        plan = rule.plan(
            samples,
            WindowContext(world=world, seed=seed, window=number, n_old=len(left), is_last=is_last),
        )
        used = plan.used_rows(plan.n_steps)
        assert {*used, *plan.batches.left} == {*range(len(lines))}
        left = lines[plan.batches.left]
    assert not len(left)


def test_samples_that_packs_lack_are_listed():
    """`ByPacks` lists empty samples as too short, and long ones as too long.

    Other samples that fill no step are left to the next window.
    """
    samples = Samples.of({"text": [[5] * n for n in (5, 0, 40, 8, 7, 1, 0)]})
    rule = ByPacks(length=8, rows=1, on_long="report", shuffle=False)
    for is_last, n_steps, left in ((True, 3, []), (False, 2, [0])):
        plan = rule.plan(samples, WindowContext(world=1, is_last=is_last))
        lists = [plan.batches.too_short, plan.batches.too_long, plan.batches.left]
        assert [plan.n_steps, *(rows.tolist() for rows in lists)] == [n_steps, [1, 6], [2], left]
        assert sorted([*plan.used_rows(plan.n_steps).tolist(), *left]) == [0, 3, 4, 5]
