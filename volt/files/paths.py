"""Expand file names, globs, folders and URLs to the paths to read; check existence and size."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from volt.errors import ConfigError, CorpusError, VoltError, shown_path, unreadable
from volt.files import remote
from volt.urls import SCHEMES, bare, foreign_scheme, is_web, plain_path, same, url_of

Identity = tuple[str, int, int, int]
Sources = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
_COMPRESSED = (".gz", ".bz2", ".zst", ".xz")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([^{}]+)\})")  # $NAME, ${NAME}
_NO_MATCH = "no file matches this pattern"
_NO_FILES = "the directory contains no files"


def without_compression(name: str) -> str:
    """Return a file's name without an ending of compression.

    >>> without_compression("a.txt.gz"), without_compression("a.txt")
    ('a.txt', 'a.txt')
    """
    stem, ending = os.path.splitext(name)
    return stem if ending in _COMPRESSED else name


def size_of(path: str) -> int | None:
    """Return the size of a file in bytes; None if it is unknown."""
    with suppress(OSError, ValueError):  # reading it raises the error
        return _status_of(path).size
    return None


def mark_of(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return a file's size and modification time, or a URL's size and version; None if it does not
    exist."""
    with suppress(OSError):
        return _status_of(path).stamp
    return None


def identity_of(path: str) -> Identity:
    """Return path, size, modification and change time (which users cannot set) of a file.

    Raises OSError.

    For a URL: path, size, version (0 if unknown), and a digest of the query, which may contain
    secrets.
    """
    url = url_of(path)
    if url:
        key = same(url)
        query = ""
        if is_web(key):
            query = key.partition("?")[2]
        return bare(key), *remote.look(url).stamp, remote.number_of(query)
    status = os.stat(path)
    return os.path.abspath(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _status_of(path: str | os.PathLike[str]) -> remote.RemoteStat:
    url = url_of(path)
    if url:
        return remote.look(url)
    status = os.stat(_local_path(path))
    size = None
    if stat.S_ISREG(status.st_mode):
        size = status.st_size
    return remote.RemoteStat(size, status.st_mtime_ns, stat.S_ISDIR(status.st_mode))


def _local_path(path: str | os.PathLike[str]) -> str:
    return plain_path(os.fspath(path))


def total_size(paths: Iterable[str]) -> int | None:
    """Return the total size in bytes; None if one size is unknown."""
    total = 0
    for path in paths:
        size = size_of(path)
        if size is None:
            return None
        total += size
    return total


def exists(path: str | os.PathLike[str]) -> bool:
    """Check whether a path or URL of any kind exists. Raises VoltError if a server fails."""
    url = url_of(path)
    if not url:
        return os.path.lexists(_local_path(path))
    try:
        remote.look(url)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreadable(url, error, kind=VoltError) from error
    return True


def check_readable(path: str | os.PathLike[str], *, kind: type[VoltError]) -> None:
    """Raise an error of class `kind` if a path or URL cannot be read."""
    name = _local_path(path)
    try:
        url = url_of(path)
        if url:
            remote.look(url)
        elif name == "-" or os.access(name, os.R_OK):
            return
        elif stat.S_ISREG(os.stat(name).st_mode):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (OSError, ValueError) as error:
        raise unreadable(name, error, kind=kind) from None


def check_files(paths: Iterable[str], why: str) -> list[str]:
    """Return the paths as a list. Raises ConfigError for stdin, a pipe, a device or a folder.

    A missing file is accepted; reading it will raise the error.

    why: the reason, which ends before the word "files", such as "workers read only"
    """
    paths = list(paths)
    for path in paths:
        name = shown_path(path)
        if path == "-":
            name = "stdin"
        elif is_file(path) or not os.path.exists(plain_path(path)):
            continue
        raise ConfigError(
            f"{name}: {why} files; write its lines to a file, and give the file's path"
        )
    return paths


def is_file(path: str | os.PathLike[str]) -> bool:
    return url_of(path) is not None or os.path.isfile(_local_path(path))


def expand(sources: Sources) -> list[str]:
    """Return the paths to read: files, globs (sorted), folders (sorted, recursive, no hidden
    files), "-" (stdin), URLs.

    sources: one or more, such as s3://bucket/corpus/*.gz
    Links to folders are not followed; pipes, sockets and devices are read only if they are given by
    name. Raises CorpusError if a source is missing, matches nothing or is a folder without files.

    >>> expand("-")
    ['-']
    """
    if isinstance(sources, str | os.PathLike):
        sources = [sources]
    paths = list[str]()
    for source in sources:
        paths += _expand_one(_local_path(source))
    if not paths:
        raise CorpusError("no corpus was given; give a file, a directory, a pattern or - for stdin")
    return paths


def expand_user(path: str) -> str:
    """Expand `~`, `~name`, `$NAME` and `${NAME}` in a path.

    Raises ConfigError if a user or variable is not known.
    """

    def value(variable: re.Match[str]) -> str:
        name = variable[1] or variable[2]
        if name not in os.environ:
            raise ConfigError(
                f"{shown_path(path)}: the variable {name} is not set; set it, or write the path out"
            )
        return os.environ[name]

    if url_of(path) or not path.startswith("~"):
        return _VARIABLE.sub(value, path)
    user, slash, rest = path.partition("/")
    home = os.path.expanduser(user)
    if home == user:
        raise ConfigError(
            f"{shown_path(path)}: the home folder {user} is not known; write the path out"
        )
    return home + slash + _VARIABLE.sub(value, rest)


def stands_for_several(path: str) -> bool:
    """Check whether a path is a pattern.

    The path of an existing local file is not a pattern, even with "*" in it.

    >>> stands_for_several("*.tsv"), stands_for_several("https://host/a.txt?key=5")
    (True, False)
    """
    url = url_of(path)
    if url:
        return remote.has_magic(url)
    return glob.has_magic(path) and not os.path.lexists(path)


def _expand_one(source: str) -> list[str]:
    url = url_of(source)
    if url:
        try:
            paths = remote.files_at(url)
        except OSError as error:
            raise unreadable(url, error, kind=CorpusError) from error
        fault = _NO_MATCH if remote.has_magic(url) else _NO_FILES
    else:
        paths, fault = _find_local_files(source)
    if paths:
        return paths

    scheme = foreign_scheme(source)
    if scheme:
        fault = f"{scheme}:// is not supported; copy it, or use one of {SCHEMES}"
    else:
        fault += "; check the path"
    raise CorpusError(f"{shown_path(url or source)}: {fault}")


def _find_local_files(source: str) -> tuple[list[str], str]:
    """Return the files of a path or pattern, and the error if there are none."""
    matches = [source]
    if source != "-" and not os.path.lexists(source):
        matches = sorted(path for path in _expand_pattern(source) if not _is_pipe(path))
    if not matches:
        return [], _NO_MATCH if glob.has_magic(source) else "no such file"

    files = dict[str, str]()
    for match in matches:
        for path in _files_below(match) if os.path.isdir(match) else [match]:
            key = os.path.normpath(path)
            files[key] = files.pop(key, path)  # in the order of last occurrence
    return list(files.values()), _NO_FILES


def _expand_pattern(pattern: str) -> list[str]:
    """Return the paths that match a pattern.

    A part `**` stands for any number of folders that are not hidden.
    """
    parts = pattern.split("/")
    if "**" not in parts:
        return glob.glob(pattern)
    index = parts.index("**")
    rest = "/".join(parts[index + 1 :]) or "*"
    bases = [""]
    if index:
        bases = glob.glob("/".join(parts[:index]) + "/")
    result = list[str]()
    for base in bases:
        for folder, _ in _walk(base or ".", onerror=None):
            inside = os.path.join(folder, "")
            if not base:
                inside = inside.removeprefix("./")
            result += _expand_pattern(glob.escape(inside) + rest)
    return result


def _walk(base: str, *, onerror: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield a folder and all folders below it, each with its files; without hidden folders and
    files."""
    for folder, inner, names in os.walk(base, onerror=onerror):
        inner[:] = filter(_is_visible, inner)
        yield folder, list(filter(_is_visible, names))


def _is_visible(name: str) -> bool:
    return not name.startswith(".")


def _is_pipe(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _files_below(folder: str) -> list[str]:
    result = list[str]()
    for inner, names in _walk(folder, onerror=_raise_unreadable):
        result += (str(Path(inner, name)) for name in names)
    return sorted(filter(os.path.isfile, result))


def _raise_unreadable(error: OSError) -> None:
    remedy = "name the files that can be read"
    raise unreadable(error.filename, error, kind=CorpusError, remedy=remedy) from error
