"""Run a function on items in tasks of a Ray cluster; repeat tasks whose worker, machine, file or
server fails.

    function, items → `run_tasks` → (item, reference to the result), as tasks finish, in any order

The result of a task depends only on its item. So Ray repeats a task if its worker or machine dies,
and `run_tasks` repeats it on another machine if it cannot read or write a file. If several items
fail, the error of the first of these items is raised.

A task has two results: an outcome, which the driver fetches (how often Ray has repeated the task,
or a `_Failure`), and the function's result, which stays on the cluster until `fetch` is called.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from typing import Any, TypeVar

from volt.errors import VoltError, causes, missing, reason, shown_path
from volt.ext.ray_cluster import first_sentence
from volt.files.remote import ChangedError, RefusedError
from volt.files.retries import VARIABLE, ServerError
from volt.kernels import jit, warmup
from volt.kernels.warmup import Job as KernelJob

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError:
    raise missing("ray", extra="ray") from None

Item = TypeVar("Item")
Ref = Any  # ray.ObjectRef: a reference to a result

MAX_RETRIES = 20  # of a task whose worker or machine has died
TASKS_PER_CORE = 4  # unfinished tasks for each core of the cluster
_MIN_AHEAD = 16  # unfinished tasks
_MAX_MOVES = 2  # repetitions of a task that could not read or write a file
_FINAL_ERRORS = ServerError, RefusedError, ChangedError  # unless the code is ETIMEDOUT
_NO_VOLT = "workers of the cluster cannot import volt; install the same version of volt-vocab on its machines"


@dataclass(slots=True)
class _Task:
    """An item to work on.

    n_failures: how many times it failed to read or write a file
    result: of the latest try
    """

    index: int
    item: Any
    n_failures: int = 0
    result: Ref = None


def run_tasks(
    function: Callable[[Item], object],
    items: Iterable[Item],
    *,
    tally: Counter[str],
    kernel_jobs: Iterable[KernelJob] = (),
    n_cores: int = 1,
) -> Generator[tuple[Item, Ref]]:
    """Apply a function to items. Yield finished items with references to results, in any order.

    tally: gets the numbers of finished tasks ("done"), and of repetitions, because a worker died or
        failed ("repeated")
    kernel_jobs: activities whose compiled loops each machine prepares
    n_cores: cores that a task occupies
    """
    context = [ray.put(function)], os.getcwd(), tuple(kernel_jobs), os.environ.get(VARIABLE)
    waiting = enumerate(items)
    running = dict[Ref, _Task]()  # by the reference to the outcome
    failing_nodes = set[str]()
    first_failed = sys.maxsize  # the index of the first item that failed for good
    error: VoltError | None = None

    def start(task: _Task) -> None:
        node = "DEFAULT"
        if task.n_failures:
            node = _choose_other_node(failing_nodes, task.index, n_cores=n_cores)
        remote = _run_task.options(num_cpus=n_cores, scheduling_strategy=node)
        outcome, task.result = remote.remote(task.item, *context)
        running[outcome] = task

    try:
        while True:
            if error is None:
                n_ahead = max(
                    _MIN_AHEAD, TASKS_PER_CORE * cluster_cores()
                )  # machines may come and go
                for index, item in islice(waiting, max(0, n_ahead - len(running))):
                    start(_Task(index, item))
            if not any(task.index < first_failed for task in running.values()):
                break
            [outcome], _ = ray.wait(list(running), num_returns=1)
            task = running.pop(outcome)
            failure: _Failure | int = fetch(outcome)
            if isinstance(failure, int):
                tally.update(done=1, repeated=failure)
                yield task.item, task.result
            elif failure.may_pass and task.n_failures < _MAX_MOVES:
                task.n_failures += 1
                tally["repeated"] += 1
                failing_nodes.add(failure.node_id)
                start(task)
            elif task.index < first_failed:
                first_failed = task.index
                error = failure.located_error()
        if error is not None:
            raise error
    finally:
        for outcome in running:
            ray.cancel(outcome, force=True)


def cluster_cores() -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _choose_other_node(failing_nodes: Collection[str], index: int, *, n_cores: int) -> Any:
    """Return where Ray should run a task that failed on some machines: on one of the others, if
    there is one.

    index: the index of the task's item, so that tasks are spread over the machines
    """
    able_nodes = {
        node["NodeID"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= n_cores
    }
    others = sorted(able_nodes - {*failing_nodes})
    if not others:
        return "DEFAULT"
    return NodeAffinitySchedulingStrategy(others[index % len(others)], soft=True)


@dataclass(frozen=True, slots=True)
class _Failure:
    """The error of a task.

    node, node_id: the machine's address, and its id in Ray
    code: errno of the failure to read or write that caused the error; 0 for another cause
    missing_path: the file or folder that the machine lacks, if the code is ENOENT
    may_pass: whether another machine may succeed; the final answer of a server is the same for all
    """

    error: VoltError
    node: str
    node_id: str
    code: int = 0
    missing_path: str = ""
    may_pass: bool = False

    @classmethod
    def of(cls, error: VoltError) -> _Failure:
        node = ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id()
        for cause in causes(error):
            if isinstance(cause, OSError) and cause.errno:
                path = str(cause.filename or "")
                is_not_found = cause.errno == errno.ENOENT and not path  # a server's 404
                is_final = isinstance(cause, _FINAL_ERRORS) or is_not_found
                may_pass = cause.errno == errno.ETIMEDOUT or not is_final
                folder = os.path.dirname(path) or "."
                missing_path = path if os.path.isdir(folder) else folder
                return cls(error, *node, cause.errno, missing_path, may_pass)
        return cls(error, *node)

    def located_error(self) -> VoltError:
        """Return the error, with the machine's address if it could not read or write a file."""
        if not self.code:
            return self.error
        message = f"node {self.node}: {self.error.message}"
        path = self.missing_path
        if self.code == errno.ENOENT and path and os.path.lexists(path):
            message += f"; {shown_path(path)} exists on the driver, so choose a folder that all machines share"
        return self.error.reworded(message)


