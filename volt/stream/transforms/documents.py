"""Pseudo-documents: consecutive lines with the same document id become one line, under limits.

Lines must come in their order in the file: give their source `shuffle: outputs`, so that the documents are shuffled and
not the lines. A document that is longer than a limit allows, or that goes on in another piece of the
file, is cut there, and another begins.

>>> lines = ["a b\\tA B\\t1", "c\\tC\\t1", "d\\tD\\t2"]
>>> Documents(separator="<sep>")(Batch.of(lines), LineRng(1, 2)).lines
['a b <sep> c\\tA B <sep> C\\t1', 'd\\tD\\t2']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column, Longs, lengths
from volt.stream.transforms.fields import (
    ConfiguredTransform,
    Fields,
    check_field,
    check_fields,
    check_text_option,
    with_fields,
)
from volt.stream.transforms.line_rng import LineRng

_MOST = 1 << 53  # no text has as many words


@dataclass(frozen=True, slots=True)
class Documents(ConfiguredTransform):
    """Join consecutive lines of one document into one line; other fields come from its first line."""

    name: ClassVar[str] = "documents"
    is_compiled: ClassVar[bool] = True
    joins_lines: ClassVar[bool] = True
    id_field: int = 3
    """The field with the document's id; a line whose id is empty stands alone."""
    fields: Fields = (1, 2)
    """The fields to join."""
    separator: str = "<sep>"
    """The text between two joined lines, with a space on either side; may be empty (then one space)."""
    max_tokens: int = 250
    """The most words (or pieces: what spaces separate) of a joined field, separators not counted."""
    max_lines: int | None = None
    """The most lines of a document; no limit by default."""
    probability: float = 1.0
    """The probability with which a line that may start a document does; otherwise it stays alone."""
    sample_length: bool = False
    """Draw the limit of each document uniformly from 1 to max_tokens, so that lengths vary."""

    def __post_init__(self) -> None:
        check_fields(self.fields)
        check_field(self.id_field, option="id_field")
        check_text_option(self.separator, option="separator")
        if not 0 <= arguments.number(self.probability, "probability") <= 1:
            raise ConfigError(f"probability: {self.probability}; give a number from 0 to 1")
        for option in ("max_tokens", "max_lines"):
            if getattr(self, option) is not None or option == "max_tokens":
                arguments.whole(getattr(self, option), option)
        if self.max_tokens < 1 or (self.max_lines is not None and self.max_lines < 1):
            raise ConfigError(f"max_tokens is {self.max_tokens} and max_lines {self.max_lines}; give 1 or more")

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        batch, _ = with_fields(batch, (*self.fields, self.id_field))
        starts = self._starts(batch, chance)
        bounds = np.append(starts, len(batch))
        documents = {field: self._joined(batch.columns[field - 1], bounds) for field in self.fields}
        return batch.take(starts).with_columns(documents)

    def deterministic(self) -> None:
        """Return None: each line stands alone where each is kept."""

    def special_tokens(self) -> tuple[str, ...]:
        """Return the separator, which a vocabulary of documents needs."""
        return tuple(self.separator.split())

    def _starts(self, batch: Batch, chance: LineRng) -> Longs:
        from volt.kernels.columns import find_starts

        n_tokens = np.stack([lengths(batch.columns[field - 1], "words") for field in self.fields])
        joins = chance.uniform(batch.origins) < self.probability
        limits = np.full(len(batch), min(self.max_tokens, _MOST))
        if self.sample_length:
            limits = chance.at("limit").integers(batch.origins, 1, min(self.max_tokens, _MOST))
        ids = batch.columns[self.id_field - 1].as_text()
        most_lines = len(batch) if self.max_lines is None else min(self.max_lines, len(batch))
        starts, totals = np.empty(len(batch), np.int64), np.empty(len(self.fields), np.int64)
        n = find_starts(n_tokens, joins, limits, most_lines, ids.data, ids.starts, ids.sizes, totals, starts)
        return starts[:n]

    def _joined(self, column: Column, bounds: Longs) -> Column:
        """Return the values of each document as one. bounds: (n_documents + 1,) where documents start, and the end"""
        if column.is_ids and not self.separator:
            return joined_runs(column, bounds)
        return joined_runs(column.as_text(), bounds, separator=f" {self.separator} " if self.separator else " ")


def joined_runs(column: Column, bounds: Longs, *, separator: str = "") -> Column:
    """Return the values of each run of lines as one, with the separator between two.

    bounds: (n_runs + 1,) where runs start, and where the last ends; none is empty
    separator: '' for ids

    >>> joined_runs(Column.of(["a", "b", "c"]), np.array([0, 2, 3]), separator="-").strings()
    ['a-b', 'c']
    """
    from volt.kernels.columns import write_runs

    width, between = column.data.itemsize, np.frombuffer(separator.encode(), np.uint8)
    sizes, out_starts = run_places(column.sizes, bounds, len(between))
    out = np.empty(int(sizes.sum()), column.data.dtype)
    data = np.ascontiguousarray(column.data).view(np.uint8)
    write_runs(data, column.starts * width, column.sizes * width, bounds, between, out.view(np.uint8))
    return Column(out, out_starts, sizes)


def run_places(sizes: Longs, bounds: Longs, between: int) -> tuple[Longs, Longs]:
    """Return the sizes of the joined values, and where each starts."""
    n_lines = np.diff(bounds)
    total = np.concatenate([[0], np.cumsum(np.maximum(sizes, 0))])
    joined = np.diff(total[bounds]) + (n_lines - 1) * between
    return joined, np.cumsum(joined) - joined
