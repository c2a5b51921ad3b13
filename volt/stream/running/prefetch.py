"""`Prefetcher`: chunks computed ahead by pools of threads or processes, and taken in order.

The life of a chunk, and who owns it:

    address     `Engine` lists the addresses of each source's chunks.
    requested   `Prefetcher` sends (source, address) to the source's `Pool`.
    computed    A worker of the pool calls `compute_chunk`.
    ready       `Prefetcher` stores the chunk until all earlier chunks of the source are taken.
    taken       `Engine` loads the chunk into a `SourceBuffer`, which drops it after its last line.

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
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol

from volt import arguments
from volt.errors import ConfigError, StreamError
from volt.files.threads import MOST_WORKERS, can_wait
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.chunk_computation import (
    Address,
    ComputedChunk,
    Form,
    Job,
    JobResult,
    compute_job,
)
from volt.stream.running.processes import Processes, StartMethod

PATIENCE = 0.1  # maximum seconds per wait, because signals do not interrupt waits in some libraries
_GRACE = 2.0  # seconds for threads to finish their chunks
_FULL_BYTES = 1 << 20  # a chunk of at least so many bytes counts as one requested chunk
_LEAST_COST = 1 / 8  # the least that a small chunk counts as
_CHUNKS_AHEAD = 2  # chunks to request ahead for each worker


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers that compute chunks ahead; see `Stream` for the options."""

    n: int = 0
    start_method: StartMethod = "spawn"
    time_limit: float | None = None

    def __post_init__(self) -> None:
        is_possible = 0 <= arguments.whole(self.n, "n_workers") <= MOST_WORKERS
        if not is_possible or self.start_method not in ("spawn", "fork"):
            values = f"n_workers={self.n}, start_method={self.start_method!r}"
            raise ConfigError(f"{values}: give 0 to {MOST_WORKERS} workers, and spawn or fork")
        limit = self.time_limit
        if limit is not None and not 0 < arguments.number(limit, "time_limit") < math.inf:
            raise ConfigError(f"time_limit={limit}: give seconds above 0, or None for no limit")


def start_prefetcher(
    sources: Sequence[OpenSource],
    queues: Sequence[Iterator[Address]],
    workers: Workers,
    *,
    policy: ErrorPolicy,
    form: Form,
) -> Prefetcher:
    """Start threads for sources whose transforms are compiled, and processes for Python code.

    queues: the addresses of each source's chunks
    """
    compiled = [source.is_compiled for source in sources]
    n_workers = workers.n
    if workers.time_limit is not None and not all(compiled):
        n_workers = max(1, n_workers)  # only a process can be stopped

    compute = partial(compute_job, sources=sources, policy=policy, form=form)
    pools = dict[bool, Pool]()  # whether transforms are compiled → the pool
    if not n_workers:
        pools = dict.fromkeys((True, False), ThisThread(compute))
    elif not all(compiled):
        pools[False] = Processes(
            sources,
            policy,
            n=n_workers,
            start_method=workers.start_method,
            time_limit=workers.time_limit,
            form=form,
        )
    if n_workers and any(compiled):
        pools[True] = Threads(compute, n=n_workers)
    source_pools = [pools[is_compiled] for is_compiled in compiled]
    return Prefetcher(sources, queues, source_pools, n_ahead=_CHUNKS_AHEAD * n_workers)


class Pool(Protocol):
    @property
    def has_room(self) -> bool:
        """True if a worker will soon be idle."""

    def request(self, job: Job) -> None:
        """Request a chunk."""

    def flush(self) -> None:
        """Send the requests to the workers. Raises StreamError if a worker has ended."""

    def receive(self, timeout: float) -> Sequence[JobResult]:
        """Return computed chunks; wait up to `timeout` seconds for the first.

        Raises StreamError if a worker has failed.
        """

    def close(self) -> None: ...


@dataclass(slots=True)
class _Queue:
    """The chunks of one source: not yet requested, requested (in order), and ready.

    share: the share of the stream's next lines that come from this source.
    """

    addresses: Iterator[Address]
    pool: Pool
    chunk_lines: int
    line_bytes: float
    requested: deque[Address] = field(default_factory=deque)
    ready: dict[Address, ComputedChunk] = field(default_factory=dict)
    share: float = 1.0

    def cost(self, address: Address) -> float:
        """Return the size of a chunk, relative to a full one: from 1/8 to 1."""
        n_lines = address.block.n_lines if address.block.is_begun else self.chunk_lines
        return min(1.0, max(_LEAST_COST, n_lines * self.line_bytes / _FULL_BYTES))

    def n_turns(self, addresses: Sequence[Address]) -> float:
        """Return how many lines the stream delivers until it has used up these chunks."""
        n_lines = sum(min(self.chunk_lines, address.block.n_lines) for address in addresses)
        return n_lines / self.share if self.share > 0 else math.inf


