"""Processes that compute blocks ahead of need, and hand them over in order.

The stream's process sends addresses of blocks to workers and gets the blocks back. What a block holds does not depend
on who computes it, so neither the number of workers nor their speed changes the output. Memory is bounded: only a few
blocks are asked for before the first of them is taken, and a worker waits until its block is received. If a worker
dies, the run ends with an error at once. If the stream's process dies, however it dies, its workers end too: each of
them watches a pipe that only that process keeps open.

>>> LocalBlocks([], [], Policy()).close()
"""

from __future__ import annotations

import contextlib
import gc
import math
import multiprocessing as mp
import os
import pickle
import select
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext
from typing import Any, Literal, Protocol

from volt import arguments
from volt.errors import ConfigError, StreamError
from volt.stream.reading.faults import Policy
from volt.stream.reading.source import OpenSource
from volt.stream.running.blocks import ComputedBlock, compute_block

StartMethod = Literal["spawn", "fork"]
Address = tuple[int, int]  # epoch and block
_PATIENCE = 0.1  # seconds between looks at signals: some libraries keep a wait from being interrupted
_OUTSTANDING = 2  # blocks that a worker is asked for at a time: one in work, one to go on with
_GRACE = 2.0  # seconds that workers have to end by themselves


def check_workers(n_workers: int, start_method: str) -> None:
    """Raise ConfigError if so many workers cannot be started, or not in this way.

    >>> check_workers(-1, "spawn")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: n_workers=-1, start_method='spawn': give 0 or more, and spawn or fork
    """
    if arguments.whole(n_workers, "n_workers") < 0 or start_method not in ("spawn", "fork"):
        raise ConfigError(f"n_workers={n_workers}, start_method={start_method!r}: give 0 or more, and spawn or fork")


class Blocks(Protocol):
    """Blocks of each source, in the order of the addresses given at the start."""

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """The next block of a source, or None when it has no more."""

    def expect(self, shares: Sequence[float]) -> None:
        """Say how the next samples are shared among the sources, so that the right blocks are computed first."""

    def close(self) -> None:
        """Let go of everything; may be called twice."""


class LocalBlocks:
    """Blocks computed in this process when they are taken."""

    def __init__(self, sources: Sequence[OpenSource], queues: Sequence[Iterator[Address]], policy: Policy) -> None:
        self._sources, self._queues, self._policy = sources, queues, policy

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """The next block of a source, or None when it has no more."""
        address = next(self._queues[source], None)
        return None if address is None else (address, compute_block(self._sources[source], *address, self._policy))

    def expect(self, shares: Sequence[float]) -> None:
        """Nothing is computed ahead."""

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class _Line:
    """The blocks of one source: addresses to come, asked for but not taken (in order), and computed."""

    queue: Iterator[Address]
    block_lines: int
    asked: deque[Address] = field(default_factory=deque)
    ready: dict[Address, ComputedBlock] = field(default_factory=dict)
    ended: bool = False
    share: float = 1.0

    def ask(self) -> Address | None:
        address = next(self.queue, None)
        self.ended = address is None
        if address is not None:
            self.asked.append(address)
        return address

    @property
    def supply(self) -> float:
        """Samples of the stream for which the blocks asked for are enough."""
        return len(self.asked) * self.block_lines / self.share if self.share > 0 else math.inf


@dataclass(slots=True)
class _Worker:
    process: Any
    link: Connection
    asked: int = 0


