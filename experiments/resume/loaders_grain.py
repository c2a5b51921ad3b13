"""grain: its DataLoader with an IndexSampler, and its MapDataset, both with the state of their iterators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.resume.loaders import Loader, Place, Reading, read_text


class Numbers:
    """A source of samples by their position."""

    def __init__(self, data: Path) -> None:
        self.data = str(data)
        self.numbers = [number for path in sorted(data.glob("*.txt")) for number in read_text(path)]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, position: int) -> int:
        return self.numbers[position]

    def __repr__(self) -> str:
        return f"Numbers({self.data})"


class _Reading:
    def __init__(self, batches: Any, state: Any | None) -> None:
        self.batches = batches
        if state is not None:
            batches.set_state(state)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batches:
            yield [int(number) for number in batch]

    def state(self) -> Any:
        return self.batches.get_state()


class GrainLoader(Loader):
    """The DataLoader; its workers are processes."""

    needs = ("grain",)
    told = "DataLoader, IndexSampler(shuffle=True)"

    def prepare(self) -> None:
        """Import the library, whose flags must have been read before it starts a process."""
        import grain
        from absl import flags

        assert grain
        flags.FLAGS.mark_as_parsed()

    def open(self, place: Place, state: Any | None) -> Reading:
        """Ranks are shards of the sampler."""
        from grain import python as grain

        source = Numbers(place.data)
        sampler = grain.IndexSampler(
            num_records=len(source), num_epochs=1, shuffle=True, seed=place.seed,
            shard_options=grain.ShardOptions(shard_index=place.rank, shard_count=place.world),
        )  # fmt: skip
        batch = grain.Batch(batch_size=place.batch, drop_remainder=False)
        loader = grain.DataLoader(data_source=source, sampler=sampler, operations=[batch], worker_count=place.workers)
        return _Reading(iter(loader), state)


class GrainDataset(GrainLoader):
    """The MapDataset; a rank reads a slice of what was shuffled."""

    told = "MapDataset.shuffle()[rank::world].batch().to_iter_dataset()"

    def open(self, place: Place, state: Any | None) -> Reading:
        """Workers, if any, prefetch in processes."""
        import grain

        data: Any = grain.MapDataset.source(Numbers(place.data)).shuffle(seed=place.seed)
        data = data[place.rank :: place.world].batch(place.batch).to_iter_dataset()
        if place.workers:
            data = data.mp_prefetch(grain.multiprocessing.MultiprocessingOptions(num_workers=place.workers))
        return _Reading(iter(data), state)
