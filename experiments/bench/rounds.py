"""Jobs → rows: whole processes, round by round, so that what else the machine does strikes all alike.

A job's command either prints `{"seconds": {phase: seconds}, …}`, or is a program whose wall time is what counts. A row
holds the medians of its runs, and how many times slower it was than the row that it is compared with.

>>> row = Row("ids", "a", "gigatoken", mb=2.0, seconds={"warm": 0.5}, against="volt")
>>> with_ratios([row, Row("ids", "a", "volt", mb=2.0, seconds={"warm": 0.25})])[0].ratios
{'warm': 2.0}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from measure import Run, machine, run, write_json
from rows import FORMAT, Claim, Row


@dataclass(frozen=True, slots=True)
class Job:
    """What is run. mb: MB of text it works through;  against: the program in the same case and with as many threads
    whose seconds per MB its own are divided by, on the same text or on `against_text`;  phased: whether it prints its
    phases;  check: called after the first run, says how equal the results are;  max_runs: how often at most."""

    case: str
    text: str
    program: str
    command: Sequence[str]
    mb: float = 0.0
    threads: int = 1
    against: str = ""
    against_text: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    phased: bool = True
    check: Callable[[], str] | None = None
    max_runs: int = sys.maxsize
    note: str = ""


def run_rounds(jobs: Sequence[Job], *, n_repeats: int, budget: float = 20.0) -> list[Row]:
    """Every job n times, round by round; fewer once a job has taken `budget` seconds in all, or failed."""
    runs = [list[Run]() for _ in jobs]
    equal = [""] * len(jobs)
    for repeat in range(min(n_repeats, max((job.max_runs for job in jobs), default=0))):
        for number, (job, done) in enumerate(zip(jobs, runs, strict=True)):
            spent = sum(one.wall for one in done)
            if (
                repeat >= job.max_runs
                or any(one.error for one in done)
                or (repeat and spent * (1 + 1 / repeat) > budget)
            ):
                continue
            done.append(run(job.command, env=threads_env(job.threads) | dict(job.env)))
            say(f"{repeat + 1}/{n_repeats}  {_label(job)}: {done[-1].wall:.2f} s in all {done[-1].error}")
            if job.check and not repeat and not done[-1].error:
                equal[number] = job.check()
    rows = [replace(_row(job, done), equal=same) for job, done, same in zip(jobs, runs, equal, strict=True)]
    return with_ratios(rows)


def threads_env(n: int) -> dict[str, str]:
    """What tells libraries how many threads they may use."""
    names = ("RAYON_NUM_THREADS", "POLARS_MAX_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {**{name: str(n) for name in names}, "TOKENIZERS_PARALLELISM": "true" if n > 1 else "false"}


def _label(job: Job) -> str:
    return f"{job.case}, {job.text}, {job.program}, {job.threads} threads"


def _row(job: Job, runs: Sequence[Run]) -> Row:
    row = Row(job.case, job.text, job.program, job.mb, job.threads)
    row = replace(row, against=job.against, against_text=job.against_text or job.text, note=job.note)
    error = next((one.error for one in runs if one.error), "")
    if error or not runs:
        return replace(row, error=error or "not run")
    found = [_phases(one) if job.phased else {"wall": one.wall} for one in runs]
    seconds = {phase: [one[phase] for one in found if phase in one] for phase in found[0]}
    return replace(
        row,
        seconds={phase: median(times) for phase, times in seconds.items()},
        spread={phase: [min(times), max(times)] for phase, times in seconds.items()},
        peak=median(one.peak for one in runs),
        others=median(one.others for one in runs),
        n_runs=len(runs),
    )


def _phases(one: Run) -> dict[str, float]:
    """Seconds of phases; where a phase was measured several times, the median."""
    found = json.loads(one.stdout.strip().split("\n")[-1])["seconds"]
    return {phase: median(times) if isinstance(times, list) else times for phase, times in found.items()}


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """Rows with their seconds per MB divided by those of the rows that they are compared with, phase by phase."""
    known = {(row.case, row.text, row.program, row.threads): row for row in rows}
    others = (known.get((row.case, row.against_text or row.text, row.against, row.threads)) for row in rows)
    return [row if other is None else _compared(row, other) for row, other in zip(rows, others, strict=True)]


def _compared(row: Row, other: Row) -> Row:
    longer = (row.mb or 1.0) / (other.mb or 1.0)
    shared = [phase for phase in row.seconds if phase in other.seconds]
    return replace(row, ratios={phase: row.seconds[phase] / longer / other.seconds[phase] for phase in shared})


def find(rows: Iterable[Row], *, case: str, program: str, text: str, threads: int) -> Row | None:
    """The row of that measurement, if it was made."""
    wanted = case, program, text, threads
    found = (row for row in rows if (row.case, row.program, row.text, row.threads) == wanted and not row.error)
    return next(found, None)


def as_data(script: str, rows: Sequence[Row], claims: Sequence[Claim], *, packages: Sequence[str]) -> dict[str, Any]:
    """All figures as JSON values."""
    return {
        "format": FORMAT,
        "script": script,
        "machine": machine(*packages),
        "rows": [asdict(row) for row in rows],
        "claims": [asdict(claim) for claim in claims],
    }


def publish(data: dict[str, Any], path: Path | None) -> None:
    """Print as Markdown, and write as JSON."""
    from table import as_markdown

    print(as_markdown([data]))
    if path:
        write_json(path, data)


def say(message: str) -> None:
    """Tell people, not pipes."""
    print(message, file=sys.stderr, flush=True)
