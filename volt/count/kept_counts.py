"""A folder or bucket with the counts of groups of shards, so that a rerun counts only the others.

A group has a file. The file's name is a digest of everything that the counts depend on:

    .DIGEST.volt-counts    digest of the paths, sizes, versions and ranges of the shards, the
                           options, and the versions of VOLT and Polars
    content                checksum (16 bytes) | lines, bytes, bad lines (3 int64) | Arrow table

So changed options or shards have other names. A damaged file is written anew.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from io import BytesIO

import polars as pl

from volt.count.word_counts import CountedPart
from volt.errors import ConfigError, CorpusError, OutputError, shown_path
from volt.files.atomic import check_writable, make_folder, write_atomic
from volt.files.paths import identity_of
from volt.files.ranges import FileRange, path_of
from volt.files.small_files import read_start
from volt.files.threads import in_order
from volt.urls import url_of

Shard = str | FileRange
Group = tuple[Shard, ...]
_ENDING = ".volt-counts"
N_LOOKS = 8  # files that are looked up at the same time, because a server takes a while for each
_FORMAT = 1  # version of the files
_CHECKSUM_SIZE = 16  # bytes
_NUMBERS = struct.Struct("<3q")  # lines, bytes, bad lines


@dataclass(frozen=True, slots=True)
class KeptCounts:
    """A folder, or a bucket's URL, with a file for the counts of each group.

    >>> import tempfile
    >>> part = CountedPart(pl.DataFrame({"word": ["low"], "count": [5]}), 3, 12, 0)
    >>> with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
    ...     store = KeptCounts(folder)
    ...     _ = store.part((file.name,), "whitespace", lambda shards: part)
    ...     store.part((file.name,), "whitespace", lambda shards: None).n_lines
    3
    """

    folder: str

    def prepare(self) -> None:
        """Create the folder.

        Raises ConfigError if the folder has no name, OutputError if it cannot be written into.
        """
        if not self.folder:
            raise ConfigError("keep is empty; give a folder, or the URL of one")
        make_folder(self.folder)
        check_writable(self._path(_ENDING))

    def part(
        self, shards: Group, options: object, count: Callable[[Group], CountedPart]
    ) -> CountedPart:
        """Return the counts of a group of shards from its file, or count it and write the file.

        options: all that the counts depend on, apart from the shards; compared by its repr()
        count: counts the shards
        Raises OutputError if the file cannot be written.
        """
        name = _name(shards, options)
        if not name:
            return count(shards)
        part = self._read(name)
        if not part:
            part = count(shards)
            if name == _name(shards, options):  # otherwise, a shard has changed meanwhile
                self._write(name, part)
        return part

    def _read(self, name: str) -> CountedPart | None:
        path = self._path(name)
        # A pipe or a device could be read for ever.
        if os.path.exists(path) and not os.path.isfile(path):
            raise OutputError(f"{shown_path(path)}: is not a file; remove it")
        with suppress(CorpusError):
            data = read_start(path, -1)
            if data[:_CHECKSUM_SIZE] == _checksum(name, data[_CHECKSUM_SIZE:]):
                table = pl.read_ipc_stream(BytesIO(data[_CHECKSUM_SIZE + _NUMBERS.size :]))
                return CountedPart(table, *_NUMBERS.unpack_from(data, _CHECKSUM_SIZE))
        return None

    def _write(self, name: str, part: CountedPart) -> None:
        file = BytesIO()
        part.table.write_ipc_stream(file, compression="zstd")
        data = _NUMBERS.pack(*part[1:]) + file.getvalue()
        with write_atomic(self._path(name)) as output:
            output.write(_checksum(name, data) + data)

    def _path(self, name: str) -> str:
        return f"{self.folder.rstrip('/')}/{name}"


def _name(shards: Group, options: object) -> str:
    """Return the name of a group's file; "" if a shard is a URL whose version is unknown."""
    with suppress(OSError):  # counting the shard raises the error
        files = list(in_order(identity_of, map(path_of, shards), n_threads=N_LOOKS))
        ranges = [isinstance(shard, FileRange) and (shard.start, shard.stop) for shard in shards]
        if all(modified or not url_of(path) for path, _, modified, _ in files):
            versions = _FORMAT, version("volt-vocab"), pl.__version__
            key = repr((*versions, repr(options), files, ranges))
            digest = blake2b(key.encode(errors="surrogateescape"), digest_size=16).hexdigest()
            # A hidden file, so that a corpus in this folder does not include it
            return f".{digest}{_ENDING}"
    return ""


def _checksum(name: str, data: bytes) -> bytes:
    return blake2b(name.encode() + data, digest_size=_CHECKSUM_SIZE).digest()
