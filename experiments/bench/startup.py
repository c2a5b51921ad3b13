"""Starting up, timed: whole processes that do next to nothing.

    VOLT_DATA=DIR python experiments/bench/startup.py [--repeats 15] [--first-use] [--json OUT]

What counts is user and system time, which other processes on the machine disturb least. Compiled loops are on disk, as
after any earlier use; --first-use adds one run without them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from measure import Run, describe, machine, markdown_table, run, write_json
from rounds import as_data, say
from rows import Claim, Row
from texts import models, multi30k, temporary_folder, write

PACKAGES = ("volt-vocab", "numba", "polars", "typer")
VOLT = str(Path(sys.executable).with_name("volt"))
AIMS = {"volt --help": 0.3, "volt encode": 1.2}  # seconds of CPU, median
Commands = Mapping[str, Sequence[str]]


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--size", type=int, default=8_000, help="of the vocabulary (default 8,000)")
    parser.add_argument("--first-use", action="store_true", help="also start once without the compiled loops")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    with temporary_folder() as folder:
        made = commands(folder, options.size)
        rows = list(measured(made, n_repeats=options.repeats))
        if options.first_use:
            fresh = {"NUMBA_CACHE_DIR": str(folder / "numba")}
            rows.append(row("volt encode, first use", [run(made["volt encode"], env=fresh)]))
    data = as_data("startup", rows, list(claims(rows)), packages=PACKAGES)
    print(as_markdown(rows))
    if options.json:
        write_json(options.json, data)


def commands(folder: Path, size: int) -> Commands:
    """All programs, and how each is started."""
    found = models(folder, multi30k(folder, times=1), size=size, kinds=("words", "bytes"))
    line = str(write(folder, "line", [b"Two young, White males are outside near many bushes.\n"]).path)
    words, byte_level = found.volt("words"), found.volt("bytes")
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import volt": [sys.executable, "-c", "import volt"],
        "import numpy": [sys.executable, "-c", "import numpy"],
        "import numba": [sys.executable, "-c", "import numba"],
        "import polars": [sys.executable, "-c", "import polars"],
        "volt --help": [VOLT, "--help"],
        "volt encode --help": [VOLT, "encode", "--help"],
        "volt encode": [VOLT, "encode", "-m", words, line, "-q"],
        "volt encode, bytes": [VOLT, "encode", "-m", byte_level, line, "-q"],
        "volt encode, npy": [VOLT, "encode", "-m", words, line, "-q", "--form", "npy", "-o", str(folder / "out")],
        "volt inspect": [VOLT, "inspect", "-m", words],
        "volt inspect, a line": [VOLT, "inspect", "-m", words, "a line"],
    }


def measured(made: Commands, *, n_repeats: int) -> Iterator[Row]:
    """A row for each program. They take turns, behind an uncounted round in which loops may have to be compiled."""
    runs = {name: list[Run]() for name in made}
    for repeat in range(n_repeats + 1):
        for name, command in made.items():
            one = run(command)
            if repeat or one.error:
                runs[name].append(one)
        say(f"round {repeat} of {n_repeats}")
    yield from (row(name, done) for name, done in runs.items())


def row(name: str, runs: Sequence[Run]) -> Row:
    """Medians, and from the least to the most."""
    cores, error = os.cpu_count() or 1, next((one.error for one in runs if one.error), "")
    if error:
        return Row("start", "one line", name, threads=cores, error=error)
    seconds = {"wall": [one.wall for one in runs], "cpu": [one.cpu for one in runs]}
    return Row(
        "start", "one line", name, threads=cores, n_runs=len(runs),
        seconds={kind: median(found) for kind, found in seconds.items()},
        spread={kind: [min(found), max(found)] for kind, found in seconds.items()},
        peak=median(one.peak for one in runs), others=median(one.others for one in runs),
    )  # fmt: skip


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """What was aimed at."""
    for row in rows:
        if row.program in AIMS and not row.error:
            yield Claim(row.program, AIMS[row.program], row.seconds["cpu"], at_least=False, unit="s")


def as_markdown(rows: Sequence[Row]) -> str:
    """The machine, the table and what was aimed at."""
    header = ["program", "CPU s, least", "CPU s, median", "wall s, median", "peak MB", "other cores", "runs"]
    table = markdown_table(header, [_cells(row) for row in rows])
    aims = [f"{aim.name}: {aim.found:.2f} s CPU, at most {aim.wanted:.2f} aimed at" for aim in claims(rows)]
    return "\n".join([f"Machine: {describe(machine(*PACKAGES))}", "", table, "", *aims])


def _cells(row: Row) -> list[str]:
    if row.error:
        return [row.program, row.error, *[""] * 5]
    seconds = row.spread["cpu"][0], row.seconds["cpu"], row.seconds["wall"]
    return [row.program, *(f"{one:.2f}" for one in seconds), f"{row.peak:.0f}", f"{row.others:.1f}", str(row.n_runs)]


if __name__ == "__main__":
    main()
