"""torchdata's StatefulDataLoader over three datasets, as its tutorial and README show them.

MapStyle            a map-style dataset; StatefulDistributedSampler shuffles and gives each rank its share
Iterable            an iterable dataset without a state; a worker reads each (world · workers)-th shard, and what it
                    has given is skipped at a resume
IterableWithState   the same with a state_dict of its own, the number of samples given
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.resume.loaders import Loader, Place, Reading, read_text

try:
    from torch.utils.data import Dataset, IterableDataset, get_worker_info
except ImportError:  # the campaign tells it
    Dataset = IterableDataset = object


class Numbers(Dataset):  # type: ignore[misc]
    """The samples by their position."""

    def __init__(self, data: Path) -> None:
        self.numbers = [number for path in sorted(data.glob("*.txt")) for number in read_text(path)]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, position: int) -> int:
        return self.numbers[position]


class Sharded(IterableDataset):  # type: ignore[misc]
    """The samples of the shards of one worker of one rank."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def numbers(self) -> Iterator[int]:
        """Those of this worker."""
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        mine = slice(self.place.rank * workers + worker, None, self.place.world * workers)
        for path in sorted(self.place.data.glob("*.txt"))[mine]:
            yield from read_text(path)

    def __iter__(self) -> Iterator[int]:
        return self.numbers()


class ShardedWithState(Sharded):
    """The same, which knows how many samples it has given."""

    given = 0

    def __iter__(self) -> Iterator[int]:
        skipped, self.given = self.given, 0
        for number in self.numbers():
            self.given += 1
            if self.given > skipped:
                yield number
        self.given = 0

    def state_dict(self) -> dict[str, Any]:
        """Read by the loader, within each worker."""
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Called by the loader, within each worker."""
        self.given = state["given"]


class StatefulReading:
    """A StatefulDataLoader that is open. find: a batch → its numbers."""

    def __init__(self, loader: Any, state: Any | None) -> None:
        self.loader = loader
        if state is not None:
            loader.load_state_dict(state)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.loader:
            yield numbers_of(batch)

    def state(self) -> Any:
        """The loader's own."""
        return self.loader.state_dict()


def numbers_of(batch: Any) -> list[int]:
    """The numbers in a batch, whatever its type: a tensor, a list, or a dict with one of them.

    >>> numbers_of({"text": ["7", "2"]})
    [7, 2]
    """
    if isinstance(batch, dict):
        [batch] = batch.values()
    return [int(number) for number in batch]


class _Torchdata(Loader):
    needs = ("torchdata", "torch")

    def prepare(self) -> None:
        """Import the loader."""
        import torch

        torch.set_num_threads(1)


class MapStyle(_Torchdata):
    """A map-style dataset and a sampler that shuffles."""

    told = "StatefulDataLoader, map-style, StatefulDistributedSampler"

    def open(self, place: Place, state: Any | None) -> Reading:
        """The samples of a rank are those of its sampler."""
        from torchdata.stateful_dataloader import StatefulDataLoader
        from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

        data = Numbers(place.data)
        sampler = StatefulDistributedSampler(
            data, num_replicas=place.world, rank=place.rank, shuffle=True, seed=place.seed
        )
        loader = StatefulDataLoader(data, batch_size=place.batch, sampler=sampler, num_workers=place.workers)
        return StatefulReading(loader, state)


class Iterable(_Torchdata):
    """An iterable dataset that is sharded by workers."""

    told = "StatefulDataLoader, iterable, shards by worker"
    dataset: type[Sharded] = Sharded

    def open(self, place: Place, state: Any | None) -> Reading:
        """Shards go round ranks and their workers."""
        from torchdata.stateful_dataloader import StatefulDataLoader

        loader = StatefulDataLoader(self.dataset(place), batch_size=place.batch, num_workers=place.workers)
        return StatefulReading(loader, state)


class IterableWithState(Iterable):
    """An iterable dataset that is sharded by workers, with a state."""

    told = "StatefulDataLoader, iterable with state_dict, shards by worker"
    dataset = ShardedWithState
