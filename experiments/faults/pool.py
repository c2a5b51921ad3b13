"""Several servers at work on one list of cases, until the list or the time is at its end.

>>> n_jobs(0) >= 1
True
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from experiments.faults.runner import Server, ServerDied

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[Server, Path, T], R]
TELL = 10.0  # seconds between lines of progress


def n_jobs(asked: int) -> int:
    """How many servers: those asked for, or one for each core."""
    return asked or len(os.sched_getaffinity(0))


def over(
    tasks: Sequence[T], work: Work[T, R], *, folder: Path, shim: Path | None, jobs: int, until: float, name: str,
    bare: bool = False,
) -> Iterator[tuple[T, R | ServerDied]]:  # fmt: skip
    """Do the tasks, in any order; each with a server and a folder that no other task uses meanwhile.

    until: when no more are begun, by time.monotonic();  shim, bare: see `Server`. A server that dies is the
    result of its task.
    """
    waiting, done = SimpleQueue[T](), SimpleQueue[tuple[T, R | ServerDied] | BaseException]()
    for task in tasks:
        waiting.put(task)
    servers: list[Server] = []
    stopped = threading.Event()

    def serve(number: int) -> None:
        try:
            slot = folder / f"slot{number}"
            slot.mkdir(parents=True, exist_ok=True)
            servers.append(server := Server(shim, bare=bare))
            while not stopped.is_set() and time.monotonic() < until:
                task = waiting.get_nowait()
                try:
                    done.put((task, work(server, slot, task)))
                except ServerDied as death:
                    if stopped.is_set():
                        return
                    done.put((task, death))
                    server.close()
                    servers.append(server := Server(shim, bare=bare))
        except Empty:
            pass
        except BaseException as error:
            done.put(error)

    threads = [threading.Thread(target=serve, args=(number,), daemon=True) for number in range(min(jobs, len(tasks)))]
    for thread in threads:
        thread.start()
    try:
        yield from _results(threads, done, len(tasks), name)
    finally:
        stopped.set()
        for server in list(servers):
            server.close()
        for thread in threads:
            thread.join(5)


def _results(
    threads: Sequence[threading.Thread], done: SimpleQueue[tuple[T, R] | BaseException], n: int, name: str
) -> Iterator[tuple[T, R]]:
    """What is done, as it comes; how far it is, now and then, on stderr."""
    start = told = time.monotonic()
    so_far = 0
    while so_far < n:
        busy = any(thread.is_alive() for thread in threads)
        try:
            found = done.get(timeout=0.2)
        except Empty:
            if not busy:
                return
            continue
        if isinstance(found, BaseException):
            raise found
        so_far += 1
        yield found
        if time.monotonic() - told > TELL:
            told = time.monotonic()
            print(f"{name}: {so_far:,} of {n:,} after {told - start:,.0f} s", file=sys.stderr, flush=True)
