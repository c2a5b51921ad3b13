"""`volt warmup` compiles the loops of batches for all the types that they are called with."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import numpy as np
import pytest

from volt.batches import SampleFormat, collate, collate_packed, pack, token_batches
from volt.kernels.warmup import JOBS, compile_kernels, kernel
from volt.stream import Batch, Source, Stream
from volt.stream.transforms.subwords import Encode
from volt.vocabulary import Vocabulary


def test_batching_compiles_nothing_after_warmup(monkeypatch):
    """`token_batches` and `pack` call the loops of their job, for lengths of any type, with the
    types that are compiled: others raise TypeError."""
    seen = set()

    def watched(place, loop):
        def call(*arguments):
            seen.add(place)
            return loop(*arguments)

        return call

    for place in JOBS["batches"]:
        module, name = place.split(".")
        loops = import_module(f"volt.kernels.{module}")
        monkeypatch.setattr(loops, name, watched(place, kernel(place)))
    frozen = np.arange(1, 60)
    frozen.flags.writeable = False
    pairs = np.stack([frozen, frozen], axis=1)
    for lengths in (frozen, frozen[::3], frozen.astype(np.uint8).tolist(), pairs):
        for options in ({}, {"noise": 0.1}, {"shuffle": False}):
            token_batches(lengths, max_tokens=70, world=2, **options)
    for shuffle in (True, False):
        pack(frozen, 20, on_long="split", shuffle=shuffle)
        pack(frozen[::3], 60, shuffle=shuffle)
    assert seen == {*JOBS["batches"]}


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_samples_compile_nothing_after_warmup(tmp_path, monkeypatch):
    """Text, pieces, ids in text, columns of ids, pairs and packs compile nothing after the
    warm-up."""
    vocabulary = Vocabulary((), ("l", "o"))
    vocabulary.save(tmp_path / "v.volt")
    (tmp_path / "a.tsv").write_text("lo\tol\n" * 20)
    to_ids = Encode(tmp_path / "v.volt", to="ids")
    sources = [Source(name, (str(tmp_path / "a.tsv"),), transforms=(to_ids,)) for name in "ab"]
    compile_kernels(*JOBS)
    monkeypatch.setitem(sys.modules, "volt.kernels.compiling", None)  # an import fails
    format = SampleFormat({"src": vocabulary, "tgt": vocabulary})
    with Stream(sources) as stream:
        samples = [format.samples(batch) for batch in stream.batches(limit=30)]
    batch = Batch.of(["4 5\t5", "4\t4"])
    for holds in ("text", "pieces", "ids"):
        samples.append(SampleFormat(format.vocabularies, holds=holds).samples(batch))
    text = SampleFormat({"text": vocabulary}).samples(batch)
    for dtype in (np.int64, np.int32):
        for one in samples:
            collate(one, [0], pad=3, eos=2, dtype=dtype)
        collate_packed(text, [np.arange(2)], length=99, pad=3, eos=2, dtype=dtype)
