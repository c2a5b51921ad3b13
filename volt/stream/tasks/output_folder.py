"""A task's folder while its shards are written: the lock, and what a stopped run has finished.

    .lock                          held by the process that writes
    .progress/plan.json            the settings and inputs of the new shards
    .progress/00000.src.zst        the source side of shard 0; moved up when all shards are finished
    .progress/00000.json           written when shard 0 is finished: lines, digests of its files
    .progress/00000.src.words      the word counts of the source side

Earlier shards stay until all new files are complete; the manifest is written last. A stopped run
can be continued.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from io import BytesIO
from pathlib import Path

import polars as pl

from volt.count.word_counts import CountedPart, sum_parts
from volt.errors import ConfigError, OutputError, StreamError, quoted, reason, shown_path
from volt.files.atomic import UNCHANGED, make_folder, write_atomic
from volt.files.paths import mark_of
from volt.files.temporary import sweep
from volt.stream.reading.index_cache import locked
from volt.stream.tasks.manifest import (
    MANIFEST,
    PROGRESS,
    Manifest,
    ShardSettings,
    WrittenFile,
    WrittenShard,
    is_whole,
    store_manifest,
    store_record,
    stored,
    stored_manifest,
)
from volt.stream.tasks.task import InputFile, ReadInput
from volt.urls import url_of


def _written(path: Path, buffer: BytesIO) -> WrittenFile:
    data = buffer.getbuffer()
    with write_atomic(path) as file:
        file.write(data)
    return WrittenFile(path.name, len(data), blake2b(data, digest_size=16).hexdigest())


_LOCK = ".lock"
_PLAN = "plan.json"
_SHARD = re.compile(r"\d{5,}\.(src|tgt|mono)(\.zst|\.gz)?|words\.(src|tgt|mono)\.tsv")
_PART = re.compile(r"\..+\.[0-9a-f]{8}\.part")
_OWN = re.compile(rf"{_SHARD.pattern}|{_PART.pattern}|{re.escape(MANIFEST)}|{re.escape(_LOCK)}")


@dataclass(frozen=True, slots=True)
class ShardInputs:
    """The inputs and settings that a task's shards are made from."""

    task: str
    layout: ShardSettings
    inputs: tuple[ReadInput, ...]

    @property
    def signature(self) -> tuple[object, ...]:
        """Everything that determines the bytes of the shards: the inputs' texts, not their paths."""
        texts = list[tuple[str, str, str]]()
        for read in self.inputs:
            texts += ((read.name, file.side, file.digest) for file in read.files)
        return self.task, self.layout, tuple(texts)


