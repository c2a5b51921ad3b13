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
from volt.stream.reading.arrow_columns import column_of, listed
from volt.stream.reading.text_shard import cut_lines, lines_of, split_lines

if TYPE_CHECKING:
    import pyarrow

_MOST_LINES = 1 << 17  # of a batch, where none is named
_OPEN, _CLOSE = b"{}"
_MISSING = object()


def json_rows(path: str, keys: Sequence[str], *, n: int | None, max_line: int | None) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a file, n lines a batch.

    keys: of texts, or of lists of whole numbers; a dot leads into an object
    n: None makes batches of 131,072 lines
    Raises CorpusError if the file cannot be read, StreamError if a line is no object, or has something else at a key,
    or if no line has a key.
    """
    import pyarrow as pa

    first_line, first_row, are_ids = 1, b"", dict[str, bool | None]()
    for piece in cut_lines(path, n or _MOST_LINES, max_line=max_line):
        data = piece.removeprefix(BYTE_ORDER_MARK) if first_line == 1 else piece
        n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
        first_row = first_row or data.partition(b"\n")[0]
        are_ids |= _kinds(data, [key for key in keys if are_ids.get(key) is None])
        try:
            yield pa.RecordBatch.from_arrays(_columns(data, n_lines, keys, are_ids), names=list(keys))
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            number, found = (
                _fault(data, keys, are_ids) or _refused(data, keys, are_ids) or (0, f"no JSON lines ({error})")
            )
            raise StreamError(f"{shown_path(path)}:{first_line + number}: {found}") from error
        except StreamError as error:
            raise StreamError(f"{shown_path(path)}: {error}") from error
        first_line += n_lines
    for key in keys if first_row else ():
        if key not in are_ids:
            there = listed(list(json.loads(first_row))) or "none"
            raise StreamError(f"{shown_path(path)}: no line has {quoted(key)}; line 1 has {there}; name another key")


def _columns(data: bytes, n_lines: int, keys: Sequence[str], are_ids: Mapping[str, bool | None]) -> list[pyarrow.Array]:
    """The values at each key. Raises ArrowInvalid or UnicodeDecodeError if lines are not as they must be."""
    import pyarrow as pa
    from pyarrow import json as reader

    kinds = {key: pa.list_(pa.int32()) if are_ids.get(key) else pa.string() for key in keys}
    table = reader.read_json(
        pa.BufferReader(data),
        read_options=reader.ReadOptions(use_threads=False, block_size=min(len(data) + 1, (1 << 31) - 1)),
        parse_options=reader.ParseOptions(explicit_schema=_schema(kinds), unexpected_field_behavior="ignore"),
    )
    if len(table) != n_lines or not _are_braced(data):
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


def _are_braced(data: bytes) -> bool:
    r"""Whether each line begins and ends with a brace: then it holds whole objects, one if there are as many as lines.

    >>> _are_braced(b'{"a":1}\n {} \n'), _are_braced(b'{"a":\n1}\n'), _are_braced(b"{}{}\n\n")
    (True, False, False)
    """
    lines = lines_of(data, is_first=False)
    first, last = lines.starts, lines.starts + lines.sizes - 1
    if lines.sizes.all() and (lines.data[first] == _OPEN).all() and (lines.data[last] == _CLOSE).all():
        return True
    bare = [line.strip() for line in split_lines(data)]
    return all(line.startswith(b"{") and line.endswith(b"}") for line in bare)


def _kinds(data: bytes, keys: Sequence[str]) -> dict[str, bool | None]:
    """Whether the first value that a key has is a list, for the keys that are there; None if all it has is null."""
    found = dict[str, bool | None]()
    for line in split_lines(data) if keys else ():
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            values = {key: _value(row, key, missing=_MISSING) for key in keys if found.get(key) is None}
            there = {key: value for key, value in values.items() if value is not _MISSING}
            found |= {key: None if value is None else isinstance(value, list) for key, value in there.items()}
        if all(found.get(key) is not None for key in keys):
            break
    return found


def _value(row: object, key: str, *, missing: object = None) -> Any:
    """What an object holds at a key; `missing` if the key is not there, nor null on the way to it."""
    for name in key.split("."):
        if row is None:
            return None
        row = row.get(name, missing) if isinstance(row, dict) else missing
    return row


def _refused(data: bytes, keys: Sequence[str], are_ids: Mapping[str, bool | None]) -> tuple[int, str] | None:
    """The index of the first line that the reader refuses by itself, and what it says."""
    import pyarrow as pa

    for number, line in enumerate(split_lines(data)):
        try:
            _columns(line, 1, keys, are_ids)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            return number, f"no JSON line ({str(error).removesuffix(' in row 0')}); mend it"
    return None


def _fault(data: bytes, keys: Sequence[str], are_ids: Mapping[str, bool | None]) -> tuple[int, str] | None:
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
            if (barred := _barred(row, key)) is not None:
                return number, f"{quoted(barred)} is no object, so that {quoted(key)} leads nowhere; mend the line"
            value = _value(row, key)
            if value is not None and not (_is_ids(value) if are_ids.get(key) else _is_text(value)):
                wanted = "list of whole numbers, as its first value is" if are_ids.get(key) else "text"
                remedy = "name keys of texts, or of lists of whole numbers"
                return number, f"{quoted(key)} holds {quoted(json.dumps(value))}, which is no {wanted}; {remedy}"
    return None


def _barred(row: Mapping[str, Any], key: str) -> str | None:
    """The part of a key that leads to what is neither an object nor null, if there is one.

    >>> _barred({"a": {"b": 1}}, "a.b.c"), _barred({"a": None}, "a.b"), _barred({}, "a.b")
    ('a.b', None, None)
    """
    parts = key.split(".")
    for n in range(1, len(parts)):
        if not isinstance(_value(row, ".".join(parts[:n])), dict | None):
            return ".".join(parts[:n])
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and -(1 << 31) <= item < 1 << 31 for item in value)
