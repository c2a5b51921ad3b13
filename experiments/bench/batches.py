"""How much of what a trainer computes is padding: VOLT beside fairseq's algorithm and a max-token sampler.

    python experiments/bench/batches.py [--size 8000] [--max-tokens 1024 4096 16384] [--json batches.json]

Lengths are those of the training sides of Multi30k (German and English) and of TED's Finnish, in tokens of a vocabulary
that is learned of each, with an end of sentence. VOLT_DATA names the folder. The peers are the plain programs of
tests/batching.py, which are written from descriptions and made to be obvious, so their seconds are no measure of
fairseq's, whose loop is compiled; batches and padding are what it would make. A row of packs is told for each length.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure import describe, machine, markdown_table, write_json
from numpy.typing import NDArray

import volt
from volt.batches import pack, padding_share, token_batches
from volt.choose.vocabulary_at import vocabulary_at

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from batching import fairseq_batches, sampler_batches, share_of_padding

CORPORA = {
    "Multi30k de–en": ("multi30k/train.de.gz", "multi30k/train.en.gz"),
    "TED fi": ("ted/Finnish.txt.gz",),
}
PACKED = (512, 2048, 8192)
ROUNDS = 5
HEADER = ["corpus", "max_tokens", "batches by", "batches", "padding %", "seconds"]
Lengths = NDArray[np.int64]


def main() -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8000, help="of the vocabularies")
    parser.add_argument("--max-tokens", type=int, nargs="+", default=[1024, 4096, 16384])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    facts, batches, packs = machine("numpy", "numba"), list[list[str]](), list[list[str]]()
    for name, paths in CORPORA.items():
        lengths = read_lengths(paths, options.size)
        for max_tokens in options.max_tokens:
            batches += [[name, f"{max_tokens:,}", *row] for row in batched(lengths, max_tokens)]
        packs += [[name, *row] for row in packed(lengths.sum(axis=1))]
    print(describe(facts))
    print(markdown_table(HEADER, batches, n_text=3))
    print(markdown_table(["corpus", "pack", "packs", "padding %", "seconds"], packs))
    if options.json:
        write_json(options.json, {"machine": facts, "batches": batches, "packs": packs})


def read_lengths(paths: Sequence[str], size: int) -> Lengths:
    """(n, n_sides) tokens of each line, with an end of sentence."""
    files = [Path(os.environ["VOLT_DATA"], path) for path in paths]
    candidates = volt.learn_bpe(volt.count_words(files), n_merges=size)
    encoder = volt.Encoder(vocabulary_at(candidates, size))
    texts = [gzip.decompress(file.read_bytes()).decode().split("\n")[:-1] for file in files]
    return np.stack([np.diff(encoder.encode_batch(lines).offsets) + 1 for lines in texts], axis=1)


def batched(lengths: Lengths, max_tokens: int) -> Iterator[list[str]]:
    """Each way to make batches: how many, their padding, the seconds of the best of some rounds."""
    rows = [tuple(row) for row in lengths.tolist()]
    for name, make in {"fairseq's algorithm": fairseq_batches, "the sampler": sampler_batches}.items():
        found, seconds = timed(lambda make=make: make(rows, max_tokens), rounds=1)
        yield [name, f"{len(found):,}", f"{share_of_padding(found, rows):.2%}"[:-1], f"{seconds:.3f}"]
    ways: dict[str, dict[str, Any]] = {
        "VOLT": {},
        "VOLT, noise 0.1": {"noise": 0.1},
        "VOLT, any number of rows": {"multiple": 1},
        "VOLT, 8 ranks": {"world": 8},
    }
    for name, given in ways.items():
        ours, seconds = timed(lambda given=given: token_batches(lengths, max_tokens=max_tokens, **given))
        yield [name, f"{len(ours):,}", f"{padding_share(ours, lengths):.2%}"[:-1], f"{seconds:.3f}"]


def packed(lengths: Lengths) -> Iterator[list[str]]:
    """Rows packed into each length."""
    for size in PACKED:
        packs, seconds = timed(lambda size=size: pack(lengths, size))
        yield [f"{size:,}", f"{len(packs):,}", f"{packs.padding_share:.3%}"[:-1], f"{seconds:.3f}"]


def timed(call: Callable[[], Any], rounds: int = ROUNDS) -> tuple[Any, float]:
    """What a call returns, and the seconds of the fastest."""
    best, found = float("inf"), None
    for _ in range(rounds):
        start = time.perf_counter()
        found = call()
        best = min(best, time.perf_counter() - start)
    return found, best


if __name__ == "__main__":
    main()
