"""A function of the user's own as a transform, from the one Python file that the configuration names.

Nothing else is imported, no folder joins the search path, and no byte code is left beside the file.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     file = Path(folder, "mine.py")
...     _ = file.write_text("def swap(fields):\\n    return fields[::-1]\\n")
...     User(file=file, function="swap")(Batch.of(["a\\tb"]), np.random.default_rng(0)).lines
['b\\ta']
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from hashlib import blake2b
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.files.whole import read_bytes
from volt.stream.transforms.batch import Batch

joined = rows_of = None
from volt.stream.transforms.opening import LoadedFiles, Opened
from volt.stream.transforms.options import ConfiguredTransform, take_file
from volt.stream.transforms.transform import LineFault

Rows = list[list[str]]
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class User(ConfiguredTransform):
    """Call a function of a Python file for every line.

    A function that has a parameter `rng` is given the block's numpy Generator, and must draw from no other. A
    line for which it raises an error is unfit, and the error policy says what happens to it.
    """

    name: ClassVar[str] = "user"
    file: Path
    """The Python file."""
    function: str
    """The function's name in it."""
    takes: Literal["fields", "line", "stream"] = "fields"
    """What it is given: the list of a line's fields (whose item 0 is field 1), the line as one string, or an iterator
    over the lists of fields of a whole block, from which it yields such lists. It returns the same kind of thing; or
    None, to drop the line; or a list of lists (of lines), to make several."""
    append: bool = False
    """What it returns is one string, to be appended as a new field."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments for it."""

    def __post_init__(self) -> None:
        take_file(self, "file")
        arguments.text(self.function, "function", remedy="give the name of a function in the file")
        if self.append and self.takes == "stream":
            raise ConfigError("append: goes with a function that takes fields or line, not stream")

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        return self.opened(LoadedFiles())(batch, rng)

    def opened(self, files: LoadedFiles) -> Opened:
        """The transform with its function. Raises ConfigError if the file cannot be run or lacks the function."""
        code = files.load(self.file, _run)
        function = _function(code, self.file, self.function)
        options = {"function": self.function, "takes": self.takes, "append": self.append, "options": dict(self.options)}
        call = partial(self._changed, function, _wants_rng(function))
        return Opened(self, call, {"type": "User", "code": code.fingerprint, **options})

    def _changed(self, function: Function, wants_rng: bool, batch: Batch, rng: np.random.Generator) -> Batch:
        options = dict(self.options) | ({"rng": rng} if wants_rng else {})
        rows, origins = (self._streamed if self.takes == "stream" else self._called)(batch, function, options)
        return Batch(joined(rows), batch.origins[np.array(origins, np.int64)])

    def _called(self, batch: Batch, function: Function, options: Mapping[str, Any]) -> tuple[Rows, list[int]]:
        """Call it line by line: the rows that it made, and from which line each."""
        rows, origins, bad = Rows(), list[int](), dict[int, str]()
        for index, line in enumerate(batch.lines):
            try:
                made = self._made(line, function(line if self.takes == "line" else line.split("\t"), **options))
            except Exception as error:
                bad[index] = self._fault(error)
            else:
                rows += made
                origins += [index] * len(made)
        if bad:
            raise LineFault(bad)
        return rows, origins

    def _made(self, line: str, result: object) -> Rows:
        """The rows that a result stands for. Raises TypeError if it is none of what the documentation allows."""
        if self.append:
            return [[line, _value(result)]]
        if result is None:
            return []
        if self.takes == "line":
            return [_line(made).split("\t") for made in (result if isinstance(result, list) else [result])]
        if isinstance(result, list) and all(isinstance(made, list) for made in result):
            return [_row(made) for made in result]
        return [_row(result)]

    def _streamed(self, batch: Batch, function: Function, options: Mapping[str, Any]) -> tuple[Rows, list[int]]:
        """Let it run over the block; a row comes from the last line that was taken before it was yielded."""
        taken = 0

        def source() -> Iterator[list[str]]:
            nonlocal taken
            for taken, row in enumerate(rows_of(batch)):  # noqa: B007
                yield row

        rows, origins = Rows(), list[int]()
        try:
            for made in function(source(), **options):
                rows.append(_row(made))
                origins.append(taken)
        except Exception as error:
            raise LineFault({taken: self._fault(error)}) from None
        return rows, origins

    def _fault(self, error: Exception) -> str:
        """What went wrong, and where in the user's file."""
        place = f"{self.file}:{_line_of(error, self.file)}"
        return f"{self.function}: {type(error).__name__}: {error} ({place})"

    def signature(self) -> dict[str, Any]:
        """The options, with the file's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).told


def _row(result: object) -> list[str]:
    if not isinstance(result, list | tuple) or not result:
        raise TypeError(f"returned {result!r}, not a list of strings")
    return [_value(value) for value in result]


def _value(result: object) -> str:
    """A field. Raises TypeError or ValueError if it is none."""
    if "\t" in _line(result):
        raise ValueError(f"returned a field with a tab inside: {result!r}")
    return str(result)


def _line(result: object) -> str:
    """A line. Raises TypeError or ValueError if it is none."""
    if not isinstance(result, str):
        raise TypeError(f"returned {result!r}, not a string")
    if "\n" in result:
        raise ValueError(f"returned a line break: {result!r}")
    result.encode()  # a lone surrogate could not be written
    return result


class _Code(NamedTuple):
    """A file that has been run, and what its bytes are known by."""

    module: ModuleType
    fingerprint: str


def _run(file: Path) -> _Code:
    """Run a file as a module of its own. Raises ConfigError, with the line, if it cannot be read or run."""
    source, module = read_bytes(file, kind=ConfigError), ModuleType(f"volt_user_{file.stem}")
    module.__file__ = str(file)
    try:
        exec(compile(source, str(file), "exec"), vars(module))
    except SyntaxError as error:
        raise ConfigError(f"{file}:{error.lineno}: {error.msg}") from None
    except Exception as error:
        raise ConfigError(f"{file}:{_line_of(error, file)}: {type(error).__name__}: {error}") from error
    return _Code(module, blake2b(source, digest_size=8).hexdigest())


def _function(code: _Code, file: Path, name: str) -> Function:
    """The function of a name. Raises ConfigError if the file has defined none."""
    names = vars(code.module)
    function = names.get(name)
    if not callable(function):
        functions = [other for other, value in names.items() if inspect.isfunction(value)]
        near = get_close_matches(name, functions, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(functions) or 'none'}"
        raise ConfigError(f"{file}: no function {name!r}; {hint}")
    found: Function = function
    return found


def _wants_rng(function: Function) -> bool:
    try:
        return "rng" in inspect.signature(function).parameters
    except (ValueError, TypeError):  # some functions of C say nothing about their parameters
        return False


def _line_of(error: Exception, file: Path) -> int:
    """The innermost line of the file that had a part in an error; 0 if none had."""
    return next(
        (frame.lineno or 0 for frame in reversed(extract_tb(error.__traceback__)) if frame.filename == str(file)), 0
    )
