"""Noise: typos, punctuation left out or added, tokens dropped or reordered, drawn anew for each line.

A model trained on noise learns to withstand it (Karpukhin et al. 2019). Typos and punctuation take any script: no
character is cut in two, and characters that are inserted come from the same value.

Tokens are separated by spaces, or are ids. Of the n tokens of a line a number k is drawn, and then a set of k tokens,
all sets of k being equally likely:

    P(k) = exp(−T k) (1 − exp(−T)) / (1 − exp(−T n)),   k = 0 … n − 1        (temperature T; uniform where T is 0)

or each token is hit independently with the same probability, the rate. A line without tokens, and a line of which none
is hit, stay as they are. (volt.stream.transforms.vocabulary_noise adds and replaces tokens.)

>>> Drop(rate=0.5)(Batch.of(["there is a house by the sea"]), LineRng(1, 2)).lines
['there is by the sea']
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column, Longs
from volt.stream.transforms.fields import ConfiguredTransform, Fields, check_fields, with_fields
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.tokens import NO_OTHERS, Tokens, cut, token_counts, with_values, written

USUAL_TEMPERATURE = 2.0
MOST_DISTANCE = 1000.0
_FLAT, _STEEP = 1e-100, 100.0  # temperatures below and above which nothing changes that 53 bits could tell


class Noise(ConfiguredTransform):
    """Base of the transforms of noise, which validation and translation leave out."""

    __slots__ = ()
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "tokens"

    def deterministic(self) -> None:
        """Return None: nothing takes its place."""


@dataclass(frozen=True, slots=True)
class Drop(Noise):
    """Leave out tokens at random; one of each line stays at least."""

    name: ClassVar[str] = "drop"
    temperature: float | None = None
    """The rate at which the probability falls that k tokens go, as exp(-temperature k), where k runs from 0 to n - 1 in
    a line of n tokens: the more, the less noise; by default 2, which drops none in 86 of 100 lines."""
    rate: float | None = None
    """Instead of a temperature: the probability that a token goes, the same for each."""
    fields: Fields = (1,)
    """The fields that lose tokens."""

    def __post_init__(self) -> None:
        take_amount(self)
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return each_field(batch, chance, self._changed, fields=self.fields)

    def _changed(self, column: Column, draws: Draws) -> Column:
        hit = hit_tokens(column, draws, temperature=self.temperature, rate=self.rate, spared=1)
        if hit is None:
            return column
        stay = hit.drawn < 0
        ends = np.cumsum(stay, dtype=np.int64)[hit.tokens.ends - 1]
        return with_values(column, hit.lines, written(hit.tokens, np.flatnonzero(stay), ends, NO_OTHERS))


@dataclass(frozen=True, slots=True)
class Reorder(Noise):
    """Change the order of tokens: they are sorted by their place plus a random number from 0 up to max_dist."""

    name: ClassVar[str] = "reorder"
    max_dist: float = 3.0
    """No token moves this far, in tokens: at 3, by two at most. At 1 and below none moves."""
    fields: Fields = (1,)
    """The fields to reorder."""

    def __post_init__(self) -> None:
        if not 0 <= arguments.number(self.max_dist, "max_dist") <= MOST_DISTANCE:
            raise ConfigError(f"max_dist: {self.max_dist}; give a number from 0 to {MOST_DISTANCE:,.0f}")
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return each_field(batch, chance, self._changed, fields=self.fields)

    def _changed(self, column: Column, draws: Draws) -> Column:
        counts = token_counts(column)
        lines = np.flatnonzero(counts > 1)
        if self.max_dist <= 1 or not len(lines):
            return column
        from volt.kernels.noise import reorder_tokens

        tokens = cut(column.take(lines), counts[lines])
        keys, order = np.empty(len(tokens)), np.empty(len(tokens), np.int64)
        reorder_tokens(tokens.ends, float(self.max_dist), draws.seeds[lines], keys, order)
        return with_values(column, lines, written(tokens, order, tokens.ends, NO_OTHERS))


class Draws(NamedTuple):
    """The draws of a column's values: where each starts.

    chance: of the step and the field
    origins: (n,) of the lines
    """

    chance: LineRng
    origins: Longs

    @property
    def seeds(self) -> NDArray[np.uint64]:
        """(n,) a seed for each value."""
        return self.chance.words(self.origins)

    def at(self, name: str) -> Draws:
        """Another draw for the same values."""
        return Draws(self.chance.at(name), self.origins)


class Hit(NamedTuple):
    """The tokens that are hit.

    lines: (n_lines,) int64, the lines of a column with such tokens
    tokens: all tokens of these lines
    drawn: (n_tokens,) int64, −1 for a token that is not hit, otherwise a number that was drawn for it
    """

    lines: Longs
    tokens: Tokens
    drawn: Longs


def each_field(
    batch: Batch, chance: LineRng, function: Callable[[Column, Draws], Column], *, fields: Fields | None
) -> Batch:
    """Return the fields of a batch through a function, which draws for each field by itself.

    fields: by default 1 and, where a line has it, 2
    Raises LineFault for lines that lack a named field.

    >>> each_field(Batch.of(["a\\tb"]), LineRng(1, 2), lambda column, draws: column.take([0]), fields=(2,)).lines
    ['a\\tb']
    """
    batch, numbers = with_fields(batch, fields)
    return batch.with_columns(
        {field: function(batch.columns[field - 1], Draws(chance.at(field), batch.origins)) for field in numbers}
    )


def hit_tokens(
    column: Column,
    draws: Draws,
    *,
    temperature: float | None,
    rate: float | None,
    spared: int = 0,
    n_choices: int = 1,
) -> Hit | None:
    """Draw the tokens of a column that are hit; None if none is.

    temperature, rate: how many; one of them is None
    spared: how many tokens of a line are never hit
    n_choices: what is drawn for each token that is hit is a whole number from 0 up to, and without, this
    """
    from volt.kernels.noise import hit_tokens as hit

    counts = token_counts(column)
    numbers = np.minimum(numbers_of(counts, draws, temperature=temperature, rate=rate), counts - spared)
    lines = np.flatnonzero(numbers > 0)
    if not len(lines):
        return None
    tokens = cut(column.take(lines), counts[lines])
    drawn = np.empty(len(tokens), np.int64)
    hit(tokens.ends, numbers[lines], n_choices, draws.at("tokens").seeds[lines], drawn)
    return Hit(lines, tokens, drawn)


def numbers_of(counts: Longs, draws: Draws, *, temperature: float | None, rate: float | None) -> Longs:
    """(n,) int64, how many tokens of each value are hit.

    counts: (n,) int64, how many it has
    """
    if rate is None:
        uniform = draws.chance.uniform(draws.origins)
        return truncated_geometric(
            uniform, counts, temperature=USUAL_TEMPERATURE if temperature is None else temperature
        )
    from volt.kernels.noise import count_hits

    out = np.empty(len(counts), np.int64)
    count_hits(counts, float(rate), draws.seeds, out)
    return out


def truncated_geometric(uniform: NDArray[np.float64], counts: Longs, *, temperature: float) -> Longs:
    """(n,) int64, k from 0 to n − 1 with P(k) ∝ exp(−temperature k), by inversion; 0 where n is 0.

    uniform: (n,) float64, from 0 up to, and without, 1
    counts: (n,) int64, the n of each

    >>> truncated_geometric(np.array([0.0, 0.6, 0.99]), np.array([2, 2, 0]), temperature=0.0).tolist()
    [0, 1, 0]
    """
    n = np.maximum(counts, 1)
    if temperature < _FLAT:
        result = uniform * n
    else:
        steep = min(temperature, _STEEP)
        result = -np.log1p(uniform * np.expm1(-steep * n)) / steep
    whole: Longs = np.minimum(result.astype(np.int64), n - 1)
    return whole


def take_amount(transform: Any) -> None:
    """Check a transform's temperature and rate, of which one is given; where neither is, take the usual temperature."""
    temperature, rate = transform.temperature, transform.rate
    if temperature is not None and rate is not None:
        raise ConfigError(f"temperature: {temperature} and rate: {rate}; give one of them")
    if rate is not None:
        if not 0 <= arguments.number(rate, "rate") <= 1:
            raise ConfigError(f"rate: {rate}; give a probability, from 0 to 1")
    elif temperature is None:
        object.__setattr__(transform, "temperature", USUAL_TEMPERATURE)
    elif not 0 <= arguments.number(temperature, "temperature") < float("inf"):
        raise ConfigError(f"temperature: {temperature}; give a number from 0 up")


