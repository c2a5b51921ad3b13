"""The bar that shows how far a phase has come, and how fast it goes. Only a terminal needs this module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text


class _Rate(ProgressColumn):
    """Things per second, in the task's unit, once that is known."""

    def render(self, task: Task) -> Text:
        speed, unit = task.speed or 0, task.fields["unit"]
        if not speed or not unit:  # not known yet, or nothing is counted
            return Text("")
        if unit == "B":
            return Text(f"{speed / 1e6:,.0f} MB/s", style="dim")
        return Text(f"{speed:,.0f} {unit}/s", style="dim")


def bar(console: Console) -> Progress:
    """An empty display on a console, gone when it ends; `volt_cli.console.Phases` adds a row for each phase."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(), _Rate(), TimeElapsedColumn(),
        console=console, transient=True,
    )  # fmt: skip


@contextmanager
def compiling_line(console: Console) -> Iterator[Callable[[int, int], None]]:
    """A line that moves, with the seconds so far, gone when it ends; what it yields takes which loop of how many."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as line:
        task = line.add_task("compiling", total=None)

        def advance(loop: int, n_loops: int) -> None:
            line.update(task, description=f"compiling loop {loop} of {n_loops}")

        yield advance
