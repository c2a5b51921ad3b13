"""Laws of work in threads: results in order, errors in their place, and loops that can be stopped."""

import os
import threading
from concurrent.futures import CancelledError, Future

import pytest

from volt.errors import ConfigError
from volt.files import threads
from volt.files.threads import (
    ThreadTask,
    can_wait,
    in_order,
    next_in_thread,
    prefetch,
    run_watched,
    wait_for_result,
)


def inverse(number):
    return 1 // number


@pytest.mark.parametrize("n_threads", [1, 4])
@pytest.mark.parametrize("make", [iter, lambda numbers: map(inverse, numbers)])
def test_results_before_an_error_are_delivered(n_threads, make):
    """`in_order` yields the results before an error, then raises the error of the function or of
    the iterable."""
    results = in_order(inverse, make([1, 1, 0]), n_threads=n_threads)
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_an_awaited_result_comes_before_the_next_request(n_threads):
    """After an awaited item, `in_order` yields its result and all earlier ones before it requests
    the next item."""
    results = []

    def is_awaited(number):
        return number % 7 in (0, 5)

    def items():
        for number in range(40):
            yield number
            assert len(results) == number + 1 or not is_awaited(number)

    for result in in_order(int, items(), n_threads=n_threads, is_awaited=is_awaited):
        results.append(result)
    assert results == list(range(40))


@pytest.mark.parametrize(("n_threads", "n_ahead"), [(1, 1), (2, 5), (3, 7)])
def test_threads_work_a_little_ahead(n_threads, n_ahead):
    """`in_order` with one thread requests an item when its result is due; with n threads, it
    requests up to 2 n + 1 items."""
    taken = []
    items = (taken.append(number) or number for number in range(30))
    results = in_order(str, items, n_threads=n_threads)
    assert next(results) == "0"
    assert len(taken) == n_ahead
    assert list(results) == [str(number) for number in range(1, 30)]


def test_a_watched_loop_reports_its_progress():
    """`run_watched` reports the work done while the loop runs, and gives the loop an array of two
    64-bit counters."""
    reported = set()
    go = threading.Event()

    def kernel(progress):
        progress[0] = 5
        assert go.wait(10)
        return f"{progress.dtype} {len(progress)}"

    assert run_watched(kernel, report=lambda n: (reported.add(n), go.set())) == "int64 2"
    assert reported == {5}
    assert run_watched(lambda progress: int(progress.sum())) == 0


def test_an_interrupt_stops_a_watched_loop():
    """If `run_watched` is interrupted, it stops the loop and waits for its end."""
    ended = []

    def endless(progress):
        while not progress[1]:
            pass
        ended.append(True)

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_watched(endless, report=interrupt)
    assert ended == [True]


def test_a_cancelled_task_makes_no_call():
    """A cancelled `ThreadTask` does not make its call, and `wait_for_result` raises
    CancelledError."""
    calls = []
    task = ThreadTask(lambda: calls.append(1))
    task.cancel()
    task.run()
    assert calls == []
    with pytest.raises(CancelledError):
        wait_for_result(task)


def test_waiting_returns_results_and_raises_errors():
    """`wait_for_result` returns a task's result or raises its error, also a TimeoutError.

    It refuses a task of another process, which would never end.
    """
    failed = Future()
    failed.set_exception(TimeoutError("late"))
    with pytest.raises(TimeoutError, match="late"):
        wait_for_result(failed)
    assert wait_for_result(next_in_thread(iter([7]))) == 7
    assert wait_for_result(next_in_thread(iter([]))) is None
    foreign = ThreadTask(int)
    foreign.pid += 1
    assert can_wait(os.getpid())
    assert not can_wait(foreign.pid)
    with pytest.raises(ConfigError, match="another process computes this"):
        wait_for_result(foreign)


def test_cores_are_counted_without_affinity(monkeypatch):
    """`available_cores` returns 1 on a system that reports no number of cores."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert threads.available_cores() == 1


def test_prefetched_items_keep_their_order_and_errors():
    """`prefetch` yields items in order, then raises the iterator's error.

    Closing it closes the iterator.
    """
    closed = threading.Event()

    def items():
        try:
            yield from (7, 8)
            raise ZeroDivisionError
        finally:
            closed.set()

    ahead = prefetch(items())
    assert [next(ahead), next(ahead)] == [7, 8]
    with pytest.raises(ZeroDivisionError):
        next(ahead)
    closed.clear()
    ahead = prefetch(items())
    next(ahead)
    ahead.close()
    assert closed.wait(10)
