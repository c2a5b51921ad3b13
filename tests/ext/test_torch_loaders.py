"""`StreamDataset` in the loaders of torch and torchdata, whose workers are processes."""

import json
from contextlib import contextmanager
from functools import partial
from itertools import islice

import pytest
from support.drawn import DRAWS_ALL
from support.loaders import all_bits, bits_of
from support.steps_of_streams import steps_of, written
from support.streams import deadline
from torch.utils.data import DataLoader

from volt.batches import to_torch
from volt.errors import StreamError
from volt.ext.torch import StreamDataset

stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:.*(set_vital|worker processes in total)")
N = 60  # lines of the stream
SECONDS = 240  # that no test may take


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the corpora. They are written before workers exist, which would all write them."""
    folder = tmp_path_factory.mktemp("corpora")
    written(folder, N)
    return folder


@pytest.fixture(autouse=True)
def no_hang():
    """Let a test that hangs fail."""
    with deadline(SECONDS):
        yield


@pytest.fixture(scope="module")
def expected(folder):
    """The steps of `Steps`, bit for bit."""
    return all_bits(map(to_torch, steps_of(folder, N)))


def dataset_of(folder, *, epochs=1, **options):
    """Make a dataset of few pairs."""
    return StreamDataset(partial(steps_of, folder, N, epochs=epochs), rank=0, world=1, **options)


def loader_of(dataset, n_workers, *, kind=DataLoader, **options):
    """Make a loader that does not collate."""
    return kind(dataset, batch_size=None, num_workers=n_workers, **options)


@contextmanager
def reading(loader):
    """Yield an iterator of a loader with workers; end them after the block, because an error would keep them alive."""
    batches = iter(loader)
    try:
        yield batches
    finally:
        batches._shutdown_workers()


@pytest.mark.parametrize(
    ("then", "now", "every"),
    [
        (1, 0, 1),
        (2, 3, 4),
        *(pytest.param(*one, marks=pytest.mark.campaign) for one in ((0, 2, 1), (2, 1, 1))),
    ],
)
def test_the_state_of_a_stateful_loader_resumes(folder, expected, then, now, every):
    """The state of a StatefulDataLoader resumes with as many workers.

    Converted by `StreamDataset.state_of`, it resumes with any number.
    """
    kind = partial(stateful.StatefulDataLoader, snapshot_every_n_steps=every)
    loader = loader_of(dataset_of(folder), then, kind=kind)
    batches = iter(loader)
    head = all_bits(islice(batches, 6))
    state = json.loads(json.dumps(loader.state_dict()))
    del batches
    same = loader_of(dataset_of(folder), then, kind=kind)
    same.load_state_dict(state)
    assert head + all_bits(same) == expected
    dataset = dataset_of(folder)
    dataset.load_state_dict(StreamDataset.state_of(state))
    assert head + all_bits(loader_of(dataset, now)) == expected


def test_persistent_workers_read_one_epoch_after_the_other(folder, expected):
    """With `epoch`, persistent workers continue with the next steps in each iteration.

    A state within an epoch keeps the epoch's end.
    """
    options = {"persistent_workers": True, "kind": stateful.StatefulDataLoader}
    loader = loader_of(dataset_of(folder, epoch=3), 2, **options)
    epochs = [all_bits(loader) for _ in range(2)]
    batches = iter(loader)
    third = [bits_of(next(batches))]
    state = loader.state_dict()
    del batches, loader
    assert [len(epoch) for epoch in epochs] == [3, 3]
    loader = loader_of(dataset_of(folder, epoch=3), 2, **options)
    loader.load_state_dict(state)
    third += all_bits(loader)
    assert len(third) == 3
    assert [*epochs[0], *epochs[1], *third, *all_bits(loader)] == expected[:12]


def test_repeat_needs_no_persistent_workers(folder, expected):
    """With `repeat`, each iteration has all steps, also with new workers, and after an iteration
    that was stopped early."""
    loader = loader_of(dataset_of(folder, repeat=True), 2)
    next(iter(loader))
    assert [all_bits(loader) for _ in range(2)] == [expected] * 2


@pytest.mark.parametrize(
    ("persistent", "message"),
    [(False, "set persistent_workers=True, or repeat=True"), (True, "set epoch=… to end")],
)
def test_an_unknown_position_is_refused(folder, persistent, message):
    """After workers have read ahead, `state_dict` and the next iteration raise errors that name a
    remedy. A state in a batch resumes."""
    dataset = dataset_of(folder, epochs=None, tell=True)
    loader = loader_of(dataset, 2, persistent_workers=persistent)
    with reading(loader) as batches:
        *_, third, fourth = islice(batches, 4)
        with pytest.raises(StreamError, match="only the loader knows how many steps it gave; take"):
            dataset.state_dict()
        with pytest.raises(StreamError, match=message), reading(loader) as others:
            next(others)
    with pytest.raises(StreamError, match="the workers that read this dataset have ended"):
        next(iter(dataset))
    dataset.load_state_dict(third["state"])
    assert bits_of(next(iter(dataset))) == bits_of(fourth)


def read_one(loader):
    """Return the first batch."""
    with reading(loader) as batches:
        return next(batches)


def test_errors_of_workers_are_raised_by_the_loader(folder):
    """If a worker raises an error of VOLT, the loader raises an error of the same class, with its
    remedy."""
    dataset = StreamDataset(partial(steps_of, folder, N, packed=True), rank=0, world=1)
    dataset.load_state_dict(next(iter(dataset_of(folder, tell=True)))["state"])
    with pytest.raises(
        StreamError, match=r"the state belongs to other steps: .*restore it there, or start anew"
    ):
        read_one(loader_of(dataset, 1))


def test_two_processes_cannot_read_a_dataset_at_the_same_time(folder, expected):
    """Workers refuse a dataset that their parent process is reading.

    When it has stopped, they continue there.
    """
    dataset = dataset_of(folder)
    batches = iter(dataset)
    next(batches)
    with pytest.raises(
        StreamError, match="the process that started this worker is reading the dataset; end that"
    ):
        read_one(loader_of(dataset, 1))
    del batches
    assert all_bits(loader_of(dataset, 1)) == expected[1:]


def test_loaders_return_the_steps_in_order(folder, expected):
    """DataLoaders with any number of workers, also several at once, return the steps of `Steps` in
    order. A second iteration is empty."""
    loaders = [loader_of(dataset_of(folder), n_workers) for n_workers in (0, 1, 3)]
    for bits, *batches in zip(expected, *loaders, strict=True):
        assert all_bits(batches) == [bits] * 3
    assert [list(loader) for loader in loaders] == [[]] * 3


@pytest.mark.slow
def test_workers_can_be_spawned(folder, expected):
    """Spawned workers, which share no memory with this process, read the same steps, and continue
    after earlier workers."""
    loader = loader_of(dataset_of(folder), 2 if DRAWS_ALL else 1, multiprocessing_context="spawn")
    assert all_bits(loader) == expected
    assert not DRAWS_ALL or list(loader) == []
