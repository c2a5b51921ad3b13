"""Tables → rows of text: JSON lines, Parquet, Arrow, CSV and TSV files.

    {"id": 1, "text": "low"}       TextColumns("text")     → row 1: "low"
    {"a": ["low", "lower"]}        TextColumns("a[]")      → row 1: "low", "lower"
    low\\tlower                     TextColumns(fields=(2,)) → row 1: "lower"

A table is read in parts of about `block_size` bytes: blocks of lines, batches of Arrow, rows of
Parquet. A text may contain line ends. Errors name the file and the row; in JSON lines and TSV, a row
is a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from volt import arguments
from volt.array_types import Flags, Longs
from volt.errors import ConfigError, CorpusError, quoted, shown_path
from volt.files.blocks import BLOCK_SIZE, Block, Errors, read_blocks
from volt.files.column_paths import (
    ColumnValues,
    Rows,
    is_list,
    list_names,
    steps_of,
    text_columns,
    values_of,
)
from volt.files.json_lines import first_object, read_objects
from volt.files.ranges import FileRange, path_of, read_source
from volt.files.table_files import read_rows
from volt.files.tables import NAMES, Kind, check_stdin, kind_of_text, table_kind
from volt.files.text_checks import count_lines

if TYPE_CHECKING:
    import pyarrow

_FIELDS = "fields[]"  # the column of a table of tab-separated lines


@dataclass(frozen=True, slots=True)
class TextColumns:
    """The texts of a table: those of a column, or some fields of tab-separated lines.

    column: the path of a column, see volt.files.column_paths; a CSV or TSV file has a header then
    fields: numbers of fields, from 1, of lines without a header: 2, "1,2" or (1, 2); None or () for
        none

    >>> bool(TextColumns("text")), bool(TextColumns())
    (True, False)
    """

    column: str | None = None
    fields: Any = ()

    def __post_init__(self) -> None:
        if not isinstance(self.fields, tuple) or self.fields:
            object.__setattr__(self, "fields", column_numbers(self.fields))  # it is frozen
        if self.column is not None:
            arguments.text(self.column, "column")
            steps_of(self.column, [])
        if self.column is not None and self.fields:
            raise ConfigError("fields and column exclude each other; give one")

    def __bool__(self) -> bool:
        return self.column is not None or bool(self.fields)


@dataclass(frozen=True, slots=True)
class TextRows(Rows):
    """Consecutive rows of a table, and their texts.

    texts: (n_texts,) large_string, without nulls
    rows: (n_texts,) int64, the index of each text's row
    n_bad: rows with a null, and lines that were not UTF-8
    is_present: (n_values,) bool, which values of the column are a text; None if all are
    are_ids: whether the texts were lists of ids; each text is then ids with spaces
    """

    texts: pyarrow.Array
    rows: Longs
    n_bad: int
    is_present: Flags | None
    are_ids: bool

    @property
    def n_bytes(self) -> int:
        """The bytes of the lines that contain the texts, or else of the texts."""
        return len(self.block.data) or text_bytes(self.texts)

    def place(self, index: int) -> str:
        """Return "FILE:LINE" or "FILE:ROW" of a text, for errors."""
        return self.place_of_row(self.rows[index])

    def join(self, separator: bytes) -> bytes:
        """Return the texts as bytes, with a separator after each."""
        return join_texts(self.texts, separator)


def text_bytes(texts: pyarrow.Array) -> int:
    import pyarrow.compute as pc

    return pc.sum(pc.binary_length(texts)).as_py() or 0


def join_texts(texts: pyarrow.Array, separator: bytes) -> bytes:
    r"""Return texts of Arrow as bytes, with a separator after each.

    >>> import pyarrow as pa
    >>> join_texts(pa.array(["low", "lower"]), b"\n")
    b'low\nlower\n'
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(texts):
        return b""
    rows = texts.cast(pa.large_binary())
    lists = pa.LargeListArray.from_arrays([0, len(rows)], rows)
    [joined] = pc.binary_join(lists, pa.scalar(separator, pa.large_binary()))
    return bytes(joined.as_buffer()) + separator


