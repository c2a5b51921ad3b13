"""Tables (TSV, JSON lines or Parquet) → the texts of some of their columns.

    "low\\tlower\\nold\\tolder\\n", fields (2, 1)    →  lower, low, older, old
    {"id": 1, "text": "low"}, column "text"      →  low

A text is a string that is split into words on its own. Errors name the file and the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from numbers import Number
from typing import Any

import polars as pl

from volt import arguments
from volt.errors import ConfigError, CorpusError
from volt.files.blocks import Block, read_blocks
from volt.files.tables import is_json_lines

_TEXT = pl.col("text")
_SURROGATE = re.compile("[\ud800-\udfff]")
_decode_json = json.JSONDecoder().raw_decode


def column_numbers(value: str | int | Iterable[int] | None) -> tuple[int, ...]:
    """Parse column numbers, which count from 1; None gives ().

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


def lines_of(data: bytes) -> pl.LazyFrame:
    """Return the lines of UTF-8 text as a column `text`.

    Polars would decompress text that starts like zlib's data, such as "x^", so an empty line is put
    before such text, and dropped again.

    >>> lines_of(b"x^2\\n\\ny").collect()["text"].to_list()
    ['x^2', '', 'y']
    """
    if data.startswith((b"x\x01", b"x^")):
        return pl.scan_lines(b"\n" + data, name="text").slice(1)
    return pl.scan_lines(data, name="text")


def field_texts(block: Block, fields: tuple[int, ...]) -> pl.LazyFrame:
    """Return some fields of tab-separated lines as rows of a column `text`.

    fields: the numbers of the fields, from 1

    >>> block = Block("a.tsv", 1, 2, b"low\\tlower\\nold\\tolder\\n", 20)
    >>> field_texts(block, (2, 1)).collect()["text"].to_list()
    ['lower', 'low', 'older', 'old']
    """
    lines = lines_of(block.data)
    most = max(fields)
    n_fields = lines.select(n=_TEXT.str.count_matches("\t", literal=True) + 1).with_row_index()
    for index, n in n_fields.filter(pl.col("n") < most).head(1).collect().rows():
        raise CorpusError(
            f"{block.place(index)}: field {most} was requested, but the line has only {n}; "
            "repair the line"
        )
    all_fields = _TEXT.str.split("\t").list
    texts = pl.concat_list([all_fields.get(number - 1) for number in fields])
    return lines.select(text=texts).explode("text")


def json_columns(path: str) -> str:
    """Return the columns' names in the first line of a JSON lines file, as text for an error."""
    for block in read_blocks(path, block_size=1):
        line = block.data.decode().split("\n")[0]
        return ", ".join(_json_record(f"{path}:1", line))
    return "none, because the file is empty"


def json_texts(block: Block, column: str) -> list[str]:
    """Return the text of a column in each line of a block; "" for an empty line.

    Raises CorpusError, with file and line, if a line is not a JSON object with a text there.
    """
    lines = enumerate(block.data.decode().split("\n"))
    return [_json_text(block, index, line, column) for index, line in lines]


def _json_text(block: Block, index: int, line: str, column: str) -> str:
    end = 0
    try:
        record, end = _decode_json(line)
        text = record[column]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        text = None
    is_text = end == len(line) and isinstance(text, str)
    if is_text and ("\\u" not in line or not _SURROGATE.search(text)):
        return str(text)
    if not line or line.isspace():
        return ""
    place = block.place(index)
    if not is_json_lines(block.path) and not line.lstrip().startswith("{"):
        raise CorpusError(
            f"{place}: not JSON lines or Parquet; name only files that are, or remove",
            hint={"column": column},
        )
    record = _json_record(place, line)
    if column not in record:
        raise CorpusError(f"{place}: no column {column!r}; there are: {', '.join(record)}")
    text = record[column]
    if not isinstance(text, str):
        raise CorpusError(
            f"{place}: column {column!r} is {json.dumps(text)[:40]}, not a string; repair the line"
        )
    if _SURROGATE.search(text):
        raise CorpusError(
            f"{place}: column {column!r} contains a lone surrogate (\\ud800 to \\udfff); "
            "repair the line"
        )
    return text


def _json_record(place: str, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{place}: invalid JSON ({error}); repair the line") from None
    if not isinstance(record, dict):
        raise CorpusError(f"{place}: not a JSON object but {line[:40]}; repair the line")
    return record


def parquet_texts(path: str, column: str | None) -> pl.LazyFrame:
    """Return a text column of a Parquet file as a column `text`, read lazily."""
    frame = pl.scan_parquet(path, glob=False)
    kinds = frame.collect_schema()
    textual = [name for name, kind in kinds.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    if column not in textual:
        fault = "parquet; name the text column"
        if column is not None:
            fault = f"no text column {column!r}"
        raise CorpusError(f"{path}: {fault}; there are: {', '.join(textual) or 'none'}")
    return frame.select(text=pl.col(column).cast(pl.String))
