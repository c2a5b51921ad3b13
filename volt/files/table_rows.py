"""Tables → rows of text: JSON lines, Parquet, Arrow, CSV and TSV files.

    {"id": 1, "text": "low"}       TextColumns("text")     → row 1: "low"
    {"a": ["low", "lower"]}        TextColumns("a[]")      → row 1: "low", "lower"
    low\\tlower                     TextColumns(fields=(2,)) → row 1: "lower"

A table is read in parts of about `block_size` bytes: blocks of lines, batches of Arrow, rows of
Parquet. A text may contain line ends. Errors name the file and the row; in JSON lines and TSV, a row
is a line.
"""

from __future__ import annotations

import csv
import io
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.arguments import MAX_LINE
from volt.errors import ConfigError, CorpusError, quoted, shown_path
from volt.files.blocks import BLOCK_SIZE, Block, BlockFile, Errors, Wait, add_line, read_blocks
from volt.files.column_paths import (
    ColumnValues,
    is_list,
    list_names,
    steps_of,
    text_columns,
    values_of,
)
from volt.files.json_lines import first_object, parse_json, parse_object
from volt.files.ranges import FileRange, read_range
from volt.files.remote_files import local_copy
from volt.files.tables import Kind, kind_of_text, refuse_objects, table_kind
from volt.files.text_checks import count_lines

if TYPE_CHECKING:
    import pyarrow

_MOST_ROWS = 1 << 18  # rows of Parquet that are read at a time
_CSV_END = '\0end"'  # begins the row after the last; it closes a value whose quote is open
NAMES = {"parquet": "Parquet", "arrow": "Arrow", "json": "JSON lines", "csv": "CSV", "tsv": "TSV"}
Longs = NDArray[np.int64]


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
class TextRows:
    """Consecutive rows of a table, and their texts.

    kind: of the table
    texts: (n_texts,) large_string, without nulls
    rows: (n_texts,) int64, the index of each text's row
    numbers: (n_rows,) int64, the number of each row, from 1, in the file; a header is row 1
    n_lines: the rows read, and blank or dropped lines of text
    n_bytes: the bytes of the texts, or the lines that contain them
    n_raw_bytes: the bytes of the file that were read up to the end of these rows; 0 if unknown
    n_bad: rows with a null, and lines that were not UTF-8
    awaited: see `Block`
    is_present: (n_values,) bool, which values of the column are a text; None if all are
    content: the rows as stored: a table, lists of fields, or the bytes of JSON lines
    are_ids: whether the texts were lists of ids; each text is then ids with spaces
    """

    path: str
    kind: Kind
    texts: pyarrow.Array
    rows: Longs
    numbers: Longs
    n_lines: int
    n_bytes: int
    n_raw_bytes: int = 0
    n_bad: int = 0
    awaited: bool = False
    is_present: NDArray[np.bool_] | None = None
    content: Any = None
    are_ids: bool = False

    def place(self, index: int) -> str:
        """Return "FILE:ROW" of a text, for errors."""
        return f"{shown_path(self.path)}:{self.numbers[self.rows[index]]}"

    def join(self, separator: bytes) -> bytes:
        """Return the texts as bytes, with a separator after each."""
        return join_texts(self.texts, separator)


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


