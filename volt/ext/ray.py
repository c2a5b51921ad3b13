"""Count words (`RayMap`), encode files (`RayWriter`) and datasets (`encode`) on a cluster of Ray, with equal results.

Workers read and write files, so all machines need the same files under the same paths. The result of a task depends
only on its item, so a task is retried if its machine dies, and on another machine if it cannot read or write a file. If
several items fail, the first item's error is raised.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from itertools import chain, islice
from math import ceil
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from volt import arguments
from volt.count.corpus import group_shards, look_up_sizes, shards_of
from volt.count.counting import ShardCounter
from volt.count.kept_counts import Shard, path_of
from volt.count.word_counts import WordCounts, sum_parts
from volt.display import counted
from volt.encode.batch_encoder import EncodedPart
from volt.encode.chunks import Chunk
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, Progress, encoded_parts, output_files, write_each
from volt.errors import ConfigError, OutputError, VoltError, causes, missing, reason, shown_path
from volt.ext.ray_cluster import connected, first_sentence
from volt.files.paths import check_files, mark_of, size_of
from volt.files.ranges import RANGE_SIZE, divide_compressed_file, with_line_numbers
from volt.files.remote import ChangedError, RefusedError
from volt.files.retries import VARIABLE, ServerError
from volt.files.small_files import is_compressed
from volt.files.temporary import sweep_beside
from volt.kernels import jit, warmup
from volt.kernels.warmup import Job as KernelJob
from volt.vocabulary import Vocabulary

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError:
    raise missing("ray", extra="ray") from None

Item = TypeVar("Item")
Result = TypeVar("Result")
_FINAL = ServerError, RefusedError, ChangedError  # unless the code is ETIMEDOUT
Ref = Any  # ray.ObjectRef: a reference to a result
RETRIES = 20  # of a task whose worker or machine has died
_LEAST_AHEAD, _AHEAD = 16, 4  # unfinished tasks: the minimum, and the number for each core
WHY = "workers read only"  # so stdin is refused
_ELSEWHERE = 2  # retries of a task that could not read or write a file
_NOT_THERE = "workers of the cluster cannot import volt; install the same version of volt-vocab on its machines"


def finished(
    function: Callable[[Item], object],
    items: Iterable[Item],
    *,
    tally: Counter[str],
    jobs: Iterable[KernelJob] = (),
    n_cores: int = 1,
) -> Generator[tuple[Item, Ref]]:
    """Apply a function to items. Yield each finished item with a reference to its result, in any order.

    tally: gets the numbers of finished tasks ("done"), and of repetitions, because a worker died or failed ("repeated")
    """
    context = [ray.put(function)], os.getcwd(), tuple(jobs), os.environ.get(VARIABLE)
    waiting = enumerate(items)
    running = dict[Ref, tuple[int, Item, Ref]]()
    n_failures = Counter[int]()
    failing_nodes = set[str]()
    first_failed = sys.maxsize
    error: VoltError | None = None

    def start(number: int, item: Item) -> None:
        where = "DEFAULT"
        if n_failures[number]:
            where = _elsewhere(failing_nodes, number, n_cores=n_cores)
        task = _apply.options(num_cpus=n_cores, scheduling_strategy=where)
        outcome, result = task.remote(item, *context)
        running[outcome] = number, item, result

    try:
        while True:
            if error is None:
                n_ahead = max(_LEAST_AHEAD, _AHEAD * _cluster_cores())  # machines may come and go
                for number, item in islice(waiting, max(0, n_ahead - len(running))):
                    start(number, item)
            if not any(number < first_failed for number, _, _ in running.values()):
                break
            outcome = ray.wait(list(running), num_returns=1)[0][0]
            number, item, result = running.pop(outcome)
            failure: _Failure | int = fetched(outcome)
            if isinstance(failure, int):
                tally.update(done=1, repeated=failure)
                yield item, result
            elif failure.may_pass and n_failures[number] < _ELSEWHERE:
                n_failures[number] += 1
                tally["repeated"] += 1
                failing_nodes.add(failure.node_id)
                start(number, item)
            elif number < first_failed:
                first_failed = number
                error = failure.located()
        if error is not None:
            raise error
    finally:
        for outcome in running:
            ray.cancel(outcome, force=True)


def _cluster_cores() -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _elsewhere(failing: Collection[str], number: int, *, n_cores: int) -> Any:
    """Return where Ray should run a task that failed on some machines: on one of the others, if there is one."""
    able = {
        node["NodeID"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= n_cores
    }
    others = sorted(able - {*failing})
    if not others:
        return "DEFAULT"
    return NodeAffinitySchedulingStrategy(others[number % len(others)], soft=True)


@dataclass(frozen=True, slots=True)
class _Failure:
    """The error of a task.

    node, node_id: the machine's address, and its id in Ray
    code, path: errno of the failure to read or write that caused the error, if any; the file or folder that is missing
    may_pass: whether another machine may succeed; the final answer of a server is the same for all
    """

    error: VoltError
    node: str
    node_id: str
    code: int = 0
    path: str = ""
    may_pass: bool = False

    @classmethod
    def of(cls, error: VoltError) -> _Failure:
        node = ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id()
        for cause in causes(error):
            if isinstance(cause, OSError) and cause.errno:
                path = str(cause.filename or "")
                is_not_found = cause.errno == errno.ENOENT and not path  # a server's 404
                is_final = isinstance(cause, _FINAL) or is_not_found
                may_pass = cause.errno == errno.ETIMEDOUT or not is_final
                folder = os.path.dirname(path) or "."
                absent = path if os.path.isdir(folder) else folder
                return cls(error, *node, cause.errno, absent, may_pass)
        return cls(error, *node)

    def located(self) -> VoltError:
        """Return the error, with the machine's address if it could not read or write a file."""
        if not self.code:
            return self.error
        message = f"node {self.node}: {self.error.message}"
        if self.code == errno.ENOENT and self.path and os.path.lexists(self.path):
            message += f"; {shown_path(self.path)} exists on the driver, so choose a folder that all machines share"
        return self.error.reworded(message)


