"""A file that has been indexed, whatever is in it: its pieces, what its lines are like, and how its index is kept.

>>> Facts(n_bytes=12, longest=5, first_tab=0, digest="").is_utf8
False
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from volt.errors import CorpusError, OutputError, StreamError, shown_path
from volt.files.long_lines import LongLineError
from volt.stream.reading.pieces import Pieces
from volt.stream.reading.shard import Shard
from volt.stream.reading.shard_cache import Entry, Record


class Facts(NamedTuple):
    """What one pass over the lines of a file tells.

    n_bytes: of text
    longest: bytes of its longest line
    first_tab: the number of the first line with a tab, or row of a table that is no line; 0 if there is none
    digest: of the lines
    is_utf8: whether all of them are known to be UTF-8
    """

    n_bytes: int
    longest: int
    first_tab: int
    digest: str
    is_utf8: bool = False


@dataclass(frozen=True, slots=True)
class FileShard(Shard):
    """What is alike in files that have been indexed; how a piece is read, each kind of file says.

    fields: the names of its columns, if they have names
    """

    pieces: Pieces
    facts: Facts
    fields: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The file."""
        return (self.pieces.path,)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return self.fields

    @property
    def counts(self) -> tuple[int, ...]:
        """Lines per piece."""
        return self.pieces.counts

    @property
    def n_bytes(self) -> int:
        """Bytes of text."""
        return self.facts.n_bytes

    @property
    def digest(self) -> str:
        """Of the lines."""
        return self.facts.digest

    @property
    def is_utf8(self) -> bool:
        """Whether all lines are known to be UTF-8."""
        return self.facts.is_utf8

    def check_unchanged(self) -> None:
        """Raise StreamError if the file is not what was indexed, or is gone."""
        self.pieces.check_unchanged()


Indexed = tuple[Pieces, Facts]


def kept_index(entry: Entry, path: str, *, max_line: int | None, make: Callable[[], Indexed]) -> Indexed:
    """What the cache knows of a file, if that is still as it was; otherwise what `make` gives, which is kept.

    A line that is longer than is allowed now is a reason to make it again: it will be told when the file is read.
    """

    def load(record: Record) -> Indexed | None:
        pieces, facts = Pieces.of_record(record["pieces"], path), Facts(**record["facts"])
        fits = max_line is None or facts.longest <= max_line
        return (pieces, facts) if fits and pieces is not None else None

    def made() -> tuple[Indexed, Record]:
        pieces, facts = make()
        return (pieces, facts), {"pieces": pieces.record(), "facts": facts._asdict()}

    return entry.kept(load, made)


@contextmanager
def as_stream_errors(path: str) -> Iterator[None]:
    """Tell what goes wrong while a file is indexed as a StreamError."""
    try:
        yield
    except LongLineError as error:
        remedy = "cut it, or give the source a larger max_line, or null (None in Python) for any length"
        raise StreamError(f"{error.found}; {remedy}") from error
    except CorpusError as error:
        raise StreamError(str(error)) from error
    except (OutputError, OSError) as error:
        found = f"{shown_path(path)}: no index can be kept ({error})"
        raise StreamError(f"{found}; name another cache folder") from error
