"""A function applied to many items on a cluster of Ray, as a map does here.

What a task makes depends on its item alone, so a task whose worker or machine died runs again, and nobody sees it. An
error of the function is that of the first item that has one, as it is here, and it is the same error.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator, Iterable
from functools import cache, lru_cache
from itertools import islice
from typing import Any, TypeVar

from volt.errors import VoltError, missing, reason, shown_path
from volt.ext.ray_cluster import first_sentence
from volt.kernels import caching, ready

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError:
    raise missing("ray", extra="ray") from None

Item = TypeVar("Item")
Ref = Any  # ray.ObjectRef: where a result is
RETRIES = 20  # of a task whose worker, or machine, has died
_LEAST_AHEAD, _AHEAD = 16, 4  # tasks that wait: so many, or so many for each core
_NOT_THERE = "workers of the cluster cannot import volt; install the same version of volt-vocab on its machines"


def finished(
    function: Callable[[Item], object], items: Iterable[Item], *, jobs: Iterable[ready.Job] = (), n_cores: int = 1
) -> Generator[tuple[Item, Ref]]:
    """Apply a function to items. Yields each item when it is done, and where its result is, in any order.

    function: can be pickled
    items: are taken as there is room for them
    jobs: whose loops it needs; a machine that has not compiled them yet does so once
    n_cores: how many cores an item takes

    Raises the VoltError of the first item that has one, when those before it are done; VoltError if the cluster fails.
    """
    given = [ray.put(function)], os.getcwd(), tuple(jobs)
    task = _apply.options(num_cpus=n_cores)
    waiting, running = enumerate(items), dict[Ref, tuple[int, Item, Ref]]()
    failed: tuple[int, VoltError] | None = None
    try:
        while True:
            for number, item in islice(waiting, 0 if failed else max(0, _n_ahead() - len(running))):
                told, result = task.remote(item, *given)
                running[told] = number, item, result
            if not any(failed is None or number < failed[0] for number, _, _ in running.values()):
                break
            told = ray.wait(list(running), num_returns=1)[0][0]
            number, item, result = running.pop(told)
            error = fetched(told)
            if error is None:
                yield item, result
            elif failed is None or number < failed[0]:
                failed = number, error
        if failed:
            raise failed[1]
    finally:
        for told in running:
            ray.cancel(told, force=True)


def fetched(ref: Ref) -> Any:
    """A result. Raises VoltError if the cluster could not make it."""
    try:
        return ray.get(ref)
    except RayTaskError as error:
        if "failed to import" in str(error):
            raise VoltError(_NOT_THERE) from error
        raise
    except RayError as error:
        found = first_sentence(str(error))
        raise VoltError(f"the cluster failed: {found}; look at `ray status`, and run it again") from error


def _n_ahead() -> int:
    """How many tasks to have running or waiting, for the machines that there are now."""
    return max(_LEAST_AHEAD, _AHEAD * int(ray.cluster_resources().get("CPU", 1)))


@ray.remote(num_returns=2, max_retries=RETRIES)
def _apply(item: Any, functions: list[Ref], folder: str, jobs: tuple[ready.Job, ...]) -> tuple[VoltError | None, Any]:
    """The error of a function, if there is one, and what it returns."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # there is a worker for each core
    try:
        _enter(folder)
        _prepare(jobs)
        return None, _function(functions[0])(item)
    except VoltError as error:
        return error, None


@lru_cache(maxsize=1)
def _function(ref: Ref) -> Any:
    """A function, unpacked once in a worker, with all that it remembers."""
    return ray.get(ref)


def _enter(folder: str) -> None:
    """Be where the driver is, so that paths mean the same, also in errors."""
    try:
        os.chdir(folder)
    except OSError as error:
        raise VoltError(
            f"{shown_path(folder)}: not to be had on {os.uname().nodename}, a machine of the cluster: {reason(error)}; "
            "run it in a folder that all of its machines share"
        ) from None


@cache
def _prepare(jobs: tuple[ready.Job, ...]) -> None:
    """Have loops compiled and kept by one process of a machine, while the others that need them wait for it."""
    place = caching.kept_in()
    if not (place and ready.missing(*jobs)):
        return
    handle = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        ready.compile_kernels(*jobs)
    finally:
        os.close(handle)
