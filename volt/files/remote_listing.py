"""URLs of files, folders and patterns → the URLs of the files there, in the order that local paths have.

A pattern means what it means for local paths: `*`, `?` and `[…]` stand for parts of a name, `**` for folders at any
depth, and none of them for names that begin with a dot. In http and https "?" begins a query; folders there are what
the links of a page lead to, and folders that a pattern matches are not gone into.

>>> import fsspec
>>> for name in ("a.txt", "b.gz", "c/d.gz", "c/.e.gz"):
...     fsspec.filesystem("memory").pipe_file(f"/listing/{name}", b"low")
>>> files_at("memory://listing/*.gz"), files_at("memory://listing/**/*.gz")
(['memory://listing/b.gz'], ['memory://listing/b.gz', 'memory://listing/c/d.gz'])
>>> files_at("memory://listing/")
['memory://listing/a.txt', 'memory://listing/b.gz', 'memory://listing/c/d.gz']
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

from volt.files import remote
from volt.urls import bare, is_web


def files_at(url: str) -> list[str]:
    """The file of a URL, or those of a folder or a pattern, sorted; empty if it is a pattern or folder without any.

    Raises OSError if it is not there or cannot be asked.
    """
    if has_magic(url) and not _is_file(url):
        return sorted(_matching(url))
    found = remote.look(url)
    return sorted(_below(url.rstrip("/"))) if found.is_folder else [url]


def has_magic(url: str) -> bool:
    """Whether a URL is a pattern.

    >>> has_magic("s3://bucket/?.txt"), has_magic("https://host/a.txt?key=*")
    (True, False)
    """
    return re.search(r"[*\[]" if is_web(url) else r"[*?\[]", bare(url)) is not None


def _is_file(url: str) -> bool:
    """Whether a file has this name, signs of patterns and all."""
    try:
        return not is_web(url) and not remote.look(url).is_folder
    except FileNotFoundError:
        return False


def _below(folder: str, *, depth: int | None = None) -> Iterator[str]:
    """The files below a folder, but for hidden ones and those in hidden folders."""
    start = f"{folder}/"
    try:
        found = _linked(start, depth) if is_web(folder) else remote.ask(folder, lambda fs, path: fs.find(path))
    except FileNotFoundError:
        return
    for name in found:
        url = name if is_web(folder) else f"{folder.partition('://')[0]}://{name.lstrip('/')}"
        if url.startswith(start) and not any(part[:1] in ("", ".") for part in url.removeprefix(start).split("/")):
            yield url


def _linked(folder: str, depth: int | None) -> Iterator[str]:
    """The files that the page of a folder leads to, and those of its folders, so many deep."""
    for link in remote.ask(folder, lambda system, path: system.ls(path, detail=False)):
        if link.endswith("/") and link.startswith(folder) and link != folder:
            yield from _linked(link, depth and depth - 1) if depth != 1 else ()
        elif "?" not in link.removeprefix(folder):
            yield link


def _matching(pattern: str) -> Iterator[str]:
    """The files that a pattern matches, and those in folders that it matches."""
    parts = pattern.rstrip("/").split("/")
    magic = (number for number, part in enumerate(parts) if number > 2 and has_magic(f"s3://{part}"))
    fixed = next(magic, None)
    if fixed is None:  # brackets in the host, as of IPv6
        return iter([pattern])
    wanted = re.compile("".join(map(_expression, parts[fixed:])) + "(?:/.*)?", re.DOTALL)
    base = "/".join(parts[:fixed])
    depth = len(parts) - fixed if is_web(pattern) and "**" not in parts else None
    return (url for url in _below(base, depth=depth) if wanted.fullmatch(url.removeprefix(base)))


def _expression(part: str) -> str:
    """The regular expression of a part of a pattern, with the slash before it; hidden names are left out before."""
    if part == "**":
        return "(?:/[^/]*)*?"
    return "/" + re.sub(r"\(\?s:(.*)\)\\Z", r"\1", fnmatch.translate(part)).replace(".*", "[^/]*")
