r"""Corpus → `WordCounts`: how often each distinct pre-token occurs. Learning reads nothing else.

The counts of a corpus are the sums of the counts of its shards: files, or ranges of files. So the
result depends neither on how a corpus is divided into files and blocks, nor on their order or
compression. A pool counts shards in other processes:

    map=pool.map             each call counts a file
    map=in_ranges(pool.map)  each call counts a file, or 64 MB of a large plain file
    keep=FOLDER              each call counts a group of shards, of about 64 MB together
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, cast, get_args

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.count.bounded_sums import (
    BoundedSum,
    Budget,
    return_freed_memory,
    sum_approximately,
    sum_within_budget,
)
from volt.count.counting import Progress, ShardCounter
from volt.count.kept_counts import N_LOOKS, KeptCounts, Shard
from volt.count.word_counts import CountedPart, WordCounts, sum_parts
from volt.display import counted
from volt.errors import ConfigError, CorpusError
from volt.files.blocks import BLOCK_SIZE, Errors
from volt.files.paths import Sources, check_files, expand, size_of
from volt.files.ranges import RANGE_SIZE, divide_file, path_of
from volt.files.table_rows import TextColumns
from volt.files.tables import table_kind
from volt.files.threads import in_order
from volt.fork_guard import about_to_use_polars
from volt.text.normalizer import Normalizer, as_normalizer
from volt.text.pretokenizer import Level, PreTokenizer, choose_pretokenizer
from volt.text.special_tokens import SpecialTokens
from volt.urls import bare, url_of

ShardMap = Callable[[Callable[[Shard], WordCounts], Iterable[Shard]], Iterable[WordCounts]]
Map = Callable[[Callable[[Shard], WordCounts], Iterable[str]], Iterable[WordCounts]]


def count_words(
    sources: Sources | None = None,
    *,
    texts: Iterable[str] | None = None,
    normalizer: str | Normalizer = "none",
    pretokenizer: str | PreTokenizer = "whitespace",
    pattern: str | None = None,
    level: Level = "characters",
    fields: str | int | Iterable[int] | None = None,
    column: str | None = None,
    word_counts: bool = False,
    errors: Errors = "strict",
    min_count: int = 1,
    special: SpecialTokens | None = None,
    map: Map = map,
    progress: Progress | None = None,
    block_size: int = BLOCK_SIZE,
    max_line: int | None = MAX_LINE,
    memory: int | str | None = None,
    approximate: bool = False,
    keep: str | os.PathLike[str] | None = None,
) -> WordCounts:
    """Count the pre-tokens of texts, or of files, globs, directories or stdin ("-"), plain or
    compressed.

    sources: a path or several; a string is always a path
    texts: instead of sources, strings in memory: a list, a generator, a Series of pandas or polars,
        a column of `datasets`, an array of Arrow, or another iterable, which is read once. As in a
        column of a table, a text may contain line ends, which the pre-tokenizer gets, and counts as
        one line. Without files, there is no fields, column, word_counts, map or keep
    normalizer: none, nfc, nfkc, lowercase, nfc+lowercase or nfkc+lowercase
    pretokenizer: splits lines: whitespace, unicode, metaspace, gpt2, bytes or regex:PATTERN
    pattern: instead of pretokenizer, a regular expression, or the name of a published tokenizer's
        such as "cl100k" or "llama3"
    level: what merging starts from, "characters" or "bytes"; for bytes, words are split as in
        GPT-2, or by the pattern
    fields: columns of tab-separated text, numbered from 1: 2, "1,2" or [1, 2]
    column: the path of a column of text in JSON lines, Parquet, Arrow, CSV or TSV with a header: "text",
        "content.body.text" or "messages[].content"
    word_counts: whether the files are tables, a word and its count per line
    errors: for lines that are not UTF-8 (or null in parquet): "strict", "replace" or "skip"; for
        texts, "skip" also leaves out missing ones (None or NaN)
    min_count: words that occur less often are removed
    special: user tokens, which are never split
    map: maps over the paths, such as a pool's; `volt.count.corpus.in_ranges` splits large files
    progress: called with the path, the bytes read, and the bytes in all (None for a pipe)
    block_size: how many bytes are read at a time
    max_line: the maximum number of bytes in a line; None for no limit
    memory: about how many bytes the process may take, such as "2G", at least 512M; surplus words
        are spilled to disk. If `map` is set, this limits only the process that sums the counts
    approximate: forget the rarest words, block by block, instead of spilling; a count is then too
        low by at most `bound`
    keep: a folder or a bucket's URL for the counts of each 64 MB of files, so that a second run,
        after the first was killed, or with more or changed files, counts only what is missing
    Raises CorpusError, with file and line, or the index of the text, if it cannot be read, or for
    no or too many words.

    >>> count_words(texts=["low lower", "low"])
    <WordCounts: 2 words, 3 in all, 2 lines, whitespace>
    >>> count_words(__file__, pretokenizer="regex:count_w[a-z]+").words
    ['count_words']
    """
    counter = ShardCounter(
        normalizer=as_normalizer(normalizer),
        pretokenizer=choose_pretokenizer(pretokenizer, pattern, level),
        columns=TextColumns(column, fields),
        word_counts=word_counts,
        errors=arguments.choice(errors, "errors", get_args(Errors)),
        progress=progress,
        block_size=arguments.whole(block_size, "block_size", low=1),
        special=special,
        max_line=checked_max_line(max_line),
    )
    return _sum_sources(
        sources,
        texts,
        counter,
        map,
        memory,
        approximate=approximate,
        keep=keep,
        min_count=min_count,
    )


def _sum_sources(
    sources: Sources | None,
    texts: Iterable[str] | None,
    counter: ShardCounter,
    map: Map,
    memory: int | str | None,
    *,
    approximate: bool,
    keep: str | os.PathLike[str] | None,
    min_count: int,
) -> WordCounts:
    about_to_use_polars()
    min_count = arguments.whole(min_count, "min_count", low=1)
    if arguments.flag(approximate, "approximate"):
        _check_approximate(memory, map)
    budget = None
    if memory is not None:
        budget = Budget.of(memory)
        limits = budget.counter_limits(approximate=approximate)
        block_size = min(counter.block_size, budget.block)
        counter = replace(counter, block_size=block_size, limits=limits)
        return_freed_memory()

    if texts is None:
        paths, parts = _count_files(sources, counter, map, keep, approximate=approximate)
    else:
        paths = ["texts"]
        _refuse_file_options(sources, counter, map, keep)
        parts = counter.count_texts_in_memory(texts)

    if budget is None:
        total = BoundedSum(sum_parts(parts), 0, 0)
    elif approximate:
        total = sum_approximately(parts, n_words=budget.n_words, n_symbols=budget.n_symbols)
    else:
        total = sum_within_budget(parts, budget, min_count=min_count)
    counts = WordCounts(
        *total.part,
        normalizer=counter.normalizer,
        pretokenizer=counter.pretokenizer,
        bound=total.bound,
        n_left_out=total.n_left_out,
    ).min_count(min_count)
    if not counts.n_words:
        raise CorpusError(_no_words(paths, counts, min_count=min_count))
    return counts


def _refuse_file_options(
    sources: Sources | None, counter: ShardCounter, map: Map, keep: str | os.PathLike[str] | None
) -> None:
    """Raise ConfigError for an argument of `count_words` that excludes texts."""
    reads_files = sources is not None or keep is not None or map is not builtins.map
    if reads_files or not counter.reads_lines:
        raise ConfigError(
            "texts exclude sources, fields, column, word_counts, map and keep, which are for files; "
            "remove one of them"
        )


def _count_files(
    sources: Sources | None,
    counter: ShardCounter,
    map: Map,
    keep: str | os.PathLike[str] | None,
    *,
    approximate: bool,
) -> tuple[list[str], Iterable[CountedPart]]:
    """Return the paths of sources, and their counts in parts."""
    try:
        paths = expand(checked_sources(sources))
    except CorpusError as error:
        raise error.reworded(f"{error.message}; did you mean texts=?") from error
    if keep is not None:
        counter = replace(counter, store=_open_store(keep, approximate=approximate))
        paths = check_files(paths, "keep works only with")
        if map is builtins.map:
            map = _in_groups
    if map is builtins.map:
        return paths, counter.parts(paths)
    return paths, (counts.part for counts in map(counter, paths))


def _check_approximate(memory: int | str | None, map: Map) -> None:
    if memory is None:
        raise ConfigError(
            "approximate needs a memory limit, above which it forgets words; pass",
            hint={"memory": "2G"},
        )
    if map is not builtins.map:
        raise ConfigError(
            "approximate needs the files in order, but map may count several at once; "
            "remove approximate or map"
        )


def _open_store(keep: str | os.PathLike[str], *, approximate: bool) -> KeptCounts:
    store = KeptCounts(arguments.path(keep, "keep"))
    if approximate:
        raise ConfigError(
            "kept counts are of 64 MB, approximate ones of all files together; remove",
            hint={"keep": store.folder, "approximate": True},
        )
    store.prepare()
    return store


def checked_sources(sources: Sources | None) -> list[str]:
    """Return the paths, globs and folders of an argument that names one or several."""
    if isinstance(sources, Mapping):
        remedy = "did you mean volt.WordCounts.from_pairs(counts)?"
        raise arguments.refusal(sources, "sources", remedy)
    if isinstance(sources, str | os.PathLike):
        return [arguments.path(sources, "sources")]
    remedy = "give a path, or a list of paths; did you mean texts=?"
    result = arguments.several(sources, "sources", remedy=remedy)
    return [
        arguments.path(source, f"sources[{index}]", remedy=remedy)
        for index, source in enumerate(result)
    ]


def _no_words(paths: list[str], counts: WordCounts, *, min_count: int) -> str:
    if counts.bound:
        return (
            f"none of {counts.n_left_out:,} words is left within the memory; "
            "give more memory, or remove approximate"
        )
    if counts.n_left_out:
        return (
            f"no word of {counts.n_left_out:,} occurs {counted(min_count, 'time')} or more; "
            "lower min_count"
        )
    names = ", ".join(paths[:3])
    if len(paths) > 3:
        names += f" and {len(paths) - 3} more"
    return f"{names}: no words in {counted(counts.n_lines, 'line')}; check the text and the pre-tokenizer"


def in_ranges(map: ShardMap, *, size: int = RANGE_SIZE) -> Map:
    """Return a map for `count_words` that divides large plain files into ranges before it counts.

    map: the map that counts the shards, such as a pool's
    size: the number of bytes of a range
    """
    shard_map = cast(ShardMap, arguments.function(map, "map") or builtins.map)

    def map_shards(
        function: Callable[[Shard], WordCounts], paths: Iterable[str]
    ) -> Iterator[WordCounts]:
        shards = shards_of(paths, size=size)
        n = 0
        for counts in shard_map(function, shards):
            n += 1
            yield counts
        if n != len(shards):
            raise ConfigError(
                f"the map returned {n} counts for {len(shards)} shards; "
                "it must count each shard once"
            )

    return map_shards


def _in_groups(function: Callable[[Any], WordCounts], paths: Iterable[str]) -> Iterator[WordCounts]:
    shards = shards_of(paths, size=RANGE_SIZE)
    for group in group_shards(shards, look_up_sizes(paths)[0], max_bytes=RANGE_SIZE):
        yield function(tuple(shard for shard, _ in group))


def look_up_sizes(paths: Iterable[str]) -> tuple[dict[str, int | None], int | None]:
    """Return the number of bytes of each file, and of all files together; None if it is unknown."""
    paths = list(paths)
    sizes = list(in_order(size_of, paths, n_threads=N_LOOKS))
    total = None
    if None not in sizes:
        total = sum(filter(None, sizes))
    return dict(zip(paths, sizes, strict=True)), total


def group_shards(
    shards: Iterable[Shard], sizes: Mapping[str, int | None], *, max_bytes: int
) -> Iterator[list[tuple[Shard, int]]]:
    """Yield groups of consecutive shards, each shard with its number of bytes.

    A group has at most `max_bytes` bytes, unless it is one larger shard. A shard of unknown size is
    a group of its own, and its number of bytes is 0.

    A digest of a file's path also decides whether a group starts at the file: at a file of n bytes,
    with the probability 2 n / max_bytes. So a new or changed file changes few groups besides its
    own, and groups have about half of `max_bytes` bytes or more.
    """
    group = list[tuple[Shard, int]]()
    group_bytes = 0
    for shard in shards:
        n_bytes = sizes[shard] if isinstance(shard, str) else len(shard)
        weight = max_bytes if n_bytes is None else n_bytes
        is_too_large = group_bytes + weight > max_bytes
        if group and (is_too_large or _draw_for(shard) * max_bytes < 2 * weight):
            yield group
            group = []
            group_bytes = 0
        group.append((shard, n_bytes or 0))
        group_bytes += weight
    if group:
        yield group


def _draw_for(shard: Shard) -> float:
    """Return a number from 0 to 1 that depends on the shard's path only."""
    path = path_of(shard)
    name = bare(path) if url_of(path) else os.path.abspath(path)
    digest = blake2b(os.fsencode(name), digest_size=4).digest()
    return int.from_bytes(digest) / 2**32


def shards_of(paths: Iterable[str], *, size: int = RANGE_SIZE) -> list[Shard]:
    """Return the shards of files in order: the ranges of a file that can be divided, or its path.

    size: the number of bytes of a range; smaller files are not divided
    """
    shards = list[Shard]()
    paths = list(paths)
    ranges_of_each = in_order(partial(divide_file, size=size), paths, n_threads=N_LOOKS)
    for path, ranges in zip(paths, ranges_of_each, strict=True):
        shards += ranges if ranges and table_kind(path) not in ("parquet", "arrow") else [path]
    return shards
