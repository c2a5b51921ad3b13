"""Count words (`RayMap`), encode files (`RayWriter`) and datasets (`encode`) on a cluster of Ray,
with equal results.

Workers read and write files, so all machines need the same files under the same paths.
`volt.ext.ray_tasks` runs the tasks, and repeats those that fail.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from volt import arguments
from volt.count.corpus import group_shards, look_up_sizes, shards_of
from volt.count.counting import ShardCounter
from volt.count.kept_counts import Shard
from volt.count.word_counts import WordCounts, sum_parts
from volt.display import counted
from volt.encode.arrays import EncodedPart
from volt.encode.chunks import Chunk
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, Progress, encode_to_parts, output_files, write_each
from volt.errors import ConfigError, OutputError, VoltError, missing, shown_path
from volt.ext.ray_cluster import connected
from volt.ext.ray_tasks import MAX_RETRIES, TASKS_PER_CORE, Ref, cluster_cores, fetch, run_tasks
from volt.files.paths import check_files, mark_of, size_of
from volt.files.ranges import RANGE_SIZE, divide_compressed_file, path_of, with_line_numbers
from volt.files.small_files import is_compressed
from volt.files.temporary import sweep_beside
from volt.kernels.warmup import Job as KernelJob
from volt.vocabulary import Vocabulary

try:
    import ray
except ImportError:
    raise missing("ray", extra="ray") from None

Result = TypeVar("Result")
WHY = "workers read only"  # so stdin is refused
_PATIENCE = 5  # seconds for workers to die
_SUM_SIZE = 8  # tables that a worker adds up at a time
_MAX_PARTS = 8  # of a compressed file, which each worker must decompress from the start
_N_THREADS = 4  # of a task that counts: one that decompresses occupies three others
_BUSY_CORES = 2  # that a task occupies while it decompresses ahead and counts


def _check_engine(address: str | None, report: Callable[[str], object] | None) -> None:
    if address is not None:
        arguments.text(address, "address")
    arguments.function(report, "report")


@dataclass(frozen=True, slots=True)
class RayMap:
    """A `map` for `count_words`.

    As progress, it reports the bytes counted so far, and the bytes of all files.

        counts = count_words("corpus/*.txt", map=RayMap(address="auto"))

    address: a cluster's address, as for `volt.ext.ray_cluster.connected`; None for a cluster of
        this machine
    range_size: a large uncompressed file is read in ranges of this many bytes. A compressed file of
        a quarter of this size or more is divided if it is large beside the other files, and
        counting it takes much longer than decompressing it, as with a normalizer; each of up to 8
        workers then decompresses it up to its own lines
    add_up: whether workers add up their counts, so that only one table is fetched. Set False if
        `count_words` has the argument `memory`
    report: called once at the end with a summary: the numbers of tasks and of their repetitions,
        and the speed
    """

    address: str | None = None
    range_size: int = RANGE_SIZE
    add_up: bool = True
    report: Callable[[str], object] | None = None

    def __post_init__(self) -> None:
        arguments.whole(self.range_size, "range_size", low=1)
        arguments.flag(self.add_up, "add_up")
        _check_engine(self.address, self.report)

    def __call__(
        self, function: Callable[[Shard], WordCounts], paths: Iterable[str]
    ) -> Iterator[WordCounts]:
        paths = check_files(paths, WHY)
        sizes, total = look_up_sizes(paths)
        counter = cast(ShardCounter, function)
        jobs: tuple[KernelJob, ...] = ("count",) if counter.is_by_units else ()
        silent = replace(
            counter, progress=None, limits=counter.limits._replace(n_threads=_N_THREADS)
        )

        def count(group: list[tuple[Shard, int]]) -> WordCounts:
            return silent(tuple(shard for shard, _ in group))

        n_bytes = 0
        sums = _Sums()
        tally = Counter[str]()
        with connected(self.address):
            groups = self._group_shards(paths, sizes, total, counter)
            start = time.monotonic()
            for group, counts in run_tasks(count, groups, kernel_jobs=jobs, tally=tally):
                if self.add_up:
                    sums.add(counts)
                else:
                    yield fetch(counts)
                n_bytes += sum(size for _, size in group)
                if counter.progress:
                    counter.progress(path_of(group[-1][0]), n_bytes, total)
            if self.add_up:
                yield sums.fetch()
            _summarize(self.report, tally, n_bytes, start)

    def _group_shards(
        self,
        paths: Sequence[str],
        sizes: Mapping[str, int | None],
        total: int | None,
        counter: ShardCounter,
    ) -> Iterator[list[tuple[Shard, int]]]:
        """Return groups of shards, one for each task; each shard with its size in bytes."""
        n_cores = cluster_cores()
        shards = shards_of(paths, size=self.range_size)
        if counter.store:  # counts are stored by group, so groups must not depend on the cluster
            return group_shards(shards, sizes, max_bytes=self.range_size)
        if total and not counter.is_by_units:
            divided = (self._divide(shard, sizes, n_cores / total) for shard in shards)
            shards = list(chain.from_iterable(divided))
        share = (total or self.range_size) // (TASKS_PER_CORE * n_cores)
        return group_shards(shards, sizes, max_bytes=max(1, min(self.range_size, share)))

    def _divide(
        self, shard: Shard, sizes: Mapping[str, int | None], cores_per_byte: float
    ) -> list[Shard]:
        """Divide a compressed file into so many parts that their tasks occupy the file's share of
        all cores.

        A task occupies two cores, because it decompresses ahead while it counts. On 16 cores, a
        file with half of all bytes gets 8 cores, which is 4 parts.
        """
        size = (sizes[shard] if isinstance(shard, str) else None) or 0
        n_fair = ceil(size * cores_per_byte / _BUSY_CORES)
        n_large = _MAX_PARTS * size // self.range_size  # so that parts are not small
        n_parts = min(_MAX_PARTS, n_fair, n_large)
        if n_parts <= 1:
            return [shard]
        return [*divide_compressed_file(str(shard), n_parts)] or [shard]


@dataclass(frozen=True, slots=True)
class RayWriter:
    """A writer for `encode_each` and `binarize_each`: a worker makes each output, in any order.

    For a single output, `parts` encodes ranges of files on workers, and this process writes.

        encode_each(encoder, paths, Path("out"), job=EncodeJob("bin"), write=RayWriter(address="auto"))
        binarize_each(encoder, paths, Path("out"), write=RayWriter(address="auto").each)
        encode_one(encoder, paths, Path("out.ids"), job=EncodeJob("ids"), parts=RayWriter(address="auto").parts)

    A worker gets as many cores as the job has threads. `progress` receives the bytes of the
    finished files.

    address, report: as for `RayMap`
    """

    address: str | None = None
    report: Callable[[str], object] | None = None

    def __post_init__(self) -> None:
        _check_engine(self.address, self.report)

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
        """Call `write` for each file and its output, on workers.

        Yield each file and the result once it is written.

        files: returns the files of an output
        """
        if not outputs:
            return
        check_files(outputs, WHY)
        n_bytes = 0
        tally = Counter[str]()
        n_cores = job.n_threads or 1
        jobs: list[KernelJob] = ["encode", "words"]
        if job.dropout:
            jobs.append("dropout")
        work = partial(_write_marked, write=write, job=replace(job, n_threads=n_cores), files=files)
        tasks = run_tasks(work, outputs.items(), kernel_jobs=jobs, n_cores=n_cores, tally=tally)
        with connected(self.address), _sweep_after_failure(outputs.values(), files), closing(tasks):
            start = time.monotonic()
            for (path, output), ref in tasks:
                result, worker_marks, node = fetch(ref)
                marks = [*map(mark_of, files(output))]
                if worker_marks != marks:
                    problem = "differs from the driver's file"
                    if None in marks:
                        problem = "is missing on the driver"
                    raise OutputError(
                        f"{shown_path(output)}: written on node {node}, but {problem}; "
                        "choose a folder that all machines share"
                    )
                n_bytes += size_of(path) or 0
                progress(n_bytes)
                yield path, result
            _summarize(self.report, tally, n_bytes, start)

    def parts(
        self,
        encoder: Encoder,
        paths: Iterable[str],
        job: EncodeJob,
        *,
        progress: Progress | None = None,
    ) -> Iterator[tuple[Chunk, EncodedPart]]:
        """Encode ranges of files, and small files, on workers; yield encoded lines in order, as
        `encode_to_parts` does. This process encodes large compressed files, which cannot be divided
        and would fill a worker's memory."""
        if job.dropout:
            raise ConfigError(
                "dropout into one output needs the numbers of lines, which workers do not know; "
                "encode each file into a folder, or without Ray"
            )
        shards = shards_of(check_files(paths, WHY), size=RANGE_SIZE)
        local = {index for index, shard in enumerate(shards) if _is_large(shard)}
        items = [item for item in enumerate(shards) if item[0] not in local]
        work = partial(_encode_on_worker, encoder=encoder, job=replace(job, n_threads=1))
        ready = dict[int, Ref]()  # results of later shards, by the shard's index
        tally = Counter[str]()
        n_done = 0
        with connected(self.address):
            start = time.monotonic()
            tasks = run_tasks(work, items, kernel_jobs=("encode", "words"), tally=tally)
            with closing(tasks):
                for index, shard in enumerate(shards):
                    if index in local:
                        parts = _encode_shard(encoder, shard, job)
                    else:
                        while index not in ready:
                            (ready_index, _), result = next(tasks)
                            ready[ready_index] = result
                        parts = iter([fetch(ready.pop(index))])
                    for n_bytes, part in parts:
                        n_done += n_bytes
                        if progress:
                            progress(n_done)
                        yield Chunk(b""), part
                    ends_file = isinstance(shard, str) or shard.stop == shard.file_size
                    nothing = EncodedPart(part.values[:0], part.ends[:0])
                    yield Chunk(b"", ends_file=ends_file), nothing
            _summarize(self.report, tally, n_done, start)


