"""`StreamDataset` in the loaders of torch and torchdata, with workers that are processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from drawn import DRAWS_ALL
from loaders import all_bits, bits_of
from steps_of_streams import steps_of, written
from streams import deadline
from torch.utils.data import DataLoader

from volt.batches import to_torch
from volt.errors import StreamError
from volt.ext.torch import StreamDataset

stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:.*(set_vital|worker processes in total)")
N = 60  # lines of the stream
SECONDS = 240  # that no test may take


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the corpora are: written before workers are there, which would write them at once."""
    folder = tmp_path_factory.mktemp("corpora")
    written(folder, N)
    return folder


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A test that hangs fails."""
    with deadline(SECONDS):
        yield


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[Any]:
    """The steps themselves, bit for bit."""
    return all_bits(map(to_torch, steps_of(folder, N)))


def dataset_of(folder: Path, *, epochs: int | None = 1, **options: Any) -> StreamDataset:
    """A dataset of few pairs."""
    return StreamDataset(partial(steps_of, folder, N, epochs=epochs), rank=0, world=1, **options)


def loader_of(
    dataset: StreamDataset, n_workers: int, *, kind: type = DataLoader, **options: Any
) -> Any:
    """A loader that lays out nothing itself."""
    return kind(dataset, batch_size=None, num_workers=n_workers, **options)


@contextmanager
def reading(loader: Any) -> Iterator[Any]:
    """An iterator of a loader with workers, which end with it: an error would keep them alive for seconds."""
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
def test_a_stateful_loader_goes_on(
    folder: Path, expected: list[Any], then: int, now: int, every: int
) -> None:
    """Its state resumes in as many workers; what the dataset makes of it resumes in any number of workers."""
    kind: Any = partial(stateful.StatefulDataLoader, snapshot_every_n_steps=every)
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


def test_workers_that_persist_read_one_epoch_after_the_other(
    folder: Path, expected: list[Any]
) -> None:
    """With `epoch`, workers that persist go on with the next steps; a state within an epoch keeps its end."""
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


def test_repeat_needs_no_workers_that_persist(folder: Path, expected: list[Any]) -> None:
    """With `repeat`, each iteration gives all steps, also after one that was broken off."""
    loader = loader_of(dataset_of(folder, repeat=True), 2)
    next(iter(loader))
    assert [all_bits(loader) for _ in range(2)] == [expected] * 2


@pytest.mark.parametrize(
    ("persistent", "said"),
    [(False, "set persistent_workers=True, or repeat=True"), (True, "set epoch=… to end")],
)
def test_what_nobody_knows_is_refused(folder: Path, persistent: bool, said: str) -> None:
    """Where workers have read ahead, neither the dataset nor another iteration can tell where to go on, and says so."""
    dataset = dataset_of(folder, epochs=None, tell=True)
    loader = loader_of(dataset, 2, persistent_workers=persistent)
    with reading(loader) as batches:
        *_, third, fourth = islice(batches, 4)
        with pytest.raises(StreamError, match="only the loader knows how many steps it gave; take"):
            dataset.state_dict()
        with pytest.raises(StreamError, match=said), reading(loader) as others:
            next(others)
    with pytest.raises(StreamError, match="the workers that read this dataset have ended"):
        next(iter(dataset))
    dataset.load_state_dict(third["state"])
    assert bits_of(next(iter(dataset))) == bits_of(fourth)


def read_one(loader: Any) -> Any:
    """The first batch."""
    with reading(loader) as batches:
        return next(batches)


def test_faults_come_out_of_the_loaders(folder: Path) -> None:
    """What a worker refuses is raised where the batches are used, as the same kind of error, with its remedy."""
    dataset = StreamDataset(partial(steps_of, folder, N, packed=True), rank=0, world=1)
    dataset.load_state_dict(next(iter(dataset_of(folder, tell=True)))["state"])
    with pytest.raises(
        StreamError, match=r"the state belongs to other steps: .*restore it there, or start anew"
    ):
        read_one(loader_of(dataset, 1))


def test_a_dataset_is_not_read_in_two_processes(folder: Path, expected: list[Any]) -> None:
    """Workers refuse a dataset that the process which started them is reading; when it has stopped, they go on."""
    dataset = dataset_of(folder)
    batches = iter(dataset)
    next(batches)
    with pytest.raises(
        StreamError, match="the process that started this worker is reading the dataset; end that"
    ):
        read_one(loader_of(dataset, 1))
    del batches
    assert all_bits(loader_of(dataset, 1)) == expected[1:]


def test_loaders_give_the_steps_in_order(folder: Path, expected: list[Any]) -> None:
    """Any number of workers, and several loaders at once, read the same steps; a stream that has ended stays so."""
    loaders = [loader_of(dataset_of(folder), n_workers) for n_workers in (0, 1, 3)]
    found = [
        (bits_of(one), bits_of(two), bits_of(three))
        for one, two, three in zip(*loaders, strict=True)
    ]
    assert found == [(bits,) * 3 for bits in expected]
    assert [list(loader) for loader in loaders] == [[]] * 3


@pytest.mark.slow
def test_workers_may_be_spawned(folder: Path, expected: list[Any]) -> None:
    """A dataset can be sent to workers that share nothing with this process, and they see where others were."""
    loader = loader_of(dataset_of(folder), 2 if DRAWS_ALL else 1, multiprocessing_context="spawn")
    assert all_bits(loader) == expected
    assert not DRAWS_ALL or list(loader) == []