def column_numbers(value: str | int | Iterable[int] | None) -> tuple[int, ...]:
    """Parse numbers of fields, which count from 1; None gives ().

    Raises ConfigError if numbers are repeated or below 1, or the value is anything else.

    >>> column_numbers("1,3"), column_numbers(2), column_numbers(None)
    ((1, 3), (2,), ())
    """
    if value is None:
        return ()
    items: Any = value
    if isinstance(value, str | Number):
        items = str(value).split(",")
    items = arguments.several(items, "fields")
    fields = tuple(int(item) for item in items if str(item).strip().isdecimal())
    if not fields or min(fields) < 1 or len(set(fields)) < len(items):
        raise ConfigError(
            f"fields={arguments.shortened(repr(value))}: "
            "give distinct column numbers, counted from 1, such as 2 or 1,2"
        )
    return fields


def read_texts(
    source: str | FileRange,
    columns: TextColumns,
    *,
    keeps_columns: bool = False,
    takes_ids: bool = False,
    **reading: Any,
) -> Iterator[TextRows]:
    """Yield the rows of a table, in parts of about `block_size` bytes.

    source: a file, "-" for stdin, or a range of lines. Of a file that cannot be divided, the first
        range has all rows.
    keeps_columns: whether all columns are read, to write the table again; null then stays null
    takes_ids: whether the column may have lists of ids instead of texts
    reading: arguments of `read_blocks`. For null, errors="strict" raises, "replace" reads an empty
        text, and "skip" omits it.
    Raises CorpusError, with file and row, if the table is damaged, or the column is missing or not
    text.
    """
    nulls = reading.get("errors", "strict")
    if keeps_columns and nulls == "replace":
        nulls = "skip"
    column = columns.column or _FIELDS
    names = None if keeps_columns else [column]
    for rows in _read_rows(source, columns, names, takes_ids=takes_ids, **reading):
        values = values_of(rows, column, takes_ids=takes_ids)
        yield _as_texts(rows, values, column, nulls)


def _read_rows(
    source: str | FileRange,
    columns: TextColumns,
    names: Sequence[str] | None,
    *,
    takes_ids: bool,
    block_size: int = BLOCK_SIZE,
    **reading: Any,
) -> Iterator[Rows]:
    path = path_of(source)
    blocks = read_source(source, block_size=block_size, **reading)
    kind = table_kind(path)
    if columns.fields:
        if kind not in (None, "tsv"):
            raise CorpusError(
                f"{shown_path(path)}: {NAMES[kind]}, but fields are of lines with tabs; "
                "name a column instead"
            )
        return (_split_fields(block, columns.fields) for block in blocks)

    if kind is None:
        first = next((block for block in blocks if block.data), None)  # a slow pipe's may be empty
        if first is None:
            return iter(())
        kind = kind_of_text(first)
        blocks = chain([first], blocks)
    if kind == "json":
        is_whole = source is path
        return read_objects(blocks, [columns.column or ""], takes_ids=takes_ids, is_whole=is_whole)
    if isinstance(source, FileRange):
        if source.start:
            return iter(())
        blocks = read_blocks(path, block_size=block_size, **reading)
    return read_rows(path, kind, names, blocks=blocks, block_size=block_size)


def _as_texts(rows: Rows, values: ColumnValues, column: str, nulls: Errors) -> TextRows:
    """Return the texts of a column, after nulls were treated. Raises CorpusError for a null if
    `nulls` is strict."""
    n_bad = int(values.null_rows.sum())
    if n_bad and nulls == "strict":
        raise _null_error(rows, int(values.null_rows.argmax()), column)
    texts = as_text(values.array)
    indices = values.rows
    is_present = None
    if n_bad and nulls == "replace":
        texts = texts.fill_null("")
    elif texts.null_count:
        is_present = np.asarray(texts.is_valid().to_numpy(zero_copy_only=False))
        texts = texts.drop_null()
        indices = indices[is_present]
    return TextRows(
        rows.kind,
        rows.block,
        rows.lines,
        rows.table,
        texts,
        indices,
        n_bad + rows.block.n_bad_lines,
        is_present,
        are_ids=is_list(values.array.type),
    )


