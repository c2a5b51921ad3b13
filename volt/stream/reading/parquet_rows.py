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

from volt.errors import StreamError, shown_path
from volt.stream.reading.arrow_columns import column_of

if TYPE_CHECKING:
    import pyarrow


def is_parquet(path: str) -> bool:
    """Whether a file starts as Parquet files do. Raises OSError if it cannot be read.

    >>> is_parquet(__file__)
    False
    """
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


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
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=list(columns), use_threads=False)
                arrays = [column_of(table, column) for column in columns]
                batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
                yield from (batch.slice(start, n) for start in range(0, len(batch), n or len(batch) or 1))
    except (pa.ArrowException, OSError) as error:
        raise StreamError(f"{shown_path(path)}: cannot be read as Parquet ({error}); write or copy it again") from error
    except StreamError as error:
        raise StreamError(f"{shown_path(path)}: {error}; change `fields`") from error


def _check(schema: pyarrow.Schema, columns: Sequence[str]) -> None:
    """Raise StreamError if a column is not there, or is neither text nor a list of whole numbers."""
    for column in columns:
        column_of(schema.empty_table(), column)
