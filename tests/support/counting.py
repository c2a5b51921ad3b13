"""Functions that compress bytes in every supported way, and word counts as a dict."""

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
    """Return word → count."""
    return dict(counts.table.rows())
