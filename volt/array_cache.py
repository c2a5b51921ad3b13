"""Cache arrays that take long to compute, in files that only the user can change.

    ~/.cache/volt/arrays/DIGEST      a file for each key: a checksum, then the arrays in numpy's format

DIGEST is computed from the key and the versions of VOLT and Polars, so other versions do not read
the file. The checksum covers the arrays and the file's name, so a file that is damaged or renamed
is computed again. At most `MOST_FILES` files are
retained: those used last.
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
MOST_FILES = 32
_DIGEST_SIZE = 16  # bytes, of checksums and names


def cached_arrays(key: Sequence[object], make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of a key from the cache. If they are not there, call `make`, and store the
    arrays it returns.

    key: everything that the arrays depend on, except the versions of VOLT and Polars
    make: returns the arrays; an empty list is not stored

    >>> [array.tolist() for array in cached_arrays(["a doctest"], lambda: [np.arange(3)])]
    [[0, 1, 2]]
    """
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    sources = _list_sources()
    if not os.path.isabs(cache_home) or not sources:  # there are no files in a zip archive
        return make()
    folder = os.path.realpath(os.path.join(cache_home, "volt/arrays"))
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
        checksum = file.read(_DIGEST_SIZE)
        data = file.read()
    if checksum != _digest(path.name.encode() + data):
        raise ValueError
    buffer = BytesIO(data)
    arrays = Arrays()
    while buffer.tell() < len(data):
        arrays.append(np.lib.format.read_array(buffer))
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    if find_shared(path.parent):
        return
    buffer = BytesIO()
    for array in arrays:
        np.lib.format.write_array(buffer, array)
    data = buffer.getvalue()
    temporary = path.with_suffix(f".{os.getpid()}-{get_ident()}")
    try:
        temporary.touch(0o600)
        temporary.write_bytes(_digest(path.name.encode() + data) + data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    by_last_use = sorted(path.parent.iterdir(), key=os.path.getmtime)
    for old in by_last_use[:-MOST_FILES]:
        old.unlink(missing_ok=True)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_SIZE).digest()


@cache
def _list_sources() -> list[object]:
    """Return the path, time and size of each file of VOLT, and of Polars, whose version defines
    classes of characters."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    if files:
        polars = Path(getattr(find_spec("polars"), "origin", __file__)).parents[1]
        files += sorted(polars.glob("polars*.dist-info"))
    return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files]
