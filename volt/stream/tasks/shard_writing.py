r"""Tasks → folders of shards, each with an even share of every input, and word counts of each side.

    1. Read all inputs once: count lines, compute digests, check them (`InputFile`).
    2. Plan how many lines of each input each shard gets (`ShardPlan`).
    3. Read the inputs again, in order. In threads, mix, compress and count the lines of chunks.
       Write chunk after chunk, shard after shard.

Where a line goes depends on its number and the numbers of lines only. Line j of the concatenated
inputs belongs to shard j mod S, for S shards. Line k of the c_i lines that input i has in a
shard gets the sort key (k + ½) / c_i: keys of every input are spread evenly from 0 to 1.

    inputs a0 … a4 and b0 b1, 2 shards    shard 0: a0 a2 a4 b1    shard 1: a1 a3 b0
    sort keys in shard 0                  a0 1/6, a2 3/6, a4 5/6, b1 1/2    →    a0 a2 b1 a4

A chunk of a shard has the lines whose keys are in an interval, so chunks of any size give the same
order. Each chunk is compressed alone, so the bytes do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, get_args

import numpy as np

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.array_types import Floats, Longs
from volt.count.counting import count_block
from volt.count.word_counts import CountedPart, sum_parts
from volt.errors import ConfigError, VoltError, quoted, shown_path
from volt.files.atomic import write_atomic
from volt.files.blocks import Block, checked_block
from volt.files.text_checks import BYTE_ORDER_MARK
from volt.files.threads import MOST_WORKERS, available_cores, in_order
from volt.stream.tasks.manifest import (
    Compression,
    Manifest,
    ShardSettings,
    WrittenFile,
    WrittenShard,
    shard_name,
    task_folder,
)
from volt.stream.tasks.output_folder import ShardInputs, TaskFolder
from volt.stream.tasks.task import (
    InputFile,
    LineReader,
    ReadInput,
    Task,
    check_input,
    check_unchanged,
    expand_input,
    read_input_file,
)
from volt.stream.transforms.column import Column, concatenate
from volt.urls import url_of

Progress = Callable[[str, int, int | None], object]

LINES = 100_000  # of a shard
CHUNK_BYTES = 8 << 20  # of text that is compressed together
_MAX_CHUNK_LINES = 1 << 20  # a line takes memory, even if it is empty
_LEVEL = 3  # of zstd and gzip


def shard(
    tasks: Iterable[Task] | Any,
    folder: str | Path,
    *,
    lines: int = LINES,
    compress: Compression = "zstd",
    names: Sequence[str] = (),
    workers: int | None = None,
    max_line: int | None = MAX_LINE,
    progress: Progress | None = None,
) -> tuple[Manifest, ...]:
    """Write the shards of each task into a folder with the task's name.

    Up-to-date shards are not rewritten.

    tasks: tasks, or the result of `volt.stream.config.configuration.load_config`; a task that
        shares the inputs of another has no shards of its own
    folder: the folder that contains the tasks' folders
    lines: the approximate number of lines of a shard, for tasks that do not set their number of
        shards
    compress: "zstd", "gz" or "none"
    names: the names of tasks to write; all by default
    workers: the number of threads, by default one for each core; it does not change the shards
    max_line: the maximum number of bytes of a line; None for no limit
    progress: called with the step ("count lines" or "shard"), the lines done, and the total number
        of lines if known

    Words are counted only in lines that are UTF-8. Lines of "valid" tasks keep their order; lines
    of other tasks are mixed. If a run is killed, the next one continues after the last finished
    shard.
    Raises ConfigError, StreamError or CorpusError for invalid tasks and inputs, OutputError if
    shards cannot be written.

    >>> shard([Task("empty", "mono", ())], "shards")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: task 'empty': no inputs; give some, or share_inputs
    """
    selected = _select_tasks(tasks, names)
    lines = arguments.whole(lines, "lines", low=1)
    arguments.choice(compress, "compress", get_args(Compression))
    n_threads = available_cores()
    if workers is not None:
        n_threads = arguments.whole(workers, "workers", low=1, high=MOST_WORKERS)
    max_line = checked_max_line(max_line)
    tally = _Tally("count lines", None, progress)
    parent = _check_local(folder)
    folders = [TaskFolder(task_folder(parent, task), task.sides) for task in selected]
    paths = list(chain.from_iterable(task.paths for task in selected))
    with ExitStack() as stack:
        for task_files in folders:
            stack.enter_context(task_files.lock(paths))
        plans = list[ShardPlan]()
        for task, task_files in zip(selected, folders, strict=True):
            inputs = _read_inputs(task, task_files, n_threads, max_line, tally)
            plans.append(_plan(task, inputs, lines, compress))
        tally = _Tally("shard", sum(plan.n_lines for plan in plans), progress)
        return tuple(map(partial(_write_task, n_threads=n_threads, tally=tally), plans, folders))


def _check_local(folder: str | Path) -> Path:
    path = Path(arguments.path(folder, "folder", remedy="name a folder"))
    if url_of(path):
        fault = "shards cannot be written to a URL; name a local folder"
        raise ConfigError(f"{shown_path(path)}: {fault}")
    return path


class _Tally:
    """The number of lines done in a step. Threads add to it; each addition calls `progress`."""

    def __init__(self, step: str, total: int | None, progress: Progress | None) -> None:
        self._step = step
        self._total = total
        self._progress = arguments.function(progress, "progress")
        self._n_done = 0
        self._lock = Lock()

    def add(self, n: int) -> None:
        with self._lock:
            self._n_done += n
            if n and self._progress:
                self._progress(self._step, self._n_done, self._total)


def _select_tasks(tasks: Any, names: Sequence[str]) -> list[Task]:
    """Return the named tasks, or all, with globs replaced by files.

    A task that shares inputs is replaced by the task that has them.
    """
    remedy = "give tasks, or the result of volt.stream.config.configuration.load_config"
    all_tasks = arguments.several(getattr(tasks, "tasks", tasks), "tasks", remedy=remedy)
    task_of = {arguments.instance(task, Task, "a task").name: task for task in all_tasks}
    if len(task_of) < len(all_tasks) or not task_of:
        fault = f"tasks {[task.name for task in all_tasks]}"
        raise ConfigError(f"{fault}: give one or more, with distinct names")

    wanted = set(names or task_of)
    for name in names:
        if name not in task_of:
            raise ConfigError(f"no task {quoted(name)}; there are {', '.join(task_of)}")
        wanted.add(task_of[name].shares or name)
    selected = [task for task in all_tasks if task.name in wanted and not task.shares]
    for task in selected:
        if not task.inputs:
            raise ConfigError(f"task {task.name!r}: no inputs; give some, or share_inputs")
    return [
        replace(task, inputs=tuple(map(partial(expand_input, task), task.inputs)))
        for task in selected
    ]


def _read_inputs(
    task: Task, folder: TaskFolder, n_threads: int, max_line: int | None, tally: _Tally
) -> tuple[ReadInput, ...]:
    """Read the files of a task's inputs to their ends, unless an earlier run has read them."""
    read_earlier = folder.files_read()

    def read(side_and_path: tuple[str, str]) -> InputFile:
        if side_and_path in read_earlier:
            return read_earlier[side_and_path]
        side, path = side_and_path
        try:
            return read_input_file(path, side=side, max_line=max_line, progress=tally.add)
        except VoltError as error:
            raise error.reworded(f"task {task.name!r}: {error.message}") from error

    keys = list(chain.from_iterable(source.files for source in task.inputs))
    file_of = dict(zip(keys, in_order(read, keys, n_threads=n_threads), strict=True))
    inputs = list[ReadInput]()
    for source in task.inputs:
        files = [file_of[key] for key in source.files]
        sides = [tuple(file for file in files if file.side == side) for side in task.sides]
        inputs.append(ReadInput(source.name, tuple(sides)))
        check_input(task, inputs[-1])
    return tuple(inputs)


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The shards to write for a task.

    layout: the settings of the shards
    counts: (n_shards, n_inputs) the number of lines that each shard gets from each input
    chunk_lines: the approximate number of lines of a chunk
    """

    task: Task
    inputs: tuple[ReadInput, ...]
    layout: ShardSettings
    counts: Longs
    chunk_lines: int

    @property
    def n_lines(self) -> int:
        return int(self.counts.sum())


def _plan(
    task: Task, inputs: tuple[ReadInput, ...], lines: int, compress: Compression
) -> ShardPlan:
    sizes = [source.n_lines for source in inputs]
    n_bytes = sum(file.n_bytes for source in inputs for file in source.files)
    n_shards = number_of_shards(sum(sizes), requested=task.n_shards, lines=lines)
    n_fitting = CHUNK_BYTES * sum(sizes) // n_bytes
    is_validation = task.split == "valid"
    split = split_in_order if is_validation else deal_lines
    return ShardPlan(
        task,
        inputs,
        ShardSettings(n_shards, compress, "kept" if is_validation else "mixed"),
        counts=split(sizes, n_shards),
        chunk_lines=max(1, min(_MAX_CHUNK_LINES, n_fitting)),
    )


def number_of_shards(n_lines: int, *, requested: int | None, lines: int) -> int:
    """Return the number of shards: `requested`, or one for every `lines` lines.

    There are never more shards than lines.
    """
    return min(n_lines, requested or -(-n_lines // lines))


def deal_lines(sizes: Sequence[int] | Longs, n_shards: int) -> Longs:
    """Return how many lines each shard gets from each input, (n_shards, n_inputs).

    Line j of the concatenated inputs goes to shard j mod S, so ⌊(E + S − 1 − s) / S⌋ of the first E
    lines go to shard s.

    sizes: (n_inputs,) the number of lines of each input

    >>> deal_lines([5, 2], 2).tolist()
    [[3, 1], [2, 1]]
    """
    input_ends = np.cumsum([0, *sizes])
    shards = np.arange(n_shards)[:, None]
    n_before_ends = (input_ends + n_shards - 1 - shards) // n_shards
    return np.diff(n_before_ends, axis=1)


def split_in_order(sizes: Sequence[int] | Longs, n_parts: int) -> Longs:
    """Return how many lines each part gets from each input, (n_parts, n_inputs).

    Part p has the lines ⌊p N / P⌋ to ⌊(p + 1) N / P⌋ of the N concatenated lines.

    sizes: (n_inputs,) the number of lines of each input

    >>> split_in_order([5, 2], 2).tolist()
    [[3, 0], [2, 2]]
    """
    input_ends = np.cumsum([0, *sizes])
    part_ends = input_ends[-1] * np.arange(n_parts + 1) // n_parts
    ends_in_part: Longs = np.clip(input_ends, part_ends[:-1, None], part_ends[1:, None])
    return np.diff(ends_in_part, axis=1)


def split_by_keys(counts: Longs, n_chunks: int) -> Longs:
    """Return how many lines each chunk of a shard gets from each input, (n_chunks, n_inputs).

    Chunk m of M has the lines with the sort keys (k + ½) / c from m/M to (m + 1)/M. Before it, an
    input has the lines with k < c m/M − ½, which are ⌊(2 c m + M − 1) / 2M⌋.

    counts: (n_inputs,) c, the number of lines of each input in the shard

    >>> split_by_keys(np.array([4, 1]), 2).tolist()
    [[2, 0], [2, 1]]
    """
    doubled = 2 * counts * np.arange(n_chunks + 1)[:, None]
    n_before_chunks = (doubled + n_chunks - 1) // (2 * n_chunks)
    return np.diff(n_before_chunks, axis=0)


def order_by_keys(first: Longs, n_lines: Longs, counts: Longs) -> Longs:
    """Return the indices that sort a chunk's lines, laid input after input, by their sort keys.

    first: (n_inputs,) the number in the shard, from 0, of each input's first line in the chunk
    n_lines: (n_inputs,) the number of lines of each input in the chunk
    counts: (n_inputs,) the number of lines of each input in the shard

    >>> order_by_keys(np.array([0, 0]), np.array([3, 1]), np.array([3, 1])).tolist()
    [0, 1, 3, 2]
    """
    keys = list[Floats]()
    for start, n, count in zip(first, n_lines, counts, strict=True):
        numbers = np.arange(start, start + n)
        keys.append((2 * numbers + 1) / (2 * max(1, count)))
    return np.argsort(np.concatenate(keys), kind="stable")


class ShardChunk(NamedTuple):
    """Consecutive lines of a shard, before they are mixed.

    shard: the number of the shard
    is_first: whether the chunk is the first of its shard
    sides: for each side, the text from each input
    order: the order of the lines, as indices into the texts laid one after the other; None to keep
        them in this order
    """

    shard: int
    is_first: bool
    n_lines: int
    sides: tuple[tuple[bytes, ...], ...]
    order: Longs | None


def read_chunks(
    plan: ShardPlan, *, without: Container[int] = (), ahead: bool = False
) -> Iterator[ShardChunk]:
    """Yield the chunks of all shards in order, except of the shards `without`.

    ahead: whether threads read the files in advance
    """
    n_open = len(plan.inputs) * len(plan.task.sides)
    readers = list[list[LineReader]]()  # by input and side
    for source in plan.inputs:
        paths = [[file.path for file in files] for files in source.sides]
        readers.append([LineReader(side, n_open=n_open, ahead=ahead) for side in paths])

    wanted = [number for number in range(len(plan.counts)) if number not in without]
    for number, counts in enumerate(plan.counts[: max(wanted, default=-1) + 1]):
        if number not in without:
            yield from _read_shard(plan, number, counts, readers)
            continue
        for sides, n_lines in zip(readers, counts.tolist(), strict=True):
            for reader in sides:
                reader.skip(n_lines)


def _read_shard(
    plan: ShardPlan, number: int, counts: Longs, readers: list[list[LineReader]]
) -> Iterator[ShardChunk]:
    n_chunks = -(-int(counts.sum()) // plan.chunk_lines)
    is_mixed = plan.layout.order == "mixed"
    split = split_by_keys if is_mixed else split_in_order
    first = np.zeros_like(counts)  # lines of each input before the chunk
    for n_lines in split(counts, n_chunks):
        order = None
        if is_mixed and len(counts) > 1:
            order = order_by_keys(first, n_lines, counts)
        texts = [
            [reader.take(n) for reader in sides]
            for sides, n in zip(readers, n_lines.tolist(), strict=True)
        ]
        if n_lines.any():
            yield ShardChunk(
                shard=number,
                is_first=not first.any(),
                n_lines=int(n_lines.sum()),
                sides=tuple(zip(*texts, strict=True)),
                order=order,
            )
        first = first + n_lines


class PackedChunk(NamedTuple):
    """A chunk that is ready to write: for each side, the compressed text and the word counts."""

    shard: int
    n_lines: int
    data: tuple[bytes, ...]
    words: tuple[CountedPart, ...]


def pack_chunk(chunk: ShardChunk, *, compress: Compression) -> PackedChunk:
    """Mix the lines of a chunk, compress them, and count the words of lines that are UTF-8."""
    data = list[bytes]()
    words = list[CountedPart]()
    for texts in chunk.sides:
        text = b"".join(texts)
        if chunk.order is not None:
            lines = concatenate([Column.cut(text) for text in texts])
            text = lines.take(chunk.order).text().tobytes()
        if chunk.is_first and text.startswith(BYTE_ORDER_MARK):
            text = BYTE_ORDER_MARK + text  # readers drop the first mark of a file
        data.append(_compress(text, compress))
        valid_lines = checked_block(Block("", 1, chunk.n_lines, text, len(text)), "skip")
        counts = count_block(valid_lines)
        words.append(counts._replace(n_bad_lines=valid_lines.n_bad_lines))
    return PackedChunk(chunk.shard, chunk.n_lines, tuple(data), tuple(words))


def _compress(text: bytes, compress: Compression) -> bytes:
    """Return one frame of a zstd or gzip file, which may contain several; or the text itself."""
    if compress == "gz":
        from isal import igzip_lib

        return bytes(igzip_lib.compress(text, _LEVEL, igzip_lib.COMP_GZIP))
    if compress == "zstd":
        import zstandard

        return zstandard.ZstdCompressor(level=_LEVEL).compress(text)
    return text


def _write_task(plan: ShardPlan, folder: TaskFolder, *, n_threads: int, tally: _Tally) -> Manifest:
    """Write the shards of a task that are not finished, and its manifest."""
    compress = plan.layout.compress
    planned = ShardInputs(plan.task.name, plan.layout, plan.inputs)
    manifest = folder.finished(planned)
    if manifest is not None:
        tally.add(plan.n_lines)
        return manifest
    with folder.explaining_errors():
        shards = folder.begin(planned)
        tally.add(sum(finished.n_lines for finished in shards.values()))
        chunks = read_chunks(plan, without=frozenset(shards), ahead=n_threads > 1)
        pack = partial(pack_chunk, compress=compress)
        packed_chunks = in_order(pack, chunks, n_threads=n_threads)
        for number, of_shard in groupby(packed_chunks, key=attrgetter("shard")):
            shards[number] = _write_shard(folder, number, of_shard, compress, tally)
        for source in plan.inputs:
            for file in source.files:
                check_unchanged(file.path, file.stamp)
        return folder.finish(
            Manifest(
                folder=folder.folder,
                task=plan.task.name,
                sides=folder.sides,
                layout=plan.layout,
                inputs=plan.inputs,
                shards=tuple(shards[number] for number in range(plan.layout.n_shards)),
                words=folder.write_words(plan.layout.n_shards),
            )
        )


def _write_shard(
    folder: TaskFolder,
    number: int,
    chunks: Iterable[PackedChunk],
    compress: Compression,
    tally: _Tally,
) -> WrittenShard:
    names = [shard_name(number, side, compress) for side in folder.sides]
    digests = [blake2b(digest_size=16) for _ in names]
    words = list[tuple[CountedPart, ...]]()
    n_lines = 0
    with ExitStack() as stack:
        files = [stack.enter_context(write_atomic(folder.progress / name)) for name in names]
        for chunk in chunks:
            for file, digest, data in zip(files, digests, chunk.data, strict=True):
                file.write(data)
                digest.update(data)
            words.append(chunk.words)
            n_lines += chunk.n_lines
            tally.add(chunk.n_lines)
        sizes = [file.tell() for file in files]
    hex_digests = [digest.hexdigest() for digest in digests]
    written = tuple(map(WrittenFile, names, sizes, hex_digests))
    totals = [sum_parts(parts) for parts in zip(*words, strict=True)]  # by side
    n_bad_lines = tuple(total.n_bad_lines for total in totals)
    finished = WrittenShard(n_lines, n_bad_lines, written)
    folder.record(number, finished, totals)
    return finished
