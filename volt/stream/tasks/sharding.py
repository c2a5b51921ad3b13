r"""Tasks → folders of shards that each hold an even share of all inputs, with the words of each side counted.

    inputs → examined: lines, digests → plan: the number of lines of each input in each shard
           → read again, in order → chunks: mixed, compressed, words counted in threads → shards, one after the other

Nothing is written before all inputs of all tasks are valid. Inputs are read in order and each chunk is compressed by
itself (files of zstd and gzip may have several frames), so the bytes do not depend on the number of threads, whose
chunks bound the memory. Each finished shard is recorded, so a run that was killed resumes after it.

Line j of all inputs, laid end to end, counts for shard j mod S. So each shard gets N/S of the N lines, and n_i/S of the
n_i lines of an input, both within one. In a shard, line k of the c_i lines of an input is placed at (k + ½)/c_i, so
that inputs mix evenly. Where lines keep their order, shards are cut from the inputs laid end to end instead.

>>> import tempfile
>>> from volt.stream.tasks.task import Input
>>> with tempfile.TemporaryDirectory() as folder:
...     for name, text in (("a.de", "eins\nzwei\ndrei\n"), ("a.en", "one\ntwo\nthree\n")):
...         _ = Path(folder, name).write_text(text)
...     files = (("src", f"{folder}/a.de"), ("tgt", f"{folder}/a.en"))
...     [made] = shard([Task("de_en", "para", (Input("numbers", files),))], f"{folder}/shards", lines=2)
...     made.counts, [Path(path).name for path in made.paths], Path(made.word_paths["tgt"]).read_text()
((2, 1), ['00000.src.zst', '00000.tgt.zst', '00001.src.zst', '00001.tgt.zst'], 'one\t1\nthree\t1\ntwo\t1\n')
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.count.counting import count_block
from volt.count.word_counts import CountedPart, summed
from volt.errors import ConfigError, VoltError, quoted, shown_path
from volt.files.atomic import write_atomic
from volt.files.blocks import Block, checked_block
from volt.files.limits import BYTE_ORDER_MARK, MAX_LINE, checked_max_line
from volt.files.threads import MOST_WORKERS, available_cores, in_order
from volt.stream.tasks.shard_folder import (
    Compression,
    Manifest,
    ShardSettings,
    WrittenFile,
    WrittenShard,
    shard_name,
    task_folder,
)  # fmt: skip
from volt.stream.tasks.shard_writing import ShardInputs, TaskFolder, held, write_words
from volt.stream.tasks.task import (
    InputFile,
    LineReader,
    ReadInput,
    Task,
    check_input,
    check_unchanged,
    expanded,
    look_at,
    paths_by_side,
)  # fmt: skip
from volt.stream.transforms.column import Column, concatenated
from volt.urls import url_of

Longs = NDArray[np.int64]


def number_of_shards(n_lines: int, *, asked: int | None, lines: int) -> int:
    """Return how many shards so many lines make: as many as are asked for, or one for every `lines`; none without a
    line.

    >>> [number_of_shards(25, asked=asked, lines=10) for asked in (None, 4, 100)]
    [3, 4, 25]
    """
    return min(n_lines, asked or -(-n_lines // lines))


def dealt(sizes: Sequence[int] | Longs, n_shards: int) -> Longs:
    """(n_shards, n_inputs) how many lines of each input each shard gets, dealt evenly.

    sizes: (n_inputs,) lines of each input
    """
    remainders = np.arange(n_shards)[:, None]
    return np.diff((_bounds(sizes) + n_shards - 1 - remainders) // n_shards, axis=1)


def in_a_row(sizes: Sequence[int] | Longs, n_parts: int) -> Longs:
    """(n_parts, n_inputs) the same, of inputs laid end to end and cut into parts that are equal within one line.

    sizes: (n_inputs,) lines of each input
    """
    bounds = _bounds(sizes)
    cuts = bounds[-1] * np.arange(n_parts + 1) // n_parts
    places: Longs = np.clip(bounds, cuts[:-1, None], cuts[1:, None])
    return np.diff(places, axis=1)


def mixed_chunks(counts: Longs, n_chunks: int) -> Longs:
    """(n_chunks, n_inputs) how many lines of each input each chunk of a shard gets.

    counts: (n_inputs,) lines that the shard gets of each input
    A chunk holds the lines whose places in the shard lie between c/n_chunks and (c + 1)/n_chunks.

    >>> mixed_chunks(np.array([4, 1]), 2).tolist()
    [[2, 0], [2, 1]]
    """
    cuts = np.arange(n_chunks + 1)[:, None]
    return np.diff((2 * counts * cuts + n_chunks - 1) // (2 * n_chunks), axis=0)


def mixed_order(first: Longs, n_lines: Longs, counts: Longs) -> Longs:
    """Return the order in which lines of several inputs stand in a chunk, as indices of them laid end to end.

    first, n_lines: (n_inputs,) which of the shard's lines of each input are in the chunk
    counts: (n_inputs,) how many lines the shard gets of each input
    """
    places = [
        (2 * np.arange(at, at + n) + 1) / (2 * max(1, of)) for at, n, of in zip(first, n_lines, counts, strict=True)
    ]
    return np.argsort(np.concatenate(places), kind="stable")


def _bounds(sizes: Sequence[int] | Longs) -> Longs:
    """(n_inputs + 1,) where inputs begin and end, laid end to end."""
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), np.asarray(sizes, np.int64)]))


_ZSTD_LEVEL, _GZIP_LEVEL = 3, 3


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The shards to write for a task.

    counts: (n_shards, n_inputs) how many lines of each input each shard gets
    chunk_lines: about how many lines of a shard are packed together
    """

    task: Task
    inputs: tuple[ReadInput, ...]
    layout: ShardSettings
    counts: Longs
    chunk_lines: int

    @property
    def n_lines(self) -> int:
        """Lines of all shards."""
        return int(self.counts.sum())

    @property
    def is_mixed(self) -> bool:
        """True if inputs are spread evenly."""
        return self.layout.order == "mixed"


