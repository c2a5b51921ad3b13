"""What a loader must offer to be killed and resumed, and where each of them is.

A driver is a module with one or more classes. An instance is one way of reading the samples; it knows how to write
them in the loader's own format, and how to open them for one rank. Whatever it imports of the loader, it imports
within its methods, so that this module can be read where the loader is not installed.

>>> sorted(LOADERS)[:2], driver("torchdata-map").changes
(['datasets', 'datasets-loader'], ('nothing', 'workers', 'world', 'both'))
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Protocol

CHANGES = ("nothing", "workers", "world", "both")


@dataclass(frozen=True, slots=True)
class Place:
    """One rank of one leg of a round.

    data: the folder in which the samples are
    meet: a file of this leg alone, through which ranks can find each other
    rank, world, workers, batch: its number, the number of ranks, of workers of each, and of samples in a batch
    n, seed: the number of samples, and what the loader's shuffling follows from
    """

    data: Path
    meet: Path
    rank: int
    world: int
    workers: int
    batch: int
    n: int
    seed: int


class Reading(Protocol):
    """A loader that is open: it gives the numbers of the samples of each batch, and its state between two."""

    def __iter__(self) -> Iterator[list[int]]: ...

    def state(self) -> Any: ...


class Loader:
    """One way of reading samples.

    needs: the distributions whose versions the table tells, the first of them the loader's own
    told: what the table calls it
    changes: what may be different at a resume
    state_of: whose state a rank is given. "own": its own; where the world has changed rank r has that of rank r modulo
        the old world. "first": the first rank's, for a loader whose documents say that one state serves all.
    meets: whether ranks find each other through torch.distributed
    """

    needs: ClassVar[tuple[str, ...]] = ()
    told: ClassVar[str] = ""
    changes: ClassVar[tuple[str, ...]] = CHANGES
    state_of: ClassVar[str] = "own"
    meets: ClassVar[bool] = False

    def prepare(self) -> None:
        """Import what ranks will need, once, before they are forked."""

    def write(self, data: Path, *, n: int, shards: int) -> None:
        """Write the samples 0 … n−1 where `open` finds them."""
        write_text(data, n=n, shards=shards)

    def open(self, place: Place, state: Any | None) -> Reading:
        """The samples of one rank: from the start, or behind a state."""
        raise NotImplementedError


LOADERS = {
    "volt": "loaders_volt:Steps",
    "volt-by-id": "loaders_volt:StepsById",
    "volt-by-token": "loaders_volt:StepsByToken",
    "volt-loader": "loaders_volt_torch:InDataLoader",
    "volt-stateful-loader": "loaders_volt_torch:InStatefulLoader",
    "torchdata-map": "loaders_torchdata:MapStyle",
    "torchdata-iterable": "loaders_torchdata:Iterable",
    "torchdata-iterable-state": "loaders_torchdata:IterableWithState",
    "datasets": "loaders_datasets:Streaming",
    "datasets-shuffled": "loaders_datasets:Shuffled",
    "datasets-loader": "loaders_datasets:StreamingInLoader",
    "datasets-shuffled-loader": "loaders_datasets:ShuffledInLoader",
    "mosaic": "loaders_mosaic:Mosaic",
    "litdata": "loaders_litdata:Lit",
    "grain-loader": "loaders_grain:GrainLoader",
    "grain-dataset": "loaders_grain:GrainDataset",
}
PLANTED = ("Exact", "Late", "Early", "Refusing", "Failing", "Hanging")


def driver(name: str) -> Loader:
    """The driver of that name, or one with a fault that is known."""
    module, _, kind = (f"planted:{name}" if name in PLANTED else LOADERS[name]).partition(":")
    made: Loader = getattr(importlib.import_module(f"experiments.resume.{module}"), kind)()
    return made


def write_text(data: Path, *, n: int, shards: int) -> None:
    """Text files of almost equal length; line i of all, in the order of their names, is i."""
    data.mkdir(parents=True, exist_ok=True)
    bounds = [n * shard // shards for shard in range(shards + 1)]
    for shard, (first, last) in enumerate(pairwise(bounds)):
        (data / f"{shard:03}.txt").write_text("".join(f"{number}\n" for number in range(first, last)))


def read_text(path: Path) -> Iterator[int]:
    """The numbers in a text file."""
    with path.open() as file:
        yield from map(int, file)


def meet(place: Place) -> None:
    """Join torch's process group of this leg, where there is more than one rank."""
    import torch.distributed as distributed

    if place.world > 1:
        distributed.init_process_group(
            "gloo", init_method=f"file://{place.meet}", rank=place.rank, world_size=place.world
        )
