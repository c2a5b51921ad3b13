"""Parquet → record batches of the named columns: a row group at a time, cut where it has more rows than wanted.

>>> import tempfile, pyarrow as pa, pyarrow.parquet
>>> with tempfile.NamedTemporaryFile() as file:
...     pa.parquet.write_table(pa.table({"a": ["x", "y", "z"]}), file.name, row_group_size=2)
...     [len(batch) for batch in parquet_rows(file.name, ("a",), n=1)]
[1, 1, 1]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from volt.errors import StreamError, quoted, shown_path
from volt.files.whole import read_start
from volt.stream.reading.arrow_columns import column_of

if TYPE_CHECKING:
    import pyarrow


def is_parquet(path: str) -> bool:
    """Whether a file starts as Parquet files do. Raises StreamError if it cannot be read.

    >>> is_parquet(__file__)
    False
    """
    return read_start(path, 4, kind=StreamError) == b"PAR1"


def parquet_rows(
    path: str, columns: Sequence[str], *, n: int | None, max_line: int | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a file, n a batch or as many as the rest of a row group has.

    columns: of texts, or of lists of whole numbers; a dot leads into a struct
    n: None makes a batch of each row group
    max_line: is not looked at
    Raises StreamError if the file is damaged, or has no such column.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            _check(file.schema_arrow, columns)
            n_rows = 0
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=list(columns), use_threads=False)
                table.validate()
                arrays = [_column(table, column, n_rows) for column in columns]
                batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
                n_rows += len(batch)
                yield from (batch.slice(start, n) for start in range(0, len(batch), n or len(batch) or 1))
    except (pa.ArrowException, OSError) as error:
        raise StreamError(f"{shown_path(path)}: cannot be read as Parquet ({error}); write or copy it again") from error
    except _UnfitRowError as error:
        raise StreamError(f"{shown_path(path)}:{error}") from error
    except StreamError as error:
        raise StreamError(f"{shown_path(path)}: {error}; name other columns") from error


class _UnfitRowError(Exception):
    """A row holds what is neither text nor a list of whole numbers."""


def _column(table: pyarrow.Table, column: str, n_before: int) -> pyarrow.Array:
    """A column of a row group that has so many rows before it. Raises _UnfitRowError if one of them is unfit."""
    import pyarrow as pa

    try:
        return column_of(table, column)
    except pa.ArrowInvalid as error:
        row = n_before + _first_unfit(table, column) + 1
        remedy = "mend the row, or write the table anew"
        raise _UnfitRowError(f"{row}: column {quoted(column)}: {error}; {remedy}") from error


def _first_unfit(table: pyarrow.Table, column: str) -> int:
    """The index of the first row that is unfit, of a table that has one."""
    low, high = 0, len(table) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_unfit(table.slice(low, middle + 1 - low), column) else (middle + 1, high)
    return low


def _is_unfit(table: pyarrow.Table, column: str) -> bool:
    import pyarrow as pa

    try:
        column_of(table, column)
    except pa.ArrowInvalid:
        return True
    return False


def _check(schema: pyarrow.Schema, columns: Sequence[str]) -> None:
    """Raise StreamError if a column is not there, or is neither text nor a list of whole numbers."""
    for column in columns:
        column_of(schema.empty_table(), column)
