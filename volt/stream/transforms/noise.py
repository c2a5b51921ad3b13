"""Transforms of noise: typos, and punctuation that is left out or added, drawn for each line anew.

A model that has seen them learns to bear them (Karpukhin et al. 2019). Both take any script: no character is cut in
two, and what is written instead of one, or beside it, comes from the same value.

>>> Typos(rate=0.2)(Batch.of(["a house by the sea"]), Chance(1, 2)).lines
['ba house by the seha']
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.chance import Chance
from volt.stream.transforms.column import Column, Longs
from volt.stream.transforms.fields import Fields, with_fields
from volt.stream.transforms.options import ConfiguredTransform, check_fields

Kind = Literal["swap", "drop", "insert", "replace"]  # in the order of the numbers in volt.kernels.noise
KINDS: tuple[Kind, ...] = get_args(Kind)
Words = NDArray[np.uint64]
_N_CODES = 1 << 16
_N_AT_ONCE = 256  # characters that one random number is drawn for
_FINAL = ".!?…‼⁇⁈⁉。！？．｡؟۔।॥።፧။"  # marks that end a sentence, in any script
_APOSTROPHE = "’"  # a mark that may stand inside a word, as those of ASCII
_WIDE_SCRIPTS = ("HIRAGANA", "KATAKANA", "CJK UNIFIED", "BOPOMOFO")


@dataclass(frozen=True, slots=True)
class Typos(ConfiguredTransform):
    """Misspell characters at random, with those of the same field; spaces stay, and one character of each word."""

    name: ClassVar[str] = "typos"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "spelling"
    rate: float = 0.01
    """The probability that a character is hit; of spaces, none is."""
    kinds: tuple[Kind, ...] = KINDS
    """What happens to a character that is hit: it is swapped with the next of its word, dropped, gets another inserted
    before it, or is replaced by another; each equally often."""
    fields: Fields = (1,)
    """The fields to misspell."""

    def __post_init__(self) -> None:
        _check_probability(self.rate, "rate")
        kinds = arguments.several(self.kinds, "kinds", remedy=f"give a tuple of some of {', '.join(KINDS)}")
        for place, kind in enumerate(kinds):
            if kind not in KINDS or kind in kinds[:place]:
                raise ConfigError(f"kinds: {kind!r}; give some of {', '.join(KINDS)}, each once")
        if not kinds:
            raise ConfigError(f"kinds: is empty; give some of {', '.join(KINDS)}")
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        return _with_noise(batch, chance, self._changed, fields=self.fields)

    def settled(self) -> None:
        """None: there is no noise where nothing is drawn."""

    def _changed(self, column: Column, seeds: Words) -> Column:
        from volt.kernels.noise import MOST_GROWTH, misspell

        column, kinds = column.as_text(), np.array([KINDS.index(kind) for kind in self.kinds], np.uint8)
        powers = np.cumprod(np.full(_N_AT_ONCE, 1.0 - self.rate))
        out, ends = np.empty(MOST_GROWTH * int(column.sizes.sum()), np.uint8), np.empty(len(column), np.int64)
        misspell(column.data, column.starts, column.sizes, seeds, powers, kinds, out, ends)
        return _ending(out, ends)


@dataclass(frozen=True, slots=True)
class Punctuation(ConfiguredTransform):
    """Leave out punctuation marks at random, and the final one, or add a full stop where none is ("。" in Chinese)."""

    name: ClassVar[str] = "punctuation"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "spelling"
    drop: float = 0.05
    """The probability that a mark is left out; those inside a word stay ("don't", "3.5", "a-b")."""
    final: float = 0.1
    """The probability that a field loses the marks that end its sentence, or, ending in no mark, gets a full stop."""
    fields: Fields = (1,)
    """The fields to change."""

    def __post_init__(self) -> None:
        _check_probability(self.drop, "drop")
        _check_probability(self.final, "final")
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        return _with_noise(batch, chance, self._changed, fields=self.fields)

    def settled(self) -> None:
        """None: there is no noise where nothing is drawn."""

    def _changed(self, column: Column, seeds: Words) -> Column:
        from volt.kernels.noise import change_marks

        column, n = column.as_text(), len(column)
        out, ends = np.empty(int(column.sizes.sum()) + 3 * n, np.uint8), np.empty(n, np.int64)
        change_marks(
            column.data, column.starts, column.sizes, seeds, float(self.drop), float(self.final), _marks(), out, ends
        )
        return _ending(out, ends)


def _with_noise(batch: Batch, chance: Chance, function: Callable[[Column, Words], Column], *, fields: Fields) -> Batch:
    """The fields of a batch through a function, which is given a seed for each value."""
    batch, numbers = with_fields(batch, fields)
    return batch.with_columns(
        {field: function(batch.columns[field - 1], chance.at(field).words(batch.origins)) for field in numbers}
    )


def _ending(out: NDArray[np.uint8], ends: Longs) -> Column:
    """A column of values that were written one after the other."""
    sizes = np.diff(ends, prepend=0)
    return Column(out[: int(ends[-1]) if len(ends) else 0], ends - sizes, sizes)


@cache
def _marks() -> NDArray[np.uint8]:
    """(65,536,) what `change_marks` needs to know of each character."""
    from volt.kernels.noise import FINAL, INNER, MARK, WIDE

    is_mark = np.array([unicodedata.category(chr(code))[0] == "P" for code in range(_N_CODES)])
    is_wide = [unicodedata.name(chr(code), "").startswith(_WIDE_SCRIPTS) for code in range(_N_CODES)]
    told = np.where(is_mark, MARK, np.where(is_wide, WIDE, 0)).astype(np.uint8)
    told[[*np.flatnonzero(is_mark[:128]), ord(_APOSTROPHE)]] |= INNER
    told[[ord(mark) for mark in _FINAL]] |= FINAL
    return told


def _check_probability(number: float, option: str) -> None:
    if not 0 <= arguments.number(number, option) <= 1:
        raise ConfigError(f"{option}: {number}; give a probability, from 0 to 1")
