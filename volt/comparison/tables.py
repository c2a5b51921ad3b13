"""`Comparison.as_data()` → the tables of a report, for a terminal of any width and as Markdown. Computes no numbers.

The page shows all columns with their labels; the terminal and Markdown show the brief table with abbreviated labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from volt.display import Grid, LabelledText, at_bars

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
        return next(
            (index for index, row in enumerate(self.rows) if row[0].value == self.highlighted), None
        )

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
    return " ".join(
        f"{column.head}: {column.title}."
        for column in columns
        if column.title and not column.detail
    )


def corpus_table(data: Data) -> Table:
    columns = [
        TableColumn("part", "text", "training or held-out"),
        replace(SOURCE, key="name"),
        *(TableColumn(key, key.replace("_", " "), "", "count") for key in _TOTALS),
        TableColumn("fingerprint", "fingerprint", "of the word counts", detail=True),
    ]
    parts = (("training", data["corpus"]), ("held-out", data["heldout"]))
    rows = [
        {**source, "part": part} for part, facts in parts if facts for source in facts["sources"]
    ]
    return Table("sources", "Corpus", columns, rows)


def pick_table(data: Data) -> Table:
    columns = [
        TableColumn("rule", "rule", "how a size is chosen"),
        SIZE,
        TableColumn("why", "why", "the reason"),
        EDGE,
    ]
    picks, chosen = data["search"]["picks"].values(), data["search"]["pick"]["rule"]
    return Table("picks", "What every rule picks", columns, picks, highlighted=chosen)


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
    covered = dict.fromkeys(
        f"{system['family']}: {system['cost_note']}." for system in data["systems"]
    )
    note = f"{legend([SCAFFOLDING, MUV, SECONDS, MEMORY, EDGE])} What seconds and MB include: {' '.join(covered)}"
    return Table(
        "costs",
        "Vocabularies, and what each cost",
        columns,
        rows,
        highlighted=data["chosen"],
        note=note,
    )


def _measures(data: Data) -> tuple[TableColumn, ...]:
    if not any(system["training"]["serving_flops_per_byte"] for system in data["systems"]):
        return MEASURES
    place = MEASURES.index(TOKENS_PER_BYTE) + 1
    return (*MEASURES[:place], SERVING, *MEASURES[place:])


def system_tables(data: Data) -> list[Table]:
    columns = [SYSTEM, replace(SIZE, detail=True), *_measures(data)]
    return [
        Table(
            f"systems-{part}",
            f"Measures on the {text} text",
            columns,
            [_measured(system, part) for system in data["systems"]],
            highlighted=data["chosen"],
            note=legend(columns[2:]) if part == "training" else "",
        )
        for part, text in (("training", "training"), ("heldout", "held-out"))
        if part == "training" or data["heldout"]
    ]


def _measured(system: Data, part: str) -> Data:
    return {**_ranked(system[part] or {}), **system}


def _ranked(measures: Data) -> Data:
    return measures if measures.get("bits") is not None else {**measures, "n_pieces": None}


def source_tables(data: Data) -> list[Table]:
    captions = {
        "by_source": "By source, training text",
        "heldout_by_source": "By source, held-out text",
    }
    columns = [SYSTEM, SOURCE, SHARE, PARITY, PREMIUM, *_measures(data)]
    rows = {
        part: [row for system in data["systems"] for row in _source_rows(system, part)]
        for part in captions
    }
    return [
        Table(part.replace("_", "-"), captions[part], columns, result)
        for part, result in rows.items()
        if result
    ]


def chosen_source_tables(data: Data) -> list[Table]:
    """Return the chosen system on every source of the training text."""
    balance = (PARITY, PREMIUM)[: 1 + data["corpus"]["aligned"]]
    columns = [SOURCE, SHARE, *_measures(data), *balance]
    return [
        Table(
            "chosen-by-source",
            f"{system['name']}, by source, training text",
            columns,
            [*_source_rows(system, "by_source")],
            note=legend([SHARE, *balance]),
        )
        for system in data["systems"]
        if system["name"] == data["chosen"]
    ]


def measures_by_source(data: Data, *, full: bool = True) -> list[Table]:
    """Return a table for each measure, with a row for each system and a column for each source."""
    more = [CUT_WORDS, PARITY, *[PREMIUM] * data["corpus"]["aligned"], SHARE]
    names, tables = [source["name"] for source in data["corpus"]["sources"]], []
    for measure in [FERTILITY, *more * full]:
        columns = [SYSTEM, *(TableColumn(f"in {name}", name, "", measure.form) for name in names)]
        rows = [
            {f"in {row['source']}": row[measure.key] for row in _source_rows(system, "by_source")}
            | system
            for system in data["systems"]
        ]
        caption = f"Training text: {measure.label}, by source ({measure.title})"
        tables.append(
            Table(f"{measure.key}-by-source", caption, columns, rows, highlighted=data["chosen"])
        )
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
        title = f"{title}, nats per character"
        grid += [
            TableColumn(f"{prefix}entropy", f"entropy, {name}", title, "fine", f"entropy, {short}"),
            replace(
                MUV, key=f"{prefix}muv", label=f"{MUV.label}, {name}", short=f"{MUV.label}, {short}"
            ),
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
    study, note = data["study"], legend([column for column in grid if column.form == "fine"])
    where = "MUV-search: where Eq. 1 is greatest"
    return [
        Table("grid", "MUV-search: the paper's grid", grid, study["grid"], note=note),
        Table("argmaxes", where, argmaxes, study["argmaxes"], note=legend(argmaxes[:3])),
    ]


def report_tables(data: Data, *, full: bool = True) -> list[Table]:
    """Return the brief tables of a comparison, without empty ones. full: include every measure by source"""
    tables = [corpus_table(data), cost_table(data), *system_tables(data)]
    if len(data["corpus"]["sources"]) > 1:
        tables += [*chosen_source_tables(data), *measures_by_source(data, full=full)]
    return [result.brief() for result in (*tables, *study_tables(data)) if result.data]


def warnings(data: Data) -> list[str]:
    """Return the problems, then the warnings of the search and of the study."""
    return list(
        dict.fromkeys((*data["problems"], *data["search"]["warnings"], *data["study"]["warnings"]))
    )


def as_markdown(data: Data) -> str:
    """Return the report as Markdown, ending in a line end."""
    output = data["made"]
    parts = ["# Vocabularies compared", ""]
    parts += [f"- **{_escaped(warning)}**" for warning in warnings(data)] + [""] * bool(
        warnings(data)
    )
    for result in report_tables(data):
        parts += [_markdown(result), ""]
    parts.append(
        f"volt {output['volt']}, {output['date']}, {output['machine']}, {output['n_cpus']} CPUs, "
        f"{output['seconds']:.1f} s.  \n"
        f"`{data['signature']}`"
    )
    return "\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    rows = [[cell.text for cell in row] for row in table.rows]
    if table.strong is not None:
        rows[table.strong][0] = f"**{rows[table.strong][0]}**"
    heads, rules = zip(
        *((one.head, "---:" if one.is_number else "---") for one in table.columns), strict=True
    )
    lines = [
        f"### {_escaped(table.caption)}",
        "",
        _line(heads),
        f"|{'|'.join(rules)}|",
        *map(_line, rows),
    ]
    return "\n".join([*lines, *(["", _escaped(table.note)] if table.note else [])])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(text: str) -> str:
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def as_text(data: Data) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for result in report_tables(data, full=False):
        heads, cells = (
            [column.head for column in result.columns],
            [[cell.text for cell in row] for row in result.rows],
        )
        numbers = [place for place, column in enumerate(result.columns) if column.is_number]
        grid = Grid(heads, cells, numbers=numbers, strong=result.strong)
        parts += [Text(result.caption, style="bold"), grid]
        parts += [Text(result.note, style="dim")] * bool(result.note) + [""]
    for warning in warnings(data):
        parts += [Text.assemble(("warning ", "bold yellow"), warning), ""]
    seconds = {**data["search"]["seconds"], "total": data["made"]["seconds"]}
    parts.append(
        LabelledText(
            "seconds   ", [f"{phase} {value:.2f}" for phase, value in seconds.items()], gap="   "
        )
    )
    parts.append(LabelledText("signature ", at_bars(data["signature"]), gap=""))
    return Group(*parts)
