"""What all commands share: messages and progress on stderr, data on stdout, phases with their seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from volt.kernels.ready import Job

_COMPILATION: dict[Job, int] = {"search": 15, "encode": 10}
messages = Console(stderr=True, highlight=False, soft_wrap=True)


def output() -> Console:
    """A console on stdout; wide enough for its tables where stdout is a file or pipe."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def say(message: str) -> None:
    """Tell people something, on stderr."""
    messages.print(Text(message))


class _Rate(ProgressColumn):
    """Things per second, in the task's unit."""

    def render(self, task: Task) -> Text:
        speed, unit = task.speed or 0, task.fields["unit"]
        if unit == "B":
            return Text(f"{speed / 1e6:,.0f} MB/s", style="dim")
        return Text(f"{speed:,.0f} {unit}/s", style="dim")


class Phases:
    """Runs the phases of a long job one after the other: a bar for each, and the seconds that each took."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), _Rate(), TimeElapsedColumn(),
            console=messages, transient=True, disable=quiet or not messages.is_terminal,
        )  # fmt: skip

    @contextmanager
    def phase(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Callable[..., object]]:
        """Time a phase; what it yields takes the work done so far (and a new total) and moves the bar."""
        start = time.perf_counter()
        with self._progress:
            task = self._progress.add_task(name, total=total, unit=unit)

            def advance(done: float, total: float | None = None) -> None:
                self._progress.update(task, completed=done, total=total)

            try:
                yield advance
            finally:
                self._progress.remove_task(task)
                self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def prepare_kernels(phases: Phases, job: Job = "search") -> None:
    """Load the compiled loops; the first time on a machine, say that they are being compiled."""
    from volt.kernels.ready import compile_kernels, is_compiled

    if not is_compiled(job):
        say(f"compiling for {job}; this happens once and takes about {_COMPILATION[job]} seconds")
        with phases.phase("compiling"):
            compile_kernels(job)
