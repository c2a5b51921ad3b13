"""The harness of the benchmarks: commands → medians over fresh processes, a Markdown table, JSON.

    python experiments/bench/measure.py sleep 1        measure one run and print it as JSON

Each run starts in a small fresh wrapper process, which asks the kernel what the command used (`getrusage`): a process
inherits the peak memory of its parent, and figures of earlier children never go away. The runs of all jobs are
interleaved, so that other work on the machine affects all alike; rows measured beside other work are marked.

A command that prints JSON with `seconds` reports phases; a phase that holds a list counts with its median.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

BUSY = 0.2  # cores that other processes may use on average before a run is marked
MARK = "*"
WHOLE = ("make", "cpu")  # phases that are shown in seconds


@dataclass(frozen=True, slots=True)
class Run:
    """One run. wall, cpu: seconds;  peak: MB;  others: cores that other processes kept busy;  error: why it failed."""

    wall: float
    cpu: float
    peak: float
    others: float
    stdout: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A command to measure.

    case, text, program: the labels of its row
    mb: MB of text that it processes; 0 shows seconds instead of MB per second
    against: the program in the same case, on the same text, to which its row is compared
    phased: whether the command prints its phases and only these count
    check: compares the results after the first run and returns a few words
    warm_up: whether to run once more beforehand, uncounted
    max_runs: the largest number of runs
    """

    case: str
    text: str
    program: str
    command: Sequence[str]
    mb: float = 0.0
    threads: int = os.cpu_count() or 1
    against: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    phased: bool = False
    check: Callable[[], str] | None = None
    warm_up: bool = False
    max_runs: int = sys.maxsize

    @property
    def name(self) -> str:
        """All labels in one line."""
        return f"{self.case}, {self.text}, {self.program}, {self.threads} threads"


