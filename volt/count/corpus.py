"""Corpus → `WordCounts`: how often each distinct pre-token occurs, which is all that learning ever reads.

The counts of two files, added up, are the counts of both, so it makes no difference how a corpus is cut into files and
blocks, in which order they come, or how they are compressed. Polars counts one block while the next is being read and
decompressed.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".txt") as file:
...     _ = file.write(b"low lower low\\n") and file.flush()
...     counts = count_words(file.name)
>>> dict(zip(counts.words, counts.counts.tolist())), counts.total
({'low': 2, 'lower': 1}, 3)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, get_args

import numpy as np
import polars as pl

from volt import arguments
from volt.count.by_units import UnitCounter
from volt.count.columns import (
    column_numbers,
    field_texts,
    is_json_lines,
    is_parquet,
    json_columns,
    json_texts,
    parquet_texts,
)
from volt.count.unit_words import UnitCutter
from volt.count.word_counts import EMPTY, CountedPart, WordCounts, check_total, summed
from volt.errors import ConfigError, CorpusError
from volt.files.blocks import BLOCK_SIZE, Block, Errors, read_blocks, smaller_blocks
from volt.files.long_lines import MAX_LINE, checked_max_line
from volt.files.paths import Sources, expand
from volt.files.ranges import FileRange, numbered, read_range
from volt.files.remote_copies import at_hand
from volt.files.sizes import size_of
from volt.files.threads import prefetch
from volt.forks import about_to_use_polars
from volt.text.markers import SPACE
from volt.text.normalizer import Normalizer, as_normalizer
from volt.text.pretokenizer import PreTokenizer, as_pretokenizer
from volt.text.special_tokens import SpecialTokens
from volt.text.white_space import SPLIT_SPACE, ascii_bytes

Progress = Callable[[str, int, int | None], object]
Shard = str | FileRange
Map = Callable[[Callable[[Shard], WordCounts], Iterable[str]], Iterable[WordCounts]]

_PARQUET_ROWS = 1 << 22  # per step
_MOST_LINES = 1 << 22  # of a block: more would take too much memory
_LARGE = 1 << 20  # bytes from which on a text is counted by units: loading these loops takes as long as less text
_TEXT, _WORD, _COUNT = pl.col("text"), pl.col("word"), pl.col("count")
_SPACES = bytes(ord("\n") if byte in ascii_bytes(SPLIT_SPACE) else byte for byte in range(256))
_TABLE_LINE = r"^(.+)[\t ]([0-9]+)$"


def count_words(
    sources: Sources,
    *,
    normalizer: str | Normalizer = "none",
    pretokenizer: str | PreTokenizer = "whitespace",
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
) -> WordCounts:
    """Count the pre-tokens of files, globs, directories or stdin ("-"), plain or compressed.

    sources: a path or several.
    normalizer: none, nfc, nfkc, lowercase, nfc+lowercase or nfkc+lowercase.
    pretokenizer: how lines are cut into words: whitespace, unicode, metaspace, gpt2, bytes or regex:PATTERN.
    fields: columns of tab-separated text, from 1: 2, "1,2" or [1, 2].
    column: the text column of .jsonl or .parquet.
    word_counts: the files are tables, a word and its count per line; words are normalised, and only cut at
        white space, if that is how pre-tokens are made.
    errors: what to do with a line that is not UTF-8 (or null in parquet): "strict", "replace" or "skip".
    min_count: words that occur less often are left out.
    special: user tokens, which are never cut.
    map: applied to the paths, such as a process pool's; `volt.count.shards.in_ranges` makes one that cuts large files.
    progress: called with the path, the bytes read, and the bytes in all (None for a pipe).
    block_size: how many bytes are read at a time.
    max_line: the most bytes of a line; None for no limit.
    Raises CorpusError, with file and line, if a source cannot be read or there are no words.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"Hallo Welt\\thello world\\n") and file.flush()
    ...     count_words(file.name, fields=2).words
    ['hello', 'world']
    """
    sources = _paths(sources)
    about_to_use_polars()
    arguments.choice(errors, "errors", get_args(Errors))
    min_count, block_size = arguments.whole(min_count, "min_count"), arguments.whole(block_size, "block_size", low=1)
    made_with = as_normalizer(normalizer), as_pretokenizer(pretokenizer)
    most = checked_max_line(max_line)
    job = _Job(*made_with, column_numbers(fields), column, word_counts, errors, progress, block_size, special, most)
    paths = expand(sources)
    part = summed(counts.part for counts in map(ShardCounter(job), paths))
    counts = WordCounts(*part, *made_with)
    kept = counts.min_count(min_count)
    if not kept.n_words:
        raise CorpusError(_no_words(paths, counts, min_count=min_count))
    return kept


def count_block(block: Block) -> CountedPart:
    """Count what stands between white space in the lines of a block that is UTF-8, as `count_words` does.

    >>> count_block(Block("a.txt", 1, 1, b"low lower low\\n", 14)).table.sort("word").rows()
    [('low', 2), ('lower', 1)]
    """
    about_to_use_polars()
    job = _Job(as_normalizer("none"), as_pretokenizer("whitespace"), (), None, False, "strict", None, 1, None, None)
    return summed(
        CountedPart(job.counted(_texts(part, job)), part.n_lines, len(part.data), 0)
        for part in smaller_blocks(block, _MOST_LINES)
    )


def _paths(sources: Sources) -> list[str]:
    """The paths that are given. Raises ArgumentError if something else is."""
    if isinstance(sources, Mapping):
        raise arguments.refusal(sources, "sources", "did you mean volt.WordCounts.from_pairs(counts)?")
    if isinstance(sources, str | os.PathLike):
        return [arguments.path(sources, "sources")]
    found = arguments.several(sources, "sources", remedy="give a path, or a list of paths")
    return [arguments.path(source, f"sources[{place}]") for place, source in enumerate(found)]


@dataclass(frozen=True, slots=True)
class _Job:
    """What `count_words` was asked for, checked; picklable, if `progress` is."""

    normalizer: Normalizer
    pretokenizer: PreTokenizer
    fields: tuple[int, ...]
    column: str | None
    word_counts: bool
    errors: Errors
    progress: Progress | None
    block_size: int
    special: SpecialTokens | None
    max_line: int | None

    def __post_init__(self) -> None:
        if self.column is not None:
            arguments.text(self.column, "column")
        if self.special is not None:
            arguments.instance(self.special, SpecialTokens, "special")
        arguments.function(self.progress, "progress")
        if bool(self.fields) + (self.column is not None) + self.word_counts > 1:
            raise ConfigError("fields, column and word_counts exclude each other; give one")

    @property
    def cuts_first(self) -> bool:
        """Whether texts may be cut at ASCII white space before all else: the same, but faster."""
        return self.pretokenizer.name == "whitespace" and not self.fields and not self.word_counts

    @property
    def unit_cutter(self) -> UnitCutter | None:
        """What makes the words if the text is counted by units; None if that is not possible."""
        plain = self.normalizer.name == "none" and not (self.special and self.special.user)
        if not plain or self.fields or self.column is not None or self.word_counts:
            return None
        return UnitCutter.of(self.pretokenizer)

    def counted(self, texts: pl.LazyFrame) -> pl.DataFrame:
        """Column text → table of word and count; texts that were cut first are few, once counted themselves."""
        words = self.pretokenizer.extract(self.normal(_TEXT))
        if self.cuts_first:
            texts = texts.group_by("text").agg(count=pl.len().cast(pl.Int64))
            rows = texts.select("count", word=words).explode("word").group_by("word").agg(_COUNT.sum())
        else:
            rows = texts.select(word=words).explode("word").group_by("word").agg(count=pl.len().cast(pl.Int64))
        return rows.filter(_WORD.is_not_null()).collect(engine="streaming").select("word", "count")

    def normal(self, text: pl.Expr) -> pl.Expr:
        """A text with user tokens hidden, normalised."""
        return self.normalizer.apply(self.special.hide(text) if self.special else text)

    def units(self, word: pl.Expr) -> pl.Expr:
        """A word of a table → the pre-tokens that it stands for."""
        word = self.normal(word)
        if self.pretokenizer.name == "whitespace" or self.pretokenizer.is_bytes:
            return self.pretokenizer.extract(word)
        return pl.concat_list(word.str.replace_all(" ", SPACE, literal=True))


@dataclass(frozen=True, slots=True)
class ShardCounter:
    """What `count_words` has its map apply to each path: it counts that, or a range of it.

    It can be pickled if `progress` can be.
    """

    job: _Job

    @property
    def progress(self) -> Progress | None:
        """What is told how far counting has come."""
        return self.job.progress

    @property
    def is_by_units(self) -> bool:
        """Whether large texts are counted by units, in compiled loops."""
        return self.job.unit_cutter is not None

    def silent(self) -> ShardCounter:
        """The same, which tells nobody."""
        return ShardCounter(replace(self.job, progress=None))

    def __call__(self, shard: Shard) -> WordCounts:
        if isinstance(shard, FileRange):
            part = numbered(
                shard, lambda first_line: self._counted(shard.path, _blocks_of(shard, self.job, first_line))
            )
        elif is_parquet(shard):
            with at_hand(shard, kind=CorpusError) as copy:
                part = summed(_count_parquet(str(copy), self.job, shard))
        else:
            part = self._counted(shard, _blocks_of(shard, self.job))
        return WordCounts(*part, self.job.normalizer, self.job.pretokenizer)

    def _counted(self, path: str, blocks: Iterator[Block]) -> CountedPart:
        return summed(_count_blocks(path, blocks, self.job))


def _blocks_of(shard: Shard, job: _Job, first_line: int = 1) -> Iterator[Block]:
    options: dict[str, Any] = {"block_size": job.block_size, "errors": job.errors, "max_line": job.max_line}
    if isinstance(shard, FileRange):
        return read_range(shard, first_line=first_line, **options)
    return read_blocks(shard, **options)


def _count_blocks(path: str, blocks: Iterator[Block], job: _Job) -> Iterator[CountedPart]:
    if job.column is None and is_json_lines(path):
        raise CorpusError(f"{path}: JSON lines; name the text column, one of: {json_columns(path)}")
    size = size_of(path)
    blocks = prefetch(blocks)
    first = list(islice(blocks, 1))
    blocks = chain(first, blocks)
    if first and len(first[0].data) >= _LARGE and (cutter := job.unit_cutter):
        yield from _count_units(path, blocks, job, cutter)
        return
    parts = chain.from_iterable(smaller_blocks(block, _MOST_LINES) for block in blocks)
    for block, texts in prefetch((block, _texts(block, job)) for block in parts):
        table = _table_block(block, job) if job.word_counts else job.counted(texts)
        yield CountedPart(table, block.n_lines, len(block.data), block.n_bad_lines)
        if job.progress:
            job.progress(path, block.n_raw_bytes, size)


def _count_units(path: str, blocks: Iterator[Block], job: _Job, cutter: UnitCutter) -> Iterator[CountedPart]:
    """The counts of a text that is large."""
    counter, size = UnitCounter(cutter), size_of(path)
    for block in blocks:
        yield CountedPart(EMPTY, block.n_lines, len(block.data), block.n_bad_lines)
        tables = [job.counted(_texts(block, job))] if cutter.cuts_apart(block.data) else counter.add(block)
        yield from (CountedPart(table, 0, 0, 0) for table in tables)
        if job.progress:
            job.progress(path, block.n_raw_bytes, size)
    yield from (CountedPart(table, 0, 0, 0) for table in counter.rest())


def _no_words(paths: list[str], counts: WordCounts, *, min_count: int) -> str:
    if counts.n_words:
        return f"none of {counts.n_words} distinct words occurs {min_count} times; lower min_count"
    names = ", ".join(paths[:3]) + f" and {len(paths) - 3} more" * (len(paths) > 3)
    return f"{names}: no words in {counts.n_lines} lines; check the files and the pre-tokenizer"


def _texts(block: Block, job: _Job) -> pl.LazyFrame:
    """The texts of a block, one per row, in column text."""
    if job.fields:
        return field_texts(block, job.fields)
    if job.column is None:
        return _lines(block.data, job)
    texts = json_texts(block, job.column)
    if job.cuts_first:
        return _lines("\n".join(texts).encode(), job)
    return pl.LazyFrame({"text": texts}, schema={"text": pl.String})


def _lines(data: bytes, job: _Job) -> pl.LazyFrame:
    return pl.scan_lines(_without_blanks(data.translate(_SPACES)) if job.cuts_first else data, name="text")


def _without_blanks(data: bytes) -> bytes:
    """Lines, less empty ones where these are most of the data: each would take more memory than a word."""
    if 2 * len(data.translate(None, b"\n")) > len(data):
        return data
    codes = np.frombuffer(data, np.uint8)
    kept = codes != ord("\n")
    kept[1:] |= kept[:-1]  # a line end behind something else
    return bytes(codes[kept])


def _table_block(block: Block, job: _Job) -> pl.DataFrame:
    """A block of lines "word count" → table; blank lines are passed over."""
    parts = _TEXT.str.extract_groups(_TABLE_LINE).struct
    filled = pl.scan_lines(block.data, name="text").with_row_index().filter(_TEXT.str.contains(r"[^\t ]"))
    table = filled.with_columns(word=job.units(parts[0]), count=parts[1].cast(pl.Int64, strict=False)).collect()
    bad = table.filter((_COUNT.fill_null(0) < 1) | (_WORD.list.len().fill_null(0) == 0))
    for index, text in bad.select("index", "text").head(1).rows():
        raise CorpusError(
            f"{block.place(index)}: {text[:40]!r} is not a word, a tab or space, "
            "and a count (a positive 64-bit integer); repair the line"
        )
    rows = table.select("count", "word").explode("word")
    check_total(int(rows["count"].cast(pl.Int128).sum()))
    return rows.group_by("word").agg(_COUNT.sum())


def _count_parquet(path: str, job: _Job, source: str) -> Iterator[CountedPart]:
    """The counts of a table. source: the path that progress is told of."""
    size = size_of(path)
    try:
        texts = parquet_texts(path, job.column)
        for start in range(0, texts.select(pl.len()).collect().item(), _PARQUET_ROWS):
            yield _parquet_part(texts.slice(start, _PARQUET_ROWS), job, place=f"{path}: row", start=start)
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"{path}: damaged parquet file ({error}); copy it again") from error
    if job.progress:
        job.progress(source, size or 0, size)


def _parquet_part(texts: pl.LazyFrame, job: _Job, *, place: str, start: int) -> CountedPart:
    null = _TEXT.is_null()
    numbers = texts.select(pl.len(), n_bytes=_TEXT.str.len_bytes().sum(), n_nulls=null.sum(), first=null.arg_max())
    n_rows, n_bytes, n_nulls, first = numbers.collect().row(0)
    if n_nulls and job.errors == "strict":
        raise CorpusError(f"{place} {start + first + 1} is null; remove it or pass errors='skip'")
    return CountedPart(job.counted(texts), n_rows, n_bytes, n_nulls)
