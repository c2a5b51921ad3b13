"""Compiling in two processes: the second takes the last loops, and nothing depends on it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from numba import types

from volt.kernels import warmup
from volt.kernels.arrays import ByteArray, IntArray, Words
from volt.kernels.warmup import JOBS, helping

FIRST, LAST = "apply_bpe.start_line", "unit_table.rebuild"
compiles = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)


@compiles
def test_the_second_process_stores_loops_from_the_last_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code is where other processes look for it, whatever folder they run in, and no module there is taken."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "loops"))
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    (tmp_path / "numba.py").write_text("raise SystemExit('a module of the folder was taken')")
    monkeypatch.chdir(tmp_path)
    stored = list[str]()
    with helping(["nowhere.no", FIRST, LAST]):
        end = time.monotonic() + 60
        while len(stored) < 2 and time.monotonic() < end:
            time.sleep(0.05)
            files = sorted(tmp_path.rglob("*.nbi"), key=lambda path: path.stat().st_mtime_ns)
            stored = [path.name.split("-")[0] for path in files]
    assert stored == [LAST, FIRST]


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false"])
def test_without_a_second_process_all_goes_on(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not start, or ends at once, is no error."""
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    monkeypatch.setattr(sys, "executable", python)
    with helping([FIRST, LAST]):
        pass


def test_an_error_does_not_wait_for_the_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while loops are compiled leaves no process behind."""
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    monkeypatch.setattr(
        warmup, "_SECOND_PROCESS", "import sys; sys.stdin.close(); import time; time.sleep(600)"
    )
    process = warmup._started([LAST])
    assert process is not None
    assert process.poll() is None
    monkeypatch.setattr(warmup, "_started", lambda places: process)
    with pytest.raises(KeyboardInterrupt), helping([FIRST, LAST]):
        raise KeyboardInterrupt
    assert process.returncode is not None


def test_a_second_process_needs_a_core_and_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores, an interpreter, and a folder for compiled code; a frozen program has none of its own."""
    usual: dict[str, Any] = {"cores": {0, 1}, "folder": "place", "python": "python"}
    for change, expected in (
        ({}, True),
        ({"cores": {3}}, False),
        ({"folder": None}, False),
        ({"python": ""}, False),
    ):
        case = usual | change
        monkeypatch.setattr(
            os,
            "sched_getaffinity",
            lambda process, case=case: case["cores"] if process == 0 else {},
        )
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
    """It imports from the same folders but for the current one, is silent, and ends with the block."""
    calls = list[Any]()

    def popen(command: list[str], **options: Any) -> SimpleNamespace:
        calls.append((command[1:], options))
        return SimpleNamespace(wait=lambda: calls.append("wait"), kill=lambda: calls.append("kill"))

    monkeypatch.setattr(warmup.subprocess, "Popen", popen)
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    monkeypatch.setattr(sys, "path", ["one", "", "two"])
    with helping([LAST]):
        pass
    assert calls == []
    with helping([FIRST, LAST]):
        pass
    (command, options), *rest = calls
    assert command == ["-P", "-c", warmup._SECOND_PROCESS, LAST, FIRST]
    assert options.pop("env") == {**os.environ, "PYTHONPATH": f"one{os.pathsep}two"}
    assert options == dict.fromkeys(["stdin", "stdout", "stderr"], warmup.subprocess.DEVNULL)
    assert rest == ["kill", "wait"]
    calls.clear()
    monkeypatch.setattr(warmup, "_can_help", lambda: False)
    with helping([FIRST, LAST]):
        pass
    assert calls == []


def test_each_loop_is_compiled_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that several jobs share count once; missing ones are neither compiled nor on disk."""
    places, fill = list[str](), "bpe_tables.fill"
    monkeypatch.setattr(warmup, "compile_loop", places.append)
    warmup.compile_kernels("replay", "words")
    assert places == [*JOBS["replay"], *JOBS["words"][1:]]
    kernels = {fill: [], "apply_bpe.trace_each": [()]}
    monkeypatch.setattr(warmup, "kernel", lambda place: SimpleNamespace(signatures=kernels[place]))
    monkeypatch.setattr(warmup, "is_on_disk", lambda kernel: False)
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", 0)
    assert warmup.missing("replay") == [fill]
    monkeypatch.setattr(warmup, "is_on_disk", lambda kernel: True)
    assert warmup.missing("replay") == []
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", 1)
    monkeypatch.setattr(warmup, "is_on_disk", lambda kernel: False)
    assert warmup.missing("replay") == []


def test_annotations_become_types_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each signature takes the next of several types; a named tuple is a tuple of its fields' types."""

    def kernel(
        number: int, ids: IntArray | ByteArray, words: Words, share: float, is_last: bool
    ) -> int:
        return 0

    monkeypatch.setattr("volt.kernels.columns.shuffle", SimpleNamespace(py_func=kernel))
    found = warmup.signatures("columns.shuffle")
    ints, words = types.int32[::1], found[0][2]
    assert [one[:2] + one[3:] for one in found] == [
        (types.int64, kind, types.float64, types.boolean) for kind in (ints, types.uint8[::1])
    ]
    assert (words.instance_class, list(words)) == (
        Words,
        [ints, types.int64[::1], types.int64[::1]],
    )
    assert found[1][2] == words
