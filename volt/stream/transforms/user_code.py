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

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import check_values
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import File
from volt.stream.transforms.transform import FileTransform, LineFault, LoadedFiles, Opened
from volt.stream.transforms.user_file import (
    Function,
    UserFile,
    fault_of,
    pass_signal_on,
    printing_to_stderr,
)

if TYPE_CHECKING:
    import pyarrow


Takes = Literal["fields", "line", "stream", "batch"]
_ROW = "row"  # the column of a record batch with the line that each row comes from


@dataclass(frozen=True, slots=True)
class User(FileTransform):
    """Call a function of a Python file for every line.

    A function with a parameter `rng` gets a numpy Generator for each line (or block, if it takes a stream or batch). It
    must draw all its random numbers from the generator, and must not store it. A line for which the function raises
    an error is unfit. Prints go to stderr. Validation and translation skip a function with `rng`.
    """

    file: File
    """The Python file."""
    function: str
    """The function's name in the file."""
    takes: Takes = "fields"
    """The function's argument. fields: the list of a line's fields (item 0 is field 1); line: the line as a string;
    stream: an iterator over lists of fields for a whole block (the function then yields lists); batch: the block as a
    pyarrow RecordBatch, with a column for each field. The function returns the same type, None to drop the line, or a
    list of several results. The column `row` of a RecordBatch numbers its lines; return it if the rows are others."""
    append: bool = False
    """True if the function returns a string, which is appended as a new field."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the function."""

    def check(self) -> None:
        arguments.text(self.function, "function", remedy="give the name of a function in the file")
        if self.append and self.takes in ("stream", "batch"):
            raise ConfigError(
                f"append takes a function of fields or line, not of {self.takes}; remove append"
            )

    @property
    def joins_lines(self) -> bool:
        return self.takes == "stream"

    def opened(self, files: LoadedFiles) -> Opened:
        code = files.load(self.file, UserFile.run)
        function = code.function(self.function, self.options)
        options = {
            "function": self.function,
            "takes": self.takes,
            "append": self.append,
            "options": dict(self.options),
        }
        calls = {"stream": self._streamed, "batch": self._batched}
        call = partial(
            calls.get(self.takes, self._called),
            partial(function, **self.options),
            code.wants_rng(function),
        )
        return Opened(self, call, {"type": "User", "code": code.fingerprint, **options})

    def deterministic(self) -> User | None:
        code = UserFile.run(self.file)
        return None if code.wants_rng(code.function(self.function, self.options)) else self

    def _called(self, function: Function, wants_rng: bool, batch: Batch, rng: LineRng) -> Batch:
        lines, drawn = batch.lines, rng.generators(batch.origins)
        inputs: Iterable[Any] = (
            lines if self.takes == "line" else map(str.split, lines, repeat("\t"))
        )
        rows, origins, widths, bad = list[str](), list[int](), list[int](), dict[int, str]()
        join, (fields, whole) = (
            "\t".join,
            (self.takes == kind and not self.append for kind in ("fields", "line")),
        )

        def with_rng(one: object) -> object:
            return function(one, rng=next(drawn))

        call = with_rng if wants_rng else function
        with printing_to_stderr():
            for place, one in enumerate(inputs):
                try:
                    result = call(one)
                    if fields and type(result) is list and result and type(result[0]) is str:
                        try:
                            rows.append(join(result))
                        except TypeError:
                            rows.append(row_of(result))  # raises an error that names the value
                        widths.append(len(result))
                        origins.append(place)
                    elif whole and type(result) is str:
                        rows.append(result)
                        widths.append(result.count("\t") + 1)
                        origins.append(place)
                    else:
                        new_rows = self._lines_of(lines[place], result)
                        rows += new_rows
                        widths += [row.count("\t") + 1 for row in new_rows]
                        origins += [place] * len(new_rows)
                except (Exception, SystemExit) as error:
                    pass_signal_on(error)
                    bad[place] = self._fault(error, function, is_first=not bad)
        text = "\n".join([*rows, ""])
        if text.count("\t") == sum(widths) - len(widths) and text.count("\n") == len(rows):
            with suppress(UnicodeEncodeError):
                return _batch_of(batch, Column.cut(text.encode()), origins, bad)
        for number in reversed(range(len(rows))):
            try:
                if rows[number].count("\t") != widths[number] - 1:
                    raise ValueError(f"returned a field with a tab inside: {rows[number]!r}")
                checked_line(rows[number])
            except ValueError as error:
                bad[origins[number]] = self._fault(error, function)
                del rows[number], origins[number]
        return _batch_of(batch, Column.of(rows), origins, bad)

    def _lines_of(self, line: str, result: object) -> list[str]:
        if self.append:
            return [f"{line}\t{value_of(result)}"]
        if result is None:
            return []
        if self.takes == "line":
            return [checked_line(one) for one in (result if isinstance(result, list) else [result])]
        if isinstance(result, list) and (not result or isinstance(result[0], list)):
            return [row_of(one) for one in result]
        return [row_of(result)]

    def _streamed(self, function: Function, wants_rng: bool, batch: Batch, rng: LineRng) -> Batch:
        """Run the function over the block; after an error, restart after the last line that it read."""
        rows, origins, bad, lines, n_taken = (
            list[str](),
            list[int](),
            dict[int, str](),
            batch.rows,
            0,
        )
        options = (
            {"rng": next(rng.generators(batch.origins[:1]))} if wants_rng and len(batch) else {}
        )

        def rest() -> Iterator[list[str]]:
            nonlocal n_taken
            while n_taken < len(lines):
                n_taken += 1
                yield lines[n_taken - 1]

        with printing_to_stderr():
            while n_taken < len(lines):
                first = n_taken
                try:
                    for output in function(rest(), **options):
                        rows.append(row_of(output))
                        origins.append(max(n_taken - 1, 0))
                    break
                except (Exception, SystemExit) as error:
                    pass_signal_on(error)
                    n_taken = max(
                        n_taken, first + 1
                    )  # in case it raised an error before it took a line
                    bad[n_taken - 1] = self._fault(error, function, is_first=not bad)
                    while origins and origins[-1] >= n_taken - 1:
                        del rows[-1], origins[-1]
        return _batch_of(batch, Column.of(rows), origins, bad)

    def _batched(self, function: Function, wants_rng: bool, batch: Batch, rng: LineRng) -> Batch:
        options = (
            {"rng": next(rng.generators(batch.origins[:1]))} if wants_rng and len(batch) else {}
        )
        try:
            with printing_to_stderr():
                output = function(batch.to_arrow(), **options)
            return _batch_of_arrow(batch, output, self.function)
        except (Exception, SystemExit) as error:
            pass_signal_on(error)
            if len(batch) > 1 or isinstance(
                error, LineFault
            ):  # calls with fewer lines will find the unfit line
                raise
            raise LineFault({0: self._fault(error, function, is_first=True)}) from None

    def _fault(self, error: BaseException, function: Function, *, is_first: bool = False) -> str:
        return fault_of(error, function, self.file, name=self.function, is_first=is_first)


