"""The path of a column → its values in the rows of a table.

    text                 a column
    content.body.text    a field of structs, or a key of nested objects
    messages[].content   a field of each element of a list: a row has any number of values
    tags[]               each element of a list

A column whose name equals the path comes before fields of structs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.array_types import Flags, Longs
from volt.errors import ConfigError, CorpusError, quoted, shown, shown_path
from volt.files.blocks import Block
from volt.files.tables import Kind

if TYPE_CHECKING:
    import pyarrow

LIST = "[]"  # the step from a list to its elements
_MOST_NAMED = 20  # maximum columns in an error
Steps = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of a table.

    kind: of the table
    block: the lines that contain the rows; of other tables, only their place and number
    lines: (n_rows,) int64, the index of each row's line in the block; without lines, its own index
    table: columns of the rows
    """

    kind: Kind
    block: Block
    lines: Longs
    table: pyarrow.Table

    def place_of_row(self, row: int) -> str:
        """Return "FILE:LINE" of a row, or "FILE:ROW" in a table without lines."""
        return self.block.place(int(self.lines[row]))


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """The values of a column.

    array: (n,) large_string, or large_list of int32, with nulls
    rows: (n,) int64, the index of each value's row
    null_rows: (n_rows,) bool, whether the row has a null: as its value, one of its values or a list
    """

    array: pyarrow.Array
    rows: Longs
    null_rows: Flags


def steps_of(column: str, names: Sequence[str]) -> Steps:
    """Split the path of a column into names of fields, and "[]" for elements of a list.

    names: the table's columns

    >>> steps_of("messages[].content", []), steps_of("a.b", ["a.b"])
    (('messages', '[]', 'content'), ('a.b',))
    """
    if column in names:
        return (column,)
    steps = list[str]()
    for name in column.split("."):
        stem = name
        while stem.endswith(LIST):
            stem = stem.removesuffix(LIST)
        if not stem:
            raise ConfigError(
                f"column {quoted(column)} contains an empty name; "
                "write a column such as text, content.text or messages[].content"
            )
        n_lists = (len(name) - len(stem)) // len(LIST)
        steps += [stem, *[LIST] * n_lists]
    return tuple(steps)


def values_of(rows: Rows, column: str, *, takes_ids: bool = False) -> ColumnValues:
    """Return the values of a column as text, or with `takes_ids` also as lists of ids.

    Raises CorpusError with the file if the column is missing or has another type, and with the row
    of an invalid value.
    """
    import pyarrow as pa

    try:
        values, indices, null_rows = _follow(rows.table, column)
        kind = _choose_type(values.type, column, takes_ids=takes_ids)
    except CorpusError as error:
        raise CorpusError(f"{shown_path(rows.block.path)}: {error}") from error

    def is_unfit(index: int) -> bool:
        """Return whether values 0 … index contain an invalid one."""
        try:
            _convert(values.take(np.arange(index + 1)), kind)
        except pa.ArrowInvalid:
            return True
        return False

    try:
        array = _convert(values, kind)
    except pa.ArrowInvalid as error:
        index = bisect_left(range(len(values)), True, hi=len(values) - 1, key=is_unfit)
        place = rows.place_of_row(indices[index])
        raise CorpusError(f"{place}: column {quoted(column)}: {error}; fix the row") from error
    null_rows[indices[_nulls(array)]] = True
    return ColumnValues(array, indices, null_rows)


def _follow(table: pyarrow.Table, column: str) -> tuple[Any, Longs, Flags]:
    """Return the values at a path as they are stored, each value's row, and the rows with a null
    list."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = table.schema.names
    name, *inner_steps = steps_of(column, names)
    if name not in names:
        raise CorpusError(
            f"no column {quoted(name)}; there are {list_names(names)}; name another column"
        )
    if names.count(name) > 1:
        raise CorpusError(f"column {quoted(name)} occurs {names.count(name)} times; write it once")
    values = table.column(name)
    rows = np.arange(len(table))
    null_rows = np.zeros(len(table), bool)
    for step in inner_steps:
        if step == LIST:
            if not is_list(values.type):
                raise CorpusError(f"{quoted(name)} is of type {shown(values.type)}, not a list")
            null_rows[rows[_nulls(values)]] = True
            rows = rows[pc.list_parent_indices(values).to_numpy()]
            values = pc.list_flatten(values)
            continue
        fields = list[str]()
        if pa.types.is_struct(values.type):
            fields = [field.name for field in values.type]
        if fields.count(step) != 1:
            problem = f"no column {quoted(column)}: {quoted(name)} contains no {quoted(step)}"
            if fields:
                problem += f"; there are {list_names(fields)}"
            remedy = "write [] after a list" if is_list(values.type) else "name another column"
            raise CorpusError(f"{problem}; {remedy}")
        name = step
        values = pc.struct_field(values, step)
    return values, rows, null_rows


def _convert(values: pyarrow.ChunkedArray, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return the values as an array of another type. Raises ArrowInvalid for an invalid value."""
    import pyarrow as pa

    chunks = values.cast(kind).chunks
    array = chunks[0] if len(chunks) == 1 else pa.concat_arrays([pa.array([], kind), *chunks])
    array.validate(full=True)
    if is_list(kind) and array.flatten().null_count:
        raise pa.ArrowInvalid("contains a null in a list")
    return array


def _nulls(values: Any) -> Flags:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False))


def is_list(kind: pyarrow.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_text(kind: pyarrow.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    value_type = kind.value_type if types.is_dictionary(kind) else kind
    checks = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(check(value_type) for check in checks)


def _choose_type(stored: pyarrow.DataType, column: str, *, takes_ids: bool) -> pyarrow.DataType:
    """Return the type, text or ids, to which a column is converted."""
    import pyarrow as pa

    if _is_text(stored):
        return pa.large_string()
    remedy = "name a column of text"
    if takes_ids:
        if is_list(stored) and pa.types.is_integer(stored.value_type):
            return pa.large_list(pa.int32())
        remedy = "name columns of text, or of lists of whole numbers"
    elif is_list(stored) and _is_text(stored.value_type):
        remedy = f"for its elements, write {column}[]"
    raise CorpusError(f"column {quoted(column)} is of type {shown(stored)}; {remedy}")


def text_columns(path: str, kind: pyarrow.DataType) -> Iterator[str]:
    """Yield the paths of all columns of text in a column of a type. path: of this column

    >>> import pyarrow as pa
    >>> message = pa.struct([("role", pa.string()), ("n", pa.int8())])
    >>> list(text_columns("a", pa.list_(message))), list(text_columns("id", pa.int8()))
    (['a[].role'], [])
    """
    import pyarrow as pa

    if _is_text(kind):
        yield path
    elif is_list(kind):
        yield from text_columns(path + LIST, kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from text_columns(f"{path}.{field.name}", field.type)


def list_names(names: Sequence[str]) -> str:
    """Return names for an error: at most twenty, and the number of further names."""
    if not names:
        return "none"
    result = ", ".join(map(quoted, names[:_MOST_NAMED]))
    if len(names) > _MOST_NAMED:
        result += f" and {len(names) - _MOST_NAMED:,} more"
    return result
