"""The cache folder: for each indexed file a JSON index with a checksum, and perhaps a copy of its pieces.

An entry belongs to one path, size and modification time, or to one version of a URL. One process writes it, atomically;
others wait.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from volt.files.atomic import write_atomic
from volt.files.temporary import sweep
from volt.stream.reading.shard import Facts, Identity, Segments, identity_of
from volt.urls import url_of

VERSION = 7
_INDEX, _COPY, _LOCK = _SUFFIXES = (".json", ".lines.lz4", ".lock")
_NAME = re.compile(rf"([0-9a-f]{{24}})({'|'.join(map(re.escape, _SUFFIXES))})")
Record = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """The cache entry of one file. source: its `identity_of`"""

    index: Path
    source: Identity

    @classmethod
    def of(cls, cache: Path, source: Identity, *key: object) -> CacheEntry:
        """Return the entry of a file. key: further JSON values that it depends on"""
        name = blake2b(json.dumps([VERSION, source, *key]).encode(), digest_size=12).hexdigest()
        return cls(cache / f"{name}{_INDEX}", source)

    @property
    def copy(self) -> Path:
        return self.index.with_suffix(_COPY)

    @property
    def lock(self) -> Path:
        return self.index.with_suffix(_LOCK)

    def load(self) -> Record | None:
        if (stored := _stored(self.index)) is None:
            return None
        with suppress(OSError):  # a folder that may only be read can still be used
            os.utime(self.index)
        record: Record = stored["record"]
        return record

    def store(self, record: Record) -> None:
        values = {"version": VERSION, "check": _check(record), "source": self.source, "record": record}
        with write_atomic(self.index) as file:
            file.write(json.dumps(values).encode())

    def cached(self, load: Callable[[Record], T | None], make: Callable[[], tuple[T, Record]]) -> T:
        """Return the cached result; create it if missing.

        load: converts an index to the result; None if the index does not match its file
        make: creates the result and its index
        """

        def current() -> T | None:
            record = self.load()
            return None if record is None else load(record)

        if (result := current()) is not None:
            return result
        self.index.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.lock):
            if (result := current()) is not None:  # another process has just made it
                return result
            output, record = make()
            self.store(record)
            return output


Indexed = tuple[Segments, Facts]


def cached_index(entry: CacheEntry, path: str, *, max_line: int | None, make: Callable[[], Indexed]) -> Indexed:
    """Return a file's index from `make`, or from the cache if the file is unchanged and no line exceeds `max_line`."""

    def load(record: Record) -> Indexed | None:
        pieces, facts = Segments.of_record(record["pieces"], path), Facts(**record["facts"])
        fits = max_line is None or facts.longest <= max_line
        return (pieces, facts) if fits and pieces is not None else None

    def build() -> tuple[Indexed, Record]:
        pieces, facts = make()
        return (pieces, facts), {"pieces": pieces.record(), "facts": facts._asdict()}

    return entry.cached(load, build)


def _stored(index: Path) -> Record | None:
    try:
        stored: Record = json.loads(index.read_bytes())
        return stored if stored["version"] == VERSION and stored["check"] == _check(stored["record"]) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _check(record: object) -> str:
    return blake2b(json.dumps(record).encode(), digest_size=8).hexdigest()


@contextmanager
def locked(path: Path, *, waits: bool = True) -> Iterator[bool]:
    """Lock; yield False if another process has the lock. It ends with the process. waits: wait until it is free"""
    with ExitStack() as files:
        while True:
            file = files.enter_context(path.open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    break  # else it was swept before it was locked
        yield True


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volt" / "stream"


def cache_size(cache: Path) -> int:
    return sum(_size(path) for stem in _stems(cache) for path in _files(cache, stem))


def prune(cache: Path, *, days: float = 30) -> int:
    """Remove damaged, unused and outdated entries from a cache folder; return the number of bytes freed.

    days: the time since its last use after which an entry counts as unused
    """
    freed = 0
    for stem in _stems(cache):
        with suppress(OSError), locked(cache / f"{stem}{_LOCK}", waits=False) as is_ours:  # others may remove it too
            if is_ours and not _is_wanted(cache, stem, days):
                freed += sum(map(_size, _files(cache, stem)))
                for path in _files(cache, stem):
                    path.unlink(missing_ok=True)
    for part in cache.glob(".*.part") if cache.is_dir() else ():
        sweep(part)
    return freed


def _stems(cache: Path) -> list[str]:
    names = os.listdir(cache) if cache.is_dir() else []
    return sorted({result[1] for name in names if (result := _NAME.fullmatch(name))})


def _files(cache: Path, stem: str) -> list[Path]:
    return [cache / f"{stem}{suffix}" for suffix in _SUFFIXES]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _is_wanted(cache: Path, stem: str, days: float) -> bool:
    index, copy, *_ = _files(cache, stem)
    stored = _stored(index)
    try:
        if stored is None:
            return False
        path = stored["source"][0]
        if url_of(path) is None and list(identity_of(path)) != stored["source"]:  # servers are not contacted
            return False
        used = max(index.stat().st_mtime, copy.stat().st_atime if copy.exists() else 0.0)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return False
    return time.time() - used < days * 86_400
