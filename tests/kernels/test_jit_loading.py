"""Laws of loading compiled loops: numba gets ready to compile only where there is something to compile."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from volt.kernels import jit
from volt.kernels.warmup import compile_loop

compiles = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run")
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
        [sys.executable, "-c", LOAD_THEN_COMPILE], capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert done.stdout == "[1, 2, 0] 1 False\n1 True\n"


FIRST_CALLS = """
import sys
import numpy as np
from volt.kernels import jit
from volt.kernels.columns import shuffle
from volt.kernels.warmup import compile_loop
jit.SILENT = float(sys.argv[1])
order = np.arange(3)
if sys.argv[2:]:
    compile_loop("columns.shuffle")
else:
    shuffle(np.zeros(3, np.uint64), order)
    shuffle(np.zeros(3, np.uint32), order)
"""


@compiles
@pytest.mark.parametrize("on_terminal", [False, pytest.param(True, marks=pytest.mark.campaign)])
def test_a_long_first_call_says_once_that_it_compiles(tmp_path: Path, on_terminal: bool) -> None:
    """It names the remedy; nothing is said of short compiling, by who says it himself, or when loops are on disk."""

    def said(*arguments: str, flags: tuple[str, ...] = (), cache: str = "a") -> str:
        command = [sys.executable, *flags, "-c", FIRST_CALLS, *arguments]
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / cache)}
        reader, writer = pty.openpty() if on_terminal else os.pipe()
        subprocess.run(command, stderr=writer, env=environment, timeout=DEADLINE, check=True)
        os.write(writer, b"end")
        os.close(writer)
        with open(reader, "rb", buffering=0) as file:
            return file.read(1 << 14).decode().removesuffix("end")

    assert said("1000") == ""
    assert said("0") == ""
    assert said("0", cache="b").count("run `volt warmup`") == 1
    assert said("0", "compile_loop", cache="c") == ""
    assert said("0", flags=("-W", "error"), cache="d").count("run `volt warmup`") == on_terminal


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(("function", "given"), [(least, np.array([3, 1])), (same, 1)])
def test_a_kept_loop_gives_what_the_compiled_one_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: Callable[[Any], int], given: Any, alone: bool
) -> None:
    """Compiled, and loaded by another: the same result; whether numba can be relied on to load by itself or not."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", 0)
    monkeypatch.setattr(jit, "LOADS_ALONE", alone)
    loops: list[Any] = [njit(function), njit(function)]
    for loop in loops:
        jit.keep(loop, allocates=function is least)
    assert [loop(given) for loop in loops] == [function(given)] * 2
    assert [sum(loop.stats.cache_hits.values()) for loop in loops] == [0, 1]