class ShardChunk(NamedTuple):
    """Lines of a shard: for each side the lines of each input, and their order in the shard."""

    shard: int
    is_first: bool
    n_lines: int
    sides: tuple[tuple[bytes, ...], ...]
    order: Longs | None


class Packed(NamedTuple):
    """A chunk as it is written, and its words, side by side."""

    shard: int
    n_lines: int
    data: tuple[bytes, ...]
    words: tuple[CountedPart, ...]


def chunks_of(plan: ShardPlan, *, without: Container[int] = (), ahead: bool = False) -> Iterator[ShardChunk]:
    """Yield the lines of all shards but some, in the order in which they are written.

    ahead: whether files are read in threads
    """
    n_open = len(plan.inputs) * len(plan.task.sides)
    readers = [
        [LineReader([file.path for file in files], n_open=n_open, ahead=ahead) for files in read.sides]
        for read in plan.inputs
    ]
    wanted = [number for number in range(len(plan.counts)) if number not in without]
    for number, counts in enumerate(plan.counts[: wanted[-1] + 1 if wanted else 0]):
        if number in without:
            for sides, n in zip(readers, counts.tolist(), strict=True):
                for reader in sides:
                    reader.skip(n)
        else:
            yield from _shard_chunks(plan, number, counts, readers)


