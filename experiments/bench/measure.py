"""Command → what it costs as a whole process: wall and CPU seconds, peak memory, medians over repeats.

    python experiments/bench/measure.py sleep 1        one run, as JSON; also what `run` starts for every run

A fresh wrapper process runs the command and asks the kernel what it used (`getrusage(RUSAGE_CHILDREN)`): user and
system time of the command and all that it waited for, and the resident memory of the largest process among them. The
wrapper is small and fresh because a process starts with the peak of the one that it was forked from, and because the
figures of earlier children never go away. What other processes did meanwhile is noted: beside them a run is slower.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

BUSY = 0.2  # cores that other processes may use on average before a run is marked
MARK = "*"


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
class Summary:
    """Runs of one command → their medians; `fastest` and `slowest` are wall seconds."""

    wall: float
    cpu: float
    peak: float
    others: float
    fastest: float
    slowest: float
    n_runs: int

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Summary:
        """Summarise runs, of which there is at least one.

        >>> Summary.of([Run(3, 1, 9, 0), Run(1, 1, 9, 0), Run(2, 1, 9, 0)]).wall
        2
        """
        middle = {name: median(getattr(run, name) for run in runs) for name in ("wall", "cpu", "peak", "others")}
        walls = [run.wall for run in runs]
        return cls(**middle, fastest=min(walls), slowest=max(walls), n_runs=len(runs))

    @property
    def mark(self) -> str:
        """A mark if other processes were busy."""
        return MARK if self.others > BUSY else ""


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> Run:
    """Run a command in a fresh wrapper, with additions to the environment; one that fails gives a Run with `error`."""
    wrapper = [sys.executable, "-I", "-S", __file__, *command]
    done = subprocess.run(wrapper, env={**os.environ, **(env or {})}, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        return Run(0, 0, 0, 0, error=done.stderr.strip() or f"the wrapper ended with {done.returncode}")
    return Run(**json.loads(done.stdout))


def run_here(command: Sequence[str]) -> Run:
    """Run a command as this process's first child. Called in the wrapper."""
    import resource

    busy, start = busy_seconds(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace")
    wall, busy = time.perf_counter() - start, busy_seconds() - busy
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    unit = 1e6 if sys.platform == "darwin" else 1e6 / 1024  # ru_maxrss is in bytes there, in KiB elsewhere
    *_, last = done.stderr.strip().split("\n")
    error = f"exit {done.returncode}: {last}" if done.returncode else ""
    return Run(wall, cpu, used.ru_maxrss / unit, max(0.0, busy - cpu) / wall, done.stdout, error)


def busy_seconds() -> float:
    """CPU seconds that all processes of the machine have used so far; 0 where the kernel does not say."""
    try:
        first = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, first)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def machine(*packages: str) -> dict[str, Any]:
    """The facts without which a time means nothing: machine, versions of Python and of these packages, date, load."""
    from datetime import UTC, datetime
    from importlib.metadata import version

    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
        "date": datetime.now(UTC).date().isoformat(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n")
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def describe(facts: Mapping[str, Any]) -> str:
    """What `machine` returns, as one line."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    load = " ".join(map(str, facts["load"]))
    where = f"{facts['cpu']}, {facts['cores']} cores, {facts['system']}"
    return f"{facts['date']}, {where}, Python {facts['python']}, {versions}; load before: {load}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, n_text: int = 1) -> str:
    """A Markdown table, aligned in the source too; the first n_text columns to the left, the others to the right.

    >>> print(markdown_table(["program", "s"], [["volt", "1.5"]]))
    | program |   s |
    |---------|----:|
    | volt    | 1.5 |
    """
    table = [list(header), *map(list, rows)]
    widths = [max(3 if column else 0, *map(len, cells)) for column, cells in enumerate(zip(*table, strict=True))]
    rule = ["-" * (width + 2 - (i >= n_text)) + ":" * (i >= n_text) for i, width in enumerate(widths)]
    lines = [" | ".join(_padded(row, widths, n_text)) for row in table]
    return "\n".join([f"| {lines[0]} |", f"|{'|'.join(rule)}|", *(f"| {line} |" for line in lines[1:])])


def _padded(row: Sequence[str], widths: Sequence[int], n_text: int) -> list[str]:
    cells = zip(row, widths, strict=True)
    return [cell.ljust(width) if i < n_text else cell.rjust(width) for i, (cell, width) in enumerate(cells)]


def write_json(path: Path, data: object) -> None:
    """Write data as JSON, for people to read too."""
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(json.dumps(asdict(run_here(sys.argv[1:]))))
