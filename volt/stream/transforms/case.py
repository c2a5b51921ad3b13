"""Change the case of fields, with the same results as Python's str methods.

A compiled loop changes characters whose other case has as many bytes in UTF-8; its tables come from
the str methods. Values with any other character, such as "ß" or a "Σ" at the end of a word, go
through the str method itself, in one call for all such values of a column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.array_types import Bytes
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import map_columns, with_fields
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.options import FieldNumber, Fields
from volt.stream.transforms.transform import Changes, LineFault, LineTransform

_OPENING = r"\s\-–—/(\[{\"„“”«»‹›‘¿¡"  # characters after which a word may start
_FIRST_LETTER = re.compile(rf"(?<![^{_OPENING}])[^\W\d_]")
_N_CODES = 1 << 16  # code points with at most three bytes
_SIGMA = "Σ"  # the only character whose lower-case form depends on its neighbours


@dataclass(frozen=True, slots=True)
class Case(LineTransform):
    """Base class of transforms that change the case of fields."""

    changes: ClassVar[Changes] = "spelling"
    fields: Fields | None = None
    """The fields to change; by default 1 and, if the line has it, 2."""
    if_cased: FieldNumber | None = None
    """Change a line only if this field contains a cased letter (Chinese, Arabic and Hindi have
    none)."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        if self.if_cased is None:
            return map_columns(batch, self._change, fields=self.fields)

        batch, _ = with_fields(batch, (self.if_cased,))
        values = batch.column(self.if_cased).strings()
        cased_lines = np.flatnonzero(list(map(has_case, values)))
        try:
            cased, fields = with_fields(batch.take(cased_lines), self.fields)
        except LineFault as fault:
            raise fault.renumbered(cased_lines) from None

        cased = map_columns(cased, self._change, fields=self.fields)
        batch = batch.split(max(fields))
        columns = dict[int, Column]()
        for field in fields:
            columns[field] = batch.column(field).replaced(cased_lines, cased.column(field))
        return batch.with_columns(columns)

    def _change(self, column: Column) -> Column:
        from volt.kernels.string_functions import change_case

        column = column.as_text()
        starts = np.cumsum(column.sizes) - column.sizes
        out = np.empty(int(column.sizes.sum()), np.uint8)
        is_hard = np.empty(len(column), bool)  # values that the loop cannot change
        inputs = (*column.views, *_make_tables(self.name))
        change_case(*inputs, out, starts, is_hard)
        output = Column(out, starts, column.sizes)
        if not is_hard.any():
            return output

        text = column.take(is_hard).text().tobytes().decode("utf-8", "surrogatepass")
        changed = _METHODS[self.name](text).encode("utf-8", "surrogatepass")
        return output.replaced(is_hard, Column.cut(changed))


@dataclass(frozen=True, slots=True)
class Lower(Case):
    """Lower-case fields."""


@dataclass(frozen=True, slots=True)
class Upper(Case):
    """Upper-case fields."""


@dataclass(frozen=True, slots=True)
class Title(Case):
    """Title-case fields: each word gets an upper-case first letter and lower-case others ("Don't",
    "Jean-Paul")."""


def title_case(text: str) -> str:
    """Title-case a string; unlike in str.title, no word starts after an apostrophe, digit or
    accent."""
    return _FIRST_LETTER.sub(lambda letter: letter[0].title(), text.lower())


_METHODS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "title": title_case,
}


def has_case(text: str) -> bool:
    return text.lower() != text.upper()


class _Tables(NamedTuple):
    """The tables of one case for `change_case`.

    first_letter: the first ASCII letter that changes, a or A; 0 if the preceding character decides
    inside, at_start: (65,536,) uint16, each code point's other case inside a word and at its start;
        0 if the loop cannot tell
    opens: (65,536,) uint8, 1 for characters after which a word may start
    """

    first_letter: int
    inside: NDArray[np.uint16]
    at_start: NDArray[np.uint16]
    opens: Bytes


@cache
def _make_tables(name: str) -> _Tables:
    if name == "title":
        inside = _make_tables("lower").inside
        at_start = np.where(inside == 0, np.uint16(0), _make_table(title_case))
        opening = re.compile(f"[{_OPENING}]")
        opens = [bool(opening.match(chr(code))) for code in range(_N_CODES)]
        return _Tables(0, inside, at_start, np.array(opens, np.uint8))

    table = _make_table(_METHODS[name])
    first_letter = "a"
    if name == "lower":
        first_letter = "A"
        table[ord(_SIGMA)] = 0
    return _Tables(ord(first_letter), table, table, np.zeros(_N_CODES, np.uint8))


def _make_table(function: Callable[[str], str]) -> NDArray[np.uint16]:
    """Return (65,536,) each character's code point after a function; 0 if the result is not one
    character of equally many bytes."""
    outputs = [function(chr(code)) for code in range(_N_CODES)]
    codes = np.array([ord(output) if len(output) == 1 else 0 for output in outputs])
    bounds = [0x80, 0x800, 0x10000]  # the first code points with more bytes in UTF-8
    old_sizes = np.searchsorted(bounds, np.arange(_N_CODES), side="right")
    new_sizes = np.searchsorted(bounds, codes, side="right")
    return np.where(new_sizes == old_sizes, codes, 0).astype(np.uint16)
