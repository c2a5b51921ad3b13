"""Read and write the manifest of a task's shards, which lists the shards and their inputs.

    FOLDER/TASK/00000.src.zst   lines of one side of a shard; line i of .tgt belongs to line i here
    FOLDER/TASK/words.src.tsv   `word<TAB>count` for each word of one side, over all shards
    FOLDER/TASK/manifest.json   written last: if it is missing, the shards are unfinished

If an input has changed, the shards are stale; if it was deleted, they remain valid.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, Literal, TypeVar

from volt.errors import ConfigError, CorpusError, StreamError, quoted, shown_path, unreadable
from volt.files.atomic import write_atomic
from volt.files.paths import size_of
from volt.stream.reading.open_source import fingerprint
from volt.stream.reading.segments import stamp_of
from volt.stream.tasks.task import (
    InputFile,
    Names,
    ReadInput,
    Task,
    expanded,
    look_at,
    names_of,
)

T = TypeVar("T")
VERSION = 1
MANIFEST = "manifest.json"
PROGRESS = ".progress"
Compression = Literal["zstd", "gz", "none"]
SUFFIXES: dict[Compression, str] = {"zstd": ".zst", "gz": ".gz", "none": ""}
Record = dict[str, Any]
# of missing or damaged records; a JSON error is a ValueError
_BAD_RECORD = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of the folder: its name, its size in bytes, and its digest."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class WrittenShard:
    """A shard: its number of lines, each side's number of lines that are not UTF-8, and each side's
    file."""

    n_lines: int
    n_bad_lines: tuple[int, ...]
    files: tuple[WrittenFile, ...]


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The requested form of shards. order: "kept" preserves the inputs' order, "mixed" mixes their
    lines evenly."""

    n_shards: int
    compress: Compression
    order: Literal["mixed", "kept"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a task's folder: the inputs that were read, and the files that were written,
    in order.

    words: the word tables, one for each side
    """

    folder: Path
    task: str
    sides: Names
    layout: ShardSettings
    inputs: tuple[ReadInput, ...]
    shards: tuple[WrittenShard, ...]
    words: tuple[WrittenFile, ...]

    @property
    def names(self) -> Names:
        """The `names` of a `Source` that reads the shards: the sides, or () if there is only one."""
        return names_of(self.sides)

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        return (*(file for shard in self.shards for file in shard.files), *self.words)

    @property
    def paths(self) -> Names:
        """The `paths` of a `Source` that reads the shards: the files of all shards, grouped by
        shard."""
        return tuple(str(self.folder / file.name) for shard in self.shards for file in shard.files)

    @property
    def counts(self) -> tuple[int, ...]:
        """Lines per shard."""
        return tuple(shard.n_lines for shard in self.shards)

    @property
    def n_lines(self) -> int:
        return sum(self.counts)

    @property
    def n_bad_lines(self) -> int:
        """The number of lines that are not UTF-8, summed over the sides."""
        return sum(sum(shard.n_bad_lines) for shard in self.shards)

    @property
    def first_bad(self) -> str:
        """The first line of the inputs that is not UTF-8, as file:line; "" if all are UTF-8."""
        return self._first("first_bad")

    @property
    def first_tab(self) -> str:
        """The first line of the inputs that contains a tab, as file:line; "" if there are no tabs."""
        return self._first("first_tab")

    def _first(self, attribute: str) -> str:
        for read in self.inputs:
            for file in read.files:
                line = getattr(file, attribute)
                if line:
                    return f"{shown_path(file.path)}:{line}"
        return ""

    @property
    def word_paths(self) -> dict[str, str]:
        """Side → its word table, which `volt.count_words(…, word_counts=True)` reads."""
        paths = (str(self.folder / file.name) for file in self.words)
        return dict(zip(self.sides, paths, strict=True))


def shard_name(number: int, side: str, compress: Compression) -> str:
    """Return the name of a file with one side of a shard, such as 00007.src.zst."""
    return f"{number:05d}.{side}{SUFFIXES[compress]}"


def task_folder(folder: str | Path, task: Task) -> Path:
    """Return the folder of a task's shards; a task that shares the inputs of another uses its
    folder."""
    name = task.shares or task.name
    if not name.isprintable() or not name or name[0] == "." or {*name} & {*"/\\"}:
        remedy = "use letters, digits, - and _"
        raise ConfigError(f"task {quoted(name)}: cannot be the name of a folder; {remedy}")
    return Path(folder) / name


def read_manifest(folder: str | Path, task: Task) -> Manifest:
    """Read the manifest of a task's shards.

    folder: the folder of all tasks
    Raises StreamError, with the command that makes the shards, if they are missing, unfinished,
    damaged or stale.

    >>> read_manifest("/nowhere", Task("de_en", "para", ()))
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: /nowhere/de_en: no shards of task 'de_en'; make them: volt shard CONFIG -o /nowhere
    """
    place = task_folder(folder, task)
    shown = shown_path(place)
    remedy = f"volt shard CONFIG -o {shown_path(folder)}"
    try:
        manifest = _load(Manifest, place / MANIFEST, folder=place)
        for fault in _faults(manifest, task):
            raise StreamError(f"{shown}: {fault}; make the shards again: {remedy}")
    except FileNotFoundError:
        fault = f"no shards of task {task.name!r}; make them"
        if (place / PROGRESS).is_dir():
            fault = f"unfinished shards of task {task.name!r}; continue"
        raise StreamError(f"{shown}: {fault}: {remedy}") from None
    except OSError as error:
        raise unreadable(place / MANIFEST, error, kind=StreamError) from None
    except _BAD_RECORD:
        fault = "damaged; make the shards again"
        raise StreamError(f"{shown_path(place / MANIFEST)}: {fault}: {remedy}") from None
    return manifest


def stored_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in a task's own folder, None if it is missing or damaged.

    Other files are not checked.
    """
    return stored(Manifest, folder / MANIFEST, folder=folder)


def store_manifest(manifest: Manifest) -> None:
    record = {"n_lines": manifest.n_lines, **asdict(manifest)}
    del record["folder"]
    store_record(manifest.folder / MANIFEST, record)


def store_record(path: Path, record: Record) -> None:
    """Write a record with a checksum, completely or not at all."""
    values = {
        "format": "volt shards",
        "version": VERSION,
        "check": fingerprint(record),
        "record": record,
    }
    with write_atomic(path) as file:
        file.write(json.dumps(values, indent=1).encode())


def stored(kind: type[T], path: Path, **more: object) -> T | None:
    """Return an object with a file's record and `more` as its fields; None if the file is missing
    or damaged."""
    try:
        return _load(kind, path, **more)
    except _BAD_RECORD:
        return None


def _load(kind: type[T], path: Path, **more: object) -> T:
    from pydantic import TypeAdapter

    values = json.loads(path.read_bytes())
    if values["version"] != VERSION or values["check"] != fingerprint(values["record"]):
        raise ValueError("damaged, or written by another version")
    return TypeAdapter(kind).validate_python({**values["record"], **more})


def is_whole(file: WrittenFile, *folders: Path) -> bool:
    """Check whether a file in one of the folders still contains the bytes that were written."""
    for folder in folders:
        with suppress(OSError), open(folder / file.name, "rb", buffering=0) as opened:
            if os.fstat(opened.fileno()).st_size == file.size:
                digest = file_digest(opened, partial(blake2b, digest_size=16))
                if digest.hexdigest() == file.digest:
                    return True
    return False


def _faults(manifest: Manifest, task: Task) -> Iterator[str]:
    """Yield damage, and how the shards differ from those of the task.

    Deleted inputs are not checked.
    """
    for file in manifest.files:
        size = size_of(str(manifest.folder / file.name))
        if size is None:
            yield f"{file.name} is missing"
        elif size != file.size:
            yield f"{file.name} has {size:,} bytes, not the {file.size:,} that were written"
    if manifest.sides != task.sides:
        sides = " and ".join(manifest.sides)
        yield f"stale: they have {sides}, but task {task.name!r} is of type {task.kind}"
    n_shards = len(manifest.shards)
    requested = min(task.n_shards or n_shards, manifest.n_lines)
    if requested != n_shards and not task.shares:
        yield f"stale: there are {n_shards}, but task {task.name!r} asks for {requested}"
    if not task.inputs:  # it shares the inputs of another task
        for read in manifest.inputs:
            for input_file in read.files:
                yield from _change(input_file, input_file.path)
        return
    before = [read.name for read in manifest.inputs]
    now = [inputs.name for inputs in task.inputs]
    if before != now:
        yield f"stale: made from the inputs {', '.join(before)}, not {', '.join(now)}"
    for read, inputs in zip(manifest.inputs, task.inputs, strict=True):
        with suppress(CorpusError):  # deleted
            paths = expanded(task, inputs).paths
            if len(paths) != len(read.files):
                yield f"stale: input {read.name!r} now has a different number of files"
            for input_file, path in zip(read.files, paths, strict=True):
                yield from _change(input_file, path)


def _change(file: InputFile, path: str) -> Iterator[str]:
    """Yield how a file has changed, if it exists; its text is read only if its modification time
    has changed."""
    if not os.path.lexists(path):
        return
    size, modified = stamp_of(path)
    if size != file.size:
        yield f"stale: {shown_path(path)} now has {size:,} bytes, not {file.size:,}"
    elif modified != file.modified and look_at(path, max_line=None).digest != file.digest:
        yield f"stale: {shown_path(path)} now has different text"
