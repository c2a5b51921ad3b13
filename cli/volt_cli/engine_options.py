"""Options for where counting and encoding run (this process or Ray), and for a memory limit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from volt.errors import ConfigError
from volt_cli.console import say
from volt_cli.options import flag, option

if TYPE_CHECKING:
    from volt.count.bounded_sums import Budget
    from volt.count.corpus import Map
    from volt.count.word_counts import WordCounts
    from volt.ext.ray import RayWriter


@dataclass(frozen=True)
class Bounds:
    """The memory and the folder that counting may use."""

    PANEL = "Reading and counting"

    memory: Annotated[
        str | None,
        option(
            "BYTES",
            "Approximate memory for counting and learning, such as 2G; words beyond it go to the disk. Compiling, "
            "at the first use on a machine, takes 150 MB more. Default: no limit.",
            show_default=False,
        ),
    ] = None
    approximate: Annotated[
        bool, flag("With --memory: drop rare words; report the error.", "--approximate")
    ] = False
    keep: Annotated[
        str | None,
        option(
            "FOLDER",
            "Keep partial counts in a folder or bucket; after an interruption, count only the rest.",
        ),
    ] = None

    def budget(self) -> Budget | None:
        from volt.count.bounded_sums import Budget

        return None if self.memory is None else Budget.of(self.memory)

    def check(self, counts: WordCounts) -> None:
        """Raise CorpusError if learning from these counts would exceed the memory."""
        budget = self.budget()
        if budget:
            budget.check_learning(counts.table, approximate=self.approximate)


@dataclass(frozen=True)
class EngineOptions:
    PANEL = "Engine"

    engine: Annotated[
        Literal["local", "ray"], option("NAME", "local: this process; ray: a Ray cluster.")
    ] = "local"
    address: Annotated[
        str | None,
        option(
            "HOST:PORT",
            "A running Ray cluster: auto, HOST:PORT or ray://HOST:PORT; default: only this machine.",
        ),
    ] = None

    @property
    def is_ray(self) -> bool:
        return self.engine == "ray"

    def check(self, paths: Iterable[str]) -> None:
        """Raise ConfigError if workers cannot read a path."""
        if self.address is not None and not self.is_ray:
            raise ConfigError(
                "--address works only with --engine ray; add --engine ray, or remove --address"
            )
        if self.is_ray:
            from volt.ext.ray import WHY
            from volt.files.paths import check_files

            check_files(paths, WHY)

    @contextmanager
    def running(self, *, connects: bool = True) -> Iterator[None]:
        """Connect to Ray in the block, and suppress what Ray prints about machines that die."""
        if not self.is_ray:
            yield
            return
        from volt.ext.ray_cluster import connected

        cluster = connected(self.address) if connects else nullcontext()
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), cluster:
            yield

    def shard_map(self, *, add_up: bool, quiet: bool) -> Map:
        """Return a function like `map`, which runs here or on Ray.

        add_up: whether Ray's workers add up their counts
        """
        if not self.is_ray:
            return map
        from volt.ext.ray import RayMap

        return RayMap(address=self.address, add_up=add_up, report=None if quiet else say)

    def writer(self, *, quiet: bool) -> RayWriter | None:
        """Return what encodes and writes files on Ray; None to do so in this process."""
        if not self.is_ray:
            return None
        from volt.ext.ray import RayWriter

        return RayWriter(address=self.address, report=None if quiet else say)
