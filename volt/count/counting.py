r"""One file → counted parts, block by block: how text, tables, JSON lines and Parquet become words.

Polars counts one block while the next is read. Large plain text is counted by units (text between white space) instead:
each thread fills a table of units, and splits these into words when the table is full. All words go into one table,
which a lock protects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from threading import Lock
from typing import Any

import polars as pl

from volt import arguments
from volt.count.bounded_sums import CounterLimits
from volt.count.column_texts import field_texts, json_columns, json_texts, lines_of, parquet_texts
from volt.count.kept_counts import Group, KeptCounts, Shard, path_of
from volt.count.unit_table import MOST, UnitCutter, UnitTable, WordTable
from volt.count.word_counts import EMPTY, CountedPart, WordCounts, added, check_total, summed
from volt.errors import ConfigError, CorpusError
from volt.files.blocks import BLOCK_SIZE, Block, Errors, read_blocks, split_at_lines, split_block
from volt.files.paths import size_of
from volt.files.ranges import FileRange, read_range, with_line_numbers
from volt.files.remote_files import local_copy
from volt.files.tables import is_json_lines, is_parquet
from volt.files.text_checks import n_line_ends
from volt.files.threads import available_cores, in_order, prefetch
from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE
from volt.text.normalizer import Normalizer, as_normalizer
from volt.text.pretokenizer import PreTokenizer, as_pretokenizer
from volt.text.special_tokens import SpecialTokens
from volt.text.white_space import SPLIT_SPACE, ascii_bytes
from volt.urls import url_of

_PIECE = 1 << 20  # bytes


class UnitCounter:
    """Counter of words by units, in threads. Each thread counts about `piece` bytes of a block at a time."""

    def __init__(
        self,
        cutter: UnitCutter,
        *,
        piece: int = _PIECE,
        n_threads: int | None = None,
        most_units: int = MOST,
        most_words: int = 4 * MOST,
    ) -> None:
        self._cutter = cutter
        self._piece = piece
        self._n_threads = n_threads or available_cores()
        self._most_units = most_units
        self._idle = list[UnitTable]()
        self._words = WordTable(most=most_words)
        self._lock = Lock()

    def add(self, block: Block) -> Iterator[pl.DataFrame]:
        """Count a block. Yields a table, with columns word and count, whenever the table of words is full."""
        data = self._cutter.normal(block.data)
        view = memoryview(data)
        pieces = [view[start:end] for start, end in split_at_lines(data, self._piece)]
        n_threads = min(self._n_threads, max(len(pieces), 1))
        yield from chain.from_iterable(in_order(self._count, pieces, n_threads=n_threads))

    def rest(self) -> Iterator[pl.DataFrame]:
        """Yield, after the last block, all words that `add` has not yielded."""
        for units in self._idle:
            yield from self._cut(units)
        if self._words.n:
            yield self._emptied()

    def _count(self, text: memoryview) -> list[pl.DataFrame]:
        try:
            units = self._idle.pop()
        except IndexError:
            units = UnitTable(self._cutter.rule, most=self._most_units)
        units.add(text)
        tables = list[pl.DataFrame]()
        if units.is_full:
            tables = self._cut(units)
        self._idle.append(units)
        return tables

    def _cut(self, units: UnitTable) -> list[pl.DataFrame]:
        with self._lock:
            self._cutter.add(self._words, units.units())
            units.clear()
            if self._words.is_full:
                return [self._emptied()]
            return []

    def _emptied(self) -> pl.DataFrame:
        table = self._cutter.table(self._words.units())
        self._words.clear()
        return table


Progress = Callable[[str, int, int | None], object]

_PARQUET_ROWS = 1 << 22  # per step
_MOST_LINES = 1 << 22  # of a block: more would take too much memory
_LARGE = 1 << 20  # bytes: counting smaller text takes less time than loading the loops over units
_TEXT = pl.col("text")
_WORD = pl.col("word")
_COUNT = pl.col("count")
_SPACES = bytes(ord("\n") if byte in ascii_bytes(SPLIT_SPACE) else byte for byte in range(256))
_TABLE_LINE = r"^(.+)[\t ]([0-9]+)$"
_UNLIMITED = CounterLimits()


def count_block(block: Block) -> CountedPart:
    """Count the words between white space in a block of UTF-8 text, as `count_words` does.

    >>> count_block(Block("a.txt", 1, 1, b"low lower low\\n", 14)).table.sort("word").rows()
    [('low', 2), ('lower', 1)]
    """
    about_to_use_polars()
    count = ShardCounter(as_normalizer("none"), as_pretokenizer("whitespace"))
    return summed(
        CountedPart(count.counted(count.texts(part)), part.n_lines, len(part.data), 0)
        for part in split_block(block, _MOST_LINES)
    )


def is_large(path: str) -> bool:
    return (size_of(path) or 0) >= _LARGE


@dataclass(frozen=True, slots=True)
class ShardCounter:
    """A function with stored options that counts a file, a range of a file or a group of both, for a map over these.

    store: where the counts of each call are kept, if anywhere
    """

    normalizer: Normalizer
    pretokenizer: PreTokenizer
    fields: tuple[int, ...] = ()
    column: str | None = None
    word_counts: bool = False
    errors: Errors = "strict"
    progress: Progress | None = None
    block_size: int = BLOCK_SIZE
    special: SpecialTokens | None = None
    max_line: int | None = None
    limits: CounterLimits = _UNLIMITED
    store: KeptCounts | None = None

    def __post_init__(self) -> None:
        if self.column is not None:
            arguments.text(self.column, "column")
        if self.special is not None:
            arguments.instance(self.special, SpecialTokens, "special")
        arguments.function(self.progress, "progress")
        arguments.flag(self.word_counts, "word_counts")
        if bool(self.fields) + (self.column is not None) + self.word_counts > 1:
            raise ConfigError("fields, column and word_counts exclude each other; give one")

    def __call__(self, group: Shard | Group) -> WordCounts:
        shards = group if isinstance(group, tuple) else (group,)
        if self.store:
            part = self.store.part(shards, self._shaping, self._counted)
        else:
            part = self._counted(shards)
        return WordCounts(*part, self.normalizer, self.pretokenizer)

    @property
    def _shaping(self) -> object:
        """The options on which counts depend."""
        special = SpecialTokens()
        if self.special:
            special = SpecialTokens(user=self.special.user)
        return replace(
            self, progress=None, block_size=0, special=special, limits=_UNLIMITED, store=None
        )

    def _counted(self, shards: Group) -> CountedPart:
        return summed(self.parts(shards))

    def parts(self, shards: Iterable[Shard]) -> Iterator[CountedPart]:
        """Yield the counts of shards. Consecutive small texts are counted together."""
        for is_small, group in groupby(shards, key=self._is_small):
            each = list(group)
            if is_small and len(each) > 1:
                yield from self._count_small(map(path_of, each))
                continue
            for shard in each:
                if isinstance(shard, str):
                    yield from self._count_file(shard)
                else:
                    yield with_line_numbers(shard, self._count_range)

    @property
    def _reads_lines(self) -> bool:
        """Return whether the texts are whole lines."""
        return not self.fields and self.column is None and not self.word_counts

    def _is_small(self, shard: Shard) -> bool:
        if not self._reads_lines or not isinstance(shard, str) or url_of(shard):
            return False  # a look at a URL takes a while
        is_table = is_json_lines(shard) or is_parquet(shard)
        return not is_table and 0 < (size_of(shard) or 0) < _LARGE

    def _count_small(self, paths: Iterable[str]) -> Iterator[CountedPart]:
        n_added = 0

        def joined() -> Iterator[Block]:
            nonlocal n_added
            waiting = list[Block]()
            n_bytes = n_raw = 0
            for path in paths:
                n_raw += size_of(path) or 0
                for block in read_blocks(path, **self._reading):
                    if block.data and not block.data.endswith(b"\n"):
                        block = replace(block, data=block.data + b"\n")
                        n_added += 1
                    waiting.append(block)
                    n_bytes += len(block.data)
                    if n_bytes >= _LARGE:  # a small file may decompress to a large text
                        yield _joined(waiting, n_raw)
                        waiting = []
                        n_bytes = 0
            if waiting:
                yield _joined(waiting, n_raw)

        yield from self._count_blocks(joined(), None)
        yield CountedPart(EMPTY, 0, -n_added, 0)

    def _count_range(self, shard: FileRange) -> CountedPart:
        self._check_column(shard.path)
        return summed(self._count_blocks(read_range(shard, **self._reading), size_of(shard.path)))

    def _count_file(self, path: str) -> Iterator[CountedPart]:
        if not is_parquet(path):
            self._check_column(path)
            yield from self._count_blocks(read_blocks(path, **self._reading), size_of(path))
            return
        with local_copy(path, kind=CorpusError) as copy:
            yield from self._count_parquet(str(copy), path)

    def _check_column(self, path: str) -> None:
        if self.column is None and is_json_lines(path):
            raise CorpusError(
                f"{path}: JSON lines; name the text column, one of: {json_columns(path)}"
            )

    def silent(self) -> ShardCounter:
        return replace(self, progress=None)

    @property
    def is_by_units(self) -> bool:
        return self._unit_cutter is not None

    def counted(self, texts: pl.LazyFrame) -> pl.DataFrame:
        """Return a table with columns word and count for a column `text`."""
        words = self.pretokenizer.extract(self._normal(_TEXT))
        n_rows = pl.len().cast(pl.Int64)
        if self._cuts_first:
            texts = texts.group_by("text").agg(count=n_rows)
            rows = texts.select("count", word=words).explode("word")
            table = rows.group_by("word").agg(_COUNT.sum())
        else:
            rows = texts.select(word=words).explode("word")
            table = rows.group_by("word").agg(count=n_rows)
        return table.filter(_WORD.is_not_null()).collect(engine="streaming").select("word", "count")

    def texts(self, block: Block) -> pl.LazyFrame:
        """Return the texts of a block as a column `text`."""
        if self.fields:
            return field_texts(block, self.fields)
        data = block.data
        if self.column is not None:
            texts = json_texts(block, self.column)
            if not self._cuts_first:
                return pl.LazyFrame({"text": texts}, schema={"text": pl.String})
            data = "\n".join(texts).encode()
        if self._cuts_first:
            data = _without_blanks(data.translate(_SPACES))
        return lines_of(data)

    @property
    def _reading(self) -> dict[str, Any]:
        return {"block_size": self.block_size, "errors": self.errors, "max_line": self.max_line}

    @property
    def _cuts_first(self) -> bool:
        """Return whether texts may be split at ASCII white space first, which is faster and gives equal words."""
        is_spaced = self.special and self.special.spaced
        if self.fields or self.word_counts or is_spaced:
            return False
        return self.pretokenizer.name == "whitespace"

    @property
    def _unit_cutter(self) -> UnitCutter | None:
        has_users = self.special and self.special.user
        if has_users or self.normalizer.name != "none" or not self._reads_lines:
            return None
        return UnitCutter.of(self.pretokenizer)

    def _normal(self, text: pl.Expr) -> pl.Expr:
        if self.special:
            text = self.special.hide(text)
        return self.normalizer.apply(text)

    def _count_blocks(self, blocks: Iterator[Block], size: int | None) -> Iterator[CountedPart]:
        ahead = prefetch(blocks)
        first = list(islice(ahead, 1))
        if first and len(first[0].data) >= _LARGE and self.is_by_units:
            with closing(ahead):
                yield from self._count_units(chain(first, ahead), size)
            return
        with closing(prefetch(self._smaller(first, ahead))) as parts:
            for block, texts in parts:
                if self.word_counts:
                    table = self._table_block(block)
                else:
                    table = self.counted(texts)
                yield CountedPart(table, block.n_lines, len(block.data), block.n_bad_lines)
                self._report(block, size)

    def _report(self, block: Block, size: int | None) -> None:
        if self.progress:
            self.progress(block.path, block.n_raw_bytes, size)

    def _smaller(
        self, first: Sequence[Block], ahead: Generator[Block, None, None]
    ) -> Iterator[tuple[Block, pl.LazyFrame]]:
        with closing(ahead):
            for block in chain(first, ahead):
                for part in split_block(block, _MOST_LINES):
                    yield part, self.texts(part)

    def _count_units(self, blocks: Iterable[Block], size: int | None) -> Iterator[CountedPart]:
        cutter = self._unit_cutter
        assert cutter
        limits = self.limits
        counter = UnitCounter(
            cutter,
            n_threads=limits.n_threads,
            most_units=limits.n_units,
            most_words=limits.n_words,
        )
        for block in blocks:
            yield CountedPart(EMPTY, block.n_lines, len(block.data), block.n_bad_lines)
            if cutter.cuts_apart(block.data):
                tables = iter([self.counted(self.texts(block))])
            else:
                tables = counter.add(block)
            if limits.by_block:  # one part, so that results do not depend on the threads
                yield added(list(_parts((*tables, *counter.rest()))))
            else:
                yield from _parts(tables)
            self._report(block, size)
        yield from _parts(counter.rest())

    def _table_block(self, block: Block) -> pl.DataFrame:
        parts = _TEXT.str.extract_groups(_TABLE_LINE).struct
        word = self._normal(parts[0])
        if self.pretokenizer.name == "whitespace" or self.pretokenizer.is_bytes:
            words = self.pretokenizer.extract(word)
        else:
            words = pl.concat_list(word.str.replace_all(" ", SPACE, literal=True))
        count = parts[1].cast(pl.Int64, strict=False)
        filled = lines_of(block.data).with_row_index().filter(_TEXT.str.contains(r"[^\t ]"))
        table = filled.with_columns(word=words, count=count).collect()
        bad = table.filter((_COUNT.fill_null(0) < 1) | (_WORD.list.len().fill_null(0) == 0))
        for index, text in bad.select("index", "text").head(1).rows():
            raise CorpusError(
                f"{block.place(index)}: {text[:40]!r} is not a word, a tab or space, "
                "and a count (a positive 64-bit integer); repair the line"
            )
        rows = table.select("count", "word").explode("word")
        check_total(int(rows["count"].cast(pl.Int128).sum()))
        return rows.group_by("word").agg(_COUNT.sum())

    def _count_parquet(self, path: str, source: str) -> Iterator[CountedPart]:
        size = size_of(path)
        null = _TEXT.is_null()
        try:
            texts = parquet_texts(path, self.column)
            for start in range(0, texts.select(pl.len()).collect().item(), _PARQUET_ROWS):
                part = texts.slice(start, _PARQUET_ROWS)
                lengths = _TEXT.str.len_bytes()
                facts = part.select(
                    pl.len(), lengths.sum(), n_nulls=null.sum(), first=null.arg_max()
                )
                n_rows, n_bytes, n_nulls, first = facts.collect().row(0)
                if n_nulls and self.errors == "strict":
                    raise CorpusError(
                        f"{path}: row {start + first + 1} is null; remove it or pass",
                        hint={"errors": "skip"},
                    )
                yield CountedPart(self.counted(part), n_rows, n_bytes, n_nulls)
        except pl.exceptions.PolarsError as error:
            raise CorpusError(f"{path}: damaged parquet file ({error}); copy it again") from error
        if self.progress:
            self.progress(source, size or 0, size)


def _parts(tables: Iterable[pl.DataFrame]) -> Iterator[CountedPart]:
    """Yield tables whose lines and bytes are counted elsewhere."""
    return (CountedPart(table, 0, 0, 0) for table in tables)


def _joined(blocks: Sequence[Block], n_raw_bytes: int) -> Block:
    data = b"".join(block.data for block in blocks)
    bad_lines = chain.from_iterable(block.bad_lines for block in blocks)
    n_lines = sum(block.n_lines for block in blocks)
    return Block(blocks[-1].path, 1, n_lines, data, n_raw_bytes, tuple(bad_lines))


def _without_blanks(data: bytes) -> bytes:
    """Drop empty lines if line ends are half of the data or more; they take more memory than words."""
    if 2 * n_line_ends(data) < len(data):
        return data
    return re.sub(rb"\n+", b"\n", data)
