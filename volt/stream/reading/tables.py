"""`open_table`: JSON lines or Parquet → a shard with columns of text or of ids (whole numbers).

    {"text": {"de": "Haus"}, "ids": [7, 8]}   with fields src: text.de, ids: ids
    → column src "Haus", column ids 7 8

A file is converted once, when it is indexed: its named columns are copied to the cache. Each
segment is a range of rows, stored as an LZ4 frame with an Arrow batch. Invalid rows are refused at
that time.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from volt import arguments
from volt.arguments import MAX_LINE
from volt.display import counted
from volt.errors import ConfigError, CorpusError, StreamError, quoted, shown, shown_path
from volt.files.remote_files import local_copy
from volt.files.small_files import read_start
from volt.files.text_checks import BYTE_ORDER_MARK, long_line_error
from volt.stream.reading.index_cache import Index, cached_index
from volt.stream.reading.segments import index_segments
from volt.stream.reading.shard import Facts, Shard, as_stream_errors, shifting_lines
from volt.stream.reading.text_shard import PARQUET, cut_lines, split_lines
from volt.stream.transforms.column import Column

if TYPE_CHECKING:
    import pyarrow

_FIELDS = "give names and columns, such as {src: translation.de, tgt: translation.en}"
_MOST_NAMED = 20  # maximum columns in an error
_MOST_LINES = 1 << 17  # JSON lines in a segment, if their number is not given
_MOST_JSON_BYTES = (1 << 31) - 1  # that pyarrow parses at a time
# a line that does not begin with { and end with }, such as 5 {}; pyarrow also reads such lines
_NOT_BRACED = re.compile(rb"^(?!\Z|[^\S\n]*\{[^\n]*\}[^\S\n]*$)", re.M)
_MISSING = object()  # the value of a key that a JSON object does not have


@dataclass(frozen=True, slots=True)
class TableShard(Shard):
    def read(self, segment: int) -> tuple[Column, ...]:
        import pyarrow as pa

        batch = pa.ipc.open_stream(self.segments.read(segment)).read_next_batch()
        return tuple(Column.from_arrow(column) for column in batch.columns)


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
    columns = [*fields.values()]
    with as_stream_errors(path):

        def make(copy: Path) -> Index:
            is_parquet = read_start(path, 4, kind=StreamError) == PARQUET
            read_rows = parquet_rows if is_parquet else json_rows
            scan = _TableScan(path, max_line)
            with local_copy(path, kind=CorpusError) if is_parquet else nullcontext(path) as local:
                batches = read_rows(str(local), columns, n=split_lines, max_line=max_line)
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
        self._hashes = list[tuple[blake2b, blake2b]]()  # of each column's values, and their sizes

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
            self._update_hashes(columns)
            self._n_rows += len(batch)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield bytes(sink.getvalue()), len(batch)

    def facts(self) -> Facts:
        hashes = [[values.hexdigest(), sizes.hexdigest()] for values, sizes in self._hashes]
        digest = blake2b(json.dumps(hashes).encode(), digest_size=16).hexdigest()
        return Facts(self._n_bytes, self._longest, self._first_shifting, digest)

    def _measure(self, columns: list[Column]) -> None:
        sizes = np.full(len(columns[0]), len(columns) - 1)  # tabs
        for column in columns:
            sizes += np.maximum(column.as_text().sizes, 0)
        self._n_bytes += int(sizes.sum()) + len(sizes)
        self._longest = max(self._longest, int(sizes.max(initial=0)))
        if self._max_line is not None and self._longest > self._max_line:
            row = self._n_rows + int(np.argmax(sizes)) + 1
            raise long_line_error(self._path, row, self._max_line)

    def _update_hashes(self, columns: list[Column]) -> None:
        if not self._hashes:
            self._hashes = [(blake2b(digest_size=16), blake2b(digest_size=16)) for _ in columns]
        for column, (values, sizes) in zip(columns, self._hashes, strict=True):
            values.update(column.text().data)
            sizes.update(column.sizes.tobytes())


def parquet_rows(
    path: str, columns: Sequence[str], *, n: int | None, max_line: int | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a file, `n` or (if None) a row group at a time.

    Raises StreamError if the file is damaged, or if a column is missing or invalid.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for column in columns:
                _read_column(file.schema_arrow.empty_table(), column, path)
            n_rows = 0
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=list(columns), use_threads=False)
                table.validate()
                arrays = [_read_column(table, column, path, n_rows) for column in columns]
                batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
                n_rows += len(batch)
                for start in range(0, len(batch), n or len(batch) or 1):
                    yield batch.slice(start, n)
    except (pa.ArrowException, OSError) as error:
        raise StreamError(
            f"{shown_path(path)}: cannot be read as Parquet ({error}); write or copy it again"
        ) from error


def _read_column(table: pyarrow.Table, column: str, path: str, n_before: int = 0) -> pyarrow.Array:
    """Return a column of a table. An error names the file, and the row of an invalid value.

    n_before: the rows of the file before the table
    """
    import pyarrow as pa

    def is_unfit(row: int) -> bool:
        """Return whether rows 0 … row contain an invalid value."""
        try:
            column_of(table.slice(0, row + 1), column)
        except pa.ArrowInvalid:
            return True
        return False

    try:
        return column_of(table, column)
    except pa.ArrowInvalid as error:
        row = bisect_left(range(len(table)), True, hi=len(table) - 1, key=is_unfit)
        place = f"{shown_path(path)}:{n_before + row + 1}"
        raise StreamError(f"{place}: column {quoted(column)}: {error}; fix the row") from error
    except StreamError as error:
        raise StreamError(f"{shown_path(path)}: {error}; name other columns") from error


def column_of(table: pyarrow.Table, column: str) -> pyarrow.Array:
    """Return a column of a table as text or as ids.

    column: the column's name; NAME.FIELD is a field of a struct

    Raises StreamError if the column is missing or has another type; ArrowInvalid for an invalid
    value.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = table.schema.names
    name, *inner_names = [column] if column in names else column.split(".")
    if name not in names:
        raise StreamError(f"no column {quoted(name)}; there are {list_names(names)}")
    if names.count(name) > 1:
        raise StreamError(f"column {quoted(name)} occurs {names.count(name)} times; write it once")
    values = table.column(name)
    for inner_name in inner_names:
        fields = list[str]()
        if pa.types.is_struct(values.type):
            fields = [field.name for field in values.type]
        if fields.count(inner_name) != 1:
            problem = f"no column {quoted(column)}: {quoted(name)} contains no {quoted(inner_name)}"
            if fields:
                problem += f"; there are {list_names(fields)}"
            raise StreamError(problem)
        name = inner_name
        values = pc.struct_field(values, inner_name)
    array = values.combine_chunks().cast(_choose_type(values.type, column))
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    array.validate(full=True)
    if pa.types.is_large_list(array.type) and array.flatten().null_count:
        raise pa.ArrowInvalid(f"{quoted(column)} contains a null in a list")
    return array


