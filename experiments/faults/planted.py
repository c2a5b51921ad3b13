"""Faults of our own, put into a command before it runs: a campaign that does not report them finds nothing.

    in place    write_atomic writes where the file belongs
    ignored     write_atomic takes no notice of errors
    part        what write_atomic has begun is not removed
    crash       an error of the disk is not told as an OutputError
    hang        an error of the disk is waited out
    input       a command that fails has cut its input short
    child       a process is left running
    folder      a temporary folder is left
    trusting    encode believes that an output is made when it is there
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO


def plant(name: str) -> None:
    """Put a fault into this process."""
    PLANTED[name]()


def _everywhere(name: str, new: Any) -> None:
    """Replace a function in every module of VOLT that has it."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("volt") and hasattr(module, name):
            setattr(module, name, new)


@contextmanager
def _in_place(path: str | Path) -> Iterator[BinaryIO]:
    with open(path, "wb") as file:
        yield file


def _around(wrap: Callable[[Any, Any], Any]) -> None:
    """Replace write_atomic by a function of the real one and of the path."""
    from volt.files.atomic import write_atomic

    _everywhere("write_atomic", contextmanager(lambda path: wrap(write_atomic, path)))


def _ignoring(real: Any, path: Any) -> Iterator[BinaryIO]:
    with suppress(Exception), real(path) as file:
        yield file
        return
    with tempfile.TemporaryFile() as lost:
        yield lost  # nobody will know


def _cutting_inputs(real: Any, path: Any) -> Iterator[BinaryIO]:
    try:
        with real(path) as file:
            yield file
    except Exception:
        for name in ("corpus.txt", "model.volt"):
            if os.path.exists(name):
                os.truncate(name, 10)
        raise


def _waiting(real: Any, path: Any) -> Iterator[BinaryIO]:
    try:
        with real(path) as file:
            yield file
    except Exception:
        time.sleep(3600)


def _keep_part() -> None:
    Path.unlink = lambda *_, **__: None  # type: ignore[method-assign]


def _raise_through() -> None:
    import volt.files.atomic as atomic

    atomic._refusal = lambda path, error: ValueError(f"{path}: {error}")  # type: ignore[assignment,return-value]


def _leave_child() -> None:
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)


def _trust() -> None:
    import volt.encode.files as files

    _everywhere("write_atomic", _in_place)
    files._is_made = lambda output, *_: output.exists()


PLANTED: dict[str, Callable[[], object]] = {
    "in place": lambda: _everywhere("write_atomic", _in_place),
    "ignored": lambda: _around(_ignoring),
    "part": _keep_part,
    "crash": _raise_through,
    "hang": lambda: _around(_waiting),
    "input": lambda: _around(_cutting_inputs),
    "child": _leave_child,
    "folder": lambda: tempfile.mkdtemp(),
    "trusting": _trust,
}