class WorkerBlocks:
    """Blocks computed by processes: at most one per source and two per worker are asked for and not yet taken."""

    def __init__(
        self,
        sources: Sequence[OpenSource],
        queues: Sequence[Iterator[Address]],
        policy: Policy,
        *,
        n_workers: int,
        start_method: StartMethod = "spawn",
    ) -> None:
        self._lines = [_Line(queue, source.block_lines) for queue, source in zip(queues, sources, strict=True)]
        self._limit = _OUTSTANDING * n_workers
        self._workers, self._lifeline = list[_Worker](), -1
        context = mp.get_context("spawn") if start_method == "spawn" else mp.get_context("fork")
        try:
            self._start(context, pickle.dumps((tuple(sources), policy)), n_workers)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self.close()
            raise StreamError(f"a source or transform cannot be sent to a worker ({error}); use n_workers=0") from error
        except AssertionError as error:  # of multiprocessing
            self.close()
            raise StreamError(f"this process may not start workers ({error}); use n_workers=0") from error
        except BaseException:
            self.close()
            raise

    def _start(self, context: SpawnContext | ForkContext, task: bytes, n_workers: int) -> None:
        watched, self._lifeline = os.pipe()
        try:
            for _ in range(n_workers):
                ours, theirs = context.Pipe()
                others = [self._lifeline, ours.fileno(), *(worker.link.fileno() for worker in self._workers)]
                inherited = others if isinstance(context, ForkContext) else []
                life = Connection(os.dup(watched), writable=False)
                arguments = (task, theirs, life, inherited, os.getpid())
                process = context.Process(target=_serve, args=arguments, daemon=True, name="volt-stream")
                process.start()
                theirs.close()
                life.close()
                self._workers.append(_Worker(process, ours))
        finally:
            os.close(watched)

    def expect(self, shares: Sequence[float]) -> None:
        """Ask first for the blocks of the sources that will run out first."""
        for line, share in zip(self._lines, shares, strict=True):
            line.share = share
        self._receive(0)

    def take(self, source: int) -> tuple[Address, ComputedBlock] | None:
        """The next block of a source, or None when it has no more. Raises StreamError if a worker has died."""
        line = self._lines[source]
        if not self._workers:
            raise StreamError("the workers have ended; read the stream itself, which starts new ones")
        while not line.asked or line.asked[0] not in line.ready:
            if not line.asked and not self._ask_of(line, source):
                return None
            self._receive(_PATIENCE)
        address = line.asked.popleft()
        block = line.ready.pop(address)
        self._ask()
        return address, block

    def _ask(self) -> None:
        """Ask for blocks while workers have room and not too many lie ready."""
        while sum(len(line.asked) for line in self._lines) < self._limit + len(self._lines):
            line = min((line for line in self._lines if not line.ended), key=lambda line: line.supply, default=None)
            if line is None or line.supply == math.inf or not self._room():
                return
            self._ask_of(line, self._lines.index(line))

    def _room(self) -> bool:
        return any(worker.asked < _OUTSTANDING for worker in self._workers)

    def _ask_of(self, line: _Line, source: int) -> bool:
        """Ask the idlest worker for a source's next block, unless the source has ended."""
        address = line.ask()
        if address is None:
            return False
        worker = min(self._workers, key=lambda worker: worker.asked)
        worker.asked += 1
        try:
            worker.link.send((source, address))
        except OSError:
            self._raise_death(worker)
        return True

    def _receive(self, timeout: float) -> None:
        """Take in what workers have done, waiting for it at most so long, and ask for more."""
        self._ask()
        ready = wait([worker.link for worker in self._workers], timeout)
        for worker in [worker for worker in self._workers if worker.link in ready]:
            self._take_in(worker)
        self._ask()

    def _take_in(self, worker: _Worker) -> None:
        try:
            head = pickle.loads(worker.link.recv_bytes())
            if isinstance(head, str):
                self.close()
                raise StreamError(f"a worker failed:\n{head}")
            source, address, block = head
            data = worker.link.recv_bytes()
        except (EOFError, OSError):
            self._raise_death(worker)
        worker.asked -= 1
        self._lines[source].ready[address] = ComputedBlock(data, **block)

    def _raise_death(self, worker: _Worker) -> None:
        worker.process.join(_GRACE)
        code = worker.process.exitcode
        self.close()
        how = f"was killed by {signal.Signals(-code).name}" if (code or 0) < 0 else f"ended with status {code}"
        hint = "; was memory short? Make blocks smaller" if code == -signal.SIGKILL else ""
        raise StreamError(f"worker process {worker.process.pid} {how}{hint}") from None

    def close(self) -> None:
        """Close the pipes, which ends the workers; those that do not end in time are killed."""
        for worker in self._workers:
            worker.link.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        deadline = time.monotonic() + _GRACE
        for worker in self._workers:
            worker.process.join(max(0, deadline - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()
        self._workers.clear()


def _serve(task: bytes, link: Connection, life: Connection, inherited: Sequence[int], parent: int) -> None:
    """A worker's life: compute the blocks that are asked for until the parent closes the pipe."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):  # the parent's business
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for handle in inherited:
        os.close(handle)
    threading.Thread(target=_die_with, args=(life, parent), daemon=True).start()
    try:
        _work(link, task)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except BaseException:
        _report(link, traceback.format_exc())
    os._exit(0)  # at once: nothing here needs tidying


def _work(link: Connection, task: bytes) -> None:
    sources, policy = pickle.loads(task)
    gc.freeze()  # what is there stays; no need to look at it again and again
    while True:
        source, address = link.recv()
        block = compute_block(sources[source], address[0], address[1], policy)
        rest = {name: getattr(block, name) for name in ("n_lines", "n_read", "faults", "error", "fields")}
        link.send_bytes(pickle.dumps((source, address, rest)))
        link.send_bytes(block.data)


def _report(link: Connection, told: str) -> None:
    with contextlib.suppress(OSError):
        link.send_bytes(pickle.dumps(told))


def _die_with(life: Connection, parent: int) -> None:
    """End this process when the parent does: its end of the pipe closes, or another process adopts this one."""
    while not select.select([life], [], [], 1.0)[0] and os.getppid() == parent:
        pass
    os._exit(1)
