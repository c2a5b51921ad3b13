"""JSON lines → rows of a table.

Arrow parses a block at once. If it refuses the block, Python parses its lines, because Arrow refuses
some lines that are valid, such as an unused lone surrogate, and does not name the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from json.encoder import encode_basestring
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.errors import CorpusError, quoted, shown_path
from volt.files.blocks import Block
from volt.files.column_paths import LIST, Rows, Steps, list_names, steps_of
from volt.files.text_checks import count_lines

if TYPE_CHECKING:
    import pyarrow

_write = json.JSONEncoder(ensure_ascii=False).encode
_MOST_BYTES = (1 << 31) - 1  # that Arrow parses at a time
_END = 1 << 31  # of 32-bit numbers
_MOST_SHOWN = 40  # characters of a value in an error
_SURROGATE = re.compile("[\ud800-\udfff]")


def first_object(block: Block) -> dict[str, Any]:
    """Return the first object of JSON lines; {} if the first line is not an object."""
    with suppress(CorpusError):
        return parse_object(block, 0, block.data.lstrip().partition(b"\n")[0])
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
        items = [f"{encode_basestring(key)}: {write_exactly(item)}" for key, item in value.items()]
        return f"{{{', '.join(items)}}}"
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, list) and not all(type(item) is int for item in value):
        return f"[{', '.join(map(write_exactly, value))}]"
    return _write(value)


def read_objects(
    blocks: Iterable[Block],
    columns: Sequence[str],
    *,
    takes_ids: bool = False,
    skips_blank: bool = True,
    is_whole: bool = True,
) -> Iterator[Rows]:
    """Yield the rows of JSON lines, a block at a time, as tables of some columns.

    takes_ids: whether a column contains lists of int32, if its first value is a list
    skips_blank: whether a blank line is not a row, instead of an error
    is_whole: whether the blocks are all lines of a file
    Raises CorpusError, with file and line, if a line is not an object, or a value has another type;
    or if no line of a file has one of the columns.
    """
    import pyarrow as pa

    names = list[str]()
    first_types = dict[str, type]()  # of each column's first value; NoneType while all are null
    for block in blocks:
        names = names or [*first_object(block)]
        kinds = dict[Steps, pa.DataType]()
        for column in columns:
            steps = steps_of(column, names)
            if first_types.get(column, NoneType) is NoneType:
                first_type = _first_type(block, steps)
                if first_type:
                    first_types[column] = first_type
            has_lists = takes_ids and first_types.get(column) is list
            kinds[steps] = pa.list_(pa.int32()) if has_lists else pa.string()
        yield _parse(block, kinds, skips_blank=skips_blank)
    for column in columns:
        if is_whole and names and column not in first_types:
            raise CorpusError(
                f"{shown_path(block.path)}: no line has {quoted(column)}; the first has "
                f"{list_names(names)}; name another column"
            )


def _first_type(block: Block, steps: Steps) -> type | None:
    """Return the type of the first value at a path: NoneType if all values are null, and None if no
    line has the path."""
    result: type | None = None
    for line in BytesIO(block.data):
        with suppress(ValueError, RecursionError):
            for _, value in _values_at(json.loads(line), steps):
                result = type(value)
                if value is not None:
                    return result
    return result


def _parse(block: Block, kinds: Mapping[Steps, pyarrow.DataType], *, skips_blank: bool) -> Rows:
    """Return the rows of a block as a table that contains the paths of some columns."""
    import pyarrow as pa

    schema = _nest(kinds)
    with suppress(pa.ArrowInvalid):
        table = _parse_by_arrow(block.data, schema)
        if len(table) == count_lines(block.data):
            return Rows("json", block, np.arange(len(table)), table)

    records = list[dict[str, Any]]()
    lines = list[int]()
    for index, line in enumerate(block.data.removesuffix(b"\n").split(b"\n")):
        if skips_blank and not line.strip():
            continue
        record = parse_object(block, index, line)
        try:
            for steps, kind in kinds.items():
                for name, value in _values_at(record, steps):
                    _check_value(name, value, kind)
        except ValueError as error:
            raise CorpusError(f"{block.place(index)}: {error}; repair the line") from None
        records.append(record)
        lines.append(index)
    table = pa.Table.from_pylist(records, schema)
    return Rows("json", block, np.array(lines, np.int64), table)


def _nest(kinds: Mapping[Steps, pyarrow.DataType]) -> pyarrow.Schema:
    """Return the schema of objects that contain paths with values of some types.

    >>> import pyarrow as pa
    >>> print(_nest({("a", "b"): pa.string(), ("a", "c", "[]"): pa.string()}))
    a: struct<b: string, c: list<item: string>>
      child 0, b: string
      child 1, c: list<item: string>
          child 0, item: string
    """
    import pyarrow as pa

    schemas = []
    for (name, *inner_steps), kind in kinds.items():
        for step in reversed(inner_steps):
            kind = pa.list_(kind) if step == LIST else pa.struct([(step, kind)])
        schemas.append(pa.schema([(name, kind)]))
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise CorpusError(f"a column contains another ({error}); name one of them") from None


def _parse_by_arrow(data: bytes, schema: pyarrow.Schema) -> pyarrow.Table:
    """Parse objects, one a line. Raises ArrowInvalid for any other line, and for blank lines."""
    import pyarrow as pa
    from pyarrow import json as reader

    # Arrow also reads lines such as 5 {}, and {} {} as two rows
    text = data.removesuffix(b"\n")
    are_braced = text.startswith(b"{") and text.endswith(b"}")
    if not are_braced or text.count(b"}\n{") < text.count(b"\n"):
        raise pa.ArrowInvalid("a line is not in braces")
    block_size = min(len(data) + 1, _MOST_BYTES)
    table = reader.read_json(
        pa.BufferReader(data),
        read_options=reader.ReadOptions(use_threads=False, block_size=block_size),
        parse_options=reader.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore"
        ),
    )
    table.validate(full=True)
    return table


def parse_object(block: Block, index: int, line: bytes) -> dict[str, Any]:
    """Return the object of a line. Raises CorpusError, with file and line, for any other line."""
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise CorpusError(
            f"{block.place(index)}: invalid JSON ({error}); repair the line"
        ) from None
    if not isinstance(record, dict):
        value = line[:_MOST_SHOWN].decode(errors="replace")
        raise CorpusError(f"{block.place(index)}: not a JSON object but {value}; repair the line")
    return record


def _values_at(value: Any, steps: Sequence[str], name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value at a path, and its name; null if a value on the path is null, or a list is
    empty.

    Raises ValueError if a value on the path is not a list, or not an object, as the path says.

    >>> list(_values_at({"a": [{"b": "x"}, {"b": 5}, {}]}, ("a", "[]", "b")))
    [('b', 'x'), ('b', 5)]
    """
    if value is None or not steps:
        yield name, value
        return
    first, *others = steps
    if first == LIST:
        if not isinstance(value, list):
            raise _fault(name, value, "a list")
        for item in value or [None]:
            yield from _values_at(item, others, name)
    elif not isinstance(value, dict):
        raise _fault(name, value, "an object")
    elif first in value:
        yield from _values_at(value[first], others, first)


def _check_value(name: str, value: Any, kind: pyarrow.DataType) -> None:
    """Raise ValueError if a value is neither null nor of a type."""
    import pyarrow as pa

    if value is None:
        return
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise _fault(name, value, "a list of 32-bit numbers")
        for item in value:
            if type(item) is not int or not -_END <= item < _END:
                raise _fault(name, item, "a 32-bit number")
    elif not isinstance(value, str):
        raise _fault(name, value, "a string")
    elif _SURROGATE.search(value):
        raise ValueError(f"column {quoted(name)} contains a lone surrogate (\\ud800 to \\udfff)")


def _fault(name: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"column {quoted(name)} is {json.dumps(value)[:_MOST_SHOWN]}, not {wanted}")
