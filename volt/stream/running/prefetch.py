"""Blocks computed ahead of need, by whoever computes them, and handed over in order.

What a block holds does not depend on who computes it, so neither the number of workers nor their speed changes the
output. Memory is bounded: only a few blocks are asked for before the first of them is taken.

>>> LocalBlocks([], [], ErrorPolicy()).close()

Threads that compute blocks. Compiled loops, Arrow and decompression release the interpreter's lock meanwhile.

They start at once, share what vocabularies remember, and end with the process, whatever happens to it.

>>> Threads([], ErrorPolicy(), n=1).close()
"""

from __future__ import annotations

import heapq
import math
import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Protocol

from volt.errors import StreamError
from volt.files.threads import can_wait
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.blocks import Address, ComputedBlock, Form, compute_block

PATIENCE = 0.1  # seconds between looks at signals: some libraries keep a wait from being interrupted
Done = tuple[int, Address, ComputedBlock]  # source, and what was asked for


class Blocks(Protocol):
    """Blocks of each source, in the order of the addresses given at the start."""

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """Return the next block of a source, or None when it has no more."""

    def is_ready(self, source: int) -> bool:
        """Check whether the next block of a source has been computed."""

    def expect(self, shares: Sequence[float]) -> None:
        """Say how the next samples are shared among the sources, so that the right blocks are computed first."""

    def interrupt(self) -> None:
        """Have another thread that waits for a block raise StreamError."""

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
        policy: ErrorPolicy,
        *,
        form: Form = "lines",
    ) -> None:
        self._sources, self._queues, self._policy, self._form = sources, queues, policy, form

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """Return the next block of a source, or None when it has no more."""
        address = next(self._queues[source], None)
        if address is None:
            return None
        return address, compute_block(self._sources[source], address, self._policy, form=self._form)

    def is_ready(self, source: int) -> bool:
        """Return False: nothing is computed ahead."""
        return False

    def expect(self, shares: Sequence[float]) -> None:
        """Nothing is computed ahead."""

    def interrupt(self) -> None:
        """Nothing is waited for."""

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
    share: float = 1.0

    def next(self) -> Address | None:
        """Return the next address, which is asked for now."""
        if (address := next(self.queue, None)) is not None:
            self.asked.append(address)
        return address

    def samples(self, addresses: Sequence[Address]) -> float:
        """Return how many samples of the stream the blocks of these addresses last."""
        lines = sum(min(self.chunk_lines, address.part.n_lines) for address in addresses)
        return lines / self.share if self.share > 0 else math.inf


class Prefetcher:
    """Blocks computed by pools; of each pool, about as many are asked for as its workers need to continue.

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
        self._needs: dict[Pool, list[tuple[float, int]]] = {}  # heaps: when a source's blocks are used up, the source
        self._n_asked, self._most, self._closed = 0, most + len(self._lines), False
        self._share([1.0] * len(self._lines))

    def _share(self, shares: Sequence[float]) -> None:
        self._shares = [*shares]
        self._needs = {pool: [] for pool in self._pools}
        for source, (line, share) in enumerate(zip(self._lines, shares, strict=True)):
            line.share = share
            if share > 0:
                heapq.heappush(self._needs[line.pool], (line.samples(line.asked), source))

    def is_ready(self, source: int) -> bool:
        """Check whether the next block of a source has been computed, and received."""
        line = self._lines[source]
        return bool(line.asked) and line.asked[0] in line.ready

    def expect(self, shares: Sequence[float]) -> None:
        """Ask first for the blocks of the sources that will run out first."""
        if self._shares != [*shares]:
            self._share(shares)
        self._receive()

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """Return the next block of a source, or None when it has no more. Raises StreamError if a worker has died."""
        line = self._lines[source]
        self._check()
        while not line.asked or line.asked[0] not in line.ready:
            self._check()
            if not line.asked and self._ask_of(source) is None:
                return None
            self._receive(PATIENCE, line.pool)
        address = line.asked.popleft()
        block = line.ready.pop(address)
        self._n_asked -= 1
        self._ask()
        return address, block

    def _check(self) -> None:
        if self._closed:
            raise StreamError("the workers have ended; read the stream itself, which starts new ones")

    def _ask(self) -> None:
        while self._n_asked < self._most:
            heaps = [heap for pool, heap in self._needs.items() if heap and pool.has_room]
            if not heaps:
                return
            need, source = heapq.heappop(min(heaps))
            if (address := self._ask_of(source)) is not None:
                line = self._lines[source]
                heapq.heappush(self._needs[line.pool], (need + line.samples([address]), source))

    def _ask_of(self, source: int) -> Address | None:
        address = self._lines[source].next()
        if address is not None:
            self._n_asked += 1
            self._lines[source].pool.ask(source, address)
        return address

    def _receive(self, timeout: float = 0.0, awaited: Pool | None = None) -> None:
        """Take in what has been done, waiting for one of the pools at most so long, and ask for more."""
        self._ask()
        for pool in self._pools:
            for source, address, block in pool.receive(timeout if pool is awaited else 0.0):
                self._lines[source].ready[address] = block
        self._ask()

    def interrupt(self) -> None:
        """Have another thread that waits for a block raise StreamError."""
        self._closed = True

    def close(self) -> None:
        """End all pools."""
        self._closed = True
        for pool in self._pools:
            pool.close()


_GRACE = 2.0  # seconds that threads have to end their block
Job = tuple[int, Address]


class Threads:
    """A `Pool` of n threads of this process. form: that of `compute_block`."""

    def __init__(self, sources: Sequence[OpenSource], policy: ErrorPolicy, *, n: int, form: Form = "lines") -> None:
        self._sources, self._policy, self._n, self._form = sources, policy, n, form
        self._jobs, self._done = SimpleQueue[Job | None](), SimpleQueue[Done | str]()
        self._asked, self._closed, self._pid = 0, False, os.getpid()
        self._threads = [threading.Thread(target=self._work, daemon=True, name="volt-stream") for _ in range(n)]
        for thread in self._threads:
            thread.start()

    @property
    def has_room(self) -> bool:
        """Whether a thread would soon have nothing to do."""
        return self._asked < 2 * self._n

    def ask(self, source: int, address: Address) -> None:
        """Have a block computed."""
        self._asked += 1
        self._jobs.put((source, address))

    def receive(self, timeout: float) -> Sequence[Done]:
        """What has been done; if there is nothing, whatever comes within so many seconds."""
        result = list[Done]()
        with suppress(Empty):
            result.append(self._taken(self._done.get(timeout=timeout) if timeout else self._done.get_nowait()))
            while True:
                result.append(self._taken(self._done.get_nowait()))
        return result

    def _taken(self, done: Done | str) -> Done:
        if isinstance(done, str):
            self.close()
            raise StreamError(f"a worker failed:\n{done}")
        self._asked -= 1
        return done

    def _work(self) -> None:
        while not self._closed and (job := self._jobs.get()) is not None:
            source, address = job
            try:
                block = compute_block(self._sources[source], address, self._policy, form=self._form)
            except BaseException:
                self._done.put(traceback.format_exc())
                return
            self._done.put((source, address, block))

    def close(self) -> None:
        """Let the threads end behind the block that each has in work."""
        self._closed = True
        if not can_wait(self._pid):
            return
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + _GRACE
        for thread in self._threads:
            if thread is threading.current_thread():  # it has collected what this pool belongs to
                continue
            thread.join(max(0, deadline - time.monotonic()))
        self._threads = []
