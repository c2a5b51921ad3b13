"""The folder of a task's shards, and its manifest, which says what they hold and what they were made from.

    FOLDER/TASK/00000.src.zst   lines of one side of a shard; line i of .tgt belongs to line i of .src
    FOLDER/TASK/words.src.tsv   word, tab, count: the words of all lines of a side
    FOLDER/TASK/manifest.json   written last; without it the shards are not finished

Shards are stale if one of their inputs has changed. Inputs that were deleted are not needed.

>>> task = Task("de_en", "para", ())
>>> read_manifest("/nowhere", task)
Traceback (most recent call last):
    ...
volt.errors.StreamError: /nowhere/de_en: no shards of task 'de_en'; make them: volt shard CONFIG -o /nowhere
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

from volt.errors import ConfigError, CorpusError, StreamError, quoted, shown_path, unreadable
from volt.files.atomic import write_atomic
from volt.stream.reading.shard import stamp_of
from volt.stream.tasks.task import InputFile, ReadInput, Task, expanded, look_at, names_of, paths_by_side

VERSION = 1
MANIFEST = "manifest.json"
PROGRESS = ".progress"
Compression = Literal["zstd", "gz", "none"]
SUFFIXES: dict[Compression, str] = {"zstd": ".zst", "gz": ".gz", "none": ""}
Record = dict[str, Any]
BAD_RECORD = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)  # missing or damaged
_READ_SIZE = 1 << 20


class WrittenFile(NamedTuple):
    """A file of the folder: its name, its bytes on disk and the digest of these."""

    name: str
    size: int
    digest: str


class WrittenShard(NamedTuple):
    """A shard.

    n_lines: of each of its files
    n_bad_lines: how many lines of each side are not UTF-8; they are kept as they are, and their words are not counted
    files: one for each side
    """

    n_lines: int
    n_bad_lines: tuple[int, ...]
    files: tuple[WrittenFile, ...]


class ShardSettings(NamedTuple):
    """The requested form of shards.

    n_shards: how many there are
    compress: zstd, gz or none
    order: "mixed" if inputs are spread evenly, "kept" if lines stand in the order of the inputs
    """

    n_shards: int
    compress: Compression
    order: Literal["mixed", "kept"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a task's folder.

    folder: the task's own
    task: its name
    sides: src and tgt, or mono
    layout: how lines were divided and packed
    inputs: what was read
    shards: what was written
    words: the tables of words, one for each side
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
        """The names of the fields, as a `Source` of pairs takes them; () where there is one side."""
        return names_of(self.sides)

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        """All its files, the files of the shards first."""
        return (*(file for shard in self.shards for file in shard.files), *self.words)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of all shards, grouped by shard, as a `Source` takes them."""
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
        """The first such line of the inputs, as file:line; empty if there is none, or an older run has read them."""
        return self._first("first_bad")

    @property
    def first_tab(self) -> str:
        """The first line of the inputs that holds a tab, in the same way."""
        return self._first("first_tab")

    def _first(self, what: str) -> str:
        files = (file for read in self.inputs for file in read.files)
        return next((f"{shown_path(file.path)}:{line}" for file in files if (line := getattr(file, what))), "")

    @property
    def word_paths(self) -> dict[str, str]:
        """Side → the table of its words, as `volt.count_words(…, word_counts=True)` reads it."""
        return {side: str(self.folder / file.name) for side, file in zip(self.sides, self.words, strict=True)}

    def record(self) -> Record:
        """As it is written, JSON-able."""
        return {
            "task": self.task, "sides": self.sides, "n_lines": self.n_lines, "layout": self.layout._asdict(),
            "inputs": [recorded_input(read) for read in self.inputs],
            "shards": [recorded_shard(shard) for shard in self.shards],
            "words": [file._asdict() for file in self.words],
        }  # fmt: skip

    @classmethod
    def of_record(cls, record: Record, folder: Path) -> Manifest:
        """Read a record. Raises KeyError, TypeError or ValueError if it is not valid in this version."""
        return cls(
            folder, record["task"], tuple(record["sides"]), ShardSettings(**record["layout"]),
            tuple(map(input_of, record["inputs"])), tuple(map(shard_of, record["shards"])),
            tuple(WrittenFile(**file) for file in record["words"]),
        )  # fmt: skip


def recorded_input(read: ReadInput) -> Record:
    """Return an input, JSON-able."""
    sides = [[file._asdict() for file in files] for files in read.sides]
    return {"name": read.name, "n_lines": read.n_lines, "sides": sides}


def input_of(record: Record) -> ReadInput:
    """Return the input of a record that `recorded_input` made."""
    return ReadInput(record["name"], tuple(tuple(InputFile(**file) for file in files) for files in record["sides"]))


def recorded_shard(shard: WrittenShard) -> Record:
    """Return a shard, JSON-able."""
    return {**shard._asdict(), "files": [file._asdict() for file in shard.files]}


def shard_of(record: Record) -> WrittenShard:
    """Return the shard of a record that `recorded_shard` made."""
    return WrittenShard(
        record["n_lines"], tuple(record["n_bad_lines"]), tuple(WrittenFile(**file) for file in record["files"])
    )


def shard_name(number: int, side: str, compress: Compression) -> str:
    """Return the name of a file.

    >>> shard_name(7, "src", "zstd")
    '00007.src.zst'
    """
    return f"{number:05d}.{side}{SUFFIXES[compress]}"


