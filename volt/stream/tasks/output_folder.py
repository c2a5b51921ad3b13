"""A task's folder while its shards are written: its lock, and what a stopped run has finished.

    .lock                          held by the process that writes
    .progress/plan.json            the settings and inputs of the new shards
    .progress/00000.src.zst        one side of shard 0; moved up when all shards are finished
    .progress/00000.src.words      the word counts of this side
    .progress/00000.json           written when shard 0 is finished: lines, digests of its files
    manifest.json                  of the earlier shards, then of the new ones (`manifest`)

`shard_writing` writes the files of a shard; this module writes all others. The earlier shards stay
until all new files are complete; the manifest is written last. So a run that was stopped at any
moment can be continued.

    lock → files_read → finished, or: begin → record, for each shard → write_words → finish
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

_LOCK = ".lock"
_PLAN = "plan.json"
_SHARD = re.compile(r"\d{5,}\.(src|tgt|mono)(\.zst|\.gz)?|words\.(src|tgt|mono)\.tsv")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.part")
_OUR_NAMES = re.compile(
    rf"{_SHARD.pattern}|{_TEMPORARY.pattern}|{re.escape(MANIFEST)}|{re.escape(_LOCK)}"
)


@dataclass(frozen=True, slots=True)
class ShardInputs:
    """The inputs and settings that a task's shards are made from."""

    task: str
    layout: ShardSettings
    inputs: tuple[ReadInput, ...]

    @property
    def signature(self) -> tuple[object, ...]:
        """Everything that determines the bytes of the shards: the inputs' texts, but not paths."""
        texts = list[tuple[str, str, str]]()
        for source in self.inputs:
            texts += ((source.name, file.side, file.digest) for file in source.files)
        return self.task, self.layout, tuple(texts)


@dataclass(frozen=True, slots=True)
class _FinishedShard:
    """The record of a finished shard. words: the files with the word counts of each side"""

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
        """Return the input files that an earlier run has read, unless they have changed since.

        The result maps (side, path) to the record of the file.
        """
        earlier = stored_manifest(self.folder) or self._plan()
        unchanged = dict[tuple[str, str], InputFile]()
        for source in earlier.inputs if earlier else ():
            for file in source.files:
                if mark_of(file.path) == file.stamp:
                    unchanged[file.side, file.path] = file
        return unchanged

    def finished(self, plan: ShardInputs) -> Manifest | None:
        """Return the manifest if all shards of the plan are undamaged in the folder; or None."""
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
        """Prepare the folder for the shards of a plan. Return the shards that are finished already.

        The result maps the number of a shard to its record. Other files of earlier runs are
        removed, except the shards of the manifest.
        """
        earlier = self._plan()
        if earlier is None or earlier.signature != plan.signature:
            shutil.rmtree(self.progress, ignore_errors=True)
            make_folder(self.progress)
        store_record(self.progress / _PLAN, asdict(plan))
        finished = dict[int, WrittenShard]()
        names = set[str]()
        for number in range(plan.layout.n_shards):
            record = stored(_FinishedShard, self.progress / f"{number:05d}.json")
            if record is None or not all(is_whole(file, self.progress) for file in record.words):
                continue
            files = record.shard.files
            if all(is_whole(file, self.progress, self.folder) for file in files):
                finished[number] = record.shard
                names.update(file.name for file in files)
        _remove_all_but(names, self.progress)
        manifest = stored_manifest(self.folder)
        if manifest is not None:
            names.update(file.name for file in manifest.files)
        _remove_all_but(names, self.folder)
        return finished

    def record(self, number: int, shard: WrittenShard, words: Iterable[CountedPart]) -> None:
        """Write the word counts of a finished shard, and then its record.

        number: the number of the shard
        words: the word counts of each side
        """
        files = list[WrittenFile]()
        for side, part in zip(self.sides, words, strict=True):
            buffer = BytesIO()
            part.table.write_ipc(buffer, compression="zstd")
            files.append(_write_file(self._words_path(number, side), buffer))
        record = _FinishedShard(shard, tuple(files))
        store_record(self.progress / f"{number:05d}.json", asdict(record))

    def write_words(self, n_shards: int) -> tuple[WrittenFile, ...]:
        """Add up the word counts of all shards, and write a table for each side."""
        files = list[WrittenFile]()
        for side in self.sides:
            paths = (self._words_path(number, side) for number in range(n_shards))
            tables = (pl.read_ipc(BytesIO(path.read_bytes())) for path in paths)
            total = sum_parts(map(CountedPart, tables))
            buffer = BytesIO()
            total.table.write_csv(buffer, include_header=False, separator="\t", quote_style="never")
            files.append(_write_file(self.progress / f"words.{side}.tsv", buffer))
        return tuple(files)

    def _words_path(self, number: int, side: str) -> Path:
        return self.progress / f"{number:05d}.{side}.words"

    def finish(self, manifest: Manifest) -> Manifest:
        """Move the new files up into the folder, remove old shards, and write the manifest."""
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
    def lock(self, input_paths: Iterable[str]) -> Iterator[None]:
        """Lock the folder in a `with` statement.

        A folder that is missing is created, and removed again if it remains empty.

        Raises ConfigError if an input file is in the folder.
        Raises StreamError if another process has the lock, OutputError if the folder contains other
        files or cannot be created.
        """
        _refuse_inputs(self.folder, input_paths)
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
                    fault = f"{shown_path(self.folder)}: another process is writing shards there"
                    raise StreamError(f"{fault}; wait, or name another folder")
                stack.callback(lock.unlink, missing_ok=True)
                yield
        finally:
            for folder in new:
                with suppress(OSError):  # it is not empty
                    folder.rmdir()

    @contextmanager
    def explaining_errors(self) -> Iterator[None]:
        """Add to the errors of failed writes in a `with` statement how to continue.

        If there are earlier shards, the message also says that they are unchanged.
        """
        try:
            yield
        except OutputError as error:
            message = str(error).removesuffix(UNCHANGED)
            if message == str(error):
                raise
            if stored_manifest(self.folder) is not None:
                message += "; the earlier shards are unchanged"
            raise OutputError(
                f"{message}; make room, or name another folder; "
                "a second run continues after the finished shards"
            ) from None

    def _plan(self) -> ShardInputs | None:
        return stored(ShardInputs, self.progress / _PLAN)


