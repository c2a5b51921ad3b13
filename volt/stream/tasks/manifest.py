"""The manifest of a task's shards: a file that lists the shards, and the inputs they were made of.

    FOLDER/TASK/00000.src.zst   lines of one side of a shard; line i of .tgt belongs to line i here
    FOLDER/TASK/words.src.tsv   `word<TAB>count` for each word of one side, over all shards
    FOLDER/TASK/manifest.json   written last: if it is missing, the shards are unfinished

`read_manifest` checks the shards before a stream reads them. They are stale if an input has
changed, but stay valid if it was deleted. JSON records have a version and a checksum.
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
    expand_input,
    names_of,
    read_input_file,
)

T = TypeVar("T")
VERSION = 1
MANIFEST = "manifest.json"
PROGRESS = ".progress"
Compression = Literal["zstd", "gz", "none"]
SUFFIXES: dict[Compression, str] = {"zstd": ".zst", "gz": ".gz", "none": ""}
Record = dict[str, Any]
# The errors of reading a missing or damaged record; an error of JSON is a ValueError.
_BAD_RECORD = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of the folder: its name, its size in bytes, and its digest."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class WrittenShard:
    """A shard.

    n_lines: the number of lines of one side
    n_bad_lines: for each side, the number of lines that are not UTF-8
    files: the file of each side
    """

    n_lines: int
    n_bad_lines: tuple[int, ...]
    files: tuple[WrittenFile, ...]


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The form of a task's shards.

    order: "kept" if lines are in the order of the inputs, "mixed" if they are mixed evenly
    """

    n_shards: int
    compress: Compression
    order: Literal["mixed", "kept"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a task's folder.

    folder: the folder
    task, sides: the name and the sides of the task
    layout: the form of the shards
    inputs: the inputs that were read
    shards: the shards, in order
    words: the table of words of each side
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
        """The argument `names` of a `Source` of the shards: the sides, or () if there is one."""
        return names_of(self.sides)

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        return (*(file for shard in self.shards for file in shard.files), *self.words)

    @property
    def paths(self) -> Names:
        """The argument `paths` of a `Source` of the shards: all sides of a shard, then the next."""
        return tuple(str(self.folder / file.name) for shard in self.shards for file in shard.files)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of lines of each shard."""
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
        """The first line of the inputs that contains a tab, as file:line; "" if no line does."""
        return self._first("first_tab")

    def _first(self, attribute: str) -> str:
        for source in self.inputs:
            for file in source.files:
                line = getattr(file, attribute)
                if line:
                    return f"{shown_path(file.path)}:{line}"
        return ""

    @property
    def word_paths(self) -> dict[str, str]:
        """Side → path of its table of words, for `volt.count_words(…, word_counts=True)`."""
        paths = (str(self.folder / file.name) for file in self.words)
        return dict(zip(self.sides, paths, strict=True))


def shard_name(number: int, side: str, compress: Compression) -> str:
    """Return the name of a file with one side of a shard, such as 00007.src.zst."""
    return f"{number:05d}.{side}{SUFFIXES[compress]}"


def task_folder(folder: str | Path, task: Task) -> Path:
    """Return the folder of a task's shards, in the folder of all tasks.

    A task that shares the inputs of another uses the other task's folder. Raises ConfigError if the
    task's name cannot be the name of a folder.
    """
    name = task.shares or task.name
    if not name.isprintable() or not name or name[0] == "." or {*name} & {*"/\\"}:
        remedy = "use letters, digits, - and _"
        raise ConfigError(f"task {quoted(name)}: cannot be the name of a folder; {remedy}")
    return Path(folder) / name


def read_manifest(folder: str | Path, task: Task) -> Manifest:
    """Read the manifest of a task's shards, and check that the shards are complete and up to date.

    folder: the folder of all tasks
    Raises StreamError, with the command that makes the shards, if they are missing, unfinished,
    damaged or stale.

    >>> read_manifest("/no", Task("en", "para", ()))
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: /no/en: no shards of task 'en'; make them: volt shard CONFIG -o /no
    """
    shards = task_folder(folder, task)
    shown = shown_path(shards)
    remedy = f"volt shard CONFIG -o {shown_path(folder)}"
    try:
        manifest = _load(Manifest, shards / MANIFEST, folder=shards)
        for fault in _faults(manifest, task):
            raise StreamError(f"{shown}: {fault}; make the shards again: {remedy}")
    except FileNotFoundError:
        fault = f"no shards of task {task.name!r}; make them"
        if (shards / PROGRESS).is_dir():
            fault = f"unfinished shards of task {task.name!r}; continue"
        raise StreamError(f"{shown}: {fault}: {remedy}") from None
    except OSError as error:
        raise unreadable(shards / MANIFEST, error, kind=StreamError) from None
    except _BAD_RECORD:
        fault = "damaged; make the shards again"
        raise StreamError(f"{shown_path(shards / MANIFEST)}: {fault}: {remedy}") from None
    return manifest


def stored_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in a task's folder, or None if the manifest is missing or damaged.

    The files that it lists are not checked.
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


def stored(record_class: type[T], path: Path, **fields: object) -> T | None:
    """Read a record; return None if the file is missing or damaged.

    record_class: the class of the result
    fields: further fields of the result, which the file lacks
    """
    try:
        return _load(record_class, path, **fields)
    except _BAD_RECORD:
        return None


def _load(record_class: type[T], path: Path, **fields: object) -> T:
    from pydantic import TypeAdapter

    values = json.loads(path.read_bytes())
    if values["version"] != VERSION or values["check"] != fingerprint(values["record"]):
        raise ValueError("damaged, or written by another version")
    return TypeAdapter(record_class).validate_python({**values["record"], **fields})


def is_whole(file: WrittenFile, *folders: Path) -> bool:
    """Check whether one of the folders has the file with the bytes that were written."""
    for folder in folders:
        with suppress(OSError), open(folder / file.name, "rb", buffering=0) as opened:
            if os.fstat(opened.fileno()).st_size == file.size:
                digest = file_digest(opened, partial(blake2b, digest_size=16))
                if digest.hexdigest() == file.digest:
                    return True
    return False


def _faults(manifest: Manifest, task: Task) -> Iterator[str]:
    """Yield sentences about damaged shards, and about differences from those that the task needs.

    Inputs that were deleted are not compared.
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
        for source in manifest.inputs:
            for input_file in source.files:
                yield from _changes(input_file, input_file.path)
        return
    names = [source.name for source in manifest.inputs]
    new_names = [source.name for source in task.inputs]
    if names != new_names:
        yield f"stale: made from the inputs {', '.join(names)}, not {', '.join(new_names)}"
    for source, new_source in zip(manifest.inputs, task.inputs, strict=True):
        with suppress(CorpusError):  # all files of a glob or folder were deleted
            paths = expand_input(task, new_source).paths
            if len(paths) != len(source.files):
                yield f"stale: input {source.name!r} now has a different number of files"
            for input_file, path in zip(source.files, paths, strict=True):
                yield from _changes(input_file, path)


def _changes(file: InputFile, path: str) -> Iterator[str]:
    """Yield how the file at a path differs from an earlier reading, if the file exists.

    The text is read only if the size is equal, but the modification time is not.
    """
    if not os.path.lexists(path):
        return
    size, modified = stamp_of(path)
    if size != file.size:
        yield f"stale: {shown_path(path)} now has {size:,} bytes, not {file.size:,}"
        return
    if modified != file.modified and read_input_file(path, max_line=None).digest != file.digest:
        yield f"stale: {shown_path(path)} now has different text"