def _shard_chunks(plan: ShardPlan, number: int, counts: Longs, readers: list[list[LineReader]]) -> Iterator[ShardChunk]:
    n_chunks = -(-int(counts.sum()) // plan.chunk_lines)
    cut = mixed_chunks if plan.is_mixed else in_a_row
    first = np.zeros_like(counts)
    for n_lines in cut(counts, n_chunks):
        order = mixed_order(first, n_lines, counts) if plan.is_mixed and len(counts) > 1 else None
        taken = [[reader.take(n) for reader in sides] for sides, n in zip(readers, n_lines.tolist(), strict=True)]
        if n_lines.any():
            yield ShardChunk(number, not first.any(), int(n_lines.sum()), tuple(zip(*taken, strict=True)), order)
        first = first + n_lines


def packed(chunk: ShardChunk, *, compress: Compression) -> Packed:
    """Mix the lines of a chunk, pack them, and count their words."""
    texts = [_mixed(parts, chunk.order) for parts in chunk.sides]
    if chunk.is_first:  # the reader of a file leaves out one byte order mark, which is not a part of its first line
        texts = [BYTE_ORDER_MARK * text.startswith(BYTE_ORDER_MARK) + text for text in texts]
    words = tuple(_words(text, chunk.n_lines) for text in texts)
    return Packed(chunk.shard, chunk.n_lines, tuple(_compressed(text, compress) for text in texts), words)


def _mixed(parts: tuple[bytes, ...], order: Longs | None) -> bytes:
    """Return the lines of several inputs in an order, or one input after the other."""
    if order is None:
        return b"".join(parts)
    return concatenated([Column.cut(part) for part in parts]).take(order).text().tobytes()


def _words(text: bytes, n_lines: int) -> CountedPart:
    """Return the words of the lines that are UTF-8, and how many are not."""
    block = checked_block(Block("", 1, n_lines, text, len(text)), "skip")
    return count_block(block)._replace(n_bad_lines=block.n_bad_lines)


def _compressed(text: bytes, compress: Compression) -> bytes:
    """Return a text packed by itself, the same at any time: what follows it in a file is packed by itself, too.

    >>> [_compressed(b"low\\n", kind)[:4] for kind in ("zstd", "gz", "none")]
    [b'(\\xb5/\\xfd', b'\\x1f\\x8b\\x08\\x00', b'low\\n']
    """
    if compress == "none":
        return text
    if compress == "gz":
        from isal import igzip_lib

        return bytes(igzip_lib.compress(text, _GZIP_LEVEL, igzip_lib.COMP_GZIP))
    import zstandard

    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(text)


LINES = 100_000  # of a shard
CHUNK_BYTES = 8 << 20  # of text that is packed by itself
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
    """Write the shards of tasks, each into a folder of its name. Those that are there as they are to be are kept.

    tasks: what `volt.stream.config.build.load_config` gives, or tasks themselves. One that shares the inputs of another
        has no shards of its own.
    folder: where the tasks' folders are made.
    lines: of a shard, about, where a task does not say how many shards it wants.
    compress: "zstd", "gz" or "none".
    names: of the tasks to do; all of them by default.
    workers: how many threads; one for each core by default. The shards do not depend on it.
    max_line: the most bytes of a line; None for no limit.
    progress: called with "count lines" or "shard", the lines done, and the lines in all if that is known.

    Lines keep their bytes; whether they are UTF-8 is for whoever reads them to see, but words are counted only in lines
    that are. Tasks of the split "valid" keep the order of their lines; those of others are mixed.
    Raises ConfigError if a task is unknown or has no inputs, StreamError or CorpusError if an input is empty, damaged
    or of unequal sides, or others write to the same place; OutputError if shards cannot be written.

    >>> shard([Task("empty", "mono", ())], "shards")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: task 'empty': no inputs; give some, or share_inputs
    """
    chosen = _chosen(tasks, names)
    lines = arguments.whole(lines, "lines", low=1)
    arguments.choice(compress, "compress", get_args(Compression))
    n_threads = available_cores() if workers is None else arguments.whole(workers, "workers", low=1, high=MOST_WORKERS)
    most, place = checked_max_line(max_line), Path(arguments.path(folder, "folder", remedy="name a folder"))
    if url_of(place):
        raise ConfigError(f"{shown_path(place)}: shards are written to a folder of this machine; name one")
    with ExitStack() as stack:
        files = {task.name: [expanded(paths_by_side(task, given)) for given in task.inputs] for task in chosen}
        read = [path for inputs in files.values() for sides in inputs for side in sides for path in side]
        works = [TaskFolder(task_folder(place, task), task.sides) for task in chosen]
        for work in works:
            stack.enter_context(held(work, read))
        message = _Tally("count lines", None, progress)
        plans = [
            _plan(task, _read(task, files[task.name], work, n_threads, most, message), lines, compress)
            for task, work in zip(chosen, works, strict=True)
        ]
        message = _Tally("shard", sum(plan.n_lines for plan in plans), progress)
        return tuple(_made(plan, work, n_threads, message) for plan, work in zip(plans, works, strict=True))


class _Tally:
    """Counts lines, from any thread, and tells how many there are."""

    def __init__(self, step: str, total: int | None, progress: Progress | None) -> None:
        self._step, self._total, self._progress = step, total, arguments.function(progress, "progress")
        self._done, self._lock = 0, Lock()

    def add(self, n: int) -> None:
        with self._lock:
            self._done += n
            if n and self._progress:
                self._progress(self._step, self._done, self._total)


def _chosen(tasks: Any, names: Sequence[str]) -> list[Task]:
    """Return the tasks that are to be done. Raises ConfigError if one is unknown, or has nothing to read."""
    remedy = "give tasks, or what volt.stream.config.build.load_config gives"
    result = arguments.several(getattr(tasks, "tasks", tasks), "tasks", remedy=remedy)
    known = {arguments.instance(task, Task, "a task").name: task for task in result}
    if len(known) < len(result) or not known:
        raise ConfigError(f"tasks {[task.name for task in result]}: give one or more, with distinct names")
    for name in names:
        if name not in known:
            raise ConfigError(f"no task {quoted(name)}; there are {', '.join(known)}")
    chosen = [task for task in result if not names or task.name in names or _is_shared(task, known, names)]
    for task in chosen:
        if not (task.inputs or task.shares):
            raise ConfigError(f"task {task.name!r}: no inputs; give some, or share_inputs")
    return [task for task in chosen if task.inputs]


def _is_shared(task: Task, known: dict[str, Task], names: Sequence[str]) -> bool:
    return any(known[name].shares == task.name for name in names)


def _read(
    task: Task,
    inputs: list[tuple[tuple[str, ...], ...]],
    work: TaskFolder,
    n_threads: int,
    max_line: int | None,
    values: _Tally,
) -> tuple[ReadInput, ...]:
    """Return a task's inputs, read to their ends but for those that an earlier run has read. Raises an error if one is
    bad.
    """
    known = work.files_read()

    def read(side: str, path: str) -> InputFile:
        try:
            return known.get((side, path)) or look_at(path, side=side, max_line=max_line, progress=values.add)
        except VoltError as error:
            raise error.reworded(f"task {task.name!r}: {error.message}") from error

    wanted = [(side, path) for sides in inputs for side, paths in zip(task.sides, sides, strict=True) for path in paths]
    result = in_order(lambda pair: read(*pair), wanted, n_threads=min(n_threads, max(1, len(wanted))))
    looked = [tuple(tuple(next(result) for _ in paths) for paths in sides) for sides in inputs]
    for _ in result:  # so that its threads end
        pass
    done = tuple(ReadInput(given.name, sides) for given, sides in zip(task.inputs, looked, strict=True))
    for one in done:
        check_input(task, one)
    return done


def _plan(task: Task, inputs: tuple[ReadInput, ...], lines: int, compress: Compression) -> ShardPlan:
    sizes = [read.n_lines for read in inputs]
    n_shards = number_of_shards(sum(sizes), asked=task.n_shards, lines=lines)
    is_kept = task.split == "valid"
    counts = (in_a_row if is_kept else dealt)(sizes, n_shards)
    n_bytes = sum(file.n_bytes for read in inputs for file in read.files)
    chunk_lines = max(1, min(_CHUNK_LINES, CHUNK_BYTES * sum(sizes) // n_bytes))
    return ShardPlan(
        task, inputs, ShardSettings(n_shards, compress, "kept" if is_kept else "mixed"), counts, chunk_lines
    )


def _made(plan: ShardPlan, work: TaskFolder, n_threads: int, values: _Tally) -> Manifest:
    planned = ShardInputs(plan.task.name, plan.layout, plan.inputs)
    if (manifest := work.finished(planned)) is not None:
        values.add(plan.n_lines)
        return manifest
    with work.explaining_errors():
        return work.finish(_filled(plan, work, work.begin(planned), n_threads, values))


def _filled(
    plan: ShardPlan, work: TaskFolder, retained: dict[int, WrittenShard], n_threads: int, values: _Tally
) -> Manifest:
    """Write the shards that are not kept, and all words."""
    values.add(sum(result.n_lines for result in retained.values()))
    pack = partial(packed, compress=plan.layout.compress)
    done = in_order(pack, chunks_of(plan, without=frozenset(retained), ahead=n_threads > 1), n_threads=n_threads)
    for number, chunks in groupby(done, key=lambda one: one.shard):
        retained[number] = _write_shard(work, number, chunks, plan.layout.compress, values)
    for read in plan.inputs:
        for file in read.files:
            check_unchanged(file.path, file.stamp)
    shards = tuple(retained[number] for number in range(plan.layout.n_shards))
    words = tuple(write_words(work.progress, side, work.word_notes(side, len(shards))) for side in work.sides)
    return Manifest(work.folder, plan.task.name, plan.task.sides, plan.layout, plan.inputs, shards, words)


def _write_shard(
    work: TaskFolder, number: int, chunks: Iterable[Packed], compress: Compression, values: _Tally
) -> WrittenShard:
    """Write a shard's files as its chunks come, then its words, then the note that it is finished."""
    names = [shard_name(number, side, compress) for side in work.sides]
    digests, parts, n_lines = [blake2b(digest_size=16) for _ in names], list[tuple[CountedPart, ...]](), 0
    sizes = [0] * len(names)
    with ExitStack() as stack:
        files = [stack.enter_context(write_atomic(work.progress / name)) for name in names]
        for chunk in chunks:
            for place, data in enumerate(chunk.data):
                files[place].write(data)
                digests[place].update(data)
                sizes[place] += len(data)
            parts.append(chunk.words)
            n_lines += chunk.n_lines
            values.add(chunk.n_lines)
    tables = [summed(side) for side in zip(*parts, strict=True)]
    files_made = tuple(
        WrittenFile(*one) for one in zip(names, sizes, (one.hexdigest() for one in digests), strict=True)
    )
    output = WrittenShard(n_lines, tuple(table.n_bad_lines for table in tables), files_made)
    work.note(number, output, tables)
    return output
