"""Hugging Face datasets: a text dataset that is streamed, split by rank, with and without a shuffle buffer.

Alone it is read in the rank's own process, and its `state_dict` is saved. Within a StatefulDataLoader each worker has
some of the shards, and the loader saves the states of all workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from experiments.resume.loaders import Loader, Place, Reading
from experiments.resume.loaders_torchdata import StatefulReading, numbers_of

BUFFER = 100


class _Alone:
    """A streamed dataset that is read without a loader."""

    def __init__(self, data: Any, batch: int, state: Any | None) -> None:
        self.data, self.batch = data, batch
        if state is not None:
            data.load_state_dict(state)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.data.iter(batch_size=self.batch):
            yield numbers_of(batch)

    def state(self) -> Any:
        """The dataset's own."""
        return self.data.state_dict()


class Streaming(Loader):
    """The dataset alone, its order that of its shards."""

    needs: ClassVar[tuple[str, ...]] = ("datasets",)
    told = "datasets streaming, split_dataset_by_node"
    changes: ClassVar[tuple[str, ...]] = ("nothing", "world")
    buffer = 0

    def prepare(self) -> None:
        """Import the library."""
        import datasets
        import datasets.distributed

        datasets.disable_progress_bars()

    def dataset(self, place: Place) -> Any:
        """What is streamed to one rank."""
        from datasets import load_dataset
        from datasets.distributed import split_dataset_by_node

        files = [str(path) for path in sorted(place.data.glob("*.txt"))]
        data: Any = load_dataset("text", data_files=files, split="train", streaming=True)
        if self.buffer:
            data = data.shuffle(seed=place.seed, buffer_size=self.buffer)
        return split_dataset_by_node(data, rank=place.rank, world_size=place.world)

    def open(self, place: Place, state: Any | None) -> Reading:
        """Read in the rank's own process."""
        return _Alone(self.dataset(place), place.batch, state)


class Shuffled(Streaming):
    """The dataset alone, with a shuffle buffer."""

    told = f"datasets streaming, shuffle(buffer_size={BUFFER}), split_dataset_by_node"
    buffer = BUFFER


class StreamingInLoader(Streaming):
    """Within a loader that has workers."""

    needs = ("datasets", "torchdata")
    told = f"{Streaming.told}, in StatefulDataLoader"
    changes = Loader.changes

    def prepare(self) -> None:
        """Import the loader as well."""
        import torchdata.stateful_dataloader  # noqa: F401

        super().prepare()

    def open(self, place: Place, state: Any | None) -> Reading:
        """Read by the loader's workers."""
        from torchdata.stateful_dataloader import StatefulDataLoader

        loader = StatefulDataLoader(self.dataset(place), batch_size=place.batch, num_workers=place.workers)
        return StatefulReading(loader, state)


class ShuffledInLoader(StreamingInLoader):
    """Within a loader that has workers, each with a shuffle buffer."""

    told = f"{Shuffled.told}, in StatefulDataLoader"
    buffer = BUFFER
