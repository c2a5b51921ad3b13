"""A call of each loop over words, texts and units with next to no data, so that it is compiled, or loaded from disk.

The arrays are of the types that the callers of the loop give it: for others, it would be compiled anew.

>>> SAMPLES["apply_bpe.start_line"]()
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


def ints(*numbers: int) -> Any:
    """Return an array of int32."""
    return np.array(numbers, np.int32)


def longs(*numbers: int) -> Any:
    """Return an array of int64."""
    return np.array(numbers, np.int64)


def bytes_(n: int) -> Any:
    """Room for so many bytes."""
    return np.zeros(n, np.uint8)


def merges() -> Any:
    """Return one merge, in its table."""
    from volt.kernels.bpe_tables import ranked_merges

    return ranked_merges(ints(0), ints(1), ints(2))


def _rule() -> Any:
    from volt.kernels.apply_bpe import PieceRule
    from volt.kernels.bpe_tables import no_spellings

    return PieceRule(bytes_(3), longs(-1, -1, 1), no_spellings())


def _spell() -> None:
    from volt.kernels.bpe_tables import cuts, spellings

    cuts(spellings(ints(0), longs(1)))


def _learn() -> None:
    from volt.kernels.arrays import TokenStrings, Words
    from volt.kernels.learn import Until, learn

    texts = TokenStrings(ints(97, 98), longs(0, 1, 2, 0, 0))
    learn(Words(ints(0, 1), longs(2), longs(2)), texts, bytes_(2), ints(), Until(1, 2, 1, 1), longs(0, 0))


def _learn_parity() -> None:
    from volt.kernels.arrays import TokenStrings, Words
    from volt.kernels.learn_parity import learn_parity

    texts = TokenStrings(ints(97, 98), longs(0, 1, 2, 0, 0))
    words = Words(ints(0, 1), longs(2), longs(2))
    learn_parity(words, texts, bytes_(2), ints(), longs(2), longs(4), 1, 2, longs(0, 0))


def _trace() -> None:
    from volt.kernels.apply_bpe import trace
    from volt.kernels.arrays import Words

    trace(Words(ints(0, 1), longs(2), longs(2)), merges(), longs(0, 0))


def _encode_words() -> None:
    from volt.kernels.apply_bpe import encode_words

    encode_words(ints(0, 1), longs(2), merges(), _rule(), 0.0, longs(0))


def _sample() -> None:
    from volt.kernels.apply_bpe import encode_sampled

    encode_sampled(ints(0, 3), longs(2), merges(), _rule(), 0.1, 0, longs(0))


def _start_line() -> None:
    from volt.kernels.apply_bpe import line_state

    line_state(0, 0)


def _expand() -> None:
    from volt.kernels.decode import expand

    for values in (ints(7), bytes_(1)):
        expand(ints(0), longs(1), longs(0, 1), values, np.zeros(2, values.dtype), longs(0), values.itemsize == 1)


@cache
def _table() -> Any:
    from volt.kernels.unit_table import UnitRows

    return UnitRows(np.zeros(32, np.uint64), bytes_(8), longs(0, 0), bytes_(8), longs(0, 0), bytes_(8), longs(0, 0))


def spaces(n: int) -> Any:
    """Return a text of so many spaces, which cannot be written to."""
    text = np.full(n, 32, np.uint8)
    text.flags.writeable = False
    return text


def _encode_units() -> None:
    from volt.kernels.encode_units import LINES, RING, ROOM, Rule, encode_units
    from volt.kernels.memory import PADDING
    from volt.kernels.unit_encoder import LoopState, numbering

    rule, ring = Rule(10, False, 1 << 32, 0, False, False, False), np.zeros(RING, np.uint64)
    line_ends, left_lines = np.zeros(LINES, np.int64), np.zeros((LINES, 2), np.int64)
    state, out = LoopState().slots(), bytes_(ROOM)
    encode_units(spaces(PADDING), 0, rule, _table(), numbering(), out, line_ends, left_lines, ring, state)


def _encode_pending() -> None:
    from volt.kernels.encode_units import encode_pending
    from volt.kernels.unit_encoder import numbering

    encode_pending(spaces(8), _table(), numbering(), longs(), longs(), 0)


def _complete() -> None:
    from volt.kernels.unit_table import complete

    complete(_table(), longs(), longs())


def _rebuild() -> None:
    from volt.kernels.unit_table import rebuild

    rebuild(np.zeros(64, np.uint64), _table().rows)


def _count_units() -> None:
    from volt.kernels.memory import PADDING
    from volt.kernels.unit_table import RING, Ends, count_units

    count_units(
        spaces(PADDING), 0, Ends(10, True, 1 << 32, True, False), _table(), np.zeros(RING, np.uint64), longs(0, 0, 0, 0)
    )


def _add_words() -> None:
    from volt.kernels.regex_cutting import SplitTables
    from volt.kernels.unit_table import add_words

    tables = SplitTables(bytes_(256), ints(0, 0), 1, longs(0))
    add_words(spaces(8), longs(), longs(), longs(), tables, 0, longs(0), longs(0), _table(), longs(0, 0, 0))


def _expand_lines() -> None:
    from volt.kernels.decode import NO_SPACE, TextTable, expand_lines
    from volt.kernels.memory import PADDING

    texts = TextTable(np.zeros(2, np.uint64), longs(0, 0), bytes_(PADDING))
    expand_lines(ints(0), longs(0, 1), 0, texts, NO_SPACE, bytes_(2 * PADDING), longs(0))


def _parse_ids() -> None:
    from volt.kernels.decode import parse_ids

    parse_ids(np.frombuffer(b"0\n", np.uint8), 1, ints(0, 0), longs(0, 0))


SAMPLES: dict[str, Callable[[], object]] = {
    "bpe_tables.fill": merges,
    "unit_table.count_units": _count_units,
    "unit_table.add_words": _add_words,
    "bpe_tables.enter": _spell,
    "bpe_tables.find_cuts": _spell,
    "learn.learn_merges": _learn,
    "learn_parity.learn_parity_merges": _learn_parity,
    "apply_bpe.trace_each": _trace,
    "apply_bpe.encode_each": _encode_words,
    "apply_bpe.sample_each": _sample,
    "apply_bpe.start_line": _start_line,
    "decode.expand": _expand,
    "encode_units.encode_units": _encode_units,
    "encode_units.encode_pending": _encode_pending,
    "unit_table.complete": _complete,
    "unit_table.rebuild": _rebuild,
    "decode.expand_lines": _expand_lines,
    "decode.parse_ids": _parse_ids,
}
