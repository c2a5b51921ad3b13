"""Loops are compiled to machine code that needs nothing of numba."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from volt.kernels import jit
from volt.kernels.jit import CompiledLoop, borrowing, inlined
from volt.kernels.warmup import JOBS, kernel

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)
WITHOUT_NUMBA = """
import sys
sys.modules["volt.kernels.compiling"] = None  # an import fails
from volt.kernels.warmup import JOBS, compile_kernels, missing
assert not missing(*JOBS)
compile_kernels(*JOBS)
assert "numba" not in sys.modules
"""


@borrowing
def more(number):
    return number + 1


@inlined
def twice(number):
    return 2 * number


def test_all_loops_load_without_numba():
    """All loops on disk load, and find every function that they call, in a process that cannot
    import numba."""
    for name in {name for names in JOBS.values() for name in names}:
        kernel(name).load()
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=True, timeout=120)


def loop_of_parts(number: int) -> int:
    return more(twice(number)) + more(np.int32(number))


@pytest.mark.parametrize("differs", [True, False])
def test_parts_are_compiled_once_for_all_whole_numbers(monkeypatch, differs):
    """A part is compiled once for all types of whole numbers, and Python calls it as a plain
    function. If numba lacks the private names, numba compiles parts its own way."""
    compiling = pytest.importorskip("volt.kernels.compiling")
    monkeypatch.setattr(jit, "code_folder", lambda: None)
    monkeypatch.setattr(compiling, "PARTS_DIFFER", differs)
    compiling.dispatcher.cache_clear()
    loop = CompiledLoop(loop_of_parts)
    loop.name += str(differs)  # machine code needs another name
    assert [loop(5), loop_of_parts(5)] == [17, 17]
    signatures = compiling.dispatcher(more).signatures
    assert len(signatures) == (1 if differs else 2)
    compiling.dispatcher.cache_clear()


def draw(number: int) -> int:
    return number + int(random.random())


def test_a_loop_that_needs_numbas_functions_is_refused(monkeypatch):
    """A loop that calls functions of numba, which stored code would lack, is not compiled."""
    monkeypatch.setattr(jit, "code_folder", lambda: None)
    with pytest.raises(AssertionError, match="numba_"):
        CompiledLoop(draw)(3)