def fetched(ref: Ref) -> Any:
    """Return a result. Raises VoltError if the cluster failed to compute it."""
    try:
        return ray.get(ref)
    except RayTaskError as error:
        if "failed to import" in str(error):
            raise VoltError(_NOT_THERE) from error
        raise
    except RayError as error:
        raise VoltError(
            f"the cluster failed: {first_sentence(str(error))}; see `ray status`, and retry"
        ) from error


@ray.remote(num_returns=2, max_retries=RETRIES)
def _apply(
    item: Any,
    functions: list[Ref],
    folder: str,
    jobs: tuple[KernelJob, ...],
    retry_for: str | None,
) -> tuple[_Failure | int, Any]:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # there is a worker for each core
    if retry_for:
        os.environ[VARIABLE] = retry_for
    try:
        _enter(folder)
        _prepare(jobs)
        worker = ray._private.worker.global_worker.core_worker
        return worker.get_current_task_attempt_number(), _function(functions[0])(item)
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
def _function(ref: Ref) -> Any:
    return ray.get(ref)


@cache
def _prepare(jobs: tuple[KernelJob, ...]) -> None:
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


_PATIENCE = 5  # seconds for workers to die
_FAN = 8  # tables that a worker adds up at a time
_MOST_PARTS = 8  # of a compressed file, which each worker must decompress from the start
_THREADS = 4  # of a task: one that decompresses keeps three others busy
_BUSY = 2  # cores that a task occupies while it decompresses ahead and counts


