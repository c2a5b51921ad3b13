"""The loops of batches are compiled ahead for the types that they are called with."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numba import typeof

from volt.batches import pack, token_batches
from volt.kernels.warmup import JOBS, kernel, signatures


def test_after_warmup_no_batch_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lengths are given as, the loops get arrays of the types that they have been compiled for."""
    seen: dict[str, set[tuple[Any, ...]]] = {}

    def watch(place: str, loop: Any) -> Any:
        def call(*arguments: Any) -> Any:
            seen.setdefault(place, set()).add(tuple(map(typeof, arguments)))
            return loop(*arguments)

        return call

    ready = {place: set(signatures(place)) for place in JOBS["batches"]}
    for place in JOBS["batches"]:
        module, name = place.split(".")
        monkeypatch.setattr(
            import_module(f"volt.kernels.{module}"), name, watch(place, kernel(place))
        )
    frozen = np.arange(1, 60)
    frozen.flags.writeable = False
    for lengths in (
        frozen,
        frozen[::3],
        frozen.astype(np.uint8).tolist(),
        np.stack([frozen, frozen], axis=1),
    ):
        for shuffle, noise in ((True, 0.0), (True, 0.1), (False, 0.0)):
            token_batches(lengths, max_tokens=70, world=2, shuffle=shuffle, noise=noise)
    for shuffle in (True, False):
        pack(frozen, 20, on_long="split", shuffle=shuffle)
        pack(frozen[::3], 60, shuffle=shuffle)
    assert seen == ready
