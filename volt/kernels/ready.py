"""Whether the compiled loops are ready, and making them so: compilation happens once per machine and version.

>>> compile_kernels()
>>> is_compiled()
True
"""

from __future__ import annotations

from pathlib import Path

import numpy as np


def is_compiled() -> bool:
    """Whether all loops are compiled in this process, or cached on disk by an earlier one."""
    from numba import config

    from volt.kernels import bpe, encode

    if vars(config)["DISABLE_JIT"]:
        return True
    return all(
        kernel.signatures or _is_cached(Path(str(kernel.stats.cache_path)), Path(str(module.__file__)), name)
        for module, kernel, name in (
            (bpe, bpe.learn, "learn"),
            (encode, encode.encode_words, "encode_words"),
            (encode, encode.trace, "trace"),
        )
    )


def _is_cached(folder: Path, source: Path, name: str) -> bool:
    """Whether the cache folder holds an index of the kernel that is not older than its source."""
    found = folder.glob(f"{source.stem}.{name}-*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in found)


def compile_kernels() -> None:
    """Compile the loops that a search and an encoder run, or load them from the cache."""
    from volt.kernels.bpe import Words, learn
    from volt.kernels.encode import encode_words, ranked_merges, trace
    from volt.kernels.texts import Texts

    symbols, ends, flags = np.array([0, 1], np.int32), np.array([2]), np.zeros(2, np.uint8)
    words, progress = Words(symbols, ends, np.array([2])), np.zeros(2, np.int64)
    texts = Texts(np.array([97, 98], np.int32), np.array([0, 1, 2, 0, 0]))
    learn(words, texts, flags, np.empty(0, np.int32), 1, 2, progress)
    merges = ranked_merges(symbols[:1], symbols[1:], symbols[1:] + 1)
    trace(words, merges, progress)
    encode_words(symbols, ends, merges, np.ones(3, np.uint8), np.full(3, -1), 0.0, np.zeros(1, np.int64))
