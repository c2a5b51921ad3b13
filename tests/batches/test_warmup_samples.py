"""The loops of batches are compiled by `volt warmup` for all the types that they are called with."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from volt.batches import SampleFormat, collate, collate_packed
from volt.kernels.warmup import JOBS, compile_kernels, kernel
from volt.stream import Batch, Source, Stream
from volt.stream.transforms.subwords import Encode
from volt.vocabulary import Vocabulary


@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)
def test_after_warmup_no_sample_compiles(tmp_path: Path) -> None:
    """Text, pieces, ids in text and columns of ids, mixed or not, pairs and packs, in both types."""
    vocabulary = Vocabulary((), ("l", "o"))
    vocabulary.save(tmp_path / "v.volt")
    sources = []
    for name in "ab":
        (path := tmp_path / f"{name}.tsv").write_text("lo\tol\n" * 20)
        sources.append(
            Source(name, (str(path),), transforms=(Encode(tmp_path / "v.volt", to="ids"),))
        )
    compile_kernels("samples")
    before = {place: list(kernel(place).signatures) for place in JOBS["samples"]}
    format = SampleFormat({"src": vocabulary, "tgt": vocabulary})
    with Stream(sources) as stream:
        found = [format.samples(batch) for batch in stream.batches(limit=30)]
    batch = Batch.of(["4 5\t5", "4\t4"])
    found += [
        SampleFormat(format.vocabularies, holds=holds).samples(batch)
        for holds in ("text", "pieces", "ids")
    ]
    text = SampleFormat({"text": vocabulary}).samples(batch)
    for dtype in (np.int64, np.int32):
        for samples in found:
            collate(samples, [0], pad=3, eos=2, dtype=dtype)
        collate_packed(text, [np.arange(2)], length=99, pad=3, eos=2, dtype=dtype)
    assert {place: list(kernel(place).signatures) for place in JOBS["samples"]} == before
