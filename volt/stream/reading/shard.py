"""`Shard`: an indexed file, or line-aligned files, in segments that are read as columns.

    shard of 9 lines, in segments of 4, 4 and 1 lines:   `shard.read(1)` → the columns of lines 4–7

Each kind of shard is a class: `TextShard`, `IdShard`, `TableShard`, and `PairShard` of other
shards.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from volt.errors import CorpusError, OutputError, StreamError, shown_path, unreadable
from volt.files.remote import look
from volt.stream.reading.segments import Segments
from volt.stream.transforms.column import Column
from volt.urls import url_of

_TAB = ord("\t")
_LINE_FEED = ord("\n")
_AGAIN = "which cannot be read repeatedly; write its text to a file first"
# the type of a path that is not a regular file → what the path is, and what to do
_NOT_REGULAR = {
    stat.S_IFDIR: "a folder; name the files in it",
    stat.S_IFIFO: f"a pipe, {_AGAIN}",
    stat.S_IFCHR: f"a device, {_AGAIN}",
    stat.S_IFBLK: f"a device, {_AGAIN}",
    stat.S_IFSOCK: f"a socket, {_AGAIN}",
}


class Facts(NamedTuple):
    """Facts about the lines of a file, or of line-aligned files.

    n_bytes: bytes of all lines, uncompressed.
    longest: bytes of the longest line.
    first_tab: the number, from 1, of the first line with a tab; of a table, of the first line whose
        fields shift (`shifting_lines`); 0 if there is none.
    digest: the digest of all lines, whatever the compression.
    is_utf8: True if all lines are known to be UTF-8.
    dtype: the number type of a file of ids.
    """

    n_bytes: int
    longest: int
    first_tab: int
    digest: str
    is_utf8: bool = False
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Shard(ABC):
    """Indexed files.

    files: the segments of each file; all files have the same numbers of lines per segment.
    facts: facts about all lines.
    names: the columns' names; () for a single column of whole lines.
    """

    files: tuple[Segments, ...]
    facts: Facts
    names: tuple[str, ...] = ()

    def digests_of(self, n_lines: int) -> tuple[str, ...]:
        """Return the digests that a file of the first `n_lines` lines may have.

        Its last line may end with a line end, or without one. Return () if no digest is known.
        """
        return ()

    @property
    def n_header_lines(self) -> int:
        return 0

    @abstractmethod
    def read(self, segment: int) -> tuple[Column, ...]:
        """Return the lines of a segment, as columns. Raises StreamError if a file has changed."""

    def check_unchanged(self) -> None:
        for file in self.files:
            file.check_unchanged()

    @property
    def segments(self) -> Segments:
        return self.files[0]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    @property
    def counts(self) -> tuple[int, ...]:
        """Lines per segment."""
        return self.segments.counts

    @property
    def n_lines(self) -> int:
        return sum(self.counts)

    @property
    def is_clean(self) -> bool:
        """True if no value can shift the fields of its line; see `shifting_lines`."""
        return not (self.names and self.facts.first_tab)


@contextmanager
def as_stream_errors(path: str) -> Iterator[None]:
    """Check that a path is a regular file; convert errors in the context to StreamError."""
    try:
        check_is_file(path)
        yield
    except CorpusError as error:
        raise StreamError(
            str(error).replace("raise max_line", "raise the source's max_line")
        ) from error
    except (OutputError, OSError) as error:
        problem = f"its index cannot be stored ({error}); name another cache folder"
        raise StreamError(f"{shown_path(path)}: {problem}") from error


def shifting_lines(columns: Sequence[Column]) -> dict[int, str]:
    """Return line index → problem, for lines whose fields shift when they are joined by tabs.

    This is so if a value has a tab or a line feed, or if it is missing, but the next value is not.
    """
    result = dict[int, str]()
    for field, column in enumerate(columns, 1):
        if column.is_ids:
            continue
        text, ends = column.packed(end=0)
        positions = np.flatnonzero((text == _TAB) | (text == _LINE_FEED))
        rows = np.searchsorted(ends, positions, side="right")
        for row, byte in zip(rows.tolist(), text[positions].tolist(), strict=True):
            name = "tab" if byte == _TAB else "line feed"
            result.setdefault(row, f"fields: field {field} contains a {name}")
    for field, (column, after) in enumerate(pairwise(columns), 1):
        for row in np.flatnonzero(~column.present & after.present).tolist():
            result.setdefault(row, f"fields: field {field} is missing, field {field + 1} is not")
    return dict(sorted(result.items()))


def check_is_file(path: str) -> None:
    """Raise StreamError if a path is not a regular file, or is "-" for standard input."""
    if path == "-" and not os.path.lexists(path):
        raise StreamError(f"-: is standard input, {_AGAIN}")
    try:
        url = url_of(path)
        if url is None:
            mode = os.stat(path).st_mode
        else:
            mode = stat.S_IFDIR if look(url).is_folder else stat.S_IFREG
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=StreamError) from error
    problem = _NOT_REGULAR.get(stat.S_IFMT(mode))
    if problem:
        raise StreamError(f"{shown_path(path)}: is {problem}")
