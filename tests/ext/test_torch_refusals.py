"""What `StreamDataset` refuses, by name: loaders that collate, options, makers of steps, and states of others."""

from __future__ import annotations

import pickle
import threading
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaders import torch
from steps_of_streams import given, steps_of, stream_of
from torch.utils.data import DataLoader

from volt.errors import ConfigError, StreamError, VoltError
from volt.ext.torch import Step, StreamDataset

N = 60  # lines of the stream


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the corpora are."""
    return tmp_path_factory.mktemp("corpora")


def dataset_of(folder: Path, **options: Any) -> StreamDataset:
    """A dataset of few pairs."""
    return StreamDataset(partial(steps_of, folder, N), rank=0, world=1, **options)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_loaders_that_collate_are_asked_not_to(folder: Path, batch_size: int) -> None:
    """A loader that would stack steps raises an error that names the option; a step is a dict in all else."""
    with pytest.raises(ConfigError, match=r"use DataLoader\(…, batch_size=None\)"):
        next(iter(DataLoader(dataset_of(folder), batch_size=batch_size)))
    step = next(iter(DataLoader(dataset_of(folder), batch_size=None)))
    assert isinstance(step, dict)
    assert torch.equal(pickle.loads(pickle.dumps(step))["id"], step["id"])
    assert type(step)(step) == step


def test_a_step_with_any_values_arrives_from_a_worker_as_it_was() -> None:
    """Tensors of each type and shape, also within lists, and other values cross unchanged; tensors can be written."""
    tensors = {
        "empty": torch.zeros((0, 3), dtype=torch.int32),
        "number": torch.tensor(7),
        "flag": torch.tensor([True]),
        "turned": torch.arange(6).reshape(2, 3).T,
        "every second": torch.arange(9)[1::2],
        "bfloat16": torch.tensor([0.5, 3.0], dtype=torch.bfloat16),
        "complex": torch.tensor([1 + 2j]).conj(),
    }
    values = {
        "state": "{}",
        "n": 3,
        "nested": {"list": [torch.arange(3), None]},
        "array": np.arange(2),
    }
    sparse, weights = torch.eye(3).to_sparse(), torch.ones(2, requires_grad=True)
    step = pickle.loads(
        ForkingPickler.dumps(Step(tensors | values | {"sparse": sparse, "weights": weights}))
    )
    assert type(step) is Step
    for name, tensor in tensors.items():
        assert (step[name].dtype, step[name].shape) == (tensor.dtype, tensor.shape), name
        assert torch.equal(step[name], tensor), name
        step[name].zero_()
    assert (step["state"], step["n"], type(step["array"]), step["nested"]["list"][1]) == (
        "{}",
        3,
        np.ndarray,
        None,
    )
    assert torch.equal(step["nested"]["list"][0], torch.arange(3))
    assert torch.equal(step["sparse"].to_dense(), torch.eye(3))
    assert step["weights"].requires_grad
    assert pickle.loads(ForkingPickler.dumps(Step())) == Step()


def test_states_of_steps_are_positions_and_those_of_lines_are_not(folder: Path) -> None:
    """The state of `Steps` goes on behind them; that of a stream is reported by its kind."""
    steps, dataset = steps_of(folder, N), dataset_of(folder)
    expected = given(steps_of(folder, N))
    given(steps, 3)
    dataset.load_state_dict(steps.state())
    assert [step["id"].tolist() for step in dataset] == expected[3:]
    with pytest.raises(
        StreamError, match="state of a Stream of lines, not of the steps of a StreamDataset"
    ):
        dataset.load_state_dict(stream_of(folder, N).state())


def test_makers_of_steps_are_checked(folder: Path) -> None:
    """What a function gives is new Steps, of the right rank."""
    mine = steps_of(folder, N)
    first, second = (StreamDataset(lambda **_: mine, rank=0, world=1) for _ in range(2))
    batches = iter(first)
    next(batches)
    for dataset, said in (
        (
            StreamDataset(lambda **_: [1], rank=0, world=1),
            r"what config returns is a list; return a Steps",
        ),
        (
            StreamDataset(lambda **_: steps_of(folder, N), rank=1, world=2),
            "Steps of rank 0 of 1, not rank 1 of 2",
        ),
        (second, "Steps that another dataset reads; make new Steps each time"),
    ):
        with pytest.raises(VoltError, match=said):
            next(iter(dataset))
    read = steps_of(folder, N)
    given(read, 1)
    with pytest.raises(ConfigError, match="Steps that have been read; make new"):
        next(iter(StreamDataset(lambda **_: read, rank=0, world=1)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"foo": 1}, "StreamDataset has no option 'foo'; options are ahead, cache"),
        ({"repeat": 1}, "repeat is 1 .int.; give True or False"),
        ({"tell": "yes"}, "tell is 'yes' .str.; give True or False"),
    ],
)
def test_options_are_checked_at_once(options: dict[str, Any], said: str) -> None:
    """Before anything is opened."""
    with pytest.raises(VoltError, match=said):
        StreamDataset("none.yaml", rank=0, world=1, **options)


def test_options_of_a_function_are_checked_at_once() -> None:
    """By its signature."""
    with pytest.raises(ConfigError, match="unexpected keyword argument 'foo'"):
        StreamDataset(lambda rank, world: None, rank=0, world=1, foo=1)  # type: ignore[arg-type, return-value]
    StreamDataset(
        "none.yaml", rank=0, world=1, n_workers=2, seed=3, split="valid", ahead=False, cache="there"
    )


def test_threads_are_given_each_step_once(folder: Path) -> None:
    """Threads that iterate one dataset at once are refused, or take turns; no step is given twice or lost."""
    dataset, expected = dataset_of(folder), given(steps_of(folder, N))
    found, start = list[list[int]](), threading.Barrier(4)

    def read() -> None:
        start.wait()
        for _ in range(50):
            try:
                for step in dataset:
                    found.append(step["id"].tolist())
            except StreamError as error:
                assert "make a new iterator" in str(error)  # noqa: PT017

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted([*found, *(step["id"].tolist() for step in dataset)]) == sorted(expected)
