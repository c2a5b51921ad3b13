"""Transforms of case, with the results of Python's str methods.

ASCII, and characters whose other case has as many bytes     a compiled loop; its tables come from those methods
a value with any other character ("ß", a final "Σ", …)       the method itself, on all such values joined
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
from volt.stream.transforms.fields import Fields, LineTransform, check_fields, index_of, map_columns, with_fields
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import LineFault

_OPENING = r"\s\-–—/(\[{\"„“”«»‹›‘¿¡"  # what may stand before a word
_FIRST_LETTER = re.compile(rf"(?<![^{_OPENING}])[^\W\d_]")
_N_CODES = 1 << 16  # those with three bytes at most
_SIGMA = "Σ"  # the one character whose small form depends on its neighbours


@dataclass(frozen=True, slots=True)
class _Case(LineTransform):
    name: ClassVar[str]
    changes: ClassVar[str] = "spelling"
    fields: Fields | None = None
    """The fields to change; by default 1 and, where a line has it, 2."""
    if_cased: int | None = None
    """Change a line only if this field contains a letter with case (Chinese, Arabic and Hindi have none)."""

    def __post_init__(self) -> None:
        check_fields(self.fields)
        if self.if_cased is not None:
            index_of(self.if_cased, option="if_cased")

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        if self.if_cased is None:
            return map_columns(batch, self._changed, fields=self.fields)
        batch, (cased,) = with_fields(batch, (self.if_cased,))
        chosen = np.flatnonzero(_have_case(batch.columns[cased - 1]))
        try:
            part, numbers = with_fields(batch.take(chosen), self.fields)
        except LineFault as fault:
            raise LineFault({int(chosen[index]): reason for index, reason in fault.reasons.items()}) from None
        part, batch = map_columns(part, self._changed, fields=self.fields), batch.split(max(numbers))
        return batch.with_columns({k: batch.columns[k - 1].replaced(chosen, part.columns[k - 1]) for k in numbers})

    def _changed(self, column: Column) -> Column:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Lower(_Case):
    """Lower-case fields."""

    name: ClassVar[str] = "lower"

    def _changed(self, column: Column) -> Column:
        return _with_case(column, _lower(), str.lower)


@dataclass(frozen=True, slots=True)
class Upper(_Case):
    """Upper-case fields."""

    name: ClassVar[str] = "upper"

    def _changed(self, column: Column) -> Column:
        return _with_case(column, _upper(), str.upper)


@dataclass(frozen=True, slots=True)
class Title(_Case):
    """Title-case fields: a capital starts each word; its other letters are small ("Don't", "Jean-Paul")."""

    name: ClassVar[str] = "title"

    def _changed(self, column: Column) -> Column:
        return _with_case(column, _title(), titled)


def titled(text: str) -> str:
    """Title-case a string; unlike in str.title, no word starts after an apostrophe, digit or accent."""
    return _FIRST_LETTER.sub(lambda letter: letter[0].title(), text.lower())


def has_case(text: str) -> bool:
    return text.lower() != text.upper()


def _have_case(column: Column) -> Mask:
    from volt.kernels.column_text import CASED, UNCLEAR, find_case

    column, result = column.as_text(), np.empty(len(column), np.uint8)
    find_case(column.data, column.starts, column.sizes, _cased(), result)
    is_cased: Mask = result == CASED
    unclear = np.flatnonzero(result == UNCLEAR)
    is_cased[unclear] = [has_case(value) for value in column.take(unclear).strings()]
    return is_cased


class _Tables(NamedTuple):
    """The tables of one case for `change_case`.

    letter: the first ASCII letter that changes; 0 if the change depends on the character before
    inner, first: (65,536,) uint16, new code points inside a word and at its start; 0 where the method itself is needed
    opens: (65,536,) uint8, characters after which a word may start
    """

    letter: int
    inner: NDArray[np.uint16]
    first: NDArray[np.uint16]
    opens: NDArray[np.uint8]


def _with_case(column: Column, tables: _Tables, function: Callable[[str], str]) -> Column:
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
    from volt.kernels.column_text import CASED, NO_CASE, UNCLEAR

    lower, upper = _lower().inner, _upper().inner
    classes = np.where(lower == upper, NO_CASE, CASED)
    return np.where((lower == 0) | (upper == 0), UNCLEAR, classes).astype(np.uint8)


def _table(function: Callable[[str], str]) -> NDArray[Any]:
    """Return (65,536,) each character's new code point; 0 unless the result is one character of as many bytes."""
    output = [function(chr(code)) for code in range(_N_CODES)]
    codes = np.fromiter((ord(text) if len(text) == 1 else 0 for text in output), np.int64, _N_CODES)
    bounds = [0x80, 0x800, 0x10000]  # from which on characters have more bytes in UTF-8
    same = np.searchsorted(bounds, codes, side="right") == np.searchsorted(bounds, np.arange(_N_CODES), side="right")
    return np.where(same, codes, 0).astype(np.uint16)
