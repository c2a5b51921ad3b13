"""Where a stream gets its blocks: from this process, or from workers that are started when a block is first needed.

>>> supply = Supply((), Policy(), n_workers=0)
>>> _ = supply.start([], shares=[])
>>> supply.close(), supply.close()
(True, False)
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from volt.stream.reading.faults import Policy
from volt.stream.reading.source import OpenSource, addresses
from volt.stream.running.blocks import ComputedBlock
from volt.stream.running.state import Cursor
from volt.stream.running.workers import Address, Blocks, LocalBlocks, StartMethod, WorkerBlocks


class Supply:
    """Gives the blocks of a rank's sources in order, from where cursors stand when it starts."""

    def __init__(
        self,
        sources: Sequence[OpenSource],
        policy: Policy,
        *,
        n_workers: int,
        start_method: StartMethod = "spawn",
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self._sources, self._policy = sources, policy
        self.n_workers, self.start_method = n_workers, start_method
        self._rank, self._world = rank, world
        self._blocks: Blocks | None = None

    def take(
        self, source: int, *, cursors: Sequence[Cursor], shares: Sequence[float]
    ) -> tuple[Address, ComputedBlock] | None:
        """The next block of a source, or None when it has no more.

        cursors: where the sources stand; needed where this call is the one that starts the computation.
        shares: how the next samples are shared among the sources.
        Raises StreamError if a worker has died.
        """
        return (self._blocks or self.start(cursors, shares=shares)).take(source)

    def start(self, cursors: Sequence[Cursor], *, shares: Sequence[float]) -> Blocks:
        """Begin to compute: the blocks in use first, since they are not kept."""
        queues = [
            addresses(source, rank=self._rank, world=self._world, start=(cursor.epoch, cursor.block))
            for source, cursor in zip(self._sources, cursors, strict=True)
        ]
        if self.n_workers:
            self._blocks = WorkerBlocks(
                self._sources, queues, self._policy, n_workers=self.n_workers, start_method=self.start_method
            )
        else:
            self._blocks = LocalBlocks(self._sources, queues, self._policy)
        self._finalizer = weakref.finalize(self, self._blocks.close)
        self._blocks.expect(shares)
        return self._blocks

    def expect(self, shares: Sequence[float]) -> None:
        """Look at the workers, and say how the next samples are shared. Raises StreamError if a worker has died."""
        if self._blocks is not None:
            self._blocks.expect(shares)

    def close(self) -> bool:
        """End the workers; whether there was anything to end. What is asked for next starts anew."""
        if self._blocks is None:
            return False
        self._finalizer.detach()
        self._blocks.close()
        self._blocks = None
        return True
