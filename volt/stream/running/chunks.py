"""The lines of a block that are transformed together: all of them, or few at a time where Python code takes its time.

Which lines a chunk holds follows from its number alone. Where chunks are small, the first ones of a block are smaller
still, so that a first line comes soon.

>>> [rows_of(chunk, n_lines=100, most=64) for chunk in range(4)], n_chunks(100, most=64)
([(0, 16), (16, 48), (48, 100), (112, 100)], 3)
"""

from __future__ import annotations

from typing import NamedTuple

from volt.errors import StreamError
from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.shares import Part

FIRST = 1 << 4  # lines of the first chunk; each that follows has twice as many, until they are full


class Address(NamedTuple):
    """A chunk of a source: the part, and the number of the chunk in it."""

    part: Part
    chunk: int


def most_of(source: OpenSource, part: Part) -> int:
    """The rows of a full chunk of a part. A part that others had begun is one chunk: its outputs are counted."""
    return part.n_lines if part.is_begun else source.chunk_lines


def rows_of(chunk: int, *, n_lines: int, most: int) -> tuple[int, int]:
    """The first row of a chunk, and the row behind its last. most: rows of a full chunk."""
    if most >= n_lines:
        return (0, n_lines) if chunk == 0 else (n_lines, n_lines)
    return _start(chunk, most), min(_start(chunk + 1, most), n_lines)


def _start(chunk: int, most: int) -> int:
    growing = max(0, (most // FIRST).bit_length() - 1)  # how many chunks are not full
    return FIRST * ((1 << min(chunk, growing)) - 1) + most * max(0, chunk - growing)


def check_chunk(source: OpenSource, part: Part | None, chunk: int) -> None:
    """Raise StreamError if the part of a state does not have this chunk. part: None before the first."""
    if part is not None and chunk >= n_chunks(part.n_lines, most=most_of(source, part)):
        found = f"the state's sources.{source.name}.chunk is {chunk:,}, which its part does not have"
        raise StreamError(f"{found}; take one that a stream has written, or start the stream anew")


def n_chunks(n_lines: int, *, most: int) -> int:
    """How many chunks a part has."""
    if most >= n_lines:
        return 1
    chunk = n_lines // most
    while rows_of(chunk, n_lines=n_lines, most=most)[0] < n_lines:
        chunk += 1
    return chunk
