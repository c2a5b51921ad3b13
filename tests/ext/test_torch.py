"""Laws of `StreamDataset`, with workers that are played in this process: the steps are those of
`Steps`, none is lost or repeated, and errors name a remedy."""

import copy
import json
import pickle
import threading
from collections import Counter
from functools import partial
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from hypothesis import example, settings
from hypothesis import given as for_all
from hypothesis import strategies as st
from support.drawn import examples
from support.loaders import PlayedLoader, all_bits, as_worker, torch
from support.steps_of_streams import given, steps_of, stream_of
from torch.utils.data import DataLoader

from volt.batches import Steps, to_torch
from volt.errors import ConfigError, StreamError, VoltError
from volt.ext.torch import Step, StreamDataset

FEW = settings(deadline=None, max_examples=examples(15))
N = 60  # lines of the stream
workers = st.integers(0, 3)
worlds = st.integers(1, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the corpora."""
    return tmp_path_factory.mktemp("corpora")


def dataset_of(folder, *, n=N, packed=False, **options):
    """Make a dataset of n pairs."""
    config = partial(steps_of, folder, n, packed=packed)
    return StreamDataset(config, **{"rank": 0, "world": 1, **options})


def reference(folder, **options):
    """Return the steps of `Steps`, bit for bit."""
    return all_bits(map(to_torch, steps_of(folder, N, **options)))


def ids_of(batches):
    """Count how often the batches contain each line."""
    return Counter(number for batch in batches for number in batch["id"].tolist())


def loaded(state, dataset):
    dataset.load_state_dict(state)
    return dataset


def stopped(loader, n, since):
    """Take n batches and, if the loader has workers, `since` more after its snapshot. Return them, and the state."""
    batches = loader.take(n)
    state = loader.state_dict()
    if loader.n_workers:
        more = loader.take(since)
        batches += more
        state["_steps_since_snapshot"] = len(more)
    return batches, StreamDataset.state_of(state)


@FEW
@for_all(workers, st.booleans())
def test_steps_are_the_same_for_any_number_of_workers(folder, n_workers, packed):
    """The batches of a `StreamDataset` are those of `Steps`, bit for bit and in order, for any
    number of workers."""
    batches = PlayedLoader(dataset_of(folder, packed=packed), n_workers).take()
    assert all_bits(batches) == reference(folder, packed=packed)


@FEW
@for_all(st.tuples(workers, workers), worlds, st.integers(0, 40), st.integers(0, 5))
def test_a_state_resumes_with_any_number_of_workers(folder, n_workers, world, taken, since):
    """The state of a loader that stopped at any step resumes bit for bit, with any number of
    workers."""
    options = {"rank": world - 1, "world": world}
    loader = PlayedLoader(dataset_of(folder, **options), n_workers[0])
    batches, state = stopped(loader, taken, since)
    again = loaded(json.loads(json.dumps(state)), dataset_of(folder, **options))
    batches += PlayedLoader(again, n_workers[1]).take()
    assert all_bits(batches) == reference(folder, **options)


@FEW
@for_all(
    st.tuples(workers, workers), st.tuples(worlds, worlds), st.integers(0, 12), st.integers(0, 3)
)
@example((2, 2), (1, 2), 2, 3)
@example((1, 2), (1, 2), 0, 1)
@example((1, 0), (2, 3), 0, 2)
def test_another_number_of_ranks_loses_and_repeats_nothing(folder, n_workers, world, taken, since):
    """If all ranks stop after equally many steps, and another number of ranks loads their state,
    each line is read once."""
    batches = []
    states = []
    for rank in range(world[0]):
        dataset = dataset_of(folder, rank=rank, world=world[0])
        head, state = stopped(PlayedLoader(dataset, n_workers[0]), taken, since)
        batches += head
        states.append(state)
    assert states == states[:1] * world[0]
    for rank in range(world[1]):
        dataset = loaded(states[0], dataset_of(folder, rank=rank, world=world[1]))
        batches += PlayedLoader(dataset, n_workers[1]).take()
    assert ids_of(batches) == Counter(range(N))


@FEW
@for_all(workers, st.integers(1, 9), st.integers(0, 20))
def test_an_epoch_limits_the_steps_of_an_iteration(folder, n_workers, epoch, taken):
    """With `epoch`, each iteration has this number of steps, and the last one has the rest.

    A state within an iteration keeps the iteration's end.
    """
    expected = reference(folder)
    loader = PlayedLoader(dataset_of(folder, epoch=epoch), n_workers)
    found = loader.take(taken)
    n_taken = min(taken, epoch, len(expected))
    assert len(found) == n_taken
    again = loaded(StreamDataset.state_of(loader.state_dict()), dataset_of(folder, epoch=epoch))
    sizes = []
    while batches := list(again):
        found += batches
        sizes.append(len(batches))
    assert all_bits(found) == expected
    assert sum(sizes[:1]) == min(epoch - n_taken % epoch, len(expected) - n_taken)


@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_batch_contains_the_state_after_it(folder, n_workers):
    """With `tell`, the state in a batch resumes with the next batch."""
    batches = PlayedLoader(dataset_of(folder, tell=True), n_workers).take(5)
    again = loaded(batches[2]["state"], dataset_of(folder))
    states = {batch.pop("state") for batch in batches}
    assert len(states) == 5
    assert all_bits([*batches[:3], *again]) == reference(folder)


def test_repeat_starts_each_iteration_with_the_first_step(folder):
    """With `repeat`, each iteration starts with the first step, also after an iteration that was
    stopped early. A loaded state applies to one iteration."""
    dataset = dataset_of(folder, repeat=True)
    expected = reference(folder)
    assert [all_bits(dataset) for _ in range(2)] == [expected] * 2
    batches = iter(dataset)
    next(batches)
    state = dataset.state_dict()
    del batches
    assert all_bits(dataset) == expected
    assert all_bits(loaded(state, dataset)) == expected[1:]
    assert all_bits(dataset) == expected


def test_an_iteration_continues_where_the_previous_one_stopped(folder):
    """Without `repeat`, an iteration continues where the previous one stopped.

    An older iterator raises an error, and after the last step, iterations are empty.
    """
    dataset = dataset_of(folder)
    first = iter(dataset)
    batches = [next(first)]
    second = iter(dataset)
    batches.append(next(second))
    message = "iterated again, or has loaded a state; make a new iterator"
    with pytest.raises(StreamError, match=message):
        next(first)
    assert all_bits([*batches, *second]) == reference(folder)
    assert list(dataset) == []


def test_steps_are_open_only_while_they_are_read(folder):
    """A dataset opens `Steps` when it is read.

    When an iteration ends, or the dataset is closed, its threads have ended.
    """
    opened = []

    def make(**options):
        opened.append(1)
        return steps_of(folder, N, **options)

    dataset = StreamDataset(make, rank=0, world=1)
    n_threads = threading.active_count()
    state = dataset.state_dict()
    batches = iter(dataset)
    copy.deepcopy(loaded(state, dataset))
    assert not opened
    assert len(list(dataset)) == len(reference(folder))
    assert (len(opened), threading.active_count()) == (1, n_threads)
    batches = iter(loaded(state, dataset))
    next(batches)
    dataset.close()
    assert threading.active_count() == n_threads
    for stale in (batches, iter(dataset)):
        dataset.close()
        with pytest.raises(StreamError, match="make a new iterator"):
            next(stale)


def test_a_copy_has_the_position_of_the_dataset(folder):
    """A copy of a dataset continues at the dataset's position.

    A dataset that is being read cannot be copied.
    """
    dataset = dataset_of(folder)
    expected = reference(folder)
    batches = iter(dataset)
    next(batches)
    with pytest.raises(StreamError, match="is being read, so it cannot be sent or copied"):
        copy.deepcopy(dataset)
    del batches
    assert all_bits(copy.deepcopy(dataset)) == expected[1:] == all_bits(dataset)


def test_states_that_are_no_states_of_this_dataset_are_refused(folder):
    """`load_state_dict` refuses the state of one worker, of a loader, or of a stream of lines, and
    says what to load instead."""
    dataset = dataset_of(folder)
    loader = PlayedLoader(dataset_of(folder), 2)
    loader.take(3)
    state = loader.state_dict()
    worker_state = state["_snapshot"]["_worker_snapshots"]["worker_1"]["dataset_state"]
    for other, message in (
        (worker_state, r"state of worker 1 of 2 .* take StreamDataset.state_of"),
        (state, r"take StreamDataset.state_of\(state\)"),
        ("{", "a string that is not JSON"),
        (stream_of(folder, N).state(), "state of a Stream of lines, not of the steps of a Stream"),
    ):
        with pytest.raises(StreamError, match=message):
            dataset.load_state_dict(other)
    for other in ({}, {"_snapshot": 1}, {"dataset_state": None}):
        with pytest.raises((StreamError, ConfigError)):
            StreamDataset.state_of(other)


def test_a_state_of_other_steps_closes_the_steps(folder, monkeypatch):
    """If a state belongs to other steps, the dataset raises an error, closes its steps, and can
    load another state."""
    closed = []
    close = Steps.close
    monkeypatch.setattr(Steps, "close", lambda steps: closed.append(steps) or close(steps))
    loader = PlayedLoader(dataset_of(folder), 0)
    loader.take(3)
    other = loaded(StreamDataset.state_of(loader.state_dict()), dataset_of(folder, n=N + 1))
    closed.clear()
    with pytest.raises(StreamError, match="pairs"):
        next(iter(other))
    assert closed
    start = dataset_of(folder).state_dict()
    assert all_bits(loaded(start, other)) == all_bits(dataset_of(folder, n=N + 1))


def test_a_worker_loads_only_its_own_state(folder):
    """A worker refuses a state of another worker, number of workers or number of ranks."""
    loader = PlayedLoader(dataset_of(folder), 2)
    loader.take(3)
    state = loader.state_dict()["_snapshot"]["_worker_snapshots"]["worker_1"]["dataset_state"]
    message = "state of worker 1 of 2 of a loader, for 1 rank;"
    for number, of, world in ((0, 2, 1), (1, 3, 1), (1, 2, 2)):
        with as_worker(number, of), pytest.raises(StreamError, match=message):
            loaded(state, dataset_of(folder, world=world))
    with as_worker(1, 2):
        loaded(state, dataset_of(folder))


@pytest.mark.parametrize("n_left", [0, 1, 3])
def test_a_worker_checks_whether_a_step_follows_a_loaded_state(folder, n_left):
    """After a worker has loaded a state, its state's key `ended` says whether no step follows."""
    dataset = dataset_of(folder)
    expected = reference(folder)
    n_taken = len(expected) - n_left
    PlayedLoader(dataset, 0).take(n_taken)
    with as_worker(0, 1):
        worker = loaded(dataset.state_dict(), dataset_of(folder))
        assert worker.state_dict()["ended"] is (n_left == 0)
        assert all_bits(worker) == expected[n_taken:]


def test_a_state_of_steps_is_a_state_of_a_dataset(folder):
    """`load_state_dict` accepts a state of `Steps`."""
    steps = steps_of(folder, N)
    given(steps, 3)
    dataset = loaded(steps.state(), dataset_of(folder))
    assert [step["id"].tolist() for step in dataset] == given(steps_of(folder, N))[3:]


def test_the_environment_sets_the_rank(folder, monkeypatch):
    """Without the arguments rank and world, RANK and WORLD_SIZE of the environment apply.

    One argument without the other is refused.
    """
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dataset = dataset_of(folder, rank=None, world=None)
    assert (dataset.rank, dataset.world) == (1, 2)
    assert repr(dataset).endswith(", rank 1 of 2>")
    assert given(dataset) == given(steps_of(folder, N, rank=1, world=2))
    for half in ({"rank": None}, {"world": None}):
        with pytest.raises(ConfigError, match="give both, or neither"):
            dataset_of(folder, **half)


def test_torch_distributed_sets_the_rank(folder, monkeypatch):
    """Without the arguments rank and world, the rank of torch.distributed applies.

    A dataset that was created before with another rank raises an error.
    """
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "6")
    early = dataset_of(folder, rank=None, world=None)
    explicit = dataset_of(folder)
    for name, value in (("is_initialized", True), ("get_rank", 1), ("get_world_size", 3)):
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    dataset = dataset_of(folder, rank=None, world=None)
    assert (dataset.rank, dataset.world) == (1, 3)
    message = "rank 5 of 6 when the dataset was made, but now rank 1 of 3; make it after"
    with pytest.raises(ConfigError, match=message):
        iter(early)
    assert ids_of([*explicit]) == Counter(range(N))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": 0}, "epoch is 0; give 1 or more"),
        ({"epoch": 1.5}, "epoch is 1.5"),
        ({"rank": 2, "world": 2}, "rank"),
        ({"foo": 1}, "StreamDataset has no option 'foo'; options are ahead, cache"),
        ({"repeat": 1}, "repeat is 1 .int.; give True or False"),
        ({"tell": "yes"}, "tell is 'yes' .str.; give True or False"),
        ({"config": None}, "config is None; give the path of a YAML file, or a function"),
        ({"config": lambda rank, world: None, "foo": 1}, "unexpected keyword argument 'foo'"),
    ],
)
def test_options_are_checked_when_the_dataset_is_made(options, message):
    """`StreamDataset` refuses wrong options when it is created, before it opens a file or starts a
    worker."""
    with pytest.raises(VoltError, match=message):
        StreamDataset(**{"config": "none.yaml", "rank": 0, "world": 1, **options})
    good = {"n_workers": 2, "seed": 3, "split": "valid", "ahead": False, "cache": "there"}
    StreamDataset("none.yaml", rank=0, world=1, **good)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_loader_that_collates_steps_is_refused(folder, batch_size):
    """A DataLoader with a batch_size raises an error that names batch_size=None.

    Without one, it returns dicts.
    """
    with pytest.raises(ConfigError, match=r"use DataLoader\(…, batch_size=None\)"):
        next(iter(DataLoader(dataset_of(folder), batch_size=batch_size)))
    step = next(iter(DataLoader(dataset_of(folder), batch_size=None)))
    assert isinstance(step, dict)
    assert torch.equal(pickle.loads(pickle.dumps(step))["id"], step["id"])
    assert type(step)(step) == step


