"""Encoded texts of a table → the table, with pieces or ids instead of the texts, or beside them.

    {"id": 1, "text": "low"}   →   {"id": 1, "text": [6, 7]}
    with to_column="ids"       →   {"id": 1, "text": "low", "ids": [6, 7]}

Pieces are one text with spaces. Ids are a list of int32; in CSV and TSV, a text with spaces. A null
stays null. The output is a table of the input's kind, with equally many rows.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from io import BytesIO, TextIOWrapper
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from volt.encode.arrays import EncodedPart
from volt.errors import ConfigError, CorpusError, quoted, shown_path
from volt.files.column_paths import LIST, Steps, steps_of
from volt.files.json_lines import parse_exactly, write_exactly
from volt.files.table_rows import TextColumns, TextRows, as_text
from volt.files.tables import NAMES, Kind

if TYPE_CHECKING:
    import pyarrow


class TableWriter:
    """Turns the encoded rows of one or several tables, of one kind, into the bytes of one table.

    columns: the columns that were encoded
    to_column: the name of the new column; None to replace the texts
    kind: the kind of table that the name of the output says; None for any
    """

    def __init__(
        self, columns: TextColumns, *, to_column: str | None = None, kind: Kind | None = None
    ) -> None:
        self._columns = columns
        self._to_column = to_column
        self._kind = kind
        self._schema: pyarrow.Schema | None = None
        self._file = _Pieces()
        self._writer: Any = None

    def add(self, rows: TextRows, part: EncodedPart) -> bytes:
        """Return the next bytes of the table. part: the ids or pieces of each text

        Raises ConfigError if the table has the new column, or differs from earlier tables;
        CorpusError if a piece cannot be written.
        """
        self._check_kind(rows)
        values = _encoded_array(part)
        if rows.kind in ("csv", "tsv"):
            values = as_text(values)
        if self._columns.fields:
            return _replace_fields(rows, self._columns.fields, values)
        steps = steps_of(self._columns.column or "", rows.table.schema.names)
        if rows.kind == "json":
            return b"".join(self._replace_objects(rows, steps, values))
        table = self._replace_column(rows, steps, values)
        if self._writer is None:
            self._schema = table.schema
            self._writer = _open_writer(self._file, rows.kind, table.schema)
        if table.schema != self._schema:
            raise ConfigError(
                f"{shown_path(rows.block.path)}: other columns than in the first file; "
                "encode each file into a folder"
            )
        if len(table):
            self._writer.write_table(table)
        return self._file.take()

    def close(self) -> bytes:
        """Return the last bytes of the table."""
        if self._writer is not None:
            self._writer.close()
        return self._file.take()

    def _check_kind(self, rows: TextRows) -> None:
        self._kind = self._kind or rows.kind
        if rows.kind != self._kind:
            raise ConfigError(
                f"{shown_path(rows.block.path)}: {NAMES[rows.kind]}, but the output or another file "
                f"is {NAMES[self._kind]}; give all files the ending of {NAMES[rows.kind]}, or encode "
                "each file into a folder"
            )

    def _refuse_taken_name(self, names: Collection[str], place: str) -> None:
        if self._to_column is not None and self._to_column in names:
            raise ConfigError(
                f"{place}: has a column {quoted(self._to_column)}; choose another to_column"
            )

    def _replace_objects(
        self, rows: TextRows, steps: Steps, values: pyarrow.Array
    ) -> Iterator[bytes]:
        """Yield the lines of JSON objects."""
        lines = rows.block.data.split(b"\n")
        encoded = iter(values.to_pylist())
        new_values = []
        if self._to_column is not None:
            new_values = _as_column(rows, steps, values).to_pylist()
        for row, index in enumerate(rows.lines.tolist()):
            place = rows.place_of_row(row)
            try:
                record = parse_exactly(lines[index])
            except (ValueError, RecursionError) as error:
                raise CorpusError(f"{place}: {error}; repair the line") from None
            if self._to_column is None:
                _replace_texts(record, steps, encoded)
            else:
                self._refuse_taken_name(record, place)
                record[self._to_column] = new_values[row]
            yield write_exactly(record).encode(errors="backslashreplace") + b"\n"

    def _replace_column(self, rows: TextRows, steps: Steps, values: pyarrow.Array) -> pyarrow.Table:
        table = rows.table
        if self._to_column is not None:
            self._refuse_taken_name(table.schema.names, shown_path(rows.block.path))
            return table.append_column(self._to_column, _as_column(rows, steps, values))
        name, *inner_steps = steps
        column = table.column(name).combine_chunks()
        new_column = _rebuild(column, inner_steps, _with_nulls(rows, values))
        return table.set_column(table.schema.names.index(name), name, new_column)


class _Pieces(BytesIO):
    """A file whose bytes are taken away as they are written."""

    _n_taken = 0

    def tell(self) -> int:
        return self._n_taken + super().tell()

    def take(self) -> bytes:
        data = self.getvalue()
        self._n_taken += len(data)
        self.seek(0)
        self.truncate()
        return data


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


def _with_nulls(rows: TextRows, values: pyarrow.Array) -> pyarrow.Array:
    """Return the encoded texts, and null for each null of the column."""
    import pyarrow as pa

    if rows.is_present is None:
        return values
    indices = np.cumsum(rows.is_present) - 1
    return values.take(pa.array(indices, mask=~rows.is_present))


def _as_column(rows: TextRows, steps: Steps, values: pyarrow.Array) -> pyarrow.Array:
    """Return the encoded texts of each row: one or null, or a list if the path contains a list."""
    import pyarrow as pa

    if LIST not in steps:
        return _with_nulls(rows, values)
    n_texts = np.bincount(rows.rows, minlength=len(rows.lines))
    offsets = np.append(0, np.cumsum(n_texts)).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, values)


def _replace_fields(rows: TextRows, fields: Sequence[int], values: pyarrow.Array) -> bytes:
    """Return lines of fields. values: the new text of each row's `fields`, in their order"""
    encoded = values.to_pylist()
    for index, text in enumerate(encoded):
        if "\t" in text or "\n" in text:
            raise CorpusError(
                f"{rows.place(index)}: a piece contains a tab or a line end, which TSV cannot store; "
                "write ids"
            )
    following = iter(encoded)
    lines = []
    for line in rows.table.column("line").to_pylist():
        for number in fields:
            line[number - 1] = next(following)
        lines.append("\t".join(line) + "\n")
    return "".join(lines).encode()


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
        text = TextIOWrapper(file, "utf-8", newline="", write_through=True)
        self._writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        self._writer.writerow(schema.names)

    def write_table(self, table: pyarrow.Table) -> None:
        columns = (column.to_pylist() for column in table.columns)
        self._writer.writerows(zip(*columns, strict=True))

    def close(self) -> None:
        """Do nothing: all rows are written."""
