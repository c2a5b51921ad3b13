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
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

BUSY = 0.2  # cores that other processes may use on average before a run is marked
MARK = "*"
PLAIN = ("make", "cpu", "start", "padding %")  # phases that are shown as they are, not as speeds


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
    """A command to measure. case, text, program: labels of its row;  amount, unit: of its work, 0 shows seconds instead
    of speeds;  against: the program in the same case to which it is compared;  phased: only the phases count;  check:
    compares results after the first run;  warm_up: first run it once uncounted;  max_runs: the most runs."""

    case: str
    text: str
    program: str
    command: Sequence[str]
    amount: float = 0.0
    threads: int = os.cpu_count() or 1
    against: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    unit: str = "MB"
    phased: bool = False
    check: Callable[[], str] | None = None
    warm_up: bool = False
    max_runs: int = sys.maxsize


@dataclass(slots=True)
class Row:
    """The figures of a job. seconds: of each phase, the median;  runs: all;  equal: agreement of results;  ratios:
    seconds per unit divided by those of the compared row, by phase."""

    job: Job
    runs: list[Run] = field(default_factory=list)
    equal: str = ""
    ratios: dict[str, float] = field(default_factory=dict)

    @property
    def error(self) -> str:
        return self.runs[-1].error if self.runs else "not run"

    @property
    def seconds(self) -> dict[str, float]:
        if self.error:
            return {}
        measured = [_seconds(run, phased=self.job.phased) for run in self.runs]
        return {phase: median(one[phase] for one in measured) for phase in measured[0]}

    def middle(self, name: str) -> float:
        return median(getattr(run, name) for run in self.runs)


def _seconds(run: Run, *, phased: bool) -> dict[str, float]:
    text = run.stdout.strip()
    phases = json.loads(text)["seconds"] if text.startswith("{") else {}
    whole = {} if phased else {"wall": run.wall, "cpu": run.cpu}
    return whole | {
        name: median(times) if isinstance(times, list) else times for name, times in phases.items()
    }


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> Run:
    """Run a command in a fresh wrapper, with additions to the environment; a failure is a Run with `error`."""
    wrapper = [sys.executable, "-I", "-S", __file__, *command]
    done = subprocess.run(
        wrapper, env={**os.environ, **(env or {})}, capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode:
        return Run(
            0, 0, 0, 0, error=done.stderr.strip() or f"the wrapper ended with {done.returncode}"
        )
    return Run(**json.loads(done.stdout))


def run_in_wrapper(command: Sequence[str]) -> Run:
    import resource

    busy, start = busy_seconds(), time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", errors="replace"
    )
    wall, busy = time.perf_counter() - start, busy_seconds() - busy
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    # ru_maxrss is in bytes on macOS, in KiB elsewhere
    unit = 1e6 if sys.platform == "darwin" else 1e6 / 1024
    error = (
        f"exit {done.returncode}: {done.stderr.strip().rpartition(chr(10))[2]}"
        if done.returncode
        else ""
    )
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
    rows = [Row(job) for job in jobs]
    for repeat in range(-1, repeats):
        for row in rows:
            job, spent = row.job, sum(one.wall for one in row.runs)
            is_over = repeat >= job.max_runs or (
                row.runs and (row.error or spent * (1 + 1 / len(row.runs)) > budget)
            )
            if is_over or (repeat < 0 and not job.warm_up):
                continue
            one = run(job.command, env=environment(job.threads) | dict(job.env))
            labels = f"{job.case}, {job.text}, {job.program}, {job.threads} threads"
            say(f"{repeat + 1}/{repeats}  {labels}: {one.wall:.2f} s {one.error}")
            if repeat >= 0:
                row.runs.append(one)
            if job.check and repeat == 0 and not one.error:
                row.equal = job.check()
    return with_ratios(rows)


def environment(threads: int) -> dict[str, str]:
    names = ("RAYON_NUM_THREADS", "POLARS_MAX_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {
        **dict.fromkeys(names, str(threads)),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
    }


