"""One side of steps.py, timed in a process of its own: whole epochs from the first batch on.

    python experiments/bench/steps_sides.py SIDE FOLDER N_WORKERS SECONDS

Prints JSON: `first`, the time of day of the first batch; wall and processor seconds, of all its processes, from then
on, for as many whole epochs as take SECONDS or more; the cores that other processes kept busy meanwhile; and the
batches, rows, tokens and places that were counted. What is ahead when the clock starts is matched by what is ahead when
it stops, within a window.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import busy_seconds
from steps_data import WINDOW, Counted, Data
from stream import cpu_seconds

PATIENCE = 120  # seconds, after which a side has failed


@dataclass(frozen=True, slots=True)
class Side:
    """What is measured.

    make, count: names of functions of steps_peers, or of this module; needs: what must be installed, beside torch;
    workers: how many it is run with: processes, or threads of VOLT's, for which 0 is whoever reads
    """

    make: str
    count: str
    needs: tuple[str, ...] = ()
    workers: tuple[int, ...] = (1, 2)


SIDES = {
    "volt, text": Side("volt_text", "count_fairseq", workers=(0, 1, 2)),
    "volt, ids": Side("volt_ids", "count_fairseq", workers=(0, 1, 2)),
    "fairseq, ids": Side("fairseq", "count_fairseq"),
    "datasets, text": Side("datasets", "count_datasets", ("datasets", "tokenizers", "transformers")),
    "torchdata, text": Side("torchdata", "count_torchdata", ("torchdata", "sentencepiece")),
}


def volt_text(data: Data, n_workers: int) -> Iterator[Any]:
    """VOLT's steps of text."""
    return volt_steps(data, n_workers, data.shards("tsv"), holds="text")


def volt_ids(data: Data, n_workers: int) -> Iterator[Any]:
    """VOLT's steps of indexed ids, which end in EOS already."""
    paths = [str(data.folder / f"ids.{side}.bin") for side in ("src", "tgt")]
    return volt_steps(data, n_workers, paths, names=("src", "tgt"), eos=False)


def volt_steps(
    data: Data, n_workers: int, paths: list[str], *, names: tuple[str, ...] = (), **form: Any
) -> Iterator[Any]:
    """VOLT's steps of one source."""
    from volt.batches import ByTokens, SampleFormat, Steps, to_torch
    from volt.stream import Source, Stream

    source = Source("pairs", tuple(paths), names=names)
    stream = Stream([source], seed=1, n_workers=n_workers, cache=data.folder / "cache")
    samples = SampleFormat(dict.fromkeys(("src", "tgt"), str(data.folder / "joint.volt")), **form)
    steps = Steps(stream, samples, ByTokens(max_tokens=data.max_tokens), window=WINDOW, ahead=True)
    return map(to_torch, steps)


def measured(side: Side, data: Data, n_workers: int, seconds: float) -> dict[str, float]:
    """Run one."""
    import steps_peers

    found = globals() | vars(steps_peers)
    count: Callable[[Any], Counted] = found[side.count]
    batches = found[side.make](data, n_workers)
    next(batches)
    first, start, cpu, busy = time.time(), time.perf_counter(), cpu_seconds(os.getpgrp()), busy_seconds()
    totals, n_batches, goal = [0, 0, 0], 0, data.n_rows
    for batch in batches:
        totals, n_batches = [a + b for a, b in zip(totals, count(batch), strict=True)], n_batches + 1
        if totals[0] >= goal and time.perf_counter() >= start + seconds:
            break
        goal += data.n_rows * (totals[0] >= goal)
    wall, cpu, busy = time.perf_counter() - start, cpu_seconds(os.getpgrp()) - cpu, busy_seconds() - busy
    told = {"first": first, "seconds": wall, "cpu": cpu, "others": max(0.0, busy - cpu) / wall, "batches": n_batches}
    return told | Counted(*totals)._asdict()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    signal.alarm(PATIENCE)
    found = measured(SIDES[sys.argv[1]], Data.of(Path(sys.argv[2])), int(sys.argv[3]), float(sys.argv[4]))
    print(json.dumps(found), flush=True)
    os._exit(0)  # loaders without end are not waited for
