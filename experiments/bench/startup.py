"""Starting up, timed: whole processes that do next to nothing.

    VOLT_DATA=DIR python experiments/bench/startup.py [--repeats 5] [--first-use] [--json OUT]

Compiled loops are on disk, as after any earlier use; --first-use adds a run that compiles them anew.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from measure import run
from rounds import Claim, Job, Row, as_data, publish, run_rounds
from texts import models, multi30k, temporary_folder, write

PACKAGES = ("volt-vocab", "numba", "polars", "typer")
VOLT = str(Path(sys.executable).with_name("volt"))
AIMS = {"volt --help": 0.3, "volt encode": 1.2}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", type=int, default=8_000, help="of the vocabulary (default 8,000)")
    parser.add_argument("--first-use", action="store_true", help="also compile everything anew, once")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    with temporary_folder() as folder:
        made = list(jobs(folder, options))
        for job in made:
            if job.max_runs > 1:
                run(job.command, env=job.env)  # uncounted: it may have to compile
        rows = run_rounds(made, n_repeats=options.repeats, budget=120)
    publish(as_data("startup", rows, list(claims(rows)), packages=PACKAGES), options.json)


def jobs(folder: Path, options: argparse.Namespace) -> Iterator[Job]:
    """All rows."""
    found = models(folder, multi30k(folder, times=1), size=options.size, kinds=("words", "bytes"))
    cores = os.cpu_count() or 1
    line = write(folder, "line", [b"Two young, White males are outside near many bushes.\n"])
    encode = [VOLT, "encode", "-m", found.volt("words"), str(line.path), "-q"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import volt": [sys.executable, "-c", "import volt"],
        "import numba, polars": [sys.executable, "-c", "import numba, polars"],
        "volt --help": [VOLT, "--help"],
        "volt encode --help": [VOLT, "encode", "--help"],
        "volt encode": encode,
        "volt encode, bytes": [*encode[:3], found.volt("bytes"), *encode[4:]],
        "volt encode, npy": [*encode, "--output", "npy", "-o", str(folder / "out")],
        "volt inspect": [VOLT, "inspect", found.volt("words"), "a line"],
    }
    for name, command in commands.items():
        yield Job("start", "one line" if "encode" in name else "–", name, command, threads=cores, phased=False)
    if options.first_use:
        fresh = Job("start", "one line", "volt encode, first use", encode, threads=cores, phased=False, max_runs=1)
        yield replace(fresh, env={"NUMBA_CACHE_DIR": str(folder / "numba")})


def claims(rows: list[Row]) -> Iterator[Claim]:
    """What was aimed at."""
    for row in rows:
        if row.program in AIMS and not row.error:
            yield Claim(row.program, AIMS[row.program], row.seconds["wall"], at_least=False, unit="s")


if __name__ == "__main__":
    main()
