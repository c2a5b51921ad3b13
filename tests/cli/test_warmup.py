"""`volt warmup` leaves nothing to compile, and says where the code lies or why it cannot be kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import Run

from volt.kernels import caching
from volt.kernels.ready import JOBS, missing

compiles = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run")


def misses() -> int:
    """How often a loop has been compiled, not loaded, in this process."""
    loops = {loop for loops in JOBS.values() for loop in loops}
    return sum(sum(loop.kernel.stats.cache_misses.values()) for loop in loops)


@compiles
def test_after_warmup_no_command_compiles(run: Run) -> None:
    """All loops are there, for the types that commands give them, and a second warmup says so."""
    run("warmup")
    assert "was compiled already: " in run("warmup").stderr.decode()
    assert not missing(*JOBS)
    before = misses()
    said = run("search", "corpus.txt", "-o", "c.volt", "--candidates", "10").stderr
    said += run("export", "-m", "c.volt", "--to", "subword-nmt", "-o", "c.codes").stderr
    said += run("search", "corpus.txt", "-o", "again.volt", "--candidates", "c.codes").stderr
    (parity := Path("p.txt")).write_text("the low hat\n")
    said += run("search", "a=corpus.txt", f"b={parity}", "--parity", "-o", "p.volt").stderr
    for form in ("ids", "pieces"):
        said += run("encode", "-m", "c.volt", "corpus.txt", "--form", form, "-o", form).stderr
        said += run("encode", "-m", "c.volt", "corpus.txt", "--form", form, "--dropout", "0.1", "--seed", "1").stderr
    said += run("decode", "-m", "c.volt", "--form", "ids", "ids").stderr
    assert b"compiling" not in said
    assert misses() == before


def test_warmup_fails_where_nothing_can_be_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is 1, and the message names the setting that helps."""
    monkeypatch.setattr(caching, "_keeping", lambda: caching.Keeping(False))
    assert b"NUMBA_CACHE_DIR" in run("warmup", status=1).stderr
