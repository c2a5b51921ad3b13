"""Check how the cost of a search grows with its corpus, and how many words a sample predicts.

    python -m experiments.scale CORPUS [--base 2_500_000] [--growth 10 100] [--level bytes]

`volt search` runs as a whole process on the first bytes of a plain text, base × growth of them. Heaps' law V(n) = k ·
n^β (H. S. Heaps, 1978; n in bytes), fitted by least squares of log V on log n to parts of the smallest size, predicts
the distinct words of the larger ones. The exponent of CPU seconds from one size to the next is 1 where growth is
linear.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log
from pathlib import Path

import numpy as np

import volt
from experiments.bench.measure import Run, describe, machine, markdown_table, run

PARTS = (8, 4, 2, 1)  # of the smallest size
LEVELS = {"characters": "whitespace", "bytes": "bytes"}


def cut(source: Path, target: Path, n_bytes: int) -> int:
    """Write the first whole lines of a file, as many as fit into n_bytes; return their bytes."""
    with source.open("rb") as file:
        block = file.read(n_bytes)
    if len(block) < n_bytes:
        raise SystemExit(
            f"{source}: {len(block):,} bytes are fewer than {n_bytes:,}; give a longer text"
        )
    return target.write_bytes(block[: block.rfind(b"\n") + 1])


def searched(source: Path, folder: Path, n_bytes: int, level: str) -> tuple[int, int, Run]:
    """Search the first bytes of a corpus: bytes of whole lines, distinct words, and the run."""
    path = folder / "corpus.txt"
    length = cut(source, path, n_bytes)
    command = [
        sys.executable,
        "-m",
        "volt_cli",
        "search",
        str(path),
        "--level",
        level,
        "-q",
        "--force",
    ]
    done = run([*command, "-o", str(folder / "corpus.volt")])
    if done.error:
        raise SystemExit(f"the search of the first {n_bytes:,} bytes failed: {done.error}")
    return length, volt.count_words(path, pretokenizer=LEVELS[level]).n_words, done


def rows(source: Path, folder: Path, sizes: Sequence[int], level: str) -> Iterator[list[str]]:
    """Measure all sizes, and compare the words with the prediction of the first."""
    parts = [cut(source, folder / f"{part}.txt", sizes[0] // part) for part in PARTS]
    words = [
        volt.count_words(folder / f"{part}.txt", pretokenizer=LEVELS[level]).n_words
        for part in PARTS
    ]
    beta, log_k = np.polyfit(np.log(parts), np.log(words), 1)  # Heaps' law
    measured = [searched(source, folder, n_bytes, level) for n_bytes in sizes]
    steps = [(None, measured[0]), *pairwise(measured)]
    for before, (n_bytes, n_words, done) in steps:
        exponent = log(done.cpu / before[2].cpu) / log(n_bytes / before[0]) if before else None
        figures = [
            f"{n_bytes / 1e6:,.1f}",
            f"{n_words:,}",
            f"{np.exp(log_k) * n_bytes**beta:,.0f}",
            f"{done.cpu:.1f}",
        ]
        yield [
            *figures,
            f"{done.wall:.1f}",
            f"{done.peak:,.0f}",
            "–" if exponent is None else f"{exponent:.3f}",
        ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="plain text")
    parser.add_argument(
        "--base",
        type=int,
        default=2_500_000,
        help="bytes of the smallest size (default 2.5 million)",
    )
    parser.add_argument(
        "--growth", type=int, nargs="+", default=[10, 100], help="times the smallest size"
    )
    parser.add_argument("--level", choices=LEVELS, default="characters")
    given = parser.parse_args()
    sizes = [given.base * times for times in sorted({1, *given.growth})]
    header = [
        "MB",
        "distinct words",
        "predicted",
        "CPU s",
        "wall s",
        "peak MB",
        "exponent of CPU s",
    ]
    with tempfile.TemporaryDirectory() as folder:
        table = markdown_table(
            header, rows(given.corpus, Path(folder), sizes, given.level), n_text=0
        )
    print(describe(machine("volt-vocab", "polars", "numba")), table, sep="\n\n")


if __name__ == "__main__":
    main()
