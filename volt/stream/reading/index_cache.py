"""`cached_index`: the index of a shard, from a cache folder if the shard's files have not changed.

An entry of the cache has up to three files, named by a digest of path, size, modification time and
options:

    3f2a….json         the index, with a checksum
    3f2a….lines.lz4    the split copy of a compressed file or a table
    3f2a….lock         a lock: one process writes the entry, others that need the entry wait
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
_INDEX = ".json"
_COPY = ".lines.lz4"
_LOCK = ".lock"
_SUFFIXES = (_INDEX, _COPY, _LOCK)
_NAME = re.compile(rf"([0-9a-f]{{24}})({'|'.join(map(re.escape, _SUFFIXES))})")
Index = tuple[tuple[Segments, ...], Facts]  # the segments of each file of a shard; facts


def cached_index(
    paths: Sequence[str],
    make: Callable[[Path], Index],
    *,
    cache: Path | None,
    max_line: int | None,
    key: Sequence[object],
) -> Index:
    """Return the index of a shard: from the cache, or made anew if a file has changed or a line
    exceeds `max_line`.

    paths: the files; the cache lists the entry under the first file
    make: makes the index; its argument is the path for a split copy of the file
    cache: the folder; by default `default_cache`
    max_line: the maximum bytes of a line; None for no limit
    key: further JSON values on which the index depends, such as the lines per segment
    """
    source, *others = map(identity_of, paths)
    digest = blake2b(json.dumps([VERSION, source, *key, *others]).encode(), digest_size=12)
    entry = (cache or default_cache()) / f"{digest.hexdigest()}{_INDEX}"
    copy = entry.with_suffix(_COPY)
    index = _read_valid(entry, paths, copy, max_line)
    if index is not None:
        return index
    entry.parent.mkdir(parents=True, exist_ok=True)
    with locked(entry.with_suffix(_LOCK)):
        index = _read_valid(entry, paths, copy, max_line)
        if index is None:  # else another process has just created it
            index = make(copy)
            files, facts = index
            record = {"files": [file.to_record() for file in files], "facts": facts._asdict()}
            head = {"version": VERSION, "check": _checksum(record), "source": source}
            with write_atomic(entry) as file:
                file.write(json.dumps({**head, "record": record}).encode())
    return index


def _read_valid(
    entry: Path, paths: Sequence[str], copy: Path, max_line: int | None
) -> Index | None:
    """Return the index in the cache, if it is valid for these files."""
    stored = _read_entry(entry)
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
        return tuple(Segments.from_record(file, path, copy) for file, path in pairs), facts
    return None


def _read_entry(index: Path) -> dict[str, Any] | None:
    """Return the values in an index file; None if it is missing, damaged, or of another version."""
    try:
        stored: dict[str, Any] = json.loads(index.read_bytes())
        if stored["version"] == VERSION and stored["check"] == _checksum(stored["record"]):
            return stored
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _checksum(record: object) -> str:
    return blake2b(json.dumps(record).encode(), digest_size=8).hexdigest()


@contextmanager
def locked(path: Path, *, waits: bool = True) -> Iterator[bool]:
    """Lock a file while the context lasts, and yield True.

    waits: wait for another process that has the lock; if False, yield False instead
    """
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
    """Return the bytes of all entries in a cache folder."""
    return sum(size_of(str(path)) or 0 for paths in _list_entries(cache).values() for path in paths)


def prune(cache: Path, *, days: float = 30) -> int:
    """Remove damaged, unused and outdated entries from a cache folder; return the number of bytes
    freed.

    days: how long after its last use an entry counts as unused
    """
    freed = 0
    for stem, paths in _list_entries(cache).items():
        with suppress(OSError), locked(cache / f"{stem}{_LOCK}", waits=False) as is_ours:
            if is_ours and not _is_in_use(*paths[:2], days=days):
                freed += sum(size_of(str(path)) or 0 for path in paths)
                for path in paths:  # others may remove it, too
                    path.unlink(missing_ok=True)
    for unfinished in cache.glob(".*.part"):
        sweep(unfinished)
    return freed


def _list_entries(cache: Path) -> dict[str, list[Path]]:
    """Return the digest of each entry → the paths that its files may have."""
    names = list[str]()
    if cache.is_dir():
        names = sorted(os.listdir(cache))
    stems = [match[1] for name in names if (match := _NAME.fullmatch(name))]
    return {stem: [cache / f"{stem}{suffix}" for suffix in _SUFFIXES] for stem in stems}


def _is_in_use(index: Path, copy: Path, *, days: float) -> bool:
    stored = _read_entry(index)
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
