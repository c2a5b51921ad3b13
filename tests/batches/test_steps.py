"""`Steps`: every sample of a stream in one batch of one rank, and a state that goes on exactly anywhere."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import examples
from hypothesis import assume, settings
from hypothesis import given as for_all
from hypothesis import strategies as st
from steps_of_streams import (
    PACK_RULE,
    PAIRS,
    TEXTS,
    TOKEN_RULE,
    bits,
    given,
    steps_of,
    stream_of,
    written,
)

from volt.batches import ByPacks, ByTokens, Layout, SampleFormat, Samples, Steps, pack
from volt.stream import Sampling, Source, Stream
from volt.stream.transforms.filters import Length

FEW = settings(deadline=None, max_examples=examples(25))
WINDOWS = [40, 64, 1000, "epoch"]  # lines, of which a step of all ranks takes 40 at most


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the corpora are."""
    return tmp_path_factory.mktemp("corpora")


@FEW
@for_all(
    st.booleans(), st.integers(150, 300), st.integers(1, 4), st.sampled_from(WINDOWS), st.booleans()
)
def test_ranks_share_an_epoch(
    folder: Path, packed: bool, n: int, world: int, window: Any, ahead: bool
) -> None:
    """Each line is in one batch of one rank; ranks have equally many steps, and batches of like cost."""
    ranks = [
        steps_of(folder, n, packed=packed, rank=rank, world=world, window=window, ahead=ahead)
        for rank in range(world)
    ]
    batches = [list(steps) for steps in ranks]
    seen = Counter(number for steps in batches for step in steps for number in step["id"].tolist())
    assert seen == Counter(range(n))
    assert len({len(steps) for steps in batches}) == 1
    for step in zip(*batches, strict=True):
        n_rows = [len(batch["target"]) for batch in step]
        assert max(n_rows) - min(n_rows) <= 1
        assert all(n_rows)
    assert {steps.totals.n_left for steps in ranks} == {0}


@settings(deadline=None, max_examples=examples(100))
@for_all(
    st.integers(0, 10**6),
    st.integers(8, 32),
    st.integers(2, 3),
    st.integers(3, 5),
    st.integers(30, 70),
    st.booleans(),
)
def test_packs_of_an_epoch_are_for_all_ranks(
    seed: int, length: int, rows: int, world: int, window: int, short: bool
) -> None:
    """Though the last window has one line, nothing of an epoch is left, if there were packs enough for all ranks."""
    n = 5 * window + 1
    lengths = np.random.default_rng(seed).integers(
        1, length // 3 if short else length, n, endpoint=True
    )
    assume(len(pack(lengths, length)) >= 2 * world)
    rule, old = ByPacks(length=length, rows=rows), np.zeros(0, int)
    for number, start in enumerate(range(0, n, window)):
        lines = np.concatenate([old, np.arange(start, min(start + window, n))])
        samples = Samples.of({"text": [[5] * size for size in lengths[lines].tolist()]})
        is_last = start + window >= n
        made = rule.planned(
            samples, world=world, seed=seed, window=number, n_old=len(old), is_last=is_last
        )
        assert {*made.rows_of(made.n_steps).tolist(), *made.batches.left.tolist()} == {
            *range(len(lines))
        }
        old = lines[made.batches.left]
    assert not len(old)


@FEW
@for_all(
    st.booleans(),
    st.sampled_from(WINDOWS),
    st.integers(1, 3),
    st.integers(0, 40),
    st.integers(0, 9),
)
def test_a_state_goes_on_bit_for_bit(
    folder: Path, packed: bool, window: Any, world: int, n_before: int, n_back: int
) -> None:
    """With as many ranks the steps are those that would have come, whatever the workers; also from an earlier step."""
    options: dict[str, Any] = {"packed": packed, "window": window, "world": world, "epochs": None}
    steps = steps_of(folder, 200, **options)
    before = bits(steps, n_before)
    at = max(0, n_before - n_back)
    state = json.loads(json.dumps(steps.state(at=at)))
    expected = before[at:] + bits(steps, 30)
    other = steps_of(folder, 200, n_workers=2, ahead=False, **options)
    other.restore(state)
    assert other.n == at
    assert bits(other, n_before - at + 30) == expected
    assert other.state() == steps.state()
    other.close()


stops = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 12)), max_size=6)


