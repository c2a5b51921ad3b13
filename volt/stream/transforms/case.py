"""Change the case of fields, with the same results as Python's str methods.

ASCII, and characters whose other case has as many bytes     a compiled loop, with tables made by
the str methods values with any other character ("ß", a final "Σ", …)        the str method, called
once on all such values
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.stream.transforms.column import Column, Mask, measured
from volt.stream.transforms.fields import map_columns, with_fields
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import FieldNumber, Fields
from volt.stream.transforms.transform import Changes, LineFault, LineTransform

_OPENING = r"\s\-–—/(\[{\"„“”«»‹›‘¿¡"  # characters that may precede a word
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
            return map_columns(batch, self._changed, fields=self.fields)

        batch, _ = with_fields(batch, (self.if_cased,))
        chosen = np.flatnonzero(_have_case(batch.column(self.if_cased)))
        try:
            part, numbers = with_fields(batch.take(chosen), self.fields)
        except LineFault as fault:
            raise fault.renumbered(chosen) from None

        part = map_columns(part, self._changed, fields=self.fields)
        batch = batch.split(max(numbers))
        columns = dict[int, Column]()
        for number in numbers:
            changed = part.column(number)
            columns[number] = batch.column(number).replaced(chosen, changed)
        return batch.with_columns(columns)

    def _changed(self, column: Column) -> Column:
        from volt.kernels.string_functions import change_case

        column = column.as_text()
        starts = np.cumsum(column.sizes) - column.sizes
        out = np.empty(int(column.sizes.sum()), np.uint8)
        is_hard = np.empty(len(column), bool)
        inputs = (*column.views, *_tables(self.name))
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


def titled(text: str) -> str:
    """Title-case a string; unlike in str.title, no word starts after an apostrophe, digit or
    accent."""
    return _FIRST_LETTER.sub(lambda letter: letter[0].title(), text.lower())


_METHODS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "title": titled,
}


def has_case(text: str) -> bool:
    return text.lower() != text.upper()


def _have_case(column: Column) -> Mask:
    from volt.kernels.string_functions import CASED, UNCLEAR, find_case

    column = column.as_text()
    result = measured(column, find_case, np.uint8, _cased())
    is_cased: Mask = result == CASED
    is_unclear = result == UNCLEAR
    is_cased[is_unclear] = [has_case(value) for value in column.take(is_unclear).strings()]
    return is_cased


class _Tables(NamedTuple):
    """The tables of one case for `change_case`.

    letter: the first ASCII letter that changes; 0 if the change depends on the preceding character
    inner, first: (65,536,) uint16, each code point's new one inside a word and at its start; 0 if
        the loop cannot tell
    opens: (65,536,) uint8, 1 for characters after which a word may start
    """

    letter: int
    inner: NDArray[np.uint16]
    first: NDArray[np.uint16]
    opens: NDArray[np.uint8]


@cache
def _tables(name: str) -> _Tables:
    if name == "title":
        inner = _tables("lower").inner
        first = np.where(inner == 0, np.uint16(0), _table(titled))
        opening = re.compile(f"[{_OPENING}]")
        opens = [bool(opening.match(chr(code))) for code in range(_N_CODES)]
        return _Tables(0, inner, first, np.array(opens, np.uint8))

    inner = _table(_METHODS[name])
    letter = "a"
    if name == "lower":
        letter = "A"
        inner[ord(_SIGMA)] = 0
    return _Tables(ord(letter), inner, inner, np.zeros(_N_CODES, np.uint8))


@cache
def _cased() -> NDArray[np.uint8]:
    from volt.kernels.string_functions import CASED, NO_CASE, UNCLEAR

    lower = _tables("lower").inner
    upper = _tables("upper").inner
    is_unclear = (lower == 0) | (upper == 0)
    classes = np.where(lower == upper, NO_CASE, CASED)
    return np.where(is_unclear, UNCLEAR, classes).astype(np.uint8)


def _table(function: Callable[[str], str]) -> NDArray[np.uint16]:
    """Return (65,536,) each character's new code point; 0 if the result is not one character of
    equally many bytes."""
    outputs = [function(chr(code)) for code in range(_N_CODES)]
    codes = np.array([ord(output) if len(output) == 1 else 0 for output in outputs])
    bounds = [0x80, 0x800, 0x10000]  # the first code points with more bytes in UTF-8
    old_sizes = np.searchsorted(bounds, np.arange(_N_CODES), side="right")
    new_sizes = np.searchsorted(bounds, codes, side="right")
    return np.where(new_sizes == old_sizes, codes, 0).astype(np.uint16)
