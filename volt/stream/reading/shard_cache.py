"""The cache folder: for each indexed file an index of JSON, and perhaps a copy of its pieces that the index leads to.

An entry belongs to one path, size and times of change. Index and copy are made in one pass, and appear whole or not at
all. One process makes them, and others that want the same wait. An index holds a checksum of itself: one that is
damaged, or does not fit its file, is made again.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     entry = Entry.of(Path(folder), "a.tsv", 17)
...     entry.store({"lines": 3})
...     entry.load()
{'lines': 3}
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from volt.files.atomic import write_atomic

VERSION = 3
Record = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """What the cache keeps for one file: `index`, `copy` and `lock` are its paths, of which there need be none."""

    index: Path

    @classmethod
    def of(cls, cache: Path, *key: object) -> Entry:
        """The entry for a key, JSON-able: all that index and copy depend on."""
        name = blake2b(json.dumps([VERSION, *key]).encode(), digest_size=12).hexdigest()
        return cls(cache / f"{name}.json")

    @property
    def copy(self) -> Path:
        """The split copy."""
        return self.index.with_suffix(".lines.zst")

    @property
    def lock(self) -> Path:
        """What is locked while index and copy are made."""
        return self.index.with_suffix(".lock")

    def load(self) -> Record | None:
        """What the index holds, if it is there and whole. Its time of change becomes that of its last use."""
        try:
            stored = json.loads(self.index.read_bytes())
            if stored["version"] != VERSION or stored["check"] != _check(stored["record"]):
                return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        with suppress(OSError):  # a folder that may only be read can still be used
            os.utime(self.index)
        record: Record = stored["record"]
        return record

    def store(self, record: Record) -> None:
        """Write the index. Raises OutputError if it cannot be."""
        with write_atomic(self.index) as file:
            file.write(json.dumps({"version": VERSION, "check": _check(record), "record": record}).encode())

    def kept(self, load: Callable[[Record], T | None], make: Callable[[], tuple[T, Record]]) -> T:
        """What the index stands for, made now if there is none.

        load: of what the index holds; None if that does not fit its file
        make: the thing, and what the index is to hold
        Raises OutputError or OSError if the cache cannot be written.
        """
        if (found := self._found(load)) is not None:
            return found
        self.index.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.lock):
            if (found := self._found(load)) is not None:  # another process has just made it
                return found
            made, record = make()
            self.store(record)
            return made

    def _found(self, load: Callable[[Record], T | None]) -> T | None:
        record = self.load()
        return None if record is None else load(record)


def _check(record: object) -> str:
    return blake2b(json.dumps(record).encode(), digest_size=8).hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that dies with the process."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def default_cache() -> Path:
    """Where indices and split copies are kept unless the caller says otherwise.

    >>> default_cache().name
    'stream'
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volt" / "stream"
