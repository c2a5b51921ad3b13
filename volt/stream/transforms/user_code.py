r"""A user's function as a transform, from the one Python file that the configuration names.

Nothing else is imported, no folder joins the search path, no byte code is written next to the file, and the output of
`print` goes to stderr. The function's results are checked line by line, and errors name the line of the file.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     file = Path(folder, "mine.py")
...     _ = file.write_text("def swap(fields):\n    return fields[::-1]\n")
...     User(file=file, function="swap")(Batch.of(["a\tb"]), LineRng(1, 2)).lines
['b\ta']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import ConfiguredTransform, check_values, take_file
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import LineFault, LoadedFiles, Opened
from volt.stream.transforms.user_file import (
    Function,
    UserFile,
    first_line,
    line_of,
    pass_signal_on,
    place_of,
    printing_to_stderr,
    traceback_of,
)

if TYPE_CHECKING:
    import pyarrow


@dataclass(slots=True)
class MadeLines:
    """The results of a function, line by line.

    n_called: how many those are
    rows, origins: the lines that it made, and from which line each
    widths: how many fields each of them was made of
    bad: what is wrong with lines
    """

    n_called: int = 0
    rows: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)

    def add(self, rows: list[str]) -> None:
        """Note lines of the function's last call, which have been looked at."""
        self.rows += rows
        self.widths += [row.count("\t") + 1 for row in rows]
        self.origins += [self.n_called] * len(rows)

    def column(self, fault: Callable[[BaseException], str]) -> Column:
        """Return the lines, looked at all at once where they are good. Those that cannot be written are bad."""
        text = "\n".join([*self.rows, ""])
        is_cut = text.count("\t") == sum(self.widths) - len(self.widths) and text.count("\n") == len(self.rows)
        if is_cut and (written := encoded(text)) is not None:
            return Column.cut(written)
        for place in reversed(range(len(self.rows))):
            try:
                _check_row(self.rows[place], self.widths[place])
            except (ValueError, TypeError) as error:
                self.bad[self.origins[place]] = fault(error)
                del self.rows[place], self.origins[place], self.widths[place]
        return Column.of(self.rows)


