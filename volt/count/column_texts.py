"""Read one text column of a table: TSV, JSON lines or Parquet."""

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
    """Parse column numbers, counted from 1; () for None. Raises ConfigError for anything else.

    >>> column_numbers("1,3"), column_numbers(2), column_numbers(None)
    ((1, 3), (2,), ())
    """
    if value is None:
        return ()
    values: Any = value
    if isinstance(value, str | Number):
        values = str(value).split(",")
    parts = arguments.several(values, "fields")
    fields = tuple(int(part) for part in parts if str(part).strip().isdecimal())
    if not fields or min(fields) < 1 or len(set(fields)) < len(parts):
        raise ConfigError(
            f"fields={arguments.shortened(repr(value))}: "
            "give distinct column numbers, counted from 1, such as 2 or 1,2"
        )
    return fields


def lines_of(data: bytes) -> pl.LazyFrame:
    """Return the lines of UTF-8 text as a column `text`.

    Polars decompresses data that starts as zlib's does, and "x^" does, so a line is put in front of such text.

    >>> lines_of(b"x^2\\n\\ny").collect()["text"].to_list()
    ['x^2', '', 'y']
    """
    if data.startswith((b"x\x01", b"x^")):
        return pl.scan_lines(b"\n" + data, name="text").slice(1)
    return pl.scan_lines(data, name="text")


def field_texts(block: Block, fields: tuple[int, ...]) -> pl.LazyFrame:
    """Return some fields of tab-separated lines as rows of a column `text`; fields are numbered from 1.

    >>> field_texts(Block("a.tsv", 1, 2, b"low\\tlower\\nold\\tolder\\n", 20), (2, 1)).collect()["text"].to_list()
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
    parts = _TEXT.str.split("\t").list
    texts = pl.concat_list([parts.get(number - 1) for number in fields])
    return lines.select(text=texts).explode("text")


def json_columns(path: str) -> str:
    for block in read_blocks(path, block_size=1):
        line = block.data.decode().split("\n")[0]
        return ", ".join(_json_record(f"{path}:1", line))
    return "none, because the file is empty"


def json_texts(block: Block, column: str) -> list[str]:
    """Return the text of one column in each line, "" for an empty line. Raises CorpusError, with file and line."""
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
