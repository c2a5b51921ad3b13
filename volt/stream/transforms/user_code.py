r"""Use a function of a Python file that the configuration names as a transform.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     file = Path(folder, "mine.py")
...     _ = file.write_text("def swap(fields):\n    return fields[::-1]\n")
...     User(file=file, function="swap")(Batch.of(["a\tb"]), LineRng(1, 2)).lines
['b\ta']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, ClassVar, Literal

import numpy as np

from volt import arguments
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.options import File
from volt.stream.transforms.transform import Changes, FileTransform, LineFault, Loaded, LoadedFiles
from volt.stream.transforms.user_file import (
    RNG,
    Function,
    UserFile,
    describe_error,
    reraise_signal,
    stdout_to_stderr,
    wants_rng,
)

Takes = Literal["fields", "stream"]


@dataclass(frozen=True, slots=True)
class User(FileTransform):
    """Call a function of a Python file for every line, or for a stream of lines.

    A function with a parameter `rng` gets a numpy Generator for each line (or block, if it takes a
    stream). It must draw all its random numbers from the generator, and must not store it. A line
    for which the function raises an error is unfit. In commands, prints go to stderr. Validation
    and translation skip a function with `rng`.
    """

    changes: ClassVar[Changes] = "anything"
    file: File
    """The Python file."""
    function: str
    """The function's name in the file."""
    takes: Takes = "fields"
    """The function's argument. fields: the list of a line's fields (item 0 is field 1); the
    function returns a list of fields, a list of such lists for several lines, or None to drop the
    line. stream: an iterator over the lists of fields of a whole block; the function yields lists
    of fields."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the function."""

    def check(self) -> None:
        arguments.text(self.function, "function", remedy="give the name of a function in the file")

    @property
    def joins_lines(self) -> bool:
        return self.takes == "stream"

    def load(self, files: LoadedFiles) -> Loaded:
        code = files.load(self.file, UserFile.run)
        function = partial(code.function(self.function, self.options), **self.options)
        call = self._call_with_stream if self.takes == "stream" else self._call_for_lines
        return partial(call, function), {"file": code.fingerprint}

    def deterministic(self) -> User | None:
        function = UserFile.run(self.file).function(self.function, self.options)
        return None if wants_rng(function) else self

    def _call_for_lines(self, function: Function, batch: Batch, rng: LineRng) -> Batch:
        generators = rng.generators(batch.origins)

        def call_with_rng(fields: list[str]) -> object:
            return function(fields, rng=next(generators))

        call = call_with_rng if wants_rng(function) else function
        rows = list[str]()
        n_fields = list[int]()  # of rows
        indices = list[int]()  # of the lines that rows come from
        reasons = dict[int, str]()
        with stdout_to_stderr:
            for index, fields in enumerate(map(str.split, batch.lines, repeat("\t"))):
                try:
                    result = call(fields)
                    if type(result) is list and result and type(result[0]) is str:
                        rows.append("\t".join(result))
                        n_fields.append(len(result))
                        indices.append(index)
                    elif result is not None:
                        new_rows = _make_rows(result)
                        rows += new_rows
                        n_fields += [row.count("\t") + 1 for row in new_rows]
                        indices += [index] * len(new_rows)
                except (Exception, SystemExit) as error:
                    reasons[index] = self._describe(error, function, is_first=not reasons)

        # Check all rows at once, and only if that fails, each of them
        text = "\n".join([*rows, ""])
        n_tabs = sum(n_fields) - len(n_fields)
        if text.count("\t") == n_tabs and text.count("\n") == len(rows):
            with suppress(UnicodeEncodeError):
                return _make_batch(batch, Column.cut(text.encode()), indices, reasons)
        for row in reversed(range(len(rows))):
            try:
                check_row(rows[row], n_fields[row])
            except ValueError as error:
                reasons[indices[row]] = self._describe(error, function, is_first=False)
                del rows[row], indices[row]
        return _make_batch(batch, Column.of(rows), indices, reasons)

    def _call_with_stream(self, function: Function, batch: Batch, rng: LineRng) -> Batch:
        """Run the function over the block; after an error, restart it after the last line that it
        read."""
        options = dict[str, Any]()
        if wants_rng(function) and len(batch):
            options[RNG] = next(rng.generators(batch.origins[:1]))
        lines = batch.rows
        n_read = 0

        def read_lines() -> Iterator[list[str]]:
            nonlocal n_read
            while n_read < len(lines):
                n_read += 1
                yield lines[n_read - 1]

        rows = list[str]()
        indices = list[int]()  # of the last line that was read before each row
        reasons = dict[int, str]()
        with stdout_to_stderr:
            while n_read < len(lines):
                n_read_before = n_read
                try:
                    for output in function(read_lines(), **options):
                        rows.append(make_row(output))
                        indices.append(max(n_read - 1, 0))
                    break
                except (Exception, SystemExit) as error:
                    if n_read == n_read_before:  # skip a line, so that the loop ends
                        n_read += 1
                    unfit = n_read - 1
                    reasons[unfit] = self._describe(error, function, is_first=not reasons)
                    while indices and indices[-1] >= unfit:
                        del rows[-1], indices[-1]
        return _make_batch(batch, Column.of(rows), indices, reasons)

    def _describe(self, error: BaseException, function: Function, *, is_first: bool) -> str:
        reraise_signal(error)
        return describe_error(error, function, self.file, name=self.function, is_first=is_first)


def _make_rows(result: object) -> list[str]:
    """Return the lines in a function's result, which is a list of fields, or of such lists."""
    if isinstance(result, list) and (not result or isinstance(result[0], list)):
        return list(map(make_row, result))
    return [make_row(result)]


def make_row(result: object) -> str:
    """Return a line of fields. Raises TypeError or ValueError if the result is not fields."""
    if not isinstance(result, list | tuple) or not result:
        raise TypeError(f"returned {result!r}, not a list of strings")
    row = "\t".join(result)
    check_row(row, len(result))
    return row


def check_row(row: str, n_fields: int) -> None:
    if row.count("\t") != n_fields - 1 or "\n" in row:
        raise ValueError(f"returned a field with a tab or a line break inside: {row!r}")
    row.encode()  # a lone surrogate could not be written


def _make_batch(
    batch: Batch, lines: Column, indices: list[int], reasons: Mapping[int, str]
) -> Batch:
    """Return new lines. Raises LineFault if some lines of the batch are unfit.

    indices: the line of the batch that each new line comes from
    reasons: index of an unfit line → problem
    """
    output = Batch((), lines, batch.origins[np.array(indices, np.int64)])
    if reasons:
        raise LineFault(reasons, result=output)
    return output
