"""Tasks → folders of shards in which all inputs are spread evenly, with the words of each side counted on the way.

    inputs → looked at: lines, digests → plan: who gets how many lines
           → read once more, in order → chunks: mixed, packed, words counted in threads → shards, one after the other

Nothing is written before all inputs of all tasks were found good. What a shard is made from is read in order, and each
chunk of it is packed by itself, so its bytes do not depend on the number of threads, and memory is bounded by theirs.
Behind each shard a note is left, so that a run that was killed goes on there. Shards that were there before stay until
all new ones are made; the manifest comes last.

>>> import tempfile
>>> from volt.stream.tasks.task import Input
>>> with tempfile.TemporaryDirectory() as folder:
...     for name, text in (("a.de", "eins\\nzwei\\ndrei\\n"), ("a.en", "one\\ntwo\\nthree\\n")):
...         _ = Path(folder, name).write_text(text)
...     files = (("src", f"{folder}/a.de"), ("tgt", f"{folder}/a.en"))
...     [made] = shard([Task("de_en", "para", (Input("numbers", files),))], f"{folder}/shards", lines=2)
...     made.counts, [Path(path).name for path in made.paths], Path(made.word_paths["tgt"]).read_text()
((2, 1), ['00000.src.zst', '00000.tgt.zst', '00001.src.zst', '00001.tgt.zst'], 'one\\t1\\nthree\\t1\\ntwo\\t1\\n')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any, get_args

from volt import arguments
from volt.count.summing import CountedPart, summed
from volt.errors import ConfigError, VoltError, quoted, shown_path
from volt.files.atomic import write_atomic
from volt.files.long_lines import MAX_LINE, LongLineError, checked_max_line
from volt.files.threads import MOST_WORKERS, available_cores, in_order
from volt.stream.tasks.apportioning import dealt, in_a_row, number_of_shards
from volt.stream.tasks.input_files import (
    InputFile,
    ReadInput,
    check_input,
    check_unchanged,
    expanded,
    look_at,
    paths_by_side,
)  # fmt: skip
from volt.stream.tasks.shard_chunks import Packed, Plan, chunks_of, packed
from volt.stream.tasks.shard_folder import (
    Compression,
    Layout,
    Manifest,
    WrittenFile,
    WrittenShard,
    shard_name,
    task_folder,
)  # fmt: skip
from volt.stream.tasks.shard_words import write_words
from volt.stream.tasks.shard_work import Planned, Work, held
from volt.stream.tasks.task import Task
from volt.urls import url_of

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
        works = [Work(task_folder(place, task), task.sides) for task in chosen]
        for work in works:
            stack.enter_context(held(work, read))
        told = _Tally("count lines", None, progress)
        plans = [
            _plan(task, _read(task, files[task.name], work, n_threads, most, told), lines, compress)
            for task, work in zip(chosen, works, strict=True)
        ]
        told = _Tally("shard", sum(plan.n_lines for plan in plans), progress)
        return tuple(_made(plan, work, n_threads, told) for plan, work in zip(plans, works, strict=True))


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
    """The tasks that are to be done. Raises ConfigError if one is unknown, or has nothing to read."""
    remedy = "give tasks, or what volt.stream.config.build.load_config gives"
    found = arguments.several(getattr(tasks, "tasks", tasks), "tasks", remedy=remedy)
    known = {arguments.instance(task, Task, "a task").name: task for task in found}
    if len(known) < len(found) or not known:
        raise ConfigError(f"tasks {[task.name for task in found]}: give one or more, with distinct names")
    for name in names:
        if name not in known:
            raise ConfigError(f"no task {quoted(name)}; there are {', '.join(known)}")
    chosen = [task for task in found if not names or task.name in names or _is_shared(task, known, names)]
    for task in chosen:
        if not (task.inputs or task.shares):
            raise ConfigError(f"task {task.name!r}: no inputs; give some, or share_inputs")
    return [task for task in chosen if task.inputs]


def _is_shared(task: Task, known: dict[str, Task], names: Sequence[str]) -> bool:
    return any(known[name].shares == task.name for name in names)


def _read(
    task: Task,
    inputs: list[tuple[tuple[str, ...], ...]],
    work: Work,
    n_threads: int,
    max_line: int | None,
    told: _Tally,
) -> tuple[ReadInput, ...]:
    """A task's inputs, read to their ends but for those that an earlier run has read. Raises an error if one is bad."""
    known = work.files_read()

    def read(side: str, path: str) -> InputFile:
        try:
            return known.get((side, path)) or look_at(path, side=side, max_line=max_line, progress=told.add)
        except VoltError as error:  # one of long lines adds what to do to what was found
            found = error.found if isinstance(error, LongLineError) else str(error)
            raise type(error)(f"task {task.name!r}: {found}") from error

    wanted = [(side, path) for sides in inputs for side, paths in zip(task.sides, sides, strict=True) for path in paths]
    found = in_order(lambda pair: read(*pair), wanted, n_threads=min(n_threads, max(1, len(wanted))))
    looked = [tuple(tuple(next(found) for _ in paths) for paths in sides) for sides in inputs]
    for _ in found:  # so that its threads end
        pass
    done = tuple(ReadInput(given.name, sides) for given, sides in zip(task.inputs, looked, strict=True))
    for one in done:
        check_input(task, one)
    return done


