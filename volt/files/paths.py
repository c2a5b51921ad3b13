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

from volt.errors import ConfigError, CorpusError, VoltError, shown_path, unreadable
from volt.files import remote
from volt.urls import SCHEMES, bare, foreign_scheme, is_web, plain_path, same, url_of


def size_of(path: str) -> int | None:
    """Return the size of a file in bytes; None if it is unknown."""
    with suppress(OSError, ValueError):  # reading it raises the error
        return _look(path).size
    return None


def mark_of(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return a file's size and modification time, or a URL's size and version; None if it does not exist."""
    with suppress(OSError):
        return _look(path).stamp
    return None


Identity = tuple[str, int, int, int]


def identity_of(path: str) -> Identity:
    """Return path, size, modification and change time (which users cannot set) of a file. Raises OSError.

    For a URL: path, size, version (0 if unknown), and a digest of the query, which may contain secrets.
    """
    if url := url_of(path):
        from hashlib import blake2b  # takes a while, as it loads OpenSSL

        size, version = remote.look(url).stamp
        query = same(url).partition("?")[2] if is_web(url) else ""
        digest = int.from_bytes(blake2b(query.encode(), digest_size=7).digest()) if query else 0
        return bare(same(url)), size, version, digest
    status = os.stat(path)
    return os.path.abspath(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _look(path: str | os.PathLike[str]) -> remote.RemoteStat:
    if (url := url_of(path)) is not None:
        return remote.look(url)
    status = os.stat(plain_path(os.fspath(path)))
    is_file, is_folder = stat.S_ISREG(status.st_mode), stat.S_ISDIR(status.st_mode)
    return remote.RemoteStat(status.st_size if is_file else None, status.st_mtime_ns, is_folder)


def total_size(paths: Iterable[str]) -> int | None:
    """Return the total size in bytes; None if one size is unknown."""
    sizes = list(map(size_of, paths))
    return None if None in sizes else sum(filter(None, sizes))


def exists(path: str | os.PathLike[str]) -> bool:
    """Check whether a path or URL of any kind exists. Raises VoltError if a server fails."""
    if (url := url_of(path)) is None:
        return os.path.lexists(plain_path(os.fspath(path)))
    try:
        remote.look(url)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreadable(url, error, kind=VoltError) from error
    return True


def check_readable(path: str | os.PathLike[str], *, kind: type[VoltError]) -> None:
    """Raise an error of class `kind` if a path or URL cannot be read."""
    if (url := url_of(path)) is None:
        path = plain_path(os.fspath(path))
    try:
        if url is not None:
            remote.look(url)
        elif path != "-" and stat.S_ISREG(os.stat(path).st_mode) and not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=kind) from None


def check_files(paths: Iterable[str], why: str) -> list[str]:
    """Return the paths. Raises ConfigError, which starts with the reason, if one of them, such as stdin, is not a file.

    A missing file passes; reading it raises the error.
    """
    paths = list(paths)
    for path in paths:
        if path == "-" or (os.path.exists(plain_path(path)) and not is_file(path)):
            name = "stdin" if path == "-" else shown_path(path)
            raise ConfigError(
                f"{name}: {why} files; write its lines to a file, and give the file's path"
            )
    return paths


def is_file(path: str | os.PathLike[str]) -> bool:
    return url_of(path) is not None or os.path.isfile(plain_path(os.fspath(path)))


_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([^{}]+)\})")
Sources = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def expand(sources: Sources) -> list[str]:
    """Return the paths to read: files, globs (sorted), folders (sorted, recursive, no hidden files), "-" (stdin), URLs.

    sources: one or more, such as s3://bucket/corpus/*.gz
    Links to folders are not followed; pipes, sockets and devices are read only if they are given by name.
    Raises CorpusError if a source is missing, matches nothing or is a folder without files.

    >>> expand("-")
    ['-']
    """
    named = [sources] if isinstance(sources, str | os.PathLike) else sources
    paths = [path for source in named for path in _expand_one(plain_path(os.fspath(source)))]
    if not paths:
        raise CorpusError("no corpus was given; give a file, a directory, a pattern or - for stdin")
    return paths


def expand_user(path: str) -> str:
    """Expand `~`, `~name`, `$NAME` and `${NAME}` in a path. Raises ConfigError if a user or variable is not known."""
    if url_of(path) is not None:
        return _VARIABLE.sub(lambda match: _value_of(match, path), path)
    home, slash, rest = path.partition("/") if path.startswith("~") else ("", "", path)
    if (result := os.path.expanduser(home)) == home and home:
        raise ConfigError(
            f"{shown_path(path)}: the home folder {home} is not known; write the path out"
        )
    return result + slash + _VARIABLE.sub(lambda match: _value_of(match, path), rest)


def _value_of(variable: re.Match[str], path: str) -> str:
    name = variable[1] or variable[2]
    if name not in os.environ:
        remedy = "set it, or write the path out"
        raise ConfigError(f"{shown_path(path)}: the variable {name} is not set; {remedy}")
    return os.environ[name]


def stands_for_several(path: str) -> bool:
    """Check whether a path is a pattern. The path of an existing local file is not, whatever its characters.

    >>> stands_for_several("*.tsv"), stands_for_several("https://host/a.txt?key=5")
    (True, False)
    """
    if (url := url_of(path)) is None:
        return glob.has_magic(path) and not os.path.lexists(path)
    return remote.has_magic(url)


def _expand_one(source: str) -> list[str]:
    if (url := url_of(source)) is not None:
        return _files_of_url(url)
    exists = source == "-" or os.path.lexists(source)
    matches = (
        [source] if exists else sorted(path for path in _matches(source) if not _is_pipe(path))
    )
    paths = [
        path
        for match in matches
        for path in (_files_below(match) if os.path.isdir(match) else [match])
    ]
    if not paths:
        missing = "no file matches this pattern" if glob.has_magic(source) else "no such file"
        if (scheme := foreign_scheme(source)) is not None:
            raise CorpusError(
                f"{shown_path(source)}: {scheme}:// is not supported; copy it, or use one of {SCHEMES}"
            )
        result = "the directory contains no files" if matches else missing
        raise CorpusError(f"{shown_path(source)}: {result}; check the path")
    return list({os.path.normpath(path): path for path in reversed(paths)}.values())[::-1]


def _files_of_url(url: str) -> list[str]:
    try:
        result = remote.files_at(url)
    except OSError as error:
        raise unreadable(url, error, kind=CorpusError) from error
    if not result:
        what = (
            "no file matches this pattern"
            if remote.has_magic(url)
            else "the directory contains no files"
        )
        raise CorpusError(f"{shown_path(url)}: {what}; check the path")
    return result


def _matches(pattern: str) -> list[str]:
    parts = pattern.split("/")
    if "**" not in parts:
        return glob.glob(pattern)
    place = parts.index("**")
    start, rest = "".join(f"{part}/" for part in parts[:place]), "/".join(parts[place + 1 :])
    folders = [
        folder for base in (glob.glob(start) if start else [""]) for folder in _folders(base)
    ]
    return [match for folder in folders for match in _matches(glob.escape(folder) + (rest or "*"))]


def _folders(base: str) -> Iterator[str]:
    for folder, inner, _ in os.walk(base or "."):
        inner[:] = [name for name in inner if not name.startswith(".")]
        yield os.path.join(folder, "").removeprefix("" if base else "./")


def _is_pipe(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _files_below(folder: str) -> list[str]:
    result = list[str]()
    for place, inner, names in os.walk(folder, onerror=_refuse):
        inner[:] = [name for name in inner if not name.startswith(".")]
        result += (str(Path(place, name)) for name in names if not name.startswith("."))
    return sorted(filter(os.path.isfile, result))


def _refuse(error: OSError) -> None:
    raise unreadable(
        error.filename, error, kind=CorpusError, remedy="name the files that can be read"
    ) from error
