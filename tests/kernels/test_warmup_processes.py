"""Compiling in two processes: every loop is compiled once, and nothing depends on the second process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.kernels import warmup
from volt.kernels.warmup import START, Loop, halves, helping

HERE, THERE = Loop("apply_bpe.start_line", 9.0), Loop("unit_table.rebuild", 5.0)
compiles = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run")


def total(loops: list[Loop]) -> float:
    """Seconds that these loops compile one after the other."""
    return sum(loop.seconds for loop in loops)


@given(st.lists(st.floats(0, 10), max_size=9))
def test_halves_hold_every_loop_and_never_take_longer(seconds: list[float]) -> None:
    """Nothing is left out or done twice, and a second process is started only where it saves time."""
    loops = [Loop(f"loop.{number}", one) for number, one in enumerate(seconds)]
    here, there = halves(loops)
    assert sorted([*here, *there]) == loops
    assert max(total(here), bool(there) * (START + total(there))) <= total(loops) + 1e-9


@compiles
def test_the_second_process_leaves_its_half_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code is where other processes look for it, whatever folder they run in, and no module there is taken."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "loops"))
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    (tmp_path / "numba.py").write_text("raise SystemExit('a module of the folder was taken')")
    monkeypatch.chdir(tmp_path)
    with helping([HERE, THERE]) as left:
        assert left == [HERE]
    assert [path.name.split("-")[0] for path in tmp_path.rglob("*.nbi")] == ["unit_table.rebuild"]


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false"])
def test_without_a_second_process_all_goes_on(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not start, or ends at once, is no error."""
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    monkeypatch.setattr(sys, "executable", python)
    with helping([HERE, THERE]) as left:
        assert left == [HERE]


def test_an_error_does_not_wait_for_the_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while loops are compiled leaves no process behind."""
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    monkeypatch.setattr(warmup, "_SECOND_PROCESS", "import sys; sys.stdin.close(); import time; time.sleep(600)")
    process = warmup._started([THERE])
    assert process is not None
    assert process.poll() is None
    monkeypatch.setattr(warmup, "_started", lambda loops: process)
    with pytest.raises(KeyboardInterrupt), helping([HERE, THERE]):
        raise KeyboardInterrupt
    assert process.returncode is not None
