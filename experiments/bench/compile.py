"""First use, timed: commands on a folder without compiled loops, each in a fresh process, and the seconds of each loop.

    python experiments/bench/compile.py [--repeats 3] [--json OUT]

CPU seconds are what other processes disturb least; wall seconds count on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from measure import Run, describe, machine, markdown_table, run, write_json
from texts import temporary_folder

PACKAGES = ("volt-vocab", "numba", "llvmlite")
AIMS = {"volt search": 6.0, "volt encode": 8.0}  # wall seconds, median
CHILD = """
import gc, json, sys, time
gc.disable()
from volt.kernels import ready
found = {}
for loop in ready._loops(*ready.JOBS):
    start = time.process_time()
    ready.compile_loop(loop.place)
    found[loop.place] = time.process_time() - start
print(json.dumps(found))
"""


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    with temporary_folder() as folder:
        commands = {name: list(runs(folder, words, options.repeats)) for name, words in made(folder).items()}
        loops = seconds_of_loops(folder)
    print(f"Machine: {describe(machine(*PACKAGES))}\n\n{as_markdown(commands)}\n")
    print(markdown_table(["loop", "CPU s"], [[name, f"{seconds:.2f}"] for name, seconds in loops.items()]))
    if options.json:
        write_json(options.json, as_data(commands, loops))


def made(folder: Path) -> dict[str, list[str]]:
    """A small corpus, its vocabulary, and the commands on them."""
    lines = [f"two young males number {i} are outside near {i % 7} bushes" for i in range(200)]
    (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
    volt = [sys.executable, "-m", "volt_cli"]
    search = [*volt, "search", str(folder / "corpus.txt"), "-q", "-o", str(folder / "corpus.volt")]
    subprocess.run(search, check=True)
    subprocess.run([*volt, "stream", "example", "case-noise", "-o", str(folder / "noise")], check=True)
    return {
        "volt search": [*search[:-1], str(folder / "again.volt")],
        "volt encode": [*volt, "encode", "-m", str(folder / "corpus.volt"), str(folder / "corpus.txt"), "-q"],
        "volt stream run": [*volt, "stream", "run", str(folder / "noise" / "stream.yaml"), "--limit", "10"],
        "volt warmup": [*volt, "warmup", "-q"],
    }


def runs(folder: Path, command: list[str], n_repeats: int) -> Iterator[Run]:
    """Runs of a command, each with a folder of its own for what is compiled."""
    for repeat in range(n_repeats):
        yield run(command, env={"NUMBA_CACHE_DIR": str(folder / f"loops-{abs(hash(tuple(command)))}-{repeat}")})


def seconds_of_loops(folder: Path) -> dict[str, float]:
    """CPU seconds of compiling each loop, all in one process; the first also pays for what all need."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "loops")}
    done = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def as_markdown(commands: dict[str, list[Run]]) -> str:
    """Medians beside what is aimed at."""
    header = ["first use of", "wall s", "CPU s", "aim, wall s", "peak MB", "other cores", "runs"]
    rows = []
    for name, found in commands.items():
        error = next((one.error for one in found if one.error), "")
        middle = [f"{median(getattr(one, figure) for one in found):.1f}" for figure in ("wall", "cpu")]
        others = [f"{median(getattr(one, figure) for one in found):.1f}" for figure in ("peak", "others")]
        rows.append([f"{name} {error}", *middle, str(AIMS.get(name, "–")), *others, str(len(found))])
    return markdown_table(header, rows)


def as_data(commands: dict[str, list[Run]], loops: dict[str, float]) -> dict[str, Any]:
    """All figures, for JSON."""
    figures = ("wall", "cpu", "peak", "others", "error")
    return {
        "bench": "compile",
        "machine": machine(*PACKAGES),
        "commands": {
            name: [{key: getattr(one, key) for key in figures} for one in found] for name, found in commands.items()
        },
        "loops": loops,
    }


if __name__ == "__main__":
    main()