def encoded(text: str) -> bytes | None:
    """Return a text as UTF-8; None where it holds a lone surrogate, which cannot be written.

    >>> encoded("é"), encoded("\\ud800")
    (b'\\xc3\\xa9', None)
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _check_row(line: str, width: int) -> None:
    """Raise ValueError unless a line can be written, and has so many fields."""
    if line.count("\t") != width - 1:
        raise ValueError(f"returned a field with a tab inside: {line!r}")
    checked_line(line)


def row_of(result: object) -> str:
    """Return the line of a list of fields. Raises TypeError or ValueError if it is not valid.

    >>> row_of(["a", "b"])
    'a\\tb'
    """
    if not isinstance(result, list | tuple) or not result:
        raise TypeError(f"returned {result!r}, not a list of strings")
    try:
        line = "\t".join(result)
        if line.count("\t") == len(result) - 1 and "\n" not in line and (line.isascii() or line.encode()):
            return line
    except (TypeError, UnicodeEncodeError):
        pass
    return "\t".join([value_of(value) for value in result])  # one of them says what is wrong


def value_of(result: object) -> str:
    """Return a field. Raises TypeError or ValueError if it is not valid.

    >>> value_of("a b")
    'a b'
    """
    if "\t" in checked_line(result):
        raise ValueError(f"returned a field with a tab inside: {result!r}")
    return str(result)


def checked_line(result: object) -> str:
    """Return a line. Raises TypeError or ValueError if it is not valid.

    >>> checked_line("a\\tb")
    'a\\tb'
    """
    if not isinstance(result, str):
        raise TypeError(f"returned {result!r}, not a string")
    if "\n" in result:
        raise ValueError(f"returned a line break: {result!r}")
    if not result.isascii():
        result.encode()  # a lone surrogate could not be written
    return result


Takes = Literal["fields", "line", "stream", "batch"]
_ROW = "row"  # the column of a record batch that says from which line each row comes


@dataclass(frozen=True, slots=True)
class User(ConfiguredTransform):
    """Call a function of a Python file for every line.

    A function that has a parameter `rng` gets a numpy Generator of its line (of the block, if it takes a
    stream or a batch), and must draw from no other. It must not keep it. A line for which it raises an error is unfit,
    and the error policy says what happens to it. What it prints goes to stderr. At validation and translation, where
    nothing is drawn, a function with `rng` is left out.
    """

    name: ClassVar[str] = "user"
    file: Path
    """The Python file."""
    function: str
    """The function's name in it."""
    takes: Takes = "fields"
    """The argument of the function: the list of a line's fields (whose item 0 is field 1), the line as one string, an
    iterator over the lists of fields of a whole block, from which it yields such lists, or the block as a pyarrow
    RecordBatch. It returns the same type; or None, to drop the line; or a list of lists (of lines), to make several.
    The columns of a RecordBatch are the fields; its column `row` says which line each row comes from, and has to be
    returned unless the rows have the same number and order."""
    append: bool = False
    """Append what the function returns, one string, as a new field."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments for it."""

    def __post_init__(self) -> None:
        take_file(self, "file")
        arguments.text(self.function, "function", remedy="give the name of a function in the file")
        if self.append and self.takes in ("stream", "batch"):
            raise ConfigError(f"append: goes with a function that takes fields or line, not {self.takes}; leave it out")

    @property
    def joins_lines(self) -> bool:
        """True if it is given whole blocks."""
        return self.takes == "stream"

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, chance)

    def opened(self, files: LoadedFiles) -> Opened:
        """Return the transform with its function.

        Raises ConfigError if the file cannot be run or lacks the function, or the options do not go with it.
        """
        code = files.load(self.file, UserFile.run)
        function = code.function(self.function, self.options)
        options = {"function": self.function, "takes": self.takes, "append": self.append, "options": dict(self.options)}
        calls = {"stream": self._streamed, "batch": self._batched}
        call = partial(calls.get(self.takes, self._called), partial(function, **self.options), code.wants_rng(function))
        return Opened(self, call, {"type": "User", "code": code.fingerprint, **options})

    def deterministic(self) -> User | None:
        """Return None if the function draws, which its parameter `rng` says. Raises what `opened` raises."""
        code = UserFile.run(self.file)
        return None if code.wants_rng(code.function(self.function, self.options)) else self

    def _called(self, function: Function, wants_rng: bool, batch: Batch, chance: LineRng) -> Batch:
        lines, drawn = batch.lines, chance.generators(batch.origins)
        inputs: Iterator[Any] = iter(lines) if self.takes == "line" else map(str.split, lines, repeat("\t"))

        def with_rng(one: object) -> object:
            return function(one, rng=next(drawn))

        call, output = with_rng if wants_rng else function, MadeLines()
        with printing_to_stderr():
            while output.n_called < len(lines):
                try:
                    self._call(call, inputs, lines, output)
                except (Exception, SystemExit) as error:
                    pass_signal_on(error)
                    output.bad[output.n_called] = self._fault(error, function, is_first=not output.bad)
                    output.n_called += 1
        column = output.column(lambda error: self._fault(error, function))
        return _batch_of(batch, column, output.origins, output.bad)

    def _call(self, call: Function, inputs: Iterator[Any], lines: list[str], made: MadeLines) -> None:
        """Call it for line after line until it raises an error. What it returns may change with the next call."""
        fields, whole = (self.takes == kind and not self.append for kind in ("fields", "line"))
        add, add_width, add_origin, join = made.rows.append, made.widths.append, made.origins.append, "\t".join
        for place, one in enumerate(inputs, made.n_called):
            made.n_called = place
            result = call(one)
            if fields and type(result) is list and result and type(result[0]) is str:
                try:
                    add(join(result))
                except TypeError:
                    add(row_of(result))  # which says what is not a string
                add_width(len(result))
                add_origin(place)
            elif whole and type(result) is str:
                add(result)
                add_width(result.count("\t") + 1)
                add_origin(place)
            else:
                made.add(self._made(lines[place], result))
        made.n_called = len(lines)

    def _made(self, line: str, result: object) -> list[str]:
        """Return the lines that a result stands for. Raises TypeError if it is not one of what the documentation
        allows.
        """
        if self.append:
            return [f"{line}\t{value_of(result)}"]
        if result is None:
            return []
        if self.takes == "line":
            return [checked_line(output) for output in (result if isinstance(result, list) else [result])]
        if isinstance(result, list) and (not result or isinstance(result[0], list)):
            return [row_of(output) for output in result]
        return [row_of(result)]

    def _streamed(self, function: Function, wants_rng: bool, batch: Batch, chance: LineRng) -> Batch:
        """Let it run over the block. Where it raises, the line that it took last is unfit, with the rows that were
        yielded since; it is started anew on the lines after it, so that each line is handed over once.
        """
        rows, origins, bad, lines = list[str](), list[int](), dict[int, str](), batch.rows
        options = {"rng": next(chance.generators(batch.origins[:1]))} if wants_rng and len(batch) else {}
        inputs = _Given(lines)
        with printing_to_stderr():
            while inputs.place < len(lines):
                first = inputs.place
                try:
                    for output in function(inputs.rest(), **options):
                        rows.append(row_of(output))
                        origins.append(inputs.last)
                except (Exception, SystemExit) as error:
                    pass_signal_on(error)
                    inputs.place = max(inputs.place, first + 1)  # it raised before it took a line
                    bad[inputs.last] = self._fault(error, function, is_first=not bad)
                    while origins and origins[-1] >= inputs.last:
                        del rows[-1], origins[-1]
                else:
                    break
        return _batch_of(batch, Column.of(rows), origins, bad)

    def _batched(self, function: Function, wants_rng: bool, batch: Batch, chance: LineRng) -> Batch:
        options = {"rng": next(chance.generators(batch.origins[:1]))} if wants_rng and len(batch) else {}
        try:
            with printing_to_stderr():
                output = function(batch.to_arrow(), **options)
            return _batch_of_arrow(batch, output, self.function)
        except (Exception, SystemExit) as error:
            pass_signal_on(error)
            if len(batch) > 1 or isinstance(error, LineFault):  # which line it was, calls with fewer will tell
                raise
            raise LineFault({0: self._fault(error, function, is_first=True)}) from None

    def _fault(self, error: BaseException, function: Function, *, is_first: bool = False) -> str:
        """Describe the error and its place in the user's file: where the function starts, if it is what it returned.

        is_first: whether the traceback in that file is added, on further lines
        """
        place = place_of(line_of(error, self.file) or first_line(function, self.file), self.file)
        message = f"{self.function}: {type(error).__name__}: {error}".replace("\n", " ")
        trace = traceback_of(error) if is_first else ""
        return f"{message} ({place})" + f"\n{trace}" * bool(trace)

    def signature(self) -> dict[str, Any]:
        """Return the options, with the file's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).values


class _Given:
    """Hands out rows, and knows how many have been taken."""

    def __init__(self, rows: list[list[str]]) -> None:
        self.rows, self.place = rows, 0

    @property
    def last(self) -> int:
        """The row that was taken last; the first, before one was."""
        return max(self.place - 1, 0)

    def rest(self) -> Iterator[list[str]]:
        """Yield the rows that have not been taken."""
        while self.place < len(self.rows):
            self.place += 1
            yield self.rows[self.place - 1]


def _batch_of(batch: Batch, lines: Column, origins: list[int], bad: Mapping[int, str]) -> Batch:
    """Return the lines as a batch. Raises LineFault if some lines are bad, with what became of the others."""
    output = Batch((), lines, batch.origins[np.array(origins, np.int64)])
    if bad:
        raise LineFault(bad, made=output)
    return output


def _batch_of_arrow(batch: Batch, made: pyarrow.RecordBatch | None, function: str) -> Batch:
    """Check the record batch that a function returned.

    Raises TypeError or ValueError if it is not valid, or its rows cannot be matched, LineFault for values that break a
    line.
    """
    import pyarrow as pa

    if made is None:
        return batch.take(np.zeros(0, np.int64))
    if not isinstance(made, pa.RecordBatch | pa.Table):
        raise TypeError(f"{function} returned {type(made).__name__}, not a pyarrow RecordBatch")
    columns = [Column.from_arrow(made.column(name)) for name in made.column_names if name != _ROW]
    origins = _origins_of(batch, made, function)
    try:
        check_values(columns)
    except LineFault as fault:
        places = _places_of(origins[list(fault.reasons)], batch)
        raise LineFault(dict(zip(places, fault.reasons.values(), strict=True))) from None
    return Batch(tuple(columns) or (Column.repeated("", len(origins)),), None, origins)


def _places_of(origins: NDArray[np.int64], batch: Batch) -> list[int]:
    order = np.argsort(batch.origins, kind="stable")
    places: list[int] = order[np.searchsorted(batch.origins[order], origins)].tolist()
    return places


def _origins_of(batch: Batch, made: pyarrow.RecordBatch, function: str) -> NDArray[np.int64]:
    if _ROW not in made.column_names:
        if made.num_rows != len(batch):
            raise ValueError(
                f"{function} returned {made.num_rows} rows for {len(batch)} lines, without the column {_ROW!r}, which "
                "says from which line each comes"
            )
        return batch.origins
    result: NDArray[np.int64] = made.column(_ROW).to_numpy(zero_copy_only=False).astype(np.int64)
    if not np.isin(result, batch.origins).all():
        raise ValueError(f"{function} returned numbers in the column {_ROW!r} that it was not given")
    return result