@FEW
@for_all(st.booleans(), st.integers(150, 300), st.sampled_from(WINDOWS), stops)
def test_other_ranks_go_on(
    folder: Path, packed: bool, n: int, window: Any, stops: list[tuple[int, int]]
) -> None:
    """Stopped after some steps, again and again, and taken up by another number of ranks: each line is given once."""
    state: dict[str, Any] | None = None
    seen = Counter[int]()
    for world, n_steps in [*stops, (2, None)]:
        states = []
        for rank in range(world):
            steps = steps_of(
                folder,
                n,
                packed=packed,
                rank=rank,
                world=world,
                window=window,
                ahead=bool(rank % 2),
            )
            if state is not None:
                steps.restore(state)
            seen.update(number for step in given(steps, n_steps) for number in step)
            states.append(steps.state())
            n_left = steps.totals.n_left
            steps.close()
        state = states[0]
        assert all(other == state for other in states)  # a state is that of all ranks
    assert max(seen.values()) == 1
    assert len(seen) == n - n_left
    assert (
        n_left < 2 * 32
    )  # where a window has been left nearly empty, its rest may be too little for all ranks


def test_windows_are_numbered_on_by_other_ranks(folder: Path) -> None:
    """Stopped at the very end of a window, steps of another number of ranks begin the window after it."""
    steps = steps_of(folder, 200)
    states = [steps.state()["window"] for _ in steps]
    end = states.index(1)
    steps = steps_of(folder, 200)
    assert steps.skip(end) == end
    state, other = steps.state(), steps_of(folder, 200, world=2)
    other.restore(state)
    given(other, 1)
    assert (state["window"], other.state()["window"], other.state()["steps"]) == (0, 1, 1)


