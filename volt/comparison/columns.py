"""The columns of a comparison's tables: heading, meaning, and format of the values.

A `Table` combines columns with rows of data. For example, the column FERTILITY shows {"fertility":
1.5} as 1.500.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

Data = Mapping[str, Any]
NONE = "–"  # shown for a value that is undefined

MOST_NAME = 60  # characters of the name of a system in a table


class Cell(NamedTuple):
    """A cell: what it shows, and the value in the data."""

    text: str
    value: Any


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, with the same name in every report.

    key: the key of its values in a row of data
    label, short: its heading on the page, and in brief tables (by default the label)
    title: the meaning of the column; reports write it after the heading and a colon
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
        return self.form not in ("text", "name", "yes")

    def cell(self, row: Data) -> Cell:
        value = row.get(self.key)
        return Cell(NONE if value is None else FORMS[self.form](value), value)


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a report.

    data: for each row, key → value
    highlighted: the value in the first column of the highlighted row, if any
    note: sentences under the table
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
        """Return the table without the columns that are details."""
        return replace(self, columns=[column for column in self.columns if not column.detail])


def _four_digits(value: float) -> str:
    """Return a number with four significant digits, at most."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-3 else f"{value:.3e}"


def _shorten(value: object) -> str:
    """Return the start and the end of a long name, which may be a path."""
    name = str(value)
    if len(name) <= MOST_NAME:
        return name
    half = MOST_NAME // 2
    return f"{name[:half]}…{name[1 - half :]}"


# Name of a format → the text of a value.
FORMS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "name": _shorten,
    "yes": lambda value: "yes" if value else "",
    "count": lambda value: f"{value:,.0f}",
    "ratio": lambda value: f"{value:.3f}",
    "fine": lambda value: f"{value:.4f}",
    "percent": lambda value: f"{value:.1%}",
    "fine percent": lambda value: f"{value:.2%}",
    "millionths": lambda value: f"{value * 1e6:,.1f}",
    "millions": lambda value: _four_digits(value / 1e6),
    "thousand millions": lambda value: _four_digits(value / 1e9),
    "seconds": lambda value: f"{value:.2f}",
}

SYSTEM = TableColumn("name", "system", "vocabulary, and how it was made", "name")
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


def legend(columns: Iterable[TableColumn]) -> str:
    """Return a sentence on the meaning of each column of a brief table."""
    explained = [column for column in columns if column.title and not column.detail]
    return " ".join(f"{column.head}: {column.title}." for column in explained)
