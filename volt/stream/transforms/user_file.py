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
from inspect import Parameter, Signature
from pathlib import Path
from threading import Lock
from traceback import StackSummary, TracebackException, extract_tb
from types import ModuleType
from typing import Any

from volt.errors import ConfigError
from volt.files.small_files import read_bytes
from volt.stream.transforms.transform import fingerprint_of

Function = Callable[..., Any]
RNG = "rng"  # the parameter that receives a generator
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
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
            reraise_signal(error)
            place = name_place(path, find_error_line(error, path))
            message = f"{place}: {type(error).__name__}: {error}\n{format_traceback(error)}"
            raise ConfigError(message) from error
        return cls(path, module, fingerprint_of(source))

    def function(self, name: str, options: Mapping[str, Any]) -> Function:
        """Return a function. Raises ConfigError if it is missing or does not accept these
        options."""
        names = vars(self.module)
        if not callable(names.get(name)):
            raise ConfigError(f"{self.path}: no function {name!r}; {self._hint(name)}")
        function: Function = names[name]

        for called in (function, getattr(function, "__call__", None)):  # noqa: B004 (the method of an object's class)
            if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
                place = name_place(self.path, find_first_line(function, self.path))
                raise ConfigError(
                    f"{place}: function {name!r} is asynchronous, but never awaited; write def, not async"
                )

        signature = _read_signature(function)
        parameters = signature.parameters.items()
        positional = [key for key, parameter in parameters if parameter.kind in _POSITIONAL]
        if positional[:1] in ([], [RNG]):
            raise ConfigError(
                f"{self.path}: function {name!r} has no first parameter for the value to change; add one"
            )
        rng_option = {RNG: None} if wants_rng(function) else {}
        try:
            signature.bind("", **rng_option, **options)
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


def _read_signature(function: Function) -> Signature:
    """Return a function's signature; any arguments if the function does not describe them, as some
    C functions."""
    with suppress(ValueError, TypeError):
        return inspect.signature(function)
    return inspect.signature(lambda *values, **options: None)


def wants_rng(function: Function) -> bool:
    return RNG in _read_signature(function).parameters


def reraise_signal(error: BaseException) -> None:
    """Raise an error again if a signal caused it.

    A command's signal handlers raise a subclass of SystemExit; sys.exit() in user code does not.
    """
    if isinstance(error, SystemExit) and type(error) is not SystemExit:
        raise error


def describe_error(
    error: BaseException, function: Function, file: Path, *, name: str, is_first: bool
) -> str:
    """Return an error of a user's function in words, with the place in the file.

    is_first: whether to add a traceback, because it is the first error
    """
    place = name_place(file, find_error_line(error, file) or find_first_line(function, file))
    summary = f"{name}: {type(error).__name__}: {error}".replace("\n", " ")
    trace = format_traceback(error) if is_first else ""
    return f"{summary} ({place})\n{trace}".rstrip()


def name_place(file: Path, line: int) -> str:
    return f"{file}:{line}" if line else str(file)


def find_error_line(error: BaseException, file: Path) -> int:
    """Return the line of a file at which an error was raised; 0 if it came from elsewhere."""
    frames = extract_tb(error.__traceback__)
    lines = [frame.lineno or 0 for frame in frames if frame.filename == str(file)]
    return lines[-1] if lines else 0


def find_first_line(function: Function, file: Path) -> int:
    """Return the line of a file at which a function starts; 0 if it is not in the file."""
    code = getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", None)
    return code.co_firstlineno if code is not None and code.co_filename == str(file) else 0


def format_traceback(error: BaseException) -> str:
    """Return an error's traceback without VOLT's own frames."""
    traceback = TracebackException.from_exception(error)
    frames = [frame for frame in traceback.stack if not frame.filename.startswith(_VOLT)]
    traceback.stack = StackSummary.from_list(frames)
    return "".join(traceback.format()).rstrip() if frames else ""


class _StdoutToStderr:
    """A context in which descriptor 1 leads to stderr, so that prints of user code do not mix with
    the data that a command writes to stdout. Threads may enter it at the same time.

    is_active: whether the context has an effect; a command sets it
    """

    def __init__(self) -> None:
        self.is_active = False
        self._lock = Lock()
        self._n_threads = 0
        self._stdout = -1  # a copy of descriptor 1; -1 outside of the context

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
    """Send prints of user code to stderr from now on, because this process writes data to
    stdout."""
    stdout_to_stderr.is_active = True
