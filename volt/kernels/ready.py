"""Whether the compiled loops are ready, and making them so: compilation happens once per machine and version.

>>> compile_kernels("encode")
>>> is_compiled("encode")
True
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

Job = Literal["search", "encode"]


def is_compiled(job: Job) -> bool:
    """Whether the loops that a job runs are compiled in this process, or cached on disk by an earlier one."""
    from numba import config

    if vars(config)["DISABLE_JIT"]:
        return True
    return all(kernel.signatures or _is_cached(kernel) for kernel in _kernels(job))


def _kernels(job: Job) -> list[Any]:
    from volt.kernels import bpe, encode, units

    if job == "search":
        return [bpe.learn, encode.encode_words, encode.trace]
    return [encode.encode_words, units.scan, units.expand_ids, units.expand_text]


def _is_cached(kernel: Any) -> bool:
    """Whether the cache folder holds an index of the kernel that is not older than its source."""
    source = Path(kernel.py_func.__code__.co_filename)
    found = Path(str(kernel.stats.cache_path)).glob(f"{source.stem}.{kernel.py_func.__name__}-*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in found)


def compile_kernels(job: Job) -> None:
    """Compile the loops that a search, or an encoder, runs, or load them from the cache."""
    from volt.kernels.encode import encode_words
    from volt.kernels.merging import ranked_merges

    symbols = np.array([0, 1], np.int32)
    merges = ranked_merges(symbols[:1], symbols[1:], symbols[1:] + 1)
    encode_words(symbols, np.array([2]), merges, np.ones(3, np.uint8), np.full(3, -1), 0.0, np.zeros(1, np.int64))
    if job == "search":
        _compile_search(symbols, merges)
    else:
        _compile_encode()


def _compile_search(symbols: Any, merges: Any) -> None:
    from volt.kernels.bpe import Words, learn
    from volt.kernels.encode import trace
    from volt.kernels.texts import Texts

    words, progress = Words(symbols, np.array([2]), np.array([2])), np.zeros(2, np.int64)
    texts = Texts(np.array([97, 98], np.int32), np.array([0, 1, 2, 0, 0]))
    learn(words, texts, np.zeros(2, np.uint8), np.empty(0, np.int32), 1, 2, progress)
    trace(words, merges, progress)


def _compile_encode() -> None:
    """By encoding a little text."""
    from volt.kernels.memory import PADDING
    from volt.kernels.units import Table, expand_ids, expand_text, find_bytes, n_values, rebuild, scan

    data, ends = np.full(1 + PADDING, 32, np.uint8), np.array([1])
    table = Table(np.zeros(32, np.uint64), np.zeros(8, np.uint8), np.zeros(5, np.int64), np.zeros(4, np.uint8))
    numbers, line_ends, starts = np.zeros(1, np.int32), np.zeros(1, np.int64), np.zeros(1, np.int64)
    scan(data, ends, ends, table, 1 << 32, False, False, numbers, line_ends, np.zeros(5, np.int64))
    rebuild(np.zeros(64, np.uint64), table.rows)
    find_bytes(data, 1, 10, line_ends)
    n_values(numbers[:0], starts)
    expand_ids(numbers[:0], line_ends, starts, numbers, numbers, line_ends)
    expand_text(numbers[:0], line_ends, starts, data, data)
