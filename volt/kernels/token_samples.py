"""Calls that compile the loops over tokens, each with next to no data (`volt.kernels.warmup`).

>>> sorted(SAMPLES)[-1]
'tokens.write_tokens'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _text() -> Any:
    text = np.full(1, ord("a"), np.uint8)
    text.flags.writeable = False
    return text


def _longs(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def _seeds() -> Any:
    return np.zeros(1, np.uint64)


def _count_tokens() -> None:
    from volt.kernels.tokens import count_tokens

    count_tokens(_text(), _longs(0), _longs(1), _longs(0))


def _cut_tokens() -> None:
    from volt.kernels.tokens import cut_tokens

    cut_tokens(_text(), _longs(0), _longs(1), _longs(0), _longs(0))


def _write_tokens() -> None:
    from volt.kernels.tokens import write_tokens

    token, out = (_text(), _longs(0), _longs(1)), np.zeros(9, np.uint8)
    write_tokens(*token, *token, _longs(0), _longs(1), out, _longs(0))


def _count_hits() -> None:
    from volt.kernels.noise import count_hits

    count_hits(_longs(1), 0.5, _seeds(), _longs(0))


def _hit_tokens() -> None:
    from volt.kernels.noise import hit_tokens

    hit_tokens(_longs(1), _longs(1), 1, _seeds(), _longs(0))


def _reorder_tokens() -> None:
    from volt.kernels.noise import reorder_tokens

    reorder_tokens(_longs(1), 3.0, _seeds(), np.zeros(1), _longs(0))


def _toggle_marks() -> None:
    from volt.kernels.noise import toggle_marks

    toggle_marks(_text(), _longs(0), _longs(1), _longs(0), _text(), _longs(0), _longs(1), 0, 0, _longs(0))


def _look_up() -> None:
    from volt.kernels.batching import look_up
    from volt.kernels.tokens import Types

    types = Types(np.zeros(8, np.int64), _seeds(), _longs(0, 0), np.zeros(1, np.uint8))
    look_up(_text(), _longs(0), _longs(1), types, np.zeros(1, np.int32), _longs(0))


def _ids() -> Any:
    ids = np.zeros(1, np.int32)
    ids.flags.writeable = False
    return ids


def _frame_ids() -> None:
    from volt.kernels.batching import frame_ids

    frame_ids(_ids(), _longs(0), _longs(1), _ids(), _ids(), 1, np.zeros(3, np.int32))


def _put_rows() -> None:
    from volt.kernels.batching import put_rows

    for kind in (np.int64, np.int32):
        out, mask = np.zeros((2, 1), kind), np.zeros(1, bool)
        rows = _longs(0), _longs(0), _longs(0), np.ones(1, bool)
        put_rows(_ids(), _longs(0, 1), *rows, 0, out[0], out[1], mask, _longs(0))


SAMPLES: dict[str, Callable[[], object]] = {
    "tokens.count_tokens": _count_tokens,
    "tokens.cut_tokens": _cut_tokens,
    "tokens.write_tokens": _write_tokens,
    "noise.count_hits": _count_hits,
    "noise.hit_tokens": _hit_tokens,
    "batching.look_up": _look_up,
    "batching.frame_ids": _frame_ids,
    "batching.put_rows": _put_rows,
    "noise.reorder_tokens": _reorder_tokens,
    "noise.toggle_marks": _toggle_marks,
}
