"""Cache slowly computed arrays in the user's folder: a check, then arrays in numpy's format.

The check is 16 bytes of BLAKE2b of the file's name and of the arrays.

A damaged file, or one that other users can change, is not read. More than `MOST` files are not
kept; the least recently used are removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.own_files import find_shared, is_own

Arrays = list[NDArray[Any]]
MOST = 32  # files
_CHECK = 16  # bytes


def cached_arrays(key: Sequence[object], make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of a key, from the cache or made anew; an empty list is not cached.

    key: all that the arrays depend on, except the versions of VOLT and Polars

    >>> [array.tolist() for array in cached_arrays(["a doctest"], lambda: [np.arange(3)])]
    [[0, 1, 2]]
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    sources = _sources()
    if not os.path.isabs(home) or not sources:  # there are no files in a zip archive
        return make()
    folder = os.path.realpath(os.path.join(home, "volt/arrays"))
    path = Path(folder, _digest(repr((sources, *key)).encode()).hex())
    with suppress(OSError, ValueError):
        result = _read(path)
        os.utime(path)
        return result
    result = make()
    if result:
        with suppress(OSError):
            _write(path, result)
    return result


def _read(path: Path) -> Arrays:
    """Read a whole file that no other user can have changed. Raises OSError or ValueError."""
    with path.open("rb") as file:
        if find_shared(path.parent) or not is_own(file.fileno()):
            raise PermissionError
        check = file.read(_CHECK)
        data = file.read()
    if check != _digest(path.name.encode() + data):
        raise ValueError
    arrays = BytesIO(data)
    result = Arrays()
    while arrays.tell() < len(data):
        result.append(np.lib.format.read_array(arrays))
    return result


def _write(path: Path, arrays: Arrays) -> None:
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    if find_shared(path.parent):
        return
    file = BytesIO()
    for array in arrays:
        np.lib.format.write_array(file, array)
    data = file.getvalue()
    part = path.with_suffix(f".{os.getpid()}-{get_ident()}")
    try:
        part.touch(0o600)
        part.write_bytes(_digest(path.name.encode() + data) + data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    for old in sorted(path.parent.iterdir(), key=os.path.getmtime)[:-MOST]:
        old.unlink(missing_ok=True)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_CHECK).digest()


@cache
def _sources() -> list[object]:
    """Return the state of VOLT's files and of Polars, which defines classes of characters."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    if files:
        polars = Path(getattr(find_spec("polars"), "origin", __file__)).parents[1]
        files += sorted(polars.glob("polars*.dist-info"))
    return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files]
