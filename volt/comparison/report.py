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

from collections.abc import Iterable
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
from volt.text.layout import Entry, Grid, at_bars

if TYPE_CHECKING:
    from rich.console import RenderableType


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

    A table that is too wide is shown in parts, and each part repeats the first column. Print it with `crop=False`.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for found in report_tables(data, full=False):
        parts += [Text(found.caption, style="bold"), _grid(found)]
        parts += [Text(found.note, style="dim")] * bool(found.note) + [""]
    for warning in warnings(data):
        parts += [Text.assemble(("warning ", "bold yellow"), warning), ""]
    seconds = {**data["search"]["seconds"], "total": data["made"]["seconds"]}
    parts.append(Entry("seconds   ", [f"{phase} {value:.2f}" for phase, value in seconds.items()], gap="   "))
    parts.append(Entry("signature ", at_bars(data["signature"]), gap=""))
    return Group(*parts)


def _grid(table: Table) -> Grid:
    """A table, to be fitted to a terminal."""
    return Grid(
        [column.head for column in table.columns],
        [[cell.text for cell in row] for row in table.rows],
        numbers=[place for place, column in enumerate(table.columns) if column.is_number],
        strong=table.strong,
    )
