"""Does the default rule's pick move with what should not move it? Five numbers of candidates, and four size grids.

    VOLT_DATA=… python experiments/picks.py [--words FILE …]

One row for each corpus of VOLT_DATA (eight TED talks, Multi30k en, de, en+de) and for each text given by --words: the
pick of `balanced` without a cap, and every other answer that some cap or grid gave. "at least" is an answer of its own
where a cap lies before the pick.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import volt
from volt.choose.exact import Readings

CAPS = 10_000, 20_000, 30_000, 50_000, 100_000
GRIDS = range(1_000, 8_001, 500), range(2_000, 10_001, 2_000), [6_000], range(5_500, 9_501, 1_000)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", nargs="*", default=[], metavar="FILE", help="further texts")
    print("| corpus | words | balanced | utility | fed | caps with the same pick | grids with the same pick | others |")
    print("|---|--:|--:|--:|--:|--:|--:|---|")
    for name, paths in [*corpora(), *((Path(path).name, [path]) for path in parser.parse_args().words)]:
        print(f"| {' | '.join(row(name, paths))} |", flush=True)


def corpora() -> Iterator[tuple[str, list[str]]]:
    """Names and files of the corpora that are there."""
    data = Path(os.environ.get("VOLT_DATA", ""))
    for path in sorted(data.glob("ted/*.txt.gz")):
        yield f"TED {path.name.split('.')[0]}", [str(path)]
    files = {name: str(data / f"multi30k/train.{name}.gz") for name in ("en", "de")}
    if all(map(os.path.exists, files.values())):
        yield from ((f"Multi30k {name}", [path]) for name, path in files.items())
        yield "Multi30k en+de", list(files.values())


def row(name: str, paths: list[str]) -> Iterator[str]:
    """The cells of a corpus."""
    counts = volt.count_words(paths)
    whole = volt.learn_enough(counts)
    readings = Readings.of(whole)
    pick = told(readings.balanced().size, at_least=readings.balanced().at_least)
    caps = {cap: capped(counts, cap) for cap in CAPS}
    grids = [volt.search(whole, sizes=within(grid, whole)).pick.told for grid in GRIDS]
    others = {f"{told_} (cap {cap:,})" for cap, told_ in caps.items() if told_ != pick} | {*grids} - {pick}
    yield from (name, f"{counts.total:,}", pick, f"{readings.utility().size:,}", f"{readings.fed().size:,}")
    yield f"{sum(one == pick for one in caps.values())} of {len(caps)}"
    yield f"{grids.count(pick)} of {len(grids)}"
    yield ", ".join(sorted(others)) or "none"


def capped(counts: volt.WordCounts, cap: int) -> str:
    """The pick with so many merges at most."""
    found = Readings.of(volt.learn_bpe(counts, cap)).balanced()
    return told(found.size, at_least=found.at_least)


def told(size: int, *, at_least: bool) -> str:
    """A pick as reports show it."""
    return "at least " * at_least + f"{size:,}"


def within(grid: Iterable[int], candidates: volt.Candidates) -> list[int]:
    """The sizes that the candidates offer."""
    return [size for size in grid if candidates.n_atoms <= size <= candidates.n_tokens]


if __name__ == "__main__":
    main()
