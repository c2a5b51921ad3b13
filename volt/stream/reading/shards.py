"""A path, a table's path with its columns, or a pair of paths → the shard of its kind: text, ids, a table, a pair.

>>> open_shard(__file__, split_lines=4).names
()
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from volt.errors import CorpusError, StreamError, shown_path
from volt.files.long_lines import MAX_LINE, LongLineError
from volt.files.whole import read_start
from volt.stream.reading.id_shard import are_ids
from volt.stream.reading.pair_shard import open_one, open_pair
from volt.stream.reading.shard import Shard, Stamp, check_is_file, stamp_of

__all__ = ["Shard", "Stamp", "open_pair", "open_shard", "remedy_of", "stamp_of"]

_SHARDED = re.compile(r"\d{5,}\.(src|tgt|mono)(\.zst|\.gz)?")


def open_shard(
    path: str, *, split_lines: int | None, fields: Mapping[str, str] | None = None, cache: Path | None = None,
    max_line: int | None = MAX_LINE,
) -> Shard:  # fmt: skip
    """Index a file, or find its index in the cache.

    split_lines: lines per piece, or None to leave files whole.
    fields: of a table, JSON lines or Parquet: name → key or column. Without any, lines are read as they are.
    max_line: the most bytes of a line; None for no limit.
    A path that ends in .bin or .idx is that of indexed ids: see `id_shard`.
    Raises StreamError if the file is missing, damaged or no text, has a line that is too long, or the cache cannot be
    written.
    """
    if fields is not None:
        if are_ids(path):
            raise StreamError(f"{shown_path(path)}: holds indexed ids, which have no columns; leave `columns` out")
        from volt.stream.reading.table_shard import open_table

        return open_table(path, fields, split_lines=split_lines, cache=cache, max_line=max_line)
    check_is_file(path)
    if read_start(path, 4, kind=StreamError) == b"PAR1":
        raise StreamError(f"{shown_path(path)}: is a Parquet file; name its columns by `fields`")
    return open_one(path, split_lines=split_lines, cache=cache, max_line=max_line)


def remedy_of(path: str, error: StreamError) -> str:
    """What to do about a damaged file that `volt shard` has made; empty for other files, and other errors.

    >>> remedy_of(__file__, StreamError("damaged"))
    ''
    """
    folder, name = os.path.split(path)
    is_damaged = isinstance(error.__cause__, CorpusError) and not isinstance(error.__cause__, LongLineError)
    if not (is_damaged and _SHARDED.fullmatch(name) and os.path.isfile(os.path.join(folder, "manifest.json"))):
        return ""
    return f"; make the shards again: volt shard CONFIG -o {shown_path(os.path.dirname(folder) or '.')}"
