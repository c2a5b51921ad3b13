"""How good is each rule of size choice? Trial trainings, and what the rules lose against the best size tried.

    python -m experiments.evidence run --data $VOLT_DATA --hours 2
    python -m experiments.evidence picks --data $VOLT_DATA
    python -m experiments.evidence report

`run` appends results to lm.jsonl and nmt.jsonl in this folder, the trials that tell most first, and skips those that
are there; a kill loses the trials that were running. `picks` writes what each rule picks on the same texts, picks.json,
and `report` TABLES.md and the pictures of the curves. `make evidence HOURS=2` does all three. One trial is repeated by
`python -m experiments.lm.train` and `python -m experiments.nmt.trial`. The folder longer/ holds trials of language
models with four times the text: `--out experiments/evidence/longer --options characters=20000000`.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from experiments.evidence.curves import MEASURES, curves
from experiments.evidence.grid import KINDS, LARGEST, LONGER, NAMED, OPTIONS, SIZES, Corpus, Trial, grid
from experiments.evidence.results import Results, read
from experiments.evidence.running import Runner, note
from experiments.nmt import options
from experiments.nmt.options import at_least, within
from volt.errors import ConfigError, VoltError
from volt.files.atomic import make_folder, write_atomic

FOLDER = Path(__file__).parent
PICTURES = ("text", "translation")  # the measures that are drawn


def option(text: str) -> tuple[str, Any]:
    """Reads an option of the recipes.

    >>> option("characters=20000"), option("dropout=.10")
    (('characters', 20000), ('dropout', 0.1))
    """
    name, _, value = text.partition("=")
    readers = {name: read for known in OPTIONS.values() for name, read in known.items()}
    if name not in readers:
        raise argparse.ArgumentTypeError(f"{text}: give NAME=VALUE, with {', '.join(readers)} as NAME")
    try:
        return name, readers[name](value)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{name}={error}") from None


def run(given: argparse.Namespace) -> int:
    """Run trials for so many hours; 1 if one failed."""
    until = time.monotonic() + given.hours * 3600
    names = {kind: [name for name in NAMED[kind] if name in (given.corpora or NAMED[kind])] for kind in given.kinds}
    kinds = [kind for kind in names if names[kind]]
    if other := sorted({*given.corpora} - {name for kind in kinds for name in names[kind]}):
        told = ", ".join(name for kind in given.kinds for name in NAMED[kind])
        raise ConfigError(f"--corpora {' '.join(other)}: not of --kinds {' '.join(given.kinds)}, whose are {told}")
    for name, _ in given.options:
        if not any(name in OPTIONS[kind] for kind in kinds):
            raise ConfigError(f"--options {name}: trials of {' and '.join(kinds)} have no such option; leave it out")
    if given.sizes and min(given.sizes) > (most := max(LARGEST[kind] for kind in kinds)):
        raise ConfigError(f"--sizes {min(given.sizes)}: trials of {' and '.join(kinds)} end at {most:,}")
    with ExitStack() as stack:
        results = {kind: stack.enter_context(Results.open(given.out / f"{kind}.jsonl")) for kind in kinds}
        known = {name: Corpus.of(name, given.data, given.work) for kind in kinds for name in names[kind]}
        trials = grid(
            kinds, corpora=[*known], sizes=given.sizes, seeds=given.seeds, options=dict(given.options),
            most={name: one.most for name, one in known.items()},
        )  # fmt: skip
        keys = {trial: trial.key(known[trial.corpus].text) for trial in trials}
        for kind in kinds:
            there = [key in results[kind] for trial, key in keys.items() if trial.kind == kind]
            note(f"{kind}: {sum(there)} of {len(there)} trials are there")
        runner = Runner(given.data, given.work, device=given.device, told=note, nice=given.nice)
        note(runner.run(list(keys), keys, results, until=until, jobs=given.jobs))
    return int(runner.n_failed > 0)


def pick(given: argparse.Namespace) -> int:
    """Write what the rules pick."""
    from experiments.evidence import picks

    make_folder(given.out)
    picks.write(given.out, picks.all_picks(given.data, given.work))
    note(f"wrote {given.out / picks.FILE}")
    return 0


def report(given: argparse.Namespace) -> int:
    """Write the tables and the pictures."""
    from experiments.evidence import picks, tables
    from experiments.evidence.pictures import picture

    stored = picks.read(given.out)
    rows, chosen = {kind: usable(given.out, kind, stored) for kind in KINDS}, picks.sizes(stored)
    longer = usable(given.out / "longer", "lm", stored, LONGER)
    written = {given.out / "TABLES.md": tables.document(rows, chosen, longer).encode()}
    for name in PICTURES:
        measure = MEASURES[name]
        if drawn := [curve for curve in curves(rows[measure.kind], measure) if len(curve.sizes) > 2]:
            written[given.pictures / f"evidence-{measure.kind}.svg"] = picture(drawn, measure, chosen)
    make_folder(given.pictures)
    for path, content in written.items():
        with write_atomic(path) as file:
            file.write(content)
        note(f"wrote {path}")
    return 0


def usable(
    folder: Path, kind: str, stored: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The results of a kind that are of the usual recipe, and of the texts that the rules picked on.

    stored: what `picks.read` gives
    options: in which the recipe is another than usual
    """
    rows, more = read(folder / f"{kind}.jsonl"), tuple((options or {}).items())
    found = [row for row in rows if (row["kind"], row["key"]) == (kind, _wanted(row, stored, more))]
    if len(found) < len(rows):
        note(f"{kind}: {len(rows) - len(found)} results of other recipes, texts or kinds are left out")
    return found


