r"""Progress bars, and a console for untrusted text. Imported only to print.

>>> import io
>>> console = SafeConsole(file=io.StringIO(), force_terminal=False)
>>> console.print("a\x1b[2Jb")
>>> console.file.getvalue()
'a\\x1b[2Jb\n'
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from volt.errors import visible

_OTHERS = re.compile("[^\n\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")


class SafeConsole(Console):
    """A rich console that prints control characters in texts as escapes."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if not segment.control:
                segment = segment._replace(text=harmless(segment.text))
            yield segment


def harmless(text: str) -> str:
    """Escape control characters and changes of text direction."""
    if text.isprintable():
        return text
    return _OTHERS.sub(lambda match: visible(match[0]), text)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.speed or 0
        unit = task.fields["unit"]
        if not speed or not unit:  # not known yet, or nothing is counted
            return Text("")
        if unit == "B":
            return Text(f"{speed / 1e6:,.0f} MB/s", style="dim")
        return Text(f"{speed:,.0f} {unit}/s", style="dim")


def bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        _Rate(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
