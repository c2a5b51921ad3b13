"""`Translation`: a task's transforms at translation time.

    text  ──input──→  the system's input  → (translation system) →  its output  ──output──→  text

    input     the task's transforms on field 1, made deterministic: no noise, no filters, the best
              segmentation
    output    the inverses of the transforms on the target side, in reverse order

Each line gives exactly one line. An error names the line and the step that refuses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volt import arguments
from volt.errors import ConfigError, StreamError, VoltError
from volt.files.blocks import Block
from volt.formats.registry import files_read
from volt.stream.config.configuration import files_at, load_config
from volt.stream.reading.shard import shifting_lines
from volt.stream.reading.text_shard import lines_of
from volt.stream.running.chunk_computation import unwritable_lines
from volt.stream.transforms.column import Column
from volt.stream.transforms.field_edits import Copy, KeepFields
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.transform import (
    LineFault,
    Transform,
    changed_fields,
    decodes,
    invert,
    joins_lines,
    open_transform,
)

SOURCE = 1  # the field of the source side
TARGET = 2
_SURROGATE = re.compile("[\ud800-\udfff]")
DescribePlace = Callable[[int], str]  # index of a line → its place, for errors


class Translation:
    """The steps that a task applies before and after a translation system. Each input line gives
    one output line.

    config: the path of a configuration; the files of its transforms must exist
    task: the name of a task, of any split
    values: placeholder → its value, if the configuration is a template
    user_code: run the Python files that the configuration names

    Raises ConfigError if the task is missing, or if one of its steps cannot process lines one by
    one.

    >>> import tempfile
    >>> text = "tasks: {de_en: {type: para, inputs: {i: {src: a.de, tgt: a.en}}, transforms: [lower, tag: <2en>]}}"
    >>> with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
    ...     _ = file.write(text) and file.flush()
    ...     translation = Translation(file.name, "de_en")
    >>> translation.input(["Ein Haus", ""]), translation.output(["a house"])
    (['<2en> ein haus', '<2en> '], ['a house'])
    """

    def __init__(
        self,
        config: str | os.PathLike[str],
        task: str,
        *,
        values: Mapping[str, object] | None = None,
        user_code: bool = True,
    ) -> None:
        arguments.instance(user_code, bool, "user_code", remedy="give True or False")
        path = Path(arguments.path(config, "config"))
        name = arguments.text(task, "task")
        data = load_config(
            path,
            values=values,
            user_code=user_code,
            split="valid",
            tasks=[name],
            use_shards=False,
            check_files=False,
        )
        self._named = data.named
        [self.task] = [task for task in data.tasks if task.name == name]
        [source] = data.sources
        rng_key = (data.seed, name, 0)
        is_pair = self.task.kind == "para"
        _check_steps(source.transforms)
        steps = tuple(open_transform(step, data.files) for step in source.transforms)
        self._input_steps = _Steps(steps, rng_key, SOURCE, is_pair)
        side = SOURCE
        if is_pair or self._input_steps.make_target():
            side = TARGET
        inverses = list[Transform]()
        for step in invert(self.task.transforms):
            decodes_only_target = decodes(step) and SOURCE not in changed_fields(step)
            if side == TARGET or not decodes_only_target:
                inverses.append(open_transform(step, data.files))
        self._output_steps = _Steps(tuple(inverses), rng_key, side, side == TARGET)

    def __repr__(self) -> str:
        task = arguments.shortened(repr(self.task.name))
        return f"<Translation: task {task}, before {self._input_steps}, after {self._output_steps}>"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the configuration names, including corpora, which are not read."""
        return tuple(
            path
            for named in self._named
            for path in (*files_at([named]), *map(str, files_read(named)))
        )

    def input(self, lines: Sequence[str]) -> list[str]:
        """Convert text to the system's input.

        lines: text without line ends

        Raises StreamError, with the line's number and the step's name, if a step refuses a line.
        """
        return self._input_steps.convert_lines(lines)

    def output(self, lines: Sequence[str]) -> list[str]:
        """Convert the system's output to plain text. Raises StreamError as `input` does.

        lines: pieces or ids, without line ends
        """
        return self._output_steps.convert_lines(lines)

    def input_blocks(self, blocks: Iterable[Block]) -> Iterator[bytes]:
        """Convert files as `input` converts lines, and yield the result block by block.

        Raises StreamError at the first refused line, after yielding the lines before it.

        blocks: the result of `volt.files.blocks.read_blocks`
        """
        return self._input_steps.convert_blocks(blocks)

    def output_blocks(self, blocks: Iterable[Block]) -> Iterator[bytes]:
        """Convert files as `output` converts lines, and yield the result block by block.

        blocks: the result of `volt.files.blocks.read_blocks`
        """
        return self._output_steps.convert_blocks(blocks)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Transforms that turn each line into one line.

    rng_key: the seed, source name and epoch from which random numbers are derived.
    side: the number of the field that contains the text.
    has_both: lines have two sides; the other side is empty.
    """

    transforms: tuple[Transform, ...]
    rng_key: tuple[int, str, int]
    side: int
    has_both: bool

    def __str__(self) -> str:
        return " → ".join(transform.name for transform in self.transforms) or "nothing"

    def convert_lines(self, lines: Sequence[str]) -> list[str]:
        texts = arguments.texts(lines, "lines", one="give a list of lines")
        _check_lines(texts)
        column = Column.of(texts)
        output = b"".join(self._convert(column, lambda index: f"line {index + 1}", first=0))
        return output.decode().split("\n")[:-1]

    def convert_blocks(self, blocks: Iterable[Block]) -> Iterator[bytes]:
        for block in blocks:
            if block.data:
                column = lines_of(block.data, is_first=False)
                yield from self._convert(column, block.place, first=block.first_line - 1)

    def make_target(self) -> bool:
        """Return whether the transforms fill the target side of a line that has none."""
        try:
            result = self._apply(Batch((Column.of([""]),), None, np.zeros(1, np.int64)))
        except Exception:  # translating the first line raises it again
            return False
        return bool(result.column(TARGET).present.all())

    def _convert(self, column: Column, describe: DescribePlace, *, first: int) -> Iterator[bytes]:
        """Yield the converted lines; if one is refused, yield the lines before it, and raise
        StreamError.

        first: the number of the first line, from which its random numbers are derived
        """
        tab = min(shifting_lines([column]), default=None)
        if tab is not None:
            yield from self._convert(column.take(np.arange(tab)), describe, first=first)
            problem = "contains a tab, which separates fields; write a space instead"
            raise StreamError(f"{describe(tab)}: {problem}")
        columns = [column]
        if self.has_both:
            columns.insert(TARGET - self.side, Column.repeated("", len(column)))
        batch = Batch(tuple(columns), None, np.arange(first, first + len(column)))
        try:
            yield self._output_text(batch)
            return
        except Exception:  # any step may be user code
            pass
        for index in range(len(batch)):  # find the line that is refused
            try:
                line = self._output_text(batch.take([index]))
            except _Refused as refused:
                raise StreamError(f"{describe(index)}: {refused}") from refused.__cause__
            yield line

    def _output_text(self, batch: Batch) -> bytes:
        output = self._apply(batch).column(self.side)
        unwritable = unwritable_lines(Batch((output,), None, batch.origins))
        if unwritable:
            raise _Refused(unwritable[min(unwritable)])
        return output.text().tobytes()

    def _apply(self, batch: Batch) -> Batch:
        for index, transform in enumerate(self.transforms):
            try:
                result = transform(batch, LineRng.of(*self.rng_key, index))
                _check_origins(batch, result)
            except Exception as error:
                raise _Refused(f"step {transform.name!r}: {_describe_error(error)}") from error
            batch = result
        return batch


class _Refused(Exception):
    pass


def _describe_error(error: Exception) -> str:
    if isinstance(error, LineFault):
        return str(error.reasons[min(error.reasons)])
    if isinstance(error, VoltError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _check_origins(before: Batch, after: object) -> None:
    if not isinstance(after, Batch):
        raise StreamError(f"returns a {type(after).__name__}, not a Batch")
    if not np.array_equal(after.origins, before.origins):
        problem = "returns more lines, or other lines"
        if len(after) < len(before):
            problem = "drops the line"
        raise StreamError(
            f"{problem}; each input line needs one output line; fix the step, or name another task"
        )


def _check_lines(lines: list[str]) -> None:
    for index, line in enumerate(lines):
        if "\n" in line:
            raise StreamError(f"line {index + 1}: contains a line end; pass each line separately")
        if not line.isascii() and _SURROGATE.search(line):
            raise StreamError(
                f"line {index + 1}: contains a lone surrogate, which is not text; fix it"
            )


def _check_steps(steps: Iterable[Transform]) -> None:
    for step in steps:
        if joins_lines(step):
            raise ConfigError(
                f"step {step.name!r} joins lines, but lines are translated one by one; name another task"
            )
        is_swap = isinstance(step, KeepFields) and step.fields[0] != SOURCE
        if is_swap or (isinstance(step, Copy) and step.to == SOURCE != step.from_):
            raise ConfigError(
                f"step {step.name!r} fills field 1 from another field; swap src and tgt of the inputs"
            )
