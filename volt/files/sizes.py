"""How large files are that can be read again and again: for progress, and to tell them from pipes.

>>> size_of("-"), size_of("/dev/null"), size_of(__file__) > 500
(None, None, True)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from volt.errors import VoltError, unreadable
from volt.urls import plain_path, url_of


def size_of(path: str) -> int | None:
    """Bytes of a file; None for a pipe, for what is not there, and where a server does not tell."""
    if url_of(path) is None:
        path = plain_path(path)
        return os.path.getsize(path) if os.path.isfile(path) else None
    from volt.files.remote import look

    try:
        return look(path).size
    except OSError:  # told where it is read
        return None


def mark_of(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Bytes, and the time of change, or the number of the version behind a URL; None if there is nothing.

    >>> mark_of("/nowhere/a.txt"), mark_of(__file__) == mark_of(__file__)
    (None, True)
    """
    if (url := url_of(path)) is None:
        with suppress(OSError):
            found = os.stat(plain_path(os.fspath(path)))
            return found.st_size, found.st_mtime_ns
        return None
    from volt.files.remote import look

    with suppress(OSError):
        return look(url).stamp
    return None


def total_size(paths: Iterable[str]) -> int | None:
    """Bytes of all files; None if they are not known of one.

    >>> total_size([__file__, "-"])
    """
    sizes = list(map(size_of, paths))
    return None if None in sizes else sum(filter(None, sizes))


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether there is something, whatever it is, at a path or behind a URL.

    Raises VoltError if a server does not tell.

    >>> exists(__file__), exists("/nowhere/a.txt")
    (True, False)
    """
    if (url := url_of(path)) is None:
        return os.path.lexists(plain_path(os.fspath(path)))
    from volt.files.remote import look

    try:
        look(url)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreadable(url, error, kind=VoltError) from error
    return True


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a file, or a URL, rather than a folder, a pipe or nothing.

    >>> is_file(__file__), is_file("-"), is_file("s3://bucket/a.txt")
    (True, False, True)
    """
    return url_of(path) is not None or os.path.isfile(plain_path(os.fspath(path)))