@dataclass(frozen=True, slots=True)
class RayMap:
    """A `map` for `count_words`. As progress, it reports the bytes counted so far, and the bytes of all files.

        counts = count_words("corpus/*.txt", map=RayMap(address="auto"))

    address: a cluster's address, as for `volt.ext.ray_cluster.connected`; None for a cluster of this machine
    range_size: a large uncompressed file is read in ranges of this many bytes. A compressed file of a quarter of this
        size or more is divided if it is large beside the other files, and counting it takes much longer than
        decompressing it, as with a normalizer; each of up to 8 workers then decompresses it up to its own lines
    add_up: whether workers add up their counts, so that only one table is fetched. Set False if `count_words` has the
        argument `memory`
    report: called once at the end with a summary: the numbers of tasks and of their repetitions, and the speed
    """

    address: str | None = None
    range_size: int = RANGE_SIZE
    add_up: bool = True
    report: Callable[[str], object] | None = None

    def __post_init__(self) -> None:
        if self.address is not None:
            arguments.text(self.address, "address")
        arguments.whole(self.range_size, "range_size", low=1)
        arguments.flag(self.add_up, "add_up")
        arguments.function(self.report, "report")

    def __call__(
        self, function: Callable[[Shard], WordCounts], paths: Iterable[str]
    ) -> Iterator[WordCounts]:
        paths = check_files(paths, WHY)
        sizes, total = look_up_sizes(paths)
        counter = cast(ShardCounter, function)
        jobs: tuple[KernelJob, ...] = ("count",) if counter.is_by_units else ()
        silent = replace(counter.silent(), limits=counter.limits._replace(n_threads=_THREADS))

        def count(group: list[tuple[Shard, int]]) -> WordCounts:
            return silent(tuple(shard for shard, _ in group))

        done = 0
        sums = _Sums()
        tally = Counter[str]()
        with connected(self.address):
            groups = self._groups(paths, sizes, total, counter)
            start = time.monotonic()
            for group, counts in finished(count, groups, jobs=jobs, tally=tally):
                if self.add_up:
                    sums.add(counts)
                else:
                    yield fetched(counts)
                done += sum(size for _, size in group)
                if counter.progress:
                    counter.progress(path_of(group[-1][0]), done, total)
            if self.add_up:
                yield sums.fetched()
            _summarize(self.report, tally, done, start)

    def _groups(
        self,
        paths: Sequence[str],
        sizes: Mapping[str, int | None],
        total: int | None,
        counter: ShardCounter,
    ) -> Iterator[list[tuple[Shard, int]]]:
        """Return groups of shards that tasks count, each shard with its size."""
        n_cores = _cluster_cores()
        shards = shards_of(paths, size=self.range_size)
        if counter.store:
            return group_shards(shards, sizes, max_bytes=self.range_size)
        if total and not counter.is_by_units:
            divided = (self._parts(shard, sizes, n_cores / total) for shard in shards)
            shards = list(chain.from_iterable(divided))
        share = (total or self.range_size) // (_AHEAD * n_cores)
        return group_shards(shards, sizes, max_bytes=max(1, min(self.range_size, share)))

    def _parts(
        self, shard: Shard, sizes: Mapping[str, int | None], cores_per_byte: float
    ) -> list[Shard]:
        """Divide a large compressed file if one task would need longer for it than the cluster for its share."""
        size = (sizes[shard] if isinstance(shard, str) else None) or 0
        n = min(
            _MOST_PARTS, ceil(size * cores_per_byte / _BUSY), _MOST_PARTS * size // self.range_size
        )
        if n <= 1:
            return [shard]
        return [*divide_compressed_file(str(shard), n)] or [shard]


