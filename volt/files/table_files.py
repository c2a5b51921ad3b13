"""Files of Parquet, Arrow, CSV and TSV → rows, in tables of Arrow.

Of CSV and TSV, the first row is a header with names, and all values are text.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from volt.errors import CorpusError, shown_path
from volt.files.blocks import Block
from volt.files.column_paths import Rows, steps_of
from volt.files.remote_files import local_copy
from volt.files.tables import NAMES, Kind

if TYPE_CHECKING:
    import pyarrow

_MOST_ROWS = 1 << 18  # rows of Parquet that are read at a time
_LONGEST_VALUE = (1 << 31) - 1  # characters of a value in CSV
_CSV_END = "\0end"  # the line after the last; part of a value whose quote is never closed


def read_rows(
    path: str,
    kind: Kind,
    columns: Sequence[str] | None,
    *,
    blocks: Iterator[Block],
    block_size: int | None = None,
) -> Iterator[Rows]:
    """Yield the rows of a file that is not JSON lines: first none, for their columns, then all.

    columns: the paths of the columns that are read; None for all
    blocks: the file's text, for CSV and TSV
    block_size: about how many bytes are read at a time; by default, a row group or a batch

    Raises CorpusError if the file is damaged, or has no such column.
    """
    first_row = 1
    if kind in ("csv", "tsv"):
        first_row = 2  # after the header
        tables = _read_csv(blocks, path, "\t" if kind == "tsv" else ",")
    else:
        tables = _read_binary(path, kind, columns, block_size)
    for table, n_raw_bytes in tables:
        block = Block(path, first_row, len(table), b"", n_raw_bytes)
        yield Rows(kind, block, np.arange(len(table)), table)
        first_row += len(table)


def _read_binary(
    path: str, kind: Kind, columns: Sequence[str] | None, block_size: int | None
) -> Iterator[tuple[pyarrow.Table, int]]:
    """Yield the tables of a file, and 0 for the unknown number of bytes that were read."""
    import pyarrow as pa

    with local_copy(path, kind=CorpusError) as copy:
        try:
            if kind == "arrow":
                batches = _read_arrow(str(copy), block_size)
            else:
                batches = _read_parquet(str(copy), columns, block_size)
            for batch in batches:
                yield pa.Table.from_batches([batch]), 0
        except (pa.ArrowException, OSError) as error:
            raise CorpusError(
                f"{shown_path(path)}: cannot be read as {NAMES[kind]} ({error}); "
                "write or copy it again"
            ) from error


def _read_parquet(
    path: str, columns: Sequence[str] | None, block_size: int | None
) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(path, page_checksum_verification=True) as file:
        schema = file.schema_arrow
        yield pa.RecordBatch.from_pylist([], schema)
        if columns is not None:
            columns = [*{steps_of(column, schema.names)[0] for column in columns}]
        for group in range(file.num_row_groups):
            facts = file.metadata.row_group(group)
            n_rows = facts.num_rows
            if block_size is not None:
                n_rows = min(n_rows * block_size // max(1, facts.total_byte_size), _MOST_ROWS)
            yield from file.iter_batches(
                max(1, n_rows), row_groups=[group], columns=columns, use_threads=False
            )


def _read_arrow(path: str, block_size: int | None) -> Iterator[pyarrow.RecordBatch]:
    """Yield the batches of a file of Arrow, in its file format or its stream format."""
    import pyarrow as pa

    with pa.OSFile(path) as file:
        is_stream = file.read(6) != b"ARROW1"
        file.seek(0)
        if is_stream:
            reader = pa.ipc.open_stream(file)
            batches = iter(reader)
        else:
            reader = pa.ipc.open_file(file)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        yield pa.RecordBatch.from_pylist([], reader.schema)
        for batch in batches:
            step = len(batch) or 1
            if block_size is not None:
                step = max(1, step * block_size // max(1, batch.nbytes))
            for start in range(0, len(batch), step):
                yield batch.slice(start, step)


def _read_csv(
    blocks: Iterator[Block], path: str, delimiter: str
) -> Iterator[tuple[pyarrow.Table, int]]:
    """Yield the rows of each block, and the number of bytes read."""
    import pyarrow as pa

    block: Block | None = None

    def read_lines() -> Iterator[str]:
        nonlocal block
        for block in blocks:
            yield from StringIO(block.data.decode(), newline="\n")

    def as_table(rows: Sequence[Sequence[str]]) -> pyarrow.Table:
        columns = ([row[index] for row in rows] for index in range(len(names)))
        arrays = [pa.array(column, pa.large_string()) for column in columns]
        return pa.Table.from_arrays(arrays, names)

    rows = _parse_csv(read_lines(), path, delimiter)
    names = next(rows, [])
    if block is None:
        return
    yield as_table([]), 0
    waiting = list[list[str]]()
    last_block = block
    for row in rows:
        waiting.append(row)
        if block is not last_block:
            yield as_table(waiting), block.n_raw_bytes
            waiting = []
            last_block = block
    yield as_table(waiting), block.n_raw_bytes


def _parse_csv(lines: Iterable[str], path: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the header and the rows, which have as many values. A blank line is a row only if there
    is one column."""
    csv.field_size_limit(_LONGEST_VALUE)  # for all of Python; its default is 131,072
    number = 0
    n_columns = 0
    problem = ""
    try:
        for row in csv.reader(chain(lines, [_CSV_END]), delimiter=delimiter):
            if row == [_CSV_END]:
                return
            if not row and n_columns != 1:
                continue
            number += 1
            n_columns = n_columns or len(row)
            if row and row[-1].endswith(_CSV_END):
                problem = "a quote of the row is never closed; close it, or copy the file again"
                break
            row = row or [""]
            if len(row) != n_columns:
                problem = (
                    f"the row has {len(row)} values, but the header has {n_columns}; "
                    "put values with separators or quotes between quotes"
                )
                break
            yield row
    except csv.Error as error:
        number += 1
        problem = f"not CSV ({error}); fix it"
    raise CorpusError(f"{shown_path(path)}:{number}: {problem}")
