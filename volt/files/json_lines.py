"""JSON lines → the values of columns.

Arrow parses a block at once. If it refuses the block, Python parses its lines, because Arrow refuses
some lines that are valid, such as an unused lone surrogate, and does not name the line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volt.errors import CorpusError, quoted
from volt.files.blocks import Block
from volt.files.column_paths import (
    ColumnValues,
    find_fault,
    is_list,
    nest_schema,
    steps_of,
    values_of,
)
from volt.files.text_checks import count_lines

if TYPE_CHECKING:
    import pyarrow

Longs = NDArray[np.int64]
_write = json.JSONEncoder(ensure_ascii=False).encode
_MOST_BYTES = (1 << 31) - 1  # that Arrow parses at a time


def first_object(block: Block) -> dict[str, Any]:
    """Return the first object of JSON lines; {} if the first line is not an object."""
    line = block.data.lstrip().partition(b"\n")[0]
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
        if isinstance(record, dict):
            return record
    return {}


class _Literal(str):
    """A number of JSON, as it is written."""


def parse_exactly(line: bytes) -> dict[str, Any]:
    """Return the object of a line, whose numbers keep their spelling for `write_exactly`.

    Raises ValueError for what would be lost: NaN, Infinity, and keys that are written twice.
    """

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    def check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"key {quoted(twice)} occurs twice")
        return result

    record: dict[str, Any] = json.loads(
        line,
        parse_float=_Literal,
        parse_int=_Literal,
        parse_constant=refuse,
        object_pairs_hook=check_keys,
    )
    return record


def write_exactly(value: Any) -> str:
    """Return a value as JSON; lone surrogates stay as they are.

    >>> write_exactly(parse_exactly(b'{"a": [1e400, -0, "x"]}'))
    '{"a": [1e400, -0, "x"]}'
    """
    if isinstance(value, _Literal):
        return value
    if isinstance(value, dict):
        items = (f"{_write(key)}: {write_exactly(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list) and not all(type(item) is int for item in value):
        return f"[{', '.join(map(write_exactly, value))}]"
    return _write(value)


def parse_json(
    block: Block,
    types: Mapping[str, pyarrow.DataType],
    names: Sequence[str],
    *,
    skips_blank: bool = True,
) -> tuple[list[ColumnValues], Longs]:
    """Return the values of columns in JSON lines, and the index of each row's line.

    types: column → string, or list of int32
    names: the keys of the first object
    skips_blank: whether a blank line is not a row, instead of an error

    Raises CorpusError, with file and line, if a line is not an object, or a value has another type.
    """
    import pyarrow as pa

    schema = nest_schema({steps_of(column, names): kind for column, kind in types.items()})
    data, indices = _drop_blank_lines(block.data)
    is_complete = skips_blank or len(indices) == count_lines(block.data)
    with suppress(pa.ArrowInvalid):
        table = _parse_objects(data, schema)
        if is_complete and len(table) == len(indices) and _are_braced(data):
            return [_json_values(table, column, types) for column in types], indices

    rows = list[tuple[int, dict[str, Any]]]()
    for index, line in enumerate(block.data.removesuffix(b"\n").split(b"\n")):
        if skips_blank and not line.strip():
            continue
        record = parse_object(block, index, line)
        fault = find_fault("", record, pa.struct(list(schema)))
        if fault:
            raise CorpusError(f"{block.place(index)}: {fault}; repair the line")
        rows.append((index, record))
    table = pa.Table.from_pylist([record for _, record in rows], schema=schema)
    indices = np.array([index for index, _ in rows], np.int64)
    return [_json_values(table, column, types) for column in types], indices


def _drop_blank_lines(data: bytes) -> tuple[bytes, Longs]:
    """Return lines that are not blank, without white space around them, and their indices."""
    if _are_braced(data):
        return data, np.arange(count_lines(data))
    lines = [line.strip() for line in data.removesuffix(b"\n").split(b"\n")]
    indices = np.flatnonzero([line != b"" for line in lines])
    return b"\n".join(filter(None, lines)), indices


def _are_braced(data: bytes) -> bool:
    """Return whether each line begins with { and ends with }; Arrow also reads lines such as 5 {}."""
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.append(0, ends + 1)[: len(ends)]
    is_filled = bool((starts < ends).all())
    return is_filled and bool(
        (text[starts] == ord("{")).all() and (text[ends - 1] == ord("}")).all()
    )


def _json_values(
    table: pyarrow.Table, column: str, types: Mapping[str, pyarrow.DataType]
) -> ColumnValues:
    return values_of(table, column, takes_ids=is_list(types[column]))


def _parse_objects(data: bytes, schema: pyarrow.Schema) -> pyarrow.Table:
    import pyarrow as pa
    from pyarrow import json as reader

    block_size = min(len(data) + 1, _MOST_BYTES)
    return reader.read_json(
        pa.BufferReader(data),
        read_options=reader.ReadOptions(use_threads=False, block_size=block_size),
        parse_options=reader.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore"
        ),
    )


def parse_object(block: Block, index: int, line: bytes) -> dict[str, Any]:
    """Return the object of a line. Raises CorpusError, with file and line, for any other line."""
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise CorpusError(
            f"{block.place(index)}: invalid JSON ({error}); repair the line"
        ) from None
    if not isinstance(record, dict):
        value = line[:40].decode(errors="replace")
        raise CorpusError(f"{block.place(index)}: not a JSON object but {value}; repair the line")
    return record