class Prefetcher:
    """Requests enough chunks from each pool to keep its workers busy.

    queues: the addresses of each source's chunks
    pools: the pool of each source
    n_ahead: the maximum number of chunks requested ahead, besides one for each source; up to eight
        small chunks count as one
    """

    def __init__(
        self,
        sources: Sequence[OpenSource],
        queues: Sequence[Iterator[Address]],
        pools: Sequence[Pool],
        *,
        n_ahead: int,
    ) -> None:
        self._queues = [
            _Queue(queue, pool, source.chunk_lines, source.n_bytes / source.n_lines)
            for queue, pool, source in zip(queues, pools, sources, strict=True)
        ]
        self._pools = list(dict.fromkeys(pools))
        # for each pool, a heap of (turns until a source's chunks are used up, source index)
        self._needs = dict[Pool, list[tuple[float, int]]]()
        self._most = n_ahead + len(self._queues)
        self._requested_cost = 0.0
        self._is_closed = False
        self._shares = list[float]()

    def is_ready(self, source: int) -> bool:
        queue = self._queues[source]
        return bool(queue.requested) and queue.requested[0] in queue.ready

    def set_shares(self, shares: Sequence[float]) -> None:
        """Set each source's share of the next lines, and request chunks by need.

        The source whose chunks will be used up first comes first.
        """
        if self._shares != shares:
            self._shares = [*shares]
            self._needs = {pool: [] for pool in self._pools}
            for source, queue in enumerate(self._queues):
                queue.share = shares[source]
                if queue.share > 0:
                    need = queue.n_turns(queue.requested), source
                    heapq.heappush(self._needs[queue.pool], need)
        self._receive()

    def take(self, source: int) -> tuple[Address, ComputedChunk] | None:
        """Return the next chunk of a source; None at the end of the source.

        Raises StreamError if a worker has ended early.
        """
        queue = self._queues[source]
        while not self.is_ready(source):
            self._check_open()
            if not queue.requested and not self._request(source):
                return None
            self._receive(PATIENCE, queue.pool)
        self._check_open()
        address = queue.requested.popleft()
        self._requested_cost -= queue.cost(address)
        self._request_ahead()
        return address, queue.ready.pop(address)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StreamError(
                "the workers have ended; read the stream itself, which starts new ones"
            )

    def _request_ahead(self) -> None:
        # small chunks are requested eight or more at a time
        is_low = self._requested_cost <= self._most - 1
        while is_low and self._requested_cost < self._most:
            heaps = [heap for pool, heap in self._needs.items() if heap and pool.has_room]
            if not heaps:
                break
            n_turns, source = heapq.heappop(min(heaps))
            queue = self._queues[source]
            if self._request(source):
                n_turns += queue.n_turns([queue.requested[-1]])
                heapq.heappush(self._needs[queue.pool], (n_turns, source))
        for pool in self._pools:
            pool.flush()

    def _request(self, source: int) -> bool:
        """Request a source's next chunk. Return False if it has no more chunks."""
        queue = self._queues[source]
        address = next(queue.addresses, None)
        if address is None:
            return False
        queue.requested.append(address)
        self._requested_cost += queue.cost(address)
        queue.pool.request((source, address))
        return True

    def _receive(self, timeout: float = 0.0, awaited: Pool | None = None) -> None:
        self._request_ahead()
        for pool in self._pools:
            for source, address, chunk in pool.receive(timeout if pool is awaited else 0.0):
                self._queues[source].ready[address] = chunk
        self._request_ahead()

    def interrupt(self) -> None:
        self._is_closed = True

    def close(self) -> None:
        self._is_closed = True
        for pool in self._pools:
            pool.close()


class ThisThread:
    """A `Pool` that computes a chunk in the calling thread, when it is awaited."""

    has_room = False

    def __init__(self, compute: Callable[[Job], JobResult]) -> None:
        self._compute = compute
        self._jobs = deque[Job]()
        self.request = self._jobs.append

    def flush(self) -> None: ...

    def receive(self, timeout: float) -> Sequence[JobResult]:
        if not timeout:
            return ()
        result = self._compute(self._jobs[0])
        self._jobs.popleft()  # only now, so that an interrupted job is computed again
        return (result,)

    def close(self) -> None: ...


class Threads:
    """A `Pool` of n threads, for compiled code."""

    def __init__(self, compute: Callable[[Job], JobResult], *, n: int) -> None:
        self._compute = compute
        self._jobs = SimpleQueue[Job | None]()
        self._results = SimpleQueue[JobResult | str]()  # a text is a worker's traceback
        self._n_requested = 0
        self._is_closed = False
        self._pid = os.getpid()
        self._threads = [
            threading.Thread(target=self._work, daemon=True, name="volt-stream") for _ in range(n)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def has_room(self) -> bool:
        return self._n_requested < 2 * len(self._threads)

    def request(self, job: Job) -> None:
        self._n_requested += 1
        self._jobs.put(job)

    def flush(self) -> None: ...

    def receive(self, timeout: float) -> Sequence[JobResult]:
        received = list[JobResult]()
        with suppress(Empty):
            while True:
                result = self._results.get(bool(timeout), timeout)
                if isinstance(result, str):
                    self.close()
                    raise StreamError(f"a worker failed:\n{result}")
                self._n_requested -= 1
                received.append(result)
                timeout = 0.0
        return received

    def _work(self) -> None:
        while not self._is_closed and (job := self._jobs.get()) is not None:
            try:
                result = self._compute(job)
            except BaseException:
                self._results.put(traceback.format_exc())
                return
            self._results.put(result)

    def close(self) -> None:
        self._is_closed = True
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
