"""The counts of groups of shards, kept in a folder or bucket, so that a rerun counts only what is missing.

The name of a file is a dot and a digest of all that its counts depend on: the path, size, version and range of each
shard, the options, and the versions of VOLT and Polars. It contains a checksum, the numbers of lines, bytes and bad
lines, and the words in Arrow's format. A damaged file is not used, but written anew.
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
from volt.files.ranges import FileRange
from volt.files.small_files import read_start
from volt.files.threads import in_order
from volt.urls import url_of

Shard = str | FileRange
Group = tuple[Shard, ...]
_ENDING = ".volt-counts"
N_LOOKS = 8  # files whose sizes are looked up at the same time, as a server takes a while for each
_VERSION = 1  # of the format
_CHECK = 16  # bytes of the checksum
_NUMBERS = struct.Struct("<3q")


@dataclass(frozen=True, slots=True)
class KeptCounts:
    """A folder, or a bucket's URL, with a file for the counts of each group.

    >>> import tempfile
    >>> table = pl.DataFrame({"word": ["low"], "count": [5]})
    >>> with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
    ...     first = KeptCounts(folder).part((file.name,), "whitespace", lambda shards: CountedPart(table, 3, 12, 0))
    ...     again = KeptCounts(folder).part((file.name,), "whitespace", lambda shards: CountedPart(table, 0, 0, 0))
    ...     again.n_lines
    3
    """

    folder: str

    def prepare(self) -> None:
        """Create the folder. Raises ConfigError if it has no name, OutputError if it cannot be written."""
        if not self.folder:
            raise ConfigError("keep is empty; give a folder, or the URL of one")
        make_folder(self.folder)
        check_writable(self._place(_ENDING))

    def part(
        self, shards: Group, options: object, count: Callable[[Group], CountedPart]
    ) -> CountedPart:
        """Return the counts of shards from the folder, or count and keep them. Raises OutputError.

        options: all that the counts depend on, apart from the shards; its repr() counts
        """
        name = _name(shards, options)
        if not name:
            return count(shards)
        part = self._read(name)
        if not part:
            part = count(shards)
            if name == _name(shards, options):  # else a shard has changed meanwhile
                self._write(name, part)
        return part

    def _read(self, name: str) -> CountedPart | None:
        place = self._place(name)
        # A pipe or a device could be read for ever.
        if os.path.exists(place) and not os.path.isfile(place):
            raise OutputError(f"{shown_path(place)}: is not a file; remove it")
        with suppress(CorpusError):
            data = read_start(place, -1)
            if data[:_CHECK] == _digest(name, data[_CHECK:]):
                table = pl.read_ipc_stream(BytesIO(data[_CHECK + _NUMBERS.size :]))
                return CountedPart(table, *_NUMBERS.unpack_from(data, _CHECK))
        return None

    def _write(self, name: str, part: CountedPart) -> None:
        file = BytesIO()
        part.table.write_ipc_stream(file, compression="zstd")
        data = _NUMBERS.pack(*part[1:]) + file.getvalue()
        with write_atomic(self._place(name)) as place:
            place.write(_digest(name, data) + data)

    def _place(self, name: str) -> str:
        return f"{self.folder.rstrip('/')}/{name}"


def _name(shards: Group, options: object) -> str:
    """Return the name of the file of a group; "" if the version of a shard is unknown."""
    with suppress(OSError):  # reading it raises the error
        files = list(in_order(identity_of, map(path_of, shards), n_threads=N_LOOKS))
        spans = [isinstance(shard, FileRange) and (shard.start, shard.stop) for shard in shards]
        if all(modified or not url_of(path) for path, _, modified, _ in files):
            versions = _VERSION, version("volt-vocab"), pl.__version__
            key = repr((*versions, repr(options), files, spans))
            digest = blake2b(key.encode(errors="surrogateescape"), digest_size=16).hexdigest()
            return f".{digest}{_ENDING}"  # hidden, so that a corpus does not include it
    return ""


def _digest(name: str, data: bytes) -> bytes:
    return blake2b(name.encode() + data, digest_size=_CHECK).digest()


def path_of(shard: Shard) -> str:
    if isinstance(shard, str):
        return shard
    return shard.path
