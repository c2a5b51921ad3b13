"""`open_shard`: a path → a shard of text, ids, or a table; `open_pair`: line-aligned files → a shard.

Line i of a pair has a field from line i of each file. The files are split at the same line numbers,
so that segment k of the pair consists of segment k of each file:

    {src: a.de, tgt: a.en}   →   line 7: field 1 = line 7 of a.de, field 2 = line 7 of a.en
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from volt import arguments
from volt.arguments import MAX_LINE
from volt.display import counted
from volt.errors import ConfigError, CorpusError, StreamError, shown_path
from volt.files.text_checks import LongLineError
from volt.stream.reading.id_shard import are_ids, digest_of, open_id_shard
from volt.stream.reading.shard import Facts, Shard
from volt.stream.reading.text_shard import open_text
from volt.stream.transforms.column import Column

# the names of files that `volt shard` writes, such as 00007.src.zst
_WRITTEN_SHARD = re.compile(r"\d{5,}\.(src|tgt|mono)(\.zst|\.gz)?")


def open_shard(
    path: str,
    *,
    split_lines: int | None,
    fields: Mapping[str, str] | None = None,
    cache: Path | None = None,
    max_line: int | None = MAX_LINE,
) -> Shard:
    """Index a file, or load its index from the cache. Raises StreamError if that fails.

    split_lines: lines per segment, or None to leave files whole.
    fields: for a table, field name → JSON key or column name.
    cache: the folder for indices.
    max_line: the maximum number of bytes of a line; None for no limit.
    """
    if fields is None:
        open_file = open_id_shard if are_ids(path) else open_text
        return open_file(path, split_lines=split_lines, cache=cache, max_line=max_line)
    if are_ids(path):
        raise StreamError(
            f"{shown_path(path)}: contains indexed ids, which have no columns; remove `columns`"
        )
    from volt.stream.reading.tables import open_table

    return open_table(path, fields, split_lines=split_lines, cache=cache, max_line=max_line)


@dataclass(frozen=True, slots=True)
class PairShard(Shard):
    """Line-aligned files. sides: the shard of each file"""

    sides: tuple[Shard, ...] = ()

    def digests_of(self, n_lines: int) -> tuple[str, ...]:
        digests = product(*(side.digests_of(n_lines) for side in self.sides))
        return tuple(digest_of(self.names, side_digests) for side_digests in digests)

    def read(self, segment: int) -> tuple[Column, ...]:
        return tuple(column for side in self.sides for column in side.read(segment))


def open_pair(pair: Mapping[str, str], **options: Any) -> PairShard:
    """Index two or more line-aligned files.

    pair: field name → file
    options: as for `open_shard`

    Raises StreamError if the files have different numbers of lines.
    """
    if len(pair) < 2:
        raise ConfigError(
            f"pair: {counted(len(pair), 'file')}; name two or more, such as {{src: a.de, tgt: a.en}}"
        )
    for name, path in pair.items():
        arguments.text(name, "the name of a field")
        arguments.path(path, f"pair[{name!r}]")
    sides = [open_shard(path, **options) for path in pair.values()]
    first = sides[0]
    for side in sides:
        if side.n_lines != first.n_lines:
            counts = ", ".join(
                f"{shown_path(shard.paths[0])} has {counted(shard.n_lines, 'line')}"
                for shard in (first, side)
            )
            raise StreamError(
                f"{counts}; files of a pair must have the same number of lines; align them"
            )
    names = tuple(pair)
    facts = [side.facts for side in sides]
    pair_facts = Facts(
        n_bytes=sum(each.n_bytes for each in facts),
        longest=max(each.longest for each in facts),
        first_tab=max(each.first_tab for each in facts),
        digest=digest_of(names, [each.digest for each in facts]),
        is_utf8=all(each.is_utf8 for each in facts),
    )
    files = tuple(file for side in sides for file in side.files)
    return PairShard(files, pair_facts, names, tuple(sides))


def remedy_of(path: str, error: StreamError) -> str:
    """Return the remedy for a damaged file written by `volt shard`; empty for other files and
    errors."""
    folder, name = os.path.split(path)
    cause = error.__cause__
    if (
        isinstance(cause, LongLineError)
        or not isinstance(cause, CorpusError)
        or not _WRITTEN_SHARD.fullmatch(name)
        or not os.path.isfile(os.path.join(folder, "manifest.json"))
    ):
        return ""
    output = shown_path(os.path.dirname(folder) or ".")
    return f"; make the shards again: volt shard CONFIG -o {output}"
