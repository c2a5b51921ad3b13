"""Encoded texts of a table → the table, with pieces or ids instead of the texts, or beside them.

    {"id": 1, "text": "low"}   →   {"id": 1, "text": [6, 7]}
    with to_column="ids"       →   {"id": 1, "text": "low", "ids": [6, 7]}

Pieces are one text with spaces. Ids are a list of int32; in CSV and TSV, a text with spaces. A null
stays null. The output is a table of the input's kind, with equally many rows.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from volt.encode.arrays import EncodedPart
from volt.errors import ConfigError, CorpusError, quoted, shown_path
from volt.files.column_paths import LIST, steps_of
from volt.files.json_lines import parse_exactly, write_exactly
from volt.files.table_rows import NAMES, TextColumns, TextRows, as_text, join_texts
from volt.files.tables import Kind

if TYPE_CHECKING:
    import pyarrow

TABLE_ENDINGS = (".jsonl", ".ndjson", ".parquet", ".arrow", ".feather", ".csv", ".tsv")
_TAB_OR_LINE_END = "[\t\n]"


class TableWriter:
    """Writes the rows of one or several tables, of one kind, as one table.

    file: where the table is written; None for parts that `take` returns
    columns: the columns that were encoded
    to_column: the name of the new column; None to replace the texts
    kind: the kind of table that the name of the output says; None for any
    """

    def __init__(
        self,
        file: BinaryIO | None,
        columns: TextColumns,
        *,
        to_column: str | None = None,
        kind: Kind | None = None,
    ) -> None:
        self._is_stream = file is None
        self._file: Any = BytesIO() if file is None else file
        self._columns = columns
        self._to_column = to_column
        self._kind = kind
        self._schema: pyarrow.Schema | None = None
        self._writer: Any = None

    def add(self, rows: TextRows, part: EncodedPart) -> None:
        """Write rows. part: the ids or pieces of each text

        Raises ConfigError if the table has the new column, or differs from earlier tables;
        CorpusError if a piece cannot be written.
        """
        self._check_kind(rows)
        if rows.kind == "json":
            self._file.writelines(self._replace_objects(rows, _encoded_array(part)))
            return
        values = _encoded_array(part)
        if rows.kind in ("csv", "tsv"):
            values = as_text(values)
        if self._columns.fields:
            self._file.write(_replace_fields(rows, self._columns.fields, values))
            return
        table = self._replace_column(rows, values)
        if self._writer is None:
            self._schema = table.schema
            self._writer = _open_writer(self._file, rows.kind, table.schema)
        if table.schema != self._schema:
            raise ConfigError(
                f"{shown_path(rows.path)}: other columns than in the first file; "
                "encode each file into a folder"
            )
        if len(table):
            self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def take(self) -> bytes:
        """Return the bytes written since the last call; b"" if they are in the file."""
        if not self._is_stream:
            return b""
        data: bytes = self._file.getvalue()
        self._file.seek(0)
        self._file.truncate()
        return data

    def _check_kind(self, rows: TextRows) -> None:
        if self._is_stream and rows.kind in ("parquet", "arrow"):
            raise ConfigError(
                f"{shown_path(rows.path)}: {NAMES[rows.kind]} cannot be written to a stream; "
                "name a file or a folder"
            )
        self._kind = self._kind or rows.kind
        if rows.kind != self._kind:
            raise ConfigError(
                f"{shown_path(rows.path)}: {NAMES[rows.kind]}, but the output or another file is "
                f"{NAMES[self._kind]}; give all files the ending of {NAMES[rows.kind]}, or encode "
                "each file into a folder"
            )

    def _refuse_taken_name(self, names: Sequence[str], place: str) -> None:
        if self._to_column is not None and self._to_column in names:
            raise ConfigError(
                f"{place}: has a column {quoted(self._to_column)}; choose another to_column"
            )

    def _replace_objects(self, rows: TextRows, values: pyarrow.Array) -> Iterator[bytes]:
        """Yield the lines of JSON objects."""
        data, indices = rows.content
        lines = data.split(b"\n")
        encoded = iter(values.to_pylist())
        n_texts = np.bincount(rows.rows, minlength=len(indices)).tolist()
        for row, index in enumerate(indices.tolist()):
            place = f"{shown_path(rows.path)}:{rows.numbers[row]}"
            try:
                record = parse_exactly(lines[index])
            except (ValueError, RecursionError) as error:
                raise CorpusError(f"{place}: {error}; repair the line") from None
            steps = steps_of(self._columns.column or "", [*record])
            if self._to_column is None:
                _replace_texts(record, steps, encoded)
            else:
                self._refuse_taken_name([*record], place)
                new: Any = [next(encoded) for _ in range(n_texts[row])]
                if LIST not in steps:
                    new = new[0] if new else None
                record[self._to_column] = new
            yield write_exactly(record).encode(errors="backslashreplace") + b"\n"

    def _replace_column(self, rows: TextRows, values: pyarrow.Array) -> pyarrow.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        table = rows.content
        names = table.schema.names
        name, *steps = steps_of(self._columns.column or "", names)
        if self._to_column is not None:
            self._refuse_taken_name(names, shown_path(rows.path))
            if LIST in steps:
                n_texts = np.bincount(rows.rows, minlength=len(table))
                offsets = np.append(0, np.cumsum(n_texts)).astype(np.int32)
                return table.append_column(
                    self._to_column, pa.ListArray.from_arrays(offsets, values)
                )
        if rows.is_present is not None:
            indices = np.cumsum(rows.is_present) - 1
            values = pc.take(values, pa.array(indices, mask=~rows.is_present))
        if self._to_column is not None:
            return table.append_column(self._to_column, values)
        column = table.column(name).combine_chunks()
        return table.set_column(names.index(name), name, _rebuild(column, steps, values))


def _encoded_array(part: EncodedPart) -> pyarrow.Array:
    """Return the encoded texts as text, or as lists of ids."""
    import pyarrow as pa

    ends = part.ends
    if part.values.dtype != np.uint8:
        offsets = np.append(0, ends).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, pa.array(part.values))
    text = np.delete(part.values, ends - 1)  # without line ends
    offsets = np.append(0, ends - np.arange(1, len(ends) + 1))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.large_string(), len(ends), buffers)


def _replace_fields(rows: TextRows, fields: Sequence[int], values: pyarrow.Array) -> bytes:
    """Return lines of fields. values: the new text of each row's `fields`, in their order"""
    import pyarrow as pa
    import pyarrow.compute as pc

    bad = pc.index(pc.match_substring_regex(values, _TAB_OR_LINE_END), True).as_py()
    if bad >= 0:
        raise CorpusError(
            f"{rows.place(bad)}: a piece contains a tab or a line end, which TSV cannot store; "
            "write ids"
        )
    lists = rows.content
    starts = lists.offsets.to_numpy()[:-1]
    positions = (starts[:, None] + np.array(fields) - 1).ravel()
    is_replaced = np.zeros(len(lists.flatten()), bool)
    is_replaced[positions] = True
    in_order = values.take(pa.array(np.argsort(positions)))
    texts = pc.replace_with_mask(lists.flatten(), pa.array(is_replaced), in_order)
    new_lists = pa.LargeListArray.from_arrays(lists.offsets.cast(pa.int64()), texts)
    lines = pc.binary_join(new_lists, pa.scalar("\t", pa.large_string()))
    return join_texts(lines, b"\n")