@dataclass(frozen=True, slots=True)
class _Finished:
    shard: WrittenShard
    words: tuple[WrittenFile, ...]


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """The folder of a task, and the names of its sides."""

    folder: Path
    sides: tuple[str, ...]

    @property
    def progress(self) -> Path:
        return self.folder / PROGRESS

    def files_read(self) -> dict[tuple[str, str], InputFile]:
        """Return (side, path) → what an earlier run recorded of the input file, if it has not
        changed since."""
        earlier = stored_manifest(self.folder) or self._plan()
        result = dict[tuple[str, str], InputFile]()
        for read in earlier.inputs if earlier else ():
            for file in read.files:
                if mark_of(file.path) == file.stamp:
                    result[file.side, file.path] = file
        return result

    def finished(self, plan: ShardInputs) -> Manifest | None:
        """Return the manifest if all shards of the plan are up to date, else None."""
        manifest = stored_manifest(self.folder)
        if manifest is None:
            return None
        written = ShardInputs(manifest.task, manifest.layout, manifest.inputs)
        if written.signature != plan.signature:
            return None
        if not all(is_whole(file, self.folder) for file in manifest.files):
            return None
        return self.finish(replace(manifest, inputs=plan.inputs))

    def begin(self, plan: ShardInputs) -> dict[int, WrittenShard]:
        """Prepare the folder; return number → shard for the shards that an earlier run has
        finished."""
        before = self._plan()
        if before is None or before.signature != plan.signature:
            shutil.rmtree(self.progress, ignore_errors=True)
            make_folder(self.progress)
        store_record(self.progress / _PLAN, asdict(plan))
        retained = dict[int, WrittenShard]()
        names = set[str]()
        for number in range(plan.layout.n_shards):
            note = stored(_Finished, self.progress / f"{number:05d}.json")
            if note is None or not all(is_whole(file, self.progress) for file in note.words):
                continue
            files = note.shard.files
            if all(is_whole(file, self.progress, self.folder) for file in files):
                retained[number] = note.shard
                names.update(file.name for file in files)
        _remove_all_but(names, self.progress)
        manifest = stored_manifest(self.folder)
        if manifest is not None:
            names.update(file.name for file in manifest.files)
        _remove_all_but(names, self.folder)
        return retained

    def note(self, number: int, shard: WrittenShard, tables: Iterable[CountedPart]) -> None:
        """Store the word counts of a finished shard (one table for each side), and then its record."""
        words = list[WrittenFile]()
        for side, part in zip(self.sides, tables, strict=True):
            buffer = BytesIO()
            part.table.write_ipc(buffer, compression="zstd")
            words.append(_written(self.progress / f"{number:05d}.{side}.words", buffer))
        note = _Finished(shard, tuple(words))
        store_record(self.progress / f"{number:05d}.json", asdict(note))

    def write_words(self, n_shards: int) -> tuple[WrittenFile, ...]:
        """Add up the word counts of all shards. Return a file for each side."""
        result = list[WrittenFile]()
        for side in self.sides:
            notes = (self.progress / f"{number:05d}.{side}.words" for number in range(n_shards))
            tables = (pl.read_ipc(BytesIO(note.read_bytes())) for note in notes)
            total = sum_parts(CountedPart(table, 0, 0, 0) for table in tables)
            buffer = BytesIO()
            total.table.write_csv(buffer, include_header=False, separator="\t", quote_style="never")
            result.append(_written(self.progress / f"words.{side}.tsv", buffer))
        return tuple(result)

    def finish(self, manifest: Manifest) -> Manifest:
        """Move the new files into the folder, write the manifest, and remove old shards and the
        progress folder."""
        names = {file.name for file in manifest.files}
        moved = [name for name in names if (self.progress / name).exists()]
        if moved:
            (self.folder / MANIFEST).unlink(missing_ok=True)
        for name in moved:
            os.replace(self.progress / name, self.folder / name)
        _remove_all_but(names, self.folder)
        store_manifest(manifest)
        shutil.rmtree(self.progress, ignore_errors=True)
        return manifest

    @contextmanager
    def held(self, read: Iterable[str]) -> Iterator[None]:
        """Lock the folder, which is created if missing, and removed again if it remains empty.

        read: the input files
        Raises ConfigError if an input file is in the folder.
        Raises StreamError if another process has the lock, OutputError if the folder contains other
        files or cannot be created.
        """
        _refuse_inputs(self.folder, read)
        place = shown_path(self.folder)
        lock = self.folder / _LOCK
        new = [folder for folder in (self.folder, self.folder.parent) if not folder.exists()]
        make_folder(self.folder)
        try:
            _refuse_others(self.folder)
            with ExitStack() as stack:
                try:
                    is_ours = stack.enter_context(locked(lock, waits=False))
                except OSError as error:
                    fault = f"{shown_path(lock)}: cannot be locked: {reason(error)}"
                    raise OutputError(f"{fault}; choose another folder") from None
                if not is_ours:
                    fault = f"{place}: another process is writing shards there"
                    raise StreamError(f"{fault}; wait, or name another folder")
                stack.callback(lock.unlink, missing_ok=True)
                yield
        finally:
            for folder in new:
                with suppress(OSError):  # it is not empty
                    folder.rmdir()

    @contextmanager
    def explaining_errors(self) -> Iterator[None]:
        """Extend the message of a write error: earlier shards are unchanged, and how to continue."""
        try:
            yield
        except OutputError as error:
            message = str(error).removesuffix(UNCHANGED)
            if message == str(error):
                raise
            if stored_manifest(self.folder) is not None:
                message += "; the earlier shards are unchanged"
            remedy = "make room, or name another folder; a second run continues after the finished shards"
            raise OutputError(f"{message}; {remedy}") from None

    def _plan(self) -> ShardInputs | None:
        return stored(ShardInputs, self.progress / _PLAN)


def _remove_all_but(names: set[str], folder: Path) -> None:
    for name in os.listdir(folder):
        if _PART.fullmatch(name):
            sweep(folder / name)
        elif _SHARD.fullmatch(name) and name not in names:
            (folder / name).unlink()


def _refuse_inputs(folder: Path, read: Iterable[str]) -> None:
    place = os.path.join(os.path.realpath(folder), "")
    for path in read:
        parent, name = os.path.split(path)
        named = os.path.join(os.path.realpath(parent), name)
        if not url_of(path) and (
            named.startswith(place) or os.path.realpath(path).startswith(place)
        ):
            fault = f"is an input, but lies in the output folder {shown_path(folder)}"
            raise ConfigError(f"{shown_path(path)}: {fault}; name another folder")


def _refuse_others(folder: Path) -> None:
    names = os.listdir(folder)
    has_manifest = MANIFEST in names or PROGRESS in names
    for name in sorted(names):
        is_lost = _SHARD.fullmatch(name) and not has_manifest
        if is_lost or not _is_ours(folder / name):
            fault = f"contains {quoted(name)}, which is not one of its shards"
            if is_lost:
                fault += f", or its {MANIFEST} is missing"
            remedy = "name another folder, or move it away"
            raise OutputError(f"{shown_path(folder)}: {fault}; {remedy}")


def _is_ours(path: Path) -> bool:
    """Check whether this module may have written a file or folder. It writes no links."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:  # another process has just removed it
        return True
    if path.name == PROGRESS:
        return stat.S_ISDIR(mode)
    return stat.S_ISREG(mode) and _OWN.fullmatch(path.name) is not None
