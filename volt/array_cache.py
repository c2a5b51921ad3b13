"""Cache arrays that take long to compute, in files that only the user can change.

    ~/.cache/volt/arrays/DIGEST      a file for each key: a checksum, the types and shapes, the arrays

DIGEST is computed from the key and the versions of VOLT and Polars, so other versions do not read
the file. The checksum covers the file's name and everything after it, so a file that is damaged or
renamed is computed again. At most `MOST_FILES` files are retained: those used last.

The arrays of a file are mapped into memory, not read: only the parts that are used take memory,
which processes share until one of them changes it.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from importlib.util import find_spec
from math import prod
from pathlib import Path
from threading import get_ident

import numpy as np

from volt.array_types import Array
from volt.own_files import find_shared, is_own

Arrays = list[Array]
MOST_FILES = 64
_DIGEST_SIZE = 16  # bytes, of checksums and names
_BLOCK_SIZE = 1 << 18  # bytes that are read at once for the checksum
_ALIGNMENT = 64  # the start of an array in its file is a multiple of this number of bytes


def cached_arrays(key: Sequence[object], make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of a key from the cache. If they are not there, call `make`, and store the
    arrays it returns. Callers may change the arrays: changes do not reach the cache.

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
    path = Path(folder, _checksum(repr((sources, *key)), []).hex())
    with suppress(OSError, ValueError, TypeError):
        result = _read(path)
        with suppress(OSError):  # a folder that cannot be written to still holds valid files
            os.utime(path)
        return result
    result = make()
    if result:
        with suppress(OSError):
            _write(path, result)
    return result


def _read(path: Path) -> Arrays:
    """Map a file that no other user can have changed. Raises OSError or ValueError."""
    with path.open("rb", buffering=0) as file:
        if find_shared(path.parent) or not is_own(file.fileno()):
            raise PermissionError
        checksum = file.read(_DIGEST_SIZE)
        if checksum != _checksum(path.name, iter(partial(file.read, _BLOCK_SIZE), b"")):
            raise ValueError
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # changes stay in this process

    data.seek(_DIGEST_SIZE)
    header = json.loads(data.readline())
    end = data.tell()
    arrays = Arrays()
    for type_name, shape in header:
        start = _align(end)
        array = np.frombuffer(data, type_name, count=prod(shape), offset=start)
        arrays.append(array.reshape(shape))
        end = start + array.nbytes
    if not arrays:
        raise ValueError
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    if find_shared(path.parent):
        return
    header = json.dumps([(array.dtype.str, array.shape) for array in arrays])
    data = bytearray(_DIGEST_SIZE)
    data += f"{header}\n".encode()
    for array in arrays:
        data += bytes(_align(len(data)) - len(data))
        data += array.tobytes()
    data[:_DIGEST_SIZE] = _checksum(path.name, [memoryview(data)[_DIGEST_SIZE:]])

    temporary = path.with_suffix(f".{os.getpid()}-{get_ident()}")
    try:
        temporary.touch(0o600)
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    by_last_use = sorted(path.parent.iterdir(), key=os.path.getmtime)
    for old in by_last_use[:-MOST_FILES]:
        old.unlink(missing_ok=True)


def _align(position: int) -> int:
    return position + -position % _ALIGNMENT


def _checksum(name: str, blocks: Iterable[bytes | memoryview]) -> bytes:
    digest = sha256(name.encode())
    for block in blocks:
        digest.update(block)
    return digest.digest()[:_DIGEST_SIZE]


@cache
def _list_sources() -> list[object]:
    """Return the path, time and size of each file of VOLT, and of Polars, whose version defines
    classes of characters."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    if files:
        polars = Path(getattr(find_spec("polars"), "origin", __file__)).parents[1]
        files += sorted(polars.glob("polars*.dist-info"))
    return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files]
