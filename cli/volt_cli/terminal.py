r"""Progress bars, and a console for untrusted text. Imported only where a terminal needs it.

`SafeConsole` prints control characters in text as escapes; colours and cursor movements that rich writes pass.

>>> import io
>>> console = SafeConsole(file=io.StringIO(), force_terminal=False)
>>> console.print("a\x1b[2Jb")
>>> console.file.getvalue()
'a\\x1b[2Jb\n'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from volt.errors import visible

_OTHERS = re.compile("[^\n\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")


class SafeConsole(Console):
    """A rich console for tokens, lines, names and provenance as they come."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of what is shown, those with text made harmless."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def harmless(text: str) -> str:
    """Return a text with control characters, changes of direction and the like as escapes.

    >>> harmless("a\\u3000b\\n\\u202ec")
    'a\\u3000b\\n\\\\u202ec'
    """
    return text if text.isprintable() else _OTHERS.sub(lambda match: visible(match[0]), text)


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
    """Return an empty display on a console, gone when it ends; `volt_cli.console.Phases` adds a row for each phase."""
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
