"""`open_table`: a table of volt.files.table_files, or JSON lines → a shard with columns of text or of ids (whole
numbers).

    {"text": {"de": "Haus"}, "ids": [7, 8]}   with fields src: text.de, ids: ids
    → column src "Haus", column ids 7 8

A file is converted once, when it is indexed: its named columns are copied to the cache. Each
segment is a range of rows, stored as an LZ4 frame with an Arrow batch. Invalid rows are refused at
that time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from volt import arguments
from volt.arguments import MAX_LINE
from volt.errors import ConfigError
from volt.files.blocks import Block, read_blocks
from volt.files.column_paths import LIST, values_of
from volt.files.json_lines import read_objects
from volt.files.table_files import read_rows
from volt.files.tables import table_kind
from volt.files.text_checks import BYTE_ORDER_MARK, count_lines, long_line_error
from volt.stream.reading.index_cache import Index, cached_index
from volt.stream.reading.segments import index_segments
from volt.stream.reading.shard import Facts, Shard, as_stream_errors, shifting_lines
from volt.stream.reading.text_shard import cut_lines
from volt.stream.transforms.column import Column

if TYPE_CHECKING:
    import pyarrow

_FIELDS = "give names and columns, such as {src: translation.de, tgt: translation.en}"
_MOST_LINES = 1 << 17  # JSON lines in a segment, if their number is not given
HEADED = ("csv", "tsv")  # kinds of tables whose first line names the columns
Hashes = list[tuple[blake2b, blake2b]]  # of each column's values, and of their sizes


@dataclass(frozen=True, slots=True)
class TableShard(Shard):
    def read(self, segment: int) -> tuple[Column, ...]:
        import pyarrow as pa

        batch = pa.ipc.open_stream(self.segments.read(segment)).read_next_batch()
        return tuple(Column.from_arrow(column) for column in batch.columns)

    @property
    def n_header_lines(self) -> int:
        return int(table_kind(self.segments.path, reads_urls=False) in HEADED)

    def digests_of(self, n_lines: int) -> tuple[str, ...]:
        if table_kind(self.segments.path) in ("parquet", "arrow"):
            return ()  # a file that is written again may have other segments
        hashes: Hashes = []
        for segment, count in enumerate(self.counts):
            chosen = np.arange(min(count, n_lines))
            _update_hashes(hashes, [column.take(chosen) for column in self.read(segment)])
            n_lines -= len(chosen)
            if not n_lines:
                break
        return (_digest_of(hashes),)


def open_table(
    path: str,
    fields: Mapping[str, str],
    *,
    split_lines: int | None,
    cache: Path | None = None,
    max_line: int | None = MAX_LINE,
) -> TableShard:
    """Index a table, or load its index from the cache; options as for `open_shard`.

    split_lines: rows per segment; if None, a row group of Parquet, or 131,072 JSON lines
    """
    if not arguments.mapping(fields, "fields", remedy=_FIELDS):
        raise ConfigError(f"fields is empty; {_FIELDS}")
    for name, column in fields.items():
        arguments.text(name, "fields")
        arguments.text(column, f"fields[{name!r}]")
        if LIST in column:
            problem = f"fields[{name!r}] is {column!r}, but a row has one value of a field"
            raise ConfigError(f"{problem}; name a column without {LIST}")
    columns = [*fields.values()]
    with as_stream_errors(path):

        def make(copy: Path) -> Index:
            scan = _TableScan(path, max_line)
            batches = _read_batches(path, columns, n=split_lines, max_line=max_line)
            segments = index_segments(path, "frames", scan.read(batches), copy=copy)
            return (segments,), scan.facts()

        # JSON lines are longer than their values, so the key contains the limit
        key = ["table", split_lines, max_line, columns]
        index = cached_index([path], make, cache=cache, max_line=max_line, key=key)
        return TableShard(*index, tuple(fields))


class _TableScan:
    """Reads the batches of a table once, and collects the facts about its rows."""

    def __init__(self, path: str, max_line: int | None) -> None:
        self._path = path
        self._max_line = max_line
        self._n_rows = 0
        self._n_bytes = 0
        self._longest = 0
        self._first_shifting = 0
        self._hashes: Hashes = []

    def read(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[tuple[bytes, int]]:
        """Yield the bytes of each batch, and its number of rows."""
        import pyarrow as pa

        for batch in batches:
            columns = [Column.from_arrow(column) for column in batch.columns]
            if not self._first_shifting:
                for row in shifting_lines(columns):
                    self._first_shifting = self._n_rows + row + 1
                    break
            self._measure(columns)
            _update_hashes(self._hashes, columns)
            self._n_rows += len(batch)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield bytes(sink.getvalue()), len(batch)

    def facts(self) -> Facts:
        return Facts(self._n_bytes, self._longest, self._first_shifting, _digest_of(self._hashes))

    def _measure(self, columns: list[Column]) -> None:
        sizes = np.full(len(columns[0]), len(columns) - 1)  # tabs
        for column in columns:
            sizes += np.maximum(column.as_text().sizes, 0)
        self._n_bytes += int(sizes.sum()) + len(sizes)
        self._longest = max(self._longest, int(sizes.max(initial=0)))
        if self._max_line is not None and self._longest > self._max_line:
            row = self._n_rows + int(np.argmax(sizes)) + 1
            raise long_line_error(self._path, row, self._max_line)


def _update_hashes(hashes: Hashes, columns: Sequence[Column]) -> None:
    if not hashes:
        hashes += [(blake2b(digest_size=16), blake2b(digest_size=16)) for _ in columns]
    for column, (values, sizes) in zip(columns, hashes, strict=True):
        values.update(column.text().data)
        sizes.update(column.sizes.tobytes())


def _digest_of(hashes: Hashes) -> str:
    record = [[values.hexdigest(), sizes.hexdigest()] for values, sizes in hashes]
    return blake2b(json.dumps(record).encode(), digest_size=16).hexdigest()


def _read_batches(
    path: str, columns: Sequence[str], *, n: int | None, max_line: int | None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a table, `n` or (if None) a row group or 131,072 lines at a time.

    Raises CorpusError if the file is damaged, or if a column is missing or invalid.
    """
    import pyarrow as pa

    kind = table_kind(path)
    if kind in ("parquet", "arrow", "csv", "tsv"):
        parts = read_rows(path, kind, columns, blocks=read_blocks(path, max_line=max_line))
    else:
        blocks = _read_lines(path, n or _MOST_LINES, max_line)
        parts = read_objects(blocks, columns, takes_ids=True, skips_blank=False)
    for rows in parts:
        values = [values_of(rows, column, takes_ids=True).array for column in columns]
        batch = pa.RecordBatch.from_arrays(values, names=list(columns))
        for start in range(0, len(batch), n or len(batch) or 1):
            yield batch.slice(start, n)


def _read_lines(path: str, n: int, max_line: int | None) -> Iterator[Block]:
    """Yield the lines of a file, n at a time, without a UTF-8 check."""
    first_line = 1
    for data in cut_lines(path, n, max_line=max_line):
        if first_line == 1:
            data = data.removeprefix(BYTE_ORDER_MARK)
        block = Block(path, first_line, count_lines(data), data, 0)
        yield block
        first_line += block.n_lines
