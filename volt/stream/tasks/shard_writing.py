"""A task's folder while its shards are written: its lock, the leftovers of an earlier run, and the word counts.

    .lock                          held by the process that writes
    .progress/plan.json            the layout and the inputs that the shards below belong to
    .progress/00000.src.zst        a side of shard 0, until all shards are made
    .progress/00000.json           shard 0 is finished: its lines, and the digests of its files
    .progress/00000.src.words      how often its words occur

Shards already in the folder stay until all new shards, and the tables of words, are complete. Then these replace them,
other files are deleted, and the manifest comes last. A second run resumes one that was stopped.

>>> TaskFolder(Path("/nowhere/de_en"), ("src", "tgt")).files_read()
{}
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import polars as pl

from volt.count.word_counts import CountedPart, summed
from volt.errors import ConfigError, OutputError, StreamError, quoted, reason, shown_path
from volt.files.atomic import UNCHANGED, make_folder, write_atomic
from volt.files.temporary import sweep
from volt.stream.reading.shard import stamp_of
from volt.stream.reading.shard_cache import locked
from volt.stream.tasks.shard_folder import (
    BAD_RECORD,
    MANIFEST,
    PROGRESS,
    Manifest,
    Record,
    ShardSettings,
    WrittenFile,
    WrittenShard,
    input_of,
    is_whole,
    load_record,
    recorded_input,
    recorded_shard,
    shard_of,
    store_record,
    stored_manifest,
)  # fmt: skip
from volt.stream.tasks.task import InputFile, ReadInput
from volt.urls import url_of


def store_table(path: Path, part: CountedPart) -> WrittenFile:
    """Keep the words of a shard."""
    room = BytesIO()
    part.table.write_ipc(room, compression="zstd")
    return _written(path, room)


def write_words(folder: Path, side: str, notes: Iterable[Path]) -> WrittenFile:
    """Write the words of a side of all shards, sorted. notes: where they were kept"""
    tables = (pl.read_ipc(BytesIO(note.read_bytes())) for note in notes)
    total, room = summed(CountedPart(table, 0, 0, 0) for table in tables), BytesIO()
    total.table.write_csv(room, include_header=False, separator="\t", quote_style="never")
    return _written(folder / f"words.{side}.tsv", room)


def _written(path: Path, room: BytesIO) -> WrittenFile:
    data = room.getbuffer()
    with write_atomic(path) as file:
        file.write(data)
    return WrittenFile(path.name, len(data), blake2b(data, digest_size=16).hexdigest())


_LOCK, _PLAN = ".lock", "plan.json"
_SHARD = re.compile(r"\d{5,}\.(src|tgt|mono)(\.zst|\.gz)?|words\.(src|tgt|mono)\.tsv")
_PART = re.compile(r"\..+\.[0-9a-f]{8}\.part")


def _word_note(number: int, side: str) -> str:
    return f"{number:05d}.{side}.words"


class ShardInputs(NamedTuple):
    """The inputs and settings that a task's shards are made from."""

    task: str
    layout: ShardSettings
    inputs: tuple[ReadInput, ...]

    @property
    def signature(self) -> tuple[object, ...]:
        """Return what the bytes of the shards depend on: texts, not paths."""
        texts = tuple((read.name, tuple((file.side, file.digest) for file in read.files)) for read in self.inputs)
        return self.task, self.layout, texts

    def record(self) -> Record:
        """As it is written, JSON-able."""
        return {**self._asdict(), "layout": self.layout._asdict(), "inputs": [*map(recorded_input, self.inputs)]}

    @classmethod
    def of_record(cls, record: Record) -> ShardInputs:
        """Read a record. Raises KeyError, TypeError or ValueError if it is not valid in this version."""
        return cls(record["task"], ShardSettings(**record["layout"]), tuple(map(input_of, record["inputs"])))


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """The folder of a task, and the names of its sides."""

    folder: Path
    sides: tuple[str, ...]

    @property
    def progress(self) -> Path:
        """The folder of new files until all of them are complete."""
        return self.folder / PROGRESS

    def word_notes(self, side: str, n_shards: int) -> list[Path]:
        """Return where the words of shards are kept meanwhile."""
        return [self.progress / _word_note(number, side) for number in range(n_shards)]

    def _shard_note(self, number: int) -> Path:
        return self.progress / f"{number:05d}.json"

    def files_read(self) -> dict[tuple[str, str], InputFile]:
        """(side, path) → what an earlier run has found in a file that is as it was then."""
        manifest, plan = stored_manifest(self.folder), self._plan()
        inputs = manifest.inputs if manifest else plan.inputs if plan else ()
        return {(file.side, file.path): file for read in inputs for file in read.files if _is_as_it_was(file)}

    def finished(self, plan: ShardInputs) -> Manifest | None:
        """Return the manifest, if all is there already as it is to be."""
        result = stored_manifest(self.folder)
        if result is None or ShardInputs(result.task, result.layout, result.inputs).signature != plan.signature:
            return None
        if not all(is_whole(self.folder, file) for file in result.files):
            return None
        return self.finish(replace(result, inputs=plan.inputs))

    def begin(self, plan: ShardInputs) -> dict[int, WrittenShard]:
        """Make the folder ready: number → shard, for those that an earlier run has finished. What no manifest tells of
        goes otherwise."""
        before = self._plan()
        if before is None or before.signature != plan.signature:
            shutil.rmtree(self.progress, ignore_errors=True)
            make_folder(self.progress)
        store_record(self.progress / _PLAN, plan.record())
        retained = {number: shard for number in range(plan.layout.n_shards) if (shard := self._finished_shard(number))}
        names = {file.name for shard in retained.values() for file in shard.files}
        manifest = stored_manifest(self.folder)
        _remove_all_but(names, self.progress)
        _remove_all_but(names if manifest is None else names | _names_of(manifest), self.folder)
        return retained

    def note(self, number: int, shard: WrittenShard, tables: Iterable[CountedPart]) -> None:
        """Keep the words of a shard, and say that it is finished. tables: of its words, one for each side"""
        names = [_word_note(number, side) for side in self.sides]
        words = [store_table(self.progress / name, table) for name, table in zip(names, tables, strict=True)]
        values = {"shard": recorded_shard(shard), "words": [file._asdict() for file in words]}
        store_record(self._shard_note(number), values)

    def finish(self, manifest: Manifest) -> Manifest:
        """Let the new files take their places, and write the manifest. Others go, and so does what was noted."""
        new = _names_of(manifest)
        if moved := new.intersection(os.listdir(self.progress) if self.progress.is_dir() else ()):
            (self.folder / MANIFEST).unlink(missing_ok=True)
            for name in sorted(moved):
                os.replace(self.progress / name, self.folder / name)
        _remove_all_but(new, self.folder)
        store_record(self.folder / MANIFEST, manifest.record())
        shutil.rmtree(self.progress, ignore_errors=True)
        return manifest

    @contextmanager
    def explaining_errors(self) -> Iterator[None]:
        """Add to an error of writing which shards are finished, and that earlier shards are unchanged."""
        try:
            yield
        except OutputError as error:
            result = str(error).removesuffix(UNCHANGED)
            if result == str(error):
                raise
            before = "" if stored_manifest(self.folder) is None else "; the earlier shards are unchanged"
            remedy = "make room, or name another folder; a second run continues after the finished shards"
            raise OutputError(f"{result}{before}; {remedy}") from None

    def _plan(self) -> ShardInputs | None:
        try:
            return ShardInputs.of_record(load_record(self.progress / _PLAN))
        except BAD_RECORD:
            return None

    def _finished_shard(self, number: int) -> WrittenShard | None:
        """Return a shard that an earlier run has noted, if its files are whole."""
        try:
            values = load_record(self._shard_note(number))
            shard, words = shard_of(values["shard"]), [WrittenFile(**file) for file in values["words"]]
        except BAD_RECORD:
            return None
        is_kept = all(is_whole(self.progress, file) or is_whole(self.folder, file) for file in shard.files)
        return shard if is_kept and all(is_whole(self.progress, file) for file in words) else None


