"""`Processes`: a pool of worker processes, for transforms in Python code.

Threads cannot run Python code in parallel.

The stream's process sends each worker lists of jobs (source index, address of a chunk) through a
pipe. The worker computes one chunk after another (`compute_chunk`), and sends each chunk back. In
shared memory, `step` tells which
transform the worker is running: the worker writes it, and the stream's process reads it for errors
and time limits.

A worker that dies, or exceeds the time limit, ends the run with an error. Workers end with the
stream's process.

>>> Processes([], ErrorPolicy(), n=0).close()
"""

from __future__ import annotations

import contextlib
import gc
import math
import multiprocessing as mp
import os
import pickle
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext
from typing import Any, Literal, NoReturn

from volt.errors import StreamError, VoltError
from volt.files.threads import can_wait
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.open_source import OpenSource
from volt.stream.running.chunk_computation import (
    ComputedChunk,
    Form,
    Job,
    JobResult,
    compute_chunk,
    describe_block,
)

StartMethod = Literal["spawn", "fork"]
_MOST_REQUESTED = 32  # chunks requested from a worker: one in progress, the others queued
_COLLECTING = 0.05  # seconds in which a reader that waits for a chunk also receives later ones
_GAP = 0.01  # maximum seconds to wait for each later chunk
_LARGE_BYTES = 1 << 18  # bytes of an array that is sent without copying it into a message
_GRACE = 2.0  # seconds to wait for a dead or killed worker to exit
_CHECK_INTERVAL = 0.5  # seconds between a worker's checks that the stream's process is alive
_STARTING = -2  # values of `step` while no transform runs
_READING = -1
_UNGUARDED = (
    '; a script must read the stream under `if __name__ == "__main__":`, '
    "because each worker imports it"
)


@dataclass(slots=True)
class _Worker:
    """A worker process, as the stream's process sees it.

    step: the index of the running transform, or `_STARTING` or `_READING`; in shared memory.
    requested: jobs without a result, in order; the worker computes the first.
    unsent: those of the requested jobs that were not yet sent.
    start_time: when the worker began the first job.
    """

    process: Any
    link: Connection
    step: Any
    requested: deque[Job] = field(default_factory=deque)
    unsent: list[Job] = field(default_factory=list)
    start_time: float = 0.0


class Processes:
    """A `Pool` of n processes. time_limit: the maximum seconds per chunk; None for no limit"""

    def __init__(
        self,
        sources: Sequence[OpenSource],
        policy: ErrorPolicy,
        *,
        n: int,
        start_method: StartMethod = "spawn",
        time_limit: float | None = None,
        form: Form = "lines",
    ) -> None:
        self._sources = sources
        self._time_limit = math.inf if time_limit is None else time_limit
        self._workers = list[_Worker]()
        self._pid = os.getpid()
        self._is_spawned = start_method == "spawn"
        remedy = "use n_workers=0 (workers: 0 at the top level of the configuration)"
        if time_limit:
            remedy += " and no time_limit"
        context = mp.get_context("spawn") if self._is_spawned else mp.get_context("fork")
        try:
            task = pickle.dumps((tuple(sources), policy, form))
            for _ in range(n):
                self._workers.append(_start_worker(context, task))
        except BaseException as error:
            self.close()
            if isinstance(error, pickle.PicklingError | AttributeError | TypeError):
                problem = "a source or transform cannot be sent to a worker"
            elif isinstance(error, AssertionError):  # of multiprocessing
                problem = "this process may not start workers"
            else:
                raise
            raise StreamError(f"{problem} ({error}); {remedy}") from error

    @property
    def has_room(self) -> bool:
        return any(len(worker.requested) < _MOST_REQUESTED for worker in self._workers)

    def request(self, job: Job) -> None:
        worker = min(self._workers, key=lambda worker: len(worker.requested))
        if not worker.requested:
            worker.start_time = time.monotonic()
        worker.requested.append(job)
        worker.unsent.append(job)

    def flush(self) -> None:
        for worker in self._workers:
            if not worker.unsent:
                continue
            try:
                worker.link.send(worker.unsent)
            except OSError:
                self._raise_for_dead(worker)
            worker.unsent.clear()

    def receive(self, timeout: float) -> Sequence[JobResult]:
        result = list[JobResult]()
        end = time.monotonic() + _COLLECTING if timeout else 0.0
        links = [worker.link for worker in self._workers]
        while ready := wait(links, timeout):
            result += [
                self._receive_chunk(worker) for worker in self._workers if worker.link in ready
            ]
            is_busy = any(worker.requested for worker in self._workers)
            timeout = _GAP if is_busy and time.monotonic() <= end else 0.0
        for worker in self._workers:
            if worker.step.value == _STARTING:
                worker.start_time = time.monotonic()
            elif worker.requested and time.monotonic() - worker.start_time > self._time_limit:
                problem = (
                    f"{self._describe_job(worker)} has taken more than {self._time_limit:g} seconds"
                )
                self.close()
                raise StreamError(
                    f"{problem}; fix it, or raise time_limit at the top level of the configuration"
                )
        return result

    def _receive_chunk(self, worker: _Worker) -> JobResult:
        try:
            data, n_buffers = worker.link.recv()
            chunk = pickle.loads(data, buffers=[worker.link.recv_bytes() for _ in range(n_buffers)])
        except (EOFError, OSError):
            self._raise_for_dead(worker)
        if isinstance(chunk, str):
            self.close()
            raise StreamError(f"a worker failed:\n{chunk}")
        worker.start_time = time.monotonic()
        return *worker.requested.popleft(), chunk

    def _describe_job(self, worker: _Worker) -> str:
        source, address = worker.requested[0]
        opened = self._sources[source]
        index = worker.step.value
        if index == _STARTING:
            step = "the start of a worker"
        elif index == _READING:
            step = "reading"
        else:
            step = f"transform {opened.source.transforms[index].name!r}"
        return f"{describe_block(opened, address.block)}, chunk {address.chunk}: {step}"

    def _raise_for_dead(self, worker: _Worker) -> NoReturn:
        worker.process.join(_GRACE)
        place = f"{self._describe_job(worker)}: " if worker.requested else ""
        self.close()
        code = worker.process.exitcode or 0
        problem = f"{place}worker process {worker.process.pid} "
        if code < 0:
            problem += f"was killed by {signal.Signals(-code).name}"
        else:
            problem += f"ended with status {worker.process.exitcode}"
        if code == -signal.SIGKILL:
            problem += "; if memory ran out, make blocks smaller"
        if self._is_spawned and code == 1 and worker.step.value == _STARTING:
            problem += _UNGUARDED
        raise StreamError(problem) from None

    def close(self) -> None:
        workers = self._workers if can_wait(self._pid) else []
        for worker in self._workers:
            worker.link.close()
        for worker in workers:
            worker.process.kill()  # a worker has nothing to clean up
        for worker in workers:
            worker.process.join(_GRACE)
        self._workers.clear()