Kind = Literal["swap", "drop", "insert", "replace"]  # in the order of the numbers in volt.kernels.noise
KINDS: tuple[Kind, ...] = get_args(Kind)
Words = NDArray[np.uint64]
_N_CODES = 1 << 16
_N_AT_ONCE = 256  # characters that one random number is drawn for
_FINAL = ".!?…‼⁇⁈⁉。！？．｡؟۔।॥።፧။"  # marks that end a sentence, in any script
_APOSTROPHE = "’"  # a mark that may stand inside a word, as ASCII's
_WIDE_SCRIPTS = ("HIRAGANA", "KATAKANA", "CJK UNIFIED", "BOPOMOFO")


@dataclass(frozen=True, slots=True)
class Typos(ConfiguredTransform):
    """Misspell characters at random, with characters of the same field; spaces stay, and one character of each word."""

    name: ClassVar[str] = "typos"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "spelling"
    rate: float = 0.01
    """The probability that a character is hit; of spaces, none is."""
    kinds: tuple[Kind, ...] = KINDS
    """The change of a character that is hit: it is swapped with the next of its word, dropped, gets another inserted
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

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return _with_noise(batch, chance, self._changed, fields=self.fields)

    def deterministic(self) -> None:
        """Return None: there is no noise where nothing is drawn."""

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

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return _with_noise(batch, chance, self._changed, fields=self.fields)

    def deterministic(self) -> None:
        """Return None: there is no noise where nothing is drawn."""

    def _changed(self, column: Column, seeds: Words) -> Column:
        from volt.kernels.noise import change_marks

        column, n = column.as_text(), len(column)
        out, ends = np.empty(int(column.sizes.sum()) + 3 * n, np.uint8), np.empty(n, np.int64)
        change_marks(
            column.data, column.starts, column.sizes, seeds, float(self.drop), float(self.final), _marks(), out, ends
        )
        return _ending(out, ends)


def _with_noise(batch: Batch, chance: LineRng, function: Callable[[Column, Words], Column], *, fields: Fields) -> Batch:
    """Return the fields of a batch through a function, which is given a seed for each value."""
    batch, numbers = with_fields(batch, fields)
    return batch.with_columns(
        {field: function(batch.columns[field - 1], chance.at(field).words(batch.origins)) for field in numbers}
    )


def _ending(out: NDArray[np.uint8], ends: Longs) -> Column:
    sizes = np.diff(ends, prepend=0)
    return Column(out[: int(ends[-1]) if len(ends) else 0], ends - sizes, sizes)


@cache
def _marks() -> NDArray[np.uint8]:
    """(65,536,) what `change_marks` needs to know of each character."""
    from volt.kernels.noise import FINAL, INNER, MARK, WIDE

    is_mark = np.array([unicodedata.category(chr(code))[0] == "P" for code in range(_N_CODES)])
    is_wide = [unicodedata.name(chr(code), "").startswith(_WIDE_SCRIPTS) for code in range(_N_CODES)]
    values = np.where(is_mark, MARK, np.where(is_wide, WIDE, 0)).astype(np.uint8)
    values[[*np.flatnonzero(is_mark[:128]), ord(_APOSTROPHE)]] |= INNER
    values[[ord(mark) for mark in _FINAL]] |= FINAL
    return values


def _check_probability(number: float, option: str) -> None:
    if not 0 <= arguments.number(number, option) <= 1:
        raise ConfigError(f"{option}: {number}; give a probability, from 0 to 1")