@dataclass(frozen=True, slots=True)
class RayWriter:
    """A writer for `encode_each` and `binarize_each`: a worker makes each output, in any order. For a single output,
    `parts` encodes ranges of files on workers, and this process writes.

        encode_each(encoder, paths, Path("out"), job=EncodeJob("bin"), write=RayWriter(address="auto"))
        binarize_each(encoder, paths, Path("out"), write=RayWriter(address="auto").each)
        encode_one(encoder, paths, Path("out.ids"), job=EncodeJob("ids"), parts=RayWriter(address="auto").parts)

    A worker gets as many cores as the job has threads. `progress` receives the bytes of the finished files.
    address, report: as for `RayMap`
    """

    address: str | None = None
    report: Callable[[str], object] | None = None

    def __post_init__(self) -> None:
        if self.address is not None:
            arguments.text(self.address, "address")
        arguments.function(self.report, "report")

    def __call__(
        self, encoder: Encoder, outputs: Mapping[str, Path], job: EncodeJob, progress: Progress
    ) -> Iterator[tuple[str, int]]:
        files = partial(output_files, (), job=job)
        return self.each(partial(_write, encoder=encoder), outputs, job, progress, files=files)

    def each(
        self,
        write: Callable[[str, Path, EncodeJob], Result],
        outputs: Mapping[str, Path],
        job: EncodeJob,
        progress: Progress,
        *,
        files: Callable[[Path], list[Path]],
    ) -> Iterator[tuple[str, Result]]:
        """Call `write` for each file and its output, on workers. Yield each file and the result once it is written.

        files: returns the files of an output
        """
        if not outputs:
            return
        check_files(outputs, WHY)
        done = 0
        tally = Counter[str]()
        n_cores = job.n_threads or 1
        jobs: list[KernelJob] = ["encode", "words"]
        if job.dropout:
            jobs.append("dropout")
        work = partial(_written, write=write, job=replace(job, n_threads=n_cores), files=files)
        tasks = finished(work, outputs.items(), jobs=jobs, n_cores=n_cores, tally=tally)
        with connected(self.address), _parts_removed(outputs.values(), files), closing(tasks):
            start = time.monotonic()
            for (path, output), result in tasks:
                written, marks, node = fetched(result)
                own = [*map(mark_of, files(output))]
                if marks != own:
                    problem = "differs from the driver's file"
                    if None in own:
                        problem = "is missing on the driver"
                    raise OutputError(
                        f"{shown_path(output)}: written on node {node}, but {problem}; "
                        "choose a folder that all machines share"
                    )
                done += size_of(path) or 0
                progress(done)
                yield path, written
            _summarize(self.report, tally, done, start)

    def parts(
        self,
        encoder: Encoder,
        paths: Iterable[str],
        job: EncodeJob,
        *,
        restart: bool,
        progress: Progress | None = None,
    ) -> Iterator[tuple[Chunk, EncodedPart]]:
        """Encode ranges of files, and small files, on workers; yield encoded lines in order, as `encoded_parts` does.
        This process encodes large compressed files, which cannot be divided and would fill a worker's memory."""
        if job.dropout:
            raise ConfigError(
                "dropout into one output needs the numbers of lines, which workers do not know; "
                "encode each file into a folder, or without Ray"
            )
        shards = shards_of(check_files(paths, WHY), size=RANGE_SIZE)
        own = {number for number, shard in enumerate(shards) if _is_large(shard)}
        items = [item for item in enumerate(shards) if item[0] not in own]
        work = partial(_encoded, encoder=encoder, job=replace(job, n_threads=1))
        ready = dict[int, Ref]()
        tally = Counter[str]()
        done = 0
        with connected(self.address):
            start = time.monotonic()
            with closing(finished(work, items, jobs=("encode", "words"), tally=tally)) as tasks:
                for number, shard in enumerate(shards):
                    if number in own:
                        parts = _read(encoder, shard, job)
                    else:
                        while number not in ready:
                            (finished_number, _), result = next(tasks)
                            ready[finished_number] = result
                        parts = iter([fetched(ready.pop(number))])
                    for n_bytes, part in parts:
                        done += n_bytes
                        if progress:
                            progress(done)
                        yield Chunk(b""), part
                    ends_file = isinstance(shard, str) or shard.stop == shard.file_size
                    nothing = EncodedPart(part.values[:0], part.ends[:0])
                    yield Chunk(b"", ends_file=ends_file), nothing
            _summarize(self.report, tally, done, start)


def _is_large(shard: Shard) -> bool:
    """Check whether a shard could fill a worker's memory, because it cannot be divided."""
    if not isinstance(shard, str):
        return False
    most = RANGE_SIZE // 4 if is_compressed(shard) else RANGE_SIZE
    return (size_of(shard) or 0) > most


def _read(encoder: Encoder, shard: Shard, job: EncodeJob) -> Iterator[tuple[int, EncodedPart]]:
    for chunk, part in encoded_parts(encoder, [shard], job, restart=True):
        yield len(chunk.text), part


def _encoded(
    shard: tuple[int, Shard], *, encoder: Encoder, job: EncodeJob
) -> tuple[int, EncodedPart]:
    """Encode a file or a range. Return the number of bytes of its text, and its lines."""
    _, text = shard
    if isinstance(text, str):
        each = [*_read(encoder, text, job)]
    else:
        each = with_line_numbers(text, lambda one: [*_read(encoder, one, job)])
    values = np.concatenate([part.values for _, part in each])
    n_bytes = 0
    first = 0
    ends = []
    for size, part in each:
        n_bytes += size
        ends.append(part.ends + first)
        first += len(part.values)
    return n_bytes, EncodedPart(values, np.concatenate(ends))


def _summarize(
    report: Callable[[str], object] | None, tally: Counter[str], n_bytes: int, start: float
) -> None:
    if report:
        tasks = counted(tally["done"], "task")
        speed = n_bytes / 1e6 / (time.monotonic() - start)
        report(f"Ray: {tasks}, {tally['repeated']} repeated, {speed:,.1f} MB/s")