@dataclass(frozen=True, slots=True)
class Row:
    """The medians of a job.

    seconds, spread: of each phase, and its fastest and slowest run
    peak: MB of the largest process
    others: cores that other processes kept busy
    ratios: seconds per MB divided by those of `against`, by phase
    """

    case: str
    text: str
    program: str
    mb: float
    threads: int
    against: str
    seconds: dict[str, float] = field(default_factory=dict)
    spread: dict[str, list[float]] = field(default_factory=dict)
    peak: float = 0.0
    others: float = 0.0
    n_runs: int = 0
    ratios: dict[str, float] = field(default_factory=dict)
    equal: str = ""
    error: str = ""


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> Run:
    """Run a command in a fresh wrapper, with additions to the environment; a failure is a Run with `error`."""
    wrapper = [sys.executable, "-I", "-S", __file__, *command]
    done = subprocess.run(wrapper, env={**os.environ, **(env or {})}, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        return Run(0, 0, 0, 0, error=done.stderr.strip() or f"the wrapper ended with {done.returncode}")
    return Run(**json.loads(done.stdout))


def run_in_wrapper(command: Sequence[str]) -> Run:
    """Run a command as this process's first child."""
    import resource

    busy, start = busy_seconds(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace")
    wall, busy = time.perf_counter() - start, busy_seconds() - busy
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    unit = 1e6 if sys.platform == "darwin" else 1e6 / 1024  # ru_maxrss is in bytes on macOS, in KiB elsewhere
    error = f"exit {done.returncode}: {done.stderr.strip().rpartition(chr(10))[2]}" if done.returncode else ""
    return Run(wall, cpu, used.ru_maxrss / unit, max(0.0, busy - cpu) / wall, done.stdout, error)


def busy_seconds() -> float:
    """Return the CPU seconds that all processes of the machine have used; 0 where the kernel does not say."""
    try:
        first = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, first)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def run_rounds(jobs: Sequence[Job], *, repeats: int, budget: float = 1e9) -> list[Row]:
    """Run all jobs round by round; a job stops when it fails or would take more than `budget` seconds in all."""
    runs, equal = [list[Run]() for _ in jobs], [""] * len(jobs)
    for job in jobs:
        if job.warm_up:
            say(f"uncounted  {job.name} {run(job.command, env=environment(job)).error}")
    for repeat in range(repeats):
        for number, (job, done) in enumerate(zip(jobs, runs, strict=True)):
            spent, failed = sum(one.wall for one in done), any(one.error for one in done)
            if failed or repeat >= job.max_runs or (repeat and spent * (1 + 1 / repeat) > budget):
                continue
            done.append(run(job.command, env=environment(job)))
            say(f"{repeat + 1}/{repeats}  {job.name}: {done[-1].wall:.2f} s {done[-1].error}")
            if job.check and not repeat and not done[-1].error:
                equal[number] = job.check()
    return with_ratios(
        [replace(_row(job, done), equal=same) for job, done, same in zip(jobs, runs, equal, strict=True)]
    )


def environment(job: Job) -> dict[str, str]:
    """Return the variables that limit the threads of libraries, and those of the job."""
    names = ("RAYON_NUM_THREADS", "POLARS_MAX_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    parallel = "true" if job.threads > 1 else "false"
    return {**dict.fromkeys(names, str(job.threads)), "TOKENIZERS_PARALLELISM": parallel, **job.env}


def _row(job: Job, runs: Sequence[Run]) -> Row:
    row = Row(job.case, job.text, job.program, job.mb, job.threads, job.against)
    error = next((one.error for one in runs if one.error), "")
    if error or not runs:
        return replace(row, error=error or "not run")
    measured = [_seconds(one, phased=job.phased) for one in runs]
    phases = {phase: [one[phase] for one in measured if phase in one] for phase in measured[0]}
    return replace(
        row,
        seconds={phase: median(times) for phase, times in phases.items()},
        spread={phase: [min(times), max(times)] for phase, times in phases.items()},
        peak=median(one.peak for one in runs), others=median(one.others for one in runs), n_runs=len(runs),
    )  # fmt: skip


def _seconds(one: Run, *, phased: bool) -> dict[str, float]:
    text = one.stdout.strip()
    phases = json.loads(text)["seconds"] if text.startswith("{") else {}
    whole = {} if phased else {"wall": one.wall, "cpu": one.cpu}
    return whole | {name: median(times) if isinstance(times, list) else times for name, times in phases.items()}


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """Divide the seconds per MB of rows by those of the rows that they are compared with.

    >>> ours, theirs = (Row("ids", "a", name, 2.0, 1, "volt", {"warm": s}) for name, s in (("volt", 1.0), ("hf", 3.0)))
    >>> with_ratios([ours, theirs])[1].ratios
    {'warm': 3.0}
    """
    known = {(row.case, row.text, row.program, row.threads): row for row in rows}
    any_text = {(row.case, row.program, row.threads): row for row in reversed(rows)}
    compared = []
    for row in rows:
        other = known.get((row.case, row.text, row.against, row.threads))
        other = other or any_text.get((row.case, row.against, row.threads))
        shared = [name for name in row.seconds if other and other.seconds.get(name)]
        scale = (row.mb or 1.0) / ((other.mb if other else 0) or 1.0)
        ratios = {name: row.seconds[name] / scale / other.seconds[name] for name in shared} if other else {}
        compared.append(replace(row, ratios=ratios))
    return compared


def publish(title: str, rows: Sequence[Row], *, packages: Sequence[str], path: Path | None) -> None:
    """Print a table for each case, and write all figures as JSON."""
    facts = machine(*packages)
    print(f"{title}\n\n{describe(facts)}\n")
    for case, group in groupby(rows, key=lambda row: row.case):
        print(f"### {case}\n\n{as_table(list(group))}\n")
    if any(row.others > BUSY for row in rows):
        print(f"{MARK} Other processes kept more than {BUSY} cores busy.")
    if path:
        write_json(path, {"title": title, "machine": facts, "rows": [asdict(row) for row in rows]})


def as_table(rows: Sequence[Row]) -> str:
    """Format rows: MB/s where text is processed, else seconds."""
    phases = list(dict.fromkeys(phase for row in rows for phase in row.seconds))
    unit = "MB/s" if any(row.mb for row in rows) else "s"
    header = [
        "program",
        "text",
        "threads",
        *(f"{phase}, {'s' if phase in WHOLE else unit}" for phase in phases),
        "peak MB",
        "runs",
    ]
    header += ["ratio, equal"] * any(row.ratios or row.error for row in rows)
    return markdown_table(header, [_cells(row, phases)[: len(header)] for row in rows], n_text=2)


def _cells(row: Row, phases: Sequence[str]) -> list[str]:
    names = [row.program, row.text, f"{row.threads}{MARK if row.others > BUSY else ''}"]
    figures = [_figure(row.seconds.get(phase, 0), row.mb * (phase not in WHOLE)) for phase in phases]
    ratios = [f"{phase} {ratio:.2f}" for phase, ratio in row.ratios.items() if phase != "make"]
    notes = [*ratios, f"equal: {row.equal}"] if row.equal else ratios
    return [*names, *figures, f"{row.peak:,.0f}", str(row.n_runs), row.error or ", ".join(notes) or "–"]


def _figure(seconds: float, mb: float) -> str:
    if not seconds:
        return "–"
    return f"{mb / seconds:,.1f}" if mb else f"{seconds:.2f}"


def machine(*packages: str) -> dict[str, Any]:
    """Return the facts without which a time means nothing: machine, versions, date, load."""
    from datetime import UTC, datetime
    from importlib.metadata import PackageNotFoundError, version

    def version_of(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    return {
        "cores": os.cpu_count(), "cpu": _cpu_model(), "system": platform.platform(terse=True),
        "python": platform.python_version(), "versions": {name: version_of(name) for name in packages},
        "date": datetime.now(UTC).date().isoformat(), "load": [round(load, 2) for load in os.getloadavg()],
    }  # fmt: skip


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n")
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def describe(facts: Mapping[str, Any]) -> str:
    """Format what `machine` returns as one line."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    where = f"{facts['cpu']}, {facts['cores']} cores, {facts['system']}"
    return f"{facts['date']}, {where}, Python {facts['python']}, {versions}; load {' '.join(map(str, facts['load']))}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, n_text: int = 1) -> str:
    """Format a Markdown table; the first n_text columns are aligned left, the others right.

    >>> print(markdown_table(["program", "s"], [["volt", "1.5"]]))
    | program | s |
    | --- | --: |
    | volt | 1.5 |
    """
    rule = ["---" if column < n_text else "--:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows])


def parser(description: str | None, *, repeats: int = 3) -> argparse.ArgumentParser:
    """Make a parser with the options of all benchmarks."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--repeats", type=int, default=repeats, help=f"runs of each row (default {repeats})")
    made.add_argument("--json", type=Path, help="also write all figures to this file")
    return made


def write_json(path: Path, data: object) -> None:
    """Write data as indented JSON."""
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def say(message: str) -> None:
    """Write a message to stderr."""
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(json.dumps(asdict(run_in_wrapper(sys.argv[1:]))))
