"""A column of an Arrow table, by its path → text (large_string) or ids (large_list<int32>), the two kinds of columns.

>>> import pyarrow as pa
>>> column_of(pa.table({"a": [{"b": "x"}, None]}), "a.b").to_pylist()
['x', None]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.errors import StreamError, quoted, shown

if TYPE_CHECKING:
    import pyarrow

_MOST_NAMED = 20  # columns that an error lists


def column_of(table: pyarrow.Table, path: str) -> pyarrow.Array:
    """A column of a table as text or as ids. path: its name; a dot leads into a struct.

    Raises StreamError if there is none, or it is of another type; ArrowInvalid if a text is not UTF-8, or a number in a
    list is null or has more than 32 bits.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    name, *inner = [path] if path in table.schema.names else path.split(".")
    if name not in table.schema.names:
        raise StreamError(f"no column {quoted(name)}; there are {listed(table.schema.names)}")
    if table.schema.names.count(name) > 1:
        raise StreamError(
            f"column {quoted(name)} comes {table.schema.names.count(name)} times; write the table with one"
        )
    found = table.column(name)
    for part in inner:
        if not pa.types.is_struct(found.type) or found.type.get_field_index(part) < 0:
            there = [field.name for field in found.type] if pa.types.is_struct(found.type) else []
            remedy = f"; there are {listed(there)}" if there else ""
            raise StreamError(f"no column {quoted(path)}: {quoted(name)} holds no {quoted(part)}{remedy}")
        name, found = part, pc.struct_field(found, part)
    column = found.combine_chunks().cast(_kind_of(found.type, path))
    column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    column.validate(full=True)
    if pa.types.is_large_list(column.type) and column.flatten().null_count:
        raise pa.ArrowInvalid(f"{quoted(path)} holds a null in a list")
    return column


def _kind_of(kind: pyarrow.DataType, path: str) -> pyarrow.DataType:
    import pyarrow as pa

    types = pa.types
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if any(is_text(inner) for is_text in (types.is_string, types.is_large_string, types.is_string_view, types.is_null)):
        return pa.large_string()
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if is_list and types.is_integer(kind.value_type):
        return pa.large_list(pa.int32())
    remedy = "name columns of text, or of lists of whole numbers"
    raise StreamError(f"column {quoted(path)} is of type {shown(kind)}; {remedy}")


def listed(names: list[str]) -> str:
    """Names for an error, twenty at most.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(map(quoted, names[:_MOST_NAMED])) + more
