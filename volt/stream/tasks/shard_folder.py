"""The folder of a task's shards, and its manifest, which lists the shards and the inputs that they were made from.

    FOLDER/TASK/00000.src.zst   lines of one side of a shard; line i of .tgt belongs to line i of .src
    FOLDER/TASK/words.src.tsv   word, tab, count: the words of all lines of a side
    FOLDER/TASK/manifest.json   written last; without it the shards are not finished

Shards are stale if one of their inputs has changed. Inputs may be deleted.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeVar

from volt.errors import ConfigError, CorpusError, StreamError, quoted, shown_path, unreadable
from volt.files.atomic import write_atomic
from volt.stream.reading.shard import stamp_of
from volt.stream.tasks.task import InputFile, ReadInput, Task, expanded, look_at, names_of, paths_by_side

T = TypeVar("T")
VERSION = 1
MANIFEST = "manifest.json"
PROGRESS = ".progress"
Compression = Literal["zstd", "gz", "none"]
SUFFIXES: dict[Compression, str] = {"zstd": ".zst", "gz": ".gz", "none": ""}
Record = dict[str, Any]
BAD_RECORD = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)  # missing or damaged
_READ_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of the folder: its name, its bytes on disk and their digest."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class WrittenShard:
    """A shard: the lines of each file, the lines of each side that are not UTF-8, and one file for each side."""

    n_lines: int
    n_bad_lines: tuple[int, ...]
    files: tuple[WrittenFile, ...]


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The requested form of shards. order: "kept" preserves the inputs' order, "mixed" spreads each input evenly."""

    n_shards: int
    compress: Compression
    order: Literal["mixed", "kept"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a task's folder: the inputs that were read, and the files that were written, in order.

    words: the word tables, one for each side
    """

    folder: Path
    task: str
    sides: tuple[str, ...]
    layout: ShardSettings
    inputs: tuple[ReadInput, ...]
    shards: tuple[WrittenShard, ...]
    words: tuple[WrittenFile, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The fields' names, for the `names` of a `Source`; () if there is one side."""
        return names_of(self.sides)

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        """All files, the files of the shards first."""
        return (*(file for shard in self.shards for file in shard.files), *self.words)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of all shards, grouped by shard, for the `paths` of a `Source`."""
        return tuple(str(self.folder / file.name) for shard in self.shards for file in shard.files)

    @property
    def counts(self) -> tuple[int, ...]:
        """Lines per shard."""
        return tuple(shard.n_lines for shard in self.shards)

    @property
    def n_lines(self) -> int:
        """Lines of one side, in all shards."""
        return sum(self.counts)

    @property
    def n_bad_lines(self) -> int:
        """Lines that are not UTF-8, of all sides."""
        return sum(sum(shard.n_bad_lines) for shard in self.shards)

    @property
    def first_bad(self) -> str:
        """The first line of the inputs that is not UTF-8, as file:line; empty if all are."""
        return self._first("first_bad")

    @property
    def first_tab(self) -> str:
        """The first line of the inputs that contains a tab, as file:line; empty if none does."""
        return self._first("first_tab")

    def _first(self, what: str) -> str:
        files = (file for read in self.inputs for file in read.files)
        return next((f"{shown_path(file.path)}:{line}" for file in files if (line := getattr(file, what))), "")

    @property
    def word_paths(self) -> dict[str, str]:
        """Side → its word table, which `volt.count_words(…, word_counts=True)` reads."""
        return {side: str(self.folder / file.name) for side, file in zip(self.sides, self.words, strict=True)}


def shard_name(number: int, side: str, compress: Compression) -> str:
    """Return the name of a side of a shard, such as 00007.src.zst."""
    return f"{number:05d}.{side}{SUFFIXES[compress]}"


def task_folder(folder: str | Path, task: Task) -> Path:
    """Return the folder of a task's shards, or of the task whose inputs it shares."""
    name = task.shares or task.name
    if not name or name.startswith(".") or any(not letter.isprintable() or letter in "/\\" for letter in name):
        raise ConfigError(f"task {quoted(name)}: is to be the name of a folder; use letters, digits, - and _")
    return Path(folder) / name


def read_manifest(folder: str | Path, task: Task) -> Manifest:
    """Read the manifest of a task's shards.

    folder: the folder of all tasks
    Raises StreamError, with the command that makes the shards, if they are missing, unfinished, damaged or stale.

    >>> read_manifest("/nowhere", Task("de_en", "para", ()))
    Traceback (most recent call last):
        ...
    volt.errors.StreamError: /nowhere/de_en: no shards of task 'de_en'; make them: volt shard CONFIG -o /nowhere
    """
    place = task_folder(folder, task)
    remedy = f"volt shard CONFIG -o {shown_path(folder)}"
    try:
        manifest = _stored(place)
    except FileNotFoundError:
        message = f"no shards of task {task.name!r}; make them"
        if (place / PROGRESS).is_dir():
            message = f"unfinished shards of task {task.name!r}; go on"
        raise StreamError(f"{shown_path(place)}: {message}: {remedy}") from None
    except OSError as error:
        raise unreadable(place / MANIFEST, error, kind=StreamError) from None
    except BAD_RECORD:
        raise StreamError(f"{shown_path(place / MANIFEST)}: damaged; make the shards again: {remedy}") from None
    if fault := _damage(manifest) or _difference(manifest, task):
        raise StreamError(f"{shown_path(place)}: {fault}; make the shards again: {remedy}")
    try:
        _check_fresh(manifest, task)
    except StreamError as error:
        raise StreamError(f"{shown_path(place)}: stale: {error}; make the shards again: {remedy}") from None
    return manifest


def stored_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in a task's own folder, None if it is missing or damaged. Other files are not checked."""
    try:
        return _stored(folder)
    except BAD_RECORD:
        return None


def _stored(folder: Path) -> Manifest:
    return restored(Manifest, {**load_record(folder / MANIFEST), "folder": folder})


def store_manifest(manifest: Manifest) -> None:
    """Write the manifest into its folder."""
    record = {"n_lines": manifest.n_lines, **asdict(manifest)}
    del record["folder"]
    store_record(manifest.folder / MANIFEST, record)


def restored(kind: type[T], record: Record) -> T:
    """Rebuild an object from the result of `asdict`. Raises ValueError if the record is damaged."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind).validate_python(record)


def store_record(path: Path, record: Record) -> None:
    """Write a record with a checksum, completely or not at all."""
    values = {"format": "volt shards", "version": VERSION, "check": _check(record), "record": record}
    with write_atomic(path) as file:
        file.write(json.dumps(values, indent=1).encode())


def load_record(path: Path) -> Record:
    """Return the record of a file. Raises one of BAD_RECORD if it cannot be read or is damaged."""
    values = json.loads(path.read_bytes())
    record: Record = values["record"]
    if values["version"] != VERSION or values["check"] != _check(record):
        raise ValueError("damaged, or written by another version")
    return record


def _check(record: Record) -> str:
    return blake2b(json.dumps(record, sort_keys=True).encode(), digest_size=8).hexdigest()


def is_whole(folder: Path, file: WrittenFile) -> bool:
    """Check whether a file still contains the bytes that were written."""
    digest = blake2b(digest_size=16)
    try:
        with open(folder / file.name, "rb", buffering=0) as opened:
            if os.fstat(opened.fileno()).st_size != file.size:
                return False
            while block := opened.read(_READ_SIZE):
                digest.update(block)
    except OSError:
        return False
    return digest.hexdigest() == file.digest


def _damage(manifest: Manifest) -> str:
    for file in manifest.files:
        try:
            size = os.stat(manifest.folder / file.name).st_size
        except OSError:
            return f"{file.name} is missing"
        if size != file.size:
            return f"{file.name} has {size:,} bytes, not the {file.size:,} that were written"
    return ""


def _difference(manifest: Manifest, task: Task) -> str:
    """Return how the shards differ from the shards that the task now asks for; empty if they do not."""
    if manifest.sides != task.sides:
        return f"stale: they have {' and '.join(manifest.sides)}; task {task.name!r} is of type {task.kind}"
    requested = min(task.n_shards or len(manifest.shards), manifest.n_lines)
    if requested != len(manifest.shards) and not task.shares:
        return f"stale: there are {len(manifest.shards)}; task {task.name!r} asks for {requested}"
    return ""


def _check_fresh(manifest: Manifest, task: Task) -> None:
    """Raise StreamError if a task's inputs are not the inputs of its shards, or have changed.

    Deleted inputs are not checked. If a task shares another's inputs, the manifest's inputs are checked.
    """
    if not task.inputs:
        for read in manifest.inputs:
            for file in read.files:
                _check_file(file, file.path)
        return
    before, now = [read.name for read in manifest.inputs], [inputs.name for inputs in task.inputs]
    if before != now:
        raise StreamError(f"made from the inputs {', '.join(before)}, not {', '.join(now)}")
    for read, inputs in zip(manifest.inputs, task.inputs, strict=True):
        try:
            sides = expanded(paths_by_side(task, inputs))
        except CorpusError:  # deleted
            continue
        if [*map(len, sides)] != [*map(len, read.sides)]:
            raise StreamError(f"input {read.name!r} has another number of files now")
        for files, paths in zip(read.sides, sides, strict=True):
            for file, path in zip(files, paths, strict=True):
                _check_file(file, path)


def _check_file(file: InputFile, path: str) -> None:
    """Raise StreamError if a file exists and its text has changed; the text is read only if its time of change has."""
    if not os.path.lexists(path):
        return
    size, modified = stamp_of(path)
    if size != file.size:
        raise StreamError(f"{shown_path(path)} has {size:,} bytes, and had {file.size:,}")
    if modified != file.modified and look_at(path, max_line=None).digest != file.digest:
        raise StreamError(f"{shown_path(path)} has another text now")
