"""Compiling in two processes: every loop is compiled once, and nothing depends on the second process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from golden import check
from hypothesis import given
from hypothesis import strategies as st
from numba import types

from volt.kernels import warmup
from volt.kernels.arrays import ByteArray, IntArray, Words
from volt.kernels.warmup import JOBS, START, Loop, halves, helping, seconds_for

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


def test_loops_are_divided_so_that_both_ends_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest loop comes first; a second process starts where that is sooner, not where it is as soon."""
    for seconds, first, second, total, alone in (
        ([5, 9, 3], [9], [5, 3], 9, 17), ([3, 6, 9], [9], [6, 3], 10, 18), ([0.5, 1], [1, 0.5], [], 2, 2),
        ([9], [9], [], 9, 9), ([], [], [], 0, 0),
    ):  # fmt: skip
        loops = [Loop("", one) for one in seconds]
        assert [[loop.seconds for loop in half] for half in halves(loops)] == [first, second]
        for can_help, expected in ((True, total), (False, alone)):
            monkeypatch.setattr(warmup, "_can_help", lambda can_help=can_help: can_help)
            assert seconds_for(loops) == expected
    with helping([HERE, THERE]) as left:
        assert left == [HERE, THERE]
    check(
        "kernels seconds of jobs", {job: round(sum(loop.seconds for loop in loops), 1) for job, loops in JOBS.items()}
    )


def test_a_second_process_needs_a_core_and_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores, an interpreter, and a folder for compiled code; a frozen program has none of its own."""
    usual: dict[str, Any] = {"cores": {0, 1}, "folder": "place", "python": "python"}
    for change, expected in (({}, True), ({"cores": {3}}, False), ({"folder": None}, False), ({"python": ""}, False)):
        case = usual | change
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, case=case: case["cores"] if process == 0 else {})
        monkeypatch.setattr(warmup, "code_folder", lambda case=case: case["folder"])
        monkeypatch.setattr(sys, "executable", case["python"])
        assert warmup._can_help() is expected
    monkeypatch.setattr(sys, "executable", "python")
    monkeypatch.delattr(os, "sched_getaffinity")
    for n, expected in ((2, True), (1, False), (None, False)):
        monkeypatch.setattr(os, "cpu_count", lambda n=n: n)
        monkeypatch.setattr(warmup, "code_folder", lambda: "")
        assert warmup._can_help() is expected
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not warmup._can_help()


def test_the_second_process_is_called_with_its_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports from the same folders but for the current one, and is silent; it is waited for, or killed."""
    calls = list[Any]()

    def popen(command: list[str], **options: Any) -> SimpleNamespace:
        calls.append((command[1:], options))
        process = SimpleNamespace(poll=lambda: None if len(calls) == 1 else 0)
        process.wait, process.kill = lambda: calls.append("wait"), lambda: calls.append("kill")
        return process

    monkeypatch.setattr(warmup.subprocess, "Popen", popen)
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    monkeypatch.setattr(sys, "path", ["one", "", "two"])
    with helping([HERE, THERE]):
        pass
    (command, options), *rest = calls
    assert command == ["-P", "-c", warmup._SECOND_PROCESS, THERE.place]
    assert options.pop("env") == {**os.environ, "PYTHONPATH": f"one{os.pathsep}two"}
    assert options == dict.fromkeys(["stdin", "stdout", "stderr"], warmup.subprocess.DEVNULL)
    assert rest == ["wait"]
    calls.clear()
    with pytest.raises(KeyError), helping([HERE, THERE]):
        raise KeyError
    assert calls[1:] == ["kill", "wait"]


def test_each_loop_is_compiled_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that several jobs share count once; places that are not loops are skipped; missing ones are in no place."""
    places, fill = list[str](), "bpe_tables.fill"
    monkeypatch.setattr(warmup, "compile_loop", places.append)
    warmup.compile_kernels("replay", "words")
    assert places == [loop.place for loop in (*JOBS["replay"], *JOBS["words"][1:])]
    places.clear()
    warmup.compile_places(["columns.draw", "nowhere.no", fill, "columns.draw"])
    assert places == [fill, "columns.draw"]
    kernels = {fill: [], "apply_bpe.trace_each": [()]}
    monkeypatch.setattr(Loop, "kernel", property(lambda loop: SimpleNamespace(signatures=kernels[loop.place])))
    monkeypatch.setattr(warmup, "is_on_disk", lambda kernel: False)
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", 0)
    assert [loop.place for loop in warmup.missing("replay")] == [fill]
    monkeypatch.setattr(warmup, "is_on_disk", lambda kernel: True)
    assert warmup.missing("replay") == []
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", 1)
    monkeypatch.setattr(warmup, "is_on_disk", lambda kernel: False)
    assert warmup.missing("replay") == []


def test_annotations_become_types_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each signature takes the next of several types; a named tuple is a tuple of its fields' types."""

    def kernel(number: int, ids: IntArray | ByteArray, words: Words, share: float, is_last: bool) -> int:
        return 0

    monkeypatch.setattr("volt.kernels.columns.shuffle", SimpleNamespace(py_func=kernel))
    found = warmup.signatures("columns.shuffle")
    ints, words = types.int32[::1], found[0][2]
    assert [one[:2] + one[3:] for one in found] == [
        (types.int64, kind, types.float64, types.boolean) for kind in (ints, types.uint8[::1])
    ]
    assert (words.instance_class, list(words)) == (Words, [ints, types.int64[::1], types.int64[::1]])
    assert found[1][2] == words