def test_an_epoch_is_a_window(folder: Path) -> None:
    """With window='epoch' the lines of an epoch are given before any of the next, in an order of its own."""
    steps = steps_of(folder, 90, window="epoch", epochs=3)
    found = given(steps)
    numbers = [number for step in found for number in step]
    assert [sorted(numbers[start : start + 90]) for start in (0, 90, 180)] == [
        list(range(start, start + 90)) for start in (0, 90, 180)
    ]
    lengths = [
        [len(step) for step in found[start : start + len(found) // 3]]
        for start in range(0, len(found), len(found) // 3)
    ]
    assert lengths[0] != lengths[1]


def test_a_virtual_epoch_is_a_window(folder: Path) -> None:
    """Of several sources that are mixed by size, the window is what covers the largest once."""
    sources = [
        Source(name, (written(folder, n, name=name),)) for name, n in (("a", 120), ("b", 30))
    ]
    stream = Stream(sources, seed=1, mix=Sampling(temperature=2))
    size = stream.epoch_lines
    assert size == 180
    found = given(Steps(stream, PAIRS, TOKEN_RULE, window="epoch"), 40)
    numbers = [number for step in found for number in step]
    assert sorted(numbers[:size]) == list(range(size))


def test_long_texts_are_split(folder: Path) -> None:
    """With on_long="split" a text of many rows is given whole, also where its parts stand in different windows."""
    rule = ByPacks(length=32, rows=2, on_long="split")
    steps, other = (
        Steps(stream_of(folder, 100, longest=90), TEXTS, rule, window=20, rank=rank, world=2)
        for rank in range(2)
    )
    given = sum(step["ntokens"] for one in (steps, other) for step in one)
    texts = [line.split("\t")[0].split() for line in stream_of(folder, 100, longest=90)]
    assert given == sum(len(text) + 1 for text in texts)


@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("window", [1, 7, 40])
def test_rows_of_packs_are_as_many_as_asked_for(folder: Path, window: int, world: int) -> None:
    """However small a window, samples wait until a step is whole; only the last steps of all may be smaller."""
    steps = steps_of(folder, 300, packed=True, window=window, world=world)
    shapes = [step["target"].shape for step in steps]
    assert set(shapes[:-2]) == {(PACK_RULE.rows, PACK_RULE.length)}
    assert len(steps.state()["stretches"]) <= 1 + 2 * world * PACK_RULE.rows


def test_two_sources_and_a_filter(folder: Path) -> None:
    """Steps of a mixture with other lines than its files: each line that the stream gives, once."""

    def opened() -> Stream:
        sources = [
            Source(
                name,
                (written(folder, n, name=name),),
                weight=weight,
                epochs=1,
                transforms=(Length(max=15),),
            )
            for name, n, weight in (("a", 120, 2.0), ("b", 70, 1.0))
        ]
        return Stream(sources, seed=1, ends="drop")

    n = len(list(opened()))
    assert 0 < n < 190
    steps = Steps(opened(), PAIRS, TOKEN_RULE, window=30)
    assert Counter(number for step in given(steps) for number in step) == Counter(range(n))


def test_each_rank_of_a_stream_has_steps_of_its_own(folder: Path) -> None:
    """Where ranks read their own lines, they share the epoch, and each goes on with its own state."""
    ranks = [
        Steps(stream_of(folder, 200, rank=rank, world=2), PAIRS, TOKEN_RULE, window=50)
        for rank in range(2)
    ]
    n = [sum(map(len, given(steps))) for steps in ranks]
    assert n == [100, 100]


def test_skipping_gives_the_steps_behind(folder: Path) -> None:
    """Steps that are passed over are not laid out, and count as given."""
    whole = bits(steps_of(folder, 200))
    steps = steps_of(folder, 200)
    assert steps.skip(7) == 7
    assert bits(steps) == whole[7:]
    assert steps.skip(3) == 0
    assert steps.n == len(whole)


def test_batches_keep_their_bound(folder: Path) -> None:
    """No batch is laid out beyond max_tokens, none is empty, and rows are a multiple where so many fit."""
    steps = steps_of(folder, 300, window=100)
    for step in steps:
        for side in (step["target"], step["net_input"]["src_tokens"]):
            assert 0 < side.size <= TOKEN_RULE.max_tokens
    assert steps.totals.n_samples == 300
    assert 0 < steps.totals.padding_share < 0.3


def test_buckets_bound_widths(folder: Path) -> None:
    """Arrays are as wide as a bucket, on both sides and in all ranks."""
    rule = ByTokens(max_tokens=128, buckets=(8, 16, 24))
    ranks = [
        Steps(stream_of(folder, 200), PAIRS, rule, window=50, rank=rank, world=2)
        for rank in range(2)
    ]
    for pair in zip(*ranks, strict=True):
        widths = {step["target"].shape[1] for step in pair} | {
            step["net_input"]["src_tokens"].shape[1] for step in pair
        }
        assert len(widths) == 1
        assert widths <= {8, 16, 24}


def test_packs_are_nearly_full(folder: Path) -> None:
    """Rows of packs are filled with whole samples: windows pass the emptiest on, so there is little padding."""
    steps = steps_of(folder, 300, packed=True, window=60)
    shares = [1 - step["ntokens"] / step["target"].size for step in steps]
    assert steps.totals.n_samples == 300
    assert np.mean(shares[:-2]) < 0.03


def test_the_layout_is_that_of_collate(folder: Path) -> None:
    """Widths, sides and the kind of ids follow the layout."""
    layout = Layout(pad=7, left_pad_source=False, pad_to_multiple=8, dtype="int32")
    step = next(iter(steps_of(folder, 60, layout=layout)))
    tokens, lengths = step["net_input"]["src_tokens"], step["net_input"]["src_lengths"]
    assert tokens.shape[1] % 8 == 0
    assert tokens.dtype == np.int32
    assert (tokens[np.arange(tokens.shape[1]) >= lengths[:, None]] == 7).all()


def test_one_text_is_shifted_by_itself(folder: Path) -> None:
    """Samples of one field, by tokens: what stands before each id is its input."""
    step = next(iter(Steps(stream_of(folder, 60), TEXTS, ByTokens(max_tokens=64), window=60)))
    assert (step["net_input"]["src_tokens"][:, 1:] == step["target"][:, :-1])[
        step["tgt_mask"][:, 1:]
    ].all()


def test_names_in_the_state_are_enough(folder: Path) -> None:
    """A state holds no sample: it stays small, whatever the window."""
    steps = steps_of(folder, 1000, window=1000)
    steps.skip(3)
    assert len(json.dumps(steps.state())) < 3_000
    other = Steps(
        steps.stream.rehearsal(),
        SampleFormat({"src": PAIRS.vocabularies["src"], "tgt": PAIRS.vocabularies["tgt"]}),
        TOKEN_RULE,
        window=1000,
        world=3,
    )
    other.restore(steps.state())
    assert len(json.dumps(other.state())) < 3_300  # and one bit for each line that is still wanted
