"""Data loaders for the campaign: how each writes the samples 0 … n−1, opens them for one rank, and saves its state.

A loader imports its library within its methods, so that this module can be read without the libraries.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

ROLES = ("<pad>", "<unk>", "<s>", "</s>")


@dataclass(frozen=True, slots=True)
class Place:
    """One rank: the folder of the samples, a file through which ranks meet, and its numbers."""

    data: Path
    meet: Path
    rank: int
    world: int
    workers: int
    batch: int
    n: int
    seed: int


class Reading:
    """An open loader. numbers: a batch → its samples;  state: saves the loader's state."""

    def __init__(
        self, batches: Any, numbers: Callable[[Any], Any], state: Callable[[], Any]
    ) -> None:
        self.batches, self.numbers, self.state = batches, numbers, state

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batches:
            yield [int(number) for number in self.numbers(batch)]


class Loader:
    """A way of reading samples; the first line of a docstring is its name.

    needs, imports: distributions, and modules to import before ranks are forked;  changes: what may differ after a
    resume;  state_of: "own", rank r gets the state of rank r modulo the old world, or "first", all get the first;
    same_global_batch: whether the batches of all ranks together keep their size
    """

    needs: ClassVar[tuple[str, ...]] = ()
    imports: ClassVar[tuple[str, ...]] = ()
    changes: ClassVar[tuple[str, ...]] = ("nothing", "workers", "world", "both")
    state_of: ClassVar[str] = "own"
    same_global_batch: ClassVar[bool] = False

    def prepare(self) -> None:
        for module in self.imports:
            importlib.import_module(module)

    def write(self, data: Path, *, n: int, shards: int) -> None:
        data.mkdir(parents=True)
        for shard in range(shards):
            numbers = range(n * shard // shards, n * (shard + 1) // shards)
            (data / f"{shard:03}.txt").write_text("".join(f"{number}\n" for number in numbers))

    def open(self, place: Place, state: Any | None) -> Reading:
        raise NotImplementedError


def read_numbers(data: Path) -> list[int]:
    return [int(line) for path in sorted(data.glob("*.txt")) for line in path.read_text().split()]


def stateful(
    loader: Any, state: Any | None, numbers: Callable[[Any], Any] = lambda batch: batch
) -> Reading:
    if state is not None:
        loader.load_state_dict(state)
    return Reading(loader, numbers, loader.state_dict)


def join_group(place: Place) -> None:
    import torch.distributed

    if place.world > 1:
        where = {
            "init_method": f"file://{place.meet}",
            "rank": place.rank,
            "world_size": place.world,
        }
        torch.distributed.init_process_group("gloo", **where)


class Volt(Loader):
    """VOLT Steps

    Line i holds the token of sample i twice; samples are read off the target, before each EOS.
    """

    needs = ("volt-vocab",)
    state_of = "first"

    def prepare(self) -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            self.write(Path(folder, "data"), n=24, shards=3)
            list(self.open(Place(Path(folder, "data"), Path(folder), 0, 1, 0, 2, 24, 1), None))

    def write(self, data: Path, *, n: int, shards: int) -> None:
        super().write(data, n=n, shards=shards)
        for path in data.glob("*.txt"):
            path.write_text("".join(f"{number} {number}\n" for number in path.read_text().split()))

    def open(self, place: Place, state: Any | None) -> Reading:
        """Open steps with token batches or packs, from one source or three, as the seed decides."""
        import numpy as np

        from volt.batches import ByPacks, ByTokens, SampleFormat, Steps
        from volt.stream import Source, Stream

        paths, n_sources = sorted(map(str, place.data.glob("*.txt"))), 1 + 2 * (place.seed % 2)
        sources = [
            Source(f"s{i}", tuple(paths[i::n_sources]), epochs=1, weight=1.0 + i, block_lines=100)
            for i in range(n_sources)
        ]
        samples = SampleFormat({"text": [*ROLES, *map(str, range(place.n))]})
        packs = ByPacks(length=12, rows=max(1, place.batch // 8))
        rule = (
            packs
            if place.seed % 3 == 0
            else ByTokens(max_tokens=4 * place.batch, max_sentences=place.batch)
        )

        def opened(rank: int, world: int) -> Any:
            stream = Stream(sources, seed=place.seed, ends="drop", n_workers=place.workers)
            return Steps(
                stream,
                samples,
                rule,
                window=(40, 333, 1000)[place.seed // 6 % 3],
                rank=rank,
                world=world,
            )

        steps = opened(place.rank, place.world)
        if state is not None:
            steps.restore(json.loads(state))

        def batches() -> Iterator[Any]:
            yield from steps
            if place.rank == 0 and steps.totals.n_left:
                # fewer samples than ranks: one rank takes them
                rest = opened(0, 1)
                rest.restore(steps.state())
                yield from rest

        def numbers(arrays: dict[str, Any]) -> Any:
            flat = np.asarray(arrays["target"]).ravel()
            return flat[np.flatnonzero(flat == ROLES.index("</s>")) - 1] - len(ROLES)

        return Reading(batches(), numbers, lambda: json.dumps(steps.state()))


class Torchdata(Loader):
    """torchdata StatefulDataLoader, map-style, StatefulDistributedSampler"""

    needs = ("torchdata", "torch")
    imports = ("torchdata.stateful_dataloader",)

    def open(self, place: Place, state: Any | None) -> Reading:
        from torchdata.stateful_dataloader import StatefulDataLoader
        from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

        data: Any = read_numbers(place.data)
        ranks = {"num_replicas": place.world, "rank": place.rank}
        sampler = StatefulDistributedSampler(data, **ranks, shuffle=True, seed=place.seed)
        return stateful(
            StatefulDataLoader(data, place.batch, sampler=sampler, num_workers=place.workers), state
        )


class Datasets(Loader):
    """datasets streaming, shuffle(buffer_size=100), split_dataset_by_node"""

    imports = ("datasets", "datasets.distributed")
    needs = ("datasets",)
    changes = ("nothing", "world")

    def open(self, place: Place, state: Any | None) -> Reading:
        from datasets import load_dataset
        from datasets.distributed import split_dataset_by_node

        files = sorted(map(str, place.data.glob("*.txt")))
        data: Any = load_dataset("text", data_files=files, split="train", streaming=True)
        data = data.shuffle(seed=place.seed, buffer_size=100)
        data = split_dataset_by_node(data, rank=place.rank, world_size=place.world)
        if state is not None:
            data.load_state_dict(state)
        return Reading(
            data.iter(batch_size=place.batch), lambda batch: batch["text"], data.state_dict
        )


class Mosaic(Loader):
    """mosaicml-streaming StreamingDataset(shuffle=True), the state of rank 0"""

    imports = ("streaming",)
    needs = ("mosaicml-streaming", "torch")
    state_of = "first"

    def write(self, data: Path, *, n: int, shards: int) -> None:
        """Write MDS shards of about n / shards numbers: 8 bytes each, 4 of an offset, and a head."""
        from streaming import MDSWriter

        with MDSWriter(
            out=str(data), columns={"number": "int"}, size_limit=12 * (n // shards) + 300
        ) as out:
            for number in range(n):
                out.write({"number": number})

    def open(self, place: Place, state: Any | None) -> Reading:
        from streaming import StreamingDataLoader, StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        ranks = {"RANK": place.rank, "WORLD_SIZE": place.world, "LOCAL_RANK": place.rank}
        os.environ |= {
            name: str(value) for name, value in (ranks | {"LOCAL_WORLD_SIZE": place.world}).items()
        }
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
        join_group(place)
        clean_stale_shared_memory()
        data = StreamingDataset(
            local=str(place.data), shuffle=True, shuffle_seed=place.seed, batch_size=place.batch
        )
        loader = StreamingDataLoader(data, batch_size=place.batch, num_workers=place.workers)
        return stateful(loader, state, lambda batch: batch["number"])


def itself(number: int) -> int:
    return number


class Litdata(Loader):
    """litdata StreamingDataset(shuffle=True, drop_last=False)"""

    needs = ("litdata", "torch")
    imports = ("litdata",)

    def write(self, data: Path, *, n: int, shards: int) -> None:
        from litdata import optimize

        how = {"chunk_size": n // shards, "num_workers": 1, "start_method": "fork"}
        optimize(fn=itself, inputs=list(range(n)), output_dir=str(data), **how)

    def open(self, place: Place, state: Any | None) -> Reading:
        from litdata import StreamingDataLoader, StreamingDataset

        join_group(place)
        data = StreamingDataset(str(place.data), shuffle=True, drop_last=False, seed=place.seed)
        return stateful(
            StreamingDataLoader(data, batch_size=place.batch, num_workers=place.workers), state
        )


class LitdataGlobal(Litdata):
    """litdata StreamingDataset(shuffle=True, drop_last=False), the same global batch"""

    same_global_batch = True


class Grain(Loader):
    """grain DataLoader, IndexSampler(shuffle=True)"""

    needs = ("grain",)

    def prepare(self) -> None:
        """Import the library, whose flags must be read before it starts a process."""
        import grain  # noqa: F401
        from absl import flags

        flags.FLAGS.mark_as_parsed()

    def open(self, place: Place, state: Any | None) -> Reading:
        from grain import python as grain

        data = read_numbers(place.data)
        shard = grain.ShardOptions(shard_index=place.rank, shard_count=place.world)
        sampler = grain.IndexSampler(len(data), shard, shuffle=True, num_epochs=1, seed=place.seed)
        batch = grain.Batch(batch_size=place.batch, drop_remainder=False)
        loader = grain.DataLoader(
            data_source=data, sampler=sampler, operations=[batch], worker_count=place.workers
        )
        batches = iter(loader)
        if state is not None:
            batches.set_state(state)
        return Reading(batches, lambda numbers: numbers, batches.get_state)


class GrainElastic(Grain):
    """grain ElasticIterator over a shuffled MapDataset, the state of rank 0, the same global batch"""

    state_of = "first"
    same_global_batch = True

    def open(self, place: Place, state: Any | None) -> Reading:
        import grain
        from grain.experimental import ElasticIterator

        data: Any = grain.MapDataset.source(read_numbers(place.data)).shuffle(place.seed)
        workers = grain.MultiprocessingOptions(place.workers) if place.workers else None
        shard = grain.sharding.ShardOptions(shard_index=place.rank, shard_count=place.world)
        batches = ElasticIterator(
            data, place.batch * place.world, shard, multiprocessing_options=workers
        )
        reading = iter(batches)
        if state is not None:
            reading.set_state(state)
        return Reading(reading, lambda numbers: numbers, reading.get_state)


class Planted(Loader):
    """a planted fault: a state that is a batch late, so each rank repeats a batch"""

    changes = ("nothing",)
    late = 1

    def open(self, place: Place, state: Any | None) -> Reading:
        mine, given = read_numbers(place.data)[place.rank :: place.world], [state or 0]

        def batches() -> Iterator[list[int]]:
            while given[0] < len(mine):
                given[0] += place.batch
                yield mine[given[0] - place.batch : given[0]]

        return Reading(
            batches(), lambda numbers: numbers, lambda: given[0] - self.late * place.batch
        )


class PlantedEarly(Planted):
    """a planted fault: a state that is a batch early, so each rank loses a batch"""

    late = -1


CLASSES = (
    Volt,
    Torchdata,
    Datasets,
    Mosaic,
    Litdata,
    LitdataGlobal,
    Grain,
    GrainElastic,
    Planted,
    PlantedEarly,
)
LOADERS: dict[str, type[Loader]] = {one.__name__.lower(): one for one in CLASSES}
