"""`Shard`: numbered pieces of known length, read on their own as columns, and where lines stand.

    sizes             lines per piece
    read(piece)       the piece as columns: one of whole lines, or one for each named field
    digest            of all lines: the same text has the same digest in any place and in any packing
    place(piece, i)   path and number, from 1, of a line

Kinds of shards: `text_shard` (one text file), `id_shard` (indexed ids of fairseq or Megatron),
`pair_shard` (line-aligned files of these two), `table_shard` (JSON lines, Parquet).

>>> check_is_file("/dev/null")
Traceback (most recent call last):
    ...
volt.errors.StreamError: /dev/null: is a device, which cannot be read again and again; write its text to a file first
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from volt.errors import StreamError, shown_path, unreadable
from volt.files.remote import look
from volt.stream.transforms.column import Column
from volt.urls import bare, is_web, same, url_of

Stamp = tuple[int, int]  # size, time of change
Identity = tuple[str, int, int, int]  # path, size, and two times of change, of which one cannot be set back

_TAB, _END = 0x09, 0x0A
_AGAIN = "which cannot be read again and again; write its text to a file first"
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


class Shard(ABC):
    """Files that have been indexed."""

    __slots__ = ()

    @property
    @abstractmethod
    def paths(self) -> tuple[str, ...]:
        """Its files, as they were named."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of its columns; () if it has one, of whole lines."""

    @property
    @abstractmethod
    def counts(self) -> tuple[int, ...]:
        """Lines per piece."""

    @property
    @abstractmethod
    def n_bytes(self) -> int:
        """Bytes of text."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A digest of all lines, whatever they are packed and cut like."""

    def digests_of(self, n_lines: int) -> tuple[str, ...]:
        """Return the digests that the shard may have had when it ended after its first lines; () if that is unknown."""
        return ()

    @property
    def is_utf8(self) -> bool:
        """True if all lines are known to be UTF-8, so that nobody need look again."""
        return False

    @property
    def is_clean(self) -> bool:
        """True if no value can shift the fields of its line: see `shifting_lines`."""
        return True

    @abstractmethod
    def read(self, piece: int) -> tuple[Column, ...]:
        """Return the lines of a piece; whether they are UTF-8 may not have been checked: see `is_utf8`.

        Raises StreamError if a file is not what was indexed.
        """

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise StreamError if a file has another size or time of change than when it was indexed, or is gone."""

    @property
    def path(self) -> str:
        """The file that its lines are named by."""
        return self.paths[0]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(n_pieces,) lines per piece."""
        return np.array(self.counts, np.int64)

    @property
    def n_lines(self) -> int:
        """Lines in all pieces."""
        return sum(self.counts)

    def place(self, piece: int, index: int) -> tuple[str, int]:
        """Path and number, from 1, of a line. index: of the line in its piece, from 0."""
        return self.path, sum(self.counts[:piece]) + index + 1


def shifting_lines(columns: Sequence[Column]) -> dict[int, str]:
    """Index → what is wrong, for each line with a value that would shift the fields after it, or start a line.

    >>> shifting_lines([Column.of(["a", "b\\tb", None]), Column.of(["c", "d", "e"])])
    {1: 'fields: field 1 holds a tab', 2: 'fields: field 1 is missing, field 2 is not'}
    """
    result = dict[int, str]()
    for field, column in enumerate(columns, 1):
        for row, byte in () if column.is_ids else _breaks(column):
            kind = "tab" if byte == _TAB else "line feed"
            result.setdefault(row, f"fields: field {field} holds a {kind}")
    for field, (column, after) in enumerate(pairwise(columns), 1):
        for row in np.flatnonzero(~column.present & after.present).tolist():
            result.setdefault(row, f"fields: field {field} is missing, field {field + 1} is not")
    return dict(sorted(result.items()))


def _breaks(column: Column) -> Iterator[tuple[int, int]]:
    """Yield the tabs and line feeds of a column, with the row of each."""
    text, ends = column.packed(end=0)
    places = np.flatnonzero((text == _TAB) | (text == _END))
    rows = np.searchsorted(ends, places, side="right")
    yield from zip(rows.tolist(), text[places].tolist(), strict=True)


def stamp_of(path: str | int) -> Stamp:
    """Size and time of change of a file. Raises StreamError if it is not there."""
    try:
        if isinstance(path, str) and (url := url_of(path)):
            return look(url).stamp
        status = os.stat(path)
    except OSError as error:
        raise unreadable(path, error, kind=StreamError) from error
    return status.st_size, status.st_mtime_ns


def identity_of(path: str) -> Identity:
    """Return the identity of a file for its index. Raises OSError if the file is not there.

    Of a URL, it holds no secret: the query of one of http, which may be a signature, is replaced by a digest.

    >>> len(identity_of(__file__))
    4
    """
    if url := url_of(path):
        size, version = look(url).stamp
        query = same(url).partition("?")[2] if is_web(url) else ""
        digest = int.from_bytes(blake2b(query.encode(), digest_size=7).digest()) if query else 0
        return bare(same(url)), size, version, digest
    status = os.stat(path)
    return os.path.abspath(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns


def check_is_file(path: str) -> None:
    """Raise StreamError if a path is missing, a folder, a pipe, a socket or a device.

    "-" is standard input, unless a file has that name.
    """
    if path == "-" and not os.path.lexists(path):
        raise StreamError(f"-: is standard input, {_AGAIN}")
    try:
        if url := url_of(path):
            mode = stat.S_IFDIR if look(url).is_folder else stat.S_IFREG
        else:
            mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=StreamError) from error
    if stat.S_ISDIR(mode):
        raise StreamError(f"{shown_path(path)}: is a folder; name the files in it")
    if kind := _KINDS.get(stat.S_IFMT(mode)):
        raise StreamError(f"{shown_path(path)}: is {kind}, {_AGAIN}")
