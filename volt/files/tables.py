"""Recognise files of tables by their names, first bytes and first lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

from volt.errors import CorpusError, shown
from volt.files.blocks import Block, read_blocks
from volt.files.paths import is_file
from volt.files.small_files import read_start
from volt.urls import url_of

Kind = Literal["parquet", "arrow", "json", "csv", "tsv"]

_HEAD = 1 << 14  # bytes that are read to recognise a table
_HEAD_LINES = 5
_COMPRESSED = {".gz", ".bz2", ".xz", ".zst"}
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


def _extension(path: str) -> str:
    stem, extension = os.path.splitext(path)
    if extension in _COMPRESSED:
        extension = os.path.splitext(stem)[1]
    return extension


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
    return _KINDS.get(_extension(path))


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
    separators = "tabs"
    separator = "\t"
    if _extension(path) == ".csv":
        separators = "commas"
        separator = ","
    head = ""
    with suppress(CorpusError):  # reading the file will report the error
        for block in read_blocks(path, block_size=_HEAD, errors="replace", max_line=None):
            head = block.data.decode()
            break
    filled = [line for line in head.split("\n") if line.strip()][:_HEAD_LINES]
    if filled and all(map(_is_object, filled)):
        return "its lines are JSON objects"
    if not filled or not all(separator in line.strip() for line in filled):
        return ""
    columns = enumerate(filled[0].strip("\r").split(separator), 1)
    texts = (f"{number} {shown(text, _MAX_SHOWN)!r}" for number, text in columns)
    return f"its lines have several columns between {separators}: {', '.join(texts)}"


def refuse_objects(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield the blocks of stdin. Raises CorpusError if its first lines are objects of JSON.

    A single line may be a text that a person types.
    """
    for block in blocks:
        filled = [line for line in block.data[:_HEAD].split(b"\n")[:-1] if line.strip()]
        if block.first_line == 1 and len(filled) > 1 and all(map(_is_object, filled)):
            raise CorpusError(
                f"{block.place(0)}: JSON lines; name a column with", hint={"column": "text"}
            )
        yield block


def _is_object(line: str | bytes) -> bool:
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(line), dict)
    return False
