"""`Prefetcher`: chunks computed ahead by a pool of threads or processes, and taken in order.

    addresses of a source → Prefetcher → pool → Prefetcher → chunks in the order of the addresses

Only a few chunks are requested ahead, which bounds memory.

>>> Threads(print, n=1).close()
"""

from __future__ import annotations

import heapq
import math
import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Protocol

from volt.errors import StreamError
from volt.files.threads import can_wait
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.chunk_computation import Address, ComputedChunk, Form, compute_chunk

PATIENCE = 0.1  # maximum seconds per wait, because signals do not interrupt waits in some libraries
_GRACE = 2.0  # seconds for threads to finish their chunks
_FULL = 1 << 20  # bytes of a chunk that counts as one requested chunk
_LEAST = 1 / 8  # the least that a small chunk counts as
Job = tuple[int, Address]  # the number of a source, and the address of one of its chunks
Done = tuple[int, Address, ComputedChunk]
Compute = Callable[[Job], Done]


def computed(job: Job, sources: Sequence[OpenSource], policy: ErrorPolicy, form: Form) -> Done:
    source, address = job
    return source, address, compute_chunk(sources[source], address, policy, form=form)


class Pool(Protocol):
    @property
    def has_room(self) -> bool:
        """True if a worker will soon be idle."""

    def request(self, job: Job) -> None:
        """Request a chunk."""

    def flush(self) -> None:
        """Send the requests to the workers. Raises StreamError if a worker has ended."""

    def receive(self, timeout: float) -> Sequence[Done]:
        """Return computed chunks, waiting up to `timeout` seconds. Raises StreamError if a worker has failed."""

    def close(self) -> None: ...


@dataclass(slots=True)
class _Queue:
    """One source's chunks: addresses to request, addresses requested (in order), and chunks ready."""

    addresses: Iterator[Address]
    pool: Pool
    chunk_lines: int
    line_bytes: float
    requested: deque[Address] = field(default_factory=deque)
    ready: dict[Address, ComputedChunk] = field(default_factory=dict)
    share: float = 1.0

    def cost(self, address: Address) -> float:
        n_lines = address.block.n_lines if address.block.is_begun else self.chunk_lines
        return min(1.0, max(_LEAST, n_lines * self.line_bytes / _FULL))

    def samples(self, addresses: Sequence[Address]) -> float:
        """Return after how many lines of the stream the chunks at these addresses are used up."""
        lines = sum(min(self.chunk_lines, address.block.n_lines) for address in addresses)
        return lines / self.share if self.share > 0 else math.inf


