"""mosaicml-streaming: StreamingDataset over MDS shards, and the state of its StreamingDataLoader.

Its documents ask for the state of rank 0, which serves all ranks. Ranks meet through torch.distributed, as with a
launcher on one node. Shared memory of killed ranks is cleaned by the library's own function before ranks open it anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.resume.loaders import Loader, Place, Reading, meet


class _Reading:
    def __init__(self, loader: Any, state: Any | None) -> None:
        self.loader = loader
        if state is not None:
            loader.load_state_dict(state)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.loader:
            yield [int(number) for number in batch["number"]]

    def state(self) -> Any:
        return self.loader.state_dict()


class Mosaic(Loader):
    """Shuffled with the algorithm that it has by default."""

    needs = ("mosaicml-streaming", "torch")
    told = "StreamingDataset(shuffle=True) in StreamingDataLoader"
    state_of = "first"
    meets = True

    def prepare(self) -> None:
        """Import the library."""
        import streaming
        import torch

        torch.set_num_threads(1)
        streaming.base.util.clean_stale_shared_memory()

    def write(self, data: Path, *, n: int, shards: int) -> None:
        """MDS shards of about as many samples as the text files have."""
        from streaming import MDSWriter

        columns, sizes = {"number": "int"}, _size_of_shard(n, shards)
        with MDSWriter(out=str(data), columns=columns, size_limit=sizes) as out:
            for number in range(n):
                out.write({"number": number})

    def open(self, place: Place, state: Any | None) -> Reading:
        """Ranks are those of one node."""
        from streaming import StreamingDataLoader, StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        os.environ |= {"RANK": str(place.rank), "WORLD_SIZE": str(place.world), "LOCAL_RANK": str(place.rank)}
        os.environ |= {"LOCAL_WORLD_SIZE": str(place.world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
        meet(place)
        clean_stale_shared_memory()
        data = StreamingDataset(local=str(place.data), shuffle=True, shuffle_seed=place.seed, batch_size=place.batch)
        return _Reading(StreamingDataLoader(data, batch_size=place.batch, num_workers=place.workers), state)


def _size_of_shard(n: int, shards: int) -> int:
    """The limit, in bytes, at which a shard holds n / shards numbers: 8 bytes each, 4 of an offset, and a head.

    >>> _size_of_shard(2400, 12) > 200 * 12
    True
    """
    return 12 * (n // shards) + 300
