"""Caches of slow values, which threads share: the contents of files, and other values by key.

A pickled copy of a cache, such as in a worker process, is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from volt.files.paths import mark_of

T = TypeVar("T")
_MOST_FILES = 1 << 10


class SharedCache:
    """A cache of at most `most` values; the oldest value is dropped first."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._values = dict[Hashable, Any]()
        self._lock = RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key. make: a function that makes the value if it is not cached"""
        with self._lock:
            if key not in self._values:
                while len(self._values) >= self._most:
                    del self._values[next(iter(self._values))]
                self._values[key] = make()
            result: T = self._values[key]
        return result

    def __reduce__(self) -> tuple[partial[SharedCache], tuple[()]]:
        return partial(SharedCache, most=self._most), ()


class LoadedFiles:
    """The contents of files, each loaded once, and again after the file changes."""

    def __init__(self) -> None:
        self._cache = SharedCache(most=_MOST_FILES)

    def load(self, path: Path, read: Callable[[Path], T]) -> T:
        """Return read(path), cached until the file's size or time of change differs."""
        return self._cache.get((read, str(path), mark_of(path)), lambda: read(path))


def fingerprint_of(content: bytes) -> str:
    """Return a digest of 16 hexadecimal digits.

    >>> fingerprint_of(b"low")
    '8b165bb3fea16d65'
    """
    return blake2b(content, digest_size=8).hexdigest()
