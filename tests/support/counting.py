"""Every compression, and counts as a plain dictionary."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable

import zstandard

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def pairs(counts):
    """Return each word with its count."""
    return dict(counts.table.rows())
