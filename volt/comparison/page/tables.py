"""Comparison data → tables: columns that say what they hold, cells with what is shown and the JSON value behind it.

>>> cell(Column("bits", "bits", "what it means", "count"), {"bits": 1234.4}, "bits")
Cell(text='1,234', value=1234.4)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """key: of the row's data, dots for what lies deeper;  title: what it means;  form: a name in FORMS."""

    key: str
    label: str
    title: str
    form: str = "text"


@dataclass(frozen=True, slots=True)
class Cell:
    """What is shown, and the JSON value that it shows."""

    text: str
    value: Any


@dataclass(frozen=True, slots=True)
class Table:
    """name: its id in the page;  rows: cells, column by column;  strong: the index of the row that stands out."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    strong: int | None = None


def _significant(value: float) -> str:
    """Three significant digits at least, thousands with commas, tiny values as powers of ten.

    >>> [_significant(value) for value in (0.0, 0.01234, 1.5, 12345.6, 1e-7, -0.5)]
    ['0', '0.0123', '1.5', '12,346', '1.00e-07', '-0.5']
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.2e}"


FORMS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "count": lambda value: f"{value:,.0f}",
    "ratio": lambda value: f"{value:.3f}",
    "fine": lambda value: f"{value:.4f}",
    "percent": lambda value: f"{value:.2%}",
    "micro": lambda value: f"{value * 1e6:,.2f}",
    "seconds": lambda value: f"{value:.2f}",
    "significant": _significant,
    "yes": lambda value: "yes" if value else "",
}

MEASURES = (
    Column("entropy", "entropy", "Eq. 2, nats per character", "fine"),
    Column("muv", "MUV ·10⁶", "Eq. 1 against the size before, nats per character and million tokens", "micro"),
    Column("muv_from_atoms", "MUV from atoms ·10⁶", "Eq. 1 against the vocabulary of characters alone", "micro"),
    Column("n_pieces", "tokens in text", "pieces that the text takes", "count"),
    Column("bits", "bits", "tokens in text × log₂ of the vocabulary's size", "count"),
    Column("fertility", "fertility", "pieces per word", "ratio"),
    Column("continued_word_rate", "cut words", "share of the words cut into more than one piece", "percent"),
    Column("renyi", "Rényi", "efficiency, α = 2.5", "ratio"),
    Column("f95", "F95", "count of the type at the 95th percentile of frequency", "count"),
    Column("divergence", "D", "½ Σ|p − 1/K|, distance from a uniform distribution", "ratio"),
    Column("percentile_frequency", "3–83 %", "share of pieces whose types rank between 3 % and 83 %", "percent"),
    Column("rare_share", "rare types", "share of types seen fewer than 100 times", "percent"),
    Column("unknown_rate", "unknown", "unknown pieces per piece", "percent"),
    Column("n_used", "types used", "tokens of the vocabulary that the text uses", "count"),
)
_BALANCE = (
    Column("parity", "parity", "fertility over the mean fertility of all sources", "ratio"),
    Column("premium", "premium", "pieces over those of the source that takes fewest; aligned sources only", "ratio"),
)
_NAME = Column("name", "system", "vocabulary, and how it was made")
_TOTALS = ("lines", "words", "distinct_words", "characters")
_SIZE = Column("size", "size", "tokens, special ones not counted", "count")


def cell(column: Column, row: Data, key: str) -> Cell:
    """The cell of a row's value; a dash where there is none.

    >>> cell(Column("muv", "MUV", "", "micro"), {"muv": None}, "muv").text
    '–'
    """
    value: Any = row
    for part in key.split("."):
        value = None if value is None else value[part]
    return Cell("–" if value is None else FORMS[column.form](value), value)


def table(
    name: str,
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Data],
    *,
    strong: Callable[[Data], bool] | None = None,
) -> Table:
    """A table of these columns of the rows; `strong` says which row stands out.

    >>> table("t", "", [Column("a", "A", "")], [{"a": "x"}, {"a": "y"}], strong=lambda row: row["a"] == "y").strong
    1
    """
    rows = list(rows)
    cells = tuple(tuple(cell(column, row, column.key) for column in columns) for row in rows)
    found = [index for index, row in enumerate(rows) if strong is not None and strong(row)]
    return Table(name, caption, tuple(columns), cells, found[0] if found else None)


def system_tables(data: Data) -> list[Table]:
    """Every system with every measure, on the training text and, where there is one, on the held-out text."""
    made = (Column("n_scaffolding", "scaffolding", "tokens made by merges and not kept", "count"),)
    tables = [_systems("training", "On the training text", data, made)]
    if data["heldout"]:
        tables.append(_systems("heldout", "On held-out text", data, ()))
    return tables


