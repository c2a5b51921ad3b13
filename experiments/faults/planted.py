"""Faults of our own, put into a command before it runs: a campaign that does not report them finds nothing.

in place    write_atomic writes where the file belongs
slow        so too, and takes its time in the middle of the file
ignored     write_atomic takes no notice of errors
part        what write_atomic has begun is not removed
crash       an OutputError is another error
hang        an error of the disk is waited out
input       a command that fails has cut its input short
child       a process is left running
folder      a temporary folder is left
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

    def wrapped(path: str | Path) -> Any:
        return wrap(write_atomic, path)

    _everywhere("write_atomic", contextmanager(wrapped))


def _ignoring(real: Any, path: Any) -> Iterator[BinaryIO]:
    began = False
    with suppress(Exception), real(path) as file:
        began = True
        yield file
    if not began:
        with tempfile.TemporaryFile() as lost:
            yield lost


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


@contextmanager
def _slowly_in_place(path: str | Path) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as whole, open(path, "wb", buffering=0) as file:
        yield whole
        whole.seek(0)
        data = whole.read()
        file.write(data[: len(data) // 2])
        time.sleep(30)
        file.write(data[len(data) // 2 :])


def _keep_part() -> None:
    def kept(*_: object, **__: object) -> None:
        pass

    for owner, name in ((Path, "unlink"), (os, "unlink"), (os, "remove")):
        setattr(owner, name, kept)


def _leave_child() -> None:
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)


PLANTED: dict[str, Callable[[], object]] = {
    "in place": lambda: _everywhere("write_atomic", _in_place),
    "slow": lambda: _everywhere("write_atomic", _slowly_in_place),
    "ignored": lambda: _around(_ignoring),
    "part": _keep_part,
    "crash": lambda: _everywhere("OutputError", ZeroDivisionError),
    "hang": lambda: _around(_waiting),
    "input": lambda: _around(_cutting_inputs),
    "child": _leave_child,
    "folder": lambda: tempfile.mkdtemp(),
}
