"""Names of files, globs, folders and "-" → the paths to read, in a stated order.

>>> expand("-")
['-']
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from volt.errors import CorpusError

Sources = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def expand(sources: Sources) -> list[str]:
    """Files, globs (sorted), directories (sorted, recursive, no dot files) and "-" (stdin) → paths to read.

    Raises CorpusError if one is missing, matches nothing or is a directory without files.

    >>> expand("-")
    ['-']
    """
    named = [sources] if isinstance(sources, str | os.PathLike) else sources
    paths = [path for source in named for path in _expand_one(os.fspath(source))]
    if not paths:
        raise CorpusError("no corpus was given; name a file, a directory, a pattern or - for stdin")
    return paths


def _expand_one(source: str) -> list[str]:
    exists = source == "-" or os.path.lexists(source)
    matches = [source] if exists else sorted(glob.glob(source, recursive=True))
    paths = [path for match in matches for path in (_files_below(match) if os.path.isdir(match) else [match])]
    if not paths:
        missing = "no file matches this pattern" if glob.has_magic(source) else "no such file"
        raise CorpusError(f"{source}: {'the directory holds no files' if matches else missing}; check the path")
    return paths


def _files_below(folder: str) -> list[str]:
    def hidden(path: Path) -> bool:
        return any(part.startswith(".") for part in path.relative_to(folder).parts)

    return sorted(str(path) for path in Path(folder).rglob("*") if path.is_file() and not hidden(path))
