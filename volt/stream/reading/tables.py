"""JSON lines and Parquet → segments of rows, read as columns of text or of ids (lists of whole numbers).

A file is converted once, when it is indexed: its named columns are copied to the cache, each segment as an LZ4 frame
with an Arrow batch. Invalid rows are refused at that time.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
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
from volt.stream.reading.segments import noted
from volt.stream.reading.shard import Facts, Shard, as_stream_errors, shifting_lines
from volt.stream.reading.text_shard import PARQUET, cut_lines, lines_of, split_lines
from volt.stream.transforms.column import Column

if TYPE_CHECKING:
    import pyarrow


_MOST_NAMED = 20  # maximum columns in an error


def column_of(table: pyarrow.Table, path: str) -> pyarrow.Array:
    """Return a column of a table as text or as ids. path: the column's name; NAME.FIELD is a field of a struct

    Raises StreamError if the column is missing or has another type; ArrowInvalid for an invalid value.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = table.schema.names
    name, *inner = [path] if path in names else path.split(".")
    if name not in names:
        raise StreamError(f"no column {quoted(name)}; there are {listed(names)}")
    if names.count(name) > 1:
        raise StreamError(f"column {quoted(name)} occurs {names.count(name)} times; write it once")
    values = table.column(name)
    for field in inner:
        fields = list[str]()
        if pa.types.is_struct(values.type):
            fields = [one.name for one in values.type]
        if fields.count(field) != 1:
            problem = f"no column {quoted(path)}: {quoted(name)} contains no {quoted(field)}"
            if fields:
                problem += f"; there are {listed(fields)}"
            raise StreamError(problem)
        name = field
        values = pc.struct_field(values, field)
    column = values.combine_chunks().cast(_kind_of(values.type, path))
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    column.validate(full=True)
    if pa.types.is_large_list(column.type) and column.flatten().null_count:
        raise pa.ArrowInvalid(f"{quoted(path)} contains a null in a list")
    return column


def _kind_of(kind: pyarrow.DataType, path: str) -> pyarrow.DataType:
    import pyarrow as pa

    types = pa.types
    inner = kind.value_type if types.is_dictionary(kind) else kind
    kinds = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    if any(is_text(inner) for is_text in kinds):
        return pa.large_string()
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if is_list and types.is_integer(kind.value_type):
        return pa.large_list(pa.int32())
    remedy = "name columns of text, or of lists of whole numbers"
    raise StreamError(f"column {quoted(path)} is of type {shown(kind)}; {remedy}")


def listed(names: list[str]) -> str:
    result = ", ".join(map(quoted, names[:_MOST_NAMED]))
    if len(names) > _MOST_NAMED:
        result += f" and {len(names) - _MOST_NAMED:,} more"
    return result


def parquet_rows(
    path: str, columns: Sequence[str], *, n: int | None, max_line: int | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a file, `n` or (if None) a row group at a time. Raises StreamError if the file is damaged."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for column in columns:
                _column(file.schema_arrow.empty_table(), column, path)
            n_rows = 0
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=list(columns), use_threads=False)
                table.validate()
                arrays = [_column(table, column, path, n_rows) for column in columns]
                batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
                n_rows += len(batch)
                for start in range(0, len(batch), n or len(batch) or 1):
                    yield batch.slice(start, n)
    except (pa.ArrowException, OSError) as error:
        raise StreamError(
            f"{shown_path(path)}: cannot be read as Parquet ({error}); write or copy it again"
        ) from error


def _column(table: pyarrow.Table, column: str, path: str, n_before: int = 0) -> pyarrow.Array:
    import pyarrow as pa

    try:
        return column_of(table, column)
    except pa.ArrowInvalid as error:
        is_unfit = partial(_is_unfit, table, column)
        row = n_before + bisect_left(range(len(table)), True, hi=len(table) - 1, key=is_unfit) + 1
        raise StreamError(
            f"{shown_path(path)}:{row}: column {quoted(column)}: {error}; fix the row"
        ) from error
    except StreamError as error:
        raise StreamError(f"{shown_path(path)}: {error}; name other columns") from error


