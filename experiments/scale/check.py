"""`volt search` on a corpus that grows, as whole processes, beside what the smallest size foretold.

Everything that is foretold comes from the smallest size n₀: a run of the command on it, and a sample of its parts.

    words(n)     V(n), by Heaps' law of parts of n₀, with its interval
    seconds(n)   cpu(n₀) + r · (n - n₀) + λ · (V(n) - V(n₀))
    memory(n)    peak(n₀) + max(m, μ) · (V(n) - V(n₀))

The letters are those of plan.py. Seconds are those of the processor, because other work on the machine moves those of
the wall. The exponent of growth from one size to the next is log(seconds ratio) / log(bytes ratio), and 1 is linear; it
is also told after the seconds of a search in one line of text are taken off.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import volt
from experiments.bench.measure import Run, run
from experiments.scale.plan import Rates, rates_of
from experiments.scale.sample import LEVELS, check_length, cut, fault, measured

PARTS = (8, 4, 2, 1)  # of the smallest size


@dataclass(frozen=True, slots=True)
class Step:
    """A size: what was measured there, and what was foretold. least, most: of the interval of the words;  peak: None
    where the smallest size is too small to say it."""

    n_bytes: int
    run: Run
    n_words: int
    words: float
    least: float
    most: float
    cpu: float
    peak: float | None


def steps(source: Path, folder: Path, *, base: int, growth: Sequence[int], n_merges: int, level: str) -> Iterator[Step]:
    """A step for each size, base × growth, the smallest first. folder: for files that are removed again."""
    sizes = [base * times for times in sorted(growth)]
    check_length(source, sizes[-1])
    parts = [sizes[0] // part for part in PARTS]
    rates = rates_of(measured(source, folder, sizes=parts, n_merges=n_merges, min_count=1, level=level))
    first: Step | None = None
    for size in sizes:
        n_bytes, found, n_words = searched(source, folder, size, level)
        first = first or Step(n_bytes, found, n_words, n_words, n_words, n_words, found.cpu, found.peak)
        yield first if size == sizes[0] else foretold(first, rates, n_bytes, found, n_words)


def searched(source: Path, folder: Path, size: int, level: str) -> tuple[int, Run, int]:
    """Run the command on the first bytes of a corpus: bytes of whole lines, the run, distinct words."""
    path = folder / "corpus.txt"
    n_bytes = cut(source, path, size)
    model = str(folder / "corpus.volt")
    done = run([sys.executable, "-m", "volt_cli", "search", str(path), "--level", level, "-q", "-o", model])
    if done.error:
        raise fault(done.error, path, source, f"the search of its first {size:,} bytes failed")
    return n_bytes, done, volt.count_words(path, pretokenizer=LEVELS[level]).n_words


def foretold(first: Step, rates: Rates, n_bytes: int, found: Run, n_words: int) -> Step:
    """A larger size beside what the first one says."""
    law = rates.words
    more = law(n_bytes) - law(first.n_bytes)
    cpu = first.cpu + rates.count * (n_bytes - first.n_bytes) + rates.learn * more
    of_a_word = max(rates.counted or 0.0, rates.learned or 0.0)
    peak = first.run.peak + of_a_word * more / 1e6 if of_a_word else None
    return Step(n_bytes, found, n_words, law(n_bytes), *law.interval(n_bytes), cpu, peak)


def exponent(one: Step, other: Step, *, start: float = 0.0) -> float | None:
    """Of growth in CPU seconds from one size to another; start: seconds that do not grow.

    None where the smaller one takes no longer than that.

    >>> made = [Step(n, Run(0, cpu, 0, 0), 1, 1, 1, 1, 1, 1) for n, cpu in ((10, 3), (100, 21))]
    >>> round(exponent(*made), 3), exponent(*made, start=1)
    (0.845, 1.0)
    """
    if min(one.run.cpu, other.run.cpu) <= start:
        return None
    return log((other.run.cpu - start) / (one.run.cpu - start)) / log(other.n_bytes / one.n_bytes)
