"""Loaders that are killed and resumed with other numbers of workers and ranks: which samples are lost or repeated?

    python -m experiments.resume                                         all loaders, some rounds of each change
    python -m experiments.resume --loaders volt --rounds 1000 --fast     a kill is a dropped object; many rounds
    python -m experiments.resume --loaders mosaic --python mosaic=OTHER/bin/python     from another environment
    python -m experiments.resume --loaders litdata --changes both --first 3 --rounds 1  one round again
    python -m experiments.resume --loaders Exact Late Early --rounds 3   loaders with faults that are known: `planted`

Every round, N numbered samples are read by ranks that are processes, in step, up to a step drawn by chance; each saves
its state after every batch, or every few. SIGKILL ends them and their workers; then others go on from what was saved,
with the same numbers of ranks and workers or others, to the end of the epoch. `rounds` says what counts as consumed,
`ranks` how they die, and each `loaders_…` how a loader is used. An error before a resumed loader gives its first batch
counts as a refusal, a later one as an error, a rank that is silent as a hang; the last column has their first words.

Nothing is downloaded. The seed decides the rounds, but not the moment within a step at which SIGKILL comes. The numbers
of samples and shards are multiples of all worlds and of their workers, so that no loader needs to fill up a share. The
exit status is 1 if a loader of this project lost, repeated or refused anything.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.resume.loaders import CHANGES, LOADERS, PLANTED
from experiments.resume.rounds import NO_KILL, WORKERS, WORLDS, Outcome
from experiments.resume.table import Row, as_table, missing, rows_of

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run the rounds, and print the table; the exit status."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that campaigns are ended
    pythons = dict(pair.split("=", 1) for pair in options.python)
    rows, faults = list[Row](), 0
    for name in options.loaders:
        began = time.monotonic()
        first, found = campaign(name, pythons.get(name, sys.executable), options)
        rows += [missing(name, first["versions"], first["missing"])] if first["missing"] else []
        rows += rows_of(first["told"], first["versions"], found)
        if name.startswith("volt"):
            faults += sum((outcome.kind, outcome.lost, outcome.repeated) != ("counted", 0, 0) for outcome in found)
        print(f"{name}: {len(found)} rounds, {time.monotonic() - began:,.0f} s", file=sys.stderr, flush=True)
        if options.output:
            options.output.write_text(as_table(rows) + "\n")
    print(f"seed {options.seed}, {options.n:,} samples in {options.shards} shards\n\n{as_table(rows)}")
    return int(faults > 0)


def campaign(name: str, python: str, options: argparse.Namespace) -> tuple[dict[str, Any], list[Outcome]]:
    """The first line of a loader's campaign, and what came of its rounds."""
    keys = ("rounds", "first", "seed", "kills", "n", "shards", "changes", "worlds", "workers", "limit", "fast")
    asked = json.dumps({"loader": name, **{key: getattr(options, key) for key in keys}})
    command = [python, "-m", "experiments.resume.campaign", asked]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=_errors(options), text=True) as child:
        try:
            lines = list(_told(name, child, options))
        finally:
            child.terminate()
    if not lines:
        return {"told": name, "versions": "", "missing": f"ended with {child.returncode}; see --errors"}, []
    first, *others = lines
    return first, [Outcome(*other) for other in others]


def _told(name: str, child: subprocess.Popen[str], options: argparse.Namespace) -> Iterator[Any]:
    """The lines of a campaign; rounds that are not exact are told at once."""
    assert child.stdout is not None
    for line in child.stdout:
        value = json.loads(line)
        if isinstance(value, list) and options.verbose:
            print(f"{name}: {Outcome(*value)}", file=sys.stderr, flush=True)
        yield value


def _errors(options: argparse.Namespace) -> Any:
    return options.errors.open("a") if options.errors else subprocess.DEVNULL


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.resume", description="Killed and resumed loaders.")
    add, changes = parser.add_argument, (NO_KILL, *CHANGES)
    add(
        "--loaders",
        nargs="+",
        default=[*LOADERS],
        choices=[*LOADERS, *PLANTED],
        metavar="NAME",
        help=", ".join(LOADERS),
    )
    add("--rounds", type=int, default=8, metavar="N", help="of each loader and change (8)")
    add("--first", type=int, default=0, metavar="N", help="the number of the first round (0)")
    add("--seed", type=int, default=1, metavar="N", help="what happens follows from it (1)")
    add("--kills", type=int, default=1, metavar="N", help="the most kills in a round (1)")
    add("--changes", nargs="+", default=[*changes], choices=changes, metavar="CHANGE", help=", ".join(changes))
    add("--worlds", nargs="+", type=int, default=WORLDS, metavar="N", help="numbers of ranks (1 2 3 4)")
    add("--workers", nargs="+", type=int, default=WORKERS, metavar="N", help="numbers of workers (0 1 2 3)")
    add("--n", type=int, default=2400, metavar="N", help="samples (2,400)")
    add("--shards", type=int, default=12, metavar="N", help="files (12)")
    add("--limit", type=float, default=60.0, metavar="SECONDS", help="without a step, after which a rank hangs (60)")
    add("--fast", action="store_true", help="ranks within one process; a kill is a dropped object")
    add("--python", nargs="+", default=[], metavar="NAME=PATH", help="the interpreter of a loader")
    add("-o", "--output", type=Path, metavar="FILE", help="write the table here as well")
    add("--errors", type=Path, metavar="FILE", help="what campaigns write to stderr")
    add("-v", "--verbose", action="store_true", help="tell each round as it ends")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
