"""`make bench`: one table of encoding, learning, streams and steps, beside every peer that is installed.

    VOLT_DATA=DIR python experiments/bench [--with NAME,…=PYTHON …] [--model NAME=FILE …] [--jobs encode steps] [--json OUT]

With the defaults it takes about five minutes on two cores. Peers of other environments take part through --with: the
libraries of encode.py, those of steps.py (datasets, grain, litdata, mosaicml), and sotastream. A row shows VOLT, its best
peer, the ratio (above 1, VOLT is ahead), whether ids are equal, the other sides, and where VOLT's time goes. The
scripts of this folder measure each part at greater length.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import encode
import learn
import steps
import stream
from measure import Figure, figures, parser, publish, run_rounds, say
from steps_volt import make_data
from texts import data_folder, natural, temporary_folder

LEFT_OUT = (", start", ", padding")
WORKS = ("load", "one string", "document", "lines", "spans", "decode")
PIPELINES = ["default", "filters"]
SIDES = tuple(name for name in steps.SIDES if not name.endswith("packed"))


def interpreter(options: Namespace, name: str) -> str:
    """Return the interpreter that --with names for a peer, or nothing."""
    for other in options.others:
        names, _, python = other.partition("=")
        if name in names.split(","):
            return str(python)
    return ""


def encoding(options: Namespace, folder: Path) -> list[Figure]:
    return encode.measured(options, folder, repeats=options.repeats, works=WORKS)


def learning(options: Namespace, folder: Path) -> list[Figure]:
    text = natural(folder, mb=options.learn_mb)
    gigatoken = interpreter(options, "gigatoken")
    todo = learn.byte_jobs(text, 32_000, folder=folder, gigatoken=gigatoken)
    return figures(run_rounds(list(todo), repeats=1))


def streaming(options: Namespace, folder: Path) -> list[Figure]:
    """Measure streams of Multi30k; sotastream may be in another environment."""
    sotastream = interpreter(options, "sotastream")
    choice = Namespace(
        config=None,
        pipelines=PIPELINES,
        lines=[data_folder() / f"multi30k/train.{language}.gz" for language in ("de", "en")],
        n_shards=4,
        workers=[1],
        peers=Path(sotastream).absolute().parent.parent if sotastream else None,
        seconds=2,
    )
    return figures(run_rounds(list(stream.jobs(choice, folder)), repeats=options.repeats))


def stepping(options: Namespace, folder: Path) -> list[Figure]:
    make_data(folder, languages=("de", "en"), size=8_000, max_tokens=4096)
    todo = steps.jobs(SIDES, folder, seconds=1, others=options.others, n_workers=(0, 1))
    return figures(run_rounds(list(todo), repeats=1))


JOBS: dict[str, Callable[[Namespace, Path], list[Figure]]] = {
    "encode": encoding,
    "learn": learning,
    "stream": streaming,
    "steps": stepping,
}


def main() -> None:
    made = parser(__doc__, repeats=2)
    encode.add_options(made)
    made.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    made.add_argument(
        "--learn-mb", type=float, default=32.0, help="text to learn from (default 32)"
    )
    options = made.parse_args()
    found = list[Figure]()
    for name in options.jobs:
        with temporary_folder() as folder:
            say(name)
            found += JOBS[name](options, folder)
    found = [figure for figure in found if not figure.work.endswith(LEFT_OUT)]
    publish("VOLT beside its peers", found, packages=encode.PACKAGES, path=options.json)


if __name__ == "__main__":
    sys.exit(main())
