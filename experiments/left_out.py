"""How many merges rare words change: what is proven without them, and what learning from all words says.

    python experiments/left_out.py train.en.gz --tables lt.txt.gz --min-counts 2 3 5 10

For each file, text or a table of words and their counts, and each min_count: the share of all words that is left out,
how many merges are learned, how many of the first are proven to be those of all words, how many of the first are, and
which share of as many merges of all words is not among them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import volt

N_MERGES = 30_000
HEADS = ("file", "min_count", "left out, %", "merges", "proven", "the same", "others, %", "learn, s", "prove, s")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--tables", nargs="*", default=[], metavar="FILE", help="words and their counts")
    parser.add_argument("--min-counts", nargs="+", type=int, default=[2, 3, 5, 10])
    given = parser.parse_args()
    print("| " + " | ".join(HEADS) + " |\n|" + " --- |" * len(HEADS))
    for path in (*given.files, *given.tables):
        counts = volt.count_words(path, word_counts=path in given.tables)
        for row in rows(counts, given.min_counts):
            print(f"| {Path(path).name} | " + " | ".join(row) + " |", flush=True)


def rows(counts: volt.WordCounts, min_counts: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """The cells of each min_count."""
    merges = volt.learn_bpe(counts, N_MERGES).merges
    for least in min_counts:
        kept = counts.min_count(least)
        started = time.perf_counter()
        candidates = volt.learn_bpe(kept, N_MERGES)
        learned = time.perf_counter()
        n_certain = volt.certain_merges(candidates)
        proven = time.perf_counter()
        n, share = min(len(merges), candidates.n_merges), 100 * kept.n_left_out / counts.total
        others = 100 * (1 - len({*merges[:n]} & {*candidates.merges[:n]}) / max(1, n))
        numbers = f"{candidates.n_merges:,}", f"{n_certain}", f"{n_same(merges, candidates.merges):,}", f"{others:.1f}"
        yield f"{least}", f"{share:.2f}", *numbers, f"{learned - started:.2f}", f"{proven - learned:.2f}"


def n_same(some: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]]) -> int:
    """How many merges are the same before the first that is not.

    >>> n_same([("a", "b"), ("c", "d")], [("a", "b"), ("d", "c")])
    1
    """
    pairs = enumerate(zip(some, others, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(some), len(others)))


if __name__ == "__main__":
    main()