def _is_unfit(table: pyarrow.Table, column: str, row: int) -> bool:
    import pyarrow as pa

    try:
        column_of(table.slice(0, row + 1), column)
    except pa.ArrowInvalid:
        return True
    return False


_MOST_LINES = 1 << 17  # of a batch if n is None
_OPEN, _CLOSE = b"{}"
_MISSING = object()


def json_rows(
    path: str, keys: Sequence[str], *, n: int | None, max_line: int | None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a file, n at a time. Raises StreamError for invalid lines and missing keys."""
    import pyarrow as pa

    first_line = 1
    first_row = b""
    are_ids = dict[str, bool | None]()
    for data in cut_lines(path, n or _MOST_LINES, max_line=max_line):
        if first_line == 1:
            data = data.removeprefix(BYTE_ORDER_MARK)
        n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
        first_row = first_row or data.partition(b"\n")[0]
        are_ids |= _kinds(data, [key for key in keys if are_ids.get(key) is None])
        try:
            columns = _columns(data, n_lines, keys, are_ids)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            problem = f"{first_line}: not JSON lines ({error}); fix them"
            for number, line in enumerate(split_lines(data), first_line):
                fault = _problem(line, keys, are_ids)
                if fault:
                    problem = f"{number}: {fault}"
                    break
            raise StreamError(f"{shown_path(path)}:{problem}") from error
        except StreamError as error:
            raise StreamError(f"{shown_path(path)}: {error}") from error
        yield pa.RecordBatch.from_arrays(columns, names=list(keys))
        first_line += n_lines
    for key in keys:
        if first_row and key not in are_ids:
            names = listed(list(json.loads(first_row))) or "none"
            raise StreamError(
                f"{shown_path(path)}: no line has {quoted(key)}; line 1 has {names}; name another key"
            )


def _columns(
    data: bytes, n_lines: int, keys: Sequence[str], are_ids: Mapping[str, bool | None]
) -> list[pyarrow.Array]:
    import pyarrow as pa
    from pyarrow import json as reader

    kinds = {key: pa.list_(pa.int32()) if are_ids.get(key) else pa.string() for key in keys}
    block_size = min(len(data) + 1, (1 << 31) - 1)
    table = reader.read_json(
        pa.BufferReader(data),
        read_options=reader.ReadOptions(use_threads=False, block_size=block_size),
        parse_options=reader.ParseOptions(
            explicit_schema=_schema(kinds), unexpected_field_behavior="ignore"
        ),
    )
    if len(table) != n_lines or not _are_braced(data):
        raise pa.ArrowInvalid(f"{counted(len(table), 'object')} on {counted(n_lines, 'line')}")
    return [column_of(table, key) for key in keys]


def _schema(kinds: Mapping[str, pyarrow.DataType]) -> pyarrow.Schema:
    import pyarrow as pa

    groups = dict[str, dict[str, Any]]()
    for path, kind in kinds.items():
        name, _, rest = path.partition(".")
        groups.setdefault(name, {})[rest] = kind
    return pa.schema(
        [(name, inner.get("") or pa.struct(_schema(inner))) for name, inner in groups.items()]
    )


def _are_braced(data: bytes) -> bool:
    lines = lines_of(data, is_first=False)
    if lines.sizes.all():
        first = lines.data[lines.starts]
        last = lines.data[lines.starts + lines.sizes - 1]
        if (first == _OPEN).all() and (last == _CLOSE).all():
            return True
    bare = [line.strip() for line in split_lines(data)]
    return all(line.startswith(b"{") and line.endswith(b"}") for line in bare)


def _kinds(data: bytes, keys: Sequence[str]) -> dict[str, bool | None]:
    """Return key → True if its first non-null value is a list; None if all its values are null."""
    result = dict[str, bool | None]()
    left = {*keys}
    for line in split_lines(data):
        if not left:
            break
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            for key in [*left]:
                value = _value(row, key)
                if value is None:
                    result[key] = None
                elif value is not _MISSING:
                    result[key] = isinstance(value, list)
                    left.remove(key)
    return result


def _value(row: object, key: str) -> Any:
    for name in key.split("."):
        if row is None:
            return None
        if not isinstance(row, dict):
            return _MISSING
        row = row.get(name, _MISSING)
    return row


def _problem(line: bytes, keys: Sequence[str], are_ids: Mapping[str, bool | None]) -> str:
    import pyarrow as pa

    try:
        _columns(line, 1, keys, are_ids)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        return f"not a JSON line ({str(error).removesuffix(' in row 0')}); fix it"
    return ""


_FIELDS = "give names and columns, such as {src: translation.de, tgt: translation.en}"


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
    """Index a table, or load its index from the cache; options as for `open_shard`. split_lines: rows per segment"""
    if not arguments.mapping(fields, "fields", remedy=_FIELDS):
        raise ConfigError(f"fields is empty; {_FIELDS}")
    values = {
        arguments.text(name, "fields"): arguments.text(key, f"fields[{name!r}]")
        for name, key in fields.items()
    }
    with as_stream_errors(path):

        def make(copy: Path) -> Index:
            is_parquet = read_start(path, 4, kind=StreamError) == PARQUET
            read_rows = parquet_rows if is_parquet else json_rows
            look = _Look(path, max_line)
            with local_copy(path, kind=CorpusError) if is_parquet else nullcontext(path) as place:
                rows = read_rows(str(place), [*values.values()], n=split_lines, max_line=max_line)
                file = noted(path, "frames", look.at(rows), copy=copy)
            return (file,), look.facts()

        # JSON lines are longer than their values, so the key contains the limit
        key = ["table", split_lines, max_line, list(values.values())]
        index = cached_index([path], make, cache=cache, max_line=max_line, key=key)
        return TableShard(*index, tuple(values))


class _Look:
    def __init__(self, path: str, max_line: int | None) -> None:
        self.path, self.max_line = path, max_line
        self.n_rows = self.n_bytes = self.longest = self.first_unfit = 0
        self.hashes = list[tuple[blake2b, blake2b]]()

    def at(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[tuple[bytes, int]]:
        for batch in batches:
            columns = [Column.from_arrow(column) for column in batch.columns]
            if not self.first_unfit:
                for row in shifting_lines(columns):
                    self.first_unfit = self.n_rows + row + 1
                    break
            self._measure(columns)
            self._digest(columns)
            self.n_rows += len(batch)
            yield _packed(batch), len(batch)

    def facts(self) -> Facts:
        data = [[values.hexdigest(), sizes.hexdigest()] for values, sizes in self.hashes]
        digest = blake2b(json.dumps(data).encode(), digest_size=16).hexdigest()
        return Facts(self.n_bytes, self.longest, self.first_unfit, digest)

    def _measure(self, columns: list[Column]) -> None:
        sizes = np.full(len(columns[0]), len(columns) - 1)  # tabs
        for column in columns:
            sizes += np.maximum(column.as_text().sizes, 0)
        self.n_bytes += int(sizes.sum()) + len(sizes)
        self.longest = max(self.longest, int(sizes.max(initial=0)))
        if self.max_line is not None and self.longest > self.max_line:
            raise long_line_error(self.path, self.n_rows + int(np.argmax(sizes)) + 1, self.max_line)

    def _digest(self, columns: list[Column]) -> None:
        if not self.hashes:
            self.hashes = [(blake2b(digest_size=16), blake2b(digest_size=16)) for _ in columns]
        for column, (values, sizes) in zip(columns, self.hashes, strict=True):
            values.update(column.text().data)
            sizes.update(column.sizes.tobytes())


def _packed(batch: pyarrow.RecordBatch) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
