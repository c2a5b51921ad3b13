"""`Comparison.as_data()` → its tables for a terminal of any width, and as Markdown.

>>> from volt.comparison.tables import SIZE, table
>>> sizes = table("sizes", "Sizes", [SIZE], [{"size": 1000}, {"size": 2000}], strong=lambda row: row["size"] == 2000)
>>> print(_markdown(sizes))
### Sizes
<BLANKLINE>
| size |
|---:|
| 1,000 |
| **2,000** |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volt.comparison.tables import (
    Data,
    Table,
    chosen_source_tables,
    corpus_table,
    cost_table,
    measures_by_source,
    study_tables,
    system_tables,
)

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

GAP = 2  # spaces between columns


def report_tables(data: Data, *, full: bool = True) -> list[Table]:
    """The brief tables of a comparison's data, empty ones left out. full: also those by source of every measure."""
    tables = [corpus_table(data), cost_table(data), *system_tables(data)]
    if len(data["corpus"]["sources"]) > 1:
        tables += [*chosen_source_tables(data), *measures_by_source(data, full=full)]
    return [found.brief() for found in (*tables, *study_tables(data)) if found.rows]


def warnings(data: Data) -> list[str]:
    """What to know before trusting the numbers: what could not be made, then the search's and the study's warnings."""
    return list(dict.fromkeys((*data["problems"], *data["search"]["warnings"], *data["study"]["warnings"])))


def as_markdown(data: Data) -> str:
    """The report as Markdown, ending in a line end."""
    made = data["made"]
    parts = ["# Vocabularies compared", ""]
    parts += [f"- **{_escaped(warning)}**" for warning in warnings(data)] + [""] * bool(warnings(data))
    for found in report_tables(data):
        parts += [_markdown(found), ""]
    parts.append(
        f"volt {made['volt']}, {made['date']}, {made['machine']}, {made['n_cpus']} CPUs, {made['seconds']:.1f} s.  \n"
        f"`{data['signature']}`"
    )
    return "\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    rules = ("---:" if column.is_number else "---" for column in table.columns)
    lines = [
        f"### {_escaped(table.caption)}",
        "",
        _line(column.head for column in table.columns),
        f"|{'|'.join(rules)}|",
    ]
    for number, row in enumerate(table.rows):
        first, *rest = (cell.text for cell in row)
        lines.append(_line([f"**{first}**" if number == table.strong else first, *rest]))
    return "\n".join([*lines, *(["", _escaped(table.note)] if table.note else [])])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(text: str) -> str:
    """A text that Markdown shows as it is, in a table as well.

    >>> _escaped("a|b <i>")
    'a\\\\|b &lt;i&gt;'
    """
    plain = " ".join(text.split())
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "\\|")


def as_text(data: Data) -> RenderableType:
    """The report for a rich console.

    A table that is too wide is shown in parts, and each part repeats the first column.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for found in report_tables(data, full=False):
        parts += [Text(found.caption, style="bold"), _Fitted(found)]
        parts += [Text(found.note, style="dim")] * bool(found.note) + [""]
    for warning in warnings(data):
        parts += [Text.assemble(("warning ", "bold yellow"), warning), ""]
    spent = "   ".join(f"{phase} {value:.2f}" for phase, value in data["search"]["seconds"].items())
    parts.append(Text.assemble(("seconds   ", "dim"), spent, f"   total {data['made']['seconds']:.2f}"))
    parts.append(Text.assemble(("signature ", "dim"), data["signature"]))
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A table that is cut into parts, one below the other, where the console is narrower than it is."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for columns in column_parts(_widths(self.table), options.max_width):
            yield _part(self.table, columns)


def _widths(table: Table) -> list[int]:
    """Characters that each column takes."""
    texts = [[column.head for column in table.columns], *([cell.text for cell in row] for row in table.rows)]
    return [max(map(len, column)) for column in zip(*texts, strict=True)]


def column_parts(widths: Sequence[int], room: int) -> list[list[int]]:
    """Which columns stand together where there is so much room; the first column is in every part.

    >>> column_parts([6, 5, 5, 5], 20), column_parts([6, 5, 5, 5], 40)
    ([[0, 1, 2], [0, 3]], [[0, 1, 2, 3]])
    """
    parts, left = [[0]], room - widths[0]
    for column, width in enumerate(widths[1:], 1):
        if width + GAP > left and len(parts[-1]) > 1:
            parts.append([0])
            left = room - widths[0]
        parts[-1].append(column)
        left -= width + GAP
    return parts


def _part(table: Table, columns: Sequence[int]) -> RenderableType:
    """Some columns of a table."""
    from rich.table import Table as RichTable
    from rich.text import Text

    part = RichTable(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for column in (table.columns[place] for place in columns):
        part.add_column(Text(column.head), justify="right" if column.is_number else "left", overflow="fold")
    for number, row in enumerate(table.rows):
        style = "bold green" if number == table.strong else ""
        part.add_row(*(Text(row[place].text) for place in columns), style=style)
    return part
