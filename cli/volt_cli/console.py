"""What all commands share: messages and progress on stderr, data on stdout, phases with their seconds, a quick start.

rich is imported where something is said or shown: a command that has nothing to say starts sooner without it.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from volt.kernels.ready import Job

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


@cache
def messages() -> Console:
    """The console on stderr; a terminal's lines break between words, those of a file or pipe do not break."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def output() -> Console:
    """A console on stdout; wide enough for its tables where stdout is a file or pipe."""
    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    return Console(highlight=False, width=None if is_terminal else 120, soft_wrap=not is_terminal)


def say(message: str) -> None:
    """Tell people something, on stderr."""
    from rich.text import Text

    messages().print(Text(message))


class Phases:
    """Runs the phases of a long job one after the other: a bar for each, and the seconds that each took."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.seconds: dict[str, float] = {}
        self._bar = None if quiet or not sys.stderr.isatty() else _bar()

    @contextmanager
    def phase(self, name: str, *, total: float | None = None, unit: str = "") -> Iterator[Callable[..., object]]:
        """Time a phase; what it yields takes the work done so far (and a new total) and moves the bar."""
        with self.timed(name):
            if self._bar is None:
                yield _show_nothing
            else:
                with _row(self._bar, name, total, unit) as advance:
                    yield advance

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time a phase that shows nothing, or what it shows itself."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def compiling(self) -> Iterator[Callable[[int, int], object]]:
        """Time compiling, with a line that moves; what it yields takes which loop of how many is being compiled."""
        with self.timed("compiling"):
            if self._bar is None:
                yield _show_nothing
            else:
                from volt_cli.bars import compiling_line

                with compiling_line(messages()) as advance:
                    yield advance


def _bar() -> Progress:
    from volt_cli.bars import bar

    return bar(messages())


@contextmanager
def _row(bar: Progress, name: str, total: float | None, unit: str) -> Iterator[Callable[..., object]]:
    """A phase's row of the display, gone when the phase ends; a phase may run within another."""
    with nullcontext() if bar.live.is_started else bar:
        task = bar.add_task(name, total=total, unit=unit)

        def advance(done: float, total: float | None = None) -> None:
            bar.update(task, completed=done, total=total)

        try:
            yield advance
        finally:
            bar.remove_task(task)


def _show_nothing(done: float, total: float | None = None) -> None:
    pass


@contextmanager
def loading() -> Iterator[None]:
    """Import libraries and read files without two things that only cost time meanwhile (experiments/bench/startup.py).

    The garbage collector looks through objects that all stay, again and again, and once more when the process ends;
    numpy's linear algebra starts a thread for each core, which then wait busily for work.
    """
    threads, collects = os.environ.get(_BLAS_THREADS), gc.isenabled()
    os.environ[_BLAS_THREADS] = threads or "1"
    gc.disable()
    try:
        yield
    finally:
        if threads is None:
            del os.environ[_BLAS_THREADS]
        if collects:
            gc.freeze()
            gc.enable()


def prepare_kernels(phases: Phases, *jobs: Job) -> None:
    """Load the compiled loops of jobs; the first time on a machine, say that they are being compiled."""
    with loading():
        from volt.kernels.ready import compile_kernels, missing, seconds_for

        absent = missing(*jobs)
        if not absent:
            compile_kernels(*jobs)  # loads them
            return
        seconds = seconds_for(absent)
        say(f"compiling, once on this machine: about {seconds} second{'s' * (seconds != 1)}")
        with phases.compiling() as advance:
            compile_kernels(*jobs, report=advance)
