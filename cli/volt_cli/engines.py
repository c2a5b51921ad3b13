"""Options that say where counting and encoding run (this process or Ray), and how much memory they may take.

>>> Bounds().budget() is None, Bounds(memory="1G").budget().n_bytes
(True, 1073741824)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from volt.errors import ConfigError

if TYPE_CHECKING:
    from volt.count.budget import Budget
    from volt.count.corpus import Map
    from volt.count.word_counts import WordCounts
    from volt.encode.files import Write


@dataclass(frozen=True)
class Bounds:
    """The memory limit of counting and learning."""

    PANEL = "Reading and counting"

    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="About what counting and learning may take, such as 2G; words beyond it go to the disk. The "
            "first use on a machine compiles, in 150 MB more. Default: any.",
            show_default=False,
        ),
    ] = None
    approximate: Annotated[
        bool,
        typer.Option(
            "--approximate", help="With --memory: forget the rarest words, and report by how much counts are off."
        ),
    ] = False

    def budget(self) -> Budget | None:
        """Return the limit; None for no limit. Raises ConfigError if it is not a size, or too small."""
        from volt.count.budget import Budget

        return None if self.memory is None else Budget.of(self.memory)

    def check(self, counts: WordCounts) -> None:
        """Raise CorpusError if learning from so many words would take more."""
        if budget := self.budget():
            budget.check_learning(counts.table, approximate=self.approximate)


@dataclass(frozen=True)
class EngineOptions:
    """The engine that does the work."""

    PANEL = "Engine"

    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(metavar="NAME", help="local: this process; ray: workers of a cluster of Ray, with equal results."),
    ] = "local"
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="With --engine ray: a cluster that runs: auto, HOST:PORT or ray://HOST:PORT. Default: this machine, "
            "for this command.",
        ),
    ] = None

    @property
    def is_ray(self) -> bool:
        """True if workers of Ray do the work."""
        return self.engine == "ray"

    def check(self, paths: Iterable[str]) -> None:
        """Raise ConfigError if options contradict each other or workers cannot read a path.

        Raises MissingLibraryError if Ray is asked for and not installed.
        """
        if self.address is not None and not self.is_ray:
            raise ConfigError("--address names a cluster of Ray; add --engine ray")
        if self.is_ray:
            from volt.ext.ray import readable_by_workers

            readable_by_workers(paths)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Connect to Ray's cluster inside the block, so that it starts once."""
        if not self.is_ray:
            yield
            return
        from volt.ext.ray_cluster import connected

        with redirect_stdout(sys.stderr), connected(self.address):  # Ray tells there what its machines do
            yield

    def shard_map(self, *, add_up: bool) -> Map:
        """Return the map that counts the files of a corpus. add_up: workers of Ray add up their counts."""
        if not self.is_ray:
            return map
        from volt.ext.ray import RayMap

        return RayMap(address=self.address, add_up=add_up)

    def writer(self) -> Write | None:
        """Return the writer of a folder's outputs; None for this process."""
        if not self.is_ray:
            return None
        from volt.ext.ray import RayWriter

        return RayWriter(address=self.address)
