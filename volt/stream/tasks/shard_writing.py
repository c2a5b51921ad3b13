r"""Tasks → folders of shards, each with an even share of every input; and the word counts of each
side.

    inputs → examined: lines, digests → plan: the number of lines of each input in each shard
           → read again, in order → chunks: mixed, compressed, words counted in threads → shards,
           one after the other

N lines, n_i of them in input i, become S shards of N/S lines, n_i/S of them from input i, within
one line: line j of the concatenated inputs counts for shard j mod S. In a shard, line k of the c_i
lines of input i has the sort key (k + ½)/c_i. Each chunk is compressed by itself, so the bytes do
not depend on the number of threads.
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
from numpy.typing import NDArray

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.count.counting import count_block
from volt.count.word_counts import CountedPart, summed
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
    expanded,
    look_at,
)
from volt.stream.transforms.column import Column, concatenate
from volt.urls import url_of

Longs = NDArray[np.int64]


def number_of_shards(n_lines: int, *, requested: int | None, lines: int) -> int:
    """Return the number of shards: `requested`, or one for every `lines` lines; never more than
    `n_lines`."""
    return min(n_lines, requested or -(-n_lines // lines))


def dealt(sizes: Sequence[int] | Longs, n_shards: int) -> Longs:
    """Deal the lines of inputs evenly to shards. Return (n_shards, n_inputs), numbers of lines."""
    ends = np.cumsum([0, *sizes])
    first_shards = np.arange(n_shards)[:, None]
    return np.diff((ends + n_shards - 1 - first_shards) // n_shards, axis=1)


def in_a_row(sizes: Sequence[int] | Longs, n_parts: int) -> Longs:
    """Lay inputs end to end and split them into equal parts.

    Return (n_parts, n_inputs), numbers of lines.
    """
    ends = np.cumsum([0, *sizes])
    cuts = ends[-1] * np.arange(n_parts + 1) // n_parts
    places: Longs = np.clip(ends, cuts[:-1, None], cuts[1:, None])
    return np.diff(places, axis=1)


def mixed_chunks(counts: Longs, n_chunks: int) -> Longs:
    """Spread a shard's inputs evenly over its chunks.

    Return (n_chunks, n_inputs), numbers of lines.

    counts: (n_inputs,) the number of lines of each input in the shard

    >>> mixed_chunks(np.array([4, 1]), 2).tolist()
    [[2, 0], [2, 1]]
    """
    n_doubled = 2 * counts * np.arange(n_chunks + 1)[:, None]
    return np.diff((n_doubled + n_chunks - 1) // (2 * n_chunks), axis=0)


def mixed_order(first: Longs, n_lines: Longs, counts: Longs) -> Longs:
    """Return the mixed order of a chunk's lines, as indices into its inputs laid end to end.

    first: (n_inputs,) the number in the shard of each input's first line in the chunk
    n_lines: (n_inputs,) the number of lines of each input in the chunk
    counts: (n_inputs,) the number of lines of each input in the shard
    """
    keys = list[NDArray[np.float64]]()
    for start, n, count in zip(first, n_lines, counts, strict=True):
        numbers = np.arange(start, start + n)
        keys.append((2 * numbers + 1) / (2 * max(1, count)))
    return np.argsort(np.concatenate(keys), kind="stable")


_LEVEL = 3  # of zstd and gzip


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The shards to write for a task.

    counts: (n_shards, n_inputs) the number of lines of each input in each shard
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


class ShardChunk(NamedTuple):
    """Consecutive lines of a shard: `sides` has each side's lines by input; `order` is their new
    order, if any."""

    shard: int
    is_first: bool
    n_lines: int
    sides: tuple[tuple[bytes, ...], ...]
    order: Longs | None


class Packed(NamedTuple):
    """A chunk: for each side, the compressed text and the word counts."""

    shard: int
    n_lines: int
    data: tuple[bytes, ...]
    words: tuple[CountedPart, ...]


def chunks_of(
    plan: ShardPlan, *, without: Container[int] = (), ahead: bool = False
) -> Iterator[ShardChunk]:
    """Yield the chunks of all shards except `without`, in order.

    If `ahead`, threads read the files in advance.
    """
    n_open = len(plan.inputs) * len(plan.task.sides)
    readers = list[list[LineReader]]()
    for read in plan.inputs:
        paths = [[file.path for file in files] for files in read.sides]
        readers.append([LineReader(side, n_open=n_open, ahead=ahead) for side in paths])

    wanted = [number for number in range(len(plan.counts)) if number not in without]
    for number, counts in enumerate(plan.counts[: max(wanted, default=-1) + 1]):
        if number not in without:
            yield from _shard_chunks(plan, number, counts, readers)
            continue
        for sides, n_lines in zip(readers, counts.tolist(), strict=True):
            for reader in sides:
                reader.skip(n_lines)


def _shard_chunks(
    plan: ShardPlan, number: int, counts: Longs, readers: list[list[LineReader]]
) -> Iterator[ShardChunk]:
    n_chunks = -(-int(counts.sum()) // plan.chunk_lines)
    is_mixed = plan.layout.order == "mixed"
    split = mixed_chunks if is_mixed else in_a_row
    first = np.zeros_like(counts)
    for n_lines in split(counts, n_chunks):
        order = None
        if is_mixed and len(counts) > 1:
            order = mixed_order(first, n_lines, counts)
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


def packed(chunk: ShardChunk, *, compress: Compression) -> Packed:
    """Mix the lines of a chunk, compress them, and count the words of lines that are UTF-8."""
    data = list[bytes]()
    words = list[CountedPart]()
    for texts in chunk.sides:
        text = b"".join(texts)
        if chunk.order is not None:
            lines = concatenate([Column.cut(text) for text in texts])
            text = lines.take(chunk.order).text().tobytes()
        if chunk.is_first and text.startswith(BYTE_ORDER_MARK):
            text = BYTE_ORDER_MARK + text  # readers drop one
        data.append(_compressed(text, compress))
        block = Block("", 1, chunk.n_lines, text, len(text))
        valid = checked_block(block, "skip")
        counts = count_block(valid)
        words.append(counts._replace(n_bad_lines=valid.n_bad_lines))
    return Packed(chunk.shard, chunk.n_lines, tuple(data), tuple(words))


def _compressed(text: bytes, compress: Compression) -> bytes:
    # a zstd or gzip file may contain several frames
    if compress == "gz":
        from isal import igzip_lib

        return bytes(igzip_lib.compress(text, _LEVEL, igzip_lib.COMP_GZIP))
    if compress == "zstd":
        import zstandard

        return zstandard.ZstdCompressor(level=_LEVEL).compress(text)
    return text


LINES = 100_000  # of a shard
CHUNK_BYTES = 8 << 20  # of text that is compressed together
_CHUNK_LINES = 1 << 20

Progress = Callable[[str, int, int | None], object]


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
    chosen = _selected(tasks, names)
    lines = arguments.whole(lines, "lines", low=1)
    arguments.choice(compress, "compress", get_args(Compression))
    n_threads = available_cores()
    if workers is not None:
        n_threads = arguments.whole(workers, "workers", low=1, high=MOST_WORKERS)
    max_line = checked_max_line(max_line)
    tally = _Tally("count lines", None, progress)
    place = _local(folder)
    works = [TaskFolder(task_folder(place, task), task.sides) for task in chosen]
    paths = list(chain.from_iterable(task.paths for task in chosen))
    with ExitStack() as stack:
        for work in works:
            stack.enter_context(work.held(paths))
        plans = list[ShardPlan]()
        for task, work in zip(chosen, works, strict=True):
            inputs = _read(task, work, n_threads, max_line, tally)
            plans.append(_plan(task, inputs, lines, compress))
        tally = _Tally("shard", sum(plan.n_lines for plan in plans), progress)
        return tuple(map(partial(_write_task, n_threads=n_threads, tally=tally), plans, works))


def _local(folder: str | Path) -> Path:
    place = Path(arguments.path(folder, "folder", remedy="name a folder"))
    if url_of(place):
        fault = "shards cannot be written to a URL; name a local folder"
        raise ConfigError(f"{shown_path(place)}: {fault}")
    return place


class _Tally:
    """Counts lines, and calls `progress`."""

    def __init__(self, step: str, total: int | None, progress: Progress | None) -> None:
        self._step = step
        self._total = total
        self._progress = arguments.function(progress, "progress")
        self._done = 0
        self._lock = Lock()

    def add(self, n: int) -> None:
        with self._lock:
            self._done += n
            if n and self._progress:
                self._progress(self._step, self._done, self._total)


def _selected(tasks: Any, names: Sequence[str]) -> list[Task]:
    remedy = "give tasks, or the result of volt.stream.config.configuration.load_config"
    known = dict[str, Task]()
    listed = arguments.several(getattr(tasks, "tasks", tasks), "tasks", remedy=remedy)
    for task in listed:
        known[arguments.instance(task, Task, "a task").name] = task
    if len(known) < len(listed) or not known:
        fault = f"tasks {[task.name for task in listed]}"
        raise ConfigError(f"{fault}: give one or more, with distinct names")

    wanted = set(names or known)
    for name in names:
        if name not in known:
            raise ConfigError(f"no task {quoted(name)}; there are {', '.join(known)}")
        wanted.add(known[name].shares or name)
    result = [task for task in listed if task.name in wanted and not task.shares]
    for task in result:
        if not task.inputs:
            raise ConfigError(f"task {task.name!r}: no inputs; give some, or share_inputs")
    return [
        replace(task, inputs=tuple(map(partial(expanded, task), task.inputs))) for task in result
    ]


def _read(
    task: Task, work: TaskFolder, n_threads: int, max_line: int | None, tally: _Tally
) -> tuple[ReadInput, ...]:
    known = work.files_read()

    def read(file: tuple[str, str]) -> InputFile:
        if file in known:
            return known[file]
        side, path = file
        try:
            return look_at(path, side=side, max_line=max_line, progress=tally.add)
        except VoltError as error:
            raise error.reworded(f"task {task.name!r}: {error.message}") from error

    places = list(chain.from_iterable(inputs.files for inputs in task.inputs))
    files = dict(zip(places, in_order(read, places, n_threads=n_threads), strict=True))
    result = list[ReadInput]()
    for inputs in task.inputs:
        own = [files[place] for place in inputs.files]
        sides = [tuple(file for file in own if file.side == side) for side in task.sides]
        result.append(ReadInput(inputs.name, tuple(sides)))
        check_input(task, result[-1])
    return tuple(result)


def _plan(
    task: Task, inputs: tuple[ReadInput, ...], lines: int, compress: Compression
) -> ShardPlan:
    sizes = [read.n_lines for read in inputs]
    n_bytes = sum(file.n_bytes for read in inputs for file in read.files)
    n_shards = number_of_shards(sum(sizes), requested=task.n_shards, lines=lines)
    fitting = CHUNK_BYTES * sum(sizes) // n_bytes
    chunk_lines = max(1, min(_CHUNK_LINES, fitting))
    if task.split == "valid":
        settings = ShardSettings(n_shards, compress, "kept")
        return ShardPlan(task, inputs, settings, in_a_row(sizes, n_shards), chunk_lines)
    settings = ShardSettings(n_shards, compress, "mixed")
    return ShardPlan(task, inputs, settings, dealt(sizes, n_shards), chunk_lines)


def _write_task(plan: ShardPlan, work: TaskFolder, *, n_threads: int, tally: _Tally) -> Manifest:
    compress = plan.layout.compress
    planned = ShardInputs(plan.task.name, plan.layout, plan.inputs)
    manifest = work.finished(planned)
    if manifest is not None:
        tally.add(plan.n_lines)
        return manifest
    with work.explaining_errors():
        shards = work.begin(planned)
        tally.add(sum(shard.n_lines for shard in shards.values()))
        chunks = chunks_of(plan, without=frozenset(shards), ahead=n_threads > 1)
        pack = partial(packed, compress=compress)
        done = in_order(pack, chunks, n_threads=n_threads)
        for number, of_shard in groupby(done, key=attrgetter("shard")):
            shards[number] = _write_shard(work, number, of_shard, compress, tally)
        for read in plan.inputs:
            for file in read.files:
                check_unchanged(file.path, file.stamp)
        written = tuple(shards[number] for number in range(plan.layout.n_shards))
        words = work.write_words(len(written))
        return work.finish(
            Manifest(
                work.folder,
                plan.task.name,
                work.sides,
                plan.layout,
                plan.inputs,
                written,
                words,
            )
        )


def _write_shard(
    work: TaskFolder, number: int, chunks: Iterable[Packed], compress: Compression, tally: _Tally
) -> WrittenShard:
    names = [shard_name(number, side, compress) for side in work.sides]
    digests = [blake2b(digest_size=16) for _ in names]
    words = list[tuple[CountedPart, ...]]()
    n_lines = 0
    with ExitStack() as stack:
        files = [stack.enter_context(write_atomic(work.progress / name)) for name in names]
        for chunk in chunks:
            for file, digest, data in zip(files, digests, chunk.data, strict=True):
                file.write(data)
                digest.update(data)
            words.append(chunk.words)
            n_lines += chunk.n_lines
            tally.add(chunk.n_lines)
        sizes = [file.tell() for file in files]
    hex_digests = [digest.hexdigest() for digest in digests]
    written = map(WrittenFile, names, sizes, hex_digests)
    tables = [summed(side) for side in zip(*words, strict=True)]
    n_bad_lines = tuple(table.n_bad_lines for table in tables)
    shard = WrittenShard(n_lines, n_bad_lines, tuple(written))
    work.note(number, shard, tables)
    return shard