def with_ratios(rows: list[Row]) -> list[Row]:
    for row in rows:
        job = row.job
        alike = [one for one in rows if (one.job.case, one.job.program) == (job.case, job.against)]
        alike = [one for one in alike if one.job.threads == job.threads and not one.error]
        other = next(
            (one for one in alike if one.job.text == job.text), alike[0] if alike else None
        )
        if other:
            scale, theirs = (job.amount or 1.0) / (other.job.amount or 1.0), other.seconds
            row.ratios = {
                name: own / scale / theirs[name]
                for name, own in row.seconds.items()
                if theirs.get(name)
            }
    return rows


def publish(title: str, rows: Sequence[Row], *, packages: Sequence[str], path: Path | None) -> None:
    facts = machine(*packages)
    print(f"{title}\n\n{describe(facts)}\n")
    for case, group in groupby(rows, key=lambda row: row.job.case):
        print(f"### {case}\n\n{as_table(list(group))}\n")
    print(f"{MARK} Other processes kept more than {BUSY} cores busy.")
    if path:
        figures = [
            {
                name: getattr(row.job, name)
                for name in ("case", "text", "program", "amount", "unit", "threads")
            }
            | {"seconds": row.seconds, "ratios": row.ratios, "equal": row.equal, "error": row.error}
            | {"runs": [asdict(run) | {"stdout": ""} for run in row.runs]}
            for row in rows
        ]
        write_json(path, {"title": title, "machine": facts, "rows": figures})


def as_table(rows: Sequence[Row]) -> str:
    """Format rows: speeds where an amount of work is known, else seconds."""
    phases = list(dict.fromkeys(phase for row in rows for phase in row.seconds))
    unit = next((f"{row.job.unit}/s" for row in rows if row.job.amount), "s")
    labels = [
        f"{phase}, {'s' if phase in PLAIN else unit}" if "%" not in phase else phase
        for phase in phases
    ]
    header = ["program", "text", "threads", *labels, "peak MB", "runs", "ratio"]
    return markdown_table(header, [_cells(row, phases) for row in rows], n_text=2)


def _cells(row: Row, phases: Sequence[str]) -> list[str]:
    job, seconds = row.job, row.seconds
    if row.error:
        return [job.program, job.text, str(job.threads), *["–"] * len(phases), "–", "0", row.error]
    speeds = {
        name: job.amount / one if job.amount and name not in PLAIN else one
        for name, one in seconds.items()
        if one
    }
    notes = [f"{phase} {ratio:.2f}" for phase, ratio in row.ratios.items() if phase not in PLAIN]
    notes += [f"equal: {row.equal}"] if row.equal else []
    mark = MARK if row.middle("others") > BUSY else ""
    figures = [f"{speeds[phase]:,.2f}" if phase in speeds else "–" for phase in phases]
    labels = [job.program, job.text, f"{job.threads}{mark}"]
    return [
        *labels,
        *figures,
        f"{row.middle('peak'):,.0f}",
        str(len(row.runs)),
        ", ".join(notes) or "–",
    ]


def machine(*packages: str) -> dict[str, Any]:
    """Return the facts without which a time means nothing: machine, versions, date, load."""
    from datetime import UTC, datetime
    from importlib.metadata import distributions

    versions = {one.metadata["Name"]: one.version for one in distributions()}
    cpu = platform.processor()
    if (info := Path("/proc/cpuinfo")).exists():
        lines = (line for line in info.read_text().split("\n") if line.startswith("model name"))
        cpu = next(lines, f": {platform.machine()}").split(":", 1)[1].strip()
    return {
        "cores": os.cpu_count(),
        "cpu": cpu,
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: versions.get(name, "not installed") for name in packages},
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def describe(facts: Mapping[str, Any]) -> str:
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
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--repeats", type=int, default=repeats, help=f"runs of each row (default {repeats})"
    )
    made.add_argument("--json", type=Path, help="also write all figures to this file")
    return made


def write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(json.dumps(asdict(run_in_wrapper(sys.argv[1:]))))
