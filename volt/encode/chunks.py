r"""Text and files → chunks: whole lines of UTF-8, about a megabyte, which threads encode.

    b"low\nlower\n" with size=8   →   Chunk(b"low\n", first=0), Chunk(b"lower\n", first=1)

A chunk also says what the encoder needs besides the text: the number of its first line, for
dropout; and the block of a file that contains it, for error messages with the line's place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from volt import arguments
from volt.arguments import MAX_LINE
from volt.array_types import Longs
from volt.errors import ConfigError, CorpusError
from volt.files.blocks import Block, Errors, Wait
from volt.files.paths import is_file
from volt.files.ranges import FileRange, FileSpan, divide_into_spans, open_divisible
from volt.files.small_files import is_compressed
from volt.files.table_rows import TextColumns, TextRows, join_texts, read_text, read_texts
from volt.files.threads import available_cores, prefetch
from volt.text.normalizer import check_text
from volt.urls import url_of

CHUNK_SIZE = 1 << 20  # bytes: work for a millisecond or two
_SMALLEST = 1 << 16  # bytes of the smallest chunks into which threads share a text
NEWLINE = ord("\n")
NO_BYTE_OF_TEXT = 0xFF  # occurs nowhere in UTF-8
FindCut = Callable[[bytes, int, int], int]  # see `chunks_of`
_LINES = TextColumns()


@dataclass(frozen=True, slots=True)
class Chunk:
    r"""Lines of UTF-8 text. The byte `separator` follows each; after the last, it is optional.

    text: the lines; a FileSpan is read only when the chunk is encoded
    separator: the byte after each line
    first: the number of the first line, for dropout
    strips_return: whether lines end at "\r\n" too
    whole: the block of a file that contains the chunk, for error messages
    rows: the rows of a table that contain the lines, for error messages
    padded: whether `PADDING` bytes after the text are readable
    awaited: whether the chunk's result is wanted before the next chunk is requested
    numbers: (n_lines,) int64, the lines' numbers, unless they count up from `first`
    ends_file: True for the empty chunk after the last chunk of a file
    is_cut: whether the last line continues in the next chunk
    """

    text: bytes | memoryview | FileSpan
    separator: int = NEWLINE
    first: int = 0
    strips_return: bool = False
    whole: Block | None = None
    rows: TextRows | None = None
    padded: bool = False
    awaited: bool = False
    numbers: Longs | None = None
    ends_file: bool = False
    is_cut: bool = False

    def decode(self) -> list[str]:
        """Return the lines as strings. Raises UnicodeDecodeError if they are not UTF-8."""
        text = bytes(self.text)
        line_end = bytes([self.separator])
        lines = text.removesuffix(line_end).split(line_end) if text else []
        if self.strips_return:
            lines = [line.removesuffix(b"\r") for line in lines]
        return [line.decode() for line in lines]

    @property
    def next_line(self) -> int:
        """The number of the line after the chunk."""
        return self.first + count_lines(bytes(self.text), separator=self.separator)

    @property
    def block(self) -> Block:
        """The block that contains the chunk, or the chunk itself as a block of "text"."""
        if isinstance(self.text, FileSpan):
            return self.text.block()
        return self.whole or Block("text", 1 + self.first, 0, bytes(self.text), 0)

    def place(self, index: int) -> str:
        """Return "FILE:LINE" of the line with this index, for errors."""
        return (self.rows or self.block).place(index)


def count_lines(text: bytes, *, separator: int = NEWLINE) -> int:
    return text.count(separator) + (bool(text) and text[-1] != separator)


def chunks_of(
    text: bytes,
    *,
    separator: int = NEWLINE,
    first: int = 0,
    numbers: Longs | None = None,
    numbered: bool = True,
    size: int = CHUNK_SIZE,
    find_cut: FindCut | None = None,
) -> Iterator[Chunk]:
    r"""Yield the chunks of a text.

    separator, first, numbers: see `Chunk`
    numbered: whether each chunk needs the number of its first line, for dropout
    size: about how many bytes a chunk has; a longer line is a chunk, unless it can be cut
    find_cut: returns the last place of text[start:end] where a line may be cut; 0 if there is none
    """
    from volt.kernels.intrinsics import PADDING

    view = memoryview(text)
    line_end = bytes([separator])
    whole = Block("text", 1, 0, text, 0)
    start = 0
    while start < len(text):
        end = len(text)
        if start + size < end:
            end = text.rfind(line_end, start, start + size) + 1
            if not end and find_cut:
                end = find_cut(text, start, start + size)
            end = end or text.find(line_end, start + size) + 1 or len(text)
        is_cut = end < len(text) and text[end - 1] != separator
        n_lines = 0
        if numbered:
            n_lines = text.count(line_end, start, end) + (text[end - 1] != separator)
        yield Chunk(
            view[start:end],
            separator,
            first,
            whole=whole,
            padded=end + PADDING <= len(text) and not is_cut,
            numbers=None if numbers is None else numbers[:n_lines],
            is_cut=is_cut,
        )
        if numbers is not None:
            numbers = numbers[n_lines:]
        first += n_lines
        start = end


def check_threads(n_threads: int | None) -> int | None:
    """Return the number of threads itself, or None, which means one per core.

    Raises ConfigError if it is not a whole number of 1 or more.
    """
    if n_threads is None:
        return None
    return arguments.whole(n_threads, "n_threads", low=1)


def split_for_threads(n_bytes: int, n_threads: int | None) -> tuple[int, int]:
    """Return the size of a text's chunks in bytes, and the number of threads to encode them.

    A chunk has a megabyte at most, and all threads get equally many chunks. A text of at most one
    chunk needs only one thread.

    >>> split_for_threads(10_000, 2), split_for_threads(10_000_000, 2)
    ((65536, 1), (1000001, 2))
    """
    n_threads = check_threads(n_threads) or available_cores()
    n_chunks = max(-(-n_bytes // CHUNK_SIZE), 2 * n_threads)
    n_chunks += -n_chunks % n_threads
    size = max(n_bytes // n_chunks + 1, _SMALLEST)
    return size, n_threads if size < n_bytes else 1


def file_chunks(
    path: str | FileRange,
    *,
    errors: Errors = "strict",
    first: int = 0,
    numbered: bool = True,
    size: int = CHUNK_SIZE,
    max_line: int | None = MAX_LINE,
    wait: Wait | None = None,
    columns: TextColumns = _LINES,
    keeps_columns: bool = False,
) -> Iterator[Chunk]:
    """Yield the chunks of a file, a range of a file, or stdin ("-").

    columns: for a table, the columns of its texts, each of which is a line
    keeps_columns: see `volt.files.table_rows.read_texts`
    errors, max_line: see `Encoder.encode_file`
    first, numbered, size: see `chunks_of`
    wait: the function that waits for a pipe; see `volt.files.blocks.read_blocks`

    A thread decompresses, or downloads, ahead.
    """
    reading: dict[str, Any] = {
        "errors": errors,
        "block_size": size,
        "max_line": max_line,
        "wait": wait,
    }
    is_pipe = isinstance(path, str) and not is_file(path)
    if wait and is_pipe:
        yield Chunk(b"", first=first, awaited=True)
    if columns:
        parts = read_texts(path, columns, keeps_columns=keeps_columns, **reading)
        for rows in parts if is_pipe else prefetch(parts):
            text = rows.join(bytes([NO_BYTE_OF_TEXT]))
            yield Chunk(text, NO_BYTE_OF_TEXT, first, rows=rows, awaited=rows.block.awaited)
            first += len(rows.texts)
        return

    blocks = read_text(path, checked=errors != "strict", **reading)
    if isinstance(path, str):
        file = open_divisible(path) if errors == "strict" and not numbered else None
        if file is not None:
            for span in divide_into_spans(file, size=size, max_line=max_line):
                yield Chunk(span, strips_return=True)
            return
        if url_of(path) or (os.path.isfile(path) and is_compressed(path)):
            blocks = prefetch(blocks)
    for block in blocks:
        yield Chunk(block.data, first=first, strips_return=True, whole=block, awaited=block.awaited)
        first += block.n_lines - len(block.bad_lines) * block.dropped


def join_lines(lines: Sequence[str]) -> tuple[bytes, int]:
    r"""Join lines to UTF-8 with a separator after each. Return the text and the separator.

    The separator is "\n", or the byte 0xFF if a line contains "\n".

    lines: texts, or an array of strings of Arrow, which do not become strings of Python
    """
    if is_arrow(lines):
        return _join_array(lines), NO_BYTE_OF_TEXT
    try:
        text = "\n".join(lines) + "\n" if lines else ""
        if text.count("\n") == len(lines):
            return text.encode(), NEWLINE
        return b"".join(line.encode() + b"\xff" for line in lines), NO_BYTE_OF_TEXT
    except TypeError:
        arguments.texts(lines, "lines")
        raise
    except UnicodeEncodeError:
        for line in lines:
            check_text(line)
        raise


def is_arrow(values: object) -> bool:
    """Return whether a value is an object of Arrow, such as an array."""
    return type(values).__module__.startswith("pyarrow.")


def _join_array(lines: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.compute as pc

    text_types = (pa.string(), pa.large_string(), pa.string_view())
    kind = getattr(lines, "type", None)
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    if not isinstance(lines, pa.Array | pa.ChunkedArray) or kind not in text_types:
        raise arguments.refusal(lines, "lines", "give an array of the type string or large_string")
    if lines.null_count:
        row = pc.index(lines.is_null(), True).as_py()
        raise ConfigError(
            f"lines[{row}] is null; give an array without nulls, such as lines.fill_null('')"
        )
    lines = lines.cast(pa.large_string())
    if isinstance(lines, pa.ChunkedArray):
        lines = lines.combine_chunks()
    line_end = bytes([NO_BYTE_OF_TEXT])
    text = join_texts(lines, line_end)
    if text.count(line_end) > len(lines):  # Arrow does not check its strings
        raise CorpusError(
            "lines contains a string that is not UTF-8; call lines.validate(full=True) to find it"
        )
    return text
