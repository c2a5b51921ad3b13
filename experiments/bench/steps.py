"""Tokens per second from text, or from indexed ids, to padded torch batches: VOLT's `Steps` beside its peers.

    VENV/bin/python experiments/bench/steps.py [--seconds 2] [--repeats 3] [--json steps.json]
    VENV/bin/python experiments/bench/steps.py --sides "volt, text" "fairseq, ids"

VENV holds torch and, for one peer, datasets and transformers; sides whose packages are missing are left out. VOLT_DATA
names the folder of Multi30k. steps_volt.py describes the data; steps_peers.py and steps_shards.py describe the peers.

All sides read the same shuffled training pairs with one BPE vocabulary of both languages, exported to each library's
format. Tokens are those of source and target with EOS, without padding. Batches have at most --max-tokens places in
their longer side or, in libraries without such batches, as many rows as these have on average. Each run is a process,
measured from its first batch on for whole epochs that take --seconds or more. Workers are DataLoader processes, or
VOLT's threads (0: the reader's own). Rounds go through all sides in turn; figures are medians.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from measure import Job, absent_job, add_environments, figures, parser, publish, run_rounds, stages
from steps_volt import FACTS, Counted, Data, make_data

PACKAGES = (
    "volt-vocab",
    "numpy",
    "torch",
    "datasets",
    "tokenizers",
    "transformers",
    "grain",
    "litdata",
    "mosaicml-streaming",
)
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
PROFILED = 200  # batches
PATIENCE = 120  # seconds, after which a side has failed


@dataclass(frozen=True, slots=True)
class Side:
    """One loader. make, count: functions of the modules;  needs: packages beside torch;  workers: of its
    runs."""

    make: str
    count: str
    needs: tuple[str, ...] = ()
    workers: tuple[int, ...] = (1, 2)


SIDES = {
    "volt, text": Side("volt_text", "count_fairseq", workers=(0, 1, 2)),
    "volt, ids": Side("volt_ids", "count_fairseq", workers=(0, 1, 2)),
    "fairseq, ids": Side("fairseq", "count_fairseq"),
    "numpy, ids": Side("numpy", "count_gathered", workers=(0,)),
    "grain, ids": Side("grain", "count_gathered", ("grain", "array_record"), workers=(0, 1)),
    "litdata, ids": Side("litdata", "count_gathered", ("litdata",), workers=(0, 1)),
    "mosaicml, ids": Side("mosaicml", "count_gathered", ("streaming",), workers=(0, 1)),
    "volt, packed": Side("volt_packed", "count_volt_packed", workers=(0,)),
    "numpy, packed": Side("numpy_packed", "count_packed", workers=(0,)),
    "megatron, packed": Side("megatron_packed", "count_megatron", workers=(0, 1)),
    "grain, packed": Side("grain_packed", "count_packed", ("grain", "array_record"), workers=(0,)),
    "litdata, packed": Side("litdata_packed", "count_packed", ("litdata",), workers=(0,)),
    "mosaicml, packed": Side("mosaicml_packed", "count_packed", ("streaming",), workers=(0,)),
    "tokenizers, text": Side("tokenizers", "count_gathered", ("tokenizers",), workers=(0,)),
    "datasets mapped, text": Side(
        "mapped", "count_gathered", ("datasets", "tokenizers"), workers=(0, 1, 2)
    ),
    "datasets, text": Side(
        "datasets", "count_datasets", ("datasets", "tokenizers", "transformers")
    ),
}


def measure_side(name: str, folder: Path, n_workers: int, seconds: float) -> dict[str, Any]:
    """Read whole epochs from the first batch on, in this process; return the figures of a million tokens, and for VOLT
    where the time of a thread that does all the work goes."""
    import steps_peers
    import steps_shards
    import steps_volt
    from stream import cpu_seconds

    data = Data(folder, **json.loads((folder / FACTS).read_text()))
    side = SIDES[name]
    steps_shards.write_shards(data, name)
    start = time.perf_counter()
    functions = vars(steps_volt) | vars(steps_peers) | vars(steps_shards)
    count: Callable[[Any], Counted] = functions[side.count]
    batches = functions[side.make](data, n_workers)
    next(batches)
    first = time.perf_counter()
    first_cpu = cpu_seconds(os.getpgrp())
    totals = [0, 0, 0]
    goal = data.n_rows
    for batch in batches:
        totals = [a + b for a, b in zip(totals, count(batch), strict=True)]
        if totals[0] >= goal and time.perf_counter() >= first + seconds:
            break
        if totals[0] >= goal:
            goal += data.n_rows
    wall = time.perf_counter() - first
    cpu = cpu_seconds(os.getpgrp()) - first_cpu
    scale = 1e6 / totals[1]
    padding = 100 * (1 - totals[1] / totals[2])
    speeds = {"wall": wall * scale, "cpu": cpu * scale, "start": first - start, "padding": padding}
    result: dict[str, Any] = {"seconds": speeds}
    if name.startswith("volt"):
        alone = functions[side.make](data, 0, ahead=False)
        next(alone)
        result["stages"] = stages(lambda: list(islice(alone, PROFILED)))
    return result


def supervise(command: Sequence[str]) -> None:
    """Run a side in a process group of its own, print its figures, and end its endless loaders."""
    from stream import end

    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout
        line = next((line for line in process.stdout if line.startswith(b"{")), None)
    finally:
        end(process)
    sys.exit("the side failed" if line is None else print(line.decode()))


def jobs(
    names: Sequence[str],
    folder: Path,
    *,
    seconds: float,
    others: Sequence[str] = (),
    n_workers: Sequence[int] = (0, 1, 2),
) -> Iterator[Job]:
    """Make the rows of sides that are installed here, or in another environment: NAME,NAME=PYTHON."""
    pythons = {}
    for other in others:
        libraries, _, python = other.partition("=")
        pythons |= dict.fromkeys(libraries.split(","), python)
    for name in names:
        program, _, source = name.rpartition(", ")
        needs = ("torch", *SIDES[name].needs)
        python = pythons.get(program.split()[0], sys.executable)
        if python == sys.executable and any(find_spec(one) is None for one in needs):
            yield absent_job(f"steps from {source}", program)
            continue
        for n in sorted({*SIDES[name].workers} & {*n_workers}):
            yield Job(
                f"steps from {source}",
                f"{n} workers",
                program,
                [python, __file__, "supervise", name, str(folder), str(n), str(seconds)],
                1.0,
                threads=1,
                env=OFFLINE,
                unit="M tokens",
                phased=True,
            )


def main() -> None:
    from texts import temporary_folder

    made = parser(__doc__)
    made.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    made.add_argument("--seconds", type=float, default=2, help="least length of a run")
    made.add_argument(
        "--max-tokens", type=int, default=4096, help="places of a batch in its longer side"
    )
    made.add_argument("--size", type=int, default=8000, help="of the vocabulary")
    add_environments(made)
    made.add_argument("--languages", nargs=2, default=["de", "en"], help="source and target")
    given = made.parse_args()
    with temporary_folder() as folder:
        make_data(folder, languages=given.languages, size=given.size, max_tokens=given.max_tokens)
        todo = list(jobs(given.sides, folder, seconds=given.seconds, others=given.others))
        found = figures(run_rounds(todo, repeats=given.repeats))
        publish("From text or ids to padded batches", found, packages=PACKAGES, path=given.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["supervise"]:
        supervise([sys.executable, __file__, "side", *sys.argv[2:]])
    elif sys.argv[1:2] == ["side"]:
        signal.alarm(PATIENCE)
        report = measure_side(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
        print(json.dumps(report), flush=True)
        os._exit(0)  # without waiting for endless loaders
    else:
        main()
