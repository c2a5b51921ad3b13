"""`StreamDataset`, with workers that are played: one sequence for any number of them, and nothing lost or repeated."""

from __future__ import annotations

import copy
import json
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from drawn import examples
from hypothesis import example, settings
from hypothesis import given as for_all
from hypothesis import strategies as st
from loaders import PlayedLoader, all_bits, as_worker, torch
from steps_of_streams import given, steps_of

from volt.batches import Steps, to_torch
from volt.errors import ConfigError, StreamError
from volt.ext.torch import StreamDataset

FEW = settings(deadline=None, max_examples=examples(15))
N = 60  # lines of the stream
workers = st.integers(0, 3)
worlds = st.integers(1, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the corpora are."""
    return tmp_path_factory.mktemp("corpora")


def dataset_of(
    folder: Path, *, n: int = N, steps: dict[str, Any] | None = None, **options: Any
) -> StreamDataset:
    """A dataset of n pairs."""
    return StreamDataset(
        partial(steps_of, folder, n), **{"rank": 0, "world": 1, **options}, **(steps or {})
    )


def reference(folder: Path, **options: Any) -> list[Any]:
    """The steps themselves, bit for bit."""
    return all_bits(map(to_torch, steps_of(folder, N, **options)))


def ids_of(batches: list[dict[str, Any]]) -> Counter[int]:
    """How often each line is in them."""
    return Counter(number for batch in batches for number in batch["id"].tolist())


def stopped(
    loader: PlayedLoader, n: int, since: int
) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """The first n batches; the state behind `more`, of a loader that takes snapshots now and then; these batches."""
    head = loader.take(n)
    state = loader.state_dict()
    more = loader.take(since) if loader.n_workers else []
    if loader.n_workers:
        state["_steps_since_snapshot"] = len(more)
    return head, StreamDataset.state_of(state), more


@FEW
@for_all(workers, st.booleans())
def test_any_number_of_workers_gives_the_same(folder: Path, n_workers: int, packed: bool) -> None:
    """The batches are those of `Steps`, bit for bit and in order, and none is lost at the end."""
    dataset = dataset_of(folder, steps={"packed": packed})
    assert all_bits(PlayedLoader(dataset, n_workers).take()) == reference(folder, packed=packed)


@FEW
@for_all(st.tuples(workers, workers), worlds, st.integers(0, 40), st.integers(0, 5))
def test_a_state_goes_on_with_any_workers(
    folder: Path, n_workers: tuple[int, int], world: int, taken: int, since: int
) -> None:
    """A loader's state, stopped at any step, goes on bit for bit, whatever the workers then and now."""
    options = {"rank": world - 1, "world": world}
    loader = PlayedLoader(dataset_of(folder, **options), n_workers[0])
    head, state, more = stopped(loader, taken, since)
    again = dataset_of(folder, **options)
    again.load_state_dict(json.loads(json.dumps(state)))
    assert all_bits([*head, *more, *PlayedLoader(again, n_workers[1]).take()]) == reference(
        folder, **options
    )


@FEW
@for_all(
    st.tuples(workers, workers), st.tuples(worlds, worlds), st.integers(0, 12), st.integers(0, 3)
)
@example((2, 2), (1, 2), 2, 3)
@example((1, 2), (1, 2), 0, 1)
@example((1, 0), (2, 3), 0, 2)
def test_another_world_loses_and_repeats_nothing(
    folder: Path, n_workers: tuple[int, int], world: tuple[int, int], taken: int, since: int
) -> None:
    """Stopped at any step by all ranks of one world, the ranks of another read what is left: each line once in all."""
    before = [
        PlayedLoader(dataset_of(folder, rank=rank, world=world[0]), n_workers[0])
        for rank in range(world[0])
    ]
    runs = [stopped(loader, taken, since) for loader in before]
    seen = [batch for head, _, more in runs for batch in (*head, *more)]
    states = [state for _, state, _ in runs]
    assert all(state == states[0] for state in states)
    for rank in range(world[1]):
        dataset = dataset_of(folder, rank=rank, world=world[1])
        dataset.load_state_dict(states[0])
        seen += PlayedLoader(dataset, n_workers[1]).take()
    assert ids_of(seen) == Counter(range(N))


@FEW
@for_all(workers, st.integers(1, 9), st.integers(0, 20))
def test_iterations_of_so_many_steps_go_on(
    folder: Path, n_workers: int, epoch: int, taken: int
) -> None:
    """With `epoch`, each iteration has so many steps, the last what is left; a state within one keeps its end."""
    expected = reference(folder)
    loader = PlayedLoader(dataset_of(folder, epoch=epoch), n_workers)
    head = loader.take(taken)
    assert len(head) == min(taken, epoch, len(expected))
    again = dataset_of(folder, epoch=epoch)
    again.load_state_dict(StreamDataset.state_of(loader.state_dict()))
    sizes = []
    while batches := list(again):
        head += batches
        sizes.append(len(batches))
    assert all_bits(head) == expected
    first = min(taken, epoch, len(expected)) % epoch
    assert (sizes[0] if sizes else 0) == min(epoch - first, len(expected) - min(taken, epoch))


@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_batch_tells_the_state_behind_it(folder: Path, n_workers: int) -> None:
    """With `tell`, the state of a batch goes on with the batch after it."""
    batches = PlayedLoader(dataset_of(folder, tell=True), n_workers).take(5)
    again = dataset_of(folder)
    again.load_state_dict(batches[2]["state"])
    message = [batch.pop("state") for batch in batches]
    assert all_bits([*batches[:3], *again]) == reference(folder)
    assert message == sorted(set(message), key=message.index)


def test_repeat_starts_again_each_time(folder: Path) -> None:
    """With `repeat`, each iteration gives all steps, also after one that was broken off; a state goes on once."""
    dataset, expected = dataset_of(folder, repeat=True), reference(folder)
    assert [all_bits(dataset) for _ in range(2)] == [expected] * 2
    batches = iter(dataset)
    next(batches)
    state = dataset.state_dict()
    del batches
    assert all_bits(dataset) == expected
    dataset.load_state_dict(state)
    assert all_bits(dataset) == expected[1:]
    assert all_bits(dataset) == expected


def test_an_iteration_goes_on_where_the_last_one_stopped(folder: Path) -> None:
    """Without workers, broken off or not; an older iterator is reported so, and at the end there is no more."""
    dataset, expected = dataset_of(folder), reference(folder)
    first, found = iter(dataset), []
    found.append(next(first))
    second = iter(dataset)
    found.append(next(second))
    with pytest.raises(
        StreamError, match="iterated again, or has loaded a state; make a new iterator"
    ):
        next(first)
    assert all_bits([*found, *second]) == expected
    assert list(dataset) == []


def test_nothing_is_open_before_the_first_step_and_after_the_last(folder: Path) -> None:
    """A dataset opens nothing until it is read; when an iteration ends, or it is closed, its threads have ended."""
    opened: list[int] = []

    def make(**options: Any) -> Any:
        opened.append(1)
        return steps_of(folder, N, **options)

    dataset, n_threads = StreamDataset(make, rank=0, world=1), threading.active_count()
    state, batches = dataset.state_dict(), iter(dataset)
    dataset.load_state_dict(state)
    copy.deepcopy(dataset)
    assert not opened
    assert len(list(dataset)) == len(reference(folder))
    assert (len(opened), threading.active_count()) == (1, n_threads)
    dataset.load_state_dict(state)
    batches = iter(dataset)
    next(batches)
    dataset.close()
    assert threading.active_count() == n_threads
    for stale in (batches, iter(dataset)):
        dataset.close()
        with pytest.raises(StreamError, match="make a new iterator"):
            next(stale)


def test_a_copy_stands_where_the_dataset_stood(folder: Path) -> None:
    """A dataset can be copied, as to workers that are spawned, but not while it is read."""
    dataset, expected = dataset_of(folder), reference(folder)
    batches = iter(dataset)
    next(batches)
    with pytest.raises(StreamError, match="is being read, so it cannot be sent or copied"):
        copy.deepcopy(dataset)
    del batches
    assert all_bits(copy.deepcopy(dataset)) == expected[1:] == all_bits(dataset)


def test_states_of_others_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of other steps, of one worker, or of a loader is refused; open steps are closed, and can be read anew."""
    dataset = dataset_of(folder)
    loader = PlayedLoader(dataset, 2)
    loader.take(3)
    state = loader.state_dict()
    with pytest.raises(StreamError, match=r"state of worker 1 of 2 .* take StreamDataset.state_of"):
        dataset.load_state_dict(
            state["_snapshot"]["_worker_snapshots"]["worker_1"]["dataset_state"]
        )
    with pytest.raises(StreamError, match=r"take StreamDataset.state_of\(state\)"):
        dataset.load_state_dict(state)
    with pytest.raises(StreamError, match="a string that is not JSON"):
        dataset.load_state_dict("{")
    for no_state in ({}, {"_snapshot": 1}, {"dataset_state": None}):
        with pytest.raises((StreamError, ConfigError)):
            StreamDataset.state_of(no_state)
    closed, close = list[Steps](), Steps.close

    def closing(steps: Steps) -> None:
        closed.append(steps)
        close(steps)

    monkeypatch.setattr(Steps, "close", closing)
    other = dataset_of(folder, n=N + 1)
    other.load_state_dict(StreamDataset.state_of(state))
    with pytest.raises(StreamError, match="pairs"):
        next(iter(other))
    assert closed
    other.load_state_dict(dataset_of(folder).state_dict())
    assert all_bits(other) == all_bits(dataset_of(folder, n=N + 1))


def test_a_state_of_workers_knows_its_world(folder: Path) -> None:
    """A worker takes its own state alone, in the world in which it was made."""
    loader = PlayedLoader(dataset_of(folder), 2)
    loader.take(3)
    state = loader.state_dict()["_snapshot"]["_worker_snapshots"]["worker_1"]["dataset_state"]
    for number, of, world in ((0, 2, 1), (1, 3, 1), (1, 2, 2)):
        with (
            as_worker(number, of),
            pytest.raises(StreamError, match="state of worker 1 of 2 of a loader, for 1 rank;"),
        ):
            dataset_of(folder, world=world).load_state_dict(state)
    with as_worker(1, 2):
        dataset_of(folder).load_state_dict(state)


@pytest.mark.parametrize("n_back", [0, 1, 3])
def test_a_worker_knows_whether_a_step_follows(folder: Path, n_back: int) -> None:
    """A worker that loads a state finds out whether the stream has ended, and reads from that state on."""
    dataset, expected = dataset_of(folder), reference(folder)
    PlayedLoader(dataset, 0).take(len(expected) - n_back)
    with as_worker(0, 1):
        worker = dataset_of(folder)
        worker.load_state_dict(dataset.state_dict())
        assert worker.state_dict()["ended"] is (n_back == 0)
        assert all_bits(worker) == expected[len(expected) - n_back :]


def test_ranks_are_those_of_the_launcher(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rank and world, a dataset takes those of the environment; half of them is refused."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dataset = StreamDataset(partial(steps_of, folder, N))
    assert (dataset.rank, dataset.world) == (1, 2)
    assert repr(dataset).endswith(", rank 1 of 2>")
    assert given(dataset) == given(steps_of(folder, N, rank=1, world=2))  # type: ignore[arg-type]
    for half in ({"rank": 0}, {"world": 2}):
        with pytest.raises(ConfigError, match="give both, or neither"):
            dataset_of(folder, **{"rank": None, "world": None, **half})


def test_ranks_are_those_of_torch_distributed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where torch.distributed is initialised, it says which rank this is; if it says so later, that is refused."""
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "6")
    early = StreamDataset(partial(steps_of, folder, N))
    given = StreamDataset(partial(steps_of, folder, N), rank=0, world=1)
    for name, value in (("is_initialized", True), ("get_rank", 1), ("get_world_size", 3)):
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    dataset = StreamDataset(partial(steps_of, folder, N))
    assert (dataset.rank, dataset.world) == (1, 3)
    with pytest.raises(
        ConfigError,
        match="rank 5 of 6 when the dataset was made, but now rank 1 of 3; make it after",
    ):
        iter(early)
    assert ids_of([*given]) == Counter(range(N))


@pytest.mark.parametrize("options", [{"epoch": 0}, {"epoch": 1.5}, {"rank": 2, "world": 2}])
def test_options_out_of_range_are_refused(folder: Path, options: dict[str, Any]) -> None:
    """They are refused when the dataset is made, not by a worker."""
    with pytest.raises(ConfigError):
        dataset_of(folder, **options)
    with pytest.raises(
        ConfigError, match="config is None; give the path of a YAML file, or a function"
    ):
        StreamDataset(None)  # type: ignore[arg-type]
