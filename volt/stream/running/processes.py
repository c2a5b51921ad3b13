"""Compute chunks in processes, for transforms in Python code, which threads cannot run in parallel.

A worker that dies, or exceeds the time limit, ends the run with an error. Workers end with the stream's process.

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
from volt.stream.running.chunk_computation import Form, compute_chunk, shown_block
from volt.stream.running.prefetch import Done, Job

StartMethod = Literal["spawn", "fork"]
_OUTSTANDING = 32  # chunks requested from a worker: one in progress, the others queued
_COLLECT = 0.05  # seconds in which a reader that waits for a chunk also receives others
_GAP = 0.01  # maximum seconds between two of them
_LARGE = 1 << 18  # bytes of an array that is sent without copying it into a message
_GRACE = 2.0  # seconds to wait for a dead or killed worker to exit
_LOOK = 0.5  # seconds between a worker's checks that the stream's process is alive
_STARTING = -2  # values of `step` while no transform runs
_READING = -1
_UNGUARDED = '; a script must read the stream under `if __name__ == "__main__":`, because each worker imports it'


@dataclass(slots=True)
class _Worker:
    process: Any
    link: Connection
    step: Any  # the position of the running transform, in shared memory
    requested: deque[Job] = field(default_factory=deque)
    unsent: list[Job] = field(default_factory=list)
    since: float = 0.0


class Processes:
    """A `Pool` of processes. time_limit: seconds per chunk"""

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
        self._limit = math.inf if time_limit is None else time_limit
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
                self._workers.append(_started(context, task))
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
        return any(len(worker.requested) < _OUTSTANDING for worker in self._workers)

    def request(self, job: Job) -> None:
        worker = min(self._workers, key=lambda worker: len(worker.requested))
        if not worker.requested:
            worker.since = time.monotonic()
        worker.requested.append(job)
        worker.unsent.append(job)

    def flush(self) -> None:
        for worker in self._workers:
            if not worker.unsent:
                continue
            try:
                worker.link.send(worker.unsent)
            except OSError:
                self._raise_death(worker)
            worker.unsent.clear()

    def receive(self, timeout: float) -> Sequence[Done]:
        result = list[Done]()
        end = time.monotonic() + _COLLECT if timeout else 0.0
        links = [worker.link for worker in self._workers]
        while ready := wait(links, timeout):
            result += [self._taken(worker) for worker in self._workers if worker.link in ready]
            is_busy = any(worker.requested for worker in self._workers)
            timeout = _GAP if is_busy and time.monotonic() <= end else 0.0
        for worker in self._workers:
            if worker.step.value == _STARTING:
                worker.since = time.monotonic()
            elif worker.requested and time.monotonic() - worker.since > self._limit:
                problem = f"{self._place_of(worker)} has taken more than {self._limit:g} seconds"
                self.close()
                raise StreamError(
                    f"{problem}; fix it, or raise time_limit at the top level of the configuration"
                )
        return result

    def _taken(self, worker: _Worker) -> Done:
        try:
            data, n_buffers = worker.link.recv()
            chunk = pickle.loads(data, buffers=[worker.link.recv_bytes() for _ in range(n_buffers)])
        except (EOFError, OSError):
            self._raise_death(worker)
        if isinstance(chunk, str):
            self.close()
            raise StreamError(f"a worker failed:\n{chunk}")
        worker.since = time.monotonic()
        return *worker.requested.popleft(), chunk

    def _place_of(self, worker: _Worker) -> str:
        source, address = worker.requested[0]
        opened = self._sources[source]
        position = worker.step.value
        if position == _STARTING:
            step = "the start of a worker"
        elif position == _READING:
            step = "reading"
        else:
            step = f"transform {opened.source.transforms[position].name!r}"
        return f"{shown_block(opened, address.block)}, chunk {address.chunk}: {step}"

    def _raise_death(self, worker: _Worker) -> NoReturn:
        worker.process.join(_GRACE)
        place = f"{self._place_of(worker)}: " if worker.requested else ""
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


def _started(context: SpawnContext | ForkContext, task: bytes) -> _Worker:
    ours, theirs = context.Pipe()
    step = context.RawValue("i", _STARTING)
    process = context.Process(
        target=_serve, args=(task, theirs, os.getpid(), step), daemon=True, name="volt-stream"
    )
    process.start()
    theirs.close()
    return _Worker(process, ours, step)


def _serve(task: bytes, link: Connection, parent: int, step: Any) -> None:
    # the parent handles these
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        os.dup2(2, 1)  # only the stream's process writes to stdout
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    try:
        _work(link, task, step)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except BaseException:
        with contextlib.suppress(OSError):
            link.send((pickle.dumps(traceback.format_exc()), 0))
    os._exit(0)  # exit immediately: nothing needs cleaning up


def _work(link: Connection, task: bytes, step: Any) -> None:
    from volt.kernels.warmup import compile_kernels

    compile_kernels("stream")  # load kernels before the time limit applies
    sources, policy, form = pickle.loads(task)
    gc.freeze()  # these objects are never freed: hide them from the garbage collector

    note = partial(setattr, step, "value")  # the position of the transform that runs
    jobs = deque[Job]()
    while True:
        if not jobs:
            jobs.extend(link.recv())
        source, address = jobs.popleft()
        note(_STARTING)
        # open the transforms, before the time limit applies; computing the chunk raises an error again
        with contextlib.suppress(VoltError):
            sources[source].is_compiled  # noqa: B018
        note(_READING)
        chunk = compute_chunk(sources[source], address, policy, note, form=form)
        if chunk.batch is not None:
            chunk = replace(chunk, batch=chunk.batch.compact())
        large = list[pickle.PickleBuffer]()
        data = pickle.dumps(chunk, protocol=5, buffer_callback=partial(_is_small, large))
        link.send((data, len(large)))
        for buffer in large:
            link.send_bytes(buffer)


def _is_small(large: list[pickle.PickleBuffer], buffer: pickle.PickleBuffer) -> bool:
    is_large = buffer.raw().nbytes > _LARGE
    if is_large:
        large.append(buffer)
    return not is_large


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(1)