def _write_file(path: Path, buffer: BytesIO) -> WrittenFile:
    data = buffer.getbuffer()
    with write_atomic(path) as file:
        file.write(data)
    return WrittenFile(path.name, len(data), blake2b(data, digest_size=16).hexdigest())


def _remove_all_but(names: set[str], folder: Path) -> None:
    """Remove temporary files, and all shards and word tables but the named ones."""
    for name in os.listdir(folder):
        if _TEMPORARY.fullmatch(name):
            sweep(folder / name)
        elif _SHARD.fullmatch(name) and name not in names:
            (folder / name).unlink()


def _refuse_inputs(folder: Path, input_paths: Iterable[str]) -> None:
    """Raise ConfigError if an input, or the file that a link stands for, is in the folder."""
    prefix = os.path.join(os.path.realpath(folder), "")
    for path in input_paths:
        parent, name = os.path.split(path)
        locations = os.path.join(os.path.realpath(parent), name), os.path.realpath(path)
        if not url_of(path) and any(location.startswith(prefix) for location in locations):
            fault = f"is an input, but lies in the output folder {shown_path(folder)}"
            raise ConfigError(f"{shown_path(path)}: {fault}; name another folder")


def _refuse_others(folder: Path) -> None:
    """Raise OutputError if the folder has files that no earlier run has written."""
    names = os.listdir(folder)
    has_manifest = MANIFEST in names or PROGRESS in names
    for name in sorted(names):
        is_unlisted = _SHARD.fullmatch(name) and not has_manifest
        if is_unlisted or not _is_ours(folder / name):
            fault = f"contains {quoted(name)}, which is not one of its shards"
            if is_unlisted:
                fault += f", or its {MANIFEST} is missing"
            remedy = "name another folder, or move it away"
            raise OutputError(f"{shown_path(folder)}: {fault}; {remedy}")


def _is_ours(path: Path) -> bool:
    """Check whether an earlier run may have written a file or folder. Runs do not write links."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:  # another process has just removed it
        return True
    if path.name == PROGRESS:
        return stat.S_ISDIR(mode)
    return stat.S_ISREG(mode) and _OUR_NAMES.fullmatch(path.name) is not None