def _start_worker(context: SpawnContext | ForkContext, task: bytes) -> _Worker:
    ours, theirs = context.Pipe()
    step = context.RawValue("i", _STARTING)
    process = context.Process(
        target=_run_worker, args=(task, theirs, os.getpid(), step), daemon=True, name="volt-stream"
    )
    process.start()
    theirs.close()
    return _Worker(process, ours, step)


def _run_worker(task: bytes, link: Connection, parent: int, step: Any) -> None:
    # the parent handles these
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        os.dup2(2, 1)  # only the stream's process writes to stdout
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    try:
        _compute_chunks(link, task, step)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except BaseException:
        with contextlib.suppress(OSError):
            link.send((pickle.dumps(traceback.format_exc()), 0))
    os._exit(0)  # exit immediately: nothing needs cleaning up


def _compute_chunks(link: Connection, task: bytes, step: Any) -> None:
    from volt.kernels.warmup import compile_kernels

    compile_kernels("stream")  # load kernels before the time limit applies
    sources, policy, form = pickle.loads(task)
    gc.freeze()  # these objects are never freed: hide them from the garbage collector

    set_step = partial(setattr, step, "value")
    jobs = deque[Job]()
    while True:
        if not jobs:
            jobs.extend(link.recv())
        source, address = jobs.popleft()
        set_step(_STARTING)
        with contextlib.suppress(VoltError):  # computing the chunk raises an error again
            sources[source].is_compiled  # noqa: B018  # loads transforms before the limit applies
        set_step(_READING)
        chunk = compute_chunk(sources[source], address, policy, set_step, form=form)
        if chunk.batch is not None:
            chunk = replace(chunk, batch=chunk.batch.compact())
        _send_chunk(link, chunk)


def _send_chunk(link: Connection, chunk: ComputedChunk) -> None:
    """Send a chunk as a pickle and its large arrays, which are then not copied into the pickle."""
    large = list[pickle.PickleBuffer]()

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes <= _LARGE_BYTES:
            return True
        large.append(buffer)
        return False

    data = pickle.dumps(chunk, protocol=5, buffer_callback=is_small)
    link.send((data, len(large)))
    for buffer in large:
        link.send_bytes(buffer)


def _exit_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_CHECK_INTERVAL)
    os._exit(1)
