"""Recognise files of tables by their names, first bytes and first lines."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import islice
from typing import Literal

from volt.errors import CorpusError, VoltWarning, shown
from volt.files.blocks import Block, read_blocks
from volt.files.paths import is_file, without_compression
from volt.files.small_files import read_start
from volt.urls import url_of

Kind = Literal["parquet", "arrow", "json", "csv", "tsv"]
NAMES = {"parquet": "Parquet", "arrow": "Arrow", "json": "JSON lines", "csv": "CSV", "tsv": "TSV"}

_HEAD = 1 << 14  # bytes that are read to recognise a table
_HEAD_LINES = 5
_MAX_SHOWN = 30  # characters
_KINDS: dict[str, Kind] = {
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
}
_MAGIC: dict[bytes, Kind] = {b"PAR1": "parquet", b"ARROW1": "arrow"}
_LONGEST_MAGIC = max(map(len, _MAGIC))


def kind_of_name(path: str) -> Kind | None:
    """Return the kind of a table by its name, which may end with an ending of compression.

    >>> kind_of_name("a.jsonl.gz"), kind_of_name("a.txt")
    ('json', None)
    """
    return _KINDS.get(os.path.splitext(without_compression(path))[1])


def table_kind(path: str, *, reads_urls: bool = True) -> Kind | None:
    """Return the kind of a table, by the file's first bytes or else its name; None if unknown.

    reads_urls: whether the first bytes of a URL are read. A pipe is never read.
    """
    with suppress(CorpusError):  # reading the file will report the error
        if is_file(path) and (reads_urls or not url_of(path)):
            head = read_start(path, _LONGEST_MAGIC)
            for magic, kind in _MAGIC.items():
                if head.startswith(magic):
                    return kind
    return kind_of_name(path)


def kind_of_text(block: Block) -> Kind:
    """Return the kind of a table of text by its first lines: JSON lines, or with a header TSV or
    CSV.

    Raises CorpusError for other text.
    """
    text = block.data.lstrip()
    line = text.partition(b"\n")[0]
    n_blank = block.data.count(b"\n", 0, len(block.data) - len(text))
    if text.startswith(b"[") and text[1:].lstrip().startswith(b"{"):
        raise CorpusError(
            f"{block.place(n_blank)}: one array of JSON, not JSON lines; write each object in a "
            "line of its own: jq -c '.[]'"
        )
    if line.startswith(b"{"):
        return "json"
    if b"\t" in line:
        return "tsv"
    if b"," in line:
        return "csv"
    raise CorpusError(
        f"{block.place(n_blank)}: not JSON lines, Parquet, Arrow, CSV or TSV with a header; "
        "name only files that are, or remove",
        hint={"column": "NAME"},
    )


def columns_in(path: str) -> str:
    """Describe the columns of a file if all of its first lines contain tabs (commas, if it is named
    .csv), or are objects of JSON; else return ""."""
    if not is_file(path) or table_kind(path) in ("json", "parquet", "arrow"):
        return ""
    with suppress(CorpusError):  # reading the file will report the error
        for block in read_blocks(path, block_size=_HEAD, errors="replace", max_line=None):
            lines = _first_lines(block.data)
            if lines and all(map(_is_object, lines)):
                return "its lines are JSON objects"
            return _describe_columns(lines, "," if kind_of_name(path) == "csv" else "\t")
    return ""


def check_stdin(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks of stdin. Raises CorpusError if its first lines are objects of JSON, and warns
    if they are a table with tabs or commas.

    A single line may be a text that a person types. The caller warns of a file that is redirected to
    stdin, by its name (`columns_in`).
    """
    for block in blocks:
        lines = _first_lines(block.data)
        if block.first_line == 1 and len(lines) > 1:
            if all(map(_is_object, lines)):
                raise CorpusError(
                    f"{block.place(0)}: JSON lines; name a column with", hint={"column": "text"}
                )
            columns = _describe_columns(lines, "\t") or _describe_columns(lines, ",")
            if columns and not os.path.isfile("/dev/stdin"):
                warnings.warn(
                    f"stdin: {columns}; all is text. To use some columns, pass fields or column",
                    VoltWarning,
                    stacklevel=2,
                )
        yield block


def _first_lines(data: bytes) -> list[str]:
    """Return the first lines of a text that are not blank."""
    filled = (line for line in BytesIO(data) if line.strip())
    first_lines = islice(filled, _HEAD_LINES)
    return [line.decode(errors="replace").removesuffix("\n") for line in first_lines]


def _describe_columns(lines: Sequence[str], separator: str) -> str:
    """Describe the columns of a table if each of its first lines contains a separator; else return
    "". A separator next to a space belongs to a text, or to the pieces of one.
    """
    pattern = f"(?<! ){separator}(?! )"
    if not lines or not all(re.search(pattern, line.strip()) for line in lines):
        return ""
    columns = enumerate(lines[0].strip("\r").split(separator), 1)
    texts = (f"{number} {shown(text, _MAX_SHOWN)!r}" for number, text in columns)
    name = "commas" if separator == "," else "tabs"
    return f"its lines have several columns between {name}: {', '.join(texts)}"


def _is_object(line: str) -> bool:
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(line), dict)
    return False
