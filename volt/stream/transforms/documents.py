"""Pseudo-documents: consecutive lines with the same document id become one line, under limits.

Lines must come in their order in the file: give their source `shuffle: outputs`, so that the documents are shuffled and
not the lines. A document that is longer than a limit allows, or that goes on in another piece of the
file, is cut there, and another begins.

>>> lines = ["a b\\tA B\\t1", "c\\tC\\t1", "d\\tD\\t2"]
>>> Documents(separator="<sep>")(Batch.of(lines), np.random.default_rng(0)).lines
['a b <sep> c\\tA B <sep> C\\t1', 'd\\tD\\t2']
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.fields import Fields, index_of, indices_of, joined, rows_of
from volt.stream.transforms.options import ConfiguredTransform, check_field, check_fields, check_text_option

Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class Documents(ConfiguredTransform):
    """Join consecutive lines of one document into one line; other fields are those of its first line."""

    name: ClassVar[str] = "documents"
    id_field: int = 3
    """The field with the document's id; a line whose id is empty stands alone."""
    fields: Fields = (1, 2)
    """The fields to join."""
    separator: str = "<sep>"
    """What stands between two joined lines, with a space on either side; may be empty (then one space)."""
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

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        rows = rows_of(batch, fields=(*self.fields, self.id_field))
        joins = (rng.random(len(rows)) < self.probability).tolist()
        limits = [self.max_tokens] * len(rows)
        if self.sample_length:
            limits = rng.integers(1, self.max_tokens, size=len(rows), endpoint=True).tolist()
        starts = self._starts(rows, joins=joins, limits=limits)
        documents = [self._joined(rows[start:end]) for start, end in pairwise([*starts, len(rows)])]
        return Batch(joined(documents), batch.origins[np.array(starts, np.int64)])

    def _starts(self, rows: Rows, *, joins: list[bool], limits: list[int]) -> list[int]:
        """Where documents start."""
        starts: list[int] = []
        totals: list[int] = []
        indices = indices_of(self.fields)
        for number, row in enumerate(rows):
            lengths = [len(row[index].split()) for index in indices]
            grown = [total + length for total, length in zip(totals, lengths, strict=False)]
            if starts and joins[starts[-1]] and self._may_follow(rows, starts[-1], number, limits, max(grown)):
                totals = grown
            else:
                starts.append(number)
                totals = lengths
        return starts

    def _may_follow(self, rows: Rows, start: int, number: int, limits: list[int], n_tokens: int) -> bool:
        """Whether line `number` may join the document that starts at `start`, which would then have `n_tokens`."""
        index = index_of(self.id_field)
        same = rows[start][index] == rows[number][index] != ""
        return same and n_tokens <= limits[start] and (self.max_lines is None or number - start < self.max_lines)

    def _joined(self, rows: Rows) -> list[str]:
        """One row of several."""
        first = rows[0]
        if len(rows) > 1:
            separator = f" {self.separator} " if self.separator else " "
            for index in indices_of(self.fields):
                first[index] = separator.join([row[index] for row in rows])
        return first
