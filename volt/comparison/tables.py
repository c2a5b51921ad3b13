"""`Comparison.as_data()` → the tables of a report, for a terminal of any width and as Markdown.

This module computes no numbers. The page shows all columns with their labels; the terminal and
Markdown show the brief table with abbreviated labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from volt.choose.report import seconds_line, signature_line, warning_lines
from volt.display import Grid

if TYPE_CHECKING:
    from rich.console import RenderableType


Data = Mapping[str, Any]
NONE = "–"


class Cell(NamedTuple):
    text: str
    value: Any


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, with the same name in every report.

    title: the meaning of the column; reports write it after the label and a colon
    form: a name in FORMS, the format of its values
    detail: whether brief tables omit it
    """

    key: str
    label: str
    title: str
    form: str = "text"
    short: str = ""
    detail: bool = False

    @property
    def head(self) -> str:
        return self.short or self.label

    @property
    def is_number(self) -> bool:
        return self.form not in ("text", "yes")

    def cell(self, row: Data) -> Cell:
        value = row.get(self.key)
        return Cell(NONE if value is None else FORMS[self.form](value), value)


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a report.

    data: the rows, by the columns' keys
    highlighted: the highlighted row's first value
    """

    name: str
    caption: str
    columns: Sequence[TableColumn]
    data: Collection[Data]
    highlighted: str = ""
    note: str = ""

    @property
    def rows(self) -> tuple[tuple[Cell, ...], ...]:
        return tuple(tuple(column.cell(row) for column in self.columns) for row in self.data)

    @property
    def strong(self) -> int | None:
        """The index of the highlighted row, if any."""
        for index, row in enumerate(self.rows):
            if row[0].value == self.highlighted:
                return index
        return None

    def brief(self) -> Table:
        return replace(self, columns=[column for column in self.columns if not column.detail])


def _significant(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.2e}"


FORMS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "yes": lambda value: "yes" if value else "",
    "count": lambda value: f"{value:,.0f}",
    "ratio": lambda value: f"{value:.3f}",
    "fine": lambda value: f"{value:.4f}",
    "percent": lambda value: f"{value:.1%}",
    "fine percent": lambda value: f"{value:.2%}",
    "millionths": lambda value: f"{value * 1e6:,.1f}",
    "millions": lambda value: f"{value / 1e6:,.2f}",
    "thousand millions": lambda value: _significant(value / 1e9),
    "seconds": lambda value: f"{value:.2f}",
}

SYSTEM = TableColumn("name", "system", "vocabulary, and how it was made")
SIZE = TableColumn("size", "size", "tokens, special ones not counted", "count")
SCAFFOLDING = TableColumn(
    "n_scaffolding", "scaffolding", "tokens made by merges and not kept", "count"
)
MUV = TableColumn(
    "muv",
    "MUV ·10⁶",
    "Eq. 1 against the size searched before, nats per character and million tokens",
    "millionths",
)
SECONDS = TableColumn(
    "seconds", "seconds", "wall time from the counted words, measured in this run", "seconds"
)
MEMORY = TableColumn("memory_mb", "MB", "greatest resident memory above that before", "count")
EDGE = TableColumn("on_edge", "on edge", "the first or the last size that could be picked", "yes")
SOURCE = TableColumn("source", "source", "named text")
SHARE = TableColumn(
    "share", "share", "the source's part of a token's count, a mean over the tokens used", "percent"
)
FERTILITY = TableColumn("fertility", "fertility", "pieces per word", "ratio", short="fert.")
CUT_WORDS = TableColumn(
    "continued_word_rate",
    "cut words",
    "share of the words that take more than one piece",
    "percent",
    short="cut",
)
TOKENS_PER_BYTE = TableColumn(
    "tokens_per_byte",
    "tokens/byte",
    "pieces per byte of the text, its spaces included",
    "fine",
    short="tok./B",
)
SERVING = TableColumn(
    "serving_flops_per_byte",
    "GFLOP/byte",
    "what a byte costs the language model, 2 (N + size · d) per piece",
    "thousand millions",
    short="GFLOP/B",
)
PARITY = TableColumn(
    "parity", "parity", "fertility over the mean fertility of all sources", "ratio"
)
PREMIUM = TableColumn(
    "premium",
    "premium",
    "pieces over those of the source that takes fewest, where lines are aligned",
    "ratio",
)
MEASURES = (
    TableColumn("n_pieces", "pieces", "occurrences of tokens that the text takes", "count"),
    TableColumn("bits", "Mbit", "pieces · log₂ size, in millions", "millions"),
    TableColumn("entropy", "entropy", "Eq. 2, nats per character", "fine"),
    TableColumn(
        "muv_from_atoms",
        "MUV from atoms ·10⁶",
        "Eq. 1 against the vocabulary of characters alone, nats per character and million tokens",
        "millionths",
        short="MUV atoms",
    ),
    FERTILITY,
    CUT_WORDS,
    TOKENS_PER_BYTE,
    TableColumn("renyi", "Rényi", "efficiency, α = 2.5", "ratio"),
    TableColumn("f95", "F95", "count of the type at the 95th percentile of frequency", "count"),
    TableColumn("divergence", "D", "½ Σ|p − 1/K|, distance from a uniform distribution", "ratio"),
    TableColumn(
        "percentile_frequency",
        "3–83 %",
        "share of pieces whose types rank between 3 % and 83 %",
        "percent",
    ),
    TableColumn(
        "rare_share",
        "rare types",
        "share of types seen fewer than 100 times",
        "percent",
        short="rare",
    ),
    TableColumn(
        "unknown_rate", "unknown", "unknown pieces per piece", "fine percent", short="unk."
    ),
    TableColumn(
        "n_used", "types used", "tokens of the vocabulary that the text uses", "count", detail=True
    ),
)


_TOTALS = ("lines", "words", "distinct_words", "characters")


def legend(columns: Iterable[TableColumn]) -> str:
    explained = [column for column in columns if column.title and not column.detail]
    return " ".join(f"{column.head}: {column.title}." for column in explained)


def corpus_table(data: Data) -> Table:
    columns = [
        TableColumn("part", "text", "training or held-out"),
        replace(SOURCE, key="name"),
        *(TableColumn(key, key.replace("_", " "), "", "count") for key in _TOTALS),
        TableColumn("fingerprint", "fingerprint", "of the word counts", detail=True),
    ]
    rows = []
    for part, facts in (("training", data["corpus"]), ("held-out", data["heldout"])):
        if facts:
            rows += [{**source, "part": part} for source in facts["sources"]]
    return Table("sources", "Corpus", columns, rows)


def pick_table(data: Data) -> Table:
    columns = [
        TableColumn("rule", "rule", "how a size is chosen"),
        SIZE,
        TableColumn("why", "why", "the reason"),
        EDGE,
    ]
    search = data["search"]
    rows = search["picks"].values()
    rule = search["pick"]["rule"]
    return Table("picks", "What every rule picks", columns, rows, highlighted=rule)


def cost_table(data: Data) -> Table:
    columns = [
        SYSTEM,
        SIZE,
        SCAFFOLDING,
        MUV,
        TableColumn("rule", "rule", "how the size was chosen", detail=True),
        SECONDS,
        MEMORY,
        EDGE,
        TableColumn("why", "why", "the reason for the size"),
        TableColumn("cost_note", "covers", "what time and memory include", detail=True),
    ]
    rows = [_measured(system, "training") for system in data["systems"]]
    costs = [f"{system['family']}: {system['cost_note']}." for system in data["systems"]]
    note = (
        f"{legend([SCAFFOLDING, MUV, SECONDS, MEMORY, EDGE])} What seconds and MB include: "
        f"{' '.join(dict.fromkeys(costs))}"
    )
    caption = "Vocabularies, and what each cost"
    return Table("costs", caption, columns, rows, highlighted=data["chosen"], note=note)


def _measures(data: Data) -> tuple[TableColumn, ...]:
    if not any(system["training"]["serving_flops_per_byte"] for system in data["systems"]):
        return MEASURES
    place = MEASURES.index(TOKENS_PER_BYTE) + 1
    return (*MEASURES[:place], SERVING, *MEASURES[place:])


def system_tables(data: Data) -> list[Table]:
    columns = [SYSTEM, replace(SIZE, detail=True), *_measures(data)]
    tables = []
    for part, text in (("training", "training"), ("heldout", "held-out")):
        if part == "training" or data["heldout"]:
            table = Table(
                f"systems-{part}",
                f"Measures on the {text} text",
                columns,
                [_measured(system, part) for system in data["systems"]],
                highlighted=data["chosen"],
                note=legend(columns[2:]) if part == "training" else "",
            )
            tables.append(table)
    return tables


def _measured(system: Data, part: str) -> Data:
    return {**_ranked(system[part] or {}), **system}


def _ranked(measures: Data) -> Data:
    return measures if measures.get("bits") is not None else {**measures, "n_pieces": None}


def source_tables(data: Data) -> list[Table]:
    columns = [SYSTEM, SOURCE, SHARE, PARITY, PREMIUM, *_measures(data)]
    tables = []
    for part, text in (("by_source", "training"), ("heldout_by_source", "held-out")):
        rows = [row for system in data["systems"] for row in _source_rows(system, part)]
        if rows:
            name = part.replace("_", "-")
            tables.append(Table(name, f"By source, {text} text", columns, rows))
    return tables


def chosen_source_tables(data: Data) -> list[Table]:
    """Return the chosen system on every source of the training text."""
    balance = _balance(data)
    columns = [SOURCE, SHARE, *_measures(data), *balance]
    tables = []
    for system in data["systems"]:
        if system["name"] == data["chosen"]:
            caption = f"{system['name']}, by source, training text"
            rows = list(_source_rows(system, "by_source"))
            note = legend([SHARE, *balance])
            tables.append(Table("chosen-by-source", caption, columns, rows, note=note))
    return tables


def _balance(data: Data) -> list[TableColumn]:
    return [PARITY, PREMIUM] if data["corpus"]["aligned"] else [PARITY]


def measures_by_source(data: Data, *, full: bool = True) -> list[Table]:
    """Return a table for each measure, with a row for each system and a column for each source."""
    measures = [FERTILITY]
    if full:
        measures += [CUT_WORDS, *_balance(data), SHARE]
    names = [source["name"] for source in data["corpus"]["sources"]]
    tables = []
    for measure in measures:
        columns = [SYSTEM, *(TableColumn(f"in {name}", name, "", measure.form) for name in names)]
        rows = []
        for system in data["systems"]:
            sources = _source_rows(system, "by_source")
            rows.append({f"in {row['source']}": row[measure.key] for row in sources} | system)
        name = f"{measure.key}-by-source"
        caption = f"Training text: {measure.label}, by source ({measure.title})"
        tables.append(Table(name, caption, columns, rows, highlighted=data["chosen"]))
    return tables


def _source_rows(system: Data, part: str) -> Iterator[Data]:
    for source, measures in system[part].items():
        yield {
            **_ranked(measures),
            "name": system["name"],
            "source": source,
            "share": system["shares"].get(source),
        }


def study_tables(data: Data) -> list[Table]:
    """Return MUV-search's grid, and the argmaxes of Eq. 1."""
    grid = [SIZE]
    for prefix, name, short, title in (
        ("", "by type", "type", "Eq. 2, mean length over the tokens"),
        ("occurrence_", "by occurrence", "occ.", "Eq. 2, mean length over the pieces"),
        ("transport_", "after transport", "tr.", "Eq. 4, after the transport of this size"),
    ):
        entropy = TableColumn(
            f"{prefix}entropy",
            f"entropy, {name}",
            f"{title}, nats per character",
            "fine",
            f"entropy, {short}",
        )
        label = f"{MUV.label}, {name}"
        grid += [
            entropy,
            replace(MUV, key=f"{prefix}muv", label=label, short=f"{MUV.label}, {short}"),
        ]
    argmaxes = [
        TableColumn("over", "searched over", "the paper's grid, every size, or steps of 1,000"),
        TableColumn("floor", "from", "the smallest size that was compared", "count"),
        TableColumn(
            "length",
            "mean length",
            "of Eq. 2, over the tokens (type) or over their pieces (occurrence)",
        ),
        TableColumn("size", "argmax", "size of the greatest MUV", "count"),
        MUV,
        EDGE,
    ]
    study = data["study"]
    note = legend(column for column in grid if column.form == "fine")
    where = "MUV-search: where Eq. 1 is greatest"
    return [
        Table("grid", "MUV-search: the paper's grid", grid, study["grid"], note=note),
        Table("argmaxes", where, argmaxes, study["argmaxes"], note=legend(argmaxes[:3])),
    ]


def report_tables(data: Data, *, full: bool = True) -> list[Table]:
    """Return the brief tables of a comparison, without empty ones.

    full: include every measure by source
    """
    tables = [corpus_table(data), cost_table(data), *system_tables(data)]
    if len(data["corpus"]["sources"]) > 1:
        tables += [*chosen_source_tables(data), *measures_by_source(data, full=full)]
    return [table.brief() for table in (*tables, *study_tables(data)) if table.data]


def warnings(data: Data) -> list[str]:
    """Return the problems, then the warnings of the search and of the study."""
    sentences = (*data["problems"], *data["search"]["warnings"], *data["study"]["warnings"])
    return list(dict.fromkeys(sentences))


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
    yield _line(column.head for column in table.columns)
    yield f"|{'|'.join('---:' if column.is_number else '---' for column in table.columns)}|"
    yield from map(_line, rows)
    if table.note:
        yield ""
        yield _escaped(table.note)


def _line(cells: Iterable[str]) -> str:
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