def row_of(result: object) -> str:
    if not isinstance(result, list | tuple) or not result:
        raise TypeError(f"returned {result!r}, not a list of strings")
    try:
        line = "\t".join(result)
        if (
            line.count("\t") == len(result) - 1
            and "\n" not in line
            and (line.isascii() or line.encode())
        ):
            return line
    except (TypeError, UnicodeEncodeError):
        pass
    return "\t".join([value_of(value) for value in result])  # raises an error for the faulty value


def value_of(result: object) -> str:
    if "\t" in checked_line(result):
        raise ValueError(f"returned a field with a tab inside: {result!r}")
    return str(result)


def checked_line(result: object) -> str:
    if not isinstance(result, str):
        raise TypeError(f"returned {result!r}, not a string")
    if "\n" in result:
        raise ValueError(f"returned a line break: {result!r}")
    if not result.isascii():
        result.encode()  # a lone surrogate could not be written
    return result


def _batch_of(batch: Batch, lines: Column, origins: list[int], bad: Mapping[int, str]) -> Batch:
    output = Batch((), lines, batch.origins[np.array(origins, np.int64)])
    if bad:
        raise LineFault(bad, result=output)
    return output


def _batch_of_arrow(batch: Batch, output: pyarrow.RecordBatch | None, function: str) -> Batch:
    import pyarrow as pa

    if output is None:
        return batch.take(np.zeros(0, np.int64))
    if not isinstance(output, pa.RecordBatch | pa.Table):
        raise TypeError(f"{function} returned {type(output).__name__}, not a pyarrow RecordBatch")
    columns = [
        Column.from_arrow(output.column(name)) for name in output.column_names if name != _ROW
    ]
    origins = batch.origins
    if _ROW in output.column_names:
        origins = output.column(_ROW).to_numpy(zero_copy_only=False).astype(np.int64)
        if not np.isin(origins, batch.origins).all():
            raise ValueError(
                f"{function} returned numbers in the column {_ROW!r} that are not in its input"
            )
    elif (n := output.num_rows) != len(batch):
        raise ValueError(
            f"{function} returned {n} rows for {len(batch)} lines, without the column {_ROW!r}"
        )
    try:
        check_values(columns)
    except LineFault as fault:
        order = np.argsort(batch.origins, kind="stable")
        places = order[np.searchsorted(batch.origins[order], origins[list(fault.reasons)])].tolist()
        raise LineFault(dict(zip(places, fault.reasons.values(), strict=True))) from None
    return Batch(tuple(columns) or (Column.repeated("", len(origins)),), None, origins)