def as_text(values: pyarrow.Array) -> pyarrow.Array:
    """Return lists of ids as texts with spaces, large_string; texts are returned unchanged."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_large_string(values.type):
        return values
    return pc.binary_join(values.cast(pa.list_(pa.string())), " ").cast(pa.large_string())


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
    errors: Errors = "strict",
    block_size: int = BLOCK_SIZE,
    max_line: int | None = MAX_LINE,
    wait: Wait | None = None,
    keeps_content: bool = False,
    takes_ids: bool = False,
) -> Iterator[TextRows]:
    """Yield the rows of a table, in parts of about `block_size` bytes.

    source: a file, "-" for stdin, or a range of lines. Of a file that cannot be divided, the first
        range has all rows.
    errors: for null and for lines that are not UTF-8: "strict" raises, "replace" reads null as an
        empty text, "skip" omits it; of other lines, see `read_blocks`
    keeps_content: whether all columns are kept, to write the table again; null then stays null
    takes_ids: whether the column may have lists of ids instead of texts
    Raises CorpusError, with file and row, if the table is damaged, or the column is missing or not
    text.
    """
    path = source.path if isinstance(source, FileRange) else source
    reading: dict[str, Any] = {"errors": errors, "block_size": block_size, "max_line": max_line}
    if isinstance(source, FileRange):
        blocks = read_range(source, **reading)
    else:
        blocks = read_blocks(source, wait=wait, **reading)
    kind = table_kind(path)
    if columns.fields:
        if kind not in (None, "tsv"):
            raise CorpusError(
                f"{shown_path(path)}: {NAMES[kind]}, but fields are of lines with tabs; "
                "name a column instead"
            )
        for block in blocks:
            yield _split_fields(block, columns.fields)
        return

    column = columns.column or ""
    nulls = errors
    if keeps_content and errors == "replace":
        nulls = "skip"
    if kind is None:
        first = next(blocks, None)
        if first is None:
            return
        kind = kind_of_text(first)
        blocks = chain([first], blocks)
    if kind == "json":
        yield from _read_json(blocks, column, nulls, is_whole=source is path, takes_ids=takes_ids)
        return
    if isinstance(source, FileRange):
        if source.start:
            return
        blocks = read_blocks(path, **reading)
    names = None if keeps_content else [column]
    tables = read_tables(path, kind, names, blocks=blocks, block_size=block_size)
    for rows, table in _read_columns(path, kind, column, nulls, tables, takes_ids=takes_ids):
        yield replace(rows, content=table) if keeps_content else rows


def _read_columns(
    path: str,
    kind: Kind,
    column: str,
    nulls: Errors,
    tables: Iterable[tuple[pyarrow.Table, int]],
    *,
    takes_ids: bool,
) -> Iterator[tuple[TextRows, pyarrow.Table]]:
    """Yield the rows of each table of Arrow, and the table."""
    import pyarrow.compute as pc

    n_before = int(kind in ("csv", "tsv"))  # the header
    for table, n_raw_bytes in tables:
        values = checked_values(table, column, path, n_before, takes_ids=takes_ids)
        numbers = np.arange(n_before + 1, n_before + len(table) + 1)
        rows = _make_rows(path, kind, values, column, nulls, numbers)
        n_bytes = pc.sum(pc.binary_length(rows.texts)).as_py() or 0
        yield replace(rows, n_bytes=n_bytes, n_raw_bytes=n_raw_bytes), table
        n_before += len(table)


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


def read_text(path: str, **reading: Any) -> Iterator[Block]:
    """Return the blocks of a text. Raises CorpusError if it is a table.

    reading: arguments of `read_blocks`
    """
    refuse_table(path)
    blocks = read_blocks(path, **reading)
    return refuse_objects(blocks) if path == "-" else blocks


def _make_rows(
    path: str, kind: Kind, values: ColumnValues, column: str, nulls: Errors, numbers: Longs
) -> TextRows:
    """Return rows of text, after nulls were treated. Raises CorpusError for a null if `nulls` is
    strict."""
    texts = as_text(values.array)
    rows = values.rows
    n_bad = int(values.null_rows.sum())
    is_present = None
    if n_bad and nulls == "strict":
        place = f"{shown_path(path)}:{numbers[values.null_rows.argmax()]}"
        raise CorpusError(
            f"{place}: column {quoted(column)} is null; repair the row or pass",
            hint={"errors": "skip"},
        )
    if n_bad and nulls == "replace":
        texts = texts.fill_null("")
    elif texts.null_count:
        is_present = np.asarray(texts.is_valid().to_numpy(zero_copy_only=False))
        texts = texts.drop_null()
        rows = rows[is_present]
    return TextRows(
        path,
        kind,
        texts,
        rows,
        numbers,
        len(numbers),
        0,
        n_bad=n_bad,
        is_present=is_present,
        are_ids=is_list(values.array.type),
    )


def checked_values(
    table: pyarrow.Table, column: str, path: str, n_before: int = 0, *, takes_ids: bool = False
) -> ColumnValues:
    """Return the values of a column. Raises CorpusError with the file, and the row of an invalid
    value.

    n_before: the rows of the file before the table
    """
    import pyarrow as pa

    def is_unfit(row: int) -> bool:
        """Return whether rows 0 … row contain an invalid value."""
        try:
            values_of(table.slice(0, row + 1), column, takes_ids=takes_ids)
        except pa.ArrowInvalid:
            return True
        return False

    try:
        return values_of(table, column, takes_ids=takes_ids)
    except pa.ArrowInvalid as error:
        row = bisect_left(range(len(table)), True, hi=len(table) - 1, key=is_unfit)
        place = f"{shown_path(path)}:{n_before + row + 1}"
        raise CorpusError(f"{place}: column {quoted(column)}: {error}; fix the row") from error
    except CorpusError as error:
        raise CorpusError(f"{shown_path(path)}: {error}") from error


def read_tables(
    path: str,
    kind: Kind,
    columns: Sequence[str] | None,
    *,
    blocks: Iterator[Block],
    block_size: int | None = None,
) -> Iterator[tuple[pyarrow.Table, int]]:
    """Yield the rows of a file that is not JSON lines, and the bytes read so far; 0 if unknown.

    columns: the paths of the columns that are read; None for all
    blocks: the file's text, for CSV and TSV
    block_size: about how many bytes are read at a time; by default, a row group or a batch

    Raises CorpusError if the file is damaged, or has no such column.
    """
    if kind in ("csv", "tsv"):
        yield from _read_csv(blocks, path, "\t" if kind == "tsv" else ",", columns)
        return
    with local_copy(path, kind=CorpusError) as copy:
        for table in _read_binary(str(copy), kind, columns, block_size):
            yield table, 0


# Parquet and Arrow


def _read_binary(
    path: str, kind: Kind, columns: Sequence[str] | None, block_size: int | None
) -> Iterator[pyarrow.Table]:
    """Yield first a table without rows, then the rows of a local file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if kind == "arrow":
            yield from _read_batches(path, block_size)
            return
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            yield schema.empty_table()
            if columns is not None:
                columns = [*{steps_of(column, schema.names)[0] for column in columns}]
            options = {"columns": columns, "use_threads": False}
            for group in range(file.num_row_groups):
                if block_size is None:
                    yield file.read_row_group(group, **options)
                    continue
                facts = file.metadata.row_group(group)
                n_rows = block_size * facts.num_rows // max(1, facts.total_byte_size)
                n_rows = max(1, min(n_rows, _MOST_ROWS))
                for batch in file.iter_batches(n_rows, row_groups=[group], **options):
                    yield pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(
            f"{shown_path(path)}: cannot be read as {NAMES[kind]} ({error}); write or copy it again"
        ) from error


