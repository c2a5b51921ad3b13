"""Says whether the compiled loops are ready, and makes them so. They are compiled once per machine and version.

>>> compile_kernels("encode")
>>> is_compiled("encode")
True
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

Job = Literal["search", "encode"]


def is_compiled(job: Job) -> bool:
    """Whether the loops that a job runs are compiled in this process, or cached on disk by an earlier one."""
    from numba import config

    from volt.kernels.caching import is_on_disk

    if vars(config)["DISABLE_JIT"]:
        return True
    return all(kernel.signatures or is_on_disk(kernel) for kernel in _kernels(job))


def _kernels(job: Job) -> list[Any]:
    """The loops that Python calls in such a job."""
    from volt.kernels.learn import learn
    from volt.kernels.pair_table import ranked_merges
    from volt.kernels.unit_loop import encode_units
    from volt.kernels.words import encode_words, trace

    if job == "search":
        return [learn, ranked_merges, encode_words, trace]
    return [ranked_merges, encode_words, encode_units]


def compile_kernels(job: Job) -> None:
    """Compile the loops that a search, or an encoder, runs, or load them from the cache."""
    from volt.kernels.pair_table import ranked_merges
    from volt.kernels.words import encode_words

    symbols = np.array([0, 1], np.int32)
    merges = ranked_merges(symbols[:1], symbols[1:], symbols[1:] + 1)
    encode_words(symbols, np.array([2]), merges, np.ones(3, np.uint8), np.full(3, -1), 0.0, np.zeros(1, np.int64))
    if job == "search":
        _compile_search(symbols, merges)
    else:
        _compile_encode()


def _compile_search(symbols: Any, merges: Any) -> None:
    from volt.kernels.arrays import Words
    from volt.kernels.learn import learn
    from volt.kernels.texts import Texts
    from volt.kernels.words import trace

    words, progress = Words(symbols, np.array([2]), np.array([2])), np.zeros(2, np.int64)
    texts = Texts(np.array([97, 98], np.int32), np.array([0, 1, 2, 0, 0]))
    learn(words, texts, np.zeros(2, np.uint8), np.empty(0, np.int32), 1, 2, progress)
    trace(words, merges, progress)


def _compile_encode() -> None:
    """By numbering the units of a little text."""
    from volt.kernels.memory import PADDING
    from volt.kernels.unit_loop import LINES, ROOM, Rule, encode_pending, encode_units
    from volt.kernels.unit_rows import UnitRows, complete, rebuild
    from volt.kernels.unit_state import LoopState
    from volt.kernels.unit_values import numbering

    data, flags, longs = np.full(PADDING, 32, np.uint8), np.zeros(ROOM, np.uint8), np.zeros(2, np.int64)
    data.flags.writeable = False
    rows, state, rule = np.zeros(32, np.uint64), LoopState().slots(), Rule(10, False, 1 << 32, False, False, False)
    line_ends, left_lines = np.zeros(LINES, np.int64), np.zeros((LINES, 2), np.int64)
    table = UnitRows(rows, flags, longs, flags, longs, flags, longs)
    encode_units(data, 0, rule, table, numbering(), flags, line_ends, left_lines, rows, state)
    encode_pending(data, table, numbering(), longs[:0], longs[:0], 0)
    complete(table, longs[:0], longs[:0])
    rebuild(np.zeros(64, np.uint64), table.rows)
