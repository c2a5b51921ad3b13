"""`Comparison.as_data()` → a report as Markdown, or for a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

from volt.choose.report import seconds_line, signature_line, warning_lines
from volt.comparison.columns import Data, Table
from volt.comparison.tables import report_tables, warnings
from volt.display import Grid

if TYPE_CHECKING:
    from rich.console import RenderableType


def as_markdown(data: Data) -> str:
    """Return the report as Markdown, ending in a line end."""
    lines = ["# Vocabularies compared", ""]
    sentences = warnings(data)
    if sentences:
        lines += [*(f"- **{_escaped(sentence)}**" for sentence in sentences), ""]
    for table in report_tables(data):
        lines += [*_markdown(table), ""]
    facts = data["made"]
    lines += [
        f"volt {facts['volt']}, {facts['date']}, {facts['machine']}, {facts['n_cpus']} CPUs, "
        f"{facts['seconds']:.1f} s.  ",
        f"`{data['signature']}`",
        "",
    ]
    return "\n".join(lines)


def _markdown(table: Table) -> Iterator[str]:
    """Yield the lines of a table."""
    rows = [[cell.text for cell in row] for row in table.rows]
    if table.strong is not None:
        rows[table.strong][0] = f"**{rows[table.strong][0]}**"
    yield f"### {_escaped(table.caption)}"
    yield ""
    yield _markdown_row(column.head for column in table.columns)
    yield f"|{'|'.join('---:' if column.is_number else '---' for column in table.columns)}|"
    yield from map(_markdown_row, rows)
    if table.note:
        yield ""
        yield _escaped(table.note)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(text: str) -> str:
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def as_text(data: Data) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`."""
    from rich.console import Group
    from rich.text import Text

    lines: list[RenderableType] = []
    for table in report_tables(data, full=False):
        heads = [column.head for column in table.columns]
        cells = [[cell.text for cell in row] for row in table.rows]
        numbers = [place for place, column in enumerate(table.columns) if column.is_number]
        lines.append(Text(table.caption, style="bold"))
        lines.append(Grid(heads, cells, numbers=numbers, strong=table.strong))
        if table.note:
            lines.append(Text(table.note, style="dim"))
        lines.append("")
    lines += warning_lines(warnings(data))
    return Group(
        *lines,
        seconds_line({**data["search"]["seconds"], "total": data["made"]["seconds"]}),
        signature_line(data["signature"]),
    )
