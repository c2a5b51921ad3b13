r"""One file → counted parts: how text, tables, JSON lines and Parquet become words and counts.

    file or range → blocks of whole lines → a column of texts → words → a table of words and counts
    Parquet       → slices of rows        ↗

Polars counts one block while the next one is read. Large plain text is counted by units instead
(`UnitCounter`), if the pre-tokenizer allows it. Small plain files are joined into blocks, because
each table takes about a millisecond, however few words it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any

import polars as pl

from volt import arguments
from volt.count.kept_counts import Group, KeptCounts, Shard
from volt.count.texts import NAME, text_arrays
from volt.count.unit_table import CounterLimits, UnitCounter, UnitCutter
from volt.count.word_counts import (
    EMPTY,
    CountedPart,
    WordCounts,
    add_parts,
    check_total,
    sum_counts,
    sum_parts,
)
from volt.errors import ConfigError, CorpusError
from volt.files.blocks import BLOCK_SIZE, Block, Errors, read_blocks, split_block
from volt.files.paths import size_of
from volt.files.ranges import FileRange, path_of, read_source, with_line_numbers
from volt.files.table_rows import TextColumns, join_texts, read_text, read_texts, text_bytes
from volt.files.tables import table_kind
from volt.files.text_checks import n_line_ends
from volt.files.threads import prefetch
from volt.fork_guard import about_to_use_polars
from volt.text.atoms import SPACE
from volt.text.normalizer import Normalizer, as_normalizer
from volt.text.pretokenizer import PreTokenizer, as_pretokenizer
from volt.text.special_tokens import SpecialTokens
from volt.text.white_space import SPLIT_SPACE, select_ascii
from volt.urls import url_of

if TYPE_CHECKING:
    import pyarrow

_MOST_LINES = 1 << 22  # lines of a block; more would take too much memory
_LARGE = 1 << 20  # bytes: counting smaller text takes less time than loading the loops over units
_TEXT = pl.col("text")
_WORD = pl.col("word")
_COUNT = pl.col("count")
_WHITE_TO_LINE_END = bytes(
    ord("\n") if byte in select_ascii(SPLIT_SPACE) else byte for byte in range(256)
)
_TABLE_LINE = r"^(.+)[\t ]([0-9]+)$"
_UNLIMITED = CounterLimits()
_LINES = TextColumns()

Progress = Callable[[str, int, int | None], object]


def count_block(block: Block) -> CountedPart:
    """Count the words between white space in a block of UTF-8 text, as `count_words` does.

    >>> count_block(Block("a.txt", 1, 1, b"low lower low\\n", 14)).table.sort("word").rows()
    [('low', 2), ('lower', 1)]
    """
    about_to_use_polars()
    counter = ShardCounter(as_normalizer("none"), as_pretokenizer("whitespace"))
    return sum_parts(
        CountedPart(counter.count_texts(counter.texts(part)), part.n_lines, len(part.data))
        for part in split_block(block, _MOST_LINES)
    )


def is_large(path: str) -> bool:
    return (size_of(path) or 0) >= _LARGE


@dataclass(frozen=True, slots=True)
class ShardCounter:
    """The options of `count_words`, and the function that counts a shard or a group of shards.

    A shard is a file or a range of a file. A pool can map the counter over shards.

    store: where the counts of each group are kept, if anywhere
    """

    normalizer: Normalizer
    pretokenizer: PreTokenizer
    columns: TextColumns = _LINES
    word_counts: bool = False
    errors: Errors = "strict"
    progress: Progress | None = None
    block_size: int = BLOCK_SIZE
    special: SpecialTokens | None = None
    max_line: int | None = None
    limits: CounterLimits = _UNLIMITED
    store: KeptCounts | None = None

    def __post_init__(self) -> None:
        if self.special is not None:
            arguments.instance(self.special, SpecialTokens, "special")
        arguments.function(self.progress, "progress")
        arguments.flag(self.word_counts, "word_counts")
        if self.columns and self.word_counts:
            raise ConfigError("fields, column and word_counts exclude each other; give one")

    def __call__(self, group: Shard | Group) -> WordCounts:
        """Count a shard or a group of shards, or return its counts from the store."""
        shards = group if isinstance(group, tuple) else (group,)
        if self.store:
            part = self.store.part(shards, self._relevant_options, self._count_shards)
        else:
            part = self._count_shards(shards)
        return WordCounts(*part, self.normalizer, self.pretokenizer)

    @property
    def is_by_units(self) -> bool:
        """Return whether large text is counted by units."""
        return self._unit_cutter is not None

    @property
    def _relevant_options(self) -> object:
        """The options that counts depend on."""
        special = SpecialTokens()
        if self.special:
            special = SpecialTokens(user=self.special.user)
        return replace(
            self, progress=None, block_size=0, special=special, limits=_UNLIMITED, store=None
        )

    def _count_shards(self, shards: Group) -> CountedPart:
        return sum_parts(self.parts(shards))

    def parts(self, shards: Iterable[Shard]) -> Iterator[CountedPart]:
        """Yield the counts of shards in parts. Consecutive small files are counted together."""
        for is_small, consecutive in groupby(shards, key=self._is_small):
            group = list(consecutive)
            if is_small and len(group) > 1:
                yield from self._count_small_files(map(path_of, group))
                continue
            for shard in group:
                if isinstance(shard, str):
                    yield from self._count_file(shard)
                else:
                    yield with_line_numbers(shard, self._count_range)

    def count_texts_in_memory(self, texts: Iterable[str]) -> Iterator[CountedPart]:
        """Yield the counts of texts in parts."""
        n_bytes = 0
        for array, n_skipped in text_arrays(texts, block_size=self.block_size, errors=self.errors):
            table = self.count_texts(self._frame_of(array))
            n_with_ends = text_bytes(array) + len(array)  # as if each text were a line of a file
            part = CountedPart(table, len(array) + n_skipped, n_with_ends, n_skipped)
            n_bytes += part.n_bytes
            if self.progress:
                self.progress(NAME, n_bytes, None)
            yield part

    def _is_small(self, shard: Shard) -> bool:
        if not self.reads_lines or not isinstance(shard, str) or url_of(shard):
            return False  # the size of a URL takes a request
        is_table = table_kind(shard) in ("json", "parquet", "arrow")
        return not is_table and 0 < (size_of(shard) or 0) < _LARGE

    @property
    def reads_lines(self) -> bool:
        """Return whether each line is a text, and not a row of a table."""
        return not self.columns and not self.word_counts

    # From files to blocks

    @property
    def _reading(self) -> dict[str, Any]:
        return {"block_size": self.block_size, "errors": self.errors, "max_line": self.max_line}

    def _count_small_files(self, paths: Iterable[str]) -> Iterator[CountedPart]:
        n_added = 0  # line ends

        def join_files() -> Iterator[Block]:
            nonlocal n_added
            waiting = list[Block]()
            n_bytes = n_raw_bytes = 0
            for path in paths:
                n_raw_bytes += size_of(path) or 0
                for block in read_blocks(path, **self._reading):
                    if block.data and not block.data.endswith(b"\n"):
                        block = replace(block, data=block.data + b"\n")
                        n_added += 1
                    waiting.append(block)
                    n_bytes += len(block.data)
                    if n_bytes >= _LARGE:  # a small file may decompress to a large text
                        yield _join_blocks(waiting, n_raw_bytes)
                        waiting = []
                        n_bytes = 0
            if waiting:
                yield _join_blocks(waiting, n_raw_bytes)

        yield from self._count_blocks(join_files(), file_size=None)
        yield CountedPart(EMPTY, n_bytes=-n_added)

    def _count_range(self, shard: FileRange) -> CountedPart:
        return sum_parts(self._count_file(shard))

    def _count_file(self, shard: Shard) -> Iterator[CountedPart]:
        file_size = size_of(path_of(shard))
        if self.columns:
            yield from self._count_rows(shard, file_size)
            return
        read = read_source if self.word_counts else read_text
        yield from self._count_blocks(read(shard, **self._reading), file_size)

    def _count_rows(self, shard: Shard, file_size: int | None) -> Iterator[CountedPart]:
        reports = False
        with closing(prefetch(read_texts(shard, self.columns, **self._reading))) as parts:
            for rows in parts:
                table = self.count_texts(self._frame_of(rows.texts))
                yield CountedPart(table, rows.block.n_lines, rows.n_bytes, rows.n_bad)
                if rows.block.n_raw_bytes:
                    reports = True
                    self._report(rows.block, file_size)
        if self.progress and not reports:
            self.progress(path_of(shard), file_size or 0, file_size)

    # From blocks to counts

    def _count_blocks(
        self,
        blocks: Iterator[Block],
        file_size: int | None,
    ) -> Iterator[CountedPart]:
        ahead = prefetch(blocks)
        first = list(islice(ahead, 1))
        if first and len(first[0].data) >= _LARGE and self._unit_cutter:
            with closing(ahead):
                yield from self._count_units(self._unit_cutter, chain(first, ahead), file_size)
            return
        with closing(prefetch(self._add_texts(first, ahead))) as parts:
            for block, texts in parts:
                if self.word_counts:
                    table = self._read_word_counts(block)
                else:
                    table = self.count_texts(texts)
                yield CountedPart(table, block.n_lines, len(block.data), block.n_bad_lines)
                self._report(block, file_size)

    def _add_texts(
        self, first: Sequence[Block], ahead: Generator[Block, None, None]
    ) -> Iterator[tuple[Block, pl.LazyFrame]]:
        """Yield each block with its texts, after dividing blocks of too many lines."""
        with closing(ahead):
            for block in chain(first, ahead):
                for part in split_block(block, _MOST_LINES):
                    yield part, self.texts(part)

    def _count_units(
        self, cutter: UnitCutter, blocks: Iterable[Block], file_size: int | None
    ) -> Iterator[CountedPart]:
        counter = UnitCounter(cutter, self.limits)
        for block in blocks:  # a part has lines and bytes, or else words
            yield CountedPart(EMPTY, block.n_lines, len(block.data), block.n_bad_lines)
            tables = counter.add(block)
            if self.limits.yields_each_block:
                yield add_parts(list(map(CountedPart, (*tables, *counter.finish()))))
            else:
                yield from map(CountedPart, tables)
            self._report(block, file_size)
        yield from map(CountedPart, counter.finish())

    def _report(self, block: Block, file_size: int | None) -> None:
        if self.progress:
            self.progress(block.path, block.n_raw_bytes, file_size)

    @property
    def _unit_cutter(self) -> UnitCutter | None:
        has_users = self.special and self.special.user
        if has_users or self.normalizer.name != "none" or not self.reads_lines:
            return None
        return UnitCutter.of(self.pretokenizer)

    def texts(self, block: Block) -> pl.LazyFrame:
        """Return the lines of a block as a column `text`."""
        return self._lines(block.data)

    def _frame_of(self, texts: pyarrow.Array) -> pl.LazyFrame:
        """Return texts as a column `text`."""
        if self._splits_early:
            return self._lines(join_texts(texts, b"\n"))
        return pl.LazyFrame({"text": pl.from_arrow(texts)})

    def _lines(self, data: bytes) -> pl.LazyFrame:
        if self._splits_early:
            data = _drop_empty_lines(data.translate(_WHITE_TO_LINE_END))
        return _lines_of(data)

    def count_texts(self, texts: pl.LazyFrame) -> pl.DataFrame:
        """Normalise and split a column `text`. Return a table with columns word and count."""
        words = self._split(self._normalize(_TEXT))
        n_rows = pl.len().cast(pl.Int64)
        if self._splits_early:
            texts = texts.group_by("text").agg(count=n_rows)
            rows = texts.select("count", word=words).explode("word")
            table = rows.group_by("word").agg(_COUNT.sum())
        else:
            rows = texts.select(word=words).explode("word")
            table = rows.group_by("word").agg(count=n_rows)
        return table.filter(_WORD.is_not_null()).collect(engine="streaming").select("word", "count")

    @property
    def _splits_early(self) -> bool:
        """Return whether texts are split at ASCII white space before they are normalised.

        This is faster, because most of the resulting texts repeat, and gives equal words.
        """
        is_spaced = self.special and self.special.spaced
        if self.word_counts or is_spaced:
            return False
        return self.pretokenizer.name == "whitespace"

    def _split(self, text: pl.Expr) -> pl.Expr:
        has_users = bool(self.special and self.special.user)
        return self.pretokenizer.extract(text, hidden=has_users)

    def _normalize(self, text: pl.Expr) -> pl.Expr:
        if self.special:
            text = self.special.hide(text)
        return self.normalizer.apply(text)

    def _read_word_counts(self, block: Block) -> pl.DataFrame:
        """Read lines of a word and its count. Raises CorpusError for any other line."""
        columns = _TEXT.str.extract_groups(_TABLE_LINE).struct
        word = self._normalize(columns[0])
        if self.pretokenizer.name == "whitespace" or self.pretokenizer.is_bytes:
            words = self._split(word)
        else:
            words = pl.concat_list(word.str.replace_all(" ", SPACE, literal=True))
        count = columns[1].cast(pl.Int64, strict=False)
        lines = _lines_of(block.data).with_row_index().filter(_TEXT.str.contains(r"[^\t ]"))
        table = lines.with_columns(words=words, count=count).collect()

        n_words = pl.col("words").list.len().fill_null(0)
        bad = table.filter((_COUNT.fill_null(0) < 1) | (n_words == 0))
        for index, text in bad.select("index", "text").head(1).rows():
            raise CorpusError(
                f"{block.place(index)}: {text[:40]!r} is not a word, a tab or space, "
                "and a count (a positive 64-bit integer); repair the line"
            )
        rows = table.select("count", word="words").explode("word")
        check_total(sum_counts(rows))
        return rows.group_by("word").agg(_COUNT.sum())


def _lines_of(data: bytes) -> pl.LazyFrame:
    """Return the lines of UTF-8 text as a column `text`.

    Polars would decompress text that starts like zlib's data, such as "x^", so an empty line is put
    before such text, and dropped again.
    """
    if data.startswith((b"x\x01", b"x^")):
        return pl.scan_lines(b"\n" + data, name="text").slice(1)
    return pl.scan_lines(data, name="text")


def _join_blocks(blocks: Sequence[Block], n_raw_bytes: int) -> Block:
    data = b"".join(block.data for block in blocks)
    bad_lines = chain.from_iterable(block.bad_lines for block in blocks)
    n_lines = sum(block.n_lines for block in blocks)
    return Block(blocks[-1].path, 1, n_lines, data, n_raw_bytes, tuple(bad_lines))


def _drop_empty_lines(data: bytes) -> bytes:
    """Drop empty lines, which take memory, if at least half of the bytes are line ends."""
    if 2 * n_line_ends(data) < len(data):
        return data
    return re.sub(rb"\n+", b"\n", data)
