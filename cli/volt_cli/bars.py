"""The bar that shows how far a phase has come, and how fast it goes. Only a terminal needs this module."""

from __future__ import annotations

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from volt_cli.console import messages


class _Rate(ProgressColumn):
    """Things per second, in the task's unit."""

    def render(self, task: Task) -> Text:
        speed, unit = task.speed or 0, task.fields["unit"]
        if unit == "B":
            return Text(f"{speed / 1e6:,.0f} MB/s", style="dim")
        return Text(f"{speed:,.0f} {unit}/s", style="dim")


def bar() -> Progress:
    """An empty display on stderr, gone when it ends; `volt_cli.console.Phases` adds a row for each phase."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(), _Rate(), TimeElapsedColumn(),
        console=messages(), transient=True,
    )  # fmt: skip
