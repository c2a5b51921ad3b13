"""Transforms of case: lower, upper, title. What they make is what Python's str methods make, over the whole Unicode.

    ASCII, and characters whose other case has as many bytes     a compiled loop, by tables made with those methods
    a value with any other character ("ß", a final "Σ", …)       the method itself, on all such values as one text

The methods look at neighbours in one case: "Σ" becomes "ς" at the end of a word. A line feed ends a word, so the values
can be changed as the lines of one text.

>>> Upper()(Batch.of(["ein Haus\\tdie Straße"]), LineRng(1, 2)).lines
['EIN HAUS\\tDIE STRASSE']
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column, Mask
from volt.stream.transforms.fields import (
    ConfiguredTransform,
    Fields,
    check_field,
    check_fields,
    map_columns,
    with_fields,
)
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import LineFault

_OPENING = r"\s\-–—/(\[{\"„“”«»‹›‘¿¡"  # what may stand before a word
_FIRST_LETTER = re.compile(rf"(?<![^{_OPENING}])[^\W\d_]")
_N_CODES = 1 << 16  # those with three bytes at most
_SIGMA = "Σ"  # the one character whose small form depends on its neighbours


@dataclass(frozen=True, slots=True)
class _Case(ConfiguredTransform):
    name: ClassVar[str]
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "spelling"
    fields: Fields | None = None
    """The fields to change; by default 1 and, where a line has it, 2."""
    if_cased: int | None = None
    """Change a line only if this field of it holds a letter that has case (Chinese, Arabic and Hindi have none)."""

    def __post_init__(self) -> None:
        check_fields(self.fields)
        check_field(self.if_cased, option="if_cased")

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        if self.if_cased is None:
            return map_columns(batch, self._changed, fields=self.fields)
        batch, (cased,) = with_fields(batch, (self.if_cased,))
        return _at(batch, np.flatnonzero(_have_case(batch.columns[cased - 1])), self._changed, fields=self.fields)

    @staticmethod
    def _changed(column: Column) -> Column:
        raise NotImplementedError


def _at(
    batch: Batch, chosen: NDArray[np.int64], function: Callable[[Column], Column], *, fields: Fields | None
) -> Batch:
    try:
        part, numbers = with_fields(batch.take(chosen), fields)
    except LineFault as fault:
        raise LineFault({int(chosen[index]): reason for index, reason in fault.reasons.items()}) from None
    part, batch = map_columns(part, function, fields=fields), batch.split(max(numbers))
    return batch.with_columns({k: batch.columns[k - 1].replaced(chosen, part.columns[k - 1]) for k in numbers})


def has_case(text: str) -> bool:
    """Check whether a text holds a letter that has case.

    >>> has_case("中文"), has_case("中文 a")
    (False, True)
    """
    return text.lower() != text.upper()


def _have_case(column: Column) -> Mask:
    from volt.kernels.column_text import CASED, UNTOLD, find_case

    column, result = column.as_text(), np.empty(len(column), np.uint8)
    find_case(column.data, column.starts, column.sizes, _cased(), result)
    is_cased: Mask = result == CASED
    untold = np.flatnonzero(result == UNTOLD)
    is_cased[untold] = [has_case(value) for value in column.take(untold).strings()]
    return is_cased


@dataclass(frozen=True, slots=True)
class Lower(_Case):
    """Lower-case fields."""

    name: ClassVar[str] = "lower"

    @staticmethod
    def _changed(column: Column) -> Column:
        return _with_case(column, _lower(), str.lower)


@dataclass(frozen=True, slots=True)
class Upper(_Case):
    """Upper-case fields."""

    name: ClassVar[str] = "upper"

    @staticmethod
    def _changed(column: Column) -> Column:
        return _with_case(column, _upper(), str.upper)


@dataclass(frozen=True, slots=True)
class Title(_Case):
    """Title-case fields: the first letter of each word is a capital, the others are small ("Don't", "Jean-Paul")."""

    name: ClassVar[str] = "title"

    @staticmethod
    def _changed(column: Column) -> Column:
        return _with_case(column, _title(), titled)


def titled(text: str) -> str:
    """Return a text in title case; unlike str.title, it starts no word after an apostrophe, a digit or an accent.

    >>> titled("he DIDN'T see the 3rd école (l'été)")
    "He Didn't See The 3rd École (L'été)"
    """
    return _FIRST_LETTER.sub(lambda letter: letter[0].title(), text.lower())


class _Tables(NamedTuple):
    """The tables of a case for `change_case`.

    letter: the first of the ASCII letters that change, whatever precedes them; 0 if that matters
    inner: (65,536,) uint16 the new code point of each; 0 where the bytes would differ in number, or neighbours matter
    first: the same at the start of a word
    opens: (65,536,) uint8, characters after which a word may start
    """

    letter: int
    inner: NDArray[np.uint16]
    first: NDArray[np.uint16]
    opens: NDArray[np.uint8]


def _with_case(column: Column, tables: _Tables, function: Callable[[str], str]) -> Column:
    """Return the values by the tables, and those that these cannot tell by the function, which changes any text."""
    from volt.kernels.column_text import change_case

    column, is_hard = column.as_text(), np.empty(len(column), bool)
    starts = np.cumsum(column.sizes) - column.sizes
    out = np.empty(int(column.sizes.sum()), np.uint8)
    change_case(column.data, column.starts, column.sizes, *tables, out, starts, is_hard)
    output = Column(out, starts, column.sizes)
    if not is_hard.any():
        return output
    hard = np.flatnonzero(is_hard)
    text = column.take(hard).text().tobytes().decode("utf-8", "surrogatepass")
    return output.replaced(hard, Column.cut(function(text).encode("utf-8", "surrogatepass")))


@cache
def _lower() -> _Tables:
    inner = _table(str.lower)
    inner[ord(_SIGMA)] = 0
    return _Tables(ord("A"), inner, inner, np.zeros(_N_CODES, np.uint8))


@cache
def _upper() -> _Tables:
    inner = _table(str.upper)
    return _Tables(ord("a"), inner, inner, np.zeros(_N_CODES, np.uint8))


@cache
def _title() -> _Tables:
    opening = re.compile(f"[{_OPENING}]")
    opens = np.fromiter((bool(opening.match(chr(code))) for code in range(_N_CODES)), np.uint8, _N_CODES)
    return _Tables(0, _lower().inner, np.where(_lower().inner == 0, np.uint16(0), _table(titled)), opens)


@cache
def _cased() -> NDArray[np.uint8]:
    """(65,536,) what `find_case` needs to know of each character."""
    from volt.kernels.column_text import CASED, NO_CASE, UNTOLD

    lower, upper = _lower().inner, _upper().inner
    message = np.where(lower == upper, NO_CASE, CASED)
    return np.where((lower == 0) | (upper == 0), UNTOLD, message).astype(np.uint8)


def _table(function: Callable[[str], str]) -> NDArray[Any]:
    """(65,536,) uint16 what a function makes of each character, 0 where that is not one character of as many bytes."""
    output = [function(chr(code)) for code in range(_N_CODES)]
    codes = np.fromiter((ord(text) if len(text) == 1 else 0 for text in output), np.int64, _N_CODES)
    same = _widths(codes) == _widths(np.arange(_N_CODES))
    return np.where(same, codes, 0).astype(np.uint16)


def _widths(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) the bytes of characters in UTF-8."""
    return np.searchsorted([0x80, 0x800, 0x10000], codes, side="right")
