"""Calls that compile the loops of batches, each with next to no data (`volt.kernels.warmup`).

>>> sorted(SAMPLES)
['batching.cut_steps', 'batching.deal_rows', 'batching.fit_best']
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from volt.kernels.samples import longs


def _cut_steps() -> None:
    from volt.kernels.batching import cut_steps

    cut_steps(longs(1), 1, 1, 1, 1, longs(0))


def _deal_rows() -> None:
    from volt.kernels.batching import deal_rows

    deal_rows(longs(0), longs(1), longs(0), 1, longs(0), longs(0))


def _fit_best() -> None:
    from volt.kernels.batching import fit_best

    fit_best(longs(1), 1, np.zeros(4, np.uint8), longs(-1, -1), longs(0), longs(0))


SAMPLES: dict[str, Callable[[], object]] = {
    "batching.cut_steps": _cut_steps,
    "batching.deal_rows": _deal_rows,
    "batching.fit_best": _fit_best,
}
