"""`Steps` puts every sample of a stream into one batch of one rank, and resumes exactly."""

import json
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from support.drawn import examples
from support.steps_of_streams import (
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

from volt.batches import ByPacks, ByTokens, Layout, Steps
from volt.stream import Sampling, Source, Stream
from volt.stream.transforms.filters import Length

FEW = settings(deadline=None, max_examples=examples(25))
WINDOWS = [40, 64, 1000, "epoch"]  # lines, of which a step of all ranks takes 40 at most
windows = st.sampled_from(WINDOWS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of the corpora."""
    return tmp_path_factory.mktemp("corpora")


def numbers_of(steps, n=None):
    """Return the line numbers of the next n steps, or of all."""
    return list(chain.from_iterable(given(steps, n)))


@FEW
@for_all(st.booleans(), st.integers(150, 300), st.integers(1, 4), windows, st.booleans())
def test_ranks_share_an_epoch(folder, packed, n, world, window, ahead):
    """`Steps` put each line of an epoch into one batch of one rank.

    Ranks have equally many steps, and in a step, numbers of rows differ by one at most.
    """
    ranks = [
        steps_of(folder, n, packed=packed, rank=rank, world=world, window=window, ahead=ahead)
        for rank in range(world)
    ]
    batches = [list(steps) for steps in ranks]
    lines = [step["id"] for step in chain.from_iterable(batches)]
    assert sorted(np.concatenate(lines)) == list(range(n))
    for step in zip(*batches, strict=True):
        n_rows = [len(batch["target"]) for batch in step]
        assert max(n_rows) - min(n_rows) <= 1
        assert all(n_rows)
    assert {steps.totals.n_left for steps in ranks} == {0}


rules = st.fixed_dictionaries(
    {"multiple": st.integers(1, 9)},
    optional={
        "max_sentences": st.integers(1, 20),
        "sort": st.sampled_from(["length", "sides"]),
        "max_length": st.integers(1, 25),
        "shuffle": st.booleans(),
        "buckets": st.sets(st.integers(1, 20), min_size=1, max_size=4).map(sorted),
    },
)


@settings(deadline=None, max_examples=examples(200))
@for_all(rules, st.integers(1, 20), st.integers(1, 3), st.integers(5, 80), st.booleans())
def test_arrays_stay_within_max_tokens(folder, options, padded, world, window, is_one):
    """With `ByTokens`, no array has more than max_tokens positions, widths are multiples of
    pad_to_multiple, and each line is used or counted in the totals."""
    most = 20 * padded
    lines = []
    for rank in range(world):
        steps = Steps(
            stream_of(folder, 60),
            TEXTS if is_one else PAIRS,
            ByTokens(max_tokens=most, on_long="report", **options),
            window=window,
            rank=rank,
            world=world,
            layout=Layout(pad_to_multiple=padded),
            ahead=False,
        )
        for step in steps:
            lines += step["id"].tolist()
            for array in (step["target"], step["net_input"]["src_tokens"]):
                assert 0 < array.size <= most
                assert array.shape[1] % padded == 0
        totals = steps.totals
    n_unused = totals.n_too_long + totals.n_too_short + totals.n_left
    assert len(lines) == len(set(lines)) == 60 - n_unused


@FEW
@for_all(st.booleans(), windows, st.integers(1, 3), st.integers(0, 40), st.integers(0, 9))
def test_a_state_resumes_bit_for_bit(folder, packed, window, world, n_before, n_back):
    """A state of the next or an earlier step, restored with as many ranks and any workers, gives
    the same arrays bit for bit."""
    options = {"packed": packed, "window": window, "world": world, "epochs": None}
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


@FEW
@for_all(
    st.booleans(),
    st.integers(150, 300),
    windows,
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 12)), max_size=6),
)
def test_other_numbers_of_ranks_resume(folder, packed, n, window, stops):
    """If steps are stopped again and again, and restored with other numbers of ranks, each line is
    used once."""
    state = None
    lines = []
    options = {"packed": packed, "window": window}
    for world, n_steps in [*stops, (2, None)]:
        states = []
        for rank in range(world):
            steps = steps_of(folder, n, rank=rank, world=world, ahead=bool(rank % 2), **options)
            if state is not None:
                steps.restore(state)
            lines += numbers_of(steps, n_steps)
            states.append(steps.state())
            n_left = steps.totals.n_left
            steps.close()
        state = states[0]
        assert all(other == state for other in states)
    assert len(lines) == len(set(lines)) == n - n_left
    assert n_left < 2 * 32  # the rest of a window may be too little for all ranks


def test_other_ranks_begin_the_next_window(folder):
    """If the state is after the last step of a window, another number of ranks begins with the next
    window."""
    steps = steps_of(folder, 200)
    end = [steps.state()["window"] for _ in steps].index(1)
    steps = steps_of(folder, 200)
    assert steps.skip(end) == end
    state = steps.state()
    other = steps_of(folder, 200, world=2)
    other.restore(state)
    given(other, 1)
    assert (state["window"], other.state()["window"], other.state()["steps"]) == (0, 1, 1)


def test_an_epoch_is_a_window(folder):
    """With window="epoch", the lines of an epoch are all used before the next epoch, and each epoch
    has its own order."""
    steps = given(steps_of(folder, 90, window="epoch", epochs=3))
    numbers = list(chain.from_iterable(steps))
    for start in (0, 90, 180):
        assert sorted(numbers[start : start + 90]) == list(range(start, start + 90))
    sizes = np.array([len(step) for step in steps]).reshape(3, -1)
    assert sizes[0].tolist() != sizes[1].tolist()


def test_a_virtual_epoch_is_a_window(folder):
    """With window="epoch" and sources that are mixed by size, a window covers the largest source
    once."""
    paths = {name: written(folder, n, name=name) for name, n in (("a", 120), ("b", 30))}
    sources = [Source(name, (path,)) for name, path in paths.items()]
    stream = Stream(sources, seed=1, mix=Sampling(temperature=2))
    size = stream.epoch_lines
    assert size == 180
    steps = Steps(stream, PAIRS, TOKEN_RULE, window="epoch")
    assert sorted(numbers_of(steps, 40)[:size]) == list(range(size))


def test_long_texts_are_split(folder):
    """With on_long="split", `ByPacks` uses all ids of a text, also if windows or ranks share the
    text."""
    rule = ByPacks(length=32, rows=2, on_long="split")
    n_tokens = 0
    for rank in range(2):
        stream = stream_of(folder, 100, longest=90)
        steps = Steps(stream, TEXTS, rule, window=20, rank=rank, world=2)
        n_tokens += sum(step["ntokens"] for step in steps)
    texts = [line.split("\t")[0].split() for line in stream_of(folder, 100, longest=90)]
    assert n_tokens == sum(len(text) + 1 for text in texts)


@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("window", [1, 7, 60])
def test_packs_are_full(folder, window, world):
    """`ByPacks` leaves samples to the next window until a step is whole.

    So only the last steps are smaller, and padding is rare.
    """
    steps = steps_of(folder, 300, packed=True, window=window, world=world)
    arrays = list(steps)[:-2]
    assert {step["target"].shape for step in arrays} == {(PACK_RULE.rows, PACK_RULE.length)}
    assert len(steps.state()["stretches"]) <= 1 + 2 * world * PACK_RULE.rows
    if window == 60 and world == 1:
        assert steps.totals.n_samples == 300
        assert np.mean([1 - step["ntokens"] / step["target"].size for step in arrays]) < 0.03


def test_steps_of_a_filtered_mixture_have_its_lines(folder):
    """`Steps` use each line of a mixed stream once, though filters drop lines of its files."""

    def opened():
        sources = []
        for name, n, weight in (("a", 120, 2.0), ("b", 70, 1.0)):
            path = written(folder, n, name=name)
            filters = (Length(max=15),)
            sources.append(Source(name, (path,), weight=weight, epochs=1, transforms=filters))
        return Stream(sources, seed=1, ends="drop")

    n = len(list(opened()))
    assert 0 < n < 190
    steps = Steps(opened(), PAIRS, TOKEN_RULE, window=30)
    assert Counter(numbers_of(steps)) == Counter(range(n))


def test_ranks_of_a_stream_have_their_own_steps(folder):
    """If each rank's stream reads only its own lines, `Steps` with world=1 use exactly these
    lines."""
    for rank in range(2):
        stream = stream_of(folder, 200, rank=rank, world=2)
        assert len(numbers_of(Steps(stream, PAIRS, TOKEN_RULE, window=50))) == 100


def test_skipped_steps_are_counted(folder):
    """`Steps.skip` returns the number of steps that it skipped, and the steps after them follow."""
    whole = bits(steps_of(folder, 200))
    steps = steps_of(folder, 200)
    assert steps.skip(7) == 7
    assert bits(steps) == whole[7:]
    assert steps.skip(3) == 0
    assert steps.n == len(whole)


def test_steps_use_the_layout(folder):
    """Widths, padding and types of `Steps` follow the layout.

    For one field, the input is the target, shifted by one.
    """
    layout = Layout(pad=7, left_pad_source=False, pad_to_multiple=8, dtype="int32")
    step = next(iter(steps_of(folder, 60, layout=layout)))
    tokens = step["net_input"]["src_tokens"]
    assert tokens.shape[1] % 8 == 0
    assert tokens.dtype == np.int32
    is_padding = np.arange(tokens.shape[1]) >= step["net_input"]["src_lengths"][:, None]
    assert (tokens[is_padding] == 7).all()
    step = next(iter(Steps(stream_of(folder, 60), TEXTS, ByTokens(max_tokens=64), window=60)))
    is_shifted = step["net_input"]["src_tokens"][:, 1:] == step["target"][:, :-1]
    assert is_shifted[step["tgt_mask"][:, 1:]].all()


def test_states_are_small(folder):
    """A state of 1,000 lines is smaller than 3,300 bytes: it contains no samples, only a bit for
    each unused sample."""
    steps = steps_of(folder, 1000, window=1000)
    steps.skip(3)
    assert len(json.dumps(steps.state())) < 3_000
    other = Steps(steps.stream.rehearsal(), PAIRS, TOKEN_RULE, window=1000, world=3)
    other.restore(steps.state())
    assert len(json.dumps(other.state())) < 3_300
