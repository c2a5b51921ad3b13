"""Recognise files of tables: JSON lines by their names, CSV by its name and first lines, TSV by its
first lines."""

from __future__ import annotations

import os

from volt.errors import CorpusError, shown, shown_path
from volt.files.blocks import read_blocks
from volt.files.paths import is_file
from volt.files.small_files import read_start

_HEAD = 1 << 14  # bytes that are read to recognise a table
_HEAD_LINES = 5
_COMPRESSED = {".gz", ".bz2", ".xz", ".zst"}
_MAX_SHOWN = 30  # characters


def _extension(path: str) -> str:
    stem, extension = os.path.splitext(path)
    if extension in _COMPRESSED:
        extension = os.path.splitext(stem)[1]
    return extension


def is_json_lines(path: str) -> bool:
    return _extension(path) in (".jsonl", ".ndjson")


def is_parquet(path: str) -> bool:
    """Check whether a file starts like a Parquet file. A pipe is never read."""
    try:
        return is_file(path) and read_start(path, 4) == b"PAR1"
    except CorpusError:  # reading the file will report the error
        return False


def refuse_json_lines(path: str) -> None:
    """Raise CorpusError if a file whose lines are to be encoded has the name of JSON lines."""
    if is_json_lines(path):
        raise CorpusError(
            f"{shown_path(path)}: JSON lines, but only lines of text are encoded; "
            "extract the text column, such as with jq -r .text"
        )


def columns_in(path: str) -> str:
    """Describe the columns of a file if all of its first lines contain tabs (commas, if it is named
    .csv); else return ""."""
    if not is_file(path) or is_json_lines(path) or is_parquet(path):
        return ""
    separators = "tabs"
    separator = "\t"
    if _extension(path) == ".csv":
        separators = "commas"
        separator = ","
    blocks = read_blocks(path, block_size=_HEAD, errors="replace", max_line=None)
    head = next((block.data.decode() for block in blocks), "")
    filled = [line for line in head.split("\n") if line.strip()][:_HEAD_LINES]
    if not filled or not all(separator in line.strip() for line in filled):
        return ""
    columns = enumerate(filled[0].strip("\r").split(separator), 1)
    texts = (f"{number} {shown(text, _MAX_SHOWN)!r}" for number, text in columns)
    return f"its lines have several columns between {separators}: {', '.join(texts)}"
