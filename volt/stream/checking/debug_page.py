"""Lines before and after every step → one HTML file that shows them side by side, offline and to anyone.

A content security policy allows inline style and nothing else: no script, no network. All texts enter through an
autoescaped template, with what a browser does not show or obeys written out.

>>> from volt.stream.checking.trace import TraceStep
>>> step = TraceStep("upper", ("<script>",), ("<SCRIPT>",))
>>> page = debug_page([DebugLine("s", "a", 1, "<script>", (step,), (), ("<SCRIPT>",))], title="stream.yaml")
>>> "<script>" in page.lower(), "<ins>&lt;SCRIPT&gt;</ins>" in page
(False, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from volt.display import counted
from volt.errors import visible
from volt.stream.checking.debug import DebugLine, compared, plain


def debug_page(lines: Sequence[DebugLine], *, title: str) -> str:
    """The page as a string.

    lines: what every step did to each
    title: what stands above them, such as the name of the configuration
    """
    from jinja2 import Environment, StrictUndefined

    template = files("volt.stream.checking").joinpath("debug_page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["visible"] = visible
    n_dropped = sum(not line.text for line in lines)
    told = f"{counted(len(lines), 'line')}, of which {n_dropped:,} {'is' if n_dropped == 1 else 'are'} dropped"
    return environment.from_string(template).render(
        lines=lines, title=title, summary=told, compared=compared, plain=plain
    )
