"""Run a user's Python file once, check its functions, and describe their errors.

No other file is imported, no folder is added to the search path, and no byte code is written.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from inspect import Parameter, Signature
from pathlib import Path
from threading import Lock
from traceback import StackSummary, TracebackException, extract_tb
from types import ModuleType
from typing import Any

from volt.errors import ConfigError
from volt.files.small_files import read_bytes

Function = Callable[..., Any]
RNG = "rng"  # the parameter that receives a generator
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
_VOLT = f"{Path(__file__).parents[2]}{os.sep}"  # the folder of volt's files


@dataclass(frozen=True, slots=True)
class UserFile:
    path: Path
    module: ModuleType
    fingerprint: str

    @classmethod
    def run(cls, path: Path) -> UserFile:
        source = read_bytes(path, kind=ConfigError)
        module = ModuleType(f"volt_user_{path.stem}")
        module.__file__ = str(path)
        try:
            with stdout_to_stderr:
                exec(compile(source, str(path), "exec"), vars(module))
        except SyntaxError as error:
            message = f"{path}:{error.lineno}: {error.msg}; fix it, or name a Python file"
            raise ConfigError(message) from None
        except (Exception, SystemExit) as error:
            pass_signal_on(error)
            place = place_of(path, line_of(error, path))
            message = f"{place}: {type(error).__name__}: {error}\n{traceback_of(error)}"
            raise ConfigError(message) from error
        return cls(path, module, blake2b(source, digest_size=8).hexdigest())

    def function(self, name: str, options: Mapping[str, Any]) -> Function:
        """Return a function. Raises ConfigError if it is missing or does not accept these
        options."""
        names = vars(self.module)
        if not callable(names.get(name)):
            raise ConfigError(f"{self.path}: no function {name!r}; {self._hint(name)}")
        function: Function = names[name]

        for each in (function, getattr(function, "__call__", None)):  # noqa: B004 (the method of an object's class)
            if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each):
                place = place_of(self.path, first_line(function, self.path))
                raise ConfigError(
                    f"{place}: function {name!r} is asynchronous, but never awaited; write def, not async"
                )

        signature = _signature(function)
        by_place = [key for key, each in signature.parameters.items() if each.kind in _BY_PLACE]
        if by_place[:1] in ([], [RNG]):
            raise ConfigError(
                f"{self.path}: function {name!r} has no first parameter for the value to change; add one"
            )
        drawn = {RNG: None} if wants_rng(function) else {}
        try:
            signature.bind("", **drawn, **options)
        except TypeError as error:
            raise ConfigError(
                f"{self.path}: function {name!r} cannot be called with these options: {error}; change them"
            ) from None
        return function

    def _hint(self, name: str) -> str:
        functions = [key for key, value in vars(self.module).items() if inspect.isfunction(value)]
        for near in get_close_matches(name, functions, n=1):
            return f"did you mean {near}?"
        return f"it has {', '.join(functions) or 'none'}"


def _signature(function: Function) -> Signature:
    """Return a function's signature; any arguments if the function does not describe them, as some
    C functions."""
    with suppress(ValueError, TypeError):
        return inspect.signature(function)
    return inspect.signature(lambda *values, **options: None)


def wants_rng(function: Function) -> bool:
    return RNG in _signature(function).parameters


def pass_signal_on(error: BaseException) -> None:
    """Raise the SystemExit of a signal, which a command turns into a kind of its own."""
    if isinstance(error, SystemExit) and type(error) is not SystemExit:
        raise error


def fault_of(
    error: BaseException, function: Function, file: Path, *, name: str, is_first: bool
) -> str:
    """Describe an error and its place; the first error also gets a traceback."""
    place = place_of(file, line_of(error, file) or first_line(function, file))
    summary = f"{name}: {type(error).__name__}: {error}".replace("\n", " ")
    trace = traceback_of(error) if is_first else ""
    return f"{summary} ({place})\n{trace}".rstrip()


def place_of(file: Path, line: int) -> str:
    return f"{file}:{line}" if line else str(file)


def line_of(error: BaseException, file: Path) -> int:
    """Return the line of a file at which an error was raised; 0 if it came from elsewhere."""
    frames = extract_tb(error.__traceback__)
    lines = [frame.lineno or 0 for frame in frames if frame.filename == str(file)]
    return lines[-1] if lines else 0


def first_line(function: Function, file: Path) -> int:
    code = getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", None)
    return code.co_firstlineno if code is not None and code.co_filename == str(file) else 0


def traceback_of(error: BaseException) -> str:
    """Return an error's traceback without VOLT's own frames."""
    values = TracebackException.from_exception(error)
    frames = [frame for frame in values.stack if not frame.filename.startswith(_VOLT)]
    values.stack = StackSummary.from_list(frames)
    return "".join(values.format()).rstrip() if frames else ""


class _StdoutToStderr:
    """While threads run user code, descriptor 1 leads to stderr, because commands write data to
    stdout.

    is_active: False, as in a Python program, where users print to stdout, until a command sets it
    """

    def __init__(self) -> None:
        self.is_active = False
        self._lock = Lock()
        self._n_threads = 0
        self._stdout = -1  # a copy of descriptor 1

    def __enter__(self) -> None:
        with self._lock:
            self._n_threads += 1
            if self.is_active and self._stdout < 0:
                _flush()
                self._stdout = os.dup(1)
                os.dup2(2, 1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_threads -= 1
            if self._stdout >= 0 and not self._n_threads:
                _flush()
                os.dup2(self._stdout, 1)
                os.close(self._stdout)
                self._stdout = -1


def _flush() -> None:
    for stream in filter(None, (sys.stdout, sys.__stdout__)):
        with suppress(OSError):
            stream.flush()


stdout_to_stderr = _StdoutToStderr()


def protect_stdout() -> None:
    """From now on, send what user code prints to stderr, because this process writes data to
    stdout."""
    stdout_to_stderr.is_active = True