def test_a_worker_sends_steps_with_any_values():
    """A pickled step has the same tensors of any type and layout, also within lists, and other
    values. Its tensors can be written."""
    tensors = {
        "empty": torch.zeros((0, 3), dtype=torch.int32),
        "number": torch.tensor(7),
        "flag": torch.tensor([True]),
        "turned": torch.arange(6).reshape(2, 3).T,
        "every second": torch.arange(9)[1::2],
        "bfloat16": torch.tensor([0.5, 3.0], dtype=torch.bfloat16),
        "complex": torch.tensor([1 + 2j]).conj(),
    }
    others = {
        "state": "{}",
        "nested": {"list": [torch.arange(3), None]},
        "array": np.arange(2),
        "sparse": torch.eye(3).to_sparse(),
        "weights": torch.ones(2, requires_grad=True),
    }
    step = pickle.loads(ForkingPickler.dumps(Step(tensors | others)))
    assert type(step) is Step
    for name, tensor in tensors.items():
        assert (step[name].dtype, step[name].shape) == (tensor.dtype, tensor.shape), name
        assert torch.equal(step[name], tensor), name
        step[name].zero_()
    assert (step["state"], type(step["array"])) == ("{}", np.ndarray)
    first, nothing = step["nested"]["list"]
    assert (first.tolist(), nothing) == ([0, 1, 2], None)
    assert torch.equal(step["sparse"].to_dense(), torch.eye(3))
    assert step["weights"].requires_grad
    assert pickle.loads(ForkingPickler.dumps(Step())) == Step()


def test_a_function_must_return_new_steps_of_its_rank(folder):
    """A `config` function that returns other values than new `Steps` of the requested rank is
    refused; the error says what it returned."""
    own = steps_of(folder, N)
    read = steps_of(folder, N)
    given(read, 1)
    reader = iter(StreamDataset(lambda **_: own, rank=0, world=1))
    next(reader)
    for steps, world, message in (
        ([1], 1, r"what config returns is a list; return a Steps"),
        (steps_of(folder, N), 2, "Steps of rank 0 of 1, not rank 0 of 2"),
        (own, 1, "Steps that another dataset reads; make new Steps each time"),
        (read, 1, "Steps that have been read; make new"),
    ):
        dataset = StreamDataset(lambda steps=steps, **_: steps, rank=0, world=world)
        with pytest.raises(VoltError, match=message):
            next(iter(dataset))


def test_threads_get_each_step_once(folder):
    """If threads iterate over one dataset at a time, each step goes to one thread.

    Threads whose iterator is stale get an error.
    """
    dataset = dataset_of(folder)
    found = []
    start = threading.Barrier(4)

    def read():
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
    found += [step["id"].tolist() for step in dataset]
    assert sorted(found) == sorted(given(steps_of(folder, N)))