def _plan(task: Task, inputs: tuple[ReadInput, ...], lines: int, compress: Compression) -> Plan:
    sizes = [read.n_lines for read in inputs]
    n_shards = number_of_shards(sum(sizes), asked=task.n_shards, lines=lines)
    is_kept = task.split == "valid"
    counts = (in_a_row if is_kept else dealt)(sizes, n_shards)
    n_bytes = sum(file.n_bytes for read in inputs for file in read.files)
    chunk_lines = max(1, min(_CHUNK_LINES, CHUNK_BYTES * sum(sizes) // n_bytes))
    return Plan(task, inputs, Layout(n_shards, compress, "kept" if is_kept else "mixed"), counts, chunk_lines)


def _made(plan: Plan, work: Work, n_threads: int, told: _Tally) -> Manifest:
    """Write what is not there yet."""
    planned = Planned(plan.task.name, plan.layout, plan.inputs)
    if (manifest := work.finished(planned)) is not None:
        told.add(plan.n_lines)
        return manifest
    with work.told():
        return work.finish(_filled(plan, work, work.begin(planned), n_threads, told))


def _filled(plan: Plan, work: Work, kept: dict[int, WrittenShard], n_threads: int, told: _Tally) -> Manifest:
    """Write the shards that are not kept, and all words."""
    told.add(sum(found.n_lines for found in kept.values()))
    pack = partial(packed, compress=plan.layout.compress)
    done = in_order(pack, chunks_of(plan, without=frozenset(kept), ahead=n_threads > 1), n_threads=n_threads)
    for number, chunks in groupby(done, key=lambda one: one.shard):
        kept[number] = _write_shard(work, number, chunks, plan.layout.compress, told)
    for read in plan.inputs:
        for file in read.files:
            check_unchanged(file.path, file.stamp)
    shards = tuple(kept[number] for number in range(plan.layout.n_shards))
    words = tuple(write_words(work.progress, side, work.word_notes(side, len(shards))) for side in work.sides)
    return Manifest(work.folder, plan.task.name, plan.task.sides, plan.layout, plan.inputs, shards, words)


def _write_shard(
    work: Work, number: int, chunks: Iterable[Packed], compress: Compression, told: _Tally
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
            told.add(chunk.n_lines)
    tables = [summed(side) for side in zip(*parts, strict=True)]
    files_made = tuple(
        WrittenFile(*one) for one in zip(names, sizes, (one.hexdigest() for one in digests), strict=True)
    )
    made = WrittenShard(n_lines, tuple(table.n_bad_lines for table in tables), files_made)
    work.note(number, made, tables)
    return made
