"""Faults of every kind, under every command → a table of what was lost, hung or told badly. Nothing should be.

    python -m experiments.faults [PART …] [options]

Parts: io (calls of the operating system fail), kills (signals at random moments), fuzz (damaged files), load (a slow
consumer; many streams). Without a part, all. Each is described in its module.

    python -m experiments.faults --minutes 20                       all parts; what `make faults` runs
    python -m experiments.faults io --only encode-npy               one command
    python -m experiments.faults kills --kills 50 --seed 7          fewer, others
    python -m experiments.faults fuzz --replay build/faults/FILE    one example that was kept
    python -m experiments.faults load --minutes 25 --slow 1200      twenty minutes of a slow consumer
    python -m experiments.faults --self-check                       faults of our own: is each of them found?

The seed decides what is injected, when processes are killed and which files are damaged, and is printed. A part that
runs out of time says how much of its plan it has done. The exit status is 1 if anything was found, 2 if the self-check
misses a fault. It needs Linux; a C compiler for the finer half of io.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.faults import disk, fuzz, kills, load
from experiments.faults.injector import compiled_shim
from experiments.faults.pool import n_jobs
from experiments.faults.runner import Server
from experiments.faults.stage import make_inputs
from experiments.faults.table import Finding, Row, as_list, as_table

SHARES = {"io": 0.25, "kills": 0.38, "fuzz": 0.37}  # of the time that load leaves
N_LINES = {"io": 250, "kills": 1500}  # of the corpus


def main() -> int:
    """Run what is asked for; the exit status."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that folders are removed and processes end
    folder = Path(tempfile.mkdtemp(prefix="volt-faults-"))
    try:
        if options.self_check:
            from experiments.faults.self_check import missed

            return 2 if missed(folder, jobs=n_jobs(options.jobs)) else 0
        return _report(_campaign(options, folder), options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.faults", description="Faults under every command.")
    parser.add_argument("parts", nargs="*", metavar="PART", help="io, kills, fuzz, load; default: all")
    add = parser.add_argument
    add("--minutes", type=float, default=20.0, metavar="N", help="for everything (20)")
    add("--seed", type=int, default=1, metavar="N", help="what is drawn follows from it (1)")
    add("--jobs", type=int, default=0, metavar="N", help="how many at a time (one for each core)")
    add("--faults", type=int, default=1 << 30, metavar="N", help="at most so many I/O faults of each injector")
    add("--kills", type=int, default=1000, metavar="N", help="how many kills (1,000)")
    add("--examples", type=int, default=100_000, metavar="N", help="how many damaged files (100,000)")
    add("--slow", type=float, default=90.0, metavar="SECONDS", help="of the slow consumer (90)")
    add("--opened", type=int, default=10_000, metavar="N", help="streams to open and close (10,000)")
    add("--only", nargs="+", default=[], metavar="NAME", help="commands, targets, or names from a finding")
    add("--replay", type=Path, metavar="FILE", help="an example of fuzz that was kept")
    add("--findings", type=Path, default=Path("build/faults"), metavar="FOLDER", help="where examples are kept")
    add("--table", type=Path, metavar="FILE", help="write the table here as well, as Markdown")
    add("--self-check", action="store_true", help="plant faults, and see that each is found")
    options = parser.parse_args()
    if unknown := set(options.parts) - {*SHARES, "load"}:
        parser.error(f"no part is called {' or '.join(sorted(unknown))}; choose from {', '.join(SHARES)}, load")
    if sys.platform != "linux":
        parser.error("the campaign looks at processes and descriptors as Linux shows them; run it there")
    options.findings = options.findings.absolute()
    options.replay = options.replay and options.replay.absolute()
    return options


def _campaign(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """The rows of all parts that are asked for, one part after the other."""
    start, parts = time.monotonic(), options.parts or [*SHARES, "load"]
    end = start + 60 * options.minutes
    if options.replay:
        yield from fuzz.replay(folder, options.replay)
        return
    print(f"seed {options.seed}, {', '.join(parts)}, at most {options.minutes:g} minutes", file=sys.stderr, flush=True)
    shim = compiled_shim(folder)
    for_load = min(0.25 * 60 * options.minutes, options.slow + 60) if "load" in parts else 0.0
    for number, part in enumerate(chosen := [part for part in SHARES if part in parts]):
        left = end - time.monotonic() - (for_load if len(parts) > 1 else 0)
        share = SHARES[part] / sum(SHARES[later] for later in chosen[number:])
        yield from _rows(part, options, folder / part, shim, until=time.monotonic() + share * left)
    if "load" in parts:
        seconds = min(options.slow, 0.8 * (end - time.monotonic()))
        yield from load.campaign(folder / "load", until=end, seconds=seconds, n_opened=options.opened)


def _rows(part: str, options: argparse.Namespace, folder: Path, shim: Path | None, *, until: float) -> Iterator[Row]:
    folder.mkdir()
    common = {"seed": options.seed, "jobs": n_jobs(options.jobs), "until": until, "only": options.only}
    if part == "fuzz":
        yield from fuzz.campaign(folder, options.findings, most=options.examples, **common)
        return
    inputs = laid(folder, shim, n_lines=N_LINES[part])
    if part == "io":
        yield from disk.campaign(folder, inputs, shim, most=options.faults, **common)
    else:
        yield from kills.campaign(folder, inputs, most=options.kills, **common)


def laid(folder: Path, shim: Path | None, *, n_lines: int) -> Path:
    """The folder of the inputs, made by VOLT."""
    with Server(shim) as server:
        make_inputs(folder / "inputs", server, n_lines=n_lines)
    return folder / "inputs"


def _report(rows: Iterator[Row], options: argparse.Namespace) -> int:
    """Print the findings and the table, even of what was broken off: rows come first, and are filled afterwards."""
    told: list[Row] = []
    try:
        for row in rows:
            told.append(row)
    finally:
        print(as_list(finding for row in told for finding in row.findings))
        table = as_table([*_totals(told), *told])
        print(f"\nseed {options.seed}\n\n{table}", flush=True)
        if options.table:
            options.table.parent.mkdir(parents=True, exist_ok=True)
            options.table.write_text(table + "\n")
    found: Sequence[Finding] = [finding for row in told for finding in row.findings]
    print(f"\n{len(found)} findings" if found else "\nnothing was found", flush=True)
    return int(bool(found))


def _totals(rows: Sequence[Row]) -> Iterator[Row]:
    """One row for a part that has several."""
    for part in dict.fromkeys(row.part for row in rows):
        own = [row for row in rows if row.part == part]
        if len(own) > 1 and part != "load":
            yield Row(
                part, "all", sum(row.done for row in own), sum(row.planned for row in own),
                sum(row.seconds for row in own), [finding for row in own for finding in row.findings],
            )  # fmt: skip


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads that still wait for a process that has been killed need no farewell
