"""Loops are compiled ahead for the signatures that real calls use, and for no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from volt.kernels.warmup import JOBS, signatures

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


@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)
def test_annotations_of_loops_are_exact() -> None:
    """Each loop of a job is annotated with types of numba, or named tuples of such; it has one signature or two."""
    for place in {place for places in JOBS.values() for place in places}:
        assert len(signatures(place)) == 1 + (place == "batching.lay_out")


@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)
def test_after_warmup_nothing_is_compiled(tmp_path: Path) -> None:
    """In a new process, searching, encoding, decoding, streams and batches add no signature to any loop."""
    done = subprocess.run(
        [sys.executable, "-c", WORK], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