def _null_error(rows: Rows, row: int, column: str) -> CorpusError:
    problem = "is null; "
    if rows.kind == "json":
        line = rows.block.data.split(b"\n")[rows.lines[row]]
        names = list_names([*json.loads(line)])
        problem = f"is null or missing; the line has {names}; name another column, "
    problem = f"column {quoted(column)} {problem}repair the row or pass"
    return CorpusError(f"{rows.place_of_row(row)}: {problem}", hint={"errors": "skip"})


def as_text(values: pyarrow.Array) -> pyarrow.Array:
    """Return lists of ids as texts with spaces, large_string; texts are returned unchanged."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_large_string(values.type):
        return values
    return pc.binary_join(values.cast(pa.list_(pa.string())), " ").cast(pa.large_string())


def _split_fields(block: Block, fields: Sequence[int]) -> Rows:
    """Return tab-separated lines as a table of all fields, and of some fields."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = block.data
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
    whole = pa.array([data.removesuffix(b"\n")], pa.large_binary()).cast(pa.large_string())
    lines = pc.split_pattern(whole, "\n").flatten()[: count_lines(data)]
    line_fields = pc.split_pattern(lines, "\t")
    n_fields = pc.list_value_length(line_fields)
    most = max(fields)
    row = pc.index(pc.less(n_fields, most), True).as_py()
    if row >= 0:
        raise CorpusError(
            f"{block.place(row)}: field {most} was requested, but the line has only "
            f"{n_fields[row]}; repair the line"
        )
    columns = [pc.list_element(line_fields, number - 1) for number in fields]
    tab = pa.scalar("\t", pa.large_string())
    texts = pc.split_pattern(pc.binary_join_element_wise(*columns, tab), "\t")
    table = pa.table({"line": line_fields, "fields": texts})
    return Rows("tsv", block, np.arange(len(lines)), table)


def read_text(source: str | FileRange, **reading: Any) -> Iterator[Block]:
    """Return the blocks of a text. Raises CorpusError if it is a table.

    reading: arguments of `read_blocks`
    """
    refuse_table(path_of(source))
    blocks = read_source(source, **reading)
    return check_stdin(blocks) if source == "-" else blocks


def read_lines(path: str, columns: TextColumns, **reading: Any) -> Iterator[bytes]:
    """Yield the lines of a text, or the texts of a table with a line end after each, in parts.

    reading: arguments of `read_blocks`
    Raises CorpusError if the file is a table without a column.
    """
    if columns:
        for rows in read_texts(path, columns, **reading):
            yield rows.join(b"\n")
        return
    for block in read_text(path, **reading):
        yield block.data


def refuse_table(path: str) -> None:
    """Raise CorpusError if a file is JSON lines, Parquet or Arrow, to be read as lines of text."""
    kind = table_kind(path, reads_urls=False)
    if kind not in ("json", "parquet", "arrow"):
        return
    paths = [path for name, type in _types_in(path, kind) for path in text_columns(name, type)]
    problem = f"{shown_path(path)}: {NAMES[kind]}, with columns of text {list_names(paths)}"
    raise CorpusError(f"{problem}; name one with", hint={"column": paths[0] if paths else "text"})


def _types_in(path: str, kind: Kind) -> Iterator[tuple[str, pyarrow.DataType]]:
    """Yield the columns of a table and their types; for JSON lines, those of the first line."""
    import pyarrow as pa

    if kind != "json":
        rows = next(read_rows(path, kind, None, blocks=iter(())))
        yield from zip(rows.table.schema.names, rows.table.schema.types, strict=True)
        return
    for block in read_blocks(path, block_size=1, errors="replace"):
        for name, value in first_object(block).items():
            if isinstance(value, str):
                yield name, pa.string()
                continue
            with suppress(pa.ArrowException, OverflowError, UnicodeError):  # of several types
                yield name, pa.array([value]).type
        return
