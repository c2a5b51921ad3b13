"""Every compression, and counts as a plain dictionary."""

import bz2
import gzip
import lzma

import zstandard

PACKERS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def pairs(counts):
    """Return each word with its count."""
    return dict(counts.table.rows())
