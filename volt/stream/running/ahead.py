"""Blocks computed ahead of need, by whoever computes them, and handed over in order.

What a block holds does not depend on who computes it, so neither the number of workers nor their speed changes the
output. Memory is bounded: only a few blocks are asked for before the first of them is taken.

>>> LocalBlocks([], [], Policy()).close()
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from volt.errors import StreamError
from volt.stream.reading.faults import Policy
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.blocks import ComputedBlock, Form, compute_block
from volt.stream.running.chunks import Address

PATIENCE = 0.1  # seconds between looks at signals: some libraries keep a wait from being interrupted
Done = tuple[int, Address, ComputedBlock]  # source, and what was asked for


class Blocks(Protocol):
    """Blocks of each source, in the order of the addresses given at the start."""

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """The next block of a source, or None when it has no more."""

    def expect(self, shares: Sequence[float]) -> None:
        """Say how the next samples are shared among the sources, so that the right blocks are computed first."""

    def close(self) -> None:
        """Let go of everything; may be called twice."""


class Pool(Protocol):
    """Computes blocks at the same time as others."""

    @property
    def has_room(self) -> bool:
        """Whether one who computes would soon have nothing to do."""

    def ask(self, source: int, address: Address) -> None:
        """Have a block computed. Raises StreamError if nobody is left to do it."""

    def receive(self, timeout: float) -> Sequence[Done]:
        """What has been done; if there is nothing, whatever comes within so many seconds.

        Raises StreamError if one who computes has failed.
        """

    def close(self) -> None:
        """Let go of everything; may be called twice."""


class LocalBlocks:
    """Blocks computed in this thread when they are taken."""

    def __init__(
        self,
        sources: Sequence[OpenSource],
        queues: Sequence[Iterator[Address]],
        policy: Policy,
        *,
        form: Form = "lines",
    ) -> None:
        self._sources, self._queues, self._policy, self._form = sources, queues, policy, form

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """The next block of a source, or None when it has no more."""
        address = next(self._queues[source], None)
        if address is None:
            return None
        return address, compute_block(self._sources[source], address, self._policy, form=self._form)

    def expect(self, shares: Sequence[float]) -> None:
        """Nothing is computed ahead."""

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class _Line:
    """The blocks of one source: addresses to come, asked for but not taken (in order), and computed."""

    queue: Iterator[Address]
    pool: Pool
    chunk_lines: int
    asked: deque[Address] = field(default_factory=deque)
    ready: dict[Address, ComputedBlock] = field(default_factory=dict)
    ended: bool = False
    share: float = 1.0

    def next(self) -> Address | None:
        """The next address, now asked for."""
        address = next(self.queue, None)
        self.ended = address is None
        if address is not None:
            self.asked.append(address)
        return address

    @property
    def supply(self) -> float:
        """Samples of the stream for which the blocks asked for are enough."""
        return len(self.asked) * self.chunk_lines / self.share if self.share > 0 else math.inf


class BlocksAhead:
    """Blocks computed by pools; of each pool, about as many are asked for as those who compute need to go on.

    sources, queues: and the addresses of their blocks
    pools: which pool computes the blocks of each source
    most: how many blocks are asked for and not yet taken, at most, besides one for each source
    """

    def __init__(
        self, sources: Sequence[OpenSource], queues: Sequence[Iterator[Address]], pools: Sequence[Pool], *, most: int
    ) -> None:
        parts = zip(queues, pools, sources, strict=True)
        self._lines = [_Line(queue, pool, source.chunk_lines) for queue, pool, source in parts]
        self._pools = list(dict.fromkeys(pools))
        self._most, self._closed = most, False

    def expect(self, shares: Sequence[float]) -> None:
        """Ask first for the blocks of the sources that will run out first."""
        for line, share in zip(self._lines, shares, strict=True):
            line.share = share
        self._receive()

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """The next block of a source, or None when it has no more. Raises StreamError if a worker has died."""
        line = self._lines[source]
        if self._closed:
            raise StreamError("the workers have ended; read the stream itself, which starts new ones")
        while not line.asked or line.asked[0] not in line.ready:
            if not line.asked and not self._ask_of(source):
                return None
            self._receive(PATIENCE, line.pool)
        address = line.asked.popleft()
        block = line.ready.pop(address)
        self._ask()
        return address, block

    def _ask(self) -> None:
        """Ask for blocks while there is room for them."""
        while sum(len(line.asked) for line in self._lines) < self._most + len(self._lines):
            open_lines = [line for line in self._lines if not line.ended and line.pool.has_room]
            line = min(open_lines, key=lambda line: line.supply, default=None)
            if line is None or line.supply == math.inf:
                return
            self._ask_of(self._lines.index(line))

    def _ask_of(self, source: int) -> bool:
        """Ask for a source's next block, unless it has ended."""
        address = self._lines[source].next()
        if address is not None:
            self._lines[source].pool.ask(source, address)
        return address is not None

    def _receive(self, timeout: float = 0.0, awaited: Pool | None = None) -> None:
        """Take in what has been done, waiting for one of the pools at most so long, and ask for more."""
        self._ask()
        for pool in self._pools:
            for source, address, block in pool.receive(timeout if pool is awaited else 0.0):
                self._lines[source].ready[address] = block
        self._ask()

    def close(self) -> None:
        """End all pools."""
        self._closed = True
        for pool in self._pools:
            pool.close()
