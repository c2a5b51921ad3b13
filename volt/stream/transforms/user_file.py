"""Run a user's Python file once, check its functions, and send its prints to stderr.

No other file is imported, no folder is added to the search path, and no byte code is written.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from inspect import Parameter
from pathlib import Path
from threading import Lock, get_ident
from traceback import StackSummary, TracebackException, extract_tb
from types import ModuleType
from typing import Any

from volt.errors import ConfigError
from volt.files.small_files import read_bytes

Function = Callable[..., Any]
RNG = "rng"  # the parameter that receives a generator
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
_VOLT = f"{Path(__file__).parents[2]}{os.sep}"  # the folder of volt's files
_MODULE = "volt_user_"  # prefix of the module names of users' files


@dataclass(frozen=True, slots=True)
class UserFile:
    path: Path
    module: ModuleType
    fingerprint: str

    @classmethod
    def run(cls, path: Path) -> UserFile:
        source = read_bytes(path, kind=ConfigError)
        module = ModuleType(f"{_MODULE}{path.stem}")
        module.__file__ = str(path)
        try:
            with printing_to_stderr():
                exec(compile(source, str(path), "exec"), vars(module))
        except SyntaxError as error:
            raise ConfigError(
                f"{path}:{error.lineno}: {error.msg}; fix it, or name a Python file"
            ) from None
        except (Exception, SystemExit) as error:
            pass_signal_on(error)
            message = f"{path}:{line_of(error, path)}: {type(error).__name__}: {error}"
            raise ConfigError(f"{message}\n{traceback_of(error)}") from error
        return cls(path, module, blake2b(source, digest_size=8).hexdigest())

    def function(self, name: str, options: Mapping[str, Any]) -> Function:
        """Return a function. Raises ConfigError if it is missing or does not accept these options."""
        names = vars(self.module)
        result = names.get(name)
        if not callable(result):
            functions = [other for other, value in names.items() if inspect.isfunction(value)]
            near = get_close_matches(name, functions, n=1)
            hint = (
                f"did you mean {near[0]}?" if near else f"it has {', '.join(functions) or 'none'}"
            )
            raise ConfigError(f"{self.path}: no function {name!r}; {hint}")
        candidates = (result, getattr(result, "__call__", None))  # noqa: B004 (the method of an object's class)
        if any(
            inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one)
            for one in candidates
        ):
            place = place_of(first_line(result, self.path), self.path)
            raise ConfigError(
                f"{place}: function {name!r} is asynchronous, but never awaited; write def, not async"
            )
        if fault := _misfit(result, options):
            raise ConfigError(f"{self.path}: function {name!r} {fault}")
        function: Function = result
        return function

    @staticmethod
    def wants_rng(function: Function) -> bool:
        try:
            return RNG in inspect.signature(function).parameters
        except (ValueError, TypeError):
            return False


def _misfit(function: Function, options: Mapping[str, Any]) -> str:
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):  # some C functions do not describe their parameters
        return ""
    first = next(
        (name for name, parameter in parameters.items() if parameter.kind in _BY_PLACE), None
    )
    if first is None or first == RNG:
        return "has no first parameter for the value to change; add one"
    drawn = {RNG: None} if RNG in parameters else {}
    try:
        inspect.signature(function).bind("", **drawn, **options)
    except TypeError as error:
        return f"cannot be called with these options: {error}; change them"
    return ""


def pass_signal_on(error: BaseException) -> None:
    if isinstance(error, SystemExit) and type(error) is not SystemExit:
        raise error


def line_of(error: BaseException, file: Path) -> int:
    return next(
        (
            frame.lineno or 0
            for frame in reversed(extract_tb(error.__traceback__))
            if frame.filename == str(file)
        ),
        0,
    )


def traceback_of(error: BaseException) -> str:
    """Return an error's traceback without VOLT's own frames."""
    values = TracebackException.from_exception(error)
    values.stack = StackSummary.from_list(
        [frame for frame in values.stack if not frame.filename.startswith(_VOLT)]
    )
    return "".join(values.format()).rstrip() if values.stack else ""


def first_line(function: Function, file: Path) -> int:
    code = getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", None)
    return code.co_firstlineno if code is not None and code.co_filename == str(file) else 0


def place_of(line: int, file: Path) -> str:
    return f"{file}:{line}" if line else str(file)


def fault_of(
    error: BaseException, function: Function, file: Path, *, name: str, is_first: bool = False
) -> str:
    """Describe an error and its place; the first error also gets a traceback."""
    place = place_of(line_of(error, file) or first_line(function, file), file)
    trace = traceback_of(error) if is_first else ""
    return (
        f"{name}: {type(error).__name__}: {error}".replace("\n", " ")
        + f" ({place})"
        + f"\n{trace}" * bool(trace)
    )


class _UserCode:
    """Send the output of this process to stderr while its threads run user code.

    has_process: whether to redirect descriptor 1, too, which programs started by the code inherit.
    """

    def __init__(self) -> None:
        self.has_process = False
        self.threads = list[int]()
        self.lock = Lock()
        self.stdout: Any = None
        self.descriptor = -1

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of stdout, or, in threads that run user code, of stderr."""
        return getattr(sys.stderr if get_ident() in self.threads else self.stdout, name)

    def __enter__(self) -> None:
        with self.lock:
            if sys.stdout is not self:
                self.stdout, sys.stdout = sys.stdout, self
            if not self.threads and self.has_process:
                _flush()
                self.descriptor = os.dup(1)
                os.dup2(2, 1)
            self.threads.append(get_ident())

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.threads.remove(get_ident())
            if not self.threads:
                if self.descriptor >= 0:
                    _flush()
                    os.dup2(self.descriptor, 1)
                    os.close(self.descriptor)
                    self.descriptor = -1
                if sys.stdout is self:
                    sys.stdout = self.stdout


def _flush() -> None:
    with suppress(OSError):
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()


_USER_CODE = _UserCode()  # global, like sys.stdout


def lead_descriptor() -> None:
    """Also redirect descriptor 1 to stderr while user code runs, because this process writes data to stdout."""
    _USER_CODE.has_process = True


def printing_to_stderr() -> AbstractContextManager[None]:
    return _USER_CODE
