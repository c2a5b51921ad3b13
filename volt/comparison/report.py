"""`Comparison.as_data()` → tables, for a terminal of any width and as Markdown. No number is computed here.

>>> grid = Grid("sizes", ("size", "kept"), (("1,000", "990"), ("2,000", "1,950")))
>>> print(_markdown(grid))
### sizes
<BLANKLINE>
| size | kept |
|---:|---:|
| 1,000 | 990 |
| 2,000 | 1,950 |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

Data = Mapping[str, Any]
Column = tuple[str, Callable[[Data], str]]
GAP = 2  # spaces between columns


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text. chosen: the row that stands out, if any;  note: a line below;  left: columns that start left."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    chosen: int | None = None
    note: str = ""
    left: tuple[int, ...] = ()

    def widths(self) -> list[int]:
        """Characters that each column takes."""
        return [max(map(len, column)) for column in zip(self.headings, *self.rows, strict=True)]


def _number(key: str, spec: str, *, scale: float = 1.0, none: str = "–") -> Callable[[Data], str]:
    """Writes one field of a row."""

    def write(row: Data) -> str:
        value = row[key]
        return none if value is None else format(value if scale == 1 else value * scale, spec)

    return write


MEASURES: tuple[Column, ...] = (
    ("pieces", _number("n_pieces", ",.0f")),
    ("Mbit", _number("bits", ",.2f", scale=1e-6)),
    ("entropy", _number("entropy", ".4f")),
    ("MUV·10⁶", _number("muv_from_atoms", ",.1f", scale=1e6)),
    ("fert.", _number("fertility", ".3f")),
    ("cut %", _number("continued_word_rate", ".1f", scale=100)),
    ("Rényi", _number("renyi", ".3f")),
    ("F95", _number("f95", ",.0f")),
    ("D", _number("divergence", ".3f")),
    ("3–83", _number("percentile_frequency", ".3f")),
    ("rare %", _number("rare_share", ".1f", scale=100)),
    ("unk. %", _number("unknown_rate", ".2f", scale=100)),
)
LEGEND = (
    "Mbit: pieces · log₂ size. entropy: Eq. 2, nats per character. MUV: Eq. 1 from the characters up. fert.: pieces "
    "per word. cut: words of more than one piece. F95: count of the 95th-percentile type. D: distance from uniform. "
    "3–83: share of the types between these percentiles. rare: types seen fewer than 100 times. unk.: unknown pieces."
)
_SOURCE_ONLY: tuple[Column, ...] = (
    ("parity", _number("parity", ".3f")),
    ("premium", _number("premium", ".3f")),
)


def grids(data: Data, *, full: bool = True) -> Iterator[Grid]:
    """The tables of a comparison's data. full: also those by source for every system, not the chosen one alone."""
    systems = data["systems"]
    chosen = next((index for index, system in enumerate(systems) if system["name"] == data["chosen"]), None)
    yield _corpus(data)
    yield _costs(systems, chosen)
    yield _measures("training text", systems, "training", chosen, note=LEGEND)
    if any(system["heldout"] for system in systems):
        yield _measures("held-out text", systems, "heldout", chosen)
    if len(data["corpus"]["sources"]) > 1:
        yield from _by_source(data, chosen, full=full)
    yield from _study(data["study"])


def _corpus(data: Data) -> Grid:
    headings = ("text", "lines", "words", "distinct", "characters")
    rows = []
    for label, facts in (("training", data["corpus"]), ("held-out", data["heldout"])):
        for source in facts["sources"] if facts else ():
            numbers = (source[key] for key in ("lines", "words", "distinct_words", "characters"))
            rows.append((f"{label} {source['name']}", *(f"{number:,}" for number in numbers)))
    return Grid("corpus", headings, tuple(rows), left=(0,))


def _costs(systems: Sequence[Data], chosen: int | None) -> Grid:
    columns: tuple[Column, ...] = (
        ("size", _number("size", ",")),
        ("scaffolding", _number("n_scaffolding", ",")),
        ("MUV step·10⁶", lambda row: _number("muv", ",.1f", scale=1e6)(row["training"])),
        ("seconds", _number("seconds", ".2f")),
        ("MB", _number("memory_mb", ",.0f")),
        ("edge", lambda row: "edge" if row["on_edge"] else ""),
        ("why", lambda row: row["why"]),
    )
    rows = tuple((row["name"], *(write(row) for _, write in columns)) for row in systems)
    notes = dict.fromkeys(f"{row['family']}: {row['cost_note']}" for row in systems)
    note = "MUV step: Eq. 1 against the step before. Seconds and MB, measured in this run, cover: " + ". ".join(notes)
    return Grid("vocabularies", ("system", *(name for name, _ in columns)), rows, chosen, note, left=(0, 7))


def _measures(title: str, systems: Sequence[Data], key: str, chosen: int | None, *, note: str = "") -> Grid:
    rows = tuple((row["name"], *(write(row[key]) if row[key] else "–" for _, write in MEASURES)) for row in systems)
    return Grid(title, ("system", *(name for name, _ in MEASURES)), rows, chosen, note, left=(0,))


