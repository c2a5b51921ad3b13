"""The project's steps as a dataset of PyTorch, whose workers are those of the loader.

InDataLoader        a DataLoader, and the state that each batch holds with tell=True
InStatefulLoader    torchdata's StatefulDataLoader, and `StreamDataset.state_of` what it says
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from experiments.resume.loaders import Place, Reading
from experiments.resume.loaders_volt import Options, Steps, ended, steps_of


def make_steps(place: Place, *, rank: int, world: int) -> Any:
    """The steps of one rank, computed where they are read. Of two rows and more, so that none is left at the end."""
    options = Options.drawn(place.seed)
    rule = Steps().rule(options, max(place.batch, 16 if options.packed else 2))
    return steps_of(replace(place, rank=rank, world=world, workers=0), options, rule)


class _Told:
    """A DataLoader whose batches hold the state behind them."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.told = loader, ""

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.loader:
            self.told = batch["state"]
            yield ended(batch)

    def state(self) -> str:
        """Behind the last batch."""
        return self.told


class _Asked:
    """A StatefulDataLoader, which asks its workers."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.loader:
            yield ended(batch)

    def state(self) -> Any:
        """For any number of workers and ranks."""
        from volt.ext.torch import StreamDataset

        return StreamDataset.state_of(self.loader.state_dict())


class InDataLoader(Steps):
    """Within torch's own loader."""

    needs: ClassVar[tuple[str, ...]] = ("volt-vocab", "torch")
    told = "volt StreamDataset(tell=True) in DataLoader"

    def prepare(self) -> None:
        """Import torch as well."""
        import torch

        torch.set_num_threads(1)
        super().prepare()

    def open(self, place: Place, state: Any | None) -> Reading:
        """Read by the loader's workers."""
        from torch.utils.data import DataLoader

        return _Told(DataLoader(self.dataset(place, state), batch_size=None, num_workers=place.workers))

    def dataset(self, place: Place, state: Any | None, **options: Any) -> Any:
        """The steps of a rank, behind a state."""
        from volt.ext.torch import StreamDataset

        made = StreamDataset(
            partial(make_steps, place), rank=place.rank, world=place.world, **({"tell": True} | options)
        )
        if state is not None:
            made.load_state_dict(state)
        return made


class InStatefulLoader(InDataLoader):
    """Within torchdata's loader."""

    needs: ClassVar[tuple[str, ...]] = ("volt-vocab", "torchdata", "torch")
    told = "volt StreamDataset in StatefulDataLoader"

    def prepare(self) -> None:
        """Import torchdata as well."""
        import torchdata.stateful_dataloader  # noqa: F401

        super().prepare()

    def open(self, place: Place, state: Any | None) -> Reading:
        """The state is that of the loader."""
        from torchdata.stateful_dataloader import StatefulDataLoader

        data = self.dataset(place, state, tell=False)
        return _Asked(StatefulDataLoader(data, batch_size=None, num_workers=place.workers))