def _is_large(shard: Shard) -> bool:
    """Check whether a shard could fill a worker's memory, because it cannot be divided."""
    if not isinstance(shard, str):
        return False
    max_size = RANGE_SIZE // 4 if is_compressed(shard) else RANGE_SIZE
    return (size_of(shard) or 0) > max_size


def _encode_shard(
    encoder: Encoder, shard: Shard, job: EncodeJob
) -> Iterator[tuple[int, EncodedPart]]:
    """Yield the encoded lines of each chunk, with the number of bytes of its text."""
    for chunk, part in encode_to_parts(encoder, [shard], job):
        yield len(chunk.text), part


def _encode_on_worker(
    item: tuple[int, Shard], *, encoder: Encoder, job: EncodeJob
) -> tuple[int, EncodedPart]:
    """Encode a file or a range. Return the number of bytes of its text, and its lines."""
    _, shard = item

    def encode(shard: Shard) -> list[tuple[int, EncodedPart]]:
        return [*_encode_shard(encoder, shard, job)]

    chunks = encode(shard) if isinstance(shard, str) else with_line_numbers(shard, encode)
    values = np.concatenate([part.values for _, part in chunks])
    n_values = 0
    ends = []
    for _, part in chunks:
        ends.append(part.ends + n_values)
        n_values += len(part.values)
    return sum(n_bytes for n_bytes, _ in chunks), EncodedPart(values, np.concatenate(ends))


