"""Loops are compiled ahead of time, in two processes, for the signatures that real calls use, and for no others."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from volt.kernels import warmup
from volt.kernels.arrays import ByteArray, IntArray, Words
from volt.kernels.jit import CompiledLoop, leaves
from volt.kernels.warmup import JOBS, compile_kernels, helping, kernel

compiles = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)
FIRST, LAST = "apply_bpe.start_lines", "unit_table.rebuild"
WORK = """
import sys
from itertools import islice
import volt
from volt.kernels.warmup import JOBS, compile_kernels
from volt.stream import Stream
from volt.stream.example_streams import write_recipe

compile_kernels(*JOBS)
assert "numba" not in sys.modules

with open("text.txt", "w") as file:
    file.write("the lower hat\\n" * 50)
for pretokenizer in ("whitespace", "bytes", "gpt2"):
    counts = volt.count_words(["text.txt"], pretokenizer=pretokenizer)
    vocabulary = volt.search(volt.learn_bpe(counts, n_merges=9)).vocabulary
    encoder = volt.Encoder(vocabulary)
    for options in ({}, {"dropout": 0.5, "seed": 1}):
        ids = encoder.encode_batch(["the hat", "lower"], **options)
        assert list(encoder.decode_batch(ids)) == ["the hat", "lower"]
        encoder.encode_text(b"the hat\\n", **options)
write_recipe("batches", "training")
with Stream.from_config("training/stream.yaml") as stream:
    assert len(list(islice(stream, 50))) == 50
    list(islice(stream.batches(limit=30), 3))
volt.batches.token_batches([3, 5, 2], max_tokens=9)
volt.batches.pack([3, 5, 2], 9)
assert "numba" not in sys.modules
"""


@compiles
def test_annotations_of_loops_are_exact():
    """All loops of JOBS are annotated with numbers, arrays, or named tuples of these; there is one
    signature for each loop, and two for two loops."""
    for place in {place for places in JOBS.values() for place in places}:
        signatures = kernel(place).signatures()
        assert len(signatures) == 1 + (place in ("decode.expand", "batching.lay_out"))
        for name, kind in signatures[0].arguments.items():
            assert [*leaves(kind, name)]


@compiles
def test_after_warmup_nothing_is_compiled(tmp_path):
    """If all loops are on disk, a process that searches, encodes, decodes, streams and builds
    batches does not import numba."""
    compile_kernels(*JOBS)
    done = subprocess.run(
        [sys.executable, "-c", WORK], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]


@compiles
def test_the_second_process_stores_loops_from_the_last_on(tmp_path, monkeypatch):
    """The second process of `helping` stores loops from the last to the first in the folder of
    other processes, and imports no module from the current folder."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "loops"))
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    (tmp_path / "numba.py").write_text("raise SystemExit('a module of the folder was taken')")
    monkeypatch.chdir(tmp_path)
    stored = list[str]()
    with helping(["nowhere.no", FIRST, LAST]):
        end = time.monotonic() + 60
        while len(stored) < 2 and time.monotonic() < end:
            time.sleep(0.05)
            files = sorted(tmp_path.rglob("*.code"), key=lambda path: path.stat().st_mtime_ns)
            stored = [path.name.rpartition("-")[0] for path in files]
    assert stored == [LAST, FIRST]


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false"])
def test_a_second_process_that_fails_is_ignored(python, monkeypatch):
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    monkeypatch.setattr(sys, "executable", python)
    with helping([FIRST, LAST]):
        pass


def test_an_error_ends_the_second_process(monkeypatch):
    """If Ctrl-C interrupts compiling, `helping` ends the second process without waiting for it."""
    script = "import sys; sys.stdin.close(); import time; time.sleep(600)"
    monkeypatch.setattr(warmup, "_SECOND_PROCESS", script)
    process = warmup._start_process([LAST])
    assert process is not None
    assert process.poll() is None
    monkeypatch.setattr(warmup, "_can_help", lambda: True)
    monkeypatch.setattr(warmup, "_start_process", lambda places: process)
    with pytest.raises(KeyboardInterrupt), helping([FIRST, LAST]):
        raise KeyboardInterrupt
    assert process.returncode is not None


@pytest.mark.parametrize(
    ("cores", "folder", "python", "can_help"),
    [
        ({0, 1}, "", "python", True),
        ({3}, "", "python", False),
        ({0, 1}, None, "python", False),
        ({0, 1}, "", "", False),
    ],
)
def test_a_second_process_needs_a_core_a_folder_and_an_interpreter(
    cores,
    folder,
    python,
    can_help,
    monkeypatch,
):
    """`helping` starts a second process only with a second core, a folder for code, and an
    interpreter; a frozen program is not an interpreter."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores)
    monkeypatch.setattr(warmup, "code_folder", lambda: folder)
    monkeypatch.setattr(sys, "executable", python)
    assert warmup._can_help() is can_help
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not warmup._can_help()
    monkeypatch.setattr(warmup, "_start_process", pytest.fail)
    with helping([FIRST, LAST]):
        pass


def test_missing_loops_are_neither_compiled_nor_on_disk(monkeypatch):
    """`missing` lists the loops of jobs that are neither compiled nor on disk, and no loop if
    compiling is off. Loops that several jobs share are compiled once."""
    places = list[str]()
    monkeypatch.setattr(warmup, "compile_loop", places.append)
    warmup.compile_kernels("replay", "words")
    assert places == [*JOBS["replay"], *JOBS["words"][1:]]
    loops = {name: CompiledLoop(lambda: None) for name in JOBS["replay"]}
    loops["trace.trace_each"]._run = print
    monkeypatch.setattr(warmup, "kernel", loops.get)
    for on_disk, missing in ((False, ["bpe_tables.fill"]), (True, [])):
        monkeypatch.setattr(CompiledLoop, "is_on_disk", lambda loop, on_disk=on_disk: on_disk)
        assert warmup.missing("replay") == missing
    monkeypatch.setattr(warmup, "kernel", lambda name: print)
    assert warmup.missing("replay") == []


def test_signatures_take_the_next_type_of_each_union():
    """Signature i has the i-th type of each union, and all else; a tuple's fields are its words."""

    def function(
        number: int, ids: IntArray | ByteArray, words: Words, out: ByteArray | IntArray
    ) -> int:
        return 0

    first, second = CompiledLoop(function).signatures()
    assert [*first.arguments.values()] == [int, IntArray, Words, ByteArray]
    assert [*second.arguments.values()] == [int, ByteArray, Words, IntArray]
    fields = ("symbols", "ends", "counts")
    assert [name for name, _ in leaves(Words, "words")] == [f"words.{name}" for name in fields]