@contextmanager
def _parts_removed(outputs: Iterable[Path], files: Callable[[Path], list[Path]]) -> Iterator[None]:
    """If the block fails, remove the partial files of its killed workers."""
    try:
        yield
    except BaseException:
        end = time.monotonic() + _PATIENCE
        written = [file for output in outputs for file in files(output)]
        while sweep_beside(written) and time.monotonic() < end:
            time.sleep(0.05)
        raise


def _write(path: str, output: Path, job: EncodeJob, *, encoder: Encoder) -> int:
    [(_, n_lines)] = write_each(encoder, {path: output}, job, lambda _: None)
    return n_lines


def _written(
    paths: tuple[str, Path],
    *,
    write: Callable[[str, Path, EncodeJob], Result],
    job: EncodeJob,
    files: Callable[[Path], list[Path]],
) -> tuple[Result, list[tuple[int, int] | None], str]:
    result = write(*paths, job)
    return result, [*map(mark_of, files(paths[1]))], ray.util.get_node_ip_address()


@dataclass(frozen=True)
class _Sums:
    """Add up tables of counts on workers, a few at a time, while other shards are still counted.

    levels: tables of single shards, sums of `_FAN` shards, and so on
    """

    levels: list[list[Ref]] = field(default_factory=list)

    def add(self, counts: Ref, level: int = 0) -> None:
        if level == len(self.levels):
            self.levels.append([])
        waiting = self.levels[level]
        waiting.append(counts)
        if len(waiting) == _FAN:
            whole = _sum.remote(*waiting)
            waiting.clear()
            self.add(whole, level + 1)

    def fetched(self) -> WordCounts:
        left = [*chain.from_iterable(self.levels)]
        while len(left) > 1:
            left = [_sum.remote(*left[start : start + _FAN]) for start in range(0, len(left), _FAN)]
        whole: WordCounts | VoltError = fetched(left[0])
        if isinstance(whole, VoltError):
            raise whole
        return whole


@ray.remote(max_retries=RETRIES)
def _sum(*tables: Any) -> Any:
    """Return the sum of tables, or the error of one of them, or of adding."""
    for error in tables:
        if isinstance(error, VoltError):
            return error
    first = tables[0]
    try:
        parts = (counts.part for counts in tables)
        return WordCounts(*sum_parts(parts), first.normalizer, first.pretokenizer)
    except VoltError as error:
        return error


def encode(
    dataset: Any, vocabulary: Vocabulary, *, column: str = "text", ids: str = "ids", **options: Any
) -> Any:
    """Return a `ray.data.Dataset` with one more column: the ids of a column of text, a list of int32 for each row.

        encoded = encode(ray.data.read_text("s3://bucket/corpus/"), Vocabulary.load("corpus.volt"))
        encoded.write_parquet("s3://bucket/encoded/")

    column, ids: the names of the column to encode, and of the new column
    options: arguments of `Encoder.encode_batch`, such as add_eos; in a task, it uses one thread

    Each worker process makes the encoder once, and reads Arrow's memory. A missing column, or a text that is null, is
    an error when the dataset is executed.
    """
    if not hasattr(dataset, "map_batches"):
        remedy = "give a dataset of Ray, such as ray.data.read_text(paths)"
        raise arguments.refusal(dataset, "dataset", remedy)
    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary")
    work = partial(
        _with_ids,
        vocabulary=ray.put(vocabulary),
        column=column,
        ids=ids,
        options={"n_threads": 1, **options},
    )
    return dataset.map_batches(work, batch_format="pyarrow", zero_copy_batch=True)


def _with_ids(
    table: Any, *, vocabulary: Ref, column: str, ids: str, options: dict[str, Any]
) -> Any:
    import pyarrow as pa

    names = table.column_names
    problem = ""
    if column not in names:
        problem = f"has no column {column!r}"
    elif ids in names:
        problem = f"already has a column {ids!r}"
    if problem:
        raise ConfigError(
            f"the dataset {problem}; set column and ids; its columns are: {', '.join(names)}"
        )
    encoded = _encoder(vocabulary).encode_batch(table[column], **options)
    return table.append_column(ids, pa.LargeListArray.from_arrays(encoded.offsets, encoded.ids))


@lru_cache(maxsize=1)
def _encoder(vocabulary: Ref) -> Encoder:
    return Encoder(ray.get(vocabulary))
