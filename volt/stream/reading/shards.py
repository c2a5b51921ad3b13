"""A path → its shard."""

from __future__ import annotations

from pathlib import Path

from volt.files.long_lines import MAX_LINE
from volt.stream.reading.shard import Shard, Stamp, stamp_of
from volt.stream.reading.text_shard import open_text

__all__ = ["Shard", "Stamp", "open_shard", "stamp_of"]


def open_shard(
    path: str, *, split_lines: int | None, cache: Path | None = None, max_line: int | None = MAX_LINE
) -> Shard:
    """Index a file, or find its index in the cache.

    split_lines: lines per piece, or None to leave files whole.
    max_line: the most bytes of a line; None for no limit.
    Raises StreamError if the file is missing, damaged or no text, has a line that is too long, or the cache cannot be
    written.
    """
    return open_text(path, split_lines=split_lines, cache=cache, max_line=max_line)
