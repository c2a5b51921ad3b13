"""Recognise files of tables: JSON lines by their names, CSV by its name and first lines, TSV by its first lines."""

from __future__ import annotations

import os

from volt.errors import CorpusError, shown, shown_path
from volt.files.blocks import read_blocks
from volt.files.paths import is_file
from volt.files.small_files import read_start

_HEAD, _HEAD_LINES = 1 << 14, 5  # bytes and lines that are read to recognise a table
_PACKED = {".gz", ".bz2", ".xz", ".zst"}
_MOST_OF_COLUMN = 30  # characters


def _ending(path: str) -> str:
    stem, ending = os.path.splitext(path)
    return os.path.splitext(stem)[1] if ending in _PACKED else ending


def is_json_lines(path: str) -> bool:
    return _ending(path) in (".jsonl", ".ndjson")


def is_parquet(path: str) -> bool:
    """Check whether a file starts like a Parquet file. A pipe is never read."""
    try:
        return is_file(path) and read_start(path, 4) == b"PAR1"
    except CorpusError:  # reading the file will report the error
        return False


def refuse_json_lines(path: str) -> None:
    """Raise CorpusError if a file whose lines are to be encoded has the name of JSON lines."""
    if is_json_lines(path):
        what = f"{shown_path(path)}: JSON lines, but only lines of text are encoded"
        raise CorpusError(f"{what}; extract the text column, such as with jq -r .text")


def columns_in(path: str) -> str:
    """Describe the columns of a file whose first lines are those of a table; "" for text, JSON lines and Parquet."""
    if not is_file(path) or is_json_lines(path) or is_parquet(path):
        return ""
    blocks = read_blocks(path, block_size=_HEAD, errors="replace", max_line=None)
    lines = next((block.data.decode() for block in blocks), "").split("\n")
    filled = [line.strip("\r") for line in lines if line.strip()][:_HEAD_LINES]
    kind, separator = ("commas", ",") if _ending(path) == ".csv" else ("tabs", "\t")
    if not filled or any(separator not in line.strip() for line in filled):
        return ""
    columns = filled[0].split(separator)
    texts = ", ".join(f"{n} {shown(text, _MOST_OF_COLUMN)!r}" for n, text in enumerate(columns, 1))
    return f"its lines have several columns between {kind}: {texts}"
