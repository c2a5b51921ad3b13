"""The paths of a corpus → shards that workers count: whole files, and ranges of what is plain and large.

A map of a process pool gives each worker a path. Of one large file it would have one worker count it all; a map made
by `in_ranges` gives each a range. The words are the same, because counts add up, and so are the numbers of lines.

>>> import tempfile
>>> from volt import count_words
>>> with tempfile.NamedTemporaryFile(suffix=".txt") as file:
...     _ = file.write(b"low lower low\\n" * 5) and file.flush()
...     shards = shards_of([file.name], size=30)
...     len(shards), count_words(file.name, map=in_ranges(map, size=30)) == count_words(file.name)
(3, True)
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import cast

from volt import arguments
from volt.count.columns import is_parquet
from volt.count.corpus import Map
from volt.count.counting import Shard
from volt.count.word_counts import WordCounts
from volt.errors import ConfigError
from volt.files.ranges import RANGE_SIZE, ranges_of

ShardMap = Callable[[Callable[[Shard], WordCounts], Iterable[Shard]], Iterable[WordCounts]]


def in_ranges(map: ShardMap, *, size: int = RANGE_SIZE) -> Map:
    """A map for `count_words` that gives another one, such as a pool's, ranges of files.

    size: bytes of a range

    With a pool: count_words("corpus.txt", map=in_ranges(pool.map)).
    """
    return partial(_mapped, cast(ShardMap, arguments.function(map, "map") or builtins.map), size)


def shards_of(paths: Iterable[str], *, size: int = RANGE_SIZE) -> list[Shard]:
    """The ranges of each path, or the path itself if it is not to be cut.

    size: bytes of a range

    >>> shards_of(["-"])
    ['-']
    """
    return [shard for path in paths for shard in (_ranges(path, size) or [path])]


def _ranges(path: str, size: int) -> list[Shard]:
    return [] if is_parquet(path) else list(ranges_of(path, size=size))


def _mapped(
    map: ShardMap, size: int, function: Callable[[Shard], WordCounts], paths: Iterable[str]
) -> Iterator[WordCounts]:
    shards, n = shards_of(paths, size=size), 0
    for counts in map(function, shards):
        n += 1
        yield counts
    if n != len(shards):
        raise ConfigError(f"the map gave {n} counts of {len(shards)} shards; it must give those of each, once")