def _choose_type(stored: pyarrow.DataType, column: str) -> pyarrow.DataType:
    """Return the type, text or ids, to which a column is converted."""
    import pyarrow as pa

    types = pa.types
    value_type = stored.value_type if types.is_dictionary(stored) else stored
    text_checks = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    if any(is_text(value_type) for is_text in text_checks):
        return pa.large_string()
    list_checks = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if any(is_list(stored) for is_list in list_checks) and types.is_integer(stored.value_type):
        return pa.large_list(pa.int32())
    remedy = "name columns of text, or of lists of whole numbers"
    raise StreamError(f"column {quoted(column)} is of type {shown(stored)}; {remedy}")


def list_names(names: Sequence[str]) -> str:
    result = ", ".join(map(quoted, names[:_MOST_NAMED]))
    if len(names) > _MOST_NAMED:
        result += f" and {len(names) - _MOST_NAMED:,} more"
    return result


def json_rows(
    path: str, columns: Sequence[str], *, n: int | None, max_line: int | None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a file, n at a time. Raises StreamError for invalid lines and missing keys.

    columns: the keys; NAME.FIELD is a key of an inner object
    """
    import pyarrow as pa

    first_line = 1
    first_row = b""
    # column → True if its values are lists; None while all values are null
    are_lists = dict[str, bool | None]()
    for data in cut_lines(path, n or _MOST_LINES, max_line=max_line):
        if first_line == 1:
            data = data.removeprefix(BYTE_ORDER_MARK)
        n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
        first_row = first_row or data.partition(b"\n")[0]
        are_lists |= _find_lists(data, [key for key in columns if are_lists.get(key) is None])
        try:
            arrays = _parse_json(data, n_lines, columns, are_lists)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            problem = f"{first_line}: not JSON lines ({error}); fix them"
            for number, line in enumerate(split_lines(data), first_line):
                line_problem = _find_problem(line, columns, are_lists)
                if line_problem:
                    problem = f"{number}: {line_problem}"
                    break
            raise StreamError(f"{shown_path(path)}:{problem}") from error
        except StreamError as error:
            raise StreamError(f"{shown_path(path)}: {error}") from error
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
        first_line += n_lines
    for column in columns:
        if first_row and column not in are_lists:
            names = list_names(list(json.loads(first_row))) or "none"
            problem = f"no line has {quoted(column)}; line 1 has {names}; name another key"
            raise StreamError(f"{shown_path(path)}: {problem}")


def _parse_json(
    data: bytes, n_lines: int, columns: Sequence[str], are_lists: Mapping[str, bool | None]
) -> list[pyarrow.Array]:
    """Return the columns of JSON lines. Raises ArrowInvalid if not each line is one object."""
    import pyarrow as pa
    from pyarrow import json as reader

    types = {
        column: pa.list_(pa.int32()) if are_lists.get(column) else pa.string() for column in columns
    }
    block_size = min(len(data) + 1, _MOST_JSON_BYTES)
    table = reader.read_json(
        pa.BufferReader(data),
        read_options=reader.ReadOptions(use_threads=False, block_size=block_size),
        parse_options=reader.ParseOptions(
            explicit_schema=_nest_schema(types), unexpected_field_behavior="ignore"
        ),
    )
    if len(table) != n_lines or _NOT_BRACED.search(data):
        raise pa.ArrowInvalid(f"{counted(len(table), 'object')} on {counted(n_lines, 'line')}")
    return [column_of(table, column) for column in columns]


def _nest_schema(types: Mapping[str, pyarrow.DataType]) -> pyarrow.Schema:
    """Return the schema of columns by name: a.b and a.c are fields of a struct a."""
    import pyarrow as pa

    groups = dict[str, dict[str, Any]]()
    for column, type_ in types.items():
        name, _, inner_name = column.partition(".")
        groups.setdefault(name, {})[inner_name] = type_
    return pa.schema(
        [(name, inner.get("") or pa.struct(_nest_schema(inner))) for name, inner in groups.items()]
    )


def _find_lists(data: bytes, columns: Sequence[str]) -> dict[str, bool | None]:
    """Return column → whether its first value is a list; None if all its values are null.

    Columns that no line has are omitted.
    """
    result = dict[str, bool | None]()
    undecided = {*columns}
    for line in split_lines(data):
        if not undecided:
            break
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            for column in [*undecided]:
                value = _value_of(row, column)
                if value is None:
                    result[column] = None
                elif value is not _MISSING:
                    result[column] = isinstance(value, list)
                    undecided.remove(column)
    return result


def _value_of(row: object, column: str) -> Any:
    for name in column.split("."):
        if row is None:
            return None
        if not isinstance(row, dict):
            return _MISSING
        row = row.get(name, _MISSING)
    return row


def _find_problem(line: bytes, columns: Sequence[str], are_lists: Mapping[str, bool | None]) -> str:
    import pyarrow as pa

    try:
        _parse_json(line, 1, columns, are_lists)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        return f"not a JSON line ({str(error).removesuffix(' in row 0')}); fix it"
    return ""
