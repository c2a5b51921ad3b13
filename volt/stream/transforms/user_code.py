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
    fault_of,
    pass_signal_on,
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
        call = self._streamed if self.takes == "stream" else self._called
        return partial(call, function), {"file": code.fingerprint}

    def deterministic(self) -> User | None:
        function = UserFile.run(self.file).function(self.function, self.options)
        return None if wants_rng(function) else self

    def _called(self, function: Function, batch: Batch, rng: LineRng) -> Batch:
        generators = rng.generators(batch.origins)

        def with_rng(fields: list[str]) -> object:
            return function(fields, rng=next(generators))

        call = with_rng if wants_rng(function) else function
        rows = list[str]()
        widths = list[int]()  # of rows, in fields
        origins = list[int]()
        bad = dict[int, str]()
        with stdout_to_stderr:
            for place, fields in enumerate(map(str.split, batch.lines, repeat("\t"))):
                try:
                    result = call(fields)
                    if type(result) is list and result and type(result[0]) is str:
                        rows.append("\t".join(result))
                        widths.append(len(result))
                        origins.append(place)
                    elif result is not None:
                        new_rows = _rows_of(result)
                        rows += new_rows
                        widths += [row.count("\t") + 1 for row in new_rows]
                        origins += [place] * len(new_rows)
                except (Exception, SystemExit) as error:
                    bad[place] = self._fault(error, function, is_first=not bad)

        # Check all rows at once, and only if that fails, each of them
        text = "\n".join([*rows, ""])
        n_tabs = sum(widths) - len(widths)
        if text.count("\t") == n_tabs and text.count("\n") == len(rows):
            with suppress(UnicodeEncodeError):
                return _batch_of(batch, Column.cut(text.encode()), origins, bad)
        for number in reversed(range(len(rows))):
            try:
                check_row(rows[number], widths[number])
            except ValueError as error:
                bad[origins[number]] = self._fault(error, function, is_first=False)
                del rows[number], origins[number]
        return _batch_of(batch, Column.of(rows), origins, bad)

    def _streamed(self, function: Function, batch: Batch, rng: LineRng) -> Batch:
        """Run the function over the block; after an error, restart it after the last line that it
        read."""
        options = dict[str, Any]()
        if wants_rng(function) and len(batch):
            options[RNG] = next(rng.generators(batch.origins[:1]))
        lines = batch.rows
        n_read = 0

        def unread() -> Iterator[list[str]]:
            nonlocal n_read
            while n_read < len(lines):
                n_read += 1
                yield lines[n_read - 1]

        rows = list[str]()
        origins = list[int]()
        bad = dict[int, str]()
        with stdout_to_stderr:
            while n_read < len(lines):
                n_before = n_read
                try:
                    for output in function(unread(), **options):
                        rows.append(row_of(output))
                        origins.append(max(n_read - 1, 0))
                    break
                except (Exception, SystemExit) as error:
                    n_read = max(
                        n_read, n_before + 1
                    )  # if it raised the error before it read a line
                    bad[n_read - 1] = self._fault(error, function, is_first=not bad)
                    while origins and origins[-1] >= n_read - 1:
                        del rows[-1], origins[-1]
        return _batch_of(batch, Column.of(rows), origins, bad)

    def _fault(self, error: BaseException, function: Function, *, is_first: bool) -> str:
        pass_signal_on(error)
        return fault_of(error, function, self.file, name=self.function, is_first=is_first)


def _rows_of(result: object) -> list[str]:
    if isinstance(result, list) and (not result or isinstance(result[0], list)):
        return list(map(row_of, result))
    return [row_of(result)]


def row_of(result: object) -> str:
    if not isinstance(result, list | tuple) or not result:
        raise TypeError(f"returned {result!r}, not a list of strings")
    row = "\t".join(result)
    check_row(row, len(result))
    return row


def check_row(row: str, n_fields: int) -> None:
    if row.count("\t") != n_fields - 1 or "\n" in row:
        raise ValueError(f"returned a field with a tab or a line break inside: {row!r}")
    row.encode()  # a lone surrogate could not be written


def _batch_of(batch: Batch, lines: Column, origins: list[int], bad: Mapping[int, str]) -> Batch:
    output = Batch((), lines, batch.origins[np.array(origins, np.int64)])
    if bad:
        raise LineFault(bad, result=output)
    return output
