r"""Tasks, which apply the same transforms to several inputs, and the reading of their lines.

Only "\n" ends a line. A byte order mark at the start of a file is dropped; other bytes are
preserved. A last line without a line end gets one.
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


@dataclass(frozen=True, slots=True)
class Input:
    """One corpus of a task: its name, and (side, path) pairs; sides are `src` and `tgt`, or `mono`."""

    name: str
    files: tuple[tuple[str, str], ...]

    @property
    def paths(self) -> Names:
        """The paths, one side after the other."""
        return tuple(path for _, path in self.files)


@dataclass(frozen=True, slots=True)
class Task:
    """Inputs with the same transforms.

    name: also the name of its source in the stream.
    kind: "para" for lines with a source and a target side, "mono" for lines with one side.
    split: "train" to mix by weight, "valid" to read separately, without noise.
    n_shards: the number of shards to write; None to derive it from the number of lines.
    shares: the name of another task, whose inputs and shards this task reads.
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
        """The sides of the task's files: src and tgt, or mono."""
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


_BLOCK = 1 << 20  # bytes to read at a time from a file
_ALL_BLOCKS = 64 << 20  # bytes to read at a time from all open files


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of an input, as it was when it was read.

    size, modified: bytes on disk, and modification time
    digest, n_lines, n_bytes: digest, lines and bytes of the decompressed text
    first_bad: the number of the first line that is not UTF-8; 0 if all lines are UTF-8
    first_tab: the number of the first line that contains a tab; 0 if there are no tabs
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
        return self.size, self.modified


@dataclass(frozen=True, slots=True)
class ReadInput:
    """An input whose files have been read: the files of each side; files at the same index are
    line-aligned."""

    name: str
    sides: tuple[tuple[InputFile, ...], ...]

    @property
    def n_lines(self) -> int:
        return sum(file.n_lines for file in self.sides[0])

    @property
    def files(self) -> tuple[InputFile, ...]:
        return tuple(chain.from_iterable(self.sides))


def expanded(task: Task, inputs: Input) -> Input:
    """Replace globs and folders by their files, and sort files by side.

    Raises ConfigError if the sides' numbers of files differ, CorpusError if there are none.
    """
    where = f"task {task.name!r}, input {inputs.name!r}"
    sides = {side for side, _ in inputs.files}
    if sides != {*task.sides}:
        has = " and ".join(sorted(sides)) or "no file"
        needed = f"a task of type {task.kind} needs {' and '.join(task.sides)}"
        raise ConfigError(f"{where}: has {has}; {needed}")
    files = list[tuple[str, str]]()
    counts = dict[str, int]()
    for wanted in task.sides:
        paths = [path for side, path in inputs.files if side == wanted]
        counts[wanted] = len(paths)
        for path in paths:
            is_one = not (os.path.isdir(path) or stands_for_several(path) or url_of(path))
            files += ((wanted, member) for member in ([path] if is_one else expand(path)))
    if len({*counts.values()}) > 1:
        has = " and ".join(f"{counted(n, 'file')} of {side}" for side, n in counts.items())
        raise ConfigError(f"{where}: {has}; give the same number, in the same order")
    return Input(inputs.name, tuple(files))


def look_at(
    path: str,
    *,
    side: str = "mono",
    max_line: int | None = MAX_LINE,
    progress: Callable[[int], object] | None = None,
) -> InputFile:
    """Read a file to its end; `progress` is called with the number of lines of each block.

    Raises StreamError or CorpusError if it is missing, not text, damaged or changing.
    """
    check_is_file(path)
    if are_ids(path):
        fault = "contains indexed ids, but shards contain text"
        raise StreamError(f"{shown_path(path)}: {fault}; remove `shards`")
    stamp = stamp_of(path)
    scan = TextScan()
    for _, n_lines in scan.read(read_raw(path, block_size=_BLOCK, max_line=max_line)):
        if progress:
            progress(n_lines)
    check_unchanged(path, stamp)
    digest = scan.hash.hexdigest()
    return InputFile(
        side, path, *stamp, digest, scan.n_lines, scan.n_bytes, scan.first_bad, scan.first_tab
    )


def check_unchanged(path: str, stamp: Stamp) -> None:
    """Raise StreamError if a file has changed since it was first read."""
    if stamp_of(path) != stamp:
        raise _changed(path)


def check_input(task: Task, read: ReadInput) -> None:
    """Raise StreamError if an input has no line, or if its sides have different numbers of lines."""
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
    """Reads lines of files that `look_at` has checked.

    n_open: the number of readers that share the memory for blocks
    ahead: whether a thread reads blocks in advance
    """

    def __init__(self, paths: Sequence[str], *, n_open: int = 1, ahead: bool = False) -> None:
        size = max(1 << 16, min(_BLOCK, _ALL_BLOCKS // n_open))
        blocks = chain.from_iterable(_blocks(path, size) for path in paths)
        self._path = paths[0]
        self._lines = LineCutter(prefetch(blocks) if ahead else blocks)

    def take(self, n: int) -> bytes:
        """Return the next n lines, each with a line feed. Raises StreamError if there are fewer."""
        return b"".join(self._cut(n))

    def skip(self, n: int) -> None:
        for _ in self._cut(n):
            pass

    def _cut(self, n: int) -> Iterator[bytes]:
        n_missing = yield from self._lines.cut(n)
        if n_missing:
            raise _changed(self._path)


def _blocks(path: str, size: int) -> Iterator[bytes]:
    """Yield the blocks of a file, without a byte order mark; each ends with a line feed."""
    mark = BYTE_ORDER_MARK
    for block in read_raw(path, block_size=size, max_line=None):
        text = block.removeprefix(mark)
        mark = b""
        if text:
            yield text if text.endswith(b"\n") else text + b"\n"


def _changed(path: str) -> StreamError:
    return StreamError(
        f"{shown_path(path)}: changed while it was read; wait until it is complete, and start again"
    )
