"""Rate the rules of size choice: trial trainings, and the loss of each rule against the best tried size.

    python -m experiments.evidence run --data $VOLT_DATA --hours 2
    python -m experiments.evidence picks --data $VOLT_DATA
    python -m experiments.evidence report

`run` appends results to lm.jsonl in this folder, the most informative trials first, and skips finished ones; a kill
loses only the running trials. `picks` writes the picks of all rules on the same texts to picks.json, and `report`
TABLES.md and the pictures of the curves, also of the translations in nmt.jsonl. `make evidence HOURS=2` does all three.
One trial is repeated by `python -m experiments.lm.train`. The folder longer/ holds trials of language models with four
times the text: `--out experiments/evidence/longer --options characters=20000000`.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.evidence import picks
from experiments.evidence.curves import MEASURES, curves
from experiments.evidence.grid import LONGER, OPTIONS, Corpus, Trial, grid
from experiments.evidence.results import check, read
from experiments.evidence.running import Runner
from experiments.lm import data as lm_data
from volt.errors import ConfigError, VoltError
from volt.files.atomic import make_folder, write_atomic
from volt.trial.results import Results

FOLDER = Path(__file__).parent
KINDS = ("lm", "nmt")
PICTURES = ("text", "translation")  # the measures to draw


def option(text: str) -> tuple[str, Any]:
    """Read an option of the recipes.

    >>> option("characters=20000"), option("dropout=.10")
    (('characters', 20000), ('dropout', 0.1))
    """
    name, _, value = text.partition("=")
    if name not in OPTIONS:
        raise argparse.ArgumentTypeError(
            f"{text}: give NAME=VALUE, with {', '.join(OPTIONS)} as NAME"
        )
    return name, OPTIONS[name](value)


def run(given: argparse.Namespace) -> int:
    until = time.monotonic() + given.hours * 3600
    names = given.corpora or lm_data.CORPORA
    known = {name: Corpus.of(name, given.data, given.work) for name in names}
    with Results.open(given.out / "lm.jsonl", check) as results:
        trials = list(
            grid(
                corpora=[*known],
                sizes=given.sizes,
                seeds=given.seeds,
                options=dict(given.options),
                most={name: one.most for name, one in known.items()},
            )
        )
        if not trials:
            raise ConfigError("no trial has these corpora and sizes; leave one of them out")
        keys = {trial: trial.key(known[trial.corpus].text) for trial in trials}
        finished = sum(key in results for key in keys.values())
        note(f"{finished} of {len(trials)} trials are finished")
        runner = Runner(given.data, given.work, device=given.device, note=note, nice=given.nice)
        note(runner.run(trials, keys, results, until=until, jobs=given.jobs))
    return int(runner.n_failed > 0)


def pick(given: argparse.Namespace) -> int:
    make_folder(given.out)
    with write_atomic(given.out / picks.FILE) as file:
        file.write((json.dumps(picks.all_picks(given.data, given.work), indent=1) + "\n").encode())
    note(f"wrote {given.out / picks.FILE}")
    return 0


def report(given: argparse.Namespace) -> int:
    from experiments.evidence import tables
    from experiments.evidence.pictures import picture

    stored = picks.read(given.out)
    rows, chosen = {kind: usable(given.out, kind, stored) for kind in KINDS}, picks.sizes(stored)
    longer = usable(given.out / "longer", "lm", stored, LONGER)
    files = {given.out / "TABLES.md": tables.document(rows, chosen, longer).encode()}
    for measure in (MEASURES[name] for name in PICTURES):
        if drawn := [
            curve for curve in curves(rows[measure.kind], measure) if len(curve.sizes) > 2
        ]:
            files[given.pictures / f"evidence-{measure.kind}.svg"] = picture(drawn, measure, chosen)
    make_folder(given.pictures)
    for path, content in files.items():
        with write_atomic(path) as file:
            file.write(content)
        note(f"wrote {path}")
    return 0


def usable(
    folder: Path, kind: str, stored: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return the results of the usual recipe on the texts that the rules picked on.

    stored: of `picks.read`;  options: changes of the recipe
    """
    rows, more = read(folder / f"{kind}.jsonl"), tuple((options or {}).items())

    def is_usable(row: Mapping[str, Any]) -> bool:
        trial = Trial(row["kind"], row["corpus"], row["size"], row["seed"], more)
        return (
            row["kind"] == kind
            and row["corpus"] in stored
            and row["key"] == trial.key(stored[row["corpus"]]["text"])
        )

    kept = [row for row in rows if is_usable(row)]
    if len(kept) < len(rows):
        note(
            f"{kind}: {len(rows) - len(kept)} results of other recipes, texts or kinds are left out"
        )
    return kept


def note(line: str) -> None:
    # in one piece, because trials start in several threads
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="run trials")
    picking = commands.add_parser("picks", help="write the picks of the rules")
    reports = commands.add_parser("report", help="write the tables and the pictures")
    for one in runs, picking:
        one.add_argument("--data", type=Path, required=True, help="holds multi30k, ted and bible")
        one.add_argument(
            "--work", type=Path, default=Path("build/trials"), help="holds the texts of each corpus"
        )
    for one in runs, picking, reports:
        one.add_argument(
            "--out", type=Path, default=FOLDER, help="holds lm.jsonl, nmt.jsonl and picks.json"
        )
    runs.add_argument(
        "--hours", type=float, required=True, help="trials that would end later do not start"
    )
    runs.add_argument(
        "--corpora",
        nargs="+",
        default=(),
        help="only these, such as ted-fi, ted-fi/8, ted-fi+ted-et",
    )
    runs.add_argument("--sizes", nargs="+", type=int, default=(), help="only these")
    runs.add_argument(
        "--options", nargs="+", type=option, default=(), metavar="NAME=VALUE", help="of the recipes"
    )
    for name, value in {"seeds": 2, "jobs": 2, "nice": 10}.items():
        runs.add_argument(
            f"--{name}", type=int, default=value, help=f"of the trials (default {value})"
        )
    runs.add_argument("--device", default="cpu", help="cpu or cuda")
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
