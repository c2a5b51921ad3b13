"""litdata: StreamingDataset over its own chunks, and the state of its StreamingDataLoader."""

from __future__ import annotations

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
            yield [int(number) for number in batch]

    def state(self) -> Any:
        return self.loader.state_dict()


def itself(number: int) -> int:
    """The sample of an input."""
    return number


class Lit(Loader):
    """Shuffled, nothing dropped."""

    needs = ("litdata", "torch")
    told = "StreamingDataset(shuffle=True, drop_last=False) in StreamingDataLoader"
    meets = True

    def prepare(self) -> None:
        """Import the library."""
        import litdata  # noqa: F401
        import torch

        torch.set_num_threads(1)

    def write(self, data: Path, *, n: int, shards: int) -> None:
        """Chunks of as many samples as the text files have."""
        from litdata import optimize

        optimize(
            fn=itself, inputs=list(range(n)), output_dir=str(data), chunk_size=n // shards, num_workers=1,
            start_method="fork",
        )  # fmt: skip

    def open(self, place: Place, state: Any | None) -> Reading:
        """Ranks are those of torch's process group."""
        from litdata import StreamingDataLoader, StreamingDataset

        meet(place)
        data = StreamingDataset(str(place.data), shuffle=True, drop_last=False, seed=place.seed)
        return _Reading(StreamingDataLoader(data, batch_size=place.batch, num_workers=place.workers), state)