def _read_batches(path: str, block_size: int | None) -> Iterator[pyarrow.Table]:
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
        yield reader.schema.empty_table()
        for batch in batches:
            step = len(batch) or 1
            if block_size is not None:
                step = max(1, step * block_size // max(1, batch.nbytes))
            for start in range(0, len(batch), step):
                yield pa.Table.from_batches([batch.slice(start, step)])


# CSV


def _read_csv(
    blocks: Iterator[Block], path: str, delimiter: str, columns: Sequence[str] | None
) -> Iterator[tuple[pyarrow.Table, int]]:
    """Yield the rows of a file with a header, as columns of text."""
    import pyarrow as pa
    from pyarrow import csv as reader

    first = next(blocks, None)
    if first is None:
        return
    names = next(csv.reader(io.StringIO(first.data.decode()), delimiter=delimiter), [])
    schema = pa.schema([(name, pa.large_string()) for name in names])
    for column in columns or ():
        checked_values(schema.empty_table(), column, path)
    yield schema.empty_table(), 0
    bad_rows = list[Any]()
    end = _CSV_END + delimiter * len(names)

    def note_row(row: Any) -> str:
        if row.text == end:
            return "skip"
        bad_rows.append(row)
        return "error"

    file = BlockFile(add_line(chain([first], blocks), end.encode()))
    try:
        for batch in reader.open_csv(
            io.BufferedReader(file),
            reader.ReadOptions(use_threads=False, block_size=max(len(first.data), 1 << 16)),
            reader.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(names) > 1,
                invalid_row_handler=note_row,
            ),
            reader.ConvertOptions(
                column_types=schema, include_columns=columns or None, strings_can_be_null=False
            ),
        ):
            yield pa.Table.from_batches([batch]), file.n_raw_bytes
    except pa.ArrowInvalid as error:
        problem = f"not CSV ({error}); fix it"
        place = shown_path(path)
        if bad_rows:
            row = bad_rows[0]
            place += f":{row.number}"
            if row.text.endswith(end):
                raise CorpusError(
                    f"{place}: a quote of the row is never closed; close it, or copy the file again"
                ) from error
            problem = (
                f"the row has {row.actual_columns} values, but the header has "
                f"{row.expected_columns}; put values with separators or quotes between quotes"
            )
        raise CorpusError(f"{place}: {problem}") from error


# Lines


