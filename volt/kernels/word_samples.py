"""Calls that compile the loops over word types, each with next to no data (`volt.kernels.warmup`).

>>> sorted(SAMPLES)[-1]
'segmentations.find_words'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from volt.kernels.samples import ints, longs, merges


def _text() -> Any:
    text = np.full(1, ord("a"), np.uint8)
    text.flags.writeable = False
    return text


def _find_words() -> None:
    from volt.kernels.tokens import Types, find_words

    types = Types(longs(0, 0, 0, 0), np.zeros(2, np.uint64), longs(0, 0, 0), np.zeros(2, np.uint8))
    find_words(_text(), longs(0), longs(1), types, ints(0), longs(0), longs(0, 0, 0, 0))


def _enter_types() -> None:
    from volt.kernels.tokens import enter_types

    enter_types(np.zeros(1, np.uint64), np.int64(1), longs(0, 0))  # type: ignore[arg-type]


def _choose() -> None:
    from volt.kernels.tokens import choose

    words, hashes = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    choose(words, longs(1), ints(0), hashes, False, longs(0, 1), np.ones(1), ints(0))


def _best_paths() -> None:
    from volt.kernels.lattice import Paths, Trie, best_paths

    trie = Trie(merges().pairs, ints(-1, -1), np.zeros(1), 1.0)
    paths = Paths(longs(0, 0), np.zeros((2, 1)), np.zeros((2, 1), np.int32), np.zeros((2, 1), np.int32))
    best_paths(ints(-1), longs(1), trie, paths, longs(0), np.zeros(1), longs(0), ints(0))


SAMPLES: dict[str, Callable[[], object]] = {
    "tokens.find_words": _find_words,
    "tokens.enter_types": _enter_types,
    "tokens.choose": _choose,
    "lattice.best_paths": _best_paths,
}