def task_folder(folder: str | Path, task: Task) -> Path:
    """Return the folder of a task's shards, or of the task whose inputs it shares.

    Raises ConfigError if the name cannot be a folder's.
    """
    name = task.shares or task.name
    if not name or name.startswith(".") or any(not letter.isprintable() or letter in "/\\" for letter in name):
        raise ConfigError(f"task {quoted(name)}: is to be the name of a folder; use letters, digits, - and _")
    return Path(folder) / name


def read_manifest(folder: str | Path, task: Task) -> Manifest:
    """Read the manifest of a task's shards.

    folder: the folder of all tasks
    Raises StreamError, with the command that makes them, if they are missing, unfinished, damaged or stale.
    """
    place = task_folder(folder, task)
    remedy = f"volt shard CONFIG -o {shown_path(folder)}"
    try:
        manifest = _stored(place)
    except FileNotFoundError:
        result = f"unfinished shards of task {task.name!r}; go on" if (place / PROGRESS).is_dir() else ""
        result = result or f"no shards of task {task.name!r}; make them"
        raise StreamError(f"{shown_path(place)}: {result}: {remedy}") from None
    except OSError as error:
        raise unreadable(place / MANIFEST, error, kind=StreamError) from None
    except BAD_RECORD:
        raise StreamError(f"{shown_path(place / MANIFEST)}: damaged; make the shards again: {remedy}") from None
    if result := _damage(manifest) or _difference(manifest, task):
        raise StreamError(f"{shown_path(place)}: {result}; make the shards again: {remedy}")
    try:
        check_fresh(manifest, task)
    except StreamError as error:
        raise StreamError(f"{shown_path(place)}: stale: {error}; make the shards again: {remedy}") from None
    return manifest


def stored_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a task's own folder, if it is there and whole; nothing else is looked at.

    >>> stored_manifest(Path("/nowhere"))
    """
    try:
        return _stored(folder)
    except BAD_RECORD:
        return None


def _stored(folder: Path) -> Manifest:
    """Read the manifest. Raises OSError if it is missing, ValueError, KeyError or TypeError if it is damaged."""
    return Manifest.of_record(load_record(folder / MANIFEST), folder)


def store_record(path: Path, record: Record) -> None:
    """Write a record, with a checksum of itself, whole or not at all."""
    values = {"format": "volt shards", "version": VERSION, "check": _check(record), "record": record}
    with write_atomic(path) as file:
        file.write(json.dumps(values, indent=1).encode())


def load_record(path: Path) -> Record:
    """Return the record of a file. Raises OSError if it cannot be read, ValueError, KeyError or TypeError if it is
    damaged.
    """
    values = json.loads(path.read_bytes())
    record: Record = values["record"]
    if values["version"] != VERSION or values["check"] != _check(record):
        raise ValueError("damaged, or of another version")
    return record


def _check(record: Record) -> str:
    return blake2b(json.dumps(record, sort_keys=True).encode(), digest_size=8).hexdigest()


def is_whole(folder: Path, file: WrittenFile) -> bool:
    """Check whether a file holds the bytes that were written.

    >>> is_whole(Path("/nowhere"), WrittenFile("00000.src", 0, ""))
    False
    """
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
    """Describe what is wrong with the files of a folder, by their sizes; empty if nothing is."""
    for file in manifest.files:
        try:
            size = os.stat(manifest.folder / file.name).st_size
        except OSError:
            return f"{file.name} is missing"
        if size != file.size:
            return f"{file.name} has {size:,} bytes, not the {file.size:,} that were written"
    return ""


def _difference(manifest: Manifest, task: Task) -> str:
    """Describe how the shards differ from the current task; empty if they do not."""
    if manifest.sides != task.sides:
        return f"stale: they have {' and '.join(manifest.sides)}; task {task.name!r} is of type {task.kind}"
    requested = min(task.n_shards or len(manifest.shards), manifest.n_lines)
    if requested != len(manifest.shards) and not task.shares:
        return f"stale: there are {len(manifest.shards)}; task {task.name!r} asks for {requested}"
    return ""


def check_fresh(manifest: Manifest, task: Task) -> None:
    """Raise StreamError if the inputs of a task are others than those that its shards were made from, or have changed.

    An input that is gone is not looked at. The text of a file is only read if its time of change is another, but its
    size is not. A task that shares the inputs of another has none of its own: the manifest's inputs are checked.
    """
    if not task.inputs:
        for read in manifest.inputs:
            for file in read.files:
                _check_file(file, file.path)
        return
    output, now = [read.name for read in manifest.inputs], [inputs.name for inputs in task.inputs]
    if output != now:
        raise StreamError(f"made from the inputs {', '.join(output)}, not {', '.join(now)}")
    for read, inputs in zip(manifest.inputs, task.inputs, strict=True):
        try:
            sides = expanded(paths_by_side(task, inputs))
        except CorpusError:  # gone
            continue
        if [*map(len, sides)] != [*map(len, read.sides)]:
            raise StreamError(f"input {read.name!r} has another number of files now")
        for files, paths in zip(read.sides, sides, strict=True):
            for file, path in zip(files, paths, strict=True):
                _check_file(file, path)


def _check_file(file: InputFile, path: str) -> None:
    """Raise StreamError if a file is there and has another text than it had, wherever it was then."""
    if not os.path.lexists(path):
        return
    size, modified = stamp_of(path)
    if size != file.size:
        raise StreamError(f"{shown_path(path)} has {size:,} bytes, and had {file.size:,}")
    if modified != file.modified and look_at(path, max_line=None).digest != file.digest:
        raise StreamError(f"{shown_path(path)} has another text now")
