"""Loops are compiled ahead of time, in two processes, for the signatures that real calls use, and for no others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from numba import types

from volt.kernels import warmup
from volt.kernels.arrays import ByteArray, IntArray, Words
from volt.kernels.warmup import JOBS, helping, signatures

compiles = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)
FIRST, LAST = "apply_bpe.start_line", "unit_table.rebuild"
WORK = """
from itertools import islice
import volt
from volt.kernels.warmup import JOBS, compile_kernels, kernel
from volt.stream import Stream
from volt.stream.example_streams import write_recipe

compile_kernels(*JOBS)
kernels = {place: kernel(place) for places in JOBS.values() for place in places}
ready = {place: list(kernel.signatures) for place, kernel in kernels.items()}

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
assert ready == {place: list(kernel.signatures) for place, kernel in kernels.items()}
"""


@compiles
def test_annotations_of_loops_are_exact():
    """All loops of JOBS are annotated with types of numba, or named tuples of such types;
    `signatures` returns one signature for each loop, and two for two loops."""
    for place in {place for places in JOBS.values() for place in places}:
        assert len(signatures(place)) == 1 + (place in ("decode.expand", "batching.lay_out"))


@compiles
def test_after_warmup_nothing_is_compiled(tmp_path):
    """After `compile_kernels`, a process that searches, encodes, decodes, streams and builds
    batches adds no signature to any loop."""
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
            files = sorted(tmp_path.rglob("*.nbi"), key=lambda path: path.stat().st_mtime_ns)
            stored = [path.name.split("-")[0] for path in files]
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
    compiled = {"bpe_tables.fill": [], "trace.trace_each": [()]}
    monkeypatch.setattr(warmup, "kernel", lambda place: SimpleNamespace(signatures=compiled[place]))
    for is_off, on_disk, missing in (
        (0, False, ["bpe_tables.fill"]),
        (0, True, []),
        (1, False, []),
    ):
        monkeypatch.setattr(warmup, "is_on_disk", lambda kernel, on_disk=on_disk: on_disk)
        monkeypatch.setattr("numba.core.config.DISABLE_JIT", is_off)
        assert warmup.missing("replay") == missing


def test_signatures_turns_annotations_into_types_of_numba(monkeypatch):
    """Each signature takes the next type of a union; a named tuple becomes a tuple of the types of
    its fields."""

    def kernel(
        number: int, ids: IntArray | ByteArray, words: Words, share: float, is_last: bool
    ) -> int:
        return 0

    monkeypatch.setattr("volt.kernels.columns.shuffle", SimpleNamespace(py_func=kernel))
    ints, longs = types.int32[::1], types.int64[::1]
    for signature, kind in zip(
        signatures("columns.shuffle"), (ints, types.uint8[::1]), strict=True
    ):
        number, ids, words, share, is_last = signature
        assert (number, ids, share, is_last) == (types.int64, kind, types.float64, types.boolean)
        assert (words.instance_class, list(words)) == (Words, [ints, longs, longs])
