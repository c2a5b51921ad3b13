"""Work in threads whose results keep their order: reading ahead, and mapping over many items.

>>> list(prefetch(iter("abc")))
['a', 'b', 'c']
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Thread
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

MOST_WORKERS = 256  # threads or processes that one program may start


def available_cores() -> int:
    """How many cores this process may use.

    >>> available_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    function: Callable[[A], B], items: Iterable[A], *, n_threads: int, is_awaited: Callable[[A], bool] = lambda _: False
) -> Iterator[B]:
    """Map in threads, of which the caller's is one, a few items ahead; results come in the order of the items, an error
    in its place.

    is_awaited: whether an item's result, and those before it, must come before the next item is asked for

    >>> list(in_order(str.upper, "abc", n_threads=2))
    ['A', 'B', 'C']
    """
    if n_threads == 1:
        yield from map(function, items)
        return
    waiting: deque[tuple[Future[B], Callable[[], B] | None]] = deque()
    pool, ahead = ThreadPoolExecutor(n_threads - 1), iter(items)
    try:
        while True:
            awaited = False
            while not awaited and len(waiting) <= 2 * n_threads and (item := _next(ahead)) is not None:
                if isinstance(item, Future):
                    waiting.append((item, None))
                else:
                    call, awaited = partial(function, *item), is_awaited(*item)
                    waiting.append((Future() if awaited and not waiting else pool.submit(call), call))
            if not waiting:
                return
            for _ in range(len(waiting) if awaited else 1):
                while not waiting[0][0].done() and _lend_a_hand(waiting):
                    pass
                yield patiently(waiting.popleft()[0])
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _lend_a_hand(waiting: deque[tuple[Future[B], Callable[[], B] | None]]) -> bool:
    """Make the first call that no thread has begun, in this thread; whether there was one."""
    for place, (future, call) in enumerate(waiting):
        if call and future.cancel():
            done: Future[B] = Future()
            try:
                done.set_result(call())
            except Exception as error:
                done.set_exception(error)
            waiting[place] = done, None
            return True
    return False


def _next(items: Iterator[A]) -> tuple[A] | Future[Any] | None:
    """The next item; None at the end; the error of what makes the items, to be raised behind the results before it."""
    try:
        return (next(items),)
    except StopIteration:
        return None
    except Exception as error:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return failed


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Compute the next item in a thread while this one is in use; order and errors stay as they are.

    >>> list(prefetch(iter("abc")))
    ['a', 'b', 'c']
    """
    ahead = next_in_thread(items)
    while (item := patiently(ahead)) is not None:
        ahead = next_in_thread(items)
        yield item


def patiently(future: Future[T]) -> T:
    """The future's result. Waits in short stretches: after a Polars query, SIGINT no longer ends a wait by itself.

    >>> done: Future[int] = Future()
    >>> done.set_result(1)
    >>> patiently(done)
    1
    """
    while True:
        try:
            return future.result(timeout=0.1)
        except TimeoutError:
            if future.done():
                raise


def next_in_thread(items: Iterator[T]) -> Future[T | None]:
    """The next item, None at the end, computed in a thread of its own.

    It is a daemon: one that waits for stdin must not keep an interrupted program alive.

    >>> next_in_thread(iter("abc")).result()
    'a'
    """
    future: Future[T | None] = Future()

    def work() -> None:
        try:
            future.set_result(next(items, None))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=work, daemon=True).start()
    return future
