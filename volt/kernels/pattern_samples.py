"""Calls that compile the loops over the tables of a pattern, each with next to no data (`volt.kernels.warmup`).

>>> sorted(SAMPLES)
['pattern_cutting.cut_texts', 'pattern_words.write_words']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from volt.kernels.samples import ints, longs


def _text() -> Any:
    return np.frombuffer(b"", np.uint8)


def _tables() -> Any:
    from volt.kernels.regex_cutting import SplitTables

    return SplitTables(np.zeros(256, np.uint8), ints(0, 0), 1, longs(0))


def _cut_texts() -> None:
    from volt.kernels.regex_cutting import cut_texts

    cut_texts(_text(), longs(0, 0), _tables(), longs(0), longs(0), longs(0))


def _write_words() -> None:
    from volt.kernels.regex_cutting import MORE, WordSpelling, write_words

    spelling, out = WordSpelling(np.zeros(1024, np.uint8), 0, 0), np.empty(2 + MORE, np.uint8)
    write_words(_text(), longs(0), longs(0), _tables(), spelling, longs(0), longs(0), out)


SAMPLES: dict[str, Callable[[], object]] = {
    "regex_cutting.cut_texts": _cut_texts,
    "regex_cutting.write_words": _write_words,
}
