"""Laws of loading compiled loops: numba gets ready to compile only where there is something to compile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import njit

from volt.kernels import jit
from volt.kernels.warmup import compile_loop

compiles = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)
DEADLINE = 120  # seconds
READY = "numba.np.linalg"  # one of the modules that numba compiles with
LOAD_THEN_COMPILE = f"""
import sys
import numpy as np
from numba import njit
from volt.kernels.columns import shuffle
order = np.arange(3)
shuffle(np.zeros(3, np.uint64), order)
print(order.tolist(), sum(shuffle.stats.cache_hits.values()), {READY!r} in sys.modules)
print(njit(lambda values: np.sort(values)[0])(np.array([3, 1])), {READY!r} in sys.modules)
"""


def least(values: np.ndarray) -> int:
    """The least of a few values; the loop allocates memory."""
    found: int = np.sort(values.copy())[0]
    return found


def same(number: int) -> int:
    """The same number; a loop that allocates nothing."""
    return number


@compiles
def test_a_loop_on_disk_is_loaded_without_what_compiles() -> None:
    """A process that only runs kept loops imports no compiler's modules; it can still compile something else."""
    compile_loop("columns.shuffle")
    done = subprocess.run(
        [sys.executable, "-c", LOAD_THEN_COMPILE],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert done.stdout == "[1, 2, 0] 1 False\n1 True\n"


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(("function", "given"), [(least, np.array([3, 1])), (same, 1)])
def test_a_kept_loop_gives_what_the_compiled_one_gave(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[[Any], int],
    given: Any,
    alone: bool,
) -> None:
    """Compiled, and loaded by another: the same result with or without numba; only compiling is reported."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", 0)
    monkeypatch.setattr(jit, "LOADS_ALONE", alone)
    calls = list[str]()
    notice = SimpleNamespace(begin=lambda: calls.append("begin"), end=lambda: calls.append("end"))
    monkeypatch.setattr(jit, "_notice", notice)
    loops: list[Any] = [njit(function), njit(function)]
    for loop in loops:
        jit.keep(loop, allocates=function is least)
    assert [loop(given) for loop in loops] == [function(given)] * 2
    assert [sum(loop.stats.cache_hits.values()) for loop in loops] == [0, 1]
    assert calls == ["begin", "end"] * alone
