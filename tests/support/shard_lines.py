"""A text, functions that compress it, and readers of the lines of a shard."""

import gzip
import lzma

import zstandard

LINES = [f"line {i}\tZeile {i}" for i in range(100)]
TEXT = "".join(line + "\n" for line in LINES).encode()
PACKERS = {
    "plain": bytes,
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


def read_lines(shard, piece):
    """Return the lines of a segment of a shard."""
    (column,) = shard.read(piece)
    return column_lines(column)


def column_lines(column):
    """Return the lines of a column, read from its buffer."""
    spans = zip(column.starts.tolist(), column.sizes.tolist(), strict=True)
    return [column.data[start : start + size].tobytes() for start, size in spans]


def all_lines(shard):
    """Return the lines of a text shard."""
    return [line for piece in range(len(shard.counts)) for line in read_lines(shard, piece)]
