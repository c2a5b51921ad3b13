"""Named texts → how evenly they are compressed by plain BPE and by merges that parity chooses, and the time of both.

    VOLT_DATA=DIR python experiments/parity.py [--size N] [--rounds N] [--json OUT]

Texts are the four languages of Multi30k, whose lines are translations of each other, with every unit; the New Testament
in Armenian, Ukrainian and Swahili, the verses that all three have, by line and by character; TED talks in Finnish,
Georgian and Marathi, which are no translations, by character; and Finnish with 3,000 lines of Georgian, the same. Times
are the best of some rounds, each method in turn, of learning alone, from word counts; --temperature is that of the
mixture that plain BPE learns from.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import volt
from volt.count.word_counts import WordCounts
from volt.learn.parity import Parity, Unit

MULTI30K, SCRIPTS, TALKS = ("en", "de", "fr", "cs"), ("hy", "uk", "sw"), ("Finnish", "Georgian", "Marathi")

N_FEW = 3_000  # lines of a small text


def cases(data: Path, folder: Path) -> Iterator[tuple[str, dict[str, WordCounts], Unit]]:
    """What is compared: a name, the counts of each source, and a unit."""
    multi30k = {name: volt.count_words(data / f"multi30k/train.{name}.gz") for name in MULTI30K}
    units: tuple[Unit, ...] = ("line", "character", "byte")
    yield from (("Multi30k en de fr cs", multi30k, unit) for unit in units)
    verses = _common_verses({name: data / f"bible/{name}.tsv.gz" for name in SCRIPTS}, folder)
    yield from (("New Testament hy uk sw", verses, unit) for unit in units[:2])
    talks = {name: volt.count_words(data / f"ted/{name}.txt.gz") for name in TALKS}
    yield "TED Finnish Georgian Marathi", talks, "character"
    with gzip.open(data / "ted/Georgian.txt.gz", "rb") as file:
        (folder / "few").write_bytes(b"".join(islice(file, N_FEW)))
    few = volt.count_words(folder / "few")
    yield f"TED Finnish, {N_FEW:,} lines of Georgian", {"Finnish": talks["Finnish"], "Georgian": few}, "character"


def _common_verses(paths: dict[str, Path], folder: Path) -> dict[str, WordCounts]:
    """The counts of the verses that all files hold, in the same order."""
    rows = {}
    for name, path in paths.items():
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            rows[name] = dict(line.rstrip("\n").split("\t", 1) for line in file)
    common = sorted(set.intersection(*(set(found) for found in rows.values())))
    for name, found in rows.items():
        (folder / name).write_text("".join(f"{found[verse]}\n" for verse in common), encoding="utf-8")
    return {name: volt.count_words(folder / name) for name in paths}


def seconds(rounds: int, *jobs: Callable[[], object]) -> list[float]:
    """The least seconds of each job, all in turn, after one round that is not counted."""
    best = [float("inf")] * len(jobs)
    for number in range(rounds + 1):
        for place, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            if number:
                best[place] = min(best[place], time.perf_counter() - start)
    return best


def measured(sources: dict[str, WordCounts], unit: Unit, asked: argparse.Namespace) -> tuple[Parity, float, float]:
    """Parity at the size that is asked for, and the seconds of learning: plain, and with parity."""
    mixture = volt.mix(sources, temperature=asked.temperature)
    fair = volt.learn_parity(sources, asked.size, unit=unit, temperature=asked.temperature)
    n_merges = fair.merges_at(asked.size)
    plain, slower = seconds(
        asked.rounds, lambda: volt.learn_bpe(mixture, n_merges), lambda: volt.learn_parity(sources, n_merges, unit=unit)
    )
    return volt.measure_parity(sources, fair, size=asked.size, unit=unit), plain, slower


def main() -> None:
    """Print a table, and write it as JSON if a file is named."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", type=int, default=8_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    asked, rows = parser.parse_args(), []
    print("texts | unit | worst ÷ best, plain | parity | pieces | plain, s | parity, s")
    with tempfile.TemporaryDirectory() as folder:
        for name, sources, unit in cases(Path(os.environ["VOLT_DATA"]), Path(folder)):
            parity, plain, slower = measured(sources, unit, asked)
            before, after = parity.ratios
            print(f"{name} | {unit} | {before:.3f} | {after:.3f} | {parity.cost:+.2%} | {plain:.2f} | {slower:.2f}")
            for row in parity.sources:
                rates = f"{row.plain / row.n_units:.3f} → {row.fair / row.n_units:.3f}"
                print(f"    {row.name}: {row.n_units:,} {unit}s, {rates}")
            found = {"plain_ratio": before, "ratio": after, "cost": parity.cost, "seconds": [plain, slower]}
            rows.append({"texts": name, "unit": unit, "size": asked.size, "temperature": asked.temperature, **found})
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
