"""The bits of a batch, and a loader that plays its worker processes in this process."""

import copy
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data._utils import worker as torch_worker  # noqa: E402


def bits_of(batch, name=""):
    """Return all values of a batch, with their types."""
    found = []
    for key, value in batch.items():
        if isinstance(value, dict):
            found += bits_of(value, f"{name}{key}.")
        elif isinstance(value, torch.Tensor):
            found.append((name + key, str(value.dtype), value.numpy().tobytes()))
        else:
            found.append((name + key, type(value).__name__, str(value).encode()))
    return found


def all_bits(batches):
    """Return all values of each batch."""
    return [bits_of(batch) for batch in batches]


@contextmanager
def as_worker(number, of, *, seed=7):
    """Let this process be worker `number` of a loader."""
    before = torch_worker._worker_info
    torch_worker._worker_info = torch_worker.WorkerInfo(
        id=number, num_workers=of, seed=seed + number, dataset=None
    )
    try:
        yield
    finally:
        torch_worker._worker_info = before


class PlayedLoader:
    """A loader whose workers, copies of a dataset, are played in this process; it reads no step
    ahead.

    n_workers: 0 for a loader without workers
    """

    def __init__(self, dataset, n_workers):
        self.n_workers = n_workers
        self.n = 0
        self.workers = [copy.deepcopy(dataset) for _ in range(n_workers)] or [dataset]
        self.iterators = [
            self._as(number, lambda number=number: iter(self.workers[number]))
            for number in self.numbers
        ]

    @property
    def numbers(self):
        """Return the numbers of the workers."""
        return range(len(self.workers))

    def _as(self, number, do):
        if not self.n_workers:
            return do()
        with as_worker(number, self.n_workers):
            return do()

    def take(self, n=None):
        """Return the next n batches, or all: those of the workers in turn."""
        found = []
        while n is None or len(found) < n:
            number = self.n % len(self.workers)
            batch = self._as(number, lambda number=number: next(self.iterators[number], None))
            if batch is None:
                break
            found.append(batch)
            self.n += 1
        return found

    def state_dict(self):
        """Return the state, as StatefulDataLoader does."""
        states = [
            {"dataset_state": self._as(number, self.workers[number].state_dict)}
            for number in self.numbers
        ]
        if not self.n_workers:
            return states[0]
        workers = {f"worker_{number}": state for number, state in enumerate(states)}
        return {"_snapshot": {"_worker_snapshots": workers}, "_steps_since_snapshot": 0}
