"""Run work in threads: ordered results (`in_order`), prefetch, and loops that can be interrupted
(`run_watched`).

A compiled loop that `run_watched` runs shares a (2,) int64 array with its caller: the loop counts
its work in element 0; the caller sets element 1 to end the loop.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any, TypeVar

from volt.errors import ConfigError

if TYPE_CHECKING:
    from volt.array_types import Longs

MOST_WORKERS = 256  # threads or processes that one program may start
_GRACE = 2.0  # seconds to wait for threads to finish their calls
Item = TypeVar("Item")
Result = TypeVar("Result")
T = TypeVar("T")


def run_watched(
    kernel: Callable[[Longs], T], *, report: Callable[[int], object] | None = None
) -> T:
    """Run `kernel(progress)` in a thread, and stop it when the caller is interrupted.

    report: called every 0.05 seconds with the work done
    """
    import numpy as np

    progress = np.zeros(2, np.int64)
    task = ThreadTask(partial(kernel, progress))
    thread = Thread(target=task.run, daemon=True)  # does not keep the process alive
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.05)
            if report:
                report(int(progress[0]))
    finally:
        progress[1] = 1
        thread.join()
    return task.result()


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def can_wait(pid: int) -> bool:
    """Check whether this process can wait for threads and locks of process `pid`.

    In a forked process, and while the interpreter is finalizing, no other thread runs or releases a
    lock.
    """
    return pid == os.getpid() and not sys.is_finalizing()


class ThreadTask(Future[T]):
    """A call that a thread of this process is to make."""

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__()
        self.call = call
        self.pid = os.getpid()

    def run(self) -> None:
        """Make the call, unless it was cancelled."""
        if self.set_running_or_notify_cancel():
            try:
                self.set_result(self.call())
            except BaseException as error:
                self.set_exception(error)


class _ThreadPool:
    """Up to n daemon threads that run tasks in order of submission, with help from the caller's
    thread."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._pid = os.getpid()
        self._tasks = SimpleQueue[ThreadTask[Any] | None]()
        self._threads = list[Thread]()

    def run(self, task: ThreadTask[Any]) -> None:
        self._tasks.put(task)
        if len(self._threads) < self._n:
            thread = Thread(target=self._work, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task.run()

    def help(self) -> bool:
        """Run the next task in the caller's thread; return False if there is none."""
        with suppress(Empty):
            if task := self._tasks.get_nowait():
                task.run()
            return True
        return False

    def close(self) -> None:
        """End the threads; wait at most two seconds for running calls."""
        for _ in self._threads:
            self._tasks.put(None)
        if not can_wait(self._pid):
            return
        deadline = time.monotonic() + _GRACE
        for thread in self._threads:
            # Garbage collection in a thread may close its own pool.
            if thread is not current_thread():
                thread.join(max(0, deadline - time.monotonic()))


def in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    n_threads: int,
    is_awaited: Callable[[Item], bool] = lambda _: False,
) -> Iterator[Result]:
    """Call `function` for a few items ahead, in threads.

    Yield results, or raise errors, in the order of the items.

    The caller's thread also makes calls. Up to 2 · n_threads + 1 results are computed ahead.

    is_awaited: whether an item's result must be yielded before the next item is requested
    """
    if n_threads == 1:
        yield from map(function, items)
        return
    waiting = deque[Future[Result]]()
    threads = _ThreadPool(n_threads - 1)
    iterator = iter(items)
    try:
        while True:
            awaited = False
            while not awaited and len(waiting) <= 2 * n_threads:
                try:
                    item = next(iterator)
                except StopIteration:
                    break
                except Exception as error:
                    failed = Future[Result]()
                    failed.set_exception(error)
                    waiting.append(failed)
                    continue
                task = ThreadTask(partial(function, item))
                awaited = is_awaited(item)
                if awaited and not waiting:
                    task.run()
                else:
                    threads.run(task)
                waiting.append(task)

            if not waiting:
                return
            n_due = len(waiting) if awaited else 1
            for _ in range(n_due):
                while not waiting[0].done() and threads.help():
                    pass
                yield wait_for_result(waiting.popleft())
    finally:
        for future in waiting:
            future.cancel()
        threads.close()


def prefetch(items: Iterator[T]) -> Generator[T, None, None]:
    """Compute the next item in a thread while the current one is in use.

    Closing the generator closes `items`.
    """
    ahead = next_in_thread(items)
    try:
        while (item := wait_for_result(ahead)) is not None:
            ahead = next_in_thread(items)
            yield item
    finally:
        if isinstance(items, Generator):
            ahead.add_done_callback(lambda _: items.close())


def wait_for_result(future: Future[T]) -> T:
    """Return a future's result. Raises ConfigError if another process computes it."""
    # Waits are short, because after a Polars query SIGINT cannot interrupt a wait.
    while True:
        try:
            return future.result(timeout=0.1)
        except TimeoutError:
            if future.done():
                raise
            if isinstance(future, ThreadTask) and not can_wait(future.pid):
                raise ConfigError(
                    "another process computes this item; create the iterator in this process"
                ) from None


def next_in_thread(items: Iterator[T]) -> ThreadTask[T | None]:
    """Start to compute the next item (None at the end) in a daemon thread."""
    task = ThreadTask(partial(next, items, None))
    Thread(target=task.run, daemon=True).start()
    return task
