"""Where compiled loops are kept on disk: in a folder whose name is a digest of all that they are made of.

numba keeps the code of a function until the function's own file changes. Most loops hold code of other files as well,
which numba does not look at, so after a change there the old code would run on. Here a change of any file beside this
one, or of Python, numba or llvmlite, leads to a new folder:

    the folder that numba chooses / loops-DIGEST / what numba keeps

numba chooses __pycache__ where it can be written to, else the user's folder for caches, or NUMBA_CACHE_DIR.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from threading import Lock
from time import time
from typing import Any, NamedTuple

import llvmlite
import numba
from numba import config, njit

UNUSED = 24 * 3600  # seconds since a process last started with a folder, after which it may be removed
_PREFIX = "loops-"
_NUMBA_DECIDES = ""
_deciding = Lock()


class Keeping(NamedTuple):
    """Whether code is kept, and the folder for it."""

    is_kept: bool
    folder: str = _NUMBA_DECIDES


@contextmanager
def kept() -> Iterator[bool]:
    """What numba is told to keep inside is kept in the folder of this digest. Says whether it can be kept at all.

    numba chooses a function's folder when it is told to keep it, and NUMBA_CACHE_DIR, a documented setting, goes first.
    """
    settings = vars(config)
    with _deciding:
        keeping, users = _keeping(), settings["CACHE_DIR"]
        settings["CACHE_DIR"] = keeping.folder or users
        try:
            yield keeping.is_kept
        finally:
            settings["CACHE_DIR"] = users


def is_on_disk(kernel: Any) -> bool:
    """Whether an earlier process has left code of the kernel where this one looks for it."""
    folder, function = kernel.stats.cache_path, kernel.py_func
    name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
    return folder is not None and any(Path(folder).glob(f"{name}-*.nbi"))


def kept_in() -> str | None:
    """The folder where compiled code is kept, empty where numba chooses it; None if nothing can be kept."""
    keeping = _keeping()
    return keeping.folder if keeping.is_kept else None


@cache
def _keeping() -> Keeping:
    if hasattr(sys, "frozen"):  # numba looks at the whole program, which holds all loops
        return Keeping(True)
    try:
        place = _place()
    except AttributeError:  # loops run as plain Python, or this numba does not tell
        return Keeping(True)
    except RuntimeError:  # numba has found no folder that can be written to
        return Keeping(False)
    sources = sorted(Path(__file__).parent.glob("*.py"))
    if not sources:  # as in a zip file: rather compile every time than run old code
        return Keeping(False)
    return _opened(place / (_PREFIX + _digest(sources)))


def _place() -> Path:
    """The folder that numba chooses for functions of this file, asked for as numba 0.68 tells it."""
    return Path(str(njit(cache=True)(_example).stats.cache_path)).absolute()


def _example() -> None:
    """A function for numba to choose a folder for. It is never called."""


def _digest(sources: list[Path]) -> str:
    """A digest of the files' names and contents and of what compiles them."""
    digest = sha256(repr((sys.implementation.cache_tag, numba.__version__, llvmlite.__version__)).encode())
    for path in sources:
        content = path.read_bytes()
        digest.update(f"\n{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _opened(folder: Path) -> Keeping:
    """The folder, marked as used now. If it is new, folders that have long been unused are removed."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        with suppress(OSError):  # the mark is not worth failing for
            os.utime(folder)
        _remove_damaged(folder)
    except OSError:
        return Keeping(False)
    else:
        _remove_unused(folder)
    return Keeping(True, str(folder))


def _remove_damaged(folder: Path) -> None:
    """Remove files that were cut short or emptied, as a full disk or a loss of power leaves them.

    numba would end every later process with an error. What it keeps are pickles, which start with 0x80 and end with a
    full stop.
    """
    for path in folder.glob("*/*.nb[ic]"):
        with suppress(OSError):  # another process has removed it
            if not _is_whole(path):
                path.unlink()


def _is_whole(path: Path) -> bool:
    with path.open("rb") as file:
        first = file.read(1)
        file.seek(-1 if first else 0, os.SEEK_END)
        return first == b"\x80" and file.read(1) == b"."


def _remove_unused(folder: Path) -> None:
    """Remove the folders beside this one that no process has started with for a day.

    Should one still run with such a folder, it compiles what it has not loaded yet, and numba makes the folder again.
    """
    for other in folder.parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another process is removing it
            if other != folder and other.stat().st_mtime < time() - UNUSED:
                rmtree(other, ignore_errors=True)
