"""Lines per second of a stream that drops, reorders and replaces tokens, beside the same in plain Python.

    python experiments/bench/token_noise.py [--seconds 3] [--rounds 5] [--json noise.json]

The pipeline is drop, reorder and switchout with their usual amounts, on the German and English sides of Multi30k where
VOLT_DATA names a folder that has it, otherwise on made lines of as many words. The plain program does it as dynamicdata
does: each example is two lists of str, which go through one function after the other; it is written from that system's
description, and draws with `random`. Its reading is a shuffled list in memory.

VOLT's lines are taken one by one, as a trainer in Python does, and as blocks of bytes, as `volt stream run` writes
them. The clock runs from the first line on. Rounds go through all programs in turn; medians are told. Lines per
processor second change less where other processes are busy; --rounds tells how much they vary.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import islice
from math import exp
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from measure import describe, machine, markdown_table, write_json

import volt

CONFIG = """
seed: 1
sources:
  pairs:
    path: pairs.tsv
    transforms: [drop, reorder, switchout: words.txt]
"""
TEMPERATURE, DISTANCE = 2.0, 3.0
AIM = 5.0
N_MADE = 29_000  # as Multi30k has
Example = tuple[list[str], list[str]]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    facts = machine("numpy", "numba")
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        write_data()
        rounds = [
            {name: rates(run(), options.seconds) for name, run in PROGRAMS.items()} for _ in range(options.rounds)
        ]
        os.chdir("/")
    medians = {name: tuple(median(one[name][k] for one in rounds) for k in (0, 1)) for name in PROGRAMS}
    print(describe(facts))
    print(table(medians))
    if options.json:
        write_json(options.json, {"machine": facts, "rounds": rounds, "medians": medians})


def table(medians: dict[str, tuple[float, ...]]) -> str:
    """The medians, and how many times those of plain Python they are."""
    wall, cpu = medians["plain Python"]
    rows = [
        [name, f"{one:,.0f}", f"{one / wall:.1f}", f"{other:,.0f}", f"{other / cpu:.1f}"]
        for name, (one, other) in medians.items()
    ]
    header = ["program", "lines/s", f"times (aim {AIM:g})", "lines/CPU s", "times"]
    return str(markdown_table(header, rows))


def rates(counts: Iterable[int], seconds: float) -> tuple[float, float]:
    """Lines per second, and per processor second, from the first lines on."""
    numbers = iter(counts)
    next(numbers)
    n, start, cpu = 0, time.perf_counter(), time.process_time()
    for number in numbers:
        n += number
        if (passed := time.perf_counter() - start) >= seconds:
            break
    return n / passed, n / (time.process_time() - cpu)


# Programs: each yields how many lines it has given


def volt_lines(n_workers: int) -> Iterator[int]:
    """A stream's lines, one by one; counted a thousand at a time."""
    with volt.Stream.from_config("stream.yaml", n_workers=n_workers) as stream:
        lines = iter(stream)
        while n := sum(1 for _ in islice(lines, 1000)):
            yield n


def volt_blocks(n_workers: int) -> Iterator[int]:
    """A stream's lines as blocks."""
    with volt.Stream.from_config("stream.yaml", n_workers=n_workers) as stream:
        for block in stream.blocks():
            yield block.count(b"\n")


def plain() -> Iterator[int]:
    """The same in plain Python; counted a thousand at a time."""
    lines = plain_lines()
    while n := sum(1 for _ in islice(lines, 1000)):
        yield n


PROGRAMS: dict[str, Callable[[], Iterator[int]]] = {
    "plain Python": plain,
    "volt, lines, 1 worker": partial(volt_lines, 1),
    "volt, lines, 2 workers": partial(volt_lines, 2),
    "volt, blocks, 1 worker": partial(volt_blocks, 1),
    "volt, blocks, 2 workers": partial(volt_blocks, 2),
}


# Plain Python


def plain_lines() -> Iterator[str]:
    """Examples without end, shuffled in each epoch, noisy."""
    rows = Path("pairs.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    vocabulary = [line.split("\t")[1] for line in Path("words.txt").read_text(encoding="utf-8").split("\n")[:-1]]
    while True:
        random.shuffle(rows)
        for row in rows:
            source, target = row.split("\t")
            example = source.split(), target.split()
            for step in (dropped, reordered, partial(switched, vocabulary)):
                example = step(example)
            yield f"{' '.join(example[0])}\t{' '.join(example[1])}"


def dropped(example: Example) -> Example:
    """Without some tokens of the source."""
    source, target = example
    gone = set(hit(len(source)))
    return [token for place, token in enumerate(source) if place not in gone], target


def reordered(example: Example) -> Example:
    """With the tokens of the source in another order."""
    source, target = example
    keys = [place + random.uniform(0, DISTANCE) for place in range(len(source))]
    return [source[place] for place in sorted(range(len(source)), key=keys.__getitem__)], target


def switched(vocabulary: list[str], example: Example) -> Example:
    """With some tokens of both sides replaced."""
    for side in example:
        for place in hit(len(side)):
            side[place] = random.choice(vocabulary)
    return example


def hit(n: int) -> list[int]:
    """Places of so many of n tokens as the temperature gives."""
    if n == 0:
        return []
    (k,) = random.choices(range(n), cum_weights=weights(n))
    return random.sample(range(n), k)


@cache
def weights(n: int) -> list[float]:
    """P(at most k), not normalised."""
    found, total = [], 0.0
    for k in range(n):
        total += exp(-TEMPERATURE * k)
        found.append(total)
    return found


# Data


def write_data() -> None:
    """Pairs of lines, the 8,000 commonest words of both sides with their counts, and the configuration."""
    pairs = list(multi30k() if os.environ.get("VOLT_DATA") else made_pairs())
    Path("pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    counts = Counter(word for pair in pairs for side in pair for word in side.split())
    rows = [f"{count}\t{word}\n" for word, count in counts.most_common(8000)]
    Path("words.txt").write_text("".join(rows), encoding="utf-8")
    Path("stream.yaml").write_text(CONFIG)


def multi30k() -> Iterator[tuple[str, str]]:
    """German and English."""
    folder = Path(os.environ["VOLT_DATA"], "multi30k")
    sides = [gzip.decompress((folder / f"train.{name}.gz").read_bytes()).decode().split("\n") for name in ("de", "en")]
    return ((source, target) for source, target in zip(*sides, strict=True) if "\t" not in source + target)


def made_pairs() -> Iterator[tuple[str, str]]:
    """Lines of made words."""
    drawn = random.Random(1)
    words = ["".join(drawn.choices("abcdefghijklmnop", k=drawn.randint(1, 9))) for _ in range(9000)]
    for _ in range(N_MADE):
        source, target = (" ".join(drawn.choices(words, k=drawn.randint(5, 19))) for _ in "st")
        yield source, target


if __name__ == "__main__":
    main()
