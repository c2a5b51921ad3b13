"""The path of a column → its values in a table of Arrow, or its type in objects of JSON.

    text                 a column
    content.body.text    a field of structs, or a key of nested objects
    messages[].content   a field of each element of a list: a row has any number of values
    tags[]               each element of a list

A column whose name equals the path comes before fields of structs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volt.errors import ConfigError, CorpusError, quoted, shown

if TYPE_CHECKING:
    import pyarrow

LIST = "[]"  # the step from a list to its elements
_MOST_NAMED = 20  # maximum columns in an error
_MOST_SHOWN = 40  # characters of a value in an error
_SURROGATE = re.compile("[\ud800-\udfff]")
Steps = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """The values of a column.

    array: (n,) large_string, or large_list of int32, with nulls
    rows: (n,) int64, the index of each value's row
    null_rows: (n_rows,) bool, whether the row has a null: as its value, one of its values or a list
    """

    array: pyarrow.Array
    rows: NDArray[np.int64]
    null_rows: NDArray[np.bool_]


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


def values_of(table: pyarrow.Table, column: str, *, takes_ids: bool = False) -> ColumnValues:
    """Return the values of a column as text, or with `takes_ids` also as lists of ids.

    Raises CorpusError if the column is missing or has another type; ArrowInvalid for an invalid
    value.
    """
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
            null_rows[rows[_to_numpy(values.is_null())]] = True
            rows = rows[_to_numpy(pc.list_parent_indices(values))]
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
    kind = _choose_type(values.type, column, takes_ids=takes_ids)
    is_ready = values.num_chunks == 1 and pa.types.is_large_string(kind)
    array = (values.chunk(0) if is_ready else values.combine_chunks()).cast(kind)
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    array.validate(full=True)
    if pa.types.is_large_list(kind) and array.flatten().null_count:
        raise pa.ArrowInvalid(f"{quoted(column)} contains a null in a list")
    if array.null_count:
        null_rows[rows[_to_numpy(array.is_null())]] = True
    return ColumnValues(array, rows, null_rows)


def _to_numpy(values: Any) -> NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))


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


def text_columns(schema: pyarrow.Schema) -> list[str]:
    """Return the paths of all columns of text.

    >>> import pyarrow as pa
    >>> message = pa.struct([("role", pa.string()), ("n", pa.int8())])
    >>> text_columns(pa.schema([("id", pa.int8()), ("a", pa.list_(message)), ("b", pa.string())]))
    ['a[].role', 'b']
    """
    return [path for field in schema for path in _text_paths(field.name, field.type)]


def _text_paths(path: str, kind: pyarrow.DataType) -> Iterator[str]:
    import pyarrow as pa

    if _is_text(kind):
        yield path
    elif is_list(kind):
        yield from _text_paths(path + LIST, kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _text_paths(f"{path}.{field.name}", field.type)


def list_names(names: Sequence[str]) -> str:
    """Return names for an error: at most twenty, and the number of further names."""
    if not names:
        return "none"
    result = ", ".join(map(quoted, names[:_MOST_NAMED]))
    if len(names) > _MOST_NAMED:
        result += f" and {len(names) - _MOST_NAMED:,} more"
    return result


# Objects of JSON


def nest_schema(types: Mapping[Steps, pyarrow.DataType]) -> pyarrow.Schema:
    """Return the schema of objects that contain columns of these types.

    >>> import pyarrow as pa
    >>> print(nest_schema({("a", "b"): pa.string(), ("a", "c", "[]"): pa.string()}))
    a: struct<b: string, c: list<item: string>>
      child 0, b: string
      child 1, c: list<item: string>
          child 0, item: string
    """
    import pyarrow as pa

    return pa.schema(list(_nest(list(types.items()))))


def _nest(columns: list[tuple[Steps, pyarrow.DataType]]) -> pyarrow.DataType:
    import pyarrow as pa

    for steps, kind in columns:
        if not steps:
            return kind
    groups = dict[str, list[tuple[Steps, Any]]]()
    for (first, *others), kind in columns:
        groups.setdefault(first, []).append((tuple(others), kind))
    if LIST in groups:
        return pa.list_(_nest(groups[LIST]))
    return pa.struct([(name, _nest(inner)) for name, inner in groups.items()])


def find_fault(name: str, value: object, kind: pyarrow.DataType) -> str:
    """Describe the first part of a value of JSON that is not of a type; return "" if there is none.

    name: the value's name in the description

    >>> import pyarrow as pa
    >>> find_fault("a", {"b": ["x", 5]}, pa.struct([("b", pa.list_(pa.string()))]))
    "column 'b' is 5, not a string"
    """
    import pyarrow as pa

    if value is None:
        return ""
    if pa.types.is_struct(kind) and isinstance(value, dict):
        faults = (find_fault(field.name, value.get(field.name), field.type) for field in kind)
        return next(filter(None, faults), "")
    is_numbers = pa.types.is_list(kind) and pa.types.is_int32(kind.value_type)
    has_null = isinstance(value, list) and is_numbers and None in value
    if pa.types.is_list(kind) and isinstance(value, list) and not has_null:
        faults = (find_fault(name, item, kind.value_type) for item in value)
        return next(filter(None, faults), "")
    if pa.types.is_string(kind) and isinstance(value, str):
        if not _SURROGATE.search(value):
            return ""
        return f"column {quoted(name)} contains a lone surrogate (\\ud800 to \\udfff)"
    if pa.types.is_int32(kind) and type(value) is int and -(1 << 31) <= value < 1 << 31:
        return ""
    shown_value = json.dumps(value)[:_MOST_SHOWN]
    wanted = _describe(kind)
    article = "an" if wanted.startswith("o") else "a"
    return f"column {quoted(name)} is {shown_value}, not {article} {wanted}"


def _describe(kind: pyarrow.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return "object"
    if pa.types.is_list(kind):
        return f"list of {_describe(kind.value_type)}s"
    return "string" if pa.types.is_string(kind) else "32-bit number"
