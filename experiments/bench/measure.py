"""The harness of the benchmarks: commands → figures of fresh processes, one Markdown table, JSON.

    python experiments/bench/measure.py sleep 1        measure one run and print it as JSON

Each run starts in a small fresh wrapper process, which asks the kernel what the command used (`getrusage`): a process
inherits the peak memory of its parent, and figures of earlier children never go away. The runs of all jobs are
interleaved, so that other work on the machine affects all alike; rows measured beside other work are marked.

A command that prints JSON with `seconds` reports phases; a phase that holds a list counts with its median. With
`figures`, it reports works of its own (peers.py), of which the best run counts; with `stages`, shares of its time.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

BUSY = 0.2  # cores that other processes may use on average before a run is marked
MARK = "*"
PLAIN = ("make", "cpu", "start", "padding")  # phases that are shown as they are, not as speeds
WHOLE = ("wall", "cpu")
UNITS = {"padding": "%"}  # of phases that are no seconds


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
    """A command to measure. case, text, program: labels of its row, VOLT's programs start with volt;  amount, unit: of
    its work, 0 shows seconds instead of speeds;  phased: only the phases count;  warm_up: first run it once uncounted;
    max_runs: the most runs."""

    case: str
    text: str
    program: str
    command: Sequence[str]
    amount: float = 0.0
    threads: int = os.cpu_count() or 1
    env: Mapping[str, str] = field(default_factory=dict)
    unit: str = "MB"
    phased: bool = False
    warm_up: bool = False
    max_runs: int = sys.maxsize


@dataclass(slots=True)
class Row:
    """All runs of a job."""

    job: Job
    runs: list[Run] = field(default_factory=list)

    @property
    def error(self) -> str:
        return self.runs[-1].error if self.runs else "not installed"

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds of each phase, the median of runs."""
        measured = [_seconds(run, phased=self.job.phased) for run in self.runs]
        return {phase: median(one[phase] for one in measured) for phase in measured[0]}

    def middle(self, name: str) -> float:
        return median(getattr(run, name) for run in self.runs)


@dataclass(frozen=True, slots=True)
class Figure:
    """One cell. value: None if there is a note instead;  digest: of the result, equal for equal results;  stages: shares
    of the time."""

    work: str
    unit: str
    side: str
    value: float | None
    digest: str = ""
    stages: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def is_ours(self) -> bool:
        return self.side.startswith("volt")

    @property
    def cell(self) -> str:
        return f"{self.side} {self.note or number(self.value)}"


def report_of(run: Run) -> dict[str, Any]:
    """Return what a command has reported: the JSON of its last line, if that is an object."""
    last = run.stdout.strip().rpartition("\n")[2] if not run.stdout.startswith("{") else run.stdout
    return dict(json.loads(last)) if last.startswith("{") else {}


def _seconds(run: Run, *, phased: bool) -> dict[str, float]:
    phases = report_of(run).get("seconds", {})
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
    """Run all jobs round by round; a job stops when it fails or would take more than `budget` seconds in all. A job
    without a command is that of a program that is not installed."""
    rows = [Row(job) for job in jobs]
    for repeat in range(-1, repeats):
        for row in rows:
            job, spent = row.job, sum(one.wall for one in row.runs)
            is_over = repeat >= job.max_runs or (
                row.runs and (row.error or spent * (1 + 1 / len(row.runs)) > budget)
            )
            if is_over or not job.command or (repeat < 0 and not job.warm_up):
                continue
            one = run(job.command, env=environment(job.threads) | dict(job.env))
            labels = f"{job.case}, {job.text}, {job.program}, {job.threads} threads"
            say(f"{repeat + 1}/{repeats}  {labels}: {one.wall:.2f} s {one.error}")
            if repeat >= 0:
                row.runs.append(one)
    return rows


def environment(threads: int) -> dict[str, str]:
    names = ("RAYON_NUM_THREADS", "POLARS_MAX_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {
        **dict.fromkeys(names, str(threads)),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
    }


def absent_job(case: str, program: str) -> Job:
    """Make the row of a program that is not installed."""
    return Job(case, "", program, ())


def figures(rows: Iterable[Row]) -> list[Figure]:
    """Return the figures of all rows: speeds where an amount of work is known, else seconds; the best of their runs."""
    return [figure for row in rows for figure in figures_of(row)]


def figures_of(row: Row) -> list[Figure]:
    job = row.job
    mark = MARK if row.runs and row.middle("others") > BUSY else ""
    side = job.program + mark
    work = ", ".join(name for name in (job.case, job.text) if name)
    if row.error:
        return [Figure(work, "", side, None, note=short(row.error))]
    reports = [one for one in map(report_of, row.runs) if "figures" in one]
    if reports:
        by_work = defaultdict(list)
        for one in (one for report in reports for one in report["figures"]):
            by_work[one["work"], one["unit"]].append(one)
        return [best_of(job.case, side, some) for some in by_work.values()]
    stages = report_of(row.runs[0]).get("stages", {})  # of the work, for the row of its speed
    phases = row.seconds
    if not job.phased:  # phases are parts of the whole
        wall = phases["wall"]
        stages = {name: phases.pop(name) / wall for name in [*phases] if name not in WHOLE}
    result = []
    for phase, seconds in phases.items():
        is_plain = not job.amount or phase in PLAIN
        unit = UNITS.get(phase, "s") if is_plain else f"{job.unit}/s"
        value = seconds if is_plain else job.amount / seconds
        shares = {} if is_plain else stages
        result.append(Figure(f"{work}, {phase}", unit, side, value, stages=shares))
    if not job.phased:
        result.append(Figure(f"{work}, memory", "MB", side, row.middle("peak")))
    return result


