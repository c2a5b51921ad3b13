"""Child processes, several at a time, that end with this process.

>>> with ChildProcesses() as processes:
...     processes.run(["echo", "low"]).line
'low'
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import islice
from threading import Lock
from typing import NamedTuple, TypeVar

_NICE = 10  # lowers the priority of processes
_SIGNAL_CHECK = 0.5  # seconds between checks for signals
_ENDS_WITH_PARENT = 1  # PR_SET_PDEATHSIG

K = TypeVar("K")
R = TypeVar("R")


class Ended(NamedTuple):
    """A process that ended.

    line: the last line of its stdout
    error: the last line of its stderr
    """

    status: int
    line: str
    error: str


class ChildProcesses:
    """A context manager for child processes of low priority. They end when it or this process ends.

    is_over: whether the context has ended, so that no more processes start
    """

    def __init__(self, nice: int = _NICE) -> None:
        self.nice = nice
        self.is_over = False
        self._running = set[subprocess.Popen[str]]()
        self._lock = Lock()

    def __enter__(self) -> ChildProcesses:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.is_over = True
            for process in self._running:
                process.terminate()

    def run(self, command: Sequence[str]) -> Ended:
        """Run a command until it ends. Several threads may call this at the same time."""
        with self._lock:
            if self.is_over:
                return Ended(-signal.SIGTERM, "", "")
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=partial(_set_up_child, self.nice),
            )
            self._running.add(process)
        output, errors = process.communicate()
        with self._lock:
            self._running.discard(process)
        lines = output.strip().splitlines() or [""]
        error_lines = errors.strip().splitlines() or ["it wrote nothing"]
        return Ended(process.returncode, lines[-1], error_lines[-1])


def _set_up_child(nice: int) -> None:
    """Lower the priority, leave Ctrl-C to the parent, and end when the parent ends (on Linux)."""
    os.nice(nice)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ENDS_WITH_PARENT, signal.SIGTERM)


def run_each(
    next_keys: Callable[[Collection[K]], Iterable[K]],
    work: Callable[[K], R],
    done: Callable[[K, R], object],
    *,
    jobs: int,
    processes: ChildProcesses,
) -> None:
    """Work on keys in threads, `jobs` at a time, until nothing runs and no key is next.

    next_keys: maps the running keys to the keys to work on next, again whenever a result is there
    work: computes the result of a key, in a thread
    done: receives each key and its result, in the caller's thread
    processes: the processes that `work` runs; they end if anything raises an error
    """
    running = dict[Future[R], K]()
    with ThreadPoolExecutor(jobs) as pool, processes:
        while True:
            for key in islice(next_keys([*running.values()]), jobs - len(running)):
                running[pool.submit(work, key)] = key
            if not running:
                return
            # A signal does not interrupt the wait if another thread receives it, or if it comes
            # just before the wait; so waits are short.
            ended, _ = wait(running, timeout=_SIGNAL_CHECK, return_when=FIRST_COMPLETED)
            for future in ended:
                done(running.pop(future), future.result())