def fetch(ref: Ref) -> Any:
    """Return a result. Raises VoltError if the cluster failed to compute it."""
    try:
        return ray.get(ref)
    except RayTaskError as error:
        if "failed to import" in str(error):
            raise VoltError(_NO_VOLT) from error
        raise
    except RayError as error:
        raise VoltError(
            f"the cluster failed: {first_sentence(str(error))}; see `ray status`, and retry"
        ) from error


# on a worker


@ray.remote(num_returns=2, max_retries=MAX_RETRIES)
def _run_task(
    item: Any,
    functions: list[Ref],
    folder: str,
    kernel_jobs: tuple[KernelJob, ...],
    retry_for: str | None,
) -> tuple[_Failure | int, Any]:
    """Return the outcome and the result of a task.

    functions: in a list, so that Ray passes a reference
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # there is a worker for each core
    if retry_for:
        os.environ[VARIABLE] = retry_for
    try:
        _enter(folder)
        _prepare_kernels(kernel_jobs)
        worker = ray._private.worker.global_worker.core_worker
        return worker.get_current_task_attempt_number(), _fetch_once(functions[0])(item)
    except VoltError as error:
        return _Failure.of(error), None


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)  # so that relative paths mean the same, also in errors
    except OSError as error:
        message = f"{shown_path(folder)}: cannot be entered: {reason(error)}"
        raise VoltError(
            f"{message}; run this from a folder that all machines of the cluster share"
        ) from error


@lru_cache(maxsize=1)
def _fetch_once(ref: Ref) -> Any:
    return ray.get(ref)


@cache
def _prepare_kernels(jobs: tuple[KernelJob, ...]) -> None:
    """Compile and cache kernels in one process of each machine, while its other processes wait."""
    folder = jit.code_folder()
    if not folder or not warmup.missing(*jobs):
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        warmup.compile_kernels(*jobs)
    finally:
        os.close(handle)