def _by_source(data: Data, chosen: int | None, *, full: bool) -> Iterator[Grid]:
    systems = data["systems"]
    if chosen is not None:
        found = systems[chosen]
        columns = (MEASURES[0], *MEASURES[2:], *_SOURCE_ONLY[: 1 + data["corpus"]["aligned"]])
        rows = tuple(
            (source, f"{100 * found['shares'][source]:.1f}", *(write(row) for _, write in columns))
            for source, row in found["by_source"].items()
        )
        note = "share: mean part of a source in the tokens' counts. parity: fertility over the mean of all sources."
        note += " premium: pieces over those of the source that takes fewest, for aligned lines."
        headings = ("source", "share %", *(name for name, _ in columns))
        yield Grid(f"{found['name']}, by source", headings, rows, note=note, left=(0,))
    fields: list[tuple[str, Callable[[Data], str]]] = [("pieces per word, by source", _number("fertility", ".3f"))]
    if full:
        fields += [
            ("words cut, %, by source", _number("continued_word_rate", ".1f", scale=100)),
            ("parity, by source", _number("parity", ".3f")),
        ]
        if data["corpus"]["aligned"]:
            fields.append(("premium, by source", _number("premium", ".3f")))
    names = tuple(source["name"] for source in data["corpus"]["sources"])
    for title, write in fields:
        rows = tuple((row["name"], *(write(row["by_source"][name]) for name in names)) for row in systems)
        yield Grid(title, ("system", *names), rows, chosen, left=(0,))
    if full:
        shared = tuple((row["name"], *(f"{100 * row['shares'][name]:.1f}" for name in names)) for row in systems)
        yield Grid("share of the vocabulary, %, by source", ("system", *names), shared, chosen, left=(0,))


def _study(study: Data) -> Iterator[Grid]:
    grid: tuple[Column, ...] = (
        ("size", _number("size", ",")),
        ("entropy", _number("entropy", ".4f")),
        ("MUV·10⁶", _number("muv", ",.1f", scale=1e6, none="")),
        ("entropy, occurrences", _number("occurrence_entropy", ".4f")),
        ("MUV·10⁶, occurrences", _number("occurrence_muv", ",.1f", scale=1e6, none="")),
        ("entropy, transport", _number("transport_entropy", ".4f")),
        ("MUV·10⁶, transport", _number("transport_muv", ",.1f", scale=1e6, none="")),
    )
    if study["grid"]:
        yield _rows("MUV-search: the paper's grid", grid, study["grid"])
    argmaxes: tuple[Column, ...] = (
        ("Eq. 1 over", lambda row: f"{row['over']} from {row['floor']:,}, {row['length']}"),
        ("argmax", _number("size", ",")),
        ("MUV·10⁶", _number("muv", ",.1f", scale=1e6)),
        ("edge", lambda row: "edge" if row["on_edge"] else ""),
    )
    yield _rows("MUV-search: where Eq. 1 is greatest", argmaxes, study["argmaxes"], left=(0,))
    costs: tuple[Column, ...] = (
        ("approach", lambda row: row["approach"]),
        ("size", _number("size", ",")),
        ("seconds", _number("seconds", ",.2f")),
        ("GPU hours", _number("gpu_hours", ",.0f")),
        ("note", lambda row: row["note"]),
    )
    yield _rows("cost, as in the paper's Table 4", costs, study["costs"], left=(0, 4))


def _rows(title: str, columns: Sequence[Column], rows: Iterable[Data], *, left: tuple[int, ...] = ()) -> Grid:
    written = tuple(tuple(write(row) for _, write in columns) for row in rows)
    return Grid(title, tuple(name for name, _ in columns), written, left=left)


def warnings(data: Data) -> list[str]:
    """What to know before trusting the numbers: what could not be made, then the search's and the study's warnings."""
    return list(dict.fromkeys((*data["problems"], *data["search"]["warnings"], *data["study"]["warnings"])))


def as_markdown(data: Data) -> str:
    """The report as Markdown, ending in a line end."""
    made = data["made"]
    parts = ["# Vocabularies compared", ""]
    parts += [f"- **{_escaped(warning)}**" for warning in warnings(data)] + [""] * bool(warnings(data))
    for grid in grids(data):
        parts += [_markdown(grid), ""]
    parts.append(
        f"volt {made['volt']}, {made['date']}, {made['machine']}, {made['n_cpus']} CPUs, {made['seconds']:.1f} s.  \n"
        f"`{data['signature']}`"
    )
    return "\n".join(parts) + "\n"


def _markdown(grid: Grid) -> str:
    rules = ("---" if column in grid.left else "---:" for column in range(len(grid.headings)))
    lines = [f"### {_escaped(grid.title)}", "", _line(grid.headings), f"|{'|'.join(rules)}|"]
    for number, row in enumerate(grid.rows):
        lines.append(_line([f"**{row[0]}**", *row[1:]] if number == grid.chosen else row))
    return "\n".join([*lines, *(["", _escaped(grid.note)] if grid.note else [])])


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
    """The report for a rich console: a table that is too wide is shown in parts, each with its first column."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for grid in grids(data, full=False):
        parts += [Text(grid.title, style="bold"), _Fitted(grid)]
        parts += [Text(grid.note, style="dim")] * bool(grid.note) + [""]
    for warning in warnings(data):
        parts += [Text.assemble(("warning ", "bold yellow"), warning), ""]
    spent = "   ".join(f"{phase} {value:.2f}" for phase, value in data["search"]["seconds"].items())
    parts.append(Text.assemble(("seconds   ", "dim"), spent, f"   total {data['made']['seconds']:.2f}"))
    parts.append(Text.assemble(("signature ", "dim"), data["signature"]))
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A grid that is cut into parts, side by side, where the console is narrower than it is."""

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for columns in column_parts(self.grid.widths(), options.max_width):
            yield _table(self.grid, columns)


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


def _table(grid: Grid, columns: Sequence[int]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(
            Text(grid.headings[column]), justify="left" if column in grid.left else "right", overflow="fold"
        )
    for number, row in enumerate(grid.rows):
        style = "bold green" if number == grid.chosen else ""
        table.add_row(*(Text(row[column]) for column in columns), style=style)
    return table
