"""Line-aligned files, of text or of indexed ids → one shard, whose line i is line i of each file: a field from each.

All files are cut at the same numbers of lines, however they are packed. A tab inside a line would shift the fields
behind it: `is_clean` says whether there is none, `shifting_lines` where they are.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".de") as source, tempfile.NamedTemporaryFile(suffix=".en") as target:
...     _ = source.write(b"eins\\nzwei\\n") and source.flush(), target.write(b"one\\ntwo\\n") and target.flush()
...     shard = open_pair({"src": source.name, "tgt": target.name}, split_lines=1)
...     shard.names, [column.strings() for column in shard.read(1)]
(('src', 'tgt'), [['zwei'], ['two']])
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from pathlib import Path

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, StreamError, shown_path
from volt.files.long_lines import MAX_LINE
from volt.stream.reading.file_shard import FileShard
from volt.stream.reading.id_shard import are_ids, open_id_shard
from volt.stream.reading.shard import Shard
from volt.stream.reading.text_shard import open_text
from volt.stream.transforms.column import Column


@dataclass(frozen=True, slots=True)
class PairShard(Shard):
    """Files that have been indexed and found to have equally many lines."""

    fields: tuple[str, ...]
    sides: tuple[FileShard, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, in the order of the fields."""
        return tuple(path for side in self.sides for path in side.paths)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return self.fields

    @property
    def counts(self) -> tuple[int, ...]:
        """Lines per piece."""
        return self.sides[0].counts

    @property
    def n_bytes(self) -> int:
        """Bytes of text, of all files."""
        return sum(side.n_bytes for side in self.sides)

    @property
    def digest(self) -> str:
        """Of the names, and of the lines of all files."""
        return self._digest([side.digest for side in self.sides])

    def _digest(self, sides: Sequence[str]) -> str:
        return blake2b(json.dumps([self.fields, sides]).encode(), digest_size=16).hexdigest()

    def digests_of(self, n_lines: int) -> tuple[str, ...]:
        """Return the digests that the shard may have had when it ended after its first lines."""
        return tuple(self._digest(sides) for sides in product(*(side.digests_of(n_lines) for side in self.sides)))

    @property
    def is_utf8(self) -> bool:
        """Whether all lines are known to be UTF-8."""
        return all(side.is_utf8 for side in self.sides)

    @property
    def is_clean(self) -> bool:
        """Whether no line holds a tab."""
        return not any(side.facts.first_tab for side in self.sides)

    def read(self, piece: int) -> tuple[Column, ...]:
        """The lines of a piece, a column from each file."""
        return tuple(column for side in self.sides for column in side.read(piece))

    def check_unchanged(self) -> None:
        """Raise StreamError if a file is not what was indexed, or is gone."""
        for side in self.sides:
            side.check_unchanged()


def open_one(
    path: str, *, split_lines: int | None, cache: Path | None = None, max_line: int | None = MAX_LINE
) -> FileShard:
    """Index a file of text, or of indexed ids if its name ends in .bin or .idx; options as `open_text` takes them.

    >>> open_one(__file__, split_lines=None).names
    ()
    """
    return (open_id_shard if are_ids(path) else open_text)(
        path, split_lines=split_lines, cache=cache, max_line=max_line
    )


def open_pair(
    pair: Mapping[str, str], *, split_lines: int | None, cache: Path | None = None, max_line: int | None = MAX_LINE
) -> PairShard:
    """Index line-aligned files, or find their indices in the cache.

    pair: name of a field → its file, two or more
    split_lines, cache, max_line: as `open_text` takes them
    Raises StreamError as `open_text` does, or if files differ in their numbers of lines; ConfigError if there are fewer
    than two files.
    """
    if len(pair) < 2:
        raise ConfigError(f"pair: {counted(len(pair), 'file')}; name two or more, such as {{src: a.de, tgt: a.en}}")
    for name, path in pair.items():
        arguments.text(name, "the name of a field")
        arguments.path(path, f"pair[{name!r}]")
    sides = [open_one(path, split_lines=split_lines, cache=cache, max_line=max_line) for path in pair.values()]
    for side in sides[1:]:
        if side.n_lines != sides[0].n_lines:
            first, other = (f"{shown_path(one.path)} has {counted(one.n_lines, 'line')}" for one in (sides[0], side))
            raise StreamError(f"{first}, {other}; files of a pair need equally many: align them")
    return PairShard(tuple(pair), tuple(sides))
