"""JSON lines, plain or compressed → record batches of the named keys: each line is an object, and one row.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile() as file:
...     _ = file.write(b'{"a": "x", "b": {"c": [5, 6]}}\\n{"a": "y"}\\n') and file.flush()
...     [batch.to_pylist() for batch in json_rows(file.name, ("a", "b.c"), n=None, max_line=None)]
[[{'a': 'x', 'b.c': [5, 6]}, {'a': 'y', 'b.c': None}]]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from volt.errors import StreamError, quoted, shown_path
from volt.files.long_lines import BYTE_ORDER_MARK
from volt.stream.reading.arrow_columns import column_of
from volt.stream.reading.text_shard import cut_lines, split_lines

if TYPE_CHECKING:
    import pyarrow

_MOST_LINES = 1 << 17  # of a batch, where none is named


def json_rows(path: str, keys: Sequence[str], *, n: int | None, max_line: int | None) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a file, n lines a batch.

    keys: of texts, or of lists of whole numbers; a dot leads into an object
    n: None makes batches of 131,072 lines
    Raises CorpusError if the file cannot be read, StreamError if a line is no object, or has something else at a key.
    """
    import pyarrow as pa

    first_line, are_ids = 1, dict[str, bool]()
    for piece in cut_lines(path, n or _MOST_LINES, max_line=max_line):
        data = piece.removeprefix(BYTE_ORDER_MARK) if first_line == 1 else piece
        n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
        are_ids |= _kinds(data, [key for key in keys if key not in are_ids])
        try:
            yield pa.RecordBatch.from_arrays(_columns(data, n_lines, keys, are_ids), names=list(keys))
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            number, found = _fault(data, keys, are_ids) or (0, f"no JSON lines ({error}); write them anew")
            raise StreamError(f"{shown_path(path)}:{first_line + number}: {found}") from error
        except StreamError as error:
            raise StreamError(f"{shown_path(path)}: {error}") from error
        first_line += n_lines


def _columns(data: bytes, n_lines: int, keys: Sequence[str], are_ids: Mapping[str, bool]) -> list[pyarrow.Array]:
    """The values at each key. Raises ArrowInvalid or UnicodeDecodeError if lines are not as they must be."""
    import pyarrow as pa
    from pyarrow import json as reader

    kinds = {key: pa.list_(pa.int32()) if are_ids.get(key) else pa.string() for key in keys}
    table = reader.read_json(
        pa.BufferReader(data),
        read_options=reader.ReadOptions(use_threads=False, block_size=min(len(data) + 1, (1 << 31) - 1)),
        parse_options=reader.ParseOptions(explicit_schema=_schema(kinds), unexpected_field_behavior="ignore"),
    )
    if len(table) != n_lines:
        raise pa.ArrowInvalid(f"{len(table)} objects on {n_lines} lines")
    return [column_of(table, key) for key in keys]


def _schema(kinds: Mapping[str, pyarrow.DataType]) -> pyarrow.Schema:
    """The types of what objects hold, by paths: those inside an object as a struct."""
    import pyarrow as pa

    groups = dict[str, dict[str, Any]]()
    for path, kind in kinds.items():
        name, _, rest = path.partition(".")
        groups.setdefault(name, {})[rest] = kind
    return pa.schema([(name, inner.get("") or pa.struct(_schema(inner))) for name, inner in groups.items()])


def _kinds(data: bytes, keys: Sequence[str]) -> dict[str, bool]:
    """Whether the first value that a key has is a list, for the keys that have any."""
    found = dict[str, bool]()
    for line in split_lines(data) if keys else ():
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            values = {key: _value(row, key) for key in keys if key not in found}
            found |= {key: isinstance(value, list) for key, value in values.items() if value is not None}
        if len(found) == len(keys):
            break
    return found


def _value(row: object, key: str) -> Any:
    """What an object holds at a key; None if it holds nothing there."""
    for name in key.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def _fault(data: bytes, keys: Sequence[str], are_ids: Mapping[str, bool]) -> tuple[int, str] | None:
    """The index of the first line that is not as it must be, and what is wrong with it."""
    for number, line in enumerate(split_lines(data)):
        try:
            row = json.loads(line)
        except UnicodeDecodeError:
            return number, "not UTF-8; convert the file"
        except (ValueError, RecursionError) as error:
            return number, f"no JSON ({error}); mend the line"
        if not isinstance(row, dict):
            return number, 'no JSON object, such as {"src": "ein Haus"}; mend the line'
        for key in keys:
            value = _value(row, key)
            if value is not None and not (_is_ids(value) if are_ids.get(key) else _is_text(value)):
                wanted = "list of whole numbers, as its first value is" if are_ids.get(key) else "text"
                remedy = "name keys of texts, or of lists of whole numbers"
                return number, f"{quoted(key)} holds {quoted(json.dumps(value))}, which is no {wanted}; {remedy}"
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and -(1 << 31) <= item < 1 << 31 for item in value)
