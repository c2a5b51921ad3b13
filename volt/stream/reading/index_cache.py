"""The cache: for each indexed file a JSON index with a checksum; for compressed files and tables also a copy.

An entry is valid for one path, size and modification time, or for one version of a URL. One process writes it
atomically; other processes that need the entry wait.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from volt.errors import StreamError
from volt.files.atomic import write_atomic
from volt.files.paths import identity_of, size_of
from volt.files.temporary import sweep
from volt.stream.reading.segments import Segments
from volt.stream.reading.shard import Facts
from volt.urls import url_of

VERSION = 8
_INDEX, _COPY, _LOCK = _SUFFIXES = (".json", ".lines.lz4", ".lock")
_NAME = re.compile(rf"([0-9a-f]{{24}})({'|'.join(map(re.escape, _SUFFIXES))})")
Index = tuple[tuple[Segments, ...], Facts]


def cached_index(
    paths: Sequence[str],
    make: Callable[[Path], Index],
    *,
    cache: Path | None,
    max_line: int | None,
    key: Sequence[object],
) -> Index:
    """Return the index of a shard: from the cache, or made anew if a file has changed or a line exceeds `max_line`.

    paths: the files; the cache lists the entry under the first file
    make: makes the index; its argument is the path for a copy of the segments
    key: JSON values on which the index depends, too
    """
    source, *others = map(identity_of, paths)
    digest = blake2b(json.dumps([VERSION, source, *key, *others]).encode(), digest_size=12)
    entry = (cache or default_cache()) / f"{digest.hexdigest()}{_INDEX}"
    copy = entry.with_suffix(_COPY)
    index = _current(entry, paths, copy, max_line)
    if index is not None:
        return index
    entry.parent.mkdir(parents=True, exist_ok=True)
    with locked(entry.with_suffix(_LOCK)):
        index = _current(entry, paths, copy, max_line)
        if index is None:  # else another process has just created it
            index = make(copy)
            files, facts = index
            record = {"files": [file.record() for file in files], "facts": facts._asdict()}
            values = {
                "version": VERSION,
                "check": _check(record),
                "source": source,
                "record": record,
            }
            with write_atomic(entry) as file:
                file.write(json.dumps(values).encode())
    return index


def _current(entry: Path, paths: Sequence[str], copy: Path, max_line: int | None) -> Index | None:
    """Return the index in the cache, if it is valid for these files."""
    stored = _stored(entry)
    if stored is None:
        return None
    with suppress(OSError):  # a read-only cache can still be used
        os.utime(entry)
    record = stored["record"]
    facts = Facts(**record["facts"])
    if max_line is not None and facts.longest > max_line:
        return None
    with suppress(StreamError):  # a file or its copy has changed
        pairs = zip(record["files"], paths, strict=True)
        return tuple(Segments.of_record(one, path, copy) for one, path in pairs), facts
    return None


def _stored(index: Path) -> dict[str, Any] | None:
    try:
        stored: dict[str, Any] = json.loads(index.read_bytes())
        if stored["version"] == VERSION and stored["check"] == _check(stored["record"]):
            return stored
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _check(record: object) -> str:
    return blake2b(json.dumps(record).encode(), digest_size=8).hexdigest()


@contextmanager
def locked(path: Path, *, waits: bool = True) -> Iterator[bool]:
    """Lock a file while the context lasts. If `waits` is False and another process has the lock, yield False."""
    with ExitStack() as files:
        while True:
            file = files.enter_context(path.open("a"))  # "w" would empty the target of a link
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    break  # else another process removed it before it was locked
        yield True


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volt" / "stream"


def cache_size(cache: Path) -> int:
    return sum(size_of(str(path)) or 0 for paths in _entries(cache).values() for path in paths)


def prune(cache: Path, *, days: float = 30) -> int:
    """Remove damaged, unused and outdated entries from a cache folder; return the number of bytes freed.

    days: how long after its last use an entry counts as unused
    """
    freed = 0
    for stem, paths in _entries(cache).items():
        with suppress(OSError), locked(cache / f"{stem}{_LOCK}", waits=False) as is_ours:
            if is_ours and not _is_wanted(*paths[:2], days=days):
                freed += sum(size_of(str(path)) or 0 for path in paths)
                for path in paths:  # others may remove it, too
                    path.unlink(missing_ok=True)
    for unfinished in cache.glob(".*.part"):
        sweep(unfinished)
    return freed


def _entries(cache: Path) -> dict[str, list[Path]]:
    names = list[str]()
    if cache.is_dir():
        names = sorted(os.listdir(cache))
    stems = [result[1] for name in names if (result := _NAME.fullmatch(name))]
    return {stem: [cache / f"{stem}{suffix}" for suffix in _SUFFIXES] for stem in stems}


def _is_wanted(index: Path, copy: Path, *, days: float) -> bool:
    stored = _stored(index)
    if stored is None:
        return False
    try:
        path = stored["source"][0]
        is_local = url_of(path) is None  # servers are not contacted
        if is_local and list(identity_of(path)) != stored["source"]:
            return False
        used = index.stat().st_mtime
        if copy.exists():
            used = max(used, copy.stat().st_atime)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return False
    return time.time() - used < days * 86_400
