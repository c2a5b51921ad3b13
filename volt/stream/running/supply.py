"""Where a stream gets its blocks: from this thread, from others, or from processes where transforms are Python code.

Workers are started when a block is first needed.

>>> supply = Supply((), Policy(), n_workers=0)
>>> _ = supply.start([], shares=[])
>>> supply.close(), supply.close()
(True, False)
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence

from volt.stream.reading.faults import Policy
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.shares import parts
from volt.stream.running.ahead import Blocks, BlocksAhead, LocalBlocks, Pool
from volt.stream.running.blocks import ComputedBlock, Form
from volt.stream.running.chunks import Address, most_of, n_chunks
from volt.stream.running.processes import Processes, StartMethod
from volt.stream.running.state import Cursor
from volt.stream.running.threads import Threads

_AHEAD = 2  # blocks that are asked for, for each worker


def addresses(source: OpenSource, cursor: Cursor, *, rank: int, world: int) -> Iterator[Address]:
    """Every block of a source that is a rank's, from a cursor on."""
    found = parts(
        source.n_lines, source.block_lines, rank=rank, world=world, deal=cursor.deal, epochs=source.source.epochs,
        start=cursor.address,
    )  # fmt: skip
    for part in found:
        begun = cursor.chunk if part.address == cursor.address else 0
        for chunk in range(begun, n_chunks(part.n_lines, most=most_of(source, part))):
            yield Address(part, chunk)


class Supply:
    """Gives the blocks of a rank's sources in order, from where cursors stand when it starts.

    time_limit: seconds that a block of Python code may take. With a limit such code runs in a process that can be
        ended, also without workers
    form: what the blocks hold that are computed from the next start on, lines or columns
    """

    def __init__(
        self,
        sources: Sequence[OpenSource],
        policy: Policy,
        *,
        n_workers: int,
        start_method: StartMethod = "spawn",
        time_limit: float | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.sources, self._policy, self.time_limit = sources, policy, time_limit
        self.n_workers, self.start_method = n_workers, start_method
        self._rank, self._world = rank, world
        self.form: Form = "lines"
        self._blocks: Blocks | None = None
        self._pid = os.getpid()

    @property
    def is_started(self) -> bool:
        """Whether blocks are being computed."""
        return self._blocks is not None

    def is_ready(self, source: int) -> bool:
        """Check whether the next block of a source has been computed."""
        return self._blocks is not None and self._blocks.is_ready(source)

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """Return the next block of a source, or None when it has no more; `start` comes first.

        Raises StreamError if a worker has died.
        """
        assert self._blocks is not None
        return self._blocks.take(source)

    def start(self, cursors: Sequence[Cursor], *, shares: Sequence[float]) -> None:
        """Begin to compute: first the blocks in use, since they are not kept.

        cursors: how far the sources have been read
        shares: how the next samples are shared among the sources
        """
        queues = [
            addresses(source, cursor, rank=self._rank, world=self._world)
            for source, cursor in zip(self.sources, cursors, strict=True)
        ]
        is_limited = self.time_limit is not None and not all(source.is_compiled for source in self.sources)
        if n_workers := self.n_workers or int(is_limited):
            self._blocks = BlocksAhead(self.sources, queues, self._pools(n_workers), most=_AHEAD * n_workers)
        else:
            self._blocks = LocalBlocks(self.sources, queues, self._policy, form=self.form)
        self._finalizer, self._pid = weakref.finalize(self, self._blocks.close), os.getpid()
        self._blocks.expect(shares)

    def _pools(self, n_workers: int) -> list[Pool]:
        """Who computes the blocks of each source: threads, or processes where no thread could go on meanwhile."""
        threads: Pool | None = None
        processes: Pool | None = None
        if not all(source.is_compiled for source in self.sources):
            processes = Processes(
                self.sources, self._policy, n=n_workers, start_method=self.start_method,
                time_limit=self.time_limit, form=self.form,
            )  # fmt: skip
        if any(source.is_compiled for source in self.sources):
            threads = Threads(self.sources, self._policy, n=n_workers, form=self.form)
        found = [threads if source.is_compiled else processes for source in self.sources]
        return [pool for pool in found if pool is not None]

    def expect(self, shares: Sequence[float]) -> None:
        """Look at the workers, and say how the next samples are shared. Raises StreamError if a worker has died."""
        if self._blocks is not None:
            self._blocks.expect(shares)

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether workers were started by a process that this one is a fork of."""
        return self._blocks is not None and self._pid != os.getpid()

    def interrupt(self) -> None:
        """Have another thread that waits for workers raise StreamError."""
        if (blocks := self._blocks) is not None:
            blocks.interrupt()

    def close(self) -> bool:
        """End the workers; whether there was anything to end. What is asked for next starts anew."""
        if self._blocks is None:
            return False
        self._finalizer.detach()
        if not self.is_from_elsewhere:
            self._blocks.close()
        self._blocks = None
        return True