def _systems(part: str, caption: str, data: Data, more: Sequence[Column]) -> Table:
    measures = [Column(f"{part}.{one.key}", one.label, one.title, one.form) for one in MEASURES]
    rows = [system for system in data["systems"] if system[part]]
    return table(f"systems-{part}", caption, [_NAME, _SIZE, *more, *measures], rows, strong=_chosen(data))


def _chosen(data: Data) -> Callable[[Data], bool]:
    return lambda system: bool(system["name"] == data["chosen"])


def cost_table(data: Data) -> Table:
    """How each system's size was chosen, and what obtaining it took in this run."""
    columns = [
        _NAME, _SIZE, Column("rule", "rule", "how the size was chosen"), Column("why", "why", "the reason"),
        Column("on_edge", "on edge", "the choice lies on the edge of the range", "yes"),
        Column("seconds", "seconds", "wall time from the counted words", "seconds"),
        Column("memory_mb", "MB", "greatest resident memory above that before", "count"),
        Column("cost_note", "covers", "what time and memory include"),
    ]  # fmt: skip
    return table("costs", "How each was chosen, and what it cost", columns, data["systems"], strong=_chosen(data))


def pick_table(data: Data) -> Table:
    """What every rule picks among the searched sizes, and why."""
    columns = [
        Column("rule", "rule", "how a size is chosen"), _SIZE, Column("why", "why", "the reason"),
        Column("on_edge", "on edge", "the first or last size that could be picked", "yes"),
    ]  # fmt: skip
    chosen = data["search"]["pick"]["rule"]
    picks = data["search"]["picks"].values()
    return table("picks", "What every rule picks", columns, picks, strong=lambda pick: bool(pick["rule"] == chosen))


def source_tables(data: Data) -> list[Table]:
    """Per part of the data and where there are several sources: every system by source, and its shares."""
    named = (("by_source", "By source, training text"), ("heldout_by_source", "By source, held-out text"))
    return [_by_source(key, caption, data) for key, caption in named if any(system[key] for system in data["systems"])]


def _by_source(key: str, caption: str, data: Data) -> Table:
    rows = [
        {**measures, "name": system["name"], "source": source, "share": system["shares"].get(source)}
        for system in data["systems"]
        for source, measures in system[key].items()
    ]
    share = Column("share", "share", "the source's part of the vocabulary, a mean over the tokens used", "percent")
    columns = [_NAME, Column("source", "source", "named text"), share, *_BALANCE, *MEASURES]
    columns = [column for column in columns if column.key not in ("muv", "muv_from_atoms")]
    return table(key.replace("_", "-"), caption, columns, rows, strong=None)


def corpus_table(data: Data) -> Table:
    """The sources, training and held-out."""
    columns = [
        Column("part", "text", "training or held-out"), Column("name", "source", "named text"),
        *(Column(key, key.replace("_", " "), "", "count") for key in _TOTALS),
        Column("fingerprint", "fingerprint", "of the word counts"),
    ]  # fmt: skip
    parts = (("training", data["corpus"]), ("held-out", data["heldout"]))
    rows = [{**source, "part": part} for part, facts in parts if facts for source in facts["sources"]]
    return table("sources", "Sources", columns, rows)


def study_tables(data: Data) -> list[Table]:
    """MUV-search: the paper's grid, where Eq. 1 is greatest, and the cost in the format of the paper's Table 4."""
    study, size = data["study"], Column("size", "size", "tokens", "count")
    grid = [size]
    for prefix, name in (("", "by type"), ("occurrence_", "by occurrence"), ("transport_", "after transport")):
        grid.append(Column(f"{prefix}entropy", f"entropy, {name}", "nats per character", "fine"))
        grid.append(Column(f"{prefix}muv", f"MUV ·10⁶, {name}", "Eq. 1 against the row before", "micro"))
    argmaxes = [
        Column("over", "searched over", "which sizes"), Column("floor", "from", "the smallest size", "count"),
        Column("length", "mean length", "over types or occurrences"),
        Column("size", "argmax", "size of the greatest MUV", "count"),
        Column("muv", "MUV ·10⁶", "Eq. 1", "micro"), Column("on_edge", "on edge", "the first or last size", "yes"),
    ]  # fmt: skip
    costs = [
        Column("approach", "approach", "how a size is found"), Column("size", "size", "tokens", "count"),
        Column("seconds", "seconds", "wall time", "significant"), Column("memory_mb", "MB", "greatest memory", "count"),
        Column("gpu_hours", "GPU hours", "", "significant"), Column("measured", "measured here", "else quoted", "yes"),
        Column("note", "note", ""),
    ]  # fmt: skip
    return [
        table("grid", "The paper's grid", grid, study["grid"]),
        table("argmaxes", "Where Eq. 1 is greatest", argmaxes, study["argmaxes"]),
        table("search-costs", "Cost of the search, as in the paper's Table 4", costs, study["costs"]),
    ]