def _summarize(
    report: Callable[[str], object] | None, tally: Counter[str], n_bytes: int, start: float
) -> None:
    if report:
        tasks = counted(tally["done"], "task")
        speed = n_bytes / 1e6 / (time.monotonic() - start)
        report(f"Ray: {tasks}, {tally['repeated']} repeated, {speed:,.1f} MB/s")


@contextmanager
def _sweep_after_failure(
    outputs: Iterable[Path], files: Callable[[Path], list[Path]]
) -> Iterator[None]:
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


def _write_marked(
    paths: tuple[str, Path],
    *,
    write: Callable[[str, Path, EncodeJob], Result],
    job: EncodeJob,
    files: Callable[[Path], list[Path]],
) -> tuple[Result, list[tuple[int, int] | None], str]:
    """Write an output. Return the result, size and time of each file, and the machine's address.

    paths: of the input and of the output
    """
    result = write(*paths, job)
    return result, [*map(mark_of, files(paths[1]))], ray.util.get_node_ip_address()


@dataclass(frozen=True)
class _Sums:
    """Add up tables of counts on workers, a few at a time, while other shards are still counted.

    This works like a counter in base 8: level 0 contains up to 7 tables of single shards, level 1
    sums of 8 shards, level 2 sums of 64 shards, and so on.
    """

    levels: list[list[Ref]] = field(default_factory=list)

    def add(self, table: Ref, level: int = 0) -> None:
        if level == len(self.levels):
            self.levels.append([])
        tables = self.levels[level]
        tables.append(table)
        if len(tables) == _SUM_SIZE:
            total = _add_up.remote(*tables)
            tables.clear()
            self.add(total, level + 1)

    def fetch(self) -> WordCounts:
        """Return the sum of all tables. Raises the error of a task or of adding."""
        tables = [*chain.from_iterable(self.levels)]
        while len(tables) > 1:
            starts = range(0, len(tables), _SUM_SIZE)
            tables = [_add_up.remote(*tables[start : start + _SUM_SIZE]) for start in starts]
        total: WordCounts | VoltError = fetch(tables[0])
        if isinstance(total, VoltError):
            raise total
        return total


@ray.remote(max_retries=MAX_RETRIES)
def _add_up(*tables: Any) -> Any:
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
    """Return a `ray.data.Dataset` with one more column: the ids of a column of text, a list of
    int32 for each row.

        encoded = encode(ray.data.read_text("s3://bucket/corpus/"), Vocabulary.load("corpus.volt"))
        encoded.write_parquet("s3://bucket/encoded/")

    column, ids: the names of the column to encode, and of the new column
    options: arguments of `Encoder.encode_batch`, such as add_eos; in a task, it uses one thread

    Each worker process makes the encoder once, and reads Arrow's memory. A missing column, or a
    text that is null, is an error when the dataset is executed.
    """
    if not hasattr(dataset, "map_batches"):
        remedy = "give a dataset of Ray, such as ray.data.read_text(paths)"
        raise arguments.refusal(dataset, "dataset", remedy)
    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary")
    work = partial(
        _add_ids,
        vocabulary=ray.put(vocabulary),
        column=column,
        ids=ids,
        options={"n_threads": 1, **options},
    )
    return dataset.map_batches(work, batch_format="pyarrow", zero_copy_batch=True)


def _add_ids(table: Any, *, vocabulary: Ref, column: str, ids: str, options: dict[str, Any]) -> Any:
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
