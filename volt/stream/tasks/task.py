r"""Tasks of a stream, the files of their inputs, and a reader of the files' lines.

    Task de_en ── Input news ── ("src", "news.de.gz"), ("tgt", "news.en")      as configured
             └── Input talks ── ("src", "talks/*.de"), ("tgt", "talks/*.en")
    ReadInput news ── InputFile news.de.gz: lines, bytes, digest, size, time    after reading them

A task applies the same transforms to all of its inputs. An input has one or more files for each
side; files at the same index are line-aligned. A `LineReader` reads the files of one side, one
after the other. Only "\n" ends a line. A byte order mark at the start of a file is dropped, and a
last line without a line end gets one; all other bytes are preserved.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from volt.arguments import MAX_LINE
from volt.display import counted
from volt.errors import ConfigError, StreamError, shown_path
from volt.files.blocks import read_raw
from volt.files.paths import expand, stands_for_several
from volt.files.text_checks import BYTE_ORDER_MARK
from volt.files.threads import prefetch
from volt.stream.mixing.schedule import Schedule
from volt.stream.reading.id_shard import are_ids
from volt.stream.reading.segments import Stamp, stamp_of
from volt.stream.reading.shard import check_is_file
from volt.stream.reading.text_shard import LineCutter, TextScan
from volt.stream.transforms.transform import Transform
from volt.urls import url_of

Names = tuple[str, ...]
Kind = Literal["para", "mono"]
Split = Literal["train", "valid"]
SIDES: dict[str, Names] = {"para": ("src", "tgt"), "mono": ("mono",)}

_BLOCK_SIZE = 1 << 20  # bytes to read at a time from a file
_ALL_BLOCKS = 64 << 20  # bytes to read at a time from all open files together


@dataclass(frozen=True, slots=True)
class Input:
    """One corpus of a task.

    files: (side, path) pairs; the sides are "src" and "tgt", or "mono". A path may be a glob or a
        folder
    """

    name: str
    files: tuple[tuple[str, str], ...]

    @property
    def paths(self) -> Names:
        """The paths of all files, in their order."""
        return tuple(path for _, path in self.files)


@dataclass(frozen=True, slots=True)
class Task:
    """Inputs with the same transforms.

    name: the name of the task, and of its source in the stream
    kind: "para" for lines with a source and a target side, "mono" for lines with one side
    split: "train" to mix by weight, "valid" to read separately, without noise
    weight, transforms: as in the configuration of a source
    src_lang, tgt_lang, extra_prefix: texts for transforms that mark the language
    n_shards: the number of shards to write; None to derive it from the number of lines
    shares: the name of another task, whose inputs and shards this task reads
    """

    name: str
    kind: Kind
    inputs: tuple[Input, ...]
    split: Split = "train"
    weight: float | Schedule = 1.0
    transforms: tuple[Transform, ...] = ()
    src_lang: str | None = None
    tgt_lang: str | None = None
    extra_prefix: str | None = None
    n_shards: int | None = None
    shares: str | None = None

    @property
    def sides(self) -> Names:
        """The sides of the task's files: "src" and "tgt", or "mono"."""
        return SIDES[self.kind]

    @property
    def names(self) -> Names:
        """The `names` of a `Source` that reads the task: its sides, or () if there is only one."""
        return names_of(self.sides)

    @property
    def paths(self) -> list[str]:
        """The paths of all inputs."""
        return list(chain.from_iterable(inputs.paths for inputs in self.inputs))