class Prefetcher:
    """Requests enough chunks from each pool to keep its workers busy.

    queues: the addresses of each source's chunks
    pools: the pool of each source
    most: the maximum number of chunks requested ahead, in addition to one for each source; up to eight small chunks
        count as one
    """

    def __init__(
        self,
        sources: Sequence[OpenSource],
        queues: Sequence[Iterator[Address]],
        pools: Sequence[Pool],
        *,
        most: int,
    ) -> None:
        self._queues = [
            _Queue(queue, pool, source.chunk_lines, source.n_bytes / source.n_lines)
            for queue, pool, source in zip(queues, pools, sources, strict=True)
        ]
        self._pools = list(dict.fromkeys(pools))
        # for each pool, a heap of (lines until a source's chunks run out, source)
        self._needs = dict[Pool, list[tuple[float, int]]]()
        self._most = most + len(self._queues)
        self._n_requested = 0.0
        self._closed = False
        self._shares = list[float]()

    def is_ready(self, source: int) -> bool:
        queue = self._queues[source]
        return bool(queue.requested) and queue.requested[0] in queue.ready

    def expect(self, shares: Sequence[float]) -> None:
        """Store the sources' shares of the next lines; request chunks first for sources that will run out first."""
        if self._shares != shares:
            self._shares = [*shares]
            self._needs = {pool: [] for pool in self._pools}
            for source, queue in enumerate(self._queues):
                queue.share = shares[source]
                if queue.share > 0:
                    need = queue.samples(queue.requested), source
                    heapq.heappush(self._needs[queue.pool], need)
        self._receive()

    def take(self, source: int) -> tuple[Address, ComputedChunk] | None:
        """Return the next chunk of a source; None at its end. Raises StreamError if a worker has ended early."""
        queue = self._queues[source]
        while not self.is_ready(source):
            self._check_open()
            if not queue.requested and not self._request(source):
                return None
            self._receive(PATIENCE, queue.pool)
        self._check_open()
        address = queue.requested.popleft()
        chunk = queue.ready.pop(address)
        self._n_requested -= queue.cost(address)
        self._fill()
        return address, chunk

    def _check_open(self) -> None:
        if self._closed:
            raise StreamError(
                "the workers have ended; read the stream itself, which starts new ones"
            )

    def _fill(self) -> None:
        """Request chunks ahead, for sources that will run out first."""
        # small chunks are requested eight or more at a time
        is_low = self._n_requested <= self._most - 1
        while is_low and self._n_requested < self._most:
            heaps = [heap for pool, heap in self._needs.items() if heap and pool.has_room]
            if not heaps:
                break
            need, source = heapq.heappop(min(heaps))
            queue = self._queues[source]
            if self._request(source):
                need += queue.samples([queue.requested[-1]])
                heapq.heappush(self._needs[queue.pool], (need, source))
        for pool in self._pools:
            pool.flush()

    def _request(self, source: int) -> bool:
        """Request a source's next chunk. Return False if there is none."""
        queue = self._queues[source]
        for address in queue.addresses:
            queue.requested.append(address)
            self._n_requested += queue.cost(address)
            queue.pool.request((source, address))
            return True
        return False

    def _receive(self, timeout: float = 0.0, awaited: Pool | None = None) -> None:
        self._fill()
        for pool in self._pools:
            for source, address, chunk in pool.receive(timeout if pool is awaited else 0.0):
                self._queues[source].ready[address] = chunk
        self._fill()

    def interrupt(self) -> None:
        self._closed = True

    def close(self) -> None:
        self._closed = True
        for pool in self._pools:
            pool.close()


class ThisThread:
    """A `Pool` that computes a chunk in the calling thread, when it is awaited."""

    has_room = False

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._jobs = deque[Job]()
        self.request = self._jobs.append

    def flush(self) -> None: ...

    def receive(self, timeout: float) -> Sequence[Done]:
        if not timeout:
            return ()
        result = self._compute(self._jobs[0])
        self._jobs.popleft()  # only now, so that an interrupted job is computed again
        return (result,)

    def close(self) -> None: ...


class Threads:
    """A `Pool` of n threads, for compiled code."""

    def __init__(self, compute: Compute, *, n: int) -> None:
        self._compute = compute
        self._n = n
        self._jobs = SimpleQueue[Job | None]()
        self._done = SimpleQueue[Done | str]()
        self._n_requested = 0
        self._closed = False
        self._pid = os.getpid()
        self._threads = [
            threading.Thread(target=self._work, daemon=True, name="volt-stream") for _ in range(n)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def has_room(self) -> bool:
        return self._n_requested < 2 * self._n

    def request(self, job: Job) -> None:
        self._n_requested += 1
        self._jobs.put(job)

    def flush(self) -> None: ...

    def receive(self, timeout: float) -> Sequence[Done]:
        result = list[Done]()
        with suppress(Empty):
            while True:
                done = self._done.get(bool(timeout), timeout)
                if isinstance(done, str):
                    self.close()
                    raise StreamError(f"a worker failed:\n{done}")
                self._n_requested -= 1
                result.append(done)
                timeout = 0.0
        return result

    def _work(self) -> None:
        while not self._closed and (job := self._jobs.get()) is not None:
            try:
                done = self._compute(job)
            except BaseException:
                self._done.put(traceback.format_exc())
                return
            self._done.put(done)

    def close(self) -> None:
        self._closed = True
        if not can_wait(self._pid):
            return
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + _GRACE
        for thread in self._threads:
            # a worker may be the thread that garbage-collects the stream
            if thread is not threading.current_thread():
                thread.join(max(0, deadline - time.monotonic()))
        self._threads = []