def _split_fields(block: Block, fields: tuple[int, ...]) -> TextRows:
    """Return some fields of tab-separated lines."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = block.data
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
    whole = pa.array([data.removesuffix(b"\n")], pa.large_binary()).cast(pa.large_string())
    lines = pc.split_pattern(whole, "\n").flatten()[: count_lines(data)]
    content = pc.split_pattern(lines, "\t")
    n_fields = pc.list_value_length(content)
    most = max(fields)
    row = pc.index(pc.less(n_fields, most), True).as_py()
    if row >= 0:
        raise CorpusError(
            f"{block.place(row)}: field {most} was requested, but the line has only "
            f"{n_fields[row]}; repair the line"
        )
    columns = pa.concat_arrays([pc.list_element(content, number - 1) for number in fields])
    by_row = np.arange(len(columns)).reshape(len(fields), -1).T.ravel()
    return TextRows(
        block.path,
        "tsv",
        columns.take(by_row),
        np.repeat(np.arange(len(lines)), len(fields)),
        _line_numbers(block, np.arange(len(lines))),
        block.n_lines,
        len(block.data),
        block.n_raw_bytes,
        block.n_bad_lines,
        block.awaited,
        content=content,
    )


def _line_numbers(block: Block, indices: Longs) -> Longs:
    """Return the numbers, in the file, of lines of a block."""
    numbers = np.arange(block.first_line, block.first_line + block.n_lines)
    if block.dropped:
        numbers = np.setdiff1d(numbers, block.bad_lines)
    return numbers[indices]


def _read_json(
    blocks: Iterable[Block], column: str, nulls: Errors, *, is_whole: bool, takes_ids: bool
) -> Iterator[TextRows]:
    """Yield the rows of JSON lines. is_whole: whether the blocks are all lines of the file"""
    import pyarrow as pa

    kind = pa.string()
    first_record = dict[str, Any]()
    n_rows = 0
    n_bad = 0
    for block in blocks:
        if not first_record:
            first_record = first_object(block)
            if takes_ids:
                kind = _find_type(block, column, [*first_record])
        [values], indices = parse_json(block, {column: kind}, [*first_record])
        if nulls == "strict" and values.null_rows.any():
            line = int(indices[values.null_rows.argmax()])
            record = parse_object(block, line, block.data.split(b"\n")[line])
            raise CorpusError(
                f"{block.place(line)}: column {quoted(column)} is null or missing; the line has "
                f"{list_names([*record])}; name another column, repair the line or pass",
                hint={"errors": "skip"},
            )
        rows = _make_rows(block.path, "json", values, column, nulls, _line_numbers(block, indices))
        n_rows += len(indices)
        n_bad += rows.n_bad
        yield replace(
            rows,
            n_lines=block.n_lines,
            n_bytes=len(block.data),
            n_raw_bytes=block.n_raw_bytes,
            n_bad=rows.n_bad + block.n_bad_lines,
            awaited=block.awaited,
            content=(block.data, indices),
        )
    if is_whole and n_rows and n_bad == n_rows:
        raise CorpusError(
            f"{shown_path(block.path)}: no line has a text in column {quoted(column)}; the first "
            f"has {list_names([*first_record])}; name another column"
        )


def _find_type(block: Block, column: str, names: Sequence[str]) -> pyarrow.DataType:
    """Return the type of a column of JSON lines: lists of ids, or text."""
    import pyarrow as pa

    ids = pa.list_(pa.int32())
    try:
        parse_json(block, {column: ids}, names)
        return ids
    except CorpusError as fault:
        try:
            parse_json(block, {column: pa.string()}, names)
        except CorpusError:
            raise fault from None
    return pa.string()


# Tables whose column is not named


def refuse_table(path: str) -> None:
    """Raise CorpusError if a file is JSON lines, Parquet or Arrow, to be read as lines of text."""
    kind = table_kind(path, reads_urls=False)
    if kind not in ("json", "parquet", "arrow"):
        return
    columns = _find_text_columns(path, kind)
    problem = f"{shown_path(path)}: {NAMES[kind]}, with columns of text {list_names(columns)}"
    raise CorpusError(
        f"{problem}; name one with", hint={"column": columns[0] if columns else "text"}
    )


def _find_text_columns(path: str, kind: Kind) -> list[str]:
    import pyarrow as pa

    if kind != "json":
        table, _ = next(read_tables(path, kind, None, blocks=iter(())))
        return text_columns(table.schema)
    for block in read_blocks(path, block_size=1, errors="replace"):
        record = first_object(block)
        if record:
            try:
                return text_columns(pa.Table.from_pylist([record]).schema)
            except (pa.ArrowException, OverflowError, UnicodeError):  # lists of several types
                return [*record]
    return []