def _wanted(row: Mapping[str, Any], stored: Mapping[str, Any], options: tuple[tuple[str, Any], ...]) -> str:
    if row["corpus"] not in stored or row["kind"] not in KINDS:
        return ""
    return Trial(row["kind"], row["corpus"], row["size"], row["seed"], options).key(stored[row["corpus"]]["text"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse arguments, and run or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="run trials")
    picking = commands.add_parser("picks", help="write what the rules pick")
    reports = commands.add_parser("report", help="write the tables and the pictures")
    for one in runs, picking:
        one.add_argument("--data", type=Path, required=True, help="holds multi30k, ted and bible")
        one.add_argument("--work", type=Path, default=Path("build/trials"), help="holds the texts of each corpus")
    for one in runs, picking, reports:
        one.add_argument("--out", type=Path, default=FOLDER, help="holds lm.jsonl, nmt.jsonl and picks.json")
    told = "no trial is begun that is known to end later"
    runs.add_argument("--hours", type=within(0, 10_000), required=True, help=told)
    runs.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    names = sorted({*NAMED["lm"], *NAMED["nmt"]})
    runs.add_argument("--corpora", nargs="+", choices=names, default=(), help="only these corpora and directions")
    runs.add_argument("--sizes", nargs="+", type=int, choices=sorted(SIZES), default=(), help="only these")
    runs.add_argument("--options", nargs="+", type=option, default=(), metavar="NAME=VALUE", help="of the recipes")
    runs.add_argument("--seeds", type=at_least(1, 1000), default=2)
    runs.add_argument("--jobs", type=at_least(1, 256), default=2, help="trials at a time")
    runs.add_argument("--nice", type=at_least(0, 19), default=10, help="how far trials let other processes go first")
    runs.add_argument("--device", type=options.device, default="cpu")
    runs.set_defaults(does=run)
    picking.set_defaults(does=pick)
    reports.add_argument("--pictures", type=Path, default=FOLDER.parents[1] / "docs/pages/pictures")
    reports.set_defaults(does=report)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that trials end with this process
    try:
        sys.exit(given.does(given))
    except (VoltError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
