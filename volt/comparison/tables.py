"""`Comparison.as_data()` → the tables of its reports; and a report as Markdown or for a terminal.

The page shows all columns with their labels; the terminal and Markdown show brief tables, with
abbreviated labels (`report_tables`). No numbers are computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from volt.choose.report import seconds_line, signature_line, warning_lines
from volt.comparison.columns import (
    CUT_WORDS,
    EDGE,
    FERTILITY,
    MEASURES,
    MEMORY,
    MUV,
    PARITY,
    PREMIUM,
    SCAFFOLDING,
    SECONDS,
    SERVING,
    SHARE,
    SIZE,
    SOURCE,
    SYSTEM,
    TOKENS_PER_BYTE,
    Data,
    Table,
    TableColumn,
    legend,
)
from volt.display import Grid, LabelledText

if TYPE_CHECKING:
    from rich.console import RenderableType

SIMILAR = 0.1  # greatest relative difference of sizes that are about equal
_TOTALS = ("lines", "words", "distinct_words", "characters")  # keys of a corpus and of a source


def report_tables(data: Data, *, full: bool = True) -> list[Table]:
    """Return the brief tables of a comparison, without empty ones.

    full: include every measure by source
    """
    tables = [corpus_table(data), cost_table(data), *system_tables(data)]
    if len(data["corpus"]["sources"]) > 1:
        tables += [*chosen_source_tables(data), *tables_by_measure(data, full=full)]
    return [table.brief() for table in (*tables, *study_tables(data)) if table.data]


def warnings(data: Data) -> list[str]:
    """Return the problems, then the warnings of the search and of the study."""
    sentences = (*data["problems"], *data["search"]["warnings"], *data["study"]["warnings"])
    return list(dict.fromkeys(sentences))


def verdict(data: Data) -> list[str]:
    """Return sentences on the best systems: for short text, and of about the chosen size.

    Systems are compared on the held-out text, if there is one. Own rules that were not chosen do
    not take part.
    """
    _, text = _judged_text(data)
    ranked = [row for row in _judged_rows(data) if row["fertility"] is not None]
    if not ranked:
        return [f"No system can be ranked on the {text} text."]
    shortest = min(ranked, key=_n_pieces)
    sentences = [f"The {text} text is shortest with {_described(shortest)}."]
    chosen = [row for row in ranked if row["name"] == data["chosen"]]
    for row in chosen:
        if row is not shortest:
            more = row["n_pieces"] / shortest["n_pieces"] - 1
            rule = data["search"]["pick"]["rule"]
            sentences.append(f"The rule {rule} chose {_described(row)}: {100 * more:.1f} % more.")
        similar = [other for other in ranked if abs(other["size"] / row["size"] - 1) <= SIMILAR]
        best, *others = sorted(similar, key=_n_pieces)
        if others:
            fewer = 1 - best["n_pieces"] / others[0]["n_pieces"]
            lead = "as many as"
            if fewer:
                lead = f"{100 * fewer:.2f} % fewer than"
            sentences.append(
                f"Of the {len(similar)} systems of about {row['size']:,} tokens, {best['name']} takes "
                f"the fewest pieces, {lead} {others[0]['name']}."
            )
    if not chosen:
        sentences.append(f"{data['chosen']} is not ranked, because too many pieces are unknown.")
    if data["certificate"]:
        sentences.append(f"Training text with {data['chosen']}: {data['certificate']['text']}.")
    return sentences


def _judged_text(data: Data) -> tuple[str, str]:
    """Return the key and the name of the text by which systems are judged."""
    return ("heldout", "held-out") if data["heldout"] else ("training", "training")


def _judged_rows(data: Data) -> list[Data]:
    """Return the rows of the chosen system and of those that are not VOLT's own rules."""
    part, _ = _judged_text(data)
    rules = {*data["search"]["picks"]} - {data["search"]["pick"]["rule"]}
    own_names = {f"volt {rule}" for rule in rules}
    return [_system_row(each, part) for each in data["systems"] if each["name"] not in own_names]


def _n_pieces(row: Data) -> int:
    return int(row["n_pieces"])


def _described(row: Data) -> str:
    return f"{row['name']} ({row['size']:,} tokens), {row['fertility']:.3f} pieces a word"


def brief_table(data: Data) -> Table:
    """Return one table with the chosen system and others: sizes, and the most useful measures."""
    _, text = _judged_text(data)
    measures = {column.key: column for column in _measure_columns(data)}
    keys = ("n_pieces", "fertility", "tokens_per_byte", "bits", "entropy", "unknown_rate")
    columns = [SYSTEM, SIZE, *(measures[key] for key in keys), SECONDS]
    caption = f"Systems on the {text} text"
    rows = _judged_rows(data)
    return Table("brief", caption, columns, rows, highlighted=data["chosen"])


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
    """Return the table of the systems: size, cost, and why the size was chosen."""
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
    rows = [_system_row(system, "training") for system in data["systems"]]
    costs = [f"{system['family']}: {system['cost_note']}." for system in data["systems"]]
    note = (
        f"{legend([SCAFFOLDING, MUV, SECONDS, MEMORY, EDGE])} What seconds and MB include: "
        f"{' '.join(dict.fromkeys(costs))}"
    )
    caption = "Vocabularies, and what each cost"
    return Table("costs", caption, columns, rows, highlighted=data["chosen"], note=note)