def names_of(sides: Names) -> Names:
    return sides if len(sides) > 1 else ()


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of an input, as it was when it was read.

    size, modified: its bytes on disk and modification time
    digest, n_lines, n_bytes: the digest, lines and bytes of its decompressed text
    first_bad: the number, from 1, of the first line that is not UTF-8; 0 if all lines are UTF-8
    first_tab: the number, from 1, of the first line with a tab; 0 if no line has one
    """

    side: str
    path: str
    size: int
    modified: int
    digest: str
    n_lines: int
    n_bytes: int
    first_bad: int = 0
    first_tab: int = 0

    @property
    def stamp(self) -> Stamp:
        """The size and modification time, by which a change is detected."""
        return self.size, self.modified


@dataclass(frozen=True, slots=True)
class ReadInput:
    """An input whose files have been read.

    sides: the files of each side; files at the same index are line-aligned
    """

    name: str
    sides: tuple[tuple[InputFile, ...], ...]

    @property
    def n_lines(self) -> int:
        """The number of lines of one side."""
        return sum(file.n_lines for file in self.sides[0])

    @property
    def files(self) -> tuple[InputFile, ...]:
        return tuple(chain.from_iterable(self.sides))


def expand_input(task: Task, source: Input) -> Input:
    """Return an input with its globs and folders replaced by files, which are sorted by side.

    Raises ConfigError if its sides are not those of the task, or have different numbers of files.
    Raises CorpusError if a glob or folder has no file.
    """
    where = f"task {task.name!r}, input {source.name!r}"
    sides = {side for side, _ in source.files}
    if sides != {*task.sides}:
        has = " and ".join(sorted(sides)) or "no file"
        needed = f"a task of type {task.kind} needs {' and '.join(task.sides)}"
        raise ConfigError(f"{where}: has {has}; {needed}")
    files = list[tuple[str, str]]()
    n_paths = dict[str, int]()
    for side in task.sides:
        paths = [path for path_side, path in source.files if path_side == side]
        n_paths[side] = len(paths)
        for path in paths:
            is_file = not (os.path.isdir(path) or stands_for_several(path) or url_of(path))
            files += ((side, member) for member in ([path] if is_file else expand(path)))
    if len({*n_paths.values()}) > 1:
        has = " and ".join(f"{counted(n, 'file')} of {side}" for side, n in n_paths.items())
        raise ConfigError(f"{where}: {has}; give the same number, in the same order")
    return Input(source.name, tuple(files))


def read_input_file(
    path: str,
    *,
    side: str = "mono",
    max_line: int | None = MAX_LINE,
    progress: Callable[[int], object] | None = None,
) -> InputFile:
    """Read a file to its end. Return its numbers of lines and bytes, digest and first bad lines.

    side: the side of the result
    max_line: the maximum number of bytes of a line; None for no limit
    progress: called with the number of lines of each block
    Raises StreamError or CorpusError if the file is missing, not text, damaged or changing.
    """
    check_is_file(path)
    if are_ids(path):
        fault = "contains indexed ids, but shards contain text"
        raise StreamError(f"{shown_path(path)}: {fault}; remove `shards`")
    stamp = stamp_of(path)
    scan = TextScan()
    for _, n_lines in scan.read(read_raw(path, block_size=_BLOCK_SIZE, max_line=max_line)):
        if progress:
            progress(n_lines)
    check_unchanged(path, stamp)
    digest = scan.hash.hexdigest()
    return InputFile(
        side, path, *stamp, digest, scan.n_lines, scan.n_bytes, scan.first_bad, scan.first_tab
    )


def check_unchanged(path: str, stamp: Stamp) -> None:
    """Raise StreamError if a file no longer has this size and modification time."""
    if stamp_of(path) != stamp:
        raise _changed(path)


def check_input(task: Task, read: ReadInput) -> None:
    """Raise StreamError if an input has no line, or aligned files differ in their lines."""
    where = f"task {task.name!r}, input {read.name!r}"
    for files in zip(*read.sides, strict=True):
        if len({file.n_lines for file in files}) > 1:
            has = ", ".join(
                f"{shown_path(file.path)} has {counted(file.n_lines, 'line')}" for file in files
            )
            remedy = "source and target need the same number; align them"
            raise StreamError(f"{where}: {has}; {remedy}")
    if not read.n_lines:
        names = ", ".join(shown_path(file.path) for file in read.files)
        raise StreamError(f"{where}: no line in {names}; remove the input, or name other files")


class LineReader:
    """A reader of the lines of one or more files, one file after the other.

    paths: files that `read_input_file` has checked
    n_open: the number of readers that are open at the same time, and share the memory for blocks
    ahead: whether a thread reads blocks in advance
    """

    def __init__(self, paths: Sequence[str], *, n_open: int = 1, ahead: bool = False) -> None:
        block_size = max(1 << 16, min(_BLOCK_SIZE, _ALL_BLOCKS // n_open))
        blocks = chain.from_iterable(_read_blocks(path, block_size) for path in paths)
        self._path = paths[0]
        self._lines = LineCutter(prefetch(blocks) if ahead else blocks)

    def take(self, n: int) -> bytes:
        r"""Return the next n lines; each ends with "\n". Raises StreamError if there are fewer."""
        return b"".join(self._cut(n))

    def skip(self, n: int) -> None:
        """Read n lines without returning them. Raises StreamError if there are fewer."""
        for _ in self._cut(n):
            pass

    def _cut(self, n: int) -> Iterator[bytes]:
        n_missing = yield from self._lines.cut(n)
        if n_missing:
            raise _changed(self._path)


def _read_blocks(path: str, block_size: int) -> Iterator[bytes]:
    r"""Yield the text of a file in blocks, without a byte order mark; each block ends with "\n"."""
    prefix = BYTE_ORDER_MARK
    for block in read_raw(path, block_size=block_size, max_line=None):
        text = block.removeprefix(prefix)
        prefix = b""
        if text:
            yield text if text.endswith(b"\n") else text + b"\n"


def _changed(path: str) -> StreamError:
    return StreamError(
        f"{shown_path(path)}: changed while it was read; wait until it is complete, and start again"
    )
