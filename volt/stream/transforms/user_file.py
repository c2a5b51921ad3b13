"""A Python file of the user's: it is run once, its functions are checked, and what it prints goes to stderr.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     file = Path(folder, "mine.py")
...     _ = file.write_text("def double(line, *, times=2):\\n    return line * times\\n")
...     UserFile.run(file).function("double", {"times": 3})("a", times=3)
'aaa'
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from inspect import Parameter
from pathlib import Path
from threading import Lock, get_ident
from traceback import extract_tb
from types import ModuleType
from typing import Any

from volt.errors import ConfigError
from volt.files.whole import read_bytes

Function = Callable[..., Any]
RNG = "rng"  # the parameter that is given a generator
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file that has been run, and what its bytes are known by."""

    path: Path
    module: ModuleType
    fingerprint: str

    @classmethod
    def run(cls, path: Path) -> UserFile:
        """Run a file as a module of its own. Raises ConfigError, with the line, if it cannot be read or run."""
        source, module = read_bytes(path, kind=ConfigError), ModuleType(f"volt_user_{path.stem}")
        module.__file__ = str(path)
        try:
            with printing_to_stderr():
                exec(compile(source, str(path), "exec"), vars(module))
        except SyntaxError as error:
            raise ConfigError(f"{path}:{error.lineno}: {error.msg}; mend it, or name a Python file") from None
        except Exception as error:
            raise ConfigError(f"{path}:{line_of(error, path)}: {type(error).__name__}: {error}") from error
        return cls(path, module, blake2b(source, digest_size=8).hexdigest())

    def function(self, name: str, options: Mapping[str, Any]) -> Function:
        """The function of a name. Raises ConfigError if the file has defined none, or it cannot be called so."""
        names = vars(self.module)
        found = names.get(name)
        if not callable(found):
            functions = [other for other, value in names.items() if inspect.isfunction(value)]
            near = get_close_matches(name, functions, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(functions) or 'none'}"
            raise ConfigError(f"{self.path}: no function {name!r}; {hint}")
        if _is_asynchronous(found):
            place = place_of(first_line(found, self.path), self.path)
            raise ConfigError(
                f"{place}: function {name!r} is asynchronous, and nothing waits for it; write def, not async"
            )
        if fault := _misfit(_parameters(found), options):
            raise ConfigError(f"{self.path}: function {name!r} {fault}")
        function: Function = found
        return function

    @staticmethod
    def wants_rng(function: Function) -> bool:
        """Whether it has a parameter for a generator."""
        return RNG in (_parameters(function) or ())


def _is_asynchronous(function: Function) -> bool:
    """Whether a call gives what must be awaited, or iterated over with `async for`."""
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one)
        for one in (function, getattr(function, "__call__", None))  # noqa: B004 (what an object's class defines)
    )


def _parameters(function: Function) -> Mapping[str, Parameter] | None:
    try:
        return inspect.signature(function).parameters
    except (ValueError, TypeError):  # some functions of C say nothing about their parameters
        return None


def _misfit(parameters: Mapping[str, Parameter] | None, options: Mapping[str, Any]) -> str:
    """What keeps a function from being called with one thing and these options; "" for nothing.

    >>> def shout(line, *, mark): ...
    >>> _misfit(_parameters(shout), {"marc": "!"})
    "has no parameter 'marc'; did you mean mark?"
    >>> _misfit(_parameters(shout), {})
    "needs a value for 'mark'; give it in options"
    """
    if parameters is None:
        return ""
    first = next((name for name, parameter in parameters.items() if parameter.kind in _BY_PLACE), None)
    if first is None:
        return "takes nothing; give it a first parameter, for what it is to change"
    if first == RNG:
        return f"has {RNG!r} as its first parameter, which is for what it is to change; put another before it"
    given = [name for name, parameter in parameters.items() if parameter.kind in _BY_NAME and name not in (first, RNG)]
    takes_any = any(parameter.kind == Parameter.VAR_KEYWORD for parameter in parameters.values())
    for option in options:
        if option in (first, RNG):
            return f"is given {option!r} by the stream; leave it out of options"
        if option not in given and not takes_any:
            near = get_close_matches(option, given, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(given) or 'none'} for options"
            return f"has no parameter {option!r}; {hint}"
    for name, parameter in parameters.items():
        is_open = parameter.default is Parameter.empty and parameter.kind in (*_BY_NAME, Parameter.POSITIONAL_ONLY)
        if is_open and name not in (first, RNG, *options):
            return f"needs a value for {name!r}; give it in options"
    return ""


def pass_signal_on(error: BaseException) -> None:
    """Raise again what ends this process on a signal; `sys.exit` in a function is a fault of the function.

    >>> pass_signal_on(SystemExit(3))
    """
    if isinstance(error, SystemExit) and type(error) is not SystemExit:
        raise error


def line_of(error: BaseException, file: Path) -> int:
    """The innermost line of the file that had a part in an error; 0 if none had."""
    return next(
        (frame.lineno or 0 for frame in reversed(extract_tb(error.__traceback__)) if frame.filename == str(file)), 0
    )


def first_line(function: Function, file: Path) -> int:
    """The line of the file in which a function starts; 0 if it is from elsewhere."""
    code = getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", None)
    return code.co_firstlineno if code is not None and code.co_filename == str(file) else 0


def place_of(line: int, file: Path) -> str:
    """A line of a file as errors name it, the file alone if the line is 0.

    >>> place_of(7, Path("mine.py")), place_of(0, Path("mine.py"))
    ('mine.py:7', 'mine.py')
    """
    return f"{file}:{line}" if line else str(file)


class _Stdout:
    """Stands for sys.stdout: leads to stderr in the threads that run a user's code, and to stdout in the others."""

    def __init__(self) -> None:
        self.stdout: Any = None
        self.threads: list[int] = []
        self.lock = Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if get_ident() in self.threads else self.stdout, name)

    def enter(self) -> None:
        """Lead this thread to stderr."""
        with self.lock:
            if sys.stdout is not self:
                self.stdout, sys.stdout = sys.stdout, self
            self.threads.append(get_ident())

    def leave(self) -> None:
        """Lead it back, and put stdout where it was once no thread runs a user's code."""
        with self.lock:
            self.threads.remove(get_ident())
            if not self.threads and sys.stdout is self:
                sys.stdout = self.stdout


_STDOUT = _Stdout()  # global as sys.stdout is


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Within it, what this thread prints goes to stderr; a stream's lines are on stdout."""
    _STDOUT.enter()
    try:
        yield
    finally:
        _STDOUT.leave()