def _replace_texts(record: Any, steps: Sequence[str], values: Iterator[Any]) -> None:
    """Replace the texts of an object, or of a list, in place."""
    first, *others = steps
    keys: Any = [first]
    if first == LIST:
        keys = range(len(record))
    for key in keys:
        inner = record[key] if first == LIST else record.get(key)
        if inner is None:
            continue
        if others:
            _replace_texts(inner, others, values)
        else:
            record[key] = next(values)


def _rebuild(array: pyarrow.Array, steps: Sequence[str], values: pyarrow.Array) -> pyarrow.Array:
    """Return a column with other values at a path."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not steps:
        return values
    step, *others = steps
    nulls = array.is_null()
    if step == LIST:
        inner = _rebuild(pc.list_flatten(array), others, values)
        sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = np.append(0, np.cumsum(sizes)).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, inner, mask=nulls)
    names = [field.name for field in array.type]
    children = [pc.struct_field(array, name) for name in names]
    index = names.index(step)
    children[index] = _rebuild(children[index], others, values)
    return pa.StructArray.from_arrays(children, names, mask=nulls)


def _open_writer(file: Any, kind: Kind, schema: pyarrow.Schema) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    if kind == "parquet":
        return parquet.ParquetWriter(file, schema)
    if kind == "arrow":
        return pa.ipc.new_file(file, schema)
    return _CsvWriter(file, schema, delimiter="\t" if kind == "tsv" else ",")


class _CsvWriter:
    """Writes tables of text like a writer of Arrow, but only quotes what needs quotes."""

    def __init__(self, file: BinaryIO, schema: pyarrow.Schema, *, delimiter: str) -> None:
        self._file = file
        self._delimiter = delimiter
        self._write([schema.names])

    def write_table(self, table: pyarrow.Table) -> None:
        columns = (column.to_pylist() for column in table.columns)
        self._write(zip(*columns, strict=True))

    def _write(self, rows: Iterable[Iterable[str]]) -> None:
        text = StringIO(newline="")
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode())

    def close(self) -> None:
        """Do nothing: all rows are written."""