def best_of(case: str, side: str, runs: Sequence[Mapping[str, Any]]) -> Figure:
    """Return the best run of a work that a child has reported."""
    unit = runs[0]["unit"]
    best = (max if is_speed(unit) else min)(runs, key=lambda one: one["value"])
    digests = {one["digest"] for one in runs}
    digest = digests.pop() if len(digests) == 1 else "runs differ"
    work = f"{case}, {best['work']}"
    return Figure(work, unit, side, best["value"], digest, best.get("stages", {}))


def is_speed(unit: str) -> bool:
    return unit.endswith("/s")


def short(error: str) -> str:
    """Return an error as the cell of a table: a module that is missing, or the start of the message."""
    if "No module named" in error:
        return "not installed"
    return error.replace("|", "/")[:60]


def publish(
    title: str, found: Sequence[Figure], *, packages: Sequence[str], path: Path | None
) -> None:
    facts = machine(*packages)
    print(f"{title}\n\n{describe(facts)}\n\n{as_table(found)}\n")
    print(f"{MARK} Other processes kept more than {BUSY} cores busy.")
    if path:
        rows = [asdict(figure) for figure in found]
        write_json(path, {"title": title, "machine": facts, "rows": rows})


def as_table(found: Iterable[Figure]) -> str:
    """Format figures, a row for each work: VOLT, its best peer, the ratio (above 1 VOLT is ahead), the other sides."""
    groups = defaultdict(list)
    for figure in found:
        groups[figure.work, figure.unit].append(figure)
    header = ["work", "unit", "VOLT", "best peer", "ratio", "equal", "other sides", "time by stage"]
    return markdown_table(header, map(_cells, groups.values()))


def _cells(group: Sequence[Figure]) -> list[str]:
    ours = next((one for one in group if one.is_ours and one.value), None)
    peers = [one for one in group if not one.is_ours]
    measured = sorted((one for one in peers if one.value), key=lambda one: one.value or 0.0)
    best = None
    if measured:
        best = measured[-1] if is_speed(group[0].unit) else measured[0]
    ratio = "–"
    if ours and best and ours.value and best.value:
        quotient = ours.value / best.value
        ratio = number(quotient if is_speed(ours.unit) else 1 / quotient)
    others = [one for one in group if one not in (ours, best)]
    stages = ours.stages if ours else {}
    return [
        group[0].work,
        group[0].unit,
        number(ours.value) if ours else "–",
        best.cell if best else "–",
        ratio,
        equality(ours, measured),
        ", ".join(one.cell for one in others) or "–",
        ", ".join(f"{name} {share:.0%}" for name, share in stages.items()) or "–",
    ]


def equality(ours: Figure | None, peers: Iterable[Figure]) -> str:
    """Say whether the results of all sides are equal, or whose differ."""
    compared = [one for one in peers if ours and ours.digest and one.digest]
    different = [one.side for one in compared if ours and one.digest != ours.digest]
    if different:
        return f"not {', '.join(different)}"
    return "yes" if compared else "–"


def number(value: float | None) -> str:
    """Format a figure with three digits.

    >>> number(1234.4), number(12.345), number(0.00123)
    ('1,234', '12.3', '0.00123')
    """
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def stages(call: Callable[[], object], *, n: int = 4) -> dict[str, float]:
    """Call a function in one thread, profiled; return the shares of the functions that took the most time themselves.

    A compiled loop counts as a function. Profiling slows Python down, and not compiled loops.
    """
    profile = cProfile.Profile(time.thread_time)
    profile.runcall(call)
    seconds = Counter[str]()
    for entry in profile.getstats():
        seconds[name_of(entry.code)] += entry.inlinetime
    return {name: share / seconds.total() for name, share in seconds.most_common(n)}


def name_of(code: Any) -> str:
    """Return the name of a profiled function.

    >>> name_of("<built-in method torch.from_numpy>"), name_of("<method 'collect' of 'LazyFrame' objects>")
    ('torch.from_numpy', 'collect')
    """
    if not isinstance(code, str):
        return str(code.co_name)
    return code.split("'")[1] if "'" in code else code.rstrip(">").rpartition(" ")[2]


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


def add_environments(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--with",
        dest="others",
        nargs="+",
        default=[],
        metavar="NAME,…=PYTHON",
        help="libraries of another environment, and its interpreter",
    )


def write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(json.dumps(asdict(run_in_wrapper(sys.argv[1:]))))