def system_tables(data: Data) -> list[Table]:
    """Return the measures of every system on the training text, and on the held-out text if any."""
    columns = [SYSTEM, replace(SIZE, detail=True), *_measure_columns(data)]
    tables = []
    for part, text in (("training", "training"), ("heldout", "held-out")):
        if part == "training" or data["heldout"]:
            table = Table(
                f"systems-{part}",
                f"Measures on the {text} text",
                columns,
                [_system_row(system, part) for system in data["systems"]],
                highlighted=data["chosen"],
                note=legend(columns[2:]) if part == "training" else "",
            )
            tables.append(table)
    return tables


def source_tables(data: Data) -> list[Table]:
    """Return the measures of every system on every source, for each text."""
    columns = [SYSTEM, SOURCE, SHARE, PARITY, PREMIUM, *_measure_columns(data)]
    tables = []
    for part, text in (("by_source", "training"), ("heldout_by_source", "held-out")):
        rows = [row for system in data["systems"] for row in _source_rows(system, part)]
        if rows:
            name = part.replace("_", "-")
            tables.append(Table(name, f"By source, {text} text", columns, rows))
    return tables


def chosen_source_tables(data: Data) -> list[Table]:
    """Return the measures of the chosen system on every source of the training text."""
    fairness = _fairness_columns(data)
    columns = [SOURCE, SHARE, *_measure_columns(data), *fairness]
    tables = []
    for system in data["systems"]:
        if system["name"] == data["chosen"]:
            caption = f"{system['name']}, by source, training text"
            rows = list(_source_rows(system, "by_source"))
            note = legend([SHARE, *fairness])
            tables.append(Table("chosen-by-source", caption, columns, rows, note=note))
    return tables


def tables_by_measure(data: Data, *, full: bool = True) -> list[Table]:
    """Return a table for each measure, with a row for each system and a column for each source.

    full: all measures that have such a table; otherwise, only fertility
    """
    measures = [FERTILITY]
    if full:
        measures += [CUT_WORDS, *_fairness_columns(data), SHARE]
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


def study_tables(data: Data) -> list[Table]:
    """Return MUV-search's grid, and the sizes where Eq. 1 is greatest in each grid."""
    grid_columns = [SIZE]
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
        muv = replace(
            MUV,
            key=f"{prefix}muv",
            label=f"{MUV.label}, {name}",
            short=f"{MUV.label}, {short}",
        )
        grid_columns += [entropy, muv]
    argmax_columns = [
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
    return [
        Table(
            "grid",
            "MUV-search: the paper's grid",
            grid_columns,
            study["grid"],
            note=legend(column for column in grid_columns if column.form == "fine"),
        ),
        Table(
            "argmaxes",
            "MUV-search: where Eq. 1 is greatest",
            argmax_columns,
            study["argmaxes"],
            note=legend(argmax_columns[:3]),
        ),
    ]


def _measure_columns(data: Data) -> tuple[TableColumn, ...]:
    """Return the columns of all measures, and the cost of serving if it was measured."""
    if not any(system["training"]["serving_flops_per_byte"] for system in data["systems"]):
        return MEASURES
    index = MEASURES.index(TOKENS_PER_BYTE) + 1
    return (*MEASURES[:index], SERVING, *MEASURES[index:])


def _fairness_columns(data: Data) -> list[TableColumn]:
    return [PARITY, PREMIUM] if data["corpus"]["aligned"] else [PARITY]


def _system_row(system: Data, part: str) -> Data:
    """Return the facts of a system, and its measures on the training or held-out text."""
    return {**_ranked_measures(system[part] or {}), **system}


def _source_rows(system: Data, part: str) -> Iterator[Data]:
    """Yield a row for each source: the measures of a system on it."""
    for source, measures in system[part].items():
        yield {
            **_ranked_measures(measures),
            "name": system["name"],
            "source": source,
            "share": system["shares"].get(source),
        }


def _ranked_measures(measures: Data) -> Data:
    """Return the measures; of a system with too many unknown pieces, not even their number."""
    return measures if measures.get("bits") is not None else {**measures, "n_pieces": None}


def as_markdown(data: Data) -> str:
    """Return the report as Markdown, ending in a line end."""
    lines = ["# Vocabularies compared", "", *map(_escaped, verdict(data)), ""]
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


def as_text(data: Data, *, full: bool = False) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`.

    full: whether to add all measures, VOLT's other rules, and the study of MUV-search
    """
    from rich.console import Group
    from rich.text import Text

    lines: list[RenderableType] = []
    label = "verdict   "
    for sentence in verdict(data):
        lines.append(LabelledText(label, sentence.split(" ")))
        label = "".ljust(len(label))
    lines.append("")
    tables = [brief_table(data)]
    sentences = [*data["problems"], *data["search"]["warnings"]]
    if full:
        tables = report_tables(data, full=False)
        sentences = warnings(data)
    for table in tables:
        heads = [column.head for column in table.columns]
        cells = [[cell.text for cell in row] for row in table.rows]
        numbers = [place for place, column in enumerate(table.columns) if column.is_number]
        lines.append(Text(table.caption, style="bold"))
        lines.append(Grid(heads, cells, numbers=numbers, strong=table.strong))
        if table.note:
            lines.append(Text(table.note, style="dim"))
        lines.append("")
    lines += warning_lines(sentences)
    if not full:
        return Group(*lines)
    return Group(
        *lines,
        seconds_line({**data["search"]["seconds"], "total": data["made"]["seconds"]}),
        signature_line(data["signature"]),
    )