def _names_of(manifest: Manifest) -> set[str]:
    return {file.name for file in manifest.files}


def _remove_all_but(names: set[str], folder: Path) -> None:
    """Remove the shards of other runs, and what killed ones have left half written."""
    for name in os.listdir(folder):
        if _PART.fullmatch(name):
            sweep(folder / name)
        elif _SHARD.fullmatch(name) and name not in names:
            (folder / name).unlink()


def _is_as_it_was(file: InputFile) -> bool:
    try:
        return stamp_of(file.path) == file.stamp
    except StreamError:  # it is gone
        return False


@contextmanager
def held(work: TaskFolder, read: Iterable[str]) -> Iterator[None]:
    """Hold a task's folder, which is made if there is none; it goes again if nothing was written.

    read: the files that are read meanwhile
    Raises StreamError if another process holds it, ConfigError if one of these files lies there, OutputError if it
    holds something else or cannot be made.
    """
    _refuse_inputs(work.folder, read)
    output = [folder for folder in (work.folder, work.folder.parent) if not folder.exists()]
    make_folder(work.folder)
    try:
        _refuse_others(work.folder)
        with _locked(work.folder):
            yield
    finally:
        for folder in output:
            with suppress(OSError):  # it holds what was written
                folder.rmdir()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = folder / _LOCK
    with ExitStack() as stack:
        try:
            is_ours = stack.enter_context(locked(lock, waits=False))
        except OSError as error:
            raise OutputError(f"{shown_path(lock)}: cannot be locked: {reason(error)}; choose another place") from None
        if not is_ours:
            result = f"{shown_path(folder)}: another process is writing shards there"
            raise StreamError(f"{result}; wait until it has finished, or name another folder")
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _refuse_inputs(folder: Path, read: Iterable[str]) -> None:
    """Raise ConfigError if a file that is read lies in the folder, however it is spelled."""
    place = os.path.join(os.path.realpath(folder), "")
    for path in (path for path in read if not url_of(path)):
        in_real_folder = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if in_real_folder.startswith(place) or os.path.realpath(path).startswith(place):
            result = f"{shown_path(path)}: is read, and lies in {shown_path(folder)}, which is written"
            raise ConfigError(f"{result}; name another folder")


def _refuse_others(folder: Path) -> None:
    """Raise OutputError if the folder holds anything but shards."""
    names = os.listdir(folder)
    is_ours = MANIFEST in names or PROGRESS in names
    for name in sorted(names):
        if not (_is_ours(folder / name) and (is_ours or not _SHARD.fullmatch(name))):
            lost = f", or its {MANIFEST} is missing" if _SHARD.fullmatch(name) and not is_ours else ""
            result = f"{shown_path(folder)}: holds {quoted(name)}, which is not one of its shards{lost}"
            raise OutputError(f"{result}; name another folder, or move it away")


def _is_ours(path: Path) -> bool:
    """Check whether something may have been put into a folder of shards by this module. It makes no links."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:  # another process has just removed it
        return True
    if path.name == PROGRESS:
        return stat.S_ISDIR(mode)
    is_named = path.name in (MANIFEST, _LOCK) or _SHARD.fullmatch(path.name) or _PART.fullmatch(path.name)
    return bool(is_named) and stat.S_ISREG(mode)
